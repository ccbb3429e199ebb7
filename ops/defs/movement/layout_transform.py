"""Layout transformation."""

from __future__ import annotations

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.defs.movement.tensor_layout import Layout, matching_parts, parse_layouts
from ...core.compute import Scalar, Value, apply, index
from ...core.dtype_rules import like_first
from ...core.op import Op, OpPattern

Axes = tuple[Scalar, ...]


@frozen
class LayoutTransformAttrs:
    """``src_layout``, ``dst_layout``: layouts of the data and the result, such as ``NCHW``, ``NHWC``, ``NCHW16c``."""

    src_layout: str
    dst_layout: str


def _layout_transform(inputs: tuple[Value, ...], axes: Axes, attrs: LayoutTransformAttrs, output: Value) -> Scalar:
    source, result = parse_layouts(attrs.src_layout, attrs.dst_layout)
    at: dict[int, Scalar] = {}
    for name in source.names():
        pairs = matching_parts(source, result, name)
        at |= _recut(source, result, name, axes) if pairs is None else {a: axes[b] for a, b in pairs}
    return inputs[0](*(at[k] for k in range(len(at))))


def _recut(source: Layout, result: Layout, name: str, axes: Axes) -> dict[int, Scalar]:
    """The indices along the source's parts of axis ``name``, computed from the indices along the result's parts."""
    whole = index(0)
    for axis, _, counts in result.parts(name):
        whole = whole + axes[axis] * index(counts)
    out = {}
    for axis, factor, counts in source.parts(name):
        part = whole if counts == 1 else apply("floordiv", whole, index(counts))
        out[axis] = part if factor is None else apply("floormod", part, index(factor))
    return out


LAYOUT_TRANSFORM = Op(
    name="layout_transform",
    doc='The data in another layout, with axes permuted and split: `layout_transform([[1, 2, 3, 4]], src_layout="NC", '
    'dst_layout="NC2c") = [[[1, 2], [3, 4]]]`.  The size of a split axis must be a multiple of its inner sizes.',
    inputs=("data",),
    attrs=LayoutTransformAttrs,
    pattern=OpPattern.INJECTIVE,
    dtype=like_first("layout_transform", ("data",)),
    compute=_layout_transform,
)
