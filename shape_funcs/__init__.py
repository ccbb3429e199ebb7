"""Layer 0: dims in, dims out.  Symbolic dimensions, shape functions and their per-input flags."""
