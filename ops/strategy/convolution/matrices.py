"""Matrix products of whole tensors by a library, of the data or of gathered columns: conditions and workspace."""

from __future__ import annotations

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import Dim, product
from ....shape_funcs.symbolic.dim_operations import max_, min_
from ...core.conditions import Conditions, condition
from ...core.implementation import Kernel, OpCall, Scratch
from ...kernels.conv import cpu as bodies
from ...kernels.conv import matrices
from ...kernels.conv.weight_layout import SPACE_OUT_IN
from ...kernels.matmul.cpu import BLAS_LIMIT
from ..products.matmul_strategy import GEMM, is_one_float
from .sizes import Convolution


@frozen
class Matrices(Convolution):
    """The implementations ``pointwise`` and ``im2col`` of a call."""

    def pointwise(self) -> Kernel:
        """The implementation ``pointwise``."""
        return Kernel(
            "pointwise",
            bodies.pointwise,
            libraries=GEMM,
            takes=self.has_unit_stride,
            fits=self.is_pointwise,
            pays=self.enough_channels,
            **self.given,
        )

    def im2col(self) -> Kernel:
        """The implementation ``im2col``."""
        return Kernel(
            "im2col",
            bodies.gathered,
            libraries=GEMM,
            takes=is_one_float,
            fits=self.is_matrix,
            pays=self.enough_channels,
            scratch=(Scratch(length=self.column_elements),),
            **self.given,
        )

    def is_pointwise(self, call: OpCall) -> Conditions:
        """The conditions that the kernel has a single tap and the result has the spatial sizes of the data."""
        _, _, taps = self.weight(call)
        same = [condition(a, "==", b) for a, b in zip(*self.sizes(call), strict=True)]
        return (condition(product(taps), "==", 1), *same, *self.fits_blas(call))

    def is_matrix(self, call: OpCall) -> Conditions:
        """The conditions under which the weight is stored as a matrix."""
        _, _, taps = self.weight(call)
        transposed = self.geometry(call.attrs)["layouts"][0] == SPACE_OUT_IN
        return ((condition(product(taps), "==", 1),) if transposed else ()) + self.fits_blas(call)

    def fits_blas(self, call: OpCall) -> Conditions:
        """The conditions that all sizes passed to the BLAS fit its integers."""
        outputs, inputs, taps = self.weight(call)
        positions = product(self.sizes(call)[1])
        counted = (positions, inputs * product(taps), outputs, inputs * call.attrs.groups)
        return tuple(condition(d, "<=", BLAS_LIMIT) for d in counted)

    def column_elements(self, call: OpCall) -> Dim:
        """The number of elements of a tile of columns of ``im2col`` (see ``tile_length`` in its module)."""
        _, inputs, taps = self.weight(call)
        terms, positions = inputs * product(taps), product(self.sizes(call)[1])
        at_once = min_(positions, max_(matrices.LEAST_POSITIONS, matrices.COLUMNS // max_(terms, 1)))
        return at_once * terms
