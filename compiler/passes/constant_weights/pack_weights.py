"""Store constant weights in the form that a kernel reads: of matrix products in panels, of convolutions transformed.

    let %y = nn.dense(%x, W);    ->    let %y = nn.dense_panels(%x, P, units=1000);
    let %y = nn.dense(%x, B, out_dtype="int32");   ->    let %y = nn.dense_byte_panels(%x, P, S);
    let %y = nn.conv2d(%x, W);   ->    let %y = nn.winograd_conv2d(%x, W, F);
    let %y = nn.conv2d(%x, W, dilation=12);   ->    let %y = nn.conv2d(%x, T, dilation=12, kernel_layout="HWIO");

A weight is packed if its panels have few columns of padding.  float32 and float64; a product in another dtype than its data, or
with a transposed first matrix, is left unchanged.  Every element of a packed product is one sum in order, rounded once a step:
the result differs from that of ``nn.dense`` by the rounding of another order.

A weight of signed bytes, of a product of bytes as int32, is packed with the sums of its columns (see ``byte_panels``).

A convolution whose sizes may choose Winograd's algorithm gets the transformed weight; the weight is kept for other sizes.  The
weight of a convolution whose taps reach little of the data, such as with wide dilation, is stored tap by tap.

Requires: typed A-normal form, constants folded.
Ensures: the same.  A weight that several products share is packed once.  The pages of a weight that is
mapped from a file are released once it is packed, so that memory holds one copy of the weights.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Collection

import numpy as np

from ....ops.core.implementation import OpCall
from ....ops.core.op import Op, get
from ....ops.core.tensor_types import Tensor, TensorType
from ....ops.defs.convolution.conv import Conv1dAttrs, Conv2dAttrs, Conv3dAttrs, geometry
from ....ops.defs.products.nn import DenseAttrs, MatmulAttrs
from ....ops.defs.weight_forms.dense_byte_panels import DenseBytePanelsAttrs
from ....ops.defs.weight_forms.dense_panels import DensePanelsAttrs
from ....ops.defs.weight_forms.winograd_filters import NAME as WITH_FILTERS
from ....ops.defs.weight_forms.winograd_filters import ConvolutionWithFiltersAttrs
from ....ops.native.file_pages import release_pages
from ....ops.native.jit.convolution.winograd_filters import TAPS as WINOGRAD_TAPS
from ....ops.native.jit.convolution.winograd_filters import of_window
from ....ops.native.jit.products.register_tile import panel_width
from ....ops.strategy.choice import choose
from ....ops.strategy.convolution.sizes import Geometry
from ....ops.strategy.convolution.taps import Taps
from ....shape_funcs.defs.convolution.conv import SPATIAL, WINOGRAD_FILTERS, kernel_layouts, per_axis
from ...ir.anf import inner_chains, rebuild, rebuild_lets
from ...ir.expr import Call, Constant, Expr, IRModule, Var, let_chain, map_bodies, replace
from ...ir.pass_declaration import declare_pass
from .byte_panels import columns_in_byte_panels, has_byte_weight, in_byte_panels, sums_of_columns, sums_of_rows
from .cache_lines import in_lines
from .weighted_products import constant_like, weight_of

#: Smaller weights stay as they are: they fit the first cache in any order.
LEAST_ELEMENTS = 4096
#: ``(weight) -> the weight as a kernel reads it``.
Form = Callable[[np.ndarray], np.ndarray]
#: Columns with padding, for each column without.
MOST_PADDED = 1.5


@declare_pass("PackWeights", "infer_type", "expand_composites", "fold_constant")
def pack_weights(mod: IRModule, forced: Collection[str] = ()) -> IRModule:
    """The module with constant weights in panels.  ``forced``: names of operators that stay as they are."""
    return map_bodies(mod, WeightPacker(forced).chain)


def in_panels(weight: np.ndarray) -> np.ndarray:
    """The rows of ``weight[n, k]`` in panels ``[panels, k, width]``; the last one is padded with zeros."""
    width, columns = panel_width(weight.itemsize), weight.shape[1]
    full, rest = divmod(len(weight), width)

    def fill(panels: np.ndarray) -> None:
        panels[:full] = weight[: full * width].reshape(full, width, columns).transpose(0, 2, 1)
        if rest:
            panels[full] = 0
            panels[full, :, :rest] = weight[full * width :].T

    return in_lines((full + (rest > 0), columns, width), weight.dtype, fill)


def _columns_in_panels(weight: np.ndarray) -> np.ndarray:
    return in_panels(weight.T)


def taps_first(weight: np.ndarray) -> np.ndarray:
    """The weight ``[O, I, ...]`` stored tap by tap: ``[..., I, O]``."""
    return np.ascontiguousarray(weight.transpose(*range(2, weight.ndim), 1, 0))


#: The windows that are transformed at once: new memory for the terms of all would take longer than the sums.
_AT_ONCE = 1 << 14


def filters_of(weight: np.ndarray, stride: int = 1) -> np.ndarray:
    """The weight ``[O, I, 3, 3]`` transformed for Winograd's algorithm with stride 1 or 2: ``[16, O, I]``."""
    windows = weight.reshape(-1, WINOGRAD_TAPS)

    def fill(filters: np.ndarray) -> None:
        flat = filters.reshape(WINOGRAD_FILTERS, -1)
        for at in range(0, len(windows), _AT_ONCE):
            taps = list(np.ascontiguousarray(windows[at : at + _AT_ONCE].T))
            with np.errstate(over="ignore", invalid="ignore"):  # as kernels, which do not warn of infinities
                rows = of_window(taps, stride)
            for n, elements in enumerate(itertools.chain.from_iterable(rows)):
                flat[n, at : at + len(elements)] = elements

    return in_lines((WINOGRAD_FILTERS, *weight.shape[:2]), weight.dtype, fill)


