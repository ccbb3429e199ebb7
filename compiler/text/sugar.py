"""Tensor literals and slices, which become plain Relay: a constant, ``strided_slice`` and ``squeeze``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ops.core import op
from ...ops.core.tensor_types import MAX_RANK, numpy_dtype
from ...shape_funcs.symbolic.int_operations import INT64_MAX
from ...vm.diagnostics.source import Span
from ..ir.expr import Call, Expr
from .attributes import make_attrs
from .literals import LiteralError, read_literal


class SugarProblem(Exception):
    """A tensor literal or slice without a meaning.  ``at``: the part at fault, None for the whole; ``help``: the remedy."""

    def __init__(self, message: str, at: Any = None, help: str | None = None) -> None:
        super().__init__(message)
        self.at, self.help = at, help


def literal_text(tree: Any) -> str | None:
    """The text of a number with its signs; None for any other expression."""
    signs = 0
    while tree.data == "minus":
        signs, tree = signs + 1, tree.children[1]
    return "-" * (signs % 2) + str(tree.children[0]) if tree.data == "number" else None


# ---- tensor literals ---------------------------------------------------------------------------------------------


def tensor_of(tree: Any) -> np.ndarray:
    """The array of a tensor literal, a tree ``tensor``.  Raises SugarProblem."""
    shape: list[int] = []
    _measure(tree, shape, 0)
    leaves = [tree]
    for _ in shape:
        leaves = [child for item in leaves for child in item.children]
    elements = [_element(leaf) for leaf in leaves]
    dtypes = dict.fromkeys(element.dtype.name for element in elements)
    if set(dtypes) == {"int32", "int64"} and all((literal_text(leaf) or "").lstrip("-").isdigit() for leaf in leaves):
        dtypes = {"int64": None}
    if len(dtypes) > 1:
        first, second = list(dtypes)[:2]
        at = next(leaf for leaf, element in zip(leaves, elements, strict=True) if element.dtype.name == second)
        help = "the elements of a tensor have one dtype; a suffix states it, as in 1f, 1i64"
        raise SugarProblem(f"{first} and {second} elements in one tensor", at, help)
    return np.array(elements, numpy_dtype(next(iter(dtypes)))).reshape(shape)


def _measure(tree: Any, shape: list[int], axis: int) -> None:
    """Append the size of each axis to ``shape``, or compare with it.  Raises SugarProblem."""
    if axis == MAX_RANK:
        raise SugarProblem(f"a tensor has at most {MAX_RANK} dimensions", tree)
    count = len(tree.children)
    if count == 0:
        raise SugarProblem("a tensor without elements has no dtype", tree, 'write `zeros(shape=[0], dtype="float32")`')
    if axis == len(shape):
        shape.append(count)
    elif count != shape[axis]:
        raise SugarProblem(f"a row of {count} elements beside rows of {shape[axis]}", tree, "all rows have equally many elements")
    inner = [child for child in tree.children if child.data == "tensor"]
    if not inner and axis + 1 == len(shape):
        return
    if len(inner) != count:
        odd = next(child for child in tree.children if child.data != "tensor")
        raise SugarProblem("an element beside rows", odd, "all rows have equally many elements")
    for child in inner:
        _measure(child, shape, axis + 1)


def _element(leaf: Any) -> np.ndarray:
    """The value of one element.  Raises SugarProblem."""
    if leaf.data == "bool":
        return np.array(leaf.children[0] == "True")
    text = literal_text(leaf)
    if text is None:
        help = "`stack((%a, %b), axis=0)` makes a tensor of computed values"
        raise SugarProblem("the elements of a tensor literal are numbers", leaf, help)
    try:
        return read_literal(text)
    except LiteralError as error:
        raise SugarProblem(str(error), leaf, error.help) from None


# ---- slices ------------------------------------------------------------------------------------------------------


def sliced(data: Expr, items: Sequence[Any], span: Span) -> Expr:
    """``data[items]``: a ``strided_slice``, and a ``squeeze`` of the axes that an integer selects from.  Raises SugarProblem."""
    ellipses = [k for k, item in enumerate(items) if item.data == "ellipsis"]
    if len(ellipses) > 1:
        raise SugarProblem("a second `...`", items[ellipses[1]], "one `...` stands for all other axes")
    if len(items) - len(ellipses) > MAX_RANK:
        raise SugarProblem(f"a tensor has at most {MAX_RANK} dimensions, {len(items)} are indexed")
    first_from_end = ellipses[0] + 1 if ellipses else len(items)
    begin, end, strides, axes, dropped = [], [], [], [], []
    for k, item in enumerate(items):
        if item.data == "ellipsis":
            continue
        axis = k if k < first_from_end else k - len(items)
        low, high, step, is_element = _bounds(item)
        begin.append(low)
        end.append(high)
        strides.append(step)
        axes.append(axis)
        if is_element:
            dropped.append(axis)
    if axes:
        strides = strides if set(strides) != {1} else [1]
        data = _call("strided_slice", data, span, begin=begin, end=end, strides=strides, axes=axes)
    return _call("squeeze", data, span, axis=dropped) if dropped else data


def _call(name: str, data: Expr, span: Span, **attributes: Any) -> Expr:
    operator = op.get(name)
    return Call(operator, (data,), make_attrs(operator, attributes), span=span)


def _bounds(item: Any) -> tuple[int, int, int, bool]:
    """Begin, end and step of an item, and whether it is one element.  Raises SugarProblem."""
    if item.data != "slice":
        index = _integer(item)
        return index, INT64_MAX if index == -1 else index + 1, 1, True
    parts = [_integer(part.children[0]) if part.children else None for part in item.children]
    low, high, step = [*parts, None][:3]
    if step == 0:
        raise SugarProblem("the step of a slice is 0", item)
    step = 1 if step is None else step
    if step < 0:
        return -1 if low is None else low, -INT64_MAX if high is None else high, step, False
    return low or 0, INT64_MAX if high is None else high, step, False


def _integer(tree: Any) -> int:
    """The integer of a bound.  Raises SugarProblem."""
    text = literal_text(tree)
    if text is None:
        help = "`take(%x, %i, axis=0)` selects computed positions, `dyn.strided_slice` takes computed bounds"
        raise SugarProblem("the bounds of a slice are integers", tree, help)
    try:
        value = read_literal(text)
    except LiteralError as error:
        raise SugarProblem(str(error), tree, error.help) from None
    if value.dtype.kind not in "iu" or not -INT64_MAX < int(value) < INT64_MAX:
        raise SugarProblem(f"the bounds of a slice are integers, not {text}", tree)
    return int(value)
