"""Valid counts and non-maximum suppression."""
