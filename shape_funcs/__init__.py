"""Layer 0: dims in, dims out.  Symbolic dimensions, shape functions and their per-input flags.

Importing this package registers the shape function of every operator.
"""

from . import broadcast, creation, indexing, nn, reduce, reshape, slicing, sorting, transform, vision

__all__ = ["broadcast", "creation", "indexing", "nn", "reduce", "reshape", "slicing", "sorting", "transform", "vision"]
