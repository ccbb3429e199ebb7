"""Data and weights in blocked layouts (``NCHW4c``, ``OIHW4i4o``): computed in the plain layout, transformed before and after.

The kernels take plain layouts only.
"""

from __future__ import annotations

from typing import Any

from ....shape_funcs.defs.movement.tensor_layout import parse_layout
from ...composition.composite import Term, call
from ...core.op import get
from .layout_transform import LayoutTransformAttrs


def is_blocked(*layouts: str) -> bool:
    """Whether a layout splits an axis."""
    return any(letter.isdigit() for layout in layouts for letter in layout)


def plain(layout: str, what: str) -> str:
    """The letters of the whole axes, in order.  Raises ShapeError if ``layout``, the attribute ``what``, is no layout."""
    parse_layout(layout, what)
    return "".join(letter for letter in layout if letter.isupper())


def relaid(data: Term, source: str, result: str) -> Term:
    """``data`` in the layout ``source`` brought to the layout ``result``."""
    if source == result:
        return data
    moved: Term = call(get("layout_transform"), data, attrs=LayoutTransformAttrs(source, result))
    return moved


def out_layouts(attrs: Any, own: str) -> tuple[str, str]:
    """The result's layout, by default ``own``, and the plain layout in which it is computed."""
    layout = attrs.out_layout or own
    return layout, plain(layout, "out_layout")
