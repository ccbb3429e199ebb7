"""Windows over spatial axes: the attributes that convolutions and pools share."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....declarations.frozen_dataclass import frozen
from ...builder.build import const
from ...builder.operator_functions import operators as relay
from ...ir.expr import Expr
from ..node import Node
from .elementwise import number


@frozen
class Window:
    """The kernel's sizes, steps and distances by spatial axis; ``begin`` and ``end``: the padding.

    ``auto``: SAME_UPPER or SAME_LOWER if the padding depends on sizes at run time, else "".  ``weight``: the weights of
    the kernel if its sizes are known at run time only; then those in ``kernel`` are 1.
    """

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    begin: list[int]
    end: list[int]
    auto: str
    weight: Expr | None = None

    @property
    def extents(self) -> list[int]:
        """The size of the whole window by axis.  The sizes of the kernel must be known."""
        assert self.weight is None
        return [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True)]

    def extents_at_run_time(self) -> Expr:
        """The size of the whole window by axis, as a vector."""
        if self.weight is None:
            return const(_int64(self.extents))
        one, count = const(1, "int64"), len(self.kernel)
        kernel = relay.strided_slice(relay.shape_of(self.weight, dtype="int64"), [2], [2 + count])
        return relay.add(relay.multiply(relay.subtract(kernel, one), const(_int64(self.dilations))), one)


def window_attributes(node: Node, x: Expr, weight: Expr | None = None, *, strided: bool = True) -> Window:
    """The window of a node.  Raises ModelError.

    ``weight``: weights whose spatial axes have the sizes of the kernel if the attribute ``kernel_shape`` is not given.

    ``strided``: whether the strides are those of the data, and its sizes give the padding for SAME_UPPER and SAME_LOWER.
    """
    spatial = node.rank(x) - 2
    given = node.required("kernel_shape") if weight is None else _kernel_shape(node, weight)
    unknown = weight if None in given else None
    sizes = given if unknown is None else [1] * spatial
    automatic = {"NOTSET": "NOTSET", "VALID": "VALID", "SAME_UPPER": "SAME_UPPER", "SAME_LOWER": "SAME_LOWER"}
    ones, auto = [1] * spatial, node.choice("auto_pad", automatic, "NOTSET")
    strides, dilations = node.attr("strides", ones), node.attr("dilations", ones)
    pads = node.attr("pads", [0] * (2 * spatial)) if auto == "NOTSET" else [0] * (2 * spatial)
    for name, values, count in (("kernel_shape", sizes, spatial), ("strides", strides, spatial),
                                ("dilations", dilations, spatial), ("pads", pads, 2 * spatial)):  # fmt: skip
        if len(values) != count:
            raise node.error(f"{name} has {len(values)} numbers; {count} are wanted for {spatial} spatial axes")
        if name != "pads" and min(values, default=1) < 1:
            raise node.error(f"{name} has the number {min(values)}; 1 is the smallest")
    auto = auto if auto.startswith("SAME") else ""
    window = Window(sizes, strides, dilations, pads[:spatial], pads[spatial:], auto, unknown)
    known = unknown is None and None not in node.sizes(x)[2:]
    return _same(node, x, window) if strided and auto and known else window


def _kernel_shape(node: Node, weight: Expr) -> list[Any]:
    """The sizes of the kernel: those of the weights, which ``kernel_shape`` may tell.  Raises ModelError if it contradicts."""
    sizes = list(node.sizes(weight)[2:])
    given = node.attr("kernel_shape", sizes)
    if len(given) == len(sizes) and any(size not in (None, g) for g, size in zip(given, sizes, strict=True)):
        found = ", ".join("?" if n is None else str(n) for n in sizes)
        raise node.error(f"kernel_shape is {list(given)}, but the weights have the spatial sizes [{found}]")
    return list(given)


def _same(node: Node, x: Expr, window: Window) -> Window:
    """The window with the padding for as many windows as there are steps in the data."""
    begin, end = [], []
    for size, stride, extent in zip(node.sizes(x)[2:], window.strides, window.extents, strict=True):
        assert size is not None
        total = max((-(-size // stride) - 1) * stride + extent - size, 0)
        small, large = total // 2, total - total // 2
        begin.append(small if window.auto == "SAME_UPPER" else large)
        end.append(large if window.auto == "SAME_UPPER" else small)
    return Window(window.kernel, window.strides, window.dilations, begin, end, "")


def padded_for_windows(node: Node, x: Expr, window: Window, value: float | Expr) -> tuple[Expr, list[int]]:
    """The data and the padding that is left for the operator: padding of data of unknown size is added to the data."""
    if not window.auto:
        return x, [*window.begin, *window.end]
    spatial = len(window.kernel)
    size = relay.strided_slice(relay.shape_of(x, dtype="int64"), [2], [2 + spatial])
    strides, extents = const(_int64(window.strides)), window.extents_at_run_time()
    one, two, zero = (const(n, "int64") for n in (1, 2, 0))
    steps = relay.floor_divide(relay.subtract(relay.add(size, strides), one), strides)
    covered = relay.add(relay.multiply(relay.subtract(steps, one), strides), extents)
    total = relay.maximum(relay.subtract(covered, size), zero)
    small = relay.floor_divide(total, two)
    large = relay.subtract(total, small)
    pair = [small, large] if window.auto == "SAME_UPPER" else [large, small]
    width = relay.concatenate([const(_int64([[0, 0], [0, 0]])), relay.stack(pair, 1)], 0)
    padding = value if isinstance(value, Expr) else number(value, node.dtype(x))
    return relay.dyn.nn.pad(x, width, padding), [0] * (2 * spatial)


def _int64(values: object) -> np.ndarray:
    return np.array(values, np.int64)
