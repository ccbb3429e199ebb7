"""Bit casts between dtypes of the same width."""
