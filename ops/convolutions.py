"""The implementations of convolution, and when each is right and pays.

===========  ===================================================================================================
planes       few channels from a group, before space: adds shifted planes, gathers nothing (``kernels/plane_conv``)
pointwise    each place takes just the same place: a matrix product of what is there
im2col       a matrix product over gathered columns
direct       anything
convolution  on cards (``kernels/cuda/conv``)
===========  ===================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..shape_funcs.dims import Dim, Shape, const, max_, min_, product
from .conditions import Conditions, condition
from .implementation import Kernel, OpCall, Scratch
from .kernels import conv as bodies
from .kernels.cuda import conv as cuda
from .kernels.kernel_layouts import OUT_IN_SPACE, OUT_SPACE_IN, SPACE_IN_OUT, SPACE_OUT_IN
from .kernels.matmul import BLAS_LIMIT
from .products import GEMM, is_one_float

#: A product that makes fewer channels from a group is slower than the other ways.
LEAST_CHANNELS = 4
#: A group that makes fewer channels, before space, goes by planes; LEAST_CHANNELS, if there is one tap and little to gather.
FEW_CHANNELS = 8
#: ``(attrs) -> attributes as a body takes them``.
Geometry = Callable[[Any], dict[str, Any]]


def kernels(rank: int, geometry: Geometry) -> tuple[Kernel, ...]:
    """Those of the convolution over ``rank`` spatial axes."""
    ask = _Convolution(rank, geometry)
    given: dict[str, Any] = {"attrs": geometry, "views": ("dims",)}
    return (
        Kernel(
            "planes",
            bodies.planes,
            takes=lambda call: is_one_float(call) and not any(geometry(call.attrs)["layouts"][1:]),
            pays=ask.makes_few,
            scratch=(Scratch(length=ask.room_for_planes),),
            **given,
        ),
        Kernel(
            "pointwise",
            bodies.pointwise,
            libraries=GEMM,
            takes=ask.steps_by_one,
            fits=ask.takes_the_same_place,
            pays=ask.makes_many,
            **given,
        ),
        Kernel(
            "im2col",
            bodies.gathered,
            libraries=GEMM,
            takes=is_one_float,
            fits=ask.is_a_matrix,
            pays=ask.makes_many,
            scratch=(Scratch(length=ask.room_for_columns),),
            **given,
        ),
        Kernel("direct", bodies.directly, scratch=(Scratch("float64", length=ask.room_for_totals),), **given),
        Kernel("convolution", None, cuda=cuda.convolution(geometry), **given),
    )


@dataclass(frozen=True)
class _Convolution:
    """What the implementations are asked about a call."""

    rank: int
    geometry: Geometry

    def space(self, tensor: Shape, layout: str) -> tuple[Dim, ...]:
        """The spatial sizes of data or result."""
        return tuple(d for d, letter in zip(tensor, layout, strict=True) if letter not in "NC")

    def sizes(self, call: OpCall) -> tuple[tuple[Dim, ...], tuple[Dim, ...]]:
        """The spatial sizes of the data and of the result."""
        attrs = call.attrs
        return (
            self.space(call.inputs[0].shape, attrs.data_layout),
            self.space(call.outputs[0].shape, attrs.out_layout or attrs.data_layout),
        )

    def weight(self, call: OpCall) -> tuple[Dim, Dim, tuple[Dim, ...]]:
        """Of the weight: output channels, input channels of a group, taps."""
        shape, layout = call.inputs[1].shape, self.geometry(call.attrs)["layouts"][0]
        outputs, inputs = {OUT_IN_SPACE: (0, 1), OUT_SPACE_IN: (0, -1), SPACE_IN_OUT: (-1, -2), SPACE_OUT_IN: (-2, -1)}[layout]
        first = {OUT_IN_SPACE: 2, OUT_SPACE_IN: 1}.get(layout, 0)
        return shape[outputs], shape[inputs], shape[first : first + self.rank]

    def makes_few(self, call: OpCall) -> Conditions:
        """Are there so few channels that gathering does not pay?"""
        outputs, _, taps = self.weight(call)
        few = LEAST_CHANNELS if const(product(taps)) in (1, None) else FEW_CHANNELS
        return (condition(outputs, "<", call.attrs.groups * few),)

    def makes_many(self, call: OpCall) -> Conditions:
        """Are there enough channels for a product?"""
        return (condition(self.weight(call)[0], ">=", call.attrs.groups * LEAST_CHANNELS),)

    def steps_by_one(self, call: OpCall) -> bool:
        """Does the result go through the data place by place?"""
        given = self.geometry(call.attrs)
        return is_one_float(call) and set(given["stride"]) == {1} and not any(given["before"])

    def takes_the_same_place(self, call: OpCall) -> Conditions:
        """One tap, and as many places as the data has."""
        _, _, taps = self.weight(call)
        same = [condition(a, "==", b) for a, b in zip(*self.sizes(call), strict=True)]
        return (condition(product(taps), "==", 1), *same, *self.is_countable(call))

    def is_a_matrix(self, call: OpCall) -> Conditions:
        """Does the weight lie as one?"""
        _, _, taps = self.weight(call)
        turned = self.geometry(call.attrs)["layouts"][0] == SPACE_OUT_IN
        return ((condition(product(taps), "==", 1),) if turned else ()) + self.is_countable(call)

    def is_countable(self, call: OpCall) -> Conditions:
        """Are there no sizes that a BLAS may not count?"""
        outputs, inputs, taps = self.weight(call)
        places = product(self.sizes(call)[1])
        counted = (places, inputs * product(taps), outputs, inputs * call.attrs.groups)
        return tuple(condition(d, "<=", BLAS_LIMIT) for d in counted)

    def room_for_columns(self, call: OpCall) -> Dim:
        """How many elements ``im2col`` gathers at once (see ``tile_length`` there)."""
        _, inputs, taps = self.weight(call)
        terms, places = inputs * product(taps), product(self.sizes(call)[1])
        at_once = min_(places, max_(bodies.LEAST_PLACES, bodies.COLUMNS // max_(terms, 1)))
        return at_once * terms

    def room_for_planes(self, call: OpCall) -> Dim:
        """The elements of a padded plane, and of the sums of each output channel of a group (see ``padded_sizes`` there)."""
        given, (outputs, _, taps) = self.geometry(call.attrs), self.weight(call)
        missing = 3 - self.rank
        padded, steps = product(()), given["stride"]
        for axis, (size, tap) in enumerate(zip(self.sizes(call)[1], taps, strict=True), missing):
            padded = padded * (size + (tap - 1) * given["dilation"][axis] // steps[axis])
        planes = steps[0] * steps[1] * steps[2] + outputs // call.attrs.groups
        return padded * planes

    def room_for_totals(self, call: OpCall) -> Dim:
        """How many sums ``direct`` adds up at once."""
        return max_(self.sizes(call)[1][-1], self.weight(call)[0])