#: By stride, the form of a weight that is transformed for Winograd's algorithm.
_FILTERS: dict[int, Form] = {1: filters_of, 2: functools.partial(filters_of, stride=2)}


#: By the attributes of a convolution, the geometry of its kernels.
_GEOMETRIES: dict[type, Geometry] = {
    kind: functools.partial(geometry, rank=rank) for rank, kind in enumerate((Conv1dAttrs, Conv2dAttrs, Conv3dAttrs), 1)
}


class WeightPacker:
    """The rewriter of one module."""

    def __init__(self, forced: Collection[str]) -> None:
        self.forced = forced
        self.packed: dict[tuple[int, Form], tuple[np.ndarray, Constant]] = {}  # with the weight, which keeps its id

    def chain(self, chain: Expr) -> Expr:
        bindings, result = let_chain(chain)
        out: list[tuple[Var, Expr]] = []
        for var, value in bindings:
            inner = rebuild(value, lambda atom: atom, self.chain) if inner_chains(value) else value
            packed = self._product(value)
            out.append((var, inner if packed is None else packed))
        return rebuild_lets(chain, out, result)

    def _product(self, value: Expr) -> Call | None:
        """The product with a packed weight; None for any other value."""
        if not isinstance(value, Call) or not isinstance(value.op, Op) or value.op.name in self.forced:
            return None
        attrs, weight = value.attrs, weight_of(value)
        if has_byte_weight(value):
            return self._product_of_bytes(value)
        if weight is not None and type(attrs) in _GEOMETRIES:
            apart = self._tap_by_tap(value, value.op, weight)
            return self._convolution(value, weight) if apart is None and type(attrs) is Conv2dAttrs else apart
        return None if weight is None else self.product(value, weight)

    def product(self, value: Call, weight: np.ndarray) -> Call | None:
        """A product with its constant weight in panels; None where that does not pay, and for any other call."""
        attrs = value.attrs
        if not (isinstance(value.op, Op) and value.op.name not in self.forced and isinstance(attrs, (DenseAttrs, MatmulAttrs))):
            return None
        by_rows = isinstance(attrs, DenseAttrs) or attrs.transpose_b
        if (isinstance(attrs, MatmulAttrs) and attrs.transpose_a) or not _pays(weight if by_rows else weight.T):
            return None
        form = in_panels if by_rows else _columns_in_panels
        units = weight.shape[0 if by_rows else 1]
        args = value.args[0], self._in_form(value.args[1], weight, form)
        return replace(value, op=get("nn.dense_panels"), args=args, attrs=DensePanelsAttrs(units))

    def _product_of_bytes(self, value: Call) -> Call:
        """The product with a packed weight of bytes."""
        weight, by_rows = value.args[1], isinstance(value.attrs, DenseAttrs) or value.attrs.transpose_b
        assert isinstance(weight, Constant)
        forms: tuple[Form, ...] = (in_byte_panels, sums_of_rows) if by_rows else (columns_in_byte_panels, sums_of_columns)
        args = value.args[0], *(self._in_form(weight, weight.data, form) for form in forms)
        return replace(value, op=get("nn.dense_byte_panels"), args=args, attrs=DenseBytePanelsAttrs())

    def _tap_by_tap(self, value: Call, op: Op, weight: np.ndarray) -> Call | None:
        """The convolution with the weight stored tap by tap; None where another implementation is faster."""
        rank = weight.ndim - 2
        layout, by_taps, *_ = kernel_layouts(rank)
        if value.attrs.kernel_layout != layout:
            return None
        attrs = replace(value.attrs, kernel_layout=by_taps)
        types = (value.args[0].ty, TensorType.of((*weight.shape[2:], *weight.shape[1::-1]), weight.dtype.name), value.ty)
        *inputs, output = (Tensor(ty.dtype, ty.shape) for ty in types if isinstance(ty, TensorType))
        call = OpCall(op, attrs, tuple(inputs), (output,))
        if choose(call).names != ("taps",) or not Taps(rank, _GEOMETRIES[type(attrs)]).reaches_few(call):
            return None
        return replace(value, args=(value.args[0], self._in_form(value.args[1], weight, taps_first)), attrs=attrs)

    def _convolution(self, value: Call, weight: np.ndarray) -> Call | None:
        """The convolution with a transformed weight, too; None if no size chooses Winograd's algorithm."""
        shape = (WINOGRAD_FILTERS, *weight.shape[:2])
        types = (value.args[0].ty, value.args[1].ty, TensorType.of(shape, weight.dtype.name), value.ty)
        *inputs, output = (Tensor(ty.dtype, ty.shape) for ty in types if isinstance(ty, TensorType))
        attrs = ConvolutionWithFiltersAttrs(**vars(value.attrs))
        choice = choose(OpCall(get(WITH_FILTERS), attrs, tuple(inputs), (output,)))
        if "winograd" not in choice.names:
            return None
        stride = per_axis(attrs.strides, len(SPATIAL[2]), "strides")[0]
        args = *value.args, self._in_form(value.args[1], weight, _FILTERS[stride])
        return replace(value, op=get(WITH_FILTERS), args=args, attrs=attrs)

    def _in_form(self, atom: Expr, weight: np.ndarray, form: Form) -> Constant:
        """The constant weight ``atom`` in another form."""
        key = (id(weight), form)
        if key not in self.packed:
            self.packed[key] = weight, constant_like(form(weight), atom)
            release_pages(weight)
        return self.packed[key][1]


def _pays(weight: np.ndarray) -> bool:
    """Whether the panels of ``weight[n, k]`` are worth their padding."""
    units = len(weight)
    width = panel_width(weight.itemsize)
    return weight.size >= LEAST_ELEMENTS and -(-units // width) * width <= MOST_PADDED * units
