"""Sums of shifted planes of halves: conditions, workspace and blocks."""

from __future__ import annotations

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import Dim, product
from ....shape_funcs.symbolic.dim_operations import max_, min_
from ...core.implementation import Blocks, Kernel, OpCall, Scratch
from ...core.tensor_types import HALVES
from ...kernels.conv import by_channels
from ...kernels.conv.weight_layout import OUT_IN_SPACE
from ...kernels.half_conv import cpu as bodies
from .planes import Planes


@frozen
class HalfPlanes(Planes):
    """The implementation ``half_planes`` of a call."""

    def kernel(self) -> Kernel:
        """The implementation ``half_planes``."""
        return Kernel(
            "half_planes",
            bodies.half_planes,
            takes=self.widens_planes,
            pays=self.few_channels,
            scratch=(
                Scratch("float32", length=self.given_elements),
                Scratch("float32", length=lambda call: product(call.inputs[1].shape)),
                Scratch("float32", length=self.sum_elements),
                Scratch("float32", length=self.plane_elements),
                Scratch("int64", length=self.plane_numbers),
            ),
            blocks=Blocks(self.plane_blocks, self.plane_work),
            finishes=self.rank,
            apart="always",
            attrs=lambda attrs: {k: v for k, v in self.geometry(attrs).items() if k != "layouts"},
            views=("dims",),
        )

    def widens_planes(self, call: OpCall) -> bool:
        """Whether data and weight are halves of one dtype with channels first, and the result is float32."""
        data, weight, out = call.inputs[0].dtype, call.inputs[1].dtype, call.outputs[0].dtype
        is_first = self.geometry(call.attrs)["layouts"] == (OUT_IN_SPACE, False, False)
        return data == weight and data in HALVES and out == "float32" and is_first

    def group_elements(self, call: OpCall) -> tuple[Dim, Dim]:
        """The elements of data and of the result of a group."""
        (given, made), (outputs, inputs, _) = self.sizes(call), self.weight(call)
        return inputs * product(given), outputs // max_(call.attrs.groups, 1) * product(made)

    def given_elements(self, call: OpCall) -> Dim:
        """The number of elements of the data that are convolved together (see ``groups_together`` in the module of the body)."""
        group = self.group_elements(call)[0]
        return max_(max_(bodies.TOGETHER, group), by_channels.LANES * min_(group, by_channels.MOST_POSITIONS))

    def sum_elements(self, call: OpCall) -> Dim:
        """The number of sums that are computed together."""
        group = self.group_elements(call)[1]
        return max_(max_(bodies.TOGETHER, group), by_channels.LANES * min_(group, by_channels.MOST_APART))
