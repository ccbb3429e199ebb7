"""Sorting, top k and cumulative operators along an axis.  Sorting is stable; NaN is larger than every number."""

from __future__ import annotations

from typing import Any, Literal

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import Dim, product
from ...composition.legalize import indices
from ...core.conditions import Conditions, condition
from ...core.dtype_rules import INDICES, NUMBERS, known_dtype, require
from ...core.implementation import Kernel, OpCall, Scratch, Split
from ...core.op import DTypeRule, Op, OpPattern
from ...core.tensor_types import HALVES
from ...kernels.scan import cuda as cuda_scanning
from ...kernels.scan import halves as half_scans
from ...kernels.sort import cpu as bodies
from ...kernels.sort import cuda as cuda
from ...kernels.sort.radix import COUNTERS

#: Dtypes of positions; Relay's models also use float32.
POSITIONS = (*INDICES, "float32")


@frozen
class SortAttrs:
    """``axis``: the sorted axis; ``is_ascend``: whether the smallest element is first."""

    axis: int = -1
    is_ascend: bool = True


@frozen
class ArgsortAttrs:
    """As SortAttrs; ``dtype``: dtype of the positions."""

    axis: int = -1
    is_ascend: bool = True
    dtype: str = "int32"


@frozen
class DynTopkAttrs:
    """``ret_type``: "both" values and positions, or "values", or "indices"; ``dtype``: dtype of the positions."""

    axis: int = -1
    ret_type: Literal["both", "values", "indices"] = "both"
    is_ascend: bool = False
    dtype: str = "int32"


@frozen
class TopkAttrs:
    """As DynTopkAttrs; ``k``: number of elements, less than 1 for all."""

    k: int = 1
    axis: int = -1
    ret_type: Literal["both", "values", "indices"] = "both"
    is_ascend: bool = False
    dtype: str = "int32"


@frozen
class CumulativeAttrs:
    """``axis``: the accumulated axis, None for the flattened data; ``dtype``: dtype of the result, "" for the data's;
    ``exclusive``: whether each result excludes the element itself."""

    axis: int | None = None
    dtype: str = ""
    exclusive: bool = False


def _cumulative_body(dtypes: tuple[str, ...]) -> Any:
    if dtypes[-1] not in HALVES:
        return bodies.cumulate
    return half_scans.cumulate_halves if dtypes[0] in HALVES else half_scans.cumulate_to_halves


def _cumulative(name: str, doc: str, is_product: bool) -> None:
    Op(
        name=name,
        doc=doc,
        inputs=("data",),
        attrs=CumulativeAttrs,
        pattern=OpPattern.OPAQUE,
        dtype=lambda dtypes, attrs: known_dtype(name, attrs.dtype or dtypes[0], NUMBERS),
        kernels=(
            Kernel(
                name,
                bodies.cumulate,
                attrs=lambda attrs: {"exclusive": attrs.exclusive, "is_product": is_product},
                views=("axis",),
                choose=lambda attrs, dtypes: _cumulative_body(dtypes),
                split=Split(ns=1),
                cuda=cuda_scanning.cumprod if is_product else cuda_scanning.cumsum,
            ),
        ),
    )


def _position_rule(name: str) -> DTypeRule:
    def rule(dtypes: tuple[Any, ...], attrs: Any) -> str:
        return known_dtype(name, attrs.dtype, POSITIONS)

    return rule


def _topk_rule(name: str) -> DTypeRule:
    def rule(dtypes: tuple[Any, ...], attrs: Any) -> str | tuple[str, ...]:
        positions = known_dtype(name, attrs.dtype, POSITIONS)
        for dtype in dtypes[1:]:
            require(name, dtype, NUMBERS, 1, "k")
        results: dict[str, str | tuple[str, ...]] = {
            "both": (dtypes[0], positions),
            "values": dtypes[0],
            "indices": positions,
        }
        return results[attrs.ret_type]

    return rule


def _is_ascend(attrs: Any) -> dict[str, bool]:
    return {"is_ascend": attrs.is_ascend}


#: Scratch buffers of the length of the axis: keys and order, twice, as source and target of each step.
_BUFFERS = (Scratch(axis=1), Scratch("int64", axis=1)) * 2
_COUNTERS = (*_BUFFERS, Scratch("int64", length=COUNTERS))


