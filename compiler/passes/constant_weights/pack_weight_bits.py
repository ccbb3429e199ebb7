"""Store constant weights of few bits as their kernel reads them: in panels of columns.

    let %y = nn.dense_bits(%x, W, S, 8u8, bits=4, block=32, inner=100);
    ->
    let %y = nn.dense_bit_panels(%x, P, T, Z, units=50, bits=4, block=32);

Data of float16 and bfloat16 are cast to float32 before, and the result after.  Weights that are no constants, and products in
float64, are left to be expanded: their numbers are unpacked in each call.

Requires: typed A-normal form.
Ensures: the same.  A weight that several products share is packed once, and so are its scales and its zero points.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ops.core.op import get
from ....ops.core.tensor_types import TensorType
from ....ops.defs.arithmetic.elementwise import CAST
from ....ops.defs.weight_forms.dense_bits import IN_PANELS, NAME, DenseBitPanelsAttrs, DenseBitsAttrs
from ....ops.kernels.weight_bits.weight_layout import COLUMNS, MOST_BLOCK, by_panel, in_panels, unpacked
from ....ops.native.file_pages import release_pages
from ....shape_funcs.symbolic.dim import dim
from ...ir.anf import inner_chains, rebuild, rebuild_lets
from ...ir.expr import Call, Constant, Expr, IRModule, Var, let_chain, map_bodies, replace
from ...ir.pass_declaration import declare_pass
from .weighted_products import constant_like


@declare_pass("PackWeightBits", "infer_type")
def pack_weight_bits(mod: IRModule) -> IRModule:
    """The module with constant weights of few bits in panels."""
    packer = _Packer()
    found = map_bodies(mod, packer.chain)
    return found if packer.packed else mod


class _Packer:
    """The rewriter of one module."""

    def __init__(self) -> None:
        self.packed: dict[tuple[int, ...], tuple[list[Constant], list[Constant]]] = {}  # with the constants, which keep their ids

    def chain(self, chain: Expr) -> Expr:
        bindings, result = let_chain(chain)
        out: list[tuple[Var, Expr]] = []
        for var, value in bindings:
            value = rebuild(value, lambda atom: atom, self.chain) if inner_chains(value) else value
            out += self._product(var, value) or [(var, value)]
        return rebuild_lets(chain, out, result)

    def _product(self, var: Var, value: Expr) -> list[tuple[Var, Expr]] | None:
        """The bindings of a product with a packed weight; None for any other value."""
        if not (isinstance(value, Call) and value.op is get(NAME)):
            return None
        data, *constants = value.args
        weights = [c for c in constants if isinstance(c, Constant)]
        if len(weights) < len(constants) or not isinstance(data.ty, TensorType) or data.ty.dtype == "float64":
            return None
        attrs = DenseBitPanelsAttrs(
            weights[0].data.shape[0], value.attrs.bits, min(value.attrs.block, MOST_BLOCK), value.attrs.rounds_data
        )
        wide = TensorType((*data.ty.shape[:-1], dim(attrs.units)), "float32")
        product = Call(get(IN_PANELS), (data, *self._in_panels(weights, value.attrs)), attrs, span=value.span, ty=wide)
        if data.ty.dtype == "float32":
            return [(var, product)]
        own, sums = Var(f"{var.name}_data", ty=TensorType(data.ty.shape, "float32")), Var(f"{var.name}_sums", ty=wide)
        return [
            (own, _cast(data, "float32", own.ty)),
            (sums, replace(product, args=(own, *product.args[1:]))),
            (var, _cast(sums, data.ty.dtype, value.ty)),
        ]

    def _in_panels(self, weights: list[Constant], attrs: DenseBitsAttrs) -> list[Constant]:
        """Weight, scales and zero points as the kernel reads them."""
        key = (*(id(w.data) for w in weights), attrs.bits, attrs.block)
        if key not in self.packed:
            weight, scales, zeros = (w.data for w in weights)
            blocks = _Blocks(weight, attrs)
            made = [blocks.in_panels(), blocks.scales(scales), blocks.zeros(zeros)]
            self.packed[key] = weights, [constant_like(new, old) for new, old in zip(made, weights, strict=True)]
            release_pages(weight)
        return self.packed[key][1]


def _cast(atom: Expr, dtype: str, ty: Any) -> Call:
    return Call(CAST, (atom,), CAST.attrs(dtype), span=atom.span, ty=ty)


class _Blocks:
    """The blocks of a weight as panels have them: a longer block is several with the same scale and zero point."""

    def __init__(self, weight: np.ndarray, attrs: DenseBitsAttrs) -> None:
        self.weight, self.bits, self.block = weight, attrs.bits, min(attrs.block, MOST_BLOCK)
        self.parts, self.count = attrs.block // self.block, -(-attrs.inner // self.block)

    def in_panels(self) -> np.ndarray:
        rows, blocks, nbytes = self.weight.shape
        return in_panels(self.weight.reshape(rows, blocks * self.parts, nbytes // self.parts)[:, : self.count], self.bits)

    def _by_panel(self, numbers: np.ndarray) -> np.ndarray:
        return by_panel(np.repeat(numbers, self.parts, 1)[:, : self.count])

    def scales(self, scales: np.ndarray) -> np.ndarray:
        return self._by_panel(scales.astype(np.float32))

    def zeros(self, zeros: np.ndarray) -> np.ndarray:
        """The zero points, uint8 or float32; one that all blocks have is a row ``[1, 1, 16]``."""
        own = zeros if zeros.dtype == np.uint8 else zeros.astype(np.float32)
        if zeros.ndim == 0:
            return np.full((1, 1, COLUMNS), own)
        return self._by_panel(unpacked(own, self.bits)[:, : self.weight.shape[1]] if zeros.dtype == np.uint8 else own)
