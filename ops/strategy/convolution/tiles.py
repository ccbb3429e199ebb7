"""Tiles of a matrix product over columns that are packed for each tile: conditions, workspace and blocks."""

from __future__ import annotations

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import Dim, product
from ....shape_funcs.symbolic.dim_operations import max_, min_
from ...core.implementation import Blocks, Kernel, OpCall, Scratch
from ...kernels.conv import by_images, geometry, tiles
from ...kernels.conv import cpu as bodies
from ...native.jit.products.register_tile import GROUP_PANELS, PANEL_BYTES, TILE_ROWS
from .sizes import Convolution


@frozen
class Tiles(Convolution):
    """The implementation ``tiles`` of a call."""

    def kernel(self) -> Kernel:
        """The implementation ``tiles``."""
        return Kernel(
            "tiles",
            bodies.tiles,
            takes=self.is_channels_first,
            pays=self.enough_channels,
            scratch=(
                Scratch(length=self.panel_elements),
                Scratch("int64", length=self.column_numbers),
                Scratch(length=self.sum_elements),
            ),
            blocks=Blocks(self.tile_blocks, self.multiplications, self.packed_together, self.parts_of_tiles),
            finishes=self.rank,
            apart="over",
            **self.given,
        )

    def panel_elements(self, call: OpCall) -> Dim:
        """The number of elements of a group of panels of ``tiles``, of a few columns more, and of a tile's weights."""
        _, inputs, taps = self.weight(call)
        width, inner = self.width(call), min_(inputs * product(taps), max_(tiles.INNER, product(taps)))
        most: Dim = (self.stretch_columns(call) + width + tiles.APART + TILE_ROWS) * inner + TILE_ROWS * width
        # the columns of several small images, and sums of a tile
        together = (min_(inputs * product(taps), by_images.MOST_INPUTS) + TILE_ROWS) * (GROUP_PANELS * width)
        return max_(most, together)

    def sum_elements(self, call: OpCall) -> Dim:
        """The number of sums of ``tiles`` that are finished together, or of all output channels if terms are in several parts."""
        outputs, inputs, taps = self.weight(call)
        channels = max_(tiles.INNER // max_(product(taps), 1), 1)
        several = min_((inputs + channels - 1) // channels - 1, 1)
        columns = self.stretch_columns(call) + self.width(call)
        # rows of sums are whole rows of panels
        together = max_(by_images.FINISHED_ROWS * GROUP_PANELS * self.width(call), TILE_ROWS * columns)
        return max_(together, several * outputs * columns)

    def stretch_columns(self, call: OpCall) -> Dim:
        """The number of positions of a stretch of ``tiles`` (see ``stretch_columns`` in its module)."""
        _, inputs, taps = self.weight(call)
        of_panels = max_(inputs * product(taps), 1) * PANEL_BYTES
        return max_(min_(tiles.WIDE_BYTES // of_panels, tiles.WIDE_PANELS), GROUP_PANELS) * self.width(call)

    def column_numbers(self, call: OpCall) -> Dim:
        """The number of integers that ``tiles`` needs for a panel: a record for each tap, and three numbers per column."""
        width = self.width(call)
        numbers: Dim = product(self.weight(call)[2]) * geometry.record_length(width) + 3 * width
        return numbers

    def bands(self, call: OpCall) -> Dim:
        """The number of blocks of ``tiles`` with the same operands (see ``band_count`` in its module)."""
        outputs = self.weight(call)[0] // call.attrs.groups
        return min_((outputs + tiles.ROWS - 1) // tiles.ROWS * 2, outputs)

    def tile_blocks(self, call: OpCall) -> Dim:
        """The number of blocks of ``tiles`` (see ``convolve_tiles`` in its module)."""
        positions, columns = product(self.sizes(call)[1]), self.stretch_columns(call)
        stretches = max_((positions - tiles.APART + columns - 1) // columns, min_(positions, 1))
        blocks: Dim = call.outputs[0].shape[0] * call.attrs.groups * stretches * self.bands(call)
        return blocks

    def packed_together(self, call: OpCall) -> Dim:
        """The number of blocks of ``tiles`` for which columns are packed once; 1 where the data are the columns."""
        bands, taps = self.bands(call), product(self.weight(call)[2])
        return min_(bands, (taps - 1) * bands + 1) if self.has_unit_stride(call) else bands

    def parts_of_tiles(self, call: OpCall) -> Dim:
        """The most parts of ``tiles`` that pay."""
        return self.parts(call, self.tile_blocks(call), self.packed_together(call))
