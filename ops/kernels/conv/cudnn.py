"""Convolution by cuDNN, whose plan is made for sizes and alignment: see ``cuda_program.Convolution``.

float32 without TF32, float64, and halves with sums in float32; the result has the dtype of the data.
"""

from __future__ import annotations

from typing import Any

from ....shape_funcs.symbolic.dim import Dim, product
from ....shape_funcs.symbolic.dim_operations import all_, lt
from ...codegen.cuda.cuda_program import Convolution, Data
from ...core.tensor_types import computed_in
from .weight_layout import OUT_IN_SPACE, OUT_SPACE_IN

#: cudnnDataType_t (cudnn_graph.h).
_TYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 9}
#: Elements of a tensor from which some of the library's kernels overflow.
_MOST_ELEMENTS = 2**31
#: The layouts of weight, data and result that the library's engines have: all with channels first, or all with channels last.
_LAYOUTS = ((OUT_IN_SPACE, False, False), (OUT_SPACE_IN, True, True))


def supports(given: dict[str, Any], data: str, weight: str, out: str) -> bool:
    """Whether the library may have engines for these layouts and dtypes."""
    return given["layouts"] in _LAYOUTS and data == weight == out and data in _TYPES


def supports_transposed(given: dict[str, Any], data: str, weight: str, out: str) -> bool:
    """Whether the library may have engines for a transposed convolution: all channels first, one dtype."""
    return not any(given["layouts"]) and data == weight == out and data in _TYPES


def convolution(
    tensors: tuple[Data, Data, Data],
    dtype: str,
    given: dict[str, Any],
    sizes: tuple[tuple[Dim, ...], tuple[Dim, ...], tuple[Dim, ...]],
    rank: int,
    instead: int,
    is_transposed: bool = False,
) -> Convolution:
    """The convolution of ``tensors``: data, weight and result.

    ``sizes`` of data, weight and result: batch and channels (of the weight: output channels and channels of a group), and three
    spatial axes.  ``given``: the attributes of the CPU body.  ``rank``: spatial axes of the tensors.  ``instead``: the number of
    the steps that it replaces.  ``is_transposed``: the convolution of which ``tensors`` are result, weight and data.
    """
    data, weight, out = sizes
    within = (lt(product(tensor), _MOST_ELEMENTS) for tensor in sizes)
    return Convolution(
        *tensors,
        sizes=(data[0], data[1], out[1], weight[1], *data[2:], *out[2:], *weight[2:]),
        axes=max(rank, 2),  # the library has no convolution over one axis
        stride=given["stride"],
        dilation=given["dilation"],
        before=given["before"],
        channels_last=bool(given["layouts"][1]),
        types=(_TYPES[dtype], _TYPES[dtype]),
        compute=_TYPES[computed_in(dtype)],
        unless=all_(*within, *(lt(0, product(tensor)) for tensor in sizes)),
        instead=instead,
        is_transposed=is_transposed,
    )
