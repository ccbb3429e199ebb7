"""Boxes: anchors, proposals, non-maximum suppression."""
