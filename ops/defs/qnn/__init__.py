"""Operators on quantised tensors: integers that stand for ``(q - zero_point) * scale``."""
