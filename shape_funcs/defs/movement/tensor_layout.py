"""Layouts of tensors as text (``NCHW``, ``NHWC``, ``NCHW16c``) and the shape function of ``layout_transform``."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from ....declarations.frozen_dataclass import frozen
from ...symbolic.argument_checks import dimensions, same_size
from ...symbolic.dim import Dim, Shape, dim, product
from ...symbolic.dim_operations import eq
from ...symbolic.registry import Operand, ShapeError, check, register_shape_func

_PART = re.compile(r"(\d*)([A-Za-z])")


@frozen
class Layout:
    """A layout.  ``axes``: per axis of a tensor its letter, and its size if the layout states one.

    An axis of the data is split into a primal axis (capital letter) and inner axes of fixed sizes (small letters): with ``16c``
    the index along the axis of the data is ``16 * C + c``.  Of several inner axes of one letter, the left one is the outer one.
    """

    axes: tuple[tuple[str, int | None], ...]

    def names(self) -> frozenset[str]:
        """The names of the data's axes, in capitals."""
        return frozenset(letter for letter, factor in self.axes if factor is None)

    def parts(self, name: str) -> tuple[tuple[int, int | None, int], ...]:
        """The axes of the tensor that an axis of the data is split into: number, size (None: the primal axis), and the stride of
        its index within the axis of the data."""
        cut = [(k, factor) for k, (letter, factor) in enumerate(self.axes) if letter == name and factor is not None]
        whole = next(k for k, axis in enumerate(self.axes) if axis == (name, None))
        ordered: list[tuple[int, int | None]] = [(whole, None), *cut]
        return tuple((k, factor, math.prod(f for _, f in ordered[n + 1 :] if f)) for n, (k, factor) in enumerate(ordered))


def parse_layout(text: str, what: str) -> Layout:
    """The layout written as ``text``; ``what`` names it in errors.  Raises ShapeError."""
    axes: list[tuple[str, int | None]] = []
    at = 0
    while at < len(text):
        found = _PART.match(text, at)
        if found is None:
            raise ShapeError(f"{what} {text!r} is no layout: it has {text[at:]!r} where a letter must be")
        digits, letter = found.groups()
        if letter.isupper() and digits:
            raise ShapeError(f"{what} {text!r} gives {letter} a size; only small letters have one")
        if letter.islower() and not int(digits or 0):
            raise ShapeError(f"{what} {text!r} gives {letter} no size; write 4{letter} for parts of 4")
        axes.append((letter.upper(), int(digits) if digits else None))
        at = found.end()
    whole = [letter for letter, factor in axes if factor is None]
    for letter, factor in axes:
        if factor is None and whole.count(letter) > 1:
            raise ShapeError(f"{what} {text!r} has {letter} twice")
        if letter not in whole:
            raise ShapeError(f"{what} {text!r} has {letter.lower()} but no {letter}")
    return Layout(tuple(axes))


def parse_layouts(source: str, result: str) -> tuple[Layout, Layout]:
    """Two layouts of the same axes.  Raises ShapeError."""
    layouts = parse_layout(source, "src_layout"), parse_layout(result, "dst_layout")
    if layouts[0].names() != layouts[1].names():
        raise ShapeError(f"src_layout {source!r} and dst_layout {result!r} must have the same capital letters")
    return layouts


@register_shape_func("layout_transform")
def layout_transform(inputs: tuple[Operand], attrs: Any) -> Shape:
    """The data's axes merged according to ``attrs.src_layout`` and split according to ``attrs.dst_layout``."""
    (data,) = inputs
    source, result = parse_layouts(attrs.src_layout, attrs.dst_layout)
    if len(source.axes) != data.rank:
        raise ShapeError(f"src_layout {attrs.src_layout!r} has {dimensions(len(source.axes))}, the data {data.rank}", input=0)
    sizes = list(data.shape)
    for axis, (letter, factor) in enumerate(source.axes):
        if factor is not None:
            message = f"axis {axis} ({factor}{letter.lower()}) has size {{}}, not {{}}"
            sizes[axis] = same_size(sizes[axis], dim(factor), message, 0, axis)
    return tuple(_size(k, result, {name: product(sizes[axis] for axis, _, _ in source.parts(name)) for name in source.names()})
                 for k in range(len(result.axes)))  # fmt: skip


def _size(axis: int, layout: Layout, whole: dict[str, Dim]) -> Dim:
    letter, factor = layout.axes[axis]
    if factor is not None:
        return dim(factor)
    parts = math.prod(f for _, f, _ in layout.parts(letter) if f)
    check(eq(whole[letter] % parts, 0), f"{letter} has size {{}}, which is not a multiple of {parts}", whole[letter], input=0)
    return whole[letter] // parts


def matching_parts(source: Layout, result: Layout, name: str) -> Sequence[tuple[int, int]] | None:
    """Pairs of axes (source, result) if both layouts split axis ``name`` of the data into equal sizes, else None."""
    pairs = list(zip(source.parts(name), result.parts(name), strict=False))
    alike = len(source.parts(name)) == len(result.parts(name)) and all(a[1] == b[1] for a, b in pairs)
    return [(a[0], b[0]) for a, b in pairs] if alike else None
