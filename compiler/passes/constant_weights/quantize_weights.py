"""Round constant weights of products to 8 or 4 bits, in blocks along the inner axis with a scale and a zero point each.

    let %y = nn.dense(%x, W);    ->    let %y = nn.dense_bits(%x, Q, S, Z, bits=4, block=32, inner=100);

The numbers of a block are spread evenly from its least weight to its largest, or to 0 where all have one sign.  A weight changes
by up to half a step: with 8 bits by 1/510 of the range of its block, with 4 bits by 1/30; 0 stays 0.  The result changes by the
sum of ``|x|`` times the change of the weight at most.

Weights of float32 with at least LEAST_ELEMENTS elements and rows of a block or more; weights with other numbers than finite ones
stay as they are.

Requires: typed A-normal form, constants folded.
Ensures: the same.  A weight that several products share is rounded once.
"""

from __future__ import annotations

import numpy as np

from ....ops.core.op import get
from ....ops.defs.products.nn import DenseAttrs, MatmulAttrs
from ....ops.defs.weight_forms.dense_bits import NAME, DenseBitsAttrs
from ....ops.kernels.weight_bits.weight_layout import packed
from ...ir.anf import inner_chains, rebuild, rebuild_lets
from ...ir.expr import Call, Constant, Expr, IRModule, Var, let_chain, map_bodies
from ...ir.pass_declaration import declare_pass
from .pack_weights import LEAST_ELEMENTS
from .weighted_products import constant_like, weight_of

#: Rows that are rounded at a time.
_ROWS = 256


@declare_pass("QuantizeWeights", "infer_type", "expand_composites", "fold_constant")
def quantize_weights(mod: IRModule, bits: int = 4, block: int = 32) -> IRModule:
    """The module with constant weights of ``bits`` bits, 2, 4 or 8, in blocks of a power of 2 from 16 on."""
    quantizer = _Quantizer(bits, block)
    found = map_bodies(mod, quantizer.chain)
    return found if quantizer.made else mod


def in_blocks(weight: np.ndarray, bits: int, block: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Numbers, scales and zero points of ``weight[n, k]``, as ``nn.dense_bits`` takes them."""
    parts = [_in_blocks(weight[first : first + _ROWS], bits, block) for first in range(0, len(weight), _ROWS)]
    numbers, scales, zeros = (np.concatenate(of_rows) for of_rows in zip(*parts, strict=True))
    return numbers, scales, zeros


def _in_blocks(weight: np.ndarray, bits: int, block: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows, inner = weight.shape
    most = 2**bits - 1
    blocks = np.pad(weight.astype(np.float64), [(0, 0), (0, -inner % block)]).reshape(rows, -1, block)
    least, largest = blocks.min(2, initial=0), blocks.max(2, initial=0)
    scales = ((largest - least) / most).astype(np.float32)
    steps = np.where(scales > 0, scales, 1).astype(np.float64)
    zeros = np.clip(np.rint(-least / steps), 0, most)
    numbers = np.clip(np.rint(blocks / steps[..., None]) + zeros[..., None], 0, most)
    return packed(numbers.astype(np.uint8), bits), scales, packed(zeros.astype(np.uint8), bits)


class _Quantizer:
    """The rewriter of one module."""

    def __init__(self, bits: int, block: int) -> None:
        self.bits, self.block = bits, block
        self.made: dict[tuple[int, bool], tuple[np.ndarray, tuple[Constant, ...]]] = {}  # with the weight, which keeps its id

    def chain(self, chain: Expr) -> Expr:
        bindings, result = let_chain(chain)
        out: list[tuple[Var, Expr]] = []
        for var, value in bindings:
            value = rebuild(value, lambda atom: atom, self.chain) if inner_chains(value) else value
            product = self._product(value)
            out.append((var, value if product is None else product))
        return rebuild_lets(chain, out, result)

    def _product(self, value: Expr) -> Call | None:
        """The product with a rounded weight; None for any other value."""
        weight = weight_of(value)
        if weight is None or not isinstance(value, Call) or not isinstance(value.attrs, (DenseAttrs, MatmulAttrs)):
            return None
        by_rows = isinstance(value.attrs, DenseAttrs) or value.attrs.transpose_b
        inner = weight.shape[1 if by_rows else 0]
        transposed = isinstance(value.attrs, MatmulAttrs) and value.attrs.transpose_a
        if transposed or weight.dtype != np.float32 or weight.size < LEAST_ELEMENTS or inner < self.block:
            return None
        parts = self._parts(value.args[1], weight, by_rows)
        attrs = DenseBitsAttrs(self.bits, self.block, inner)
        return None if parts is None else Call(get(NAME), (value.args[0], *parts), attrs, span=value.span, ty=value.ty)

    def _parts(self, atom: Expr, weight: np.ndarray, by_rows: bool) -> tuple[Constant, ...] | None:
        """Numbers, scales and zero points of a constant weight; None if they cannot hold it."""
        key = (id(weight), by_rows)
        if key not in self.made:
            if not np.isfinite(weight).all() or weight.max() - weight.min() > np.finfo(np.float32).max:
                return None
            made = in_blocks(weight if by_rows else weight.T, self.bits, self.block)
            self.made[key] = weight, tuple(constant_like(part, atom) for part in made)
        return self.made[key][1]
