"""Padding around and between the elements of a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ....declarations.frozen_dataclass import frozen
from ...composition.legalize import indices
from ...core.compute import Scalar, Select, Value, apply, cast, index
from ...core.dtype_rules import NUMBERS, like_first
from ...core.op import DTypeRule, Op, OpPattern
from ...core.parameters import Parameter, Parameters
from ...core.scalar_attrs import element, require_element
from .dynamic import static_form
from .indexing import as_index, inside

Axes = tuple[Scalar, ...]
#: Per axis, the number of elements added before and after it.
Widths = tuple[tuple[int, int], ...]


@frozen
class DynPadAttrs:
    """``pad_mode``: the added elements: the pad value, the element at the edge, or the elements mirrored at the edge."""

    pad_mode: Literal["constant", "edge", "reflect"] = "constant"


@frozen
class PadAttrs:
    """``pad_width``: per axis, the number of elements added before and after it; ``pad_mode`` as in DynPadAttrs."""

    pad_width: Widths
    pad_mode: Literal["constant", "edge", "reflect"] = "constant"


@frozen
class MirrorPadAttrs:
    """``pad_width`` as in PadAttrs; ``mode``: ``SYMMETRIC`` repeats the element at the edge, ``REFLECT`` does not."""

    pad_width: Widths
    mode: Literal["SYMMETRIC", "REFLECT"] = "SYMMETRIC"


@frozen
class DilateAttrs:
    """``strides``: per axis, the distance of the elements in the result; ``dilation_value``: the value between them."""

    strides: tuple[int, ...]
    dilation_value: float = 0.0


def _padded(
    data: Value, axes: Axes, before: Sequence[Scalar], padded: Sequence[int], mode: str, value: Scalar | None
) -> Scalar:  # fmt: skip
    """The element at ``axes`` of ``data`` with ``before[k]`` elements added before axis k, an axis of ``padded``."""
    at = [i - b for i, b in zip(axes, before, strict=True)]
    if mode == "constant":
        assert value is not None
        found, last = data(*at), data.rank - 1
        for k in reversed([k for k in padded if k != last]):
            found = Select(inside(at[k], data.size(k)), found, value)
        if last not in padded:
            return found
        # two bounds of the innermost loop, which is split at them where they are sizes
        found = Select(axes[last] < before[last], value, found)
        return Select(axes[last] < before[last] + data.size(last), found, value)
    place = {"edge": _clamped, "reflect": _reflected, "REFLECT": _reflected, "SYMMETRIC": _mirrored}[mode]
    return data(*(place(i, data.size(k)) if k in padded else i for k, i in enumerate(at)))


def _clamped(at: Scalar, size: Scalar) -> Scalar:
    return apply("minimum", apply("maximum", at, index(0)), size - 1)


def _reflected(at: Scalar, size: Scalar) -> Scalar:
    at = apply("abs", at)
    return apply("minimum", at, (size - 1) + (size - 1) - at)


def _mirrored(at: Scalar, size: Scalar) -> Scalar:
    at = apply("maximum", at, index(-1) - at)
    return apply("minimum", at, size + size - 1 - at)


def _pad(inputs: tuple[Value, ...], axes: Axes, attrs: PadAttrs, output: Value) -> Scalar:
    data, value = inputs
    before = [index(b) for b, _ in attrs.pad_width]
    return _padded(data, axes, before, _changed(attrs.pad_width), attrs.pad_mode, cast(value(), output.dtype))


def _changed(width: Widths) -> list[int]:
    """The axes that are padded.  An axis may keep its size and be padded: as many elements are removed as added."""
    return [axis for axis, pair in enumerate(width) if any(pair)]


def _mirror_pad(inputs: tuple[Value, ...], axes: Axes, attrs: MirrorPadAttrs, output: Value) -> Scalar:
    return _padded(inputs[0], axes, [index(b) for b, _ in attrs.pad_width], _changed(attrs.pad_width), attrs.mode, None)


def _dyn_pad(inputs: tuple[Value, ...], axes: Axes, attrs: DynPadAttrs, output: Value) -> Scalar:
    data, width, value = inputs
    before = [as_index(width(k, 0)) for k in range(data.rank)]
    return _padded(data, axes, before, range(data.rank), attrs.pad_mode, cast(value(), output.dtype))


def _dilate(inputs: tuple[Value, ...], axes: Axes, attrs: DilateAttrs, output: Value) -> Scalar:
    (data,) = inputs
    at = [i if s == 1 else apply("floordiv", i, index(s)) for i, s in zip(axes, attrs.strides, strict=True)]
    found = data(*at)
    for i, stride in zip(axes, attrs.strides, strict=True):
        if stride != 1:
            hit = apply("equal", apply("floormod", i, index(stride)), index(0), dtype="bool")
            found = Select(hit, found, element(attrs.dilation_value, output.dtype))
    return found


def _pad_rule(name: str, value: int) -> DTypeRule:
    return like_first(name, ("data", "pad_width", "pad_value"), {1: NUMBERS} if value == 2 else {})


def _dilate_rule(inputs: tuple[Any, ...], attrs: DilateAttrs) -> str:
    require_element("nn.dilate", "dilation_value", attrs.dilation_value, inputs[0])
    return str(inputs[0])


_PYTHON = Parameters.of("data", "pad_width", Parameter("pad_value", 0, dtype="data"), "pad_mode")


def _static_pad(attrs: DynPadAttrs, width: tuple[int, ...]) -> PadAttrs:
    return PadAttrs(tuple(zip(width[::2], width[1::2], strict=True)), attrs.pad_mode)


Op(
    name="nn.pad",
    doc="Elements added around a tensor: `nn.pad([1, 2], 0, pad_width=[[1, 2]]) = [0, 1, 2, 0, 0]`; with `constant` a "
    "negative width removes elements, with `reflect` an axis is longer than the padding on either end.",
    inputs=("data", "pad_value"),
    python=_PYTHON,
    attrs=PadAttrs,
    pattern=OpPattern.INJECTIVE,
    dtype=_pad_rule("nn.pad", 1),
    compute=_pad,
)
Op(
    name="nn.mirror_pad",
    doc="The elements mirrored at each edge: `nn.mirror_pad([1, 2, 3], pad_width=[[1, 2]]) = [1, 1, 2, 3, 3, 2]`.",
    inputs=("data",),
    attrs=MirrorPadAttrs,
    pattern=OpPattern.INJECTIVE,
    dtype=like_first("nn.mirror_pad", ("data",)),
    compute=_mirror_pad,
)
Op(
    name="dyn.nn.pad",
    doc="`nn.pad` whose widths are known at run time: `dyn.nn.pad([1, 2], [[1, 0]], 7) = [7, 1, 2]`.",
    inputs=("data", "pad_width", "pad_value"),
    python=_PYTHON,
    attrs=DynPadAttrs,
    pattern=OpPattern.INJECTIVE,
    dtype=_pad_rule("dyn.nn.pad", 2),
    compute=_dyn_pad,
    legalization=indices(1),
    static=static_form("nn.pad", [1], _static_pad),
)
Op(
    name="nn.dilate",
    doc="Elements inserted between the elements of a tensor: `nn.dilate([1, 2], strides=[3]) = [1, 0, 0, 2]`.",
    inputs=("data",),
    attrs=DilateAttrs,
    pattern=OpPattern.INJECTIVE,
    dtype=_dilate_rule,
    compute=_dilate,
)
