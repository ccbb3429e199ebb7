"""Non-maximum suppression of each class."""
