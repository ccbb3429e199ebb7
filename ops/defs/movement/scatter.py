"""Scatter operators: updates of elements selected by an index tensor.

Several updates of one element are applied in the order of the indices, on every device: the last update wins, sums accumulate in
this order.  An index out of range is an error, INDEX_OUT_OF_RANGE.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import Dim, const, dim, product
from ....shape_funcs.symbolic.dim_operations import all_, eq, where
from ...composition.legalize import indices
from ...core.compute import Guard, Scalar, Select, Value, apply, index
from ...core.dtype_rules import FLOATS, INDICES, INTEGERS, NUMBERS, like_inputs, require, require_same
from ...core.implementation import Kernel, OpCall, Scratch
from ...core.op import DTypeRule, NoAttrs, Op, OpPattern, TypeRelError
from ...core.parameters import Parameter, Parameters
from ...kernels.scatter import cpu as bodies
from ...kernels.scatter import cuda as cuda
from ...native.status import BAD_VALUE, SHAPE_CHECK
from .dynamic import static_form
from .indexing import as_index, inside

Axes = tuple[Scalar, ...]


@frozen
class ScatterElementsAttrs:
    """``axis``: the indexed axis; ``reduction``: the combination of an element with its updates.

    ``update``: the last update; ``mean``: the mean of the element and all its updates.
    """

    axis: int = 0
    reduction: Literal["update", "add", "mul", "mean", "min", "max"] = "update"


@frozen
class ScatterNdAttrs:
    """``mode``: the combination of an element with its updates; ``update``: the last update."""

    mode: Literal["update", "add", "mul", "min", "max"] = "update"


@frozen
class SparseToDenseAttrs:
    """``output_shape``: shape of the result."""

    output_shape: tuple[int, ...]


_SCATTER = ("data", "indices", "updates")
_SPARSE = ("sparse_indices", "sparse_values", "default_value")


def _scatter_rule(name: str, attribute: str) -> DTypeRule:
    def rule(inputs: tuple[Any, ...], attrs: Any) -> str:
        require(name, inputs[1], INTEGERS, 1, "indices")
        dtype, mode = require_same(name, inputs, (0, 2), ("data", "indices", "updates")), getattr(attrs, attribute)
        if mode != "update":
            require(name, dtype, FLOATS if mode == "mean" else NUMBERS, 0, f"data with {attribute}={mode!r}")
        return dtype

    return rule


def _sparse_rule(name: str) -> DTypeRule:
    def rule(inputs: tuple[Any, ...], attrs: Any) -> str:
        require(name, inputs[0], INTEGERS, 0, "sparse_indices")
        for dtype in inputs[3:]:
            require(name, dtype, NUMBERS, 3, "output_shape")
        return require_same(name, inputs, (1, 2), _SPARSE)

    return rule


def _slice_of(limits: Sequence[Value], k: int, size: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """Begin and end as nonnegative indices, and the stride, of axis ``k`` of a slice, according to numpy's rule."""
    begin, end, stride = (as_index(limit(k)) for limit in limits)
    backwards = stride < 0
    low = apply("where", backwards, index(-1), index(0), dtype="int64")
    high = apply("where", backwards, size - 1, size, dtype="int64")

    def limited(at: Scalar) -> Scalar:
        at = apply("where", at < 0, at + size, at, dtype="int64")
        return apply("minimum", apply("maximum", at, low), high)

    return limited(begin), limited(end), stride


def _strided_set(inputs: tuple[Value, ...], axes: Axes, attrs: Any, output: Value) -> Scalar:
    data, v, *limits = inputs
    n = const(limits[0].shape[0])
    assert n is not None, "the shape function takes no other"
    slices = [_slice_of(limits, k, output.size(k)) for k in range(n)]
    at = [apply("floordiv", axes[k] - begin, stride) for k, (begin, _, stride) in enumerate(slices)]
    found = v(*at, *axes[n:])
    for k, (begin, _, stride) in enumerate(slices):
        hit = apply("equal", axes[k], begin + at[k] * stride, dtype="bool")
        hit = apply("and", hit, inside(at[k], v.size(k)))
        found = Select(hit, found, data(*axes))
    for k, (begin, end, stride) in enumerate(slices):
        length = apply("maximum", index(0) - apply("floordiv", begin - end, stride), index(0))  # ceiling division
        found = Guard(apply("equal", length, v.size(k), dtype="bool"), SHAPE_CHECK, found)
    for _, _, stride in slices:
        found = Guard(apply("not_equal", stride, index(0), dtype="bool"), BAD_VALUE, found)
    return found


def _strided_set_rule(inputs: tuple[Any, ...], attrs: Any) -> str:
    for n, what in ((2, "begin"), (3, "end"), (4, "strides")):
        require("strided_set", inputs[n], NUMBERS, n, what)
    return require_same("strided_set", inputs, (0, 1), ("data", "v"))


def _positions_of_elements(call: OpCall) -> Dim:
    """The positions that ``bodies.scatter_elements`` needs: none where ``bodies.write_rows`` writes the updates."""
    data, positions = call.inputs[0].shape, call.inputs[1].shape
    others = (eq(n, m) for k, (n, m) in enumerate(zip(data, positions, strict=True)) if k != call.attrs.axis % len(data))
    return where(all_(*others), 0, product(positions)) if call.attrs.reduction == "update" else product(positions)


def _positions_of_tuples(call: OpCall) -> Dim:
    return product(call.inputs[1].shape[1:])


