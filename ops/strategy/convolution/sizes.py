"""Sizes of a call of convolution, and the conditions that several implementations have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import Dim, Shape, product
from ....shape_funcs.symbolic.dim_operations import max_, min_
from ...core.conditions import Conditions, condition
from ...core.implementation import OpCall
from ...core.tensor_types import ITEMSIZE
from ...kernels.conv.weight_layout import OUT_IN_SPACE, OUT_SPACE_IN, SPACE_IN_OUT, SPACE_OUT_IN
from ...native.jit.products.register_tile import panel_width
from ..products.matmul_strategy import is_one_float

#: Minimum number of output channels per group for which a matrix product pays.
LEAST_CHANNELS = 4
#: Output channels for which the preparation of operands pays: it takes as long as the products of some 16 channels.
LEAST_PREPARED = 96
#: ``(attrs) -> keyword arguments of a kernel body``.
Geometry = Callable[[Any], dict[str, Any]]


@frozen
class Convolution:
    """The sizes of a call of convolution over ``rank`` spatial axes."""

    rank: int
    geometry: Geometry

    @property
    def given(self) -> dict[str, Any]:
        """The attributes and the views of the implementations of the weight as it is."""
        return {"attrs": self.geometry, "views": ("dims",)}

    def space(self, tensor: Shape, layout: str) -> tuple[Dim, ...]:
        """The spatial sizes of the data or the result."""
        return tuple(d for d, letter in zip(tensor, layout, strict=True) if letter not in "NC")

    def sizes(self, call: OpCall) -> tuple[tuple[Dim, ...], tuple[Dim, ...]]:
        """The spatial sizes of the data and of the result."""
        attrs = call.attrs
        return (
            self.space(call.inputs[0].shape, attrs.data_layout),
            self.space(call.outputs[0].shape, attrs.out_layout or attrs.data_layout),
        )

    def weight(self, call: OpCall) -> tuple[Dim, Dim, tuple[Dim, ...]]:
        """The output channels, the input channels of a group, and the taps of the weight."""
        shape, layout = call.inputs[1].shape, self.geometry(call.attrs)["layouts"][0]
        outputs, inputs = {OUT_IN_SPACE: (0, 1), OUT_SPACE_IN: (0, -1), SPACE_IN_OUT: (-1, -2), SPACE_OUT_IN: (-2, -1)}[layout]
        first = {OUT_IN_SPACE: 2, OUT_SPACE_IN: 1}.get(layout, 0)
        return shape[outputs], shape[inputs], shape[first : first + self.rank]

    def width(self, call: OpCall) -> int:
        """The number of elements of a vector: of a row of a panel."""
        return panel_width(ITEMSIZE[call.inputs[0].dtype])

    def enough_channels(self, call: OpCall) -> Conditions:
        """The condition that there are enough output channels per group for a matrix product."""
        return (condition(self.weight(call)[0], ">=", call.attrs.groups * LEAST_CHANNELS),)

    def is_channels_first(self, call: OpCall) -> bool:
        """Whether channels come before space in data, weight and result, all of one BLAS dtype."""
        return is_one_float(call) and self.geometry(call.attrs)["layouts"] == (OUT_IN_SPACE, False, False)

    def has_unit_stride(self, call: OpCall) -> bool:
        """Whether the strides are 1 and there is no leading padding, for tensors of one BLAS dtype."""
        given = self.geometry(call.attrs)
        return is_one_float(call) and set(given["stride"]) == {1} and not any(given["before"])

    def multiplications(self, call: OpCall) -> Dim:
        """Multiplications, each two units of cost."""
        _, inputs, taps = self.weight(call)
        return 2 * product(call.outputs[0].shape) * inputs * product(taps)

    def parts(self, call: OpCall, blocks: Dim, together: Dim) -> Dim:
        """The most parts of ``blocks`` that pay, since each part prepares the operands of ``together`` neighbouring blocks."""
        outputs = self.weight(call)[0] // call.attrs.groups
        return min_(blocks, blocks // max_(together, 1) * max_(outputs // LEAST_PREPARED, 1))

    def phases(self, given: dict[str, Any], sizes: tuple[Dim, ...], taps: tuple[Dim, ...]) -> Dim:
        """The number of elements of a padded plane of these sizes, of all phases (see ``padded_sizes`` in ``by_plane``)."""
        missing = 3 - self.rank
        padded, steps = product(()), given["stride"]
        for axis, (size, tap) in enumerate(zip(sizes, taps, strict=True), missing):
            padded = padded * (size + (tap - 1) * given["dilation"][axis] // steps[axis])
        elements: Dim = padded * (steps[0] * steps[1] * steps[2])
        return elements
