"""Tiles of a matrix product over shifts of padded data: conditions, workspace and blocks."""

from __future__ import annotations

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import Dim, const, dim, product
from ....shape_funcs.symbolic.dim_operations import max_, min_
from ...core.conditions import Conditions, condition
from ...core.implementation import Blocks, Kernel, OpCall, Scratch
from ...kernels.conv import by_images, by_shifts, tiles
from ...kernels.conv import cpu as bodies
from ...native.jit.convolution.panel_row import reads_rows_apart
from .sizes import Convolution

#: Columns of the result from which ``shifts`` pays: measured, ``tiles`` is faster at 28, ``shifts`` at 56.
LEAST_COLUMNS = 48
#: The most output channels of a group, of registers narrower than a line, with which ``shifts`` pays at any number of columns:
#: products are too few for the gathering of operands.  Measured at 8 channels of data and of results, it takes 0.5 of the time
#: of ``tiles`` at 7 columns, 0.8 at 28, 0.57 at 32 and at 4; with strides 0.7 to 0.8 up to MOST_STRIDED columns, 1.3 at 16 and
#: 32, where ``tiles`` reads every second element of whole rows.
FEW_OUTPUTS, MOST_STRIDED = 8, 15
#: The most elements of the padded data of a row of the result with which ``shifts`` pays.
MOST_PADDED = 2**16


@frozen
class Shifts(Convolution):
    """The implementation ``shifts`` of a call."""

    def kernel(self) -> Kernel:
        """The implementation ``shifts``."""
        return Kernel(
            "shifts",
            bodies.shifts,
            takes=self.is_channels_first,
            pays=self.has_long_rows,
            scratch=(
                Scratch(length=self.band_elements),
                Scratch(length=self.band_sums),
                Scratch("int64", length=self.band_numbers),
            ),
            blocks=Blocks(self.band_blocks, self.multiplications, self.bands_of_channels, self.parts_of_bands),
            finishes=self.rank,
            apart="whole",
            **self.given,
        )

    def has_long_rows(self, call: OpCall) -> Conditions:
        """The conditions that several taps share the padded rows of a band, which fit the cache."""
        _, _, taps = self.weight(call)
        fits = condition(self.channel_elements(call, dim(1)) * self.weight(call)[1], "<=", MOST_PADDED)
        return (*self.enough_channels(call), condition(product(taps), ">", 1), *self.has_slow_gathering(call), fits)

    def has_slow_gathering(self, call: OpCall) -> Conditions:
        """The conditions that packing the columns would take longer than padding the rows."""
        columns, outputs = self.sizes(call)[1][-1], const(self.weight(call)[0])
        if outputs is None or outputs > call.attrs.groups * FEW_OUTPUTS or reads_rows_apart():
            return (condition(columns, ">=", LEAST_COLUMNS),)
        if set(self.geometry(call.attrs)["stride"]) == {1}:
            return ()
        return (condition(max_(columns - LEAST_COLUMNS, MOST_STRIDED - columns), ">=", 0),)

    def channel_elements(self, call: OpCall, rows: Dim) -> Dim:
        """The number of elements that ``shifts`` pads for ``rows`` rows of the result and an input channel."""
        given, (_, _, taps) = self.geometry(call.attrs), self.weight(call)
        return self.phases(given, (dim(1), rows, self.sizes(call)[1][-1])[3 - self.rank :], taps)

    def rows(self, call: OpCall) -> tuple[Dim, Dim]:
        """The rows of a band of ``shifts`` (see ``band_rows`` in its module), and the number of rows of the result."""
        _, inputs, taps = self.weight(call)
        given, out = self.geometry(call.attrs), self.sizes(call)[1]
        rows, between = (
            (out[-2], (taps[-2] - 1) * given["dilation"][1] // given["stride"][1]) if self.rank > 1 else (dim(1), dim(0))
        )
        one = self.channel_elements(call, 1 - between) * inputs
        return max_(min_(rows, by_shifts.BAND // max_(one, 1) - between), 1), rows

    def pitch(self, call: OpCall) -> Dim:
        """The number of sums of ``shifts`` from a row of a band to the next: the columns of the result and of padding."""
        given, (_, _, taps) = self.geometry(call.attrs), self.weight(call)
        pitch: Dim = self.sizes(call)[1][-1] + (taps[-1] - 1) * given["dilation"][2] // given["stride"][2]
        return pitch

    def band_elements(self, call: OpCall) -> Dim:
        """The number of elements of the padded rows of a band of ``shifts`` and of a vector."""
        most, _ = self.rows(call)
        return self.channel_elements(call, most) * self.weight(call)[1] + self.width(call)

    def band_sums(self, call: OpCall) -> Dim:
        """The number of sums that ``shifts`` computes before they are copied."""
        pitch = self.pitch(call)
        together = max_(min_(self.rows(call)[0], by_shifts.TOGETHER // max_(pitch, 1)), 1)
        sums: Dim = together * pitch * by_images.FINISHED_ROWS
        return sums

    def band_numbers(self, call: OpCall) -> Dim:
        """The number of integers that ``shifts`` needs: a vector, and the offset of each channel and tap."""
        _, inputs, taps = self.weight(call)
        return inputs * product(taps) + self.width(call)

    def bands_of_channels(self, call: OpCall) -> Dim:
        """The number of blocks of ``shifts`` with the same operands: the bands of output channels of a group."""
        bands: Dim = (self.weight(call)[0] // call.attrs.groups + tiles.ROWS - 1) // tiles.ROWS
        return bands

    def band_blocks(self, call: OpCall) -> Dim:
        """The number of blocks of ``shifts`` (see ``convolve_shifts`` in its module)."""
        most, rows = self.rows(call)
        parts = self.bands_of_channels(call)
        depth = self.sizes(call)[1][0] if self.rank > len("HW") else dim(1)
        blocks: Dim = call.outputs[0].shape[0] * call.attrs.groups * depth * ((rows + most - 1) // most) * parts
        return blocks

    def parts_of_bands(self, call: OpCall) -> Dim:
        """The most parts of ``shifts`` that pay."""
        return self.parts(call, self.band_blocks(call), self.bands_of_channels(call))