def _length(call: OpCall) -> Dim:
    """The size of the sorted axis."""
    shape, axis = call.inputs[0].shape, call.attrs.axis
    return product(shape) if axis is None else shape[axis]


def _sort_kernels(name: str, by_radix: Any, by_merging: Any, on_gpu: Any) -> tuple[Kernel, ...]:
    def countable(call: OpCall) -> Conditions:
        return (condition(_length(call), "<=", bodies.DIGITS_TO),)

    def many(call: OpCall) -> Conditions:
        return (condition(_length(call), ">=", bodies.DIGITS_FROM),)

    given: dict[str, Any] = {"attrs": _is_ascend, "views": ("axis",)}
    return (
        Kernel("radix", by_radix, fits=countable, pays=many, scratch=_COUNTERS, split=Split(ns=30), **given),
        Kernel("merge", by_merging, scratch=_BUFFERS, split=Split(ns=30), **given),
        Kernel(name, None, cuda=on_gpu, **given),
    )


def _few(call: OpCall) -> Conditions:
    """The conditions that k is small compared with the size of the axis."""
    return (condition(call.outputs[0].shape[call.attrs.axis] * bodies.HEAP_SHARE, "<=", _length(call)),)


def _topk_kernel(name: str, way: int, *views: str, **more: Any) -> Kernel:
    return Kernel(
        name,
        bodies.topk,
        attrs=lambda attrs: {"is_ascend": attrs.is_ascend, "way": way},
        views=views,
        scratch=_COUNTERS,
        choose=lambda attrs, dtypes: bodies.TOPK_BODIES[attrs.ret_type],
        split=Split(ns=3),
        **more,
    )


def _topk_static(attrs: Any, constants: Any) -> tuple[str, TopkAttrs] | None:
    """``Op.static`` of ``dyn.topk``: with a constant ``k``, ``topk``."""
    k = constants[1]
    if k is None:
        return None
    return "topk", TopkAttrs(int(k.reshape(-1)[0]), attrs.axis, attrs.ret_type, attrs.is_ascend, attrs.dtype)


Op(
    name="sort",
    doc="The elements along an axis in order: `sort([3, 1, 2]) = [1, 2, 3]`.",
    inputs=("data",),
    attrs=SortAttrs,
    pattern=OpPattern.OPAQUE,
    dtype=lambda dtypes, attrs: dtypes[0],
    kernels=_sort_kernels("sort", bodies.sort_by_radix, bodies.sort_by_merging, cuda.sort),
)

Op(
    name="argsort",
    doc="The positions that put an axis in order: `argsort([3, 1, 2]) = [1, 2, 0]`.",
    inputs=("data",),
    attrs=ArgsortAttrs,
    pattern=OpPattern.OPAQUE,
    dtype=_position_rule("argsort"),
    kernels=_sort_kernels("argsort", bodies.argsort_by_radix, bodies.argsort_by_merging, cuda.argsort),
)

Op(
    name="topk",
    doc="The first `k` elements along an axis, largest first, and their positions: `topk([3, 1, 2], k=2) = ([3, 2], [0, 2])`.",
    inputs=("data",),
    attrs=TopkAttrs,
    pattern=OpPattern.OPAQUE,
    dtype=_topk_rule("topk"),
    kernels=(
        _topk_kernel("select", bodies.BY_HEAP, "axis", pays=_few),
        _topk_kernel("sort", bodies.BY_SORTING, "axis"),
        Kernel("topk", None, _is_ascend, ("axis",), cuda=cuda.topk),
    ),
)

Op(
    name="dyn.topk",
    doc="`topk` with a `k` known at run time: `dyn.topk([3, 1, 2], 2) = ([3, 2], [0, 2])`.",
    inputs=("data", "k"),
    attrs=DynTopkAttrs,
    pattern=OpPattern.OPAQUE,
    dtype=_topk_rule("dyn.topk"),
    kernels=(_topk_kernel("topk", bodies.BY_EITHER, "axis", "skip", "axis", cuda=cuda.topk),),
    static=_topk_static,
    legalization=indices(1),
)

_cumulative("cumsum", "The sums of all elements up to each along an axis: `cumsum([1, 2, 3]) = [1, 3, 6]`; integers wrap.", False)
_cumulative(
    "cumprod", "The products of all elements up to each along an axis: `cumprod([1, 2, 3]) = [1, 2, 6]`; integers wrap.", True
)
