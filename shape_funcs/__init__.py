"""Layer 0: dims in, dims out.  Symbolic dimensions, shape functions and their per-input flags.

Importing this package registers the shape function of every operator.
"""

from . import (
    blocks,
    broadcast,
    conv,
    conv_transpose,
    creation,
    image,
    indexing,
    layout,
    matrix,
    nn,
    pad,
    rearrange,
    reduce,
    reshape,
    roi,
    scatter,
    slicing,
    sorting,
    transform,
    transforms,
    upsampling,
    vision,
)  # fmt: skip

__all__ = [
    "blocks", "broadcast", "conv", "conv_transpose", "creation", "image", "indexing", "layout", "matrix", "nn", "pad",
    "rearrange", "reduce", "reshape", "roi", "scatter", "slicing", "sorting", "transform", "transforms", "upsampling",
    "vision",
]  # fmt: skip
