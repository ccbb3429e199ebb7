"""Stream compaction."""
