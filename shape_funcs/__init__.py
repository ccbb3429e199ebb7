"""Layer 0: symbolic dimensions, shape functions and their data-dependence flag per input.

Importing this package registers the shape function of every operator.
"""

from .defs import (
    blocks,
    broadcast,
    conv,
    conv_transpose,
    creation,
    fft,
    image,
    indexing,
    matrix,
    nn,
    pad,
    rearrange,
    reduce,
    reshape,
    roi,
    scatter,
    slicing,
    sort,
    tensor_layout,
    transform,
    upsampling,
    vision,
)

__all__ = [
    "blocks",
    "broadcast",
    "conv",
    "conv_transpose",
    "creation",
    "fft",
    "image",
    "indexing",
    "matrix",
    "nn",
    "pad",
    "rearrange",
    "reduce",
    "reshape",
    "roi",
    "scatter",
    "slicing",
    "sort",
    "tensor_layout",
    "transform",
    "upsampling",
    "vision",
]
