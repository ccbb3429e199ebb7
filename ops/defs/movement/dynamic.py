"""The ``dyn.*`` operators: an attribute of the static operator is a run-time tensor.

``Op.static`` of each operator is the rule that converts it to the static operator if that tensor is a constant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....declarations.frozen_dataclass import frozen
from ...composition.legalize import indices
from ...core.compute import Literal, Scalar, Value, apply, index
from ...core.dtype_rules import NUMBERS, known_dtype, like_first, require
from ...core.op import DTypeRule, NoAttrs, Op, OpPattern
from ...core.parameters import Parameters
from ..arithmetic.broadcast import BroadcastToAttrs, first_broadcast
from ..arithmetic.creation import FullAttrs, InitAttrs, fill_element, full_dtype, one_element, zero_element
from .indexing import ONE_HOT_PYTHON, OneHotAttrs, as_index, one_hot, one_hot_dtype
from .transform import DynSliceAttrs, ExpandDimsAttrs, ReshapeAttrs, SliceAttrs, SqueezeAttrs, TileAttrs, tiled, view

Axes = tuple[Scalar, ...]


@frozen
class DynReshapeAttrs:
    """``allowzero``: whether a 0 in ``newshape`` is the size 0; otherwise 0 keeps the size of the data."""

    allowzero: bool = False


@frozen
class DynExpandDimsAttrs:
    """``num_newaxis``: the number of inserted axes."""

    num_newaxis: int = 1


@frozen
class DynFullAttrs:
    """``dtype``: dtype of the result; "" for the dtype of ``fill_value``."""

    dtype: str = ""


@frozen
class DynInitAttrs:
    """``dtype``: dtype of the result."""

    dtype: str = "float32"


@frozen
class DynOneHotAttrs:
    """``axis``: position of the new axis; ``dtype``: dtype of the result."""

    axis: int = -1
    dtype: str = "float32"


def ints(constant: np.ndarray) -> tuple[int, ...]:
    """The elements of a constant as ints."""
    return tuple(int(v) for v in np.asarray(constant).reshape(-1))


def static_form(name: str, known: Sequence[int], attrs: Callable[..., Any]) -> Callable[..., Any]:
    """The rule ``Op.static`` of an operator that is replaced by ``name`` if the inputs at the positions ``known`` are constants.

    ``attrs(attrs, *values)``: the static operator's attributes from the values (tuples of ints), or None: no replacement.
    """

    def rule(given: Any, constants: Sequence[np.ndarray | None]) -> tuple[str, Any] | None:
        values = [constants[k] for k in known]
        if any(v is None for v in values):
            return None
        made = attrs(given, *(ints(v) for v in values if v is not None))
        return None if made is None else (name, made)

    return rule


def _dtype(name: str, names: Sequence[str], shapes: Sequence[int]) -> DTypeRule:
    return like_first(name, names, dict.fromkeys(shapes, NUMBERS))


# ---- views ---------------------------------------------------------------------------------------------------------


def _reshape_attrs(attrs: DynReshapeAttrs, newshape: tuple[int, ...]) -> ReshapeAttrs | None:
    # values below -1 are special only in the static operator, where they determine the rank
    return None if min(newshape, default=0) < -1 else ReshapeAttrs(newshape, attrs.allowzero)


view(
    "dyn.reshape",
    "The elements in a shape known at run time (0 keeps a size, -1 is inferred): "
    "`dyn.reshape([1, 2, 3, 4], [2, -1]) = [[1, 2], [3, 4]]`.",
    DynReshapeAttrs,
    ("data", "newshape"),
    dtype=_dtype("dyn.reshape", ("data", "newshape"), [1]),
    static=static_form("reshape", [1], _reshape_attrs),
    legalization=indices(1),
)
view(
    "dyn.squeeze",
    "Axes of size 1 removed, their numbers known at run time: `dyn.squeeze([[1, 2]], [0]) = [1, 2]`.",
    None,
    ("data", "axis"),
    dtype=_dtype("dyn.squeeze", ("data", "axis"), [1]),
    static=static_form("squeeze", [1], lambda attrs, axis: SqueezeAttrs(axis)),
    legalization=indices(1),
)
view(
    "dyn.expand_dims",
    "Axes of size 1 put in at a position known at run time: `dyn.expand_dims([1, 2], 0) = [[1, 2]]`.",
    DynExpandDimsAttrs,
    ("data", "axis"),
    dtype=_dtype("dyn.expand_dims", ("data", "axis"), [1]),
    static=static_form("expand_dims", [1], lambda attrs, axis: ExpandDimsAttrs(axis[0], attrs.num_newaxis)),
    legalization=indices(1),
)

# ---- elements ------------------------------------------------------------------------------------------------------


def _slice(inputs: tuple[Value, ...], axes: Axes, attrs: DynSliceAttrs, output: Value) -> Scalar:
    data, begin, _, strides = inputs
    at = list(axes)
    for k in range(_length(begin)):
        first, size = as_index(begin(k)), data.size(k)
        first = apply("where", first < 0, first + size, first, dtype="int64")
        if attrs.slice_mode == "size":
            at[k] = apply("maximum", first, index(0)) + axes[k]
            continue
        stride = as_index(strides(k))
        backwards = apply("minimum", first, size - 1)
        first = apply("where", stride < 0, backwards, apply("maximum", first, index(0)), dtype="int64")
        at[k] = first + axes[k] * stride
    return data(*at)


def _length(vector: Value) -> int:
    size = vector.size(0)
    assert isinstance(size, Literal)  # the shape function takes only vectors of known length
    return int(size.value)


def _declare(
    name: str, doc: str, inputs: tuple[str, ...], compute: Any, static: Any, attrs: type = NoAttrs,
    dtype: DTypeRule | None = None, legal: tuple[int, ...] = (), python: Parameters | None = None,
) -> Op:  # fmt: skip
    """Declare a fusable dyn operator; ``legal``: the inputs that are indices or sizes.

    Without ``dtype``, every input but the first determines the shape.
    """
    shapes = legal or tuple(range(1, len(inputs)))
    return Op(
        name=name, doc=doc, inputs=inputs, python=python, attrs=attrs, pattern=OpPattern.INJECTIVE,
        dtype=dtype or _dtype(name, inputs, shapes), compute=compute, static=static, legalization=indices(*shapes),
    )  # fmt: skip


_declare(
    "dyn.strided_slice",
    "Part of a tensor, bounds known at run time: `dyn.strided_slice([0, 1, 2, 3], [1], [4], [2]) = [1, 3]`.",
    ("data", "begin", "end", "strides"),
    _slice,
    static_form(
        "strided_slice",
        [1, 2, 3],
        lambda attrs, begin, end, strides: SliceAttrs(begin, end, strides, slice_mode=attrs.slice_mode),
    ),
    DynSliceAttrs,
)
_declare(
    "dyn.tile",
    "The whole tensor repeated `reps` times, known at run time: `dyn.tile([1, 2], [2]) = [1, 2, 1, 2]`.",
    ("data", "reps"),
    tiled,
    static_form("tile", [1], lambda attrs, reps: TileAttrs(reps)),
)
_declare(
    "dyn.broadcast_to",
    "The data repeated to a shape known at run time: `dyn.broadcast_to([1], [3]) = [1, 1, 1]`.",
    ("data", "shape"),
    first_broadcast,
    static_form("broadcast_to", [1], lambda attrs, shape: BroadcastToAttrs(shape)),
)


def _full_rule(inputs: tuple[Any, ...], attrs: DynFullAttrs) -> str:
    require("dyn.full", inputs[1], NUMBERS, 1, "shape")
    return full_dtype("dyn.full", inputs[0], attrs.dtype)


def _init_rule(name: str) -> DTypeRule:
    def rule(inputs: tuple[Any, ...], attrs: DynInitAttrs) -> str:
        require(name, inputs[0], NUMBERS, 0, "shape")
        return known_dtype(name, attrs.dtype)

    return rule


def _one_hot_rule(inputs: tuple[Any, ...], attrs: DynOneHotAttrs) -> str:
    require("dyn.one_hot", inputs[3], NUMBERS, 3, "depth")
    return one_hot_dtype("dyn.one_hot", inputs, attrs.dtype)


_declare(
    "dyn.full",
    "A tensor of a shape known at run time, filled with a scalar: `dyn.full(7, [2]) = [7, 7]`.",
    ("fill_value", "shape"),
    fill_element,
    static_form("full", [1], lambda attrs, shape: FullAttrs(shape, attrs.dtype)),
    DynFullAttrs,
    _full_rule,
)
_declare(
    "dyn.zeros",
    'Zeros in a shape known at run time: `dyn.zeros([2], dtype="int32") = [0, 0]`.',
    ("shape",),
    zero_element,
    static_form("zeros", [0], lambda attrs, shape: InitAttrs(shape, attrs.dtype)),
    DynInitAttrs,
    _init_rule("dyn.zeros"),
    (0,),
)
_declare(
    "dyn.ones",
    'Ones in a shape known at run time: `dyn.ones([2], dtype="int32") = [1, 1]`.',
    ("shape",),
    one_element,
    static_form("ones", [0], lambda attrs, shape: InitAttrs(shape, attrs.dtype)),
    DynInitAttrs,
    _init_rule("dyn.ones"),
    (0,),
)
_declare(
    "dyn.one_hot",
    '`one_hot` whose depth is known at run time: `dyn.one_hot([1], 1, 0, 3, dtype="int32") = [[0, 1, 0]]`.',
    ("indices", "on_value", "off_value", "depth"),
    one_hot,
    static_form("one_hot", [3], lambda attrs, depth: OneHotAttrs(depth[0], attrs.axis, attrs.dtype)),
    DynOneHotAttrs,
    _one_hot_rule,
    (0, 3),
    ONE_HOT_PYTHON,
)
