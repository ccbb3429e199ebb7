"""Operators on quantised tensors: integers that stand for ``(q - zero_point) * scale``."""

from . import arithmetic, functions, products, quantisation, requantisation

__all__ = ["arithmetic", "functions", "products", "quantisation", "requantisation"]
