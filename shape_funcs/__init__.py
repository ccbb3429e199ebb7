"""Layer 0: dims in, dims out.  Symbolic dimensions, shape functions and their per-input flags.

Importing this package registers the shape function of every operator.
"""

from . import broadcast, conv, creation, indexing, nn, reduce, reshape, roi, slicing, sorting, transform, vision

__all__ = [
    "broadcast", "conv", "creation", "indexing", "nn", "reduce", "reshape", "roi", "slicing", "sorting", "transform", "vision",
]  # fmt: skip
