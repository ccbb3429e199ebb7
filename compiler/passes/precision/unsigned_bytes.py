"""Quantise tensors to bytes without a sign where the program has bytes with one.

    let %q = qnn.quantize(%x, 0.5f, -3i8);           let %q_bytes = qnn.quantize(%x, 0.5f, 125u8, out_dtype="uint8");
    let %y = qnn.dequantize(%q, 0.5f, -3i8);    ->   let %y = qnn.dequantize(%q_bytes, 0.5f, 125u8);

An unsigned byte is 128 above the signed one, and so is its zero point: the differences are the same.  The instructions of CPUs
multiply unsigned bytes of data by signed bytes of weights.  Networks of either kind of bytes have the same kernels then.

The unsigned bytes follow through operators that only move bytes, into products and ``qnn.dequantize``.  A use of another kind
reads ``cast(bitwise_xor(%q_bytes, 128u8), dtype="int8")``.

Requires: typed A-normal form, before composite operators are expanded.
Ensures: the same.  Values without a use are left to ``eliminate_dead_code``.
"""

from __future__ import annotations

from dataclasses import replace as with_attributes
from typing import Any

import numpy as np

from ....ops.core.op import NoAttrs, Op, get
from ....ops.core.tensor_types import TensorType
from ....ops.defs.arithmetic.elementwise import CastAttrs
from ....ops.defs.products.byte_terms import EXCESS
from ...analysis.fake_quantization import DEQUANTIZE, MOVES, QUANTIZE
from ...ir.chain_rewriter import ChainRewriter, rewrite_chains
from ...ir.expr import Call, Constant, Expr, IRModule, Var, replace
from ...ir.pass_declaration import declare_pass
from ..constant_weights.weighted_products import constant_like
from ..infer_type import retyped

_QUANTIZE = get(QUANTIZE)
#: Operators whose first operand is bytes, and the third one their zero point.
_WITH_ZERO_POINTS = frozenset((DEQUANTIZE, "qnn.conv2d", "qnn.dense", "qnn.batch_matmul"))
#: Operators whose result is the data's memory: signed bytes are computed in front of them, by the kernel of another operator.
_VIEWS = frozenset(("reshape", "squeeze", "expand_dims", "nn.batch_flatten"))
#: Products of integers without zero points, whose first operand may have either sign.
_PRODUCTS = frozenset(("nn.matmul", "nn.dense"))

_Bindings = list[tuple[Var, Expr]]


@declare_pass("UnsignedBytes", "monomorphize", "infer_type")
def unsigned_bytes(mod: IRModule) -> IRModule:
    """The module with unsigned bytes in the place of signed ones."""
    new = rewrite_chains(mod, _Rewriter)
    return retyped(new, mod)


class _Rewriter(ChainRewriter):
    """The rewriter of one function.  ``unsigned``: by tensor of signed bytes, the unsigned ones."""

    def __init__(self, body: Expr) -> None:
        super().__init__(body)
        self.unsigned: dict[Expr, Var] = {}

    def replaced(self, var: Var, call: Call) -> _Bindings | None:
        if not isinstance(call.op, Op):
            return None
        if call.op is _QUANTIZE:
            return self._quantised(var, call)
        data = self.unsigned.get(self.resolved(call.args[0])) if call.args else None
        if data is None:
            return None
        if call.op.name in _WITH_ZERO_POINTS:
            zero_point = self.resolved(call.args[2])
            if not isinstance(zero_point, Constant):
                return None
            return [(var, replace(call, args=(data, call.args[1], _moved_zero_point(zero_point), *call.args[3:])))]
        if call.op.name in _PRODUCTS:
            return self._product(var, call, data)
        return self._moved(var, call, call.op, data) if call.op.name in MOVES and _dtype(call) == "int8" else None

    def _quantised(self, var: Var, call: Call) -> _Bindings | None:
        data, scale, zero_point = call.args[0], call.args[1], self.resolved(call.args[2])
        if call.attrs.out_dtype != "int8" or not isinstance(zero_point, Constant):
            return None
        attrs = with_attributes(call.attrs, out_dtype="uint8")
        return self._both(var, replace(call, args=(data, scale, _moved_zero_point(zero_point)), attrs=attrs, ty=None))

    def _both(self, var: Var, call: Call) -> _Bindings:
        """The binding of unsigned bytes, and that of the signed ones."""
        self.unsigned[var] = unsigned = Var(f"{var.name}_bytes", span=call.span)
        bits = Var(f"{var.name}_bits", span=call.span)
        number = constant_like(np.array(EXCESS, np.uint8), call)
        of_bits = Call(get("bitwise_xor"), (unsigned, number), NoAttrs(), span=call.span)
        return [(unsigned, call), (bits, of_bits), (var, Call(get("cast"), (bits,), CastAttrs("int8"), span=call.span))]

    def _moved(self, var: Var, call: Call, op: Op, data: Var) -> _Bindings:
        """The movement of unsigned bytes, and of signed ones."""
        moved = replace(call, args=(data, *call.args[1:]), ty=None)
        if op.name not in _VIEWS:
            return self._both(var, moved)
        self.unsigned[var] = unsigned = Var(f"{var.name}_bytes", span=call.span)
        return [(unsigned, moved), (var, call)]

    def _product(self, var: Var, call: Call, data: Var) -> _Bindings | None:
        """The product of unsigned bytes by a constant matrix, less 128 times the sums of its columns."""
        matrix, attrs = self.resolved(call.args[1]), call.attrs
        is_stored_by_columns = call.op is get("nn.dense") or getattr(attrs, "transpose_b", False)
        if not isinstance(matrix, Constant) or _dtype(call) != "int32" or getattr(attrs, "transpose_a", False):
            return None
        sums = matrix.data.sum(-1 if is_stored_by_columns else -2, dtype=np.int32)
        product = Var(f"{var.name}_of_bytes", span=call.span)
        less = constant_like(sums * np.int32(EXCESS), call)
        return [
            (product, replace(call, args=(data, *call.args[1:]), ty=None)),
            (var, Call(get("subtract"), (product, less), NoAttrs(), span=call.span)),
        ]


def _dtype(x: Expr) -> str:
    return x.ty.dtype if isinstance(x.ty, TensorType) else ""


def _moved_zero_point(zero_point: Constant) -> Constant:
    """The zero point of unsigned bytes; one of another dtype than the bytes keeps its dtype."""
    wide = zero_point.data.astype(np.int64) + EXCESS
    dtype: Any = np.uint8 if zero_point.data.dtype == np.int8 else zero_point.data.dtype
    return constant_like(np.array(wide, dtype), zero_point)
