"""Winograd's algorithm for windows of 3 x 3: conditions, workspace and blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import Dim, const, dim, product
from ....shape_funcs.symbolic.dim_operations import max_, min_
from ...core.conditions import Conditions, condition
from ...core.implementation import Blocks, Kernel, OpCall, Scratch
from ...core.tensor_types import ITEMSIZE
from ...kernels.conv import by_winograd, tiles
from ...kernels.conv import cpu as bodies
from ...native.front_end.llvm import host
from ...native.jit.convolution import winograd_axis, winograd_tiles
from ...native.jit.convolution.winograd_axis import AXES
from ...native.jit.products.register_tile import GROUP_PANELS
from .sizes import Convolution

#: Input and output channels, and positions of all results of a batch, from which ``winograd`` pays: measured, it takes 0.8 of the
#: time of ``tiles`` at 24 channels and 25 positions, 1.01 at 16 positions.
LEAST_FILTERED, LEAST_POSITIONS = 24, 25
#: The same of fewer channels: it takes 0.65 to 0.85 of the time of ``shifts`` at 16 channels and rows of 80 columns, 0.95 of
#: ``tiles`` at 400 positions.
LEAST_OF_FEW, POSITIONS_OF_FEW = 16, 400
#: Positions of all results of a batch from which a transformation of the weight in the call pays.
LEAST_TRANSFORMED = 160
#: Positions from which it pays with stride 2.  Its filters are 1.8 times as large as the weight, and in a network they come from
#: memory.  On a Xeon it takes 1.2 to 1.6 of the time of ``tiles`` at 49 to 196 positions, and as long at 400 to 1600; on Zen 4
#: 0.7 at 196 positions.
LEAST_STRIDED, LEAST_STRIDED_OF_AMD = 400, 150
#: By stride, the most tiles of ``winograd`` for a number of positions, a quotient: tiles at ends of rows and columns have fewer
#: results.  With stride 1 pictures of 3 x 3 pay, a single row does not.
MOST_TILES = {1: (4, 9), 2: (1, 3)}


@frozen
class Winograd(Convolution):
    """The implementation ``winograd`` of a call."""

    def kernel(self, body: Callable[..., int]) -> Kernel:
        """Winograd's algorithm, for convolution over two axes."""
        in_call = body is bodies.winograd
        return Kernel(
            "winograd",
            body,
            takes=self.may_use_winograd,
            fits=self.has_nine_taps,
            pays=self.pays_transformation if in_call else self.has_many_channels,
            scratch=(
                *((Scratch(length=self.filter_elements),) if in_call else ()),
                Scratch(length=self.tile_elements),
                Scratch(length=self.apart_elements),
                Scratch(length=self.tile_sums),
                Scratch(length=lambda call: dim(winograd_tiles.ZERO_BYTES // ITEMSIZE["float32"])),
            ),
            blocks=Blocks(
                self.stretches if in_call else self.bands_of_stretches,
                self.multiplications,
                most=self.stretches if in_call else self.parts_of_stretches,
            ),
            finishes=self.rank,
            apart="always",
            attrs=lambda attrs: {"before": self.geometry(attrs)["before"], "stride": self.stride(attrs)},
            views=("dims",) if in_call else ("dims", "skip", "dims"),
        )

    def may_use_winograd(self, call: OpCall) -> bool:
        """Whether the call is on float32, with equal strides of 1 or 2, without dilation and groups, channels first."""
        attrs = call.attrs
        has_form = self.stride(attrs) in AXES and set(self.geometry(attrs)["dilation"]) == {1} and attrs.groups == 1
        return has_form and call.dtypes[0] == "float32" and self.is_channels_first(call)

    def stride(self, attrs: Any) -> int:
        """The stride of both axes; 0 if strides differ."""
        _, *strides = self.geometry(attrs)["stride"]
        return strides[0] if len(set(strides)) == 1 else 0

    def products(self, call: OpCall) -> int:
        """The number of products of a tile."""
        side: int = by_winograd.tile_side(self.stride(call.attrs))
        return side * side

    def has_nine_taps(self, call: OpCall) -> Conditions:
        """The conditions of a window of 3 x 3."""
        return tuple(condition(taps, "==", winograd_axis.WINDOW) for taps in self.weight(call)[2])

    def has_many_channels(self, call: OpCall) -> Conditions:
        """The conditions that products outweigh the transformations of data and results."""
        outputs, inputs, _ = self.weight(call)
        positions, (most, of) = product(self.sizes(call)[1]), MOST_TILES[self.stride(call.attrs)]
        are_few = (const(min_(inputs, outputs)) or LEAST_FILTERED) < LEAST_FILTERED
        channels, least = (LEAST_OF_FEW, POSITIONS_OF_FEW) if are_few else (LEAST_FILTERED, LEAST_POSITIONS)
        if self.stride(call.attrs) > 1:
            least = max(least, LEAST_STRIDED_OF_AMD if host.is_of_amd() else LEAST_STRIDED)
        return (
            condition(inputs, ">=", channels),
            condition(outputs, ">=", channels),
            condition(call.outputs[0].shape[0] * positions, ">=", least),
            condition(self.tiles(call) * of, "<=", positions * most),
        )

    def pays_transformation(self, call: OpCall) -> Conditions:
        """The conditions that products outweigh the transformations of data, results and weight."""
        positions = call.outputs[0].shape[0] * product(self.sizes(call)[1])
        return (*self.has_many_channels(call), condition(positions, ">=", LEAST_TRANSFORMED))

    def tiles(self, call: OpCall) -> Dim:
        """The number of tiles of ``winograd`` of a picture."""
        tall, wide = ((size + winograd_axis.RESULTS - 1) // winograd_axis.RESULTS for size in self.sizes(call)[1])
        return tall * wide

    def tile_pitch(self, call: OpCall) -> Dim:
        """The number of tiles of a row of ``winograd``, and of lanes behind them (see ``tile_pitch`` in its module)."""
        line, least = by_winograd.LINE, winograd_tiles.LEAST_LANES
        padding = (self.sizes(call)[1][-1] + 1) // winograd_axis.RESULTS * (least - 1) % least
        lines = (call.outputs[0].shape[0] * self.tiles(call) + padding + line - 1) // line
        return min_(lines // 2 * 2, GROUP_PANELS) * line + line

    def filter_elements(self, call: OpCall) -> Dim:
        """The number of elements of the transformed weight."""
        outputs, inputs, _ = self.weight(call)
        return outputs * inputs * winograd_axis.FILTERS**2

    def tile_elements(self, call: OpCall) -> Dim:
        """The number of elements of a stretch of transformed data."""
        return (self.weight(call)[1] * self.tile_pitch(call) + by_winograd.LINE) * self.products(call)

    def apart_elements(self, call: OpCall) -> Dim:
        """The number of elements of the tiles that ``winograd`` multiplies apart."""
        return self.weight(call)[1] * (self.products(call) * tiles.APART)

    def tile_sums(self, call: OpCall) -> Dim:
        """The number of sums of a stretch, and of their results."""
        elements = self.tile_pitch(call) * by_winograd.BAND
        return (elements + by_winograd.LINE) * self.products(call) + elements * winograd_axis.RESULTS**2

    def stretches(self, call: OpCall) -> Dim:
        """The number of blocks of ``winograd`` (see ``convolve_winograd`` in its module)."""
        count, stretch = call.outputs[0].shape[0] * self.tiles(call), by_winograd.STRETCH
        blocks: Dim = max_((count - tiles.APART + stretch - 1) // stretch, min_(count, 1))
        return blocks

    def bands_of_stretches(self, call: OpCall) -> Dim:
        """The number of blocks of ``winograd`` that have some of the output channels."""
        return self.stretches(call) * self.finished_bands(call)

    def parts_of_stretches(self, call: OpCall) -> Dim:
        """The most parts of ``winograd`` that pay."""
        return self.parts(call, self.bands_of_stretches(call), self.finished_bands(call))

    def finished_bands(self, call: OpCall) -> Dim:
        """The number of blocks of ``winograd`` for a stretch: bands of output channels."""
        bands: Dim = (self.weight(call)[0] + by_winograd.BAND - 1) // by_winograd.BAND
        return bands