def _scratches(attribute: str, positions: Callable[[OpCall], Dim]) -> tuple[Scratch, ...]:
    """The scratch buffers of the bodies: sums, ``positions``, the positions of the updates, and counts.

    ``attribute``: the name of the attribute with the combination.
    """

    def elements(*modes: str) -> Callable[[OpCall], Dim]:
        return lambda call: product(call.inputs[0].shape) if getattr(call.attrs, attribute) in modes else dim(0)

    sums = elements(*(mode for mode in bodies.MODES if mode != "update"))
    return Scratch(length=sums), Scratch("int64", length=positions), Scratch("int64", length=elements("mean"))


def _opaque(name: str, doc: str, inputs: tuple[str, ...], dtype: DTypeRule, kernel: Kernel, **more: Any) -> None:
    Op(name=name, doc=doc, inputs=inputs, pattern=OpPattern.OPAQUE, dtype=dtype, kernels=(kernel,), **more)


_SPARSE_PYTHON = Parameters.of(
    "sparse_indices", "output_shape", "sparse_values", Parameter("default_value", 0, dtype="sparse_values")
)


def _strided_set_call(given: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """By default every stride is 1."""
    begin, strides = given.get("begin"), given["strides"]
    if strides is None and isinstance(begin, (list, tuple)):
        strides = [1] * len(begin)
    if strides is None:
        raise TypeRelError("strided_set: strides must be given when begin is an expression")
    return "strided_set", {**given, "strides": strides}


def _sparse_kernel(*views: str) -> Kernel:
    return Kernel("sparse_to_dense", bodies.sparse_to_dense, lambda attrs: {}, views, cuda=cuda.sparse_to_dense, refuses=True)


_opaque(
    "scatter_elements",
    "Each update written to the element at its index along `axis`: "
    "`scatter_elements([1, 2, 3], [2, -3], [8, 9]) = [9, 2, 8]`.  A negative index counts from the end.",
    _SCATTER,
    _scatter_rule("scatter_elements", "reduction"),
    Kernel(
        "scatter_elements",
        bodies.scatter_elements,
        attrs=lambda attrs: {"axis": attrs.axis, "mode": bodies.MODES[attrs.reduction]},
        views=("dims",),
        scratch=_scratches("reduction", _positions_of_elements),
        in_place=((0, 0),),  # the data is written first, as it is
        updates=lambda attrs: attrs.reduction == "update",
        cuda=cuda.scatter_elements,
        refuses=True,
    ),
    attrs=ScatterElementsAttrs,
    legalization=indices(1),
)
_opaque(
    "scatter_nd",
    "Each slice of the updates written to its index tuple; axis 0 holds the coordinates: "
    "`scatter_nd([[1, 2], [3, 4]], [[0, 1], [1, 0]], [8, 9]) = [[1, 8], [9, 4]]`.  A negative index counts from the end.",
    _SCATTER,
    _scatter_rule("scatter_nd", "mode"),
    Kernel(
        "scatter_nd",
        bodies.scatter_nd,
        attrs=lambda attrs: {"mode": bodies.MODES[attrs.mode]},
        views=("dims",),
        scratch=_scratches("mode", _positions_of_tuples),
        in_place=((0, 0),),  # the data is written first, as it is
        updates=lambda attrs: attrs.mode == "update",
        cuda=cuda.scatter_nd,
        refuses=True,
    ),
    attrs=ScatterNdAttrs,
    legalization=indices(1),
)
_opaque(
    "sparse_to_dense",
    "Values at points, and a default elsewhere: `sparse_to_dense([0, 3], [8, 9], 0, output_shape=[4]) = [8, 0, 0, 9]`; the "
    "last axis holds the coordinates of a point.",
    _SPARSE,
    _sparse_rule("sparse_to_dense"),
    _sparse_kernel("dims"),
    python=_SPARSE_PYTHON,
    attrs=SparseToDenseAttrs,
    legalization=indices(0),
)
_opaque(
    "dyn.sparse_to_dense",
    "`sparse_to_dense` in a shape known at run time: `dyn.sparse_to_dense([0, 3], [8, 9], 0, [4]) = [8, 0, 0, 9]`.",
    (*_SPARSE, "output_shape"),
    _sparse_rule("dyn.sparse_to_dense"),
    _sparse_kernel("dims", "dims", "dims", "skip", "dims"),
    python=_SPARSE_PYTHON,
    static=static_form("sparse_to_dense", [3], lambda attrs, shape: SparseToDenseAttrs(shape)),
    legalization=indices(0, 3),
)
_opaque(
    "invert_permutation",
    "The inverse of a permutation of 0 to n - 1: `invert_permutation([2, 0, 1]) = [1, 2, 0]`; any other vector is an error.",
    ("data",),
    like_inputs("invert_permutation", ["data"], INDICES),
    Kernel("invert_permutation", bodies.invert_permutation, lambda attrs: {}, ("flat",), cuda=cuda.invert_permutation),
)
Op(
    name="strided_set",
    doc="Part of a tensor, as numpy slices, replaced by `v`: `strided_set([0, 1, 2, 3], [8, 9], [0], [4], [2]) = [8, 1, 9, 3]`.",
    inputs=("data", "v", "begin", "end", "strides"),
    python=Parameters.of(
        "data",
        "v",
        Parameter("begin", dtype="int64"),
        Parameter("end", dtype="int64"),
        Parameter("strides", None, dtype="int64"),
        call=_strided_set_call,
    ),
    attrs=NoAttrs,
    pattern=OpPattern.INJECTIVE,
    dtype=_strided_set_rule,
    compute=_strided_set,
    legalization=indices(2, 3, 4),
)
