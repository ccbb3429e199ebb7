"""Tiles of positions by the output channels of a group: conditions, workspace and blocks."""

from __future__ import annotations

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import Dim, const, product
from ....shape_funcs.symbolic.dim_operations import max_, min_
from ...core.conditions import Conditions, condition
from ...core.implementation import Blocks, Kernel, OpCall, Scratch
from ...core.tensor_types import ITEMSIZE
from ...kernels.grouped_conv import cpu as bodies
from ...native.jit.convolution.gathered_tile import LONGEST_BYTES, POSITIONS, tile_lanes
from ...native.vector_registers import vector_bytes
from .sizes import Convolution

#: The most channels of the data and of the result of a group with which ``groups`` pays, and the most columns of the result:
#: without strides, and with strides.  Measured in float32 with AVX2, of 3 x 3 taps.  Without strides it takes 0.6 to 0.8 of the
#: time of ``shifts`` at 14 columns or fewer, and 1 at 28.  With strides it takes 0.2 of the time of the better one of ``shifts``
#: and ``tiles`` at 4 columns, and 0.5 to 0.8 at up to 112.  Of 32 channels it takes 0.7 of the time of ``tiles`` with strides,
#: and 1 without.
MOST_CHANNELS, MOST_COLUMNS = (24, 32), (24, 112)


@frozen
class Groups(Convolution):
    """The implementation ``groups`` of a call."""

    def kernel(self) -> Kernel:
        """The implementation ``groups``."""
        return Kernel(
            "groups",
            bodies.groups,
            takes=self.is_channels_first,
            pays=self.has_few_channels,
            scratch=(Scratch(length=self.group_elements), Scratch("int64", length=self.offset_count)),
            blocks=Blocks(self.group_blocks, self.multiplications),
            finishes=self.rank,
            apart="whole",
            **self.given,
        )

    def has_few_channels(self, call: OpCall) -> Conditions:
        """The conditions that the channels of a group fill a few vectors of AVX2, and that columns are not many."""
        outputs, inputs, taps = self.weight(call)
        is_strided = set(self.geometry(call.attrs)["stride"]) != {1}
        most, most_columns = MOST_CHANNELS[is_strided], MOST_COLUMNS[is_strided]
        counts = [(const(inputs) or 0), (const(outputs) or 0) // call.attrs.groups]
        is_measured = vector_bytes() == LONGEST_BYTES and call.inputs[0].dtype == "float32"
        is_few = is_measured and all(0 < count <= most and count % tile_lanes(ITEMSIZE["float32"]) == 0 for count in counts)
        return (
            condition(int(is_few), "==", 1),
            condition(product(taps), ">", 1),
            condition(self.sizes(call)[1][-1], "<=", most_columns),
        )

    def band(self, call: OpCall) -> tuple[Dim, Dim]:
        """The rows of a band (see ``band_rows`` in its module), and the rows of the result."""
        rows, columns = self.sizes(call)[1]
        return max_(min_(max_(bodies.BAND // max_(columns, 1), bodies.LEAST_ROWS), rows), 1), rows

    def group_elements(self, call: OpCall) -> Dim:
        """The number of elements of a position of zeros, of the weights of a group, and of the data that a band reads."""
        outputs, inputs, taps = self.weight(call)
        given, lanes, (height, width) = self.geometry(call.attrs), tile_lanes(ITEMSIZE[call.inputs[0].dtype]), self.sizes(call)[0]
        reach = (taps[0] - 1) * given["dilation"][1] + 1
        rows = min_(height, (self.band(call)[0] - 1) * given["stride"][1] + reach)
        of_group = (outputs // call.attrs.groups + lanes - 1) // lanes * lanes
        elements: Dim = inputs * (1 + of_group * product(taps) + rows * width)
        return elements

    def offset_count(self, call: OpCall) -> Dim:
        """The number of offsets of the operands of a band's positions, in whole tiles, and of the rows and columns of a tile."""
        positions = self.band(call)[0] * self.sizes(call)[1][-1]
        offsets: Dim = (positions + POSITIONS - 1) // POSITIONS * POSITIONS * product(self.weight(call)[2])
        return offsets + 2 * POSITIONS

    def group_blocks(self, call: OpCall) -> Dim:
        """The number of blocks of ``groups`` (see ``convolve_groups`` in its module)."""
        most, rows = self.band(call)
        blocks: Dim = call.outputs[0].shape[0] * call.attrs.groups * ((rows + most - 1) // most)
        return blocks
