"""Sizes as values: how many elements a tensor has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .composite import Term, call, cast, composite
from .dtype_rules import INTEGERS, known_dtype
from .op import get
from .transform import ShapeOfAttrs


@dataclass(frozen=True)
class NdarraySizeAttrs:
    """``dtype``: of the number."""

    dtype: str = "int32"


def _ndarray_size(inputs: tuple[Any, ...], attrs: NdarraySizeAttrs) -> Term:
    # a shape is on the host, so its product is computed there and costs no copy
    return cast(call(get("prod"), call(get("shape_of"), inputs[0], attrs=ShapeOfAttrs("int64"))), attrs.dtype)


composite(
    name="ndarray_size",
    doc="How many elements there are: `ndarray_size([[1, 2, 3]]) = 3`.  Touches none of them.",
    inputs=("data",),
    attrs=NdarraySizeAttrs,
    dtype=lambda inputs, attrs: known_dtype("ndarray_size", attrs.dtype, INTEGERS),
    expand=_ndarray_size,
)
