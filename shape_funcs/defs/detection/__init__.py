"""Shape functions: boxes: anchors, proposals, non-maximum suppression."""
