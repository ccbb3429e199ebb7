"""Multiply float data by dequantised constants as they are stored, in 8 bits or fewer.

    let %w = qnn.dequantize(W, 0.5f, 3i8);    ->    let %y = nn.dense_bits(%x, Q, S, 131u8, bits=8, block=256, inner=100);
    let %y = nn.matmul(%x, %w);

The weight is int8 or uint8, with a scale and a zero point for all numbers, for each column, or for each block along the inner
axis; transposes may stand between.  Numbers that 2 or 4 bits hold are stored so.  A weight that several products share is stored
once.

A product stays as it is where the weight has fewer than LEAST_ELEMENTS elements, scales vary along the inner axis in blocks that
16 does not divide, or a scale is not finite: there the weight is dequantised when the program is compiled, and the module holds
the reason in ``float_products``.

Requires: typed A-normal form, before composite operators are expanded and constants folded.
Ensures: the same.  Calls of ``qnn.dequantize`` without a use are left to ``eliminate_dead_code``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....declarations.frozen_dataclass import frozen
from ....ops.core.op import get
from ....ops.core.tensor_types import TensorType
from ....ops.defs.products.nn import MatmulAttrs
from ....ops.defs.weight_forms.dense_bits import NAME, DenseBitsAttrs
from ....ops.kernels.weight_bits.weight_layout import BITS, LEAST_BLOCK, MOST_BLOCK, packed
from ....vm.bytecode.executable import FloatProduct
from ...analysis.fake_quantization import DEQUANTIZE
from ...ir.anf import is_atom
from ...ir.chain_rewriter import ChainRewriter, rewrite_chains
from ...ir.expr import Call, Constant, Expr, IRModule, Var, replace
from ...ir.pass_declaration import declare_pass
from .pack_weights import LEAST_ELEMENTS
from .weighted_products import constant_like

_BYTES = ("int8", "uint8")
#: The numbers of all blocks of a row at most, with those that fill the last block, for each number of the row.
_MOST_FILLED = 1.125


@declare_pass("KeepWeightBits", "infer_type")
def keep_weight_bits(mod: IRModule) -> IRModule:
    """The module with products of data and the stored bits of dequantised constants, and the reasons for the others."""
    keeper = _Keeper()
    new = rewrite_chains(mod, lambda body: _Rewriter(body, keeper))
    if not any(isinstance(kept, _Kept) for kept in keeper.made.values()):
        new = mod
    return replace(new, float_products=(*mod.float_products, *keeper.left)) if keeper.left else new


@frozen
class _Parameter:
    """A scale or zero point: of all numbers, of each index of an axis, or of blocks along one of two axes."""

    given: Constant
    block: int = 0
    block_axis: int = 0

    def by_rows(self, rows: int, blocks: int, size: int, axis: int, inner: int) -> np.ndarray | None:
        """The parameter as ``[rows, blocks]`` for blocks of ``size`` numbers, or as a scalar; None if it is another in a block.

        ``axis``: that of a vector; ``inner``: that of the sums.
        """
        data = self.given.data
        if data.size == 1:
            return data.reshape(())
        if data.ndim == 1:
            return None if axis == inner else np.broadcast_to(data[:, None], (rows, blocks))
        matrix = data if inner == 1 else data.T
        if not self.block:
            return np.broadcast_to(matrix, (rows, blocks)) if matrix.shape[1] == 1 else None
        if self.block_axis != inner:
            wide = np.repeat(matrix, self.block, 0)[:rows]
            return np.broadcast_to(wide, (rows, blocks)) if wide.shape[1] == 1 else None
        return None if self.block % size else np.repeat(matrix, self.block // size, 1)[:, :blocks]


@frozen
class _Stored:
    """A constant matrix of bytes that stands for ``scale * (value - zero_point)``; ``axis``: that of vectors of parameters."""

    value: Constant
    is_transposed: bool
    scale: _Parameter
    zero_point: _Parameter
    axis: int


@frozen
class _Kept:
    """The arguments of ``nn.dense_bits``."""

    parts: tuple[Constant, Constant, Constant]
    attrs: DenseBitsAttrs


class _Keeper:
    """The stored weights of a module, each made once, or the reason why it has none.

    ``left``: the products that stay in floats.
    """

    def __init__(self) -> None:
        self.made: dict[tuple[Any, ...], _Kept | str] = {}
        self.left: list[FloatProduct] = []
        self._stored: list[_Stored] = []  # which keep their ids

    def kept(self, stored: _Stored, inner: int) -> _Kept | str:
        """The weight, whose axis ``inner`` is that of the sums, for ``nn.dense_bits``; the reason if that has no form for it."""
        parts = stored.value, stored.scale.given, stored.zero_point.given
        key = (*map(id, parts), stored.is_transposed, stored.scale.block, stored.axis, inner)
        if key not in self.made:
            self._stored.append(stored)
            self.made[key] = _kept(stored, inner)
        return self.made[key]


def _kept(stored: _Stored, inner: int) -> _Kept | str:
    numbers = stored.value.data.T if stored.is_transposed != (inner == 0) else stored.value.data
    rows, terms = numbers.shape
    scale, zero_point = stored.scale, stored.zero_point
    size = _block(terms, min((p.block for p in (scale, zero_point) if p.block and p.block_axis == inner), default=0))
    if numbers.size < LEAST_ELEMENTS:
        return f"the weight has {numbers.size} elements, fewer than {LEAST_ELEMENTS}"
    if not np.isfinite(scale.given.data).all():
        return "a scale is not finite"
    if not size:
        return f"the scales of the weight vary in blocks that {LEAST_BLOCK} does not divide"
    blocks = -(-terms // size)
    scales, zeros = (p.by_rows(rows, blocks, size, stored.axis, inner) for p in (scale, zero_point))
    if scales is None or zeros is None:
        return "the scales or zero points of the weight vary within a sum"
    least, bits, kept_zeros = _unsigned(numbers, zeros)
    filled = np.pad(numbers.astype(np.int16) - least, [(0, 0), (0, blocks * size - terms)]).astype(np.uint8)
    made = packed(filled.reshape(rows, blocks, size), bits), np.broadcast_to(scales, (rows, blocks)), kept_zeros
    parts = tuple(constant_like(np.array(part), stored.value) for part in made)
    return _Kept((parts[0], parts[1], parts[2]), DenseBitsAttrs(bits, size, terms))


def _block(terms: int, of_scale: int) -> int:
    """The numbers of a block for sums of ``terms`` products, each with a scale for ``of_scale`` products, 0 for all; 0: none."""
    sizes = [MOST_BLOCK >> n for n in range((MOST_BLOCK // LEAST_BLOCK).bit_length())]
    if of_scale:
        return next((size for size in sizes if of_scale % size == 0), 0)
    return next((size for size in sizes if -(-terms // size) * size <= _MOST_FILLED * terms), LEAST_BLOCK)


def _unsigned(numbers: np.ndarray, zeros: np.ndarray) -> tuple[int, int, np.ndarray]:
    """The least number, the bits of the others without it, and the zero points without it: in those bits, or floats."""
    both = [int(n) for part in (numbers, zeros) for n in (part.min(), part.max())]
    fitting = [bits for bits in BITS if max(both) - min(both) < 2**bits]
    least, bits = (min(both), fitting[0]) if fitting else (int(numbers.min()), BITS[-1])
    moved = zeros.astype(np.int32) - least
    if not fitting:
        return least, bits, moved.astype(np.float32)
    own = moved.astype(np.uint8)
    return least, bits, own if own.ndim == 0 else packed(own, bits)


class _Rewriter(ChainRewriter):
    """The rewriter of one function."""

    def __init__(self, body: Expr, keeper: _Keeper) -> None:
        super().__init__(body)
        self.keeper = keeper

    def replaced(self, var: Var, call: Call) -> list[tuple[Var, Expr]] | None:
        if call.op not in (get("nn.dense"), get("nn.matmul")):
            return None
        data, is_matmul, result = call.args[0], isinstance(call.attrs, MatmulAttrs), call.ty
        if not (isinstance(data.ty, TensorType) and isinstance(result, TensorType)) or (is_matmul and call.attrs.transpose_a):
            return None
        if data.ty.dtype != result.dtype or result.dtype == "float64":
            return None
        weight, is_transposed = self._untransposed(call.args[1])
        stored, by_rows = self._stored(weight), not is_matmul or call.attrs.transpose_b
        if stored is None:
            return None
        kept = self.keeper.kept(stored, 1 if by_rows != is_transposed else 0)
        if isinstance(kept, str):
            self.keeper.left.append(FloatProduct(call.op.name, call.span.place if call.span else "", kept))
            return None
        return [(var, Call(get(NAME), (data, *kept.parts), kept.attrs, span=call.span, ty=call.ty))]

    def _stored(self, atom: Expr) -> _Stored | None:
        """The constant bytes that an atom dequantises; None for any other value."""
        call = self._call(atom, DEQUANTIZE)
        if call is None:
            return None
        value, is_transposed = self._untransposed(call.args[0])
        parameters = [self._parameter(argument) for argument in call.args[1:]]
        scale, zero_point = parameters
        if not isinstance(value, Constant) or value.data.dtype.name not in _BYTES or value.data.ndim != 2:
            return None
        if scale is None or zero_point is None:
            return None
        return _Stored(value, is_transposed, scale, zero_point, call.attrs.axis % 2)

    def _parameter(self, atom: Expr) -> _Parameter | None:
        """A constant, or the repetition of a constant of blocks."""
        atom, block, axis = self._resolved(atom), 0, 0
        if (cropped := self._call(atom, "slice_like")) is not None:
            repeated = self._call(cropped.args[0], "repeat")
            if repeated is None or repeated.attrs.axis is None:
                return None
            atom, block, axis = self._resolved(repeated.args[0]), repeated.attrs.repeats, repeated.attrs.axis % 2
        return _Parameter(atom, block, axis) if isinstance(atom, Constant) and atom.data.ndim <= 2 else None

    def _untransposed(self, atom: Expr) -> tuple[Expr, bool]:
        """A matrix before its transposes, and whether they change it."""
        atom, is_transposed = self._resolved(atom), False
        while (call := self._call(atom, "transpose")) is not None:
            order = tuple(axis % 2 for axis in call.attrs.axes or (1, 0))
            is_transposed, atom = is_transposed != (order == (1, 0)), self._resolved(call.args[0])
        return atom, is_transposed

    def _call(self, atom: Expr, name: str) -> Call | None:
        call = self.values.get(self._resolved(atom))
        return call if isinstance(call, Call) and call.op is get(name) else None

    def _resolved(self, atom: Expr) -> Expr:
        """The atom that a variable stands for: parameters that are bound are variables of constants."""
        while (value := self.values.get(atom)) is not None and is_atom(value):
            atom = value
        return atom
