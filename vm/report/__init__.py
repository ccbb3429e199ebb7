"""Reports on runs: profiles with their views and exports, and interleaved timings."""
