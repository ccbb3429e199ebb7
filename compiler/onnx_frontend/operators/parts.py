"""Parts of tensors: slices and splits, along axes and between limits known at import or at run time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ....shape_funcs.symbolic.int_operations import INT64_MAX
from ...builder.build import const
from ...builder.operator_functions import operators as relay
from ...ir.expr import Expr, type_of
from ..node import Node
from ..operator_table import onnx_operator
from ..run_time_checks import check_lengths
from .vectors import as_int64, measured, numbers

_ONE_EACH = "starts, ends, axes and steps have one number for each axis that is sliced"


@onnx_operator("Slice", since=1)
def slice_by_attributes(node: Node, x: Expr) -> Expr:
    starts, ends = node.required("starts"), node.required("ends")
    axes = node.attr("axes", list(range(len(starts))))
    _check_known(node, {"starts": len(starts), "ends": len(ends), "axes": len(axes)}, node.rank(x))
    return relay.strided_slice(x, starts, ends, [1] * len(starts), node.axes(axes, node.rank(x)))


@onnx_operator("Slice", since=10)
def slice_by_inputs(node: Node, x: Expr, starts: Expr, ends: Expr, axes: Expr | None, steps: Expr | None) -> Expr:
    rank = node.rank(x)
    which = None if axes is None else node.constant(axes)
    _check_limits(node, {"axes": axes, "starts": starts, "ends": ends, "steps": steps}, rank)
    if axes is not None and which is None:
        return _sliced_at_run_time(node, x, starts, ends, axes, steps)
    if axes is None and None in node.sizes(starts):  # the first axes, whose number is known at run time
        starts, ends, steps = _for_every_axis(node, starts, ends, steps, rank)
    starts, count = measured(node, starts, "starts", None if which is None else which.size)
    ends, steps = measured(node, ends, "ends", count)[0], None if steps is None else measured(node, steps, "steps", count)[0]
    counted = node.axes(range(count) if which is None else [int(a) for a in which.reshape(-1)], rank)
    known = [node.constant(e) for e in (starts, ends, numbers([1] * count) if steps is None else steps)]
    lists = [[int(v) for v in k.reshape(-1)] for k in known if k is not None]
    if len(lists) == len(known):
        return relay.strided_slice(x, *lists, counted)
    begin, end, strides = (
        _on_all_axes(node, e, counted, rank, default) for e, default in ((starts, 0), (ends, INT64_MAX), (steps, 1))
    )
    return relay.dyn.strided_slice(x, begin, end, strides)


def _check_limits(node: Node, inputs: Mapping[str, Expr | None], rank: int) -> None:
    """Check that the inputs of a slice are vectors with a number for each sliced axis; unknown lengths are checked at run time.

    Raises ModelError.
    """
    given = {name: node.bind(e) for name, e in inputs.items() if e is not None}
    for name, vector in given.items():
        if node.rank(vector) != 1 or node.dtype(vector) not in ("int32", "int64"):
            raise node.error(f"{name} is {type_of(vector)}, not a vector of int32 or int64", _ONE_EACH)
    _check_known(node, {name: n for name, e in given.items() if (n := node.size(e, 0)) is not None}, rank)
    # the vector of known length is the first, if there is one
    (first, vector), *rest = sorted(given.items(), key=lambda item: node.size(item[1], 0) is None)
    for name, other in rest:
        if node.size(other, 0) is None:
            check_lengths(node, vector, other, f"the length of {first} is {{}}, that of {name} is {{}}; {_ONE_EACH}")
    if inputs["axes"] is None and node.size(vector, 0) is None:
        possible = node.bind(relay.strided_slice(vector, [0], [rank]))
        check_lengths(node, vector, possible, f"the length of {first} is {{}}, but the data has {{}} axes")


def _check_known(node: Node, counts: Mapping[str, int], rank: int) -> None:
    """Raise ModelError for different lengths, and for more numbers than axes."""
    if len(set(counts.values())) > 1:
        raise node.error(", ".join(f"{name} has {n} number{'s' * (n != 1)}" for name, n in counts.items()), _ONE_EACH)
    too_long = [name for name, n in counts.items() if n > rank]
    if too_long:
        raise node.error(f"{too_long[0]} has {counts[too_long[0]]} numbers, but the data has {rank} axes", _ONE_EACH)


def _for_every_axis(node: Node, starts: Expr, ends: Expr, steps: Expr | None, rank: int) -> tuple[Expr, Expr, Expr | None]:
    """The numbers of the first axes as vectors for all axes."""
    given = [as_int64(node, e) for e in (starts, ends, steps) if e is not None]
    rows = node.bind(relay.stack(given, 0))
    # the numbers for the other axes
    rest = const(np.array([[fill] * rank for fill in (0, INT64_MAX, 1)[: len(given)]], np.int64))
    count = relay.strided_slice(relay.shape_of(rows, dtype="int64"), [1], [2])
    begin = relay.concatenate([numbers([0]), count], 0)
    rest = relay.dyn.strided_slice(rest, begin, numbers([len(given), rank]), numbers([1, 1]))
    whole = node.bind(relay.reshape(relay.concatenate([rows, rest], 1), [len(given), rank]))
    limits = [relay.take(whole, const(k, "int64"), axis=0) for k in range(len(given))]
    return limits[0], limits[1], None if steps is None else limits[2]


def _on_all_axes(node: Node, given: Expr | None, axes: list[int], rank: int, default: int) -> Expr:
    """The numbers of some axes as a vector for all axes."""
    if given is None:
        return numbers([default] * rank)
    if axes == list(range(rank)):
        return as_int64(node, given)
    whole = relay.concatenate([as_int64(node, given), numbers([default])], 0)
    return relay.take(whole, numbers([axes.index(a) if a in axes else len(axes) for a in range(rank)]), axis=0)


def _sliced_at_run_time(node: Node, x: Expr, starts: Expr, ends: Expr, axes: Expr, steps: Expr | None) -> Expr:
    """A slice along axes that are known at run time."""
    rank = node.rank(x)

    def everywhere(given: Expr | None, default: int) -> Expr:
        base = numbers([default] * rank)
        if given is None:
            return base
        return relay.scatter_elements(base, as_int64(node, axes), as_int64(node, given), 0, "update")

    return relay.dyn.strided_slice(x, everywhere(starts, 0), everywhere(ends, INT64_MAX), everywhere(steps, 1))


@onnx_operator("Split", since=2)
def split_by_attribute(node: Node, x: Expr) -> list[Expr]:
    parts = node.attr("split")
    return _split(node, x, None if parts is None else np.array(parts))


@onnx_operator("Split", since=13)
def split(node: Node, x: Expr, parts: Expr | None) -> list[Expr]:
    declared = node.attr("num_outputs", len(node.outputs))
    if declared != len(node.outputs):
        raise node.error(f"it has {len(node.outputs)} outputs, but num_outputs is {declared}")
    if parts is None:
        return _split(node, x, None)
    if node.has("num_outputs"):
        raise node.error("it has an input split and an attribute num_outputs; one of both is possible")
    known = node.constant(parts)
    if known is not None:
        return _split(node, x, known)
    parts, _ = measured(node, parts, "split", len(node.outputs), INT64_MAX)
    return open_parts(node, x, node.axis(node.attr("axis", 0), node.rank(x)), parts, len(node.outputs))


def _split(node: Node, x: Expr, parts: Any) -> list[Expr]:
    axis, count = node.axis(node.attr("axis", 0), node.rank(x)), len(node.outputs)
    total = node.size(x, axis)
    if parts is None:
        if total is None:
            return _equal_parts(node, x, axis, count)
        each = -(-total // count)
        parts = [min(each, max(total - k * each, 0)) for k in range(count)]
    if len(parts) != count:
        raise node.error(f"it has {count} outputs and {len(parts)} parts")
    return known_parts(node, x, axis, parts)


def known_parts(node: Node, x: Expr, axis: int, parts: Sequence[Any]) -> list[Expr]:
    """The parts of a tensor along an axis, of known sizes.  Raises ModelError for sizes that are not those of the axis."""
    total = node.size(x, axis)
    ends = np.cumsum([int(n) for n in parts]).tolist()
    if total is not None and ends and ends[-1] != total:
        raise node.error(f"the parts have {ends[-1]} elements of {total}")
    return [relay.strided_slice(x, [end - int(n)], [end], [1], [axis]) for n, end in zip(parts, ends, strict=True)]


def _equal_parts(node: Node, x: Expr, axis: int, count: int) -> list[Expr]:
    """The parts of an axis whose size is known at run time: equal ones, but the last."""
    total = relay.take(relay.shape_of(x, dtype="int64"), const(axis, "int64"), axis=0)
    each = relay.floor_divide(relay.add(total, const(count - 1, "int64")), const(count, "int64"))
    bounds = [relay.minimum(relay.multiply(each, const(k, "int64")), total) for k in range(count + 1)]
    return [part_of(node, x, axis, a, b) for a, b in pairwise(bounds)]


def open_parts(node: Node, x: Expr, axis: int, parts: Expr, count: int) -> list[Expr]:
    """The parts of a tensor along an axis, of sizes known at run time."""
    ends = relay.cumsum(as_int64(node, parts), axis=0)
    begins = relay.subtract(ends, as_int64(node, parts))
    return [
        part_of(node, x, axis, relay.strided_slice(begins, [k], [k + 1]), relay.strided_slice(ends, [k], [k + 1]))
        for k in range(count)
    ]


def part_of(node: Node, x: Expr, axis: int, begin: Expr, end: Expr) -> Expr:
    """The part of a tensor along an axis, from ``begin`` to ``end``."""
    rank = node.rank(x)
    begin, end = (node.bind(relay.reshape(n, [1])) for n in (begin, end))
    whole = _on_all_axes(node, begin, [axis], rank, 0), _on_all_axes(node, end, [axis], rank, INT64_MAX)
    return relay.dyn.strided_slice(x, *whole, numbers([1] * rank))
