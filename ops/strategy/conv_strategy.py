"""Implementations of convolution, with the conditions under which each is correct and profitable.

===========  ===================================================================================================
planes       few output channels per group, channels first: sums of shifted planes, no gathering; of 3 x 3 taps and a channel per
             group, of the data itself
winograd     float32, a window of 3 x 3, channels first, enough channels and positions: Winograd's algorithm, of a weight that is
             transformed in the call or before
shifts       channels first, several taps, rows that are not short: tiles of a matrix product over shifts of padded data
tiles        channels first: tiles of a matrix product over columns that are packed for each tile
pointwise    kernel of size 1, stride 1: a matrix product of the data itself
im2col       a matrix product over gathered columns
direct       any convolution
cudnn        on GPUs: cuDNN, its plan made for the sizes when they first occur; without a plan as ``convolution``
convolution  on GPUs (``kernels/conv/cuda``)
===========  ===================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ...shape_funcs.frozen_dataclass import frozen
from ...shape_funcs.symbolic.dim import Dim, Shape, const, dim, max_, min_, product
from ..core.tensor_types import ITEMSIZE
from ..kernels.conv import by_plane, by_shifts, by_winograd, cudnn, tiles
from ..kernels.conv import cpu as bodies
from ..kernels.conv import cuda as cuda
from ..kernels.conv.weight_layout import OUT_IN_SPACE, OUT_SPACE_IN, SPACE_IN_OUT, SPACE_OUT_IN
from ..kernels.matmul.cpu import BLAS_LIMIT
from ..native.jit.convolution import data_taps, plane_taps, winograd_tiles
from ..native.jit.product_tile import GROUP_PANELS, PANEL_BYTES, TILE_ROWS, panel_width
from .conditions import Conditions, condition
from .implementation import Blocks, Kernel, OpCall, Scratch
from .matmul_strategy import GEMM, is_one_float

#: Minimum number of output channels per group for which a matrix product pays.
LEAST_CHANNELS = 4
#: Number of output channels per group below which ``planes`` pays; with a single tap, little is gathered: LEAST_CHANNELS.
FEW_CHANNELS = 8
#: Input and output channels, and positions of all results of a batch, from which ``winograd`` pays: measured, it takes 0.8 of the
#: time of ``tiles`` at 24 channels and 25 positions, 1.01 at 16 positions.
LEAST_FILTERED, LEAST_PLACES = 24, 25
#: Positions of all results of a batch from which a transformation of the weight in the call pays.
LEAST_TRANSFORMED = 160
#: The most tiles of ``winograd`` for a number of positions, a quotient: tiles at ends of rows and columns have fewer results.
#: Pictures of 3 x 3 pay, a single row does not.
MOST_TILES = (4, 9)
#: Columns of the result from which ``shifts`` pays: measured, ``tiles`` is faster at 28, ``shifts`` at 56.
LEAST_COLUMNS = 48
#: The most elements of the padded data of a row of the result with which ``shifts`` pays.
MOST_PADDED = 4 * by_shifts.BAND
#: The work of ``planes`` for an element of the data or of the result, in units of ``ops.analysis.cost``.
PLANE_COST = 16
#: Output channels for which the preparation of operands pays: it takes as long as the products of some 16 channels.
LEAST_PREPARED = 96
#: ``(attrs) -> keyword arguments of a kernel body``.
Geometry = Callable[[Any], dict[str, Any]]


def kernels(rank: int, geometry: Geometry) -> tuple[Kernel, ...]:
    """The implementations of convolution over ``rank`` spatial axes."""
    predicates = _Convolution(rank, geometry)
    given: dict[str, Any] = {"attrs": geometry, "views": ("dims",)}
    return (
        Kernel(
            "planes",
            bodies.planes,
            takes=lambda call: is_one_float(call) and not any(geometry(call.attrs)["layouts"][1:]),
            pays=predicates.few_channels,
            scratch=(Scratch(length=predicates.plane_elements), Scratch("int64", length=predicates.plane_numbers)),
            blocks=Blocks(predicates.plane_blocks, predicates.plane_work),
            finishes=rank,
            **given,
        ),
        *((_by_winograd(predicates, bodies.winograd),) if rank == len("HW") else ()),
        Kernel(
            "shifts",
            bodies.shifts,
            takes=predicates.is_channels_first,
            pays=predicates.has_long_rows,
            scratch=(
                Scratch(length=predicates.band_elements),
                Scratch(length=predicates.band_sums),
                Scratch("int64", length=predicates.band_numbers),
            ),
            blocks=Blocks(
                predicates.band_blocks, predicates.multiplications, predicates.bands_of_channels, predicates.parts_of_bands
            ),
            finishes=rank,
            **given,
        ),
        Kernel(
            "tiles",
            bodies.tiles,
            takes=predicates.is_channels_first,
            pays=predicates.enough_channels,
            scratch=(
                Scratch(length=predicates.panel_elements),
                Scratch("int64", length=predicates.column_numbers),
                Scratch(length=predicates.sum_elements),
            ),
            blocks=Blocks(
                predicates.tile_blocks, predicates.multiplications, predicates.packed_together, predicates.parts_of_tiles
            ),
            finishes=rank,
            apart="over",
            **given,
        ),
        Kernel(
            "pointwise",
            bodies.pointwise,
            libraries=GEMM,
            takes=predicates.has_unit_stride,
            fits=predicates.is_pointwise,
            pays=predicates.enough_channels,
            **given,
        ),
        Kernel(
            "im2col",
            bodies.gathered,
            libraries=GEMM,
            takes=is_one_float,
            fits=predicates.is_matrix,
            pays=predicates.enough_channels,
            scratch=(Scratch(length=predicates.column_elements),),
            **given,
        ),
        Kernel("direct", bodies.directly, scratch=(Scratch("float64", length=predicates.accumulator_elements),), **given),
        Kernel("cudnn", None, cuda=cuda.convolution(geometry, by_cudnn=True), takes=predicates.by_cudnn, **given),
        Kernel("convolution", None, cuda=cuda.convolution(geometry), **given),
    )


def kernels_with_filters(geometry: Geometry) -> tuple[Kernel, ...]:
    """The implementations of convolution over two axes whose weight is given twice: as it is, and transformed (``winograd``)."""
    plain = (replace(kernel, views=("dims", "dims", "skip", "dims")) for kernel in kernels(len("HW"), geometry))
    transformed = _by_winograd(_Convolution(len("HW"), geometry), bodies.winograd_of_filters)
    return tuple(transformed if kernel.name == transformed.name else kernel for kernel in plain)


def _by_winograd(predicates: _Convolution, body: Callable[..., int]) -> Kernel:
    """Winograd's algorithm, for convolution over two axes."""
    in_call = body is bodies.winograd
    return Kernel(
        "winograd",
        body,
        takes=predicates.may_use_winograd,
        fits=predicates.has_nine_taps,
        pays=predicates.pays_transformation if in_call else predicates.has_many_channels,
        scratch=(
            *((Scratch(length=predicates.filter_elements),) if in_call else ()),
            Scratch(length=predicates.tile_elements),
            Scratch(length=predicates.apart_elements),
            Scratch(length=predicates.tile_sums),
            Scratch(length=lambda call: dim(winograd_tiles.ZERO_BYTES // ITEMSIZE["float32"])),
        ),
        blocks=Blocks(
            predicates.stretches if in_call else predicates.bands_of_stretches,
            predicates.multiplications,
            most=predicates.stretches if in_call else predicates.parts_of_stretches,
        ),
        finishes=predicates.rank,
        apart="always",
        attrs=lambda attrs: {"before": predicates.geometry(attrs)["before"]},
        views=("dims",) if in_call else ("dims", "skip", "dims"),
    )


@frozen
class _Convolution:
    """Predicates of the implementations, and workspace sizes, for a call of convolution."""

    rank: int
    geometry: Geometry

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

    def few_channels(self, call: OpCall) -> Conditions:
        """The condition that there are so few output channels per group that gathering does not pay."""
        outputs, _, taps = self.weight(call)
        few = LEAST_CHANNELS if const(product(taps)) in (1, None) else FEW_CHANNELS
        return (condition(outputs, "<", call.attrs.groups * few),)

    def enough_channels(self, call: OpCall) -> Conditions:
        """The condition that there are enough output channels per group for a matrix product."""
        return (condition(self.weight(call)[0], ">=", call.attrs.groups * LEAST_CHANNELS),)

    def has_long_rows(self, call: OpCall) -> Conditions:
        """The conditions that several taps share the padded rows of a band, which fit the cache."""
        _, _, taps = self.weight(call)
        fits = condition(self.channel_elements(call, dim(1)) * self.weight(call)[1], "<=", MOST_PADDED)
        columns = condition(self.sizes(call)[1][-1], ">=", LEAST_COLUMNS)
        return (*self.enough_channels(call), condition(product(taps), ">", 1), columns, fits)

    def is_channels_first(self, call: OpCall) -> bool:
        """Whether channels come before space in data, weight and result, all of one BLAS dtype."""
        return is_one_float(call) and self.geometry(call.attrs)["layouts"] == (OUT_IN_SPACE, False, False)

    def by_cudnn(self, call: OpCall) -> bool:
        """Whether cuDNN may have engines for these layouts and dtypes."""
        data, weight, out = call.inputs[0].dtype, call.inputs[1].dtype, call.outputs[0].dtype
        return cudnn.supports(self.geometry(call.attrs), data, weight, out)

    def has_unit_stride(self, call: OpCall) -> bool:
        """Whether the strides are 1 and there is no leading padding, for tensors of one BLAS dtype."""
        given = self.geometry(call.attrs)
        return is_one_float(call) and set(given["stride"]) == {1} and not any(given["before"])

    def is_pointwise(self, call: OpCall) -> Conditions:
        """The conditions that the kernel has a single tap and the result has the spatial sizes of the data."""
        _, _, taps = self.weight(call)
        same = [condition(a, "==", b) for a, b in zip(*self.sizes(call), strict=True)]
        return (condition(product(taps), "==", 1), *same, *self.fits_blas(call))

    def is_matrix(self, call: OpCall) -> Conditions:
        """The conditions under which the weight is stored as a matrix."""
        _, _, taps = self.weight(call)
        turned = self.geometry(call.attrs)["layouts"][0] == SPACE_OUT_IN
        return ((condition(product(taps), "==", 1),) if turned else ()) + self.fits_blas(call)

    def fits_blas(self, call: OpCall) -> Conditions:
        """The conditions that all sizes passed to the BLAS fit its integers."""
        outputs, inputs, taps = self.weight(call)
        places = product(self.sizes(call)[1])
        counted = (places, inputs * product(taps), outputs, inputs * call.attrs.groups)
        return tuple(condition(d, "<=", BLAS_LIMIT) for d in counted)

    def column_elements(self, call: OpCall) -> Dim:
        """The number of elements of a tile of columns of ``im2col`` (see ``tile_length`` in its module)."""
        _, inputs, taps = self.weight(call)
        terms, places = inputs * product(taps), product(self.sizes(call)[1])
        at_once = min_(places, max_(bodies.LEAST_PLACES, bodies.COLUMNS // max_(terms, 1)))
        return at_once * terms

    def width(self, call: OpCall) -> int:
        """The number of elements of a vector: of a row of a panel."""
        return panel_width(ITEMSIZE[call.inputs[0].dtype])

    def panel_elements(self, call: OpCall) -> Dim:
        """The number of elements of a group of panels of ``tiles``, of a few columns more, and of a tile's weights."""
        _, inputs, taps = self.weight(call)
        width, inner = self.width(call), min_(inputs * product(taps), max_(tiles.INNER, product(taps)))
        return (self.stretch_columns(call) + width + tiles.APART + TILE_ROWS) * inner + TILE_ROWS * width

    def sum_elements(self, call: OpCall) -> Dim:
        """The number of sums of ``tiles`` that are finished together, or of all output channels if terms are in several parts."""
        outputs, inputs, taps = self.weight(call)
        channels = max_(tiles.INNER // max_(product(taps), 1), 1)
        several = min_((inputs + channels - 1) // channels - 1, 1)
        columns = self.stretch_columns(call) + self.width(call)
        # rows of sums are whole rows of panels
        together = max_(tiles.FINISHED_ROWS * GROUP_PANELS * self.width(call), TILE_ROWS * columns)
        return max_(together, several * outputs * columns)

    def stretch_columns(self, call: OpCall) -> Dim:
        """The number of positions of a stretch of ``tiles`` (see ``stretch_columns`` in its module)."""
        _, inputs, taps = self.weight(call)
        of_panels = max_(inputs * product(taps), 1) * PANEL_BYTES
        return max_(min_(tiles.WIDE_BYTES // of_panels, tiles.WIDE_PANELS), GROUP_PANELS) * self.width(call)

    def column_numbers(self, call: OpCall) -> Dim:
        """The number of integers that ``tiles`` needs for a panel: a record for each tap, and three numbers per column."""
        width = self.width(call)
        numbers: Dim = product(self.weight(call)[2]) * tiles.record_length(width) + 3 * width
        return numbers

    def tile_blocks(self, call: OpCall) -> Dim:
        """The number of blocks of ``tiles`` (see ``convolve_tiles`` in its module)."""
        places, columns = product(self.sizes(call)[1]), self.stretch_columns(call)
        stretches = max_((places - tiles.APART + columns - 1) // columns, min_(places, 1))
        blocks: Dim = call.outputs[0].shape[0] * call.attrs.groups * stretches * self.bands_of_channels(call)
        return blocks

    def bands_of_channels(self, call: OpCall) -> Dim:
        """The number of blocks of ``tiles`` or ``shifts`` with the same operands: the bands of output channels of a group."""
        bands: Dim = (self.weight(call)[0] // call.attrs.groups + tiles.ROWS - 1) // tiles.ROWS
        return bands

    def packed_together(self, call: OpCall) -> Dim:
        """The number of blocks of ``tiles`` for which columns are packed once; 1 where the data are the columns."""
        bands, taps = self.bands_of_channels(call), product(self.weight(call)[2])
        return min_(bands, (taps - 1) * bands + 1) if self.has_unit_stride(call) else bands

    def multiplications(self, call: OpCall) -> Dim:
        """Multiplications, each two units of cost."""
        _, inputs, taps = self.weight(call)
        return 2 * product(call.outputs[0].shape) * inputs * product(taps)

    def may_use_winograd(self, call: OpCall) -> bool:
        """Whether the call is on float32, without strides, dilation and groups, channels first."""
        given, attrs = self.geometry(call.attrs), call.attrs
        is_plain = set(given["stride"]) | set(given["dilation"]) == {1} and attrs.groups == 1
        return is_plain and call.dtypes[0] == "float32" and self.is_channels_first(call)

    def has_nine_taps(self, call: OpCall) -> Conditions:
        """The conditions of a window of 3 x 3."""
        return tuple(condition(taps, "==", winograd_tiles.WINDOW) for taps in self.weight(call)[2])

    def has_many_channels(self, call: OpCall) -> Conditions:
        """The conditions that products outweigh the transformations of data and results."""
        outputs, inputs, _ = self.weight(call)
        places, (most, of) = product(self.sizes(call)[1]), MOST_TILES
        return (
            condition(inputs, ">=", LEAST_FILTERED),
            condition(outputs, ">=", LEAST_FILTERED),
            condition(call.outputs[0].shape[0] * places, ">=", LEAST_PLACES),
            condition(self.tiles(call) * of, "<=", places * most),
        )

    def pays_transformation(self, call: OpCall) -> Conditions:
        """The conditions that products outweigh the transformations of data, results and weight."""
        places = call.outputs[0].shape[0] * product(self.sizes(call)[1])
        return (*self.has_many_channels(call), condition(places, ">=", LEAST_TRANSFORMED))

    def tiles(self, call: OpCall) -> Dim:
        """The number of tiles of ``winograd`` of a picture."""
        tall, wide = ((size + winograd_tiles.RESULTS - 1) // winograd_tiles.RESULTS for size in self.sizes(call)[1])
        return tall * wide

    def tile_pitch(self, call: OpCall) -> Dim:
        """The number of tiles of a row of ``winograd``, and of lanes behind them (see ``tile_pitch`` in its module)."""
        line, least = by_winograd.LINE, winograd_tiles.LEAST_LANES
        behind = (self.sizes(call)[1][-1] + 1) // winograd_tiles.RESULTS * (least - 1) % least
        lines = (call.outputs[0].shape[0] * self.tiles(call) + behind + line - 1) // line
        return min_(lines // 2 * 2, GROUP_PANELS) * line + line

    def filter_elements(self, call: OpCall) -> Dim:
        """The number of elements of the transformed weight."""
        outputs, inputs, _ = self.weight(call)
        return outputs * inputs * by_winograd.PRODUCTS

    def tile_elements(self, call: OpCall) -> Dim:
        """The number of elements of a stretch of transformed data."""
        return (self.weight(call)[1] * self.tile_pitch(call) + by_winograd.LINE) * by_winograd.PRODUCTS

    def apart_elements(self, call: OpCall) -> Dim:
        """The number of elements of the tiles that ``winograd`` multiplies apart."""
        return self.weight(call)[1] * (by_winograd.PRODUCTS * tiles.APART)

    def tile_sums(self, call: OpCall) -> Dim:
        """The number of sums of a stretch, and of their results."""
        elements = self.tile_pitch(call) * by_winograd.BAND
        return (elements + by_winograd.LINE) * by_winograd.PRODUCTS + elements * winograd_tiles.RESULTS**2

    def stretches(self, call: OpCall) -> Dim:
        """The number of blocks of ``winograd`` (see ``convolve_winograd`` in its module)."""
        count, stretch = call.outputs[0].shape[0] * self.tiles(call), by_winograd.STRETCH
        blocks: Dim = max_((count - tiles.APART + stretch - 1) // stretch, min_(count, 1))
        return blocks

    def bands_of_stretches(self, call: OpCall) -> Dim:
        """The number of blocks of ``winograd`` that have some of the output channels."""
        return self.stretches(call) * self.finished_bands(call)

    def parts(self, call: OpCall, blocks: Dim, together: Dim) -> Dim:
        """The most parts of ``blocks`` that pay, since each part prepares the operands of ``together`` neighbouring blocks."""
        outputs = self.weight(call)[0] // call.attrs.groups
        return min_(blocks, blocks // max_(together, 1) * max_(outputs // LEAST_PREPARED, 1))

    def parts_of_tiles(self, call: OpCall) -> Dim:
        """The most parts of ``tiles`` that pay."""
        return self.parts(call, self.tile_blocks(call), self.packed_together(call))

    def parts_of_bands(self, call: OpCall) -> Dim:
        """The most parts of ``shifts`` that pay."""
        return self.parts(call, self.band_blocks(call), self.bands_of_channels(call))

    def parts_of_stretches(self, call: OpCall) -> Dim:
        """The most parts of ``winograd`` that pay."""
        return self.parts(call, self.bands_of_stretches(call), self.finished_bands(call))

    def finished_bands(self, call: OpCall) -> Dim:
        """The number of blocks of ``winograd`` for a stretch: bands of output channels."""
        bands: Dim = (self.weight(call)[0] + by_winograd.BAND - 1) // by_winograd.BAND
        return bands

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
        most = min_(min_(rows, by_shifts.BAND // max_(one, 1) - between), by_shifts.TOGETHER // max_(self.pitch(call), 1))
        return max_(most, 1), rows

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
        sums: Dim = self.rows(call)[0] * self.pitch(call) * tiles.FINISHED_ROWS
        return sums

    def band_numbers(self, call: OpCall) -> Dim:
        """The number of integers that ``shifts`` needs: a vector, and the offset of each channel and tap."""
        _, inputs, taps = self.weight(call)
        return inputs * product(taps) + self.width(call)

    def band_blocks(self, call: OpCall) -> Dim:
        """The number of blocks of ``shifts`` (see ``convolve_shifts`` in its module)."""
        most, rows = self.rows(call)
        parts = self.bands_of_channels(call)
        depth = self.sizes(call)[1][0] if self.rank > len("HW") else dim(1)
        blocks: Dim = call.outputs[0].shape[0] * call.attrs.groups * depth * ((rows + most - 1) // most) * parts
        return blocks

    def phases(self, given: dict[str, Any], sizes: tuple[Dim, ...], taps: tuple[Dim, ...]) -> Dim:
        """The number of elements of a padded plane of these sizes, of all phases (see ``padded_sizes`` in ``by_plane``)."""
        missing = 3 - self.rank
        padded, steps = product(()), given["stride"]
        for axis, (size, tap) in enumerate(zip(sizes, taps, strict=True), missing):
            padded = padded * (size + (tap - 1) * given["dilation"][axis] // steps[axis])
        elements: Dim = padded * (steps[0] * steps[1] * steps[2])
        return elements

    def plane_elements(self, call: OpCall) -> Dim:
        """The number of elements of the phases of padded planes (see ``padded_sizes`` in the module of ``planes``), at least one,
        and of the vector behind them, which may be read and overwritten."""
        plane = self.phases(self.geometry(call.attrs), self.sizes(call)[1], self.weight(call)[2])
        elements: Dim = plane * max_(by_plane.FILLED // max_(plane, 1), 1) + self.width(call)
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

    def accumulator_elements(self, call: OpCall) -> Dim:
        """The number of sums that ``direct`` accumulates at once."""
        return max_(self.sizes(call)[1][-1], self.weight(call)[0])
