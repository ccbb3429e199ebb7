"""Tiles of a few positions by a panel of output channels, for one tap: conditions, workspace and blocks."""

from __future__ import annotations

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import Dim, dim, product
from ....shape_funcs.symbolic.dim_operations import max_, min_
from ...core.conditions import Conditions, condition
from ...core.implementation import Blocks, Kernel, OpCall, Scratch
from ...kernels.conv import by_positions
from ...kernels.conv import cpu as bodies
from ...native.jit.products.register_tile import GROUP_PANELS
from .sizes import Convolution

#: The most positions of a picture with which ``positions`` pays, and the fewest.
MOST_POSITIONS, LEAST_POSITIONS = 256, 100
#: Input and output channels from which ``positions`` pays.
LEAST_INPUTS, LEAST_OUTPUTS = 384, 32


@frozen
class Positions(Convolution):
    """The implementation ``positions`` of a call."""

    def kernel(self) -> Kernel:
        """The implementation ``positions``."""
        return Kernel(
            "positions",
            bodies.positions,
            takes=lambda call: self.is_channels_first(call) and self.has_unit_stride(call) and call.attrs.groups == 1,
            fits=self.is_one_tap,
            pays=self.has_small_images,
            scratch=(
                Scratch(length=lambda call: dim(by_positions.INNER * GROUP_PANELS * self.width(call))),
                Scratch(length=self.sum_elements),
                Scratch(length=lambda call: GROUP_PANELS * self.width(call) * self.positions(call)),
            ),
            blocks=Blocks(self.panel_blocks, self.multiplications),
            finishes=self.rank,
            apart="over",
            **self.given,
        )

    def positions(self, call: OpCall) -> Dim:
        """The positions of a picture."""
        return product(self.sizes(call)[1])

    def is_one_tap(self, call: OpCall) -> Conditions:
        """The conditions that the weight has a single tap and the result has the spatial sizes of the data."""
        same = [condition(a, "==", b) for a, b in zip(*self.sizes(call), strict=True)]
        return (condition(product(self.weight(call)[2]), "==", 1), *same)

    def has_small_images(self, call: OpCall) -> Conditions:
        """The conditions that products outweigh the turning of the weight, and pictures are no long rows."""
        outputs, inputs, _ = self.weight(call)
        return (
            condition(inputs, ">=", LEAST_INPUTS),
            condition(outputs, ">=", LEAST_OUTPUTS),
            condition(self.positions(call), "<=", MOST_POSITIONS),
            condition(self.positions(call), ">=", LEAST_POSITIONS),
        )

    def together(self, call: OpCall) -> Dim:
        """The pictures that are multiplied by a panel before the next (see ``pictures_together`` in its module)."""
        return max_(min_(by_positions.TOGETHER // max_(self.positions(call), 1), call.outputs[0].shape[0]), 1)

    def panels(self, call: OpCall) -> Dim:
        """The panels of output channels."""
        panels: Dim = (self.weight(call)[0] + self.width(call) - 1) // self.width(call)
        return panels

    def sum_elements(self, call: OpCall) -> Dim:
        """The number of sums of the panels and pictures that are multiplied together."""
        channels = min_(self.panels(call), by_positions.PANELS) * self.width(call)
        elements: Dim = channels * self.together(call) * self.positions(call)
        return elements

    def panel_blocks(self, call: OpCall) -> Dim:
        """The number of blocks of ``positions`` (see ``convolve_positions`` in its module)."""
        together = self.together(call)
        blocks: Dim = (call.outputs[0].shape[0] + together - 1) // together * self.panels(call)
        return blocks
