"""Spatial tensors in either layout as one canonical shape."""
