"""Implementations of convolution, with the conditions under which each is correct and profitable.

===========  ===================================================================================================
planes       few output channels per group, channels first: sums of shifted planes, no gathering; of 3 x 3 taps and a channel per
             group, of the data itself
half_planes  as planes, of halves with sums in float32: some planes are widened at a time
winograd     float32, a window of 3 x 3, strides of 1 or 2, channels first, enough channels and positions: Winograd's algorithm,
             of a weight that is transformed in the call or before
groups       groups of a few vectors of channels over two axes, channels first: tiles of positions by the channels of a group
shifts       channels first, several taps, rows that are not short: tiles of a matrix product over shifts of padded data
rows         channels first, at most a dozen positions: rows of the weight by columns of the data, turned
positions    channels first, one tap, small pictures: tiles of a few positions by a panel of output channels
taps         channels first, the weight stored tap by tap (HWIO), strides of 1: each tap of the positions that it reaches
tiles        channels first: tiles of a matrix product over columns that are packed for each tile
pointwise    kernel of size 1, stride 1: a matrix product of the data itself
im2col       a matrix product over gathered columns
direct       any convolution
cudnn        on GPUs: cuDNN, its plan made for the sizes when they first occur; without a plan as ``convolution``
convolution  on GPUs (``kernels/conv/cuda``)
===========  ===================================================================================================
"""

from __future__ import annotations

from dataclasses import replace

from ....shape_funcs.symbolic.dim import Dim
from ....shape_funcs.symbolic.dim_operations import max_
from ...core.implementation import Kernel, OpCall, Scratch
from ...kernels.conv import cpu as bodies
from ...kernels.conv import cuda, cudnn
from .groups import Groups
from .half_planes import HalfPlanes
from .matrices import Matrices
from .planes import Planes
from .positions import Positions
from .rows import Rows
from .shifts import Shifts
from .sizes import Convolution, Geometry
from .taps import Taps
from .tiles import Tiles
from .winograd import Winograd


def kernels(rank: int, geometry: Geometry) -> tuple[Kernel, ...]:
    """The implementations of convolution over ``rank`` spatial axes."""
    sizes, matrices = Convolution(rank, geometry), Matrices(rank, geometry)

    def accumulator_elements(call: OpCall) -> Dim:
        """The number of sums that ``direct`` accumulates at once."""
        return max_(sizes.sizes(call)[1][-1], sizes.weight(call)[0])

    def by_cudnn(call: OpCall) -> bool:
        """Whether cuDNN may have engines for these layouts and dtypes."""
        data, weight, out = call.inputs[0].dtype, call.inputs[1].dtype, call.outputs[0].dtype
        return cudnn.supports(geometry(call.attrs), data, weight, out)

    return (
        Planes(rank, geometry).kernel(),
        HalfPlanes(rank, geometry).kernel(),
        *((Winograd(rank, geometry).kernel(bodies.winograd),) if rank == len("HW") else ()),
        *((Groups(rank, geometry).kernel(),) if rank == len("HW") else ()),
        Shifts(rank, geometry).kernel(),
        Rows(rank, geometry).kernel(),
        Positions(rank, geometry).kernel(),
        Taps(rank, geometry).kernel(),
        Tiles(rank, geometry).kernel(),
        matrices.pointwise(),
        matrices.im2col(),
        Kernel("direct", bodies.directly, scratch=(Scratch("float64", length=accumulator_elements),), **sizes.given),
        Kernel("cudnn", None, cuda=cuda.convolution(geometry, by_cudnn=True), takes=by_cudnn, **sizes.given),
        Kernel("convolution", None, cuda=cuda.convolution(geometry), **sizes.given),
    )


def kernels_with_filters(geometry: Geometry) -> tuple[Kernel, ...]:
    """The implementations of convolution over two axes whose weight is given twice: as it is, and transformed (``winograd``)."""
    rank = len("HW")
    plain = (replace(kernel, views=("dims", "dims", "skip", "dims")) for kernel in kernels(rank, geometry))
    transformed = Winograd(rank, geometry).kernel(bodies.winograd_of_filters)
    return tuple(transformed if kernel.name == transformed.name else kernel for kernel in plain)
