"""Operators that give the elements the dtype of another tensor, or their bits another dtype."""

from __future__ import annotations

from typing import Any

from .composite import Term, cast, composite
from .dtype_rules import known_dtype
from .elementwise import CastAttrs
from .implementation import Kernel
from .kernels import bits
from .kernels.cuda import bits as cuda
from .op import Op, OpPattern, TypeRelError
from .ty import DTYPES, ITEMSIZE


def _cast_like(inputs: tuple[Term, Term], attrs: Any) -> Term:
    data, like = inputs
    return cast(data, like.dtype)


composite(
    name="cast_like",
    doc="The elements in the dtype of `like`: `cast_like([1.7], 0) = [1]`, where 0 is an int32.",
    inputs=("data", "like"),
    dtype=lambda dtypes, attrs: str(dtypes[1]),
    expand=_cast_like,
)


def _same_width(dtypes: tuple[Any, ...], attrs: CastAttrs) -> str:
    (own,) = dtypes
    # a byte that is neither 0 nor 1 is no bool
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
            bits.reinterpret,
            attrs=lambda attrs: {},
            views=("flat",),
            choose=lambda attrs, dtypes: bits.body_for(*dtypes),
            cuda=cuda.reinterpret,
        ),
    ),
)
