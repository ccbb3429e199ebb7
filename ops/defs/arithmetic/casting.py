"""Conversions of elements to the dtype of another tensor, and of bits to another dtype."""

from __future__ import annotations

from typing import Any

from ...composition.composite import Term, cast, composite
from ...core.dtype_rules import known_dtype
from ...core.implementation import Kernel
from ...core.op import Op, OpPattern, TypeRelError
from ...core.tensor_types import DTYPES, ITEMSIZE
from ...kernels.bitcast import cpu
from ...kernels.bitcast import cuda as cuda
from .elementwise import CastAttrs


def _cast_like(inputs: tuple[Term, Term], attrs: Any) -> Term:
    data, like = inputs
    return cast(data, like.dtype)


composite(
    name="cast_like",
    doc="The elements in the dtype of `dtype_like`: `cast_like([1.7], 0) = [1]`, where 0 is an int32.",
    inputs=("data", "dtype_like"),
    dtype=lambda dtypes, attrs: str(dtypes[1]),
    expand=_cast_like,
)


def _same_width(dtypes: tuple[Any, ...], attrs: CastAttrs) -> str:
    (own,) = dtypes
    # the bits of a bool are those of 0 or 1
    valid = [d for d in DTYPES if ITEMSIZE[d] == ITEMSIZE[own] and (d != "bool" or own == "bool")]
    wanted = known_dtype("reinterpret", attrs.dtype)
    if wanted not in valid:
        raise TypeRelError(f"reinterpret: the bits of {own} are none of {wanted}; valid: {', '.join(valid)}", input=0)
    return wanted


Op(
    name="reinterpret",
    doc='The same bits under another dtype of the same width: `reinterpret([1.0], dtype="int32") = [1065353216]`.',
    inputs=("data",),
    attrs=CastAttrs,
    pattern=OpPattern.OPAQUE,
    shape_func_name="elementwise",
    dtype=_same_width,
    kernels=(
        Kernel(
            "reinterpret",
            cpu.reinterpret,
            attrs=lambda attrs: {},
            views=("flat",),
            choose=lambda attrs, dtypes: cpu.body_for(*dtypes),
            cuda=cuda.reinterpret,
        ),
    ),
)
