"""Sums of shifted planes: conditions, workspace and blocks."""

from __future__ import annotations

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import Dim, const, dim, product
from ....shape_funcs.symbolic.dim_operations import max_, min_
from ...core.conditions import Conditions, condition
from ...core.implementation import Blocks, Kernel, OpCall, Scratch
from ...kernels.conv import by_channels, by_plane
from ...kernels.conv import cpu as bodies
from ...native.jit.convolution import data_taps, plane_taps
from ..products.matmul_strategy import is_one_float
from .sizes import LEAST_CHANNELS, Convolution

#: Number of output channels per group below which ``planes`` pays; with a single tap, little is gathered: LEAST_CHANNELS.
FEW_CHANNELS = 8
#: The work of ``planes`` for an element of the data or of the result, in units of ``ops.codegen.loop_nest.cost``.
PLANE_COST = 16


@frozen
class Planes(Convolution):
    """The implementation ``planes`` of a call."""

    def kernel(self) -> Kernel:
        """The implementation ``planes``."""
        return Kernel(
            "planes",
            bodies.planes,
            takes=lambda call: is_one_float(call) and not any(self.geometry(call.attrs)["layouts"][1:]),
            pays=self.few_channels,
            scratch=(Scratch(length=self.plane_elements), Scratch("int64", length=self.plane_numbers)),
            blocks=Blocks(self.plane_blocks, self.plane_work),
            finishes=self.rank,
            apart="whole",
            **self.given,
        )

    def few_channels(self, call: OpCall) -> Conditions:
        """The condition that there are so few output channels per group that gathering does not pay."""
        outputs, _, taps = self.weight(call)
        few = LEAST_CHANNELS if const(product(taps)) in (1, None) else FEW_CHANNELS
        return (condition(outputs, "<", call.attrs.groups * few),)

    def plane_elements(self, call: OpCall) -> Dim:
        """The number of elements of the phases of padded planes (see ``padded_sizes`` in the module of ``planes``), at least one,
        and of the vector behind them, which may be read and overwritten."""
        plane = self.phases(self.geometry(call.attrs), self.sizes(call)[1], self.weight(call)[2])
        elements: Dim = plane * max_(by_plane.FILLED // max_(plane, 1), 1) + self.width(call)
        return max_(elements, self.transposed_elements(call))

    def transposed_elements(self, call: OpCall) -> Dim:
        """The number of elements of the data, weights and sums of small pictures (see ``by_channels``); 0 of others."""
        given, (_, _, taps) = self.geometry(call.attrs), self.weight(call)
        limits = by_channels.MOST_POSITIONS, by_channels.most_results(given["stride"], given["dilation"]), by_channels.MOST_TAPS
        counts = [product(sizes) for sizes in (*self.sizes(call), taps)]
        if any((const(count) or 0) > limit for count, limit in zip(counts, limits, strict=True)):
            return dim(0)
        data, out, number = map(min_, counts, limits)
        elements: Dim = (data + out + number) * by_channels.LANES
        return elements

    def plane_numbers(self, call: OpCall) -> Dim:
        """The number of integers of ``planes`` (see ``convolve_planes`` and ``convolve_depthwise`` in their modules)."""
        numbers: Dim = data_taps.COLUMN_WORDS * product(self.weight(call)[2]) + plane_taps.HEIGHTS + self.width(call)
        return numbers

    def plane_blocks(self, call: OpCall) -> Dim:
        """The number of blocks of ``planes``: groups of all elements of the batch.

        ``group_count`` derives groups from channels.
        """
        _, inputs, _ = self.weight(call)
        channels = call.inputs[0].shape[call.attrs.data_layout.index("C")]
        blocks: Dim = call.inputs[0].shape[0] * max_(channels // max_(inputs, 1), 1)
        return blocks

    def plane_work(self, call: OpCall) -> Dim:
        """Multiplications, and for few taps the reading and writing of planes."""
        elements = product(call.inputs[0].shape) + product(call.outputs[0].shape)
        return self.multiplications(call) + elements * PLANE_COST
