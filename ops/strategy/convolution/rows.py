"""Rows of the weight by turned columns of the data, for few positions: conditions, workspace and blocks."""

from __future__ import annotations

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import Dim, product
from ....shape_funcs.symbolic.dim_operations import max_, min_
from ...core.conditions import Conditions, condition
from ...core.implementation import Blocks, Kernel, OpCall, Scratch
from ...kernels.conv import by_rows
from ...kernels.conv import cpu as bodies
from ...native.jit.convolution.panel_row import reads_rows_apart
from .positions import Positions

#: The most positions of a picture with which ``rows`` pays: with more, vectors of positions are fuller.
MOST_POSITIONS = 12


@frozen
class Rows(Positions):
    """The implementation ``rows`` of a call."""

    def kernel(self) -> Kernel:
        """The implementation ``rows``."""
        return Kernel(
            "rows",
            bodies.rows,
            takes=lambda call: self.is_channels_first(call) and call.attrs.groups == 1,
            pays=self.has_few_positions,
            scratch=(
                Scratch(length=lambda call: self.columns(call) * self.terms(call)),
                Scratch(length=lambda call: self.columns(call) * by_rows.TILE_ROWS),
            ),
            blocks=Blocks(self.tile_blocks, self.multiplications, self.row_tiles, self.parts_of_tiles),
            finishes=self.rank,
            apart="over",
            **self.given,
        )

    def has_few_positions(self, call: OpCall) -> Conditions:
        """The conditions that vectors of positions would be half empty, and that the turning of the data pays.

        Of several taps measured with AVX2: 0.5 of the time of ``tiles`` at 4 to 9 positions, 0.7 at 12.
        """
        measured = self.is_one_tap(call) if reads_rows_apart() else ()
        return (*self.enough_channels(call), condition(self.positions(call), "<=", MOST_POSITIONS), *measured)

    def terms(self, call: OpCall) -> Dim:
        """The products of a sum: the input channels of all taps."""
        _, inputs, taps = self.weight(call)
        return inputs * product(taps)

    def images(self, call: OpCall) -> Dim:
        """The pictures that are multiplied by a tile before the next (see ``pictures_together`` in its module)."""
        return max_(min_(by_rows.TOGETHER // max_(self.positions(call), 1), call.outputs[0].shape[0]), 1)

    def columns(self, call: OpCall) -> Dim:
        """The positions of these pictures."""
        return self.images(call) * self.positions(call)

    def row_tiles(self, call: OpCall) -> Dim:
        """The tiles of output channels."""
        tiles: Dim = (self.weight(call)[0] + by_rows.TILE_ROWS - 1) // by_rows.TILE_ROWS
        return tiles

    def tile_blocks(self, call: OpCall) -> Dim:
        """The number of blocks of ``rows`` (see ``convolve_rows`` in its module)."""
        images = self.images(call)
        blocks: Dim = (call.outputs[0].shape[0] + images - 1) // images * self.row_tiles(call)
        return blocks

    def parts_of_tiles(self, call: OpCall) -> Dim:
        """The most parts of ``rows`` that pay."""
        return self.parts(call, self.tile_blocks(call), self.row_tiles(call))
