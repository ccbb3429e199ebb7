"""Make one call of attention by heads: the products of queries, keys and values, the softmax between, the transposes around.

    let %q = reshape(transpose(%queries, axes=[0, 2, 1, 3]), newshape=[-3, -2]);
    let %k = reshape(transpose(%keys, axes=[0, 2, 3, 1]), newshape=[-3, -2]);
    let %v = reshape(transpose(%values, axes=[0, 2, 1, 3]), newshape=[-3, -2]);
    let %scores = multiply(nn.batch_matmul(%q, %k, transpose_b=False), 0.125f);
    let %found = nn.batch_matmul(nn.softmax(%scores), %v, transpose_b=False);
    let %out = transpose(reshape(%found, newshape=[-4, -1, 4, -2]), axes=[0, 2, 1, 3]);
    ->
    let %out = nn.batch_attention(%queries, %keys, %values, scale=0.125);

There may be reshapes between the calls, and the keys by rows; weights of NaN may be replaced by 0.  Products, queries or keys are
scaled, or none of them.  Values between the products have no other use.  All sizes are equal by their types, so that no check of
a run is lost.  All floats; the result differs by rounding.  ``attention_parts`` reads the parts.

On CPUs also ``nn.grouped_attention``: of scores with a bias, with a number where a condition holds, or capped, and of heads that
share keys and values.  An operand that is no transpose is transposed, such as a sum with rotary positions, which one kernel
computes with the transpose.  A number in the place of scores is added as a bias: -inf, or a number that absorbs them.  On GPUs
only calls where the kernel is faster than the library's products: ``pays`` in ``ops/kernels/attention/cuda.py``.

Requires: typed A-normal form.
Ensures: the same.  Calls without a use are left to ``eliminate_dead_code``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from ...ops.core.op import get
from ...ops.core.tensor_types import TensorType, numpy_dtype
from ...ops.core.type_relation import relate
from ...ops.defs.movement.transform import ExpandDimsAttrs, ReshapeAttrs, TransposeAttrs
from ...ops.defs.products.attention import BatchAttentionAttrs, GroupedAttentionAttrs
from ...shape_funcs.symbolic.dim import Dim, const, product
from ..ir.chain_rewriter import ChainRewriter, rewrite_chains
from ..ir.expr import Call, Constant, Expr, IRModule, Var, replace
from ..ir.pass_declaration import declare_pass
from .attention_parts import (
    BY_HEADS,
    Bias,
    Operand,
    Scores,
    batched_product,
    operand,
    scores,
    shape_of,
    turns,
    type_of,
    unbroadcast,
    weights,
    without_views,
)

#: The operators that are replaced.
_REPLACED = ("nn.batch_matmul", "nn.softmax", "transpose", "multiply", "reshape")
Pays = Callable[[str, Dim, Dim], bool]


@declare_pass("FuseAttention", "infer_type")
def fuse_attention(mod: IRModule, forced: Collection[str] = (), pays: Pays | None = None) -> IRModule:
    """The module with calls of ``nn.batch_attention`` and ``nn.grouped_attention``.

    ``forced``: names of operators that stay as they are.  ``pays``: whether one call is faster, by the dtype and the sizes of
    heads of keys and values, of calls without a bias, with as many heads of keys as of queries; None where every call is.
    """
    if set(forced) & set(_REPLACED):
        return mod
    return rewrite_chains(mod, lambda body: _Fuser(body, pays))


class _Fuser(ChainRewriter):
    """The rewriter of one function.  ``made``: the variable of each call of the bindings in scope that were added."""

    def __init__(self, body: Expr, pays: Pays | None) -> None:
        super().__init__(body)
        self.pays = pays
        self.made: dict[tuple[Any, ...], Var] = {}
        self.added: list[tuple[Var, Expr]] = []

    def chain(self, chain: Expr) -> Expr:
        outer = dict(self.made)
        out = super().chain(chain)
        self.made = outer
        return out

    def replaced(self, var: Var, call: Call) -> list[tuple[Var, Expr]] | None:
        self.added = []
        fused = self._fused(call)
        return None if fused is None else [*self.added, (var, fused)]

    def _sole(self, atom: Expr) -> Call | None:
        """The call that defines an atom without another use."""
        return self._definition(atom) if self.count[atom] == 1 else None

    def _definition(self, atom: Expr) -> Call | None:
        value = self.values.get(atom)
        return value if isinstance(value, Call) else None

    def _fused(self, last: Call) -> Call | None:
        """Attention in the place of ``last``, a transpose of its result; None for any other call."""
        if not turns(last, BY_HEADS):
            return None
        found = batched_product(self._sole(without_views(last.args[0], self._sole)))
        if found is None or found.attrs.transpose_b:
            return None
        softmax = weights(found.args[0], self._sole, self._definition, self.count.__getitem__)
        at = None if softmax is None else scores(softmax[0].args[0], self._sole)
        if softmax is None or at is None:
            return None
        keys_transposed = not at.product.attrs.transpose_b
        query = operand(at.product.args[0], False, self._definition)
        key = operand(at.product.args[1], keys_transposed, self._definition)
        value = operand(found.args[1], False, self._definition)
        if query is None or key is None or value is None or value.factor != 1.0:
            return None
        if not _agree(last, (at.product, *at.values, softmax[0], found.args[0]), query, key, value):
            return None
        return self._attention(last, at, (query, key, value), zero_nan=softmax[1])

    def _attention(self, last: Call, at: Scores, operands: tuple[Operand, Operand, Operand], *, zero_nan: bool) -> Call | None:
        query, key, value = operands
        scale, is_shared = at.scale * query.factor * key.factor, key.sizes[2] is not query.sizes[2]
        biases = tuple(b for b in at.biases if not self._is_zero(b))
        is_plain = not (biases or at.cap or is_shared)
        if self.pays is not None:
            is_known = is_plain and all(x.by_positions for x in operands)
            if not is_known or not self.pays(type_of(query.data).dtype, query.sizes[3], value.sizes[3]):
                return None
        if is_plain:
            args = tuple(map(self._by_positions, operands))
            return replace(last, op=get("nn.batch_attention"), args=args, attrs=BatchAttentionAttrs(scale, zero_nan))
        bias = self._total(biases, type_of(last).dtype, query.sizes[2])
        if bias is None:
            return None
        args = (*map(self._by_positions, operands), bias)
        return replace(last, op=get("nn.grouped_attention"), args=args, attrs=GroupedAttentionAttrs(scale, at.cap, zero_nan))

    def _by_positions(self, x: Operand) -> Expr:
        return x.data if x.by_positions else self._add("transpose", (x.data,), TransposeAttrs(tuple(BY_HEADS)))

    def _is_zero(self, bias: Bias) -> bool:
        data = unbroadcast(bias.data, self._definition)
        return bias.instead is None and isinstance(data, Constant) and not data.data.any()

    # ---- biases --------------------------------------------------------------------------------------------------------------

    def _total(self, biases: tuple[Bias, ...], dtype: str, heads: Dim) -> Expr | None:
        """The sum of biases, of rank 4; None for a bias whose axes are not those of scores by head."""
        total: Expr | None = None
        for bias in biases:
            data = self._of_rank_four(unbroadcast(bias.data, self._definition), bias.shape, heads)
            if data is None:
                return None
            if bias.instead is not None:
                ends = (_constant(0, dtype), _constant(bias.instead.data, dtype))
                data = self._add("where", (data, *(ends if bias.keeps else ends[::-1])))
            total = data if total is None else self._add("add", (total, data))
        return _constant(np.zeros((1, 1, 1, 1)), dtype) if total is None else total

    def _of_rank_four(self, data: Expr, shape: tuple[Dim, ...], heads: Dim) -> Expr | None:
        rank, have = len(shape), shape_of(data)
        pairs = zip(have, shape[rank - len(have) :], strict=True)
        if len(have) > rank or not all(a is b or const(a) == 1 for a, b in pairs):
            return None
        if rank == 3 and len(have) == 3 and const(have[0]) != 1:  # of batches and heads
            number = const(heads)
            return None if not number else self._add("reshape", (data,), ReshapeAttrs((-4, -1, number, -2)))
        missing = 4 - len(have)
        return self._add("expand_dims", (data,), ExpandDimsAttrs(0, missing)) if missing else data

    def _add(self, name: str, args: tuple[Expr, ...], attrs: Any = None) -> Var:
        """The variable of a call; of equal calls the first one's."""
        op = get(name)
        attrs = op.attrs() if attrs is None else attrs
        key = (op, tuple(x.data.tobytes() if isinstance(x, Constant) else x for x in args), attrs)
        if key not in self.made:
            ty, checks = relate(op, [x.ty for x in args], attrs)
            assert not checks, name
            self.made[key] = Var(f"{name}_of_attention", ty=ty)
            self.added.append((self.made[key], Call(op, args, attrs, ty=ty)))
        return self.made[key]


def _constant(number: Any, dtype: str) -> Constant:
    data = np.asarray(number, numpy_dtype(dtype))
    data = data if data.ndim == 4 else data.reshape(())
    return Constant(data, ty=TensorType.of(data.shape, dtype))


def _agree(last: Call, between: tuple[Expr, ...], query: Operand, key: Operand, value: Operand) -> bool:
    """Whether the sizes are those of attention, by the types; ``between``: the values between the products."""
    (batch, queries, heads, width), (b, keys, shared, w), (c, n, other, e) = (x.sizes for x in (query, key, value))
    same = (b, w, c, n, other) == (batch, width, batch, keys, shared) and shape_of(last) == (batch, queries, heads, e)
    numbers = const(heads), const(shared)
    are_groups = shared is heads or (numbers[0] is not None and numbers[1] and numbers[0] % numbers[1] == 0)
    wanted = (batch * heads, queries, keys)
    return bool(same and are_groups) and all((product(s[:-2]), *s[-2:]) == wanted for s in map(shape_of, between))
