"""Searches; the kernels of ``argwhere`` and ``unique`` report the sizes of their results."""

from __future__ import annotations

from typing import Any

from ....declarations.frozen_dataclass import frozen
from ...core.dtype_rules import INDICES, NUMBERS, known_dtype, require, require_same
from ...core.implementation import Kernel, Scratch
from ...core.op import Op, OpPattern
from ...kernels.search import cpu as bodies
from ...kernels.search import cuda as cuda
from ...kernels.sort.cpu import searchsorted


@frozen
class UniqueAttrs:
    """``is_sorted``: whether the values are sorted; otherwise in order of first occurrence; ``return_counts``: whether to return
    the number of occurrences of each value, too."""

    is_sorted: bool = True
    return_counts: bool = False


@frozen
class SearchsortedAttrs:
    """``right``: whether positions are after equal elements; otherwise before them; ``dtype``: dtype of the positions."""

    right: bool = False
    dtype: str = "int32"


_SEARCHSORTED_INPUTS = ("sorted_sequence", "values")


def _searchsorted_rule(dtypes: tuple[Any, ...], attrs: Any) -> str:
    require_same("searchsorted", dtypes, (0, 1), _SEARCHSORTED_INPUTS)
    return known_dtype("searchsorted", attrs.dtype, INDICES)


def _unique_rule(dtypes: tuple[Any, ...], attrs: Any) -> tuple[str, ...]:
    require("unique", dtypes[0], NUMBERS, 0, "data")
    return (dtypes[0], "int32", "int32", "int32", *(["int32"] if attrs.return_counts else []))


Op(
    name="argwhere",
    doc="The index of each element that is not zero, one row each: `argwhere([0, 5, 7]) = [[1], [2]]`.",
    inputs=("condition",),
    pattern=OpPattern.OPAQUE,
    dtype=lambda dtypes, attrs: "int32",
    kernels=(Kernel("argwhere", bodies.argwhere, attrs=lambda attrs: {}, views=("dims", ""), cuda=cuda.argwhere, elements=(0,)),),
)

Op(
    name="unique",
    doc="The distinct values of a vector, the index of each first occurrence, the value number of each element, and their count: "
    "`unique([4, 9, 4]) = ([4, 9], [0, 1], [0, 1, 0], [2])`.  All NaN are one value.",
    inputs=("data",),
    attrs=UniqueAttrs,
    pattern=OpPattern.OPAQUE,
    dtype=_unique_rule,
    kernels=(
        Kernel(
            "unique",
            bodies.unique,
            attrs=lambda attrs: {"is_sorted": attrs.is_sorted},
            views=("flat",),
            scratch=(Scratch(), Scratch("int64"), Scratch(), Scratch("int64")),
            choose=lambda attrs, dtypes: bodies.unique_with_counts if attrs.return_counts else bodies.unique,
            cuda=cuda.unique,
        ),
    ),
)

Op(
    name="searchsorted",
    doc="The insertion positions of values in a sorted sequence: `searchsorted([1, 3, 5], [2, 3]) = [1, 1]`.",
    inputs=_SEARCHSORTED_INPUTS,
    attrs=SearchsortedAttrs,
    pattern=OpPattern.OPAQUE,
    dtype=_searchsorted_rule,
    kernels=(
        Kernel("searchsorted", searchsorted, attrs=lambda attrs: {"right": attrs.right}, views=("dims",), cuda=cuda.searchsorted),
    ),
)
