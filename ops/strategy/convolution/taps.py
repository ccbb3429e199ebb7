"""Products of each tap with the data that it reaches, of a weight that is stored tap by tap: conditions, workspace and blocks."""

from __future__ import annotations

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import Dim, const, dim, product
from ....shape_funcs.symbolic.dim_operations import max_, min_
from ...core.conditions import Conditions, condition, undecided
from ...core.implementation import Blocks, Kernel, OpCall, Scratch
from ...kernels.conv import by_taps
from ...kernels.conv import cpu as bodies
from ...kernels.conv.weight_layout import SPACE_IN_OUT
from ...native.jit.products.register_tile import GROUP_PANELS
from ..products.matmul_strategy import is_one_float
from .sizes import Convolution

#: Input and output channels from which ``taps`` pays.
LEAST_INPUTS, LEAST_OUTPUTS = 64, 16
#: The most pairs of a tap and a position inside the data, of all pairs, with which a weight is stored tap by tap: a quotient.
#: Without dilation other implementations read the weight in fewer steps.
MOST_REACHED, MOST_NEAR = (7, 8), (1, 3)
#: Dilation from which a weight is stored tap by tap for sizes that are not known.
WIDE = 4


@frozen
class Taps(Convolution):
    """The implementation ``taps`` of a call."""

    def kernel(self) -> Kernel:
        """The implementation ``taps``."""
        return Kernel(
            "taps",
            bodies.taps,
            takes=self.has_taps_apart,
            pays=self.has_many_products,
            scratch=(
                Scratch(length=self.panel_elements),
                Scratch(length=self.sum_elements),
                Scratch("int64", length=self.run_numbers),
                Scratch(length=self.run_elements),
                Scratch(length=lambda call: GROUP_PANELS * self.width(call) * self.region(call)),
            ),
            blocks=Blocks(self.panel_blocks, self.multiplications),
            finishes=self.rank,
            apart="over",
            **self.given,
        )

    def has_taps_apart(self, call: OpCall) -> bool:
        """Whether the weight of one group is stored tap by tap, channels come first, and columns have a stride of 1."""
        given = self.geometry(call.attrs)
        is_apart = given["layouts"] == (SPACE_IN_OUT, False, False) and call.attrs.groups == 1
        return is_one_float(call) and is_apart and given["stride"][-1] == 1

    def has_many_products(self, call: OpCall) -> Conditions:
        """The conditions that products outweigh the copies of the weight and the reading of sums, and taps share the sums."""
        outputs, inputs, taps = self.weight(call)
        return (
            condition(product(taps), ">", 1),
            condition(inputs, ">=", LEAST_INPUTS),
            condition(outputs, ">=", LEAST_OUTPUTS),
        )

    def reaches_few(self, call: OpCall) -> bool:
        """Whether taps reach so few positions that a weight is worth storing tap by tap, beside other implementations.

        The sizes of the weight are known.  Of sizes that are not, wide dilations pay over two axes or more: measured, ``taps``
        takes at most the time of ``tiles`` then, and of small pictures a fraction of it.
        """
        given, (_, _, taps) = self.geometry(call.attrs), self.weight(call)
        dilation = [d for d, tap in zip(given["dilation"][3 - self.rank :], taps, strict=True) if const(tap) != 1]
        most = MOST_REACHED if max(dilation, default=1) > 1 else MOST_NEAR
        products = product(self.sizes(call)[1]) * product(taps)
        few = undecided((condition(self.reached(call) * most[1], "<=", products * most[0]),))
        return few == () or (few is not None and len(dilation) > 1 and min(dilation) >= WIDE)

    def reached(self, call: OpCall) -> Dim:
        """The number of pairs of a tap and a position whose operand is inside the data."""
        given, (_, _, taps), reached = self.geometry(call.attrs), self.weight(call), product(())
        for axis, (size, out, tap) in enumerate(zip(*self.sizes(call), taps, strict=True), 3 - self.rank):
            stride, before, count = given["stride"][axis], given["before"][axis], const(tap)
            assert count is not None, "a constant weight"
            of_axis = dim(0)
            for offset in range(-before, count * given["dilation"][axis] - before, given["dilation"][axis]):
                end = min_(out, (size - 1 - offset) // stride + 1)
                of_axis = of_axis + max_(end - max(0, -(offset // stride)), 0)
            reached = reached * of_axis
        return reached

    def panels(self, call: OpCall) -> Dim:
        """The panels of output channels."""
        panels: Dim = (self.weight(call)[0] + self.width(call) - 1) // self.width(call)
        return panels

    def channels(self, call: OpCall) -> Dim:
        """The output channels of the groups of panels that are computed together."""
        groups = min_((self.panels(call) + GROUP_PANELS - 1) // GROUP_PANELS, by_taps.GROUPS)
        channels: Dim = groups * (GROUP_PANELS * self.width(call))
        return channels

    def region(self, call: OpCall) -> Dim:
        """The most positions of a region."""
        return min_(product(self.sizes(call)[1]), by_taps.TOGETHER)

    def panel_elements(self, call: OpCall) -> Dim:
        """The number of elements of the panels of a part of the input channels."""
        return min_(self.weight(call)[1], by_taps.INNER) * self.channels(call)

    def sum_elements(self, call: OpCall) -> Dim:
        """The number of sums of a region."""
        return self.channels(call) * self.region(call)

    def run_numbers(self, call: OpCall) -> Dim:
        """The number of integers of the runs of a tap: each position may be one."""
        return self.region(call) * by_taps.RUN_NUMBERS

    def run_elements(self, call: OpCall) -> Dim:
        """The number of elements of the copied runs of a part (see ``row_elements`` in its module)."""
        width = self.width(call)
        row = ((self.region(call) + width - 1) // width // 2 * 2 + 3) * width
        elements: Dim = min_(self.weight(call)[1], by_taps.INNER) * row
        return elements

    def panel_blocks(self, call: OpCall) -> Dim:
        """The number of blocks of ``taps`` (see ``convolve_taps`` in its module)."""
        regions = (product(self.sizes(call)[1]) + by_taps.TOGETHER - 1) // by_taps.TOGETHER
        blocks: Dim = call.outputs[0].shape[0] * regions * self.panels(call)
        return blocks
