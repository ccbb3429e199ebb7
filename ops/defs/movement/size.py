"""The number of elements of a tensor as a value."""

from __future__ import annotations

from typing import Any

from ....declarations.frozen_dataclass import frozen
from ...composition.composite import Term, call, cast, composite
from ...core.dtype_rules import INTEGERS, known_dtype
from ...core.op import get
from .transform import ShapeOfAttrs


@frozen
class NdarraySizeAttrs:
    """``dtype``: dtype of the result."""

    dtype: str = "int32"


def _ndarray_size(inputs: tuple[Any, ...], attrs: NdarraySizeAttrs) -> Term:
    # a shape is on the host: its product is computed there, without a copy
    return cast(call(get("prod"), call(get("shape_of"), inputs[0], attrs=ShapeOfAttrs("int64"))), attrs.dtype)


composite(
    name="ndarray_size",
    doc="The number of elements: `ndarray_size([[1, 2, 3]]) = 3`.  Reads no element.",
    inputs=("data",),
    attrs=NdarraySizeAttrs,
    dtype=lambda inputs, attrs: known_dtype("ndarray_size", attrs.dtype, INTEGERS),
    expand=_ndarray_size,
)
