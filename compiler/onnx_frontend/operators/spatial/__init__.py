"""Operators over spatial axes: pools, padding, resizes, samples, transposed convolutions."""
