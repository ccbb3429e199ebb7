"""Make one call of attention by heads: the products of queries, keys and values, the softmax between, the transposes around.

    let %q = reshape(transpose(%queries, axes=[0, 2, 1, 3]), newshape=[-3, -2]);
    let %k = reshape(transpose(%keys, axes=[0, 2, 3, 1]), newshape=[-3, -2]);
    let %v = reshape(transpose(%values, axes=[0, 2, 1, 3]), newshape=[-3, -2]);
    let %scores = multiply(nn.batch_matmul(%q, %k, transpose_b=False), 0.125f);
    let %found = nn.batch_matmul(nn.softmax(%scores), %v, transpose_b=False);
    let %out = transpose(reshape(%found, newshape=[-4, -1, 4, -2]), axes=[0, 2, 1, 3]);
    ->
    let %out = nn.batch_attention(%queries, %keys, %values, scale=0.125);

There may be reshapes between the calls, no scale, and the keys by rows.  Values between the calls have no other use.  All sizes
are equal by their types, so that no check of a run is lost.  All floats; the result differs by rounding.  On GPUs only calls
where the kernel is faster than the library's products: ``pays`` in ``ops/kernels/attention/cuda.py``.

Requires: typed A-normal form.
Ensures: the same.  Calls without a use are left to ``eliminate_dead_code``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from ...ops.core.op import get
from ...ops.core.tensor_types import HALVES, TensorType
from ...ops.defs.products.attention import AttentionAttrs
from ...shape_funcs.symbolic.dim import Dim, product
from ..ir.chain_rewriter import ChainRewriter, rewrite_chains
from ..ir.expr import Call, Constant, Expr, IRModule, Var, replace
from ..ir.pass_declaration import declare_pass

#: The operators that are replaced.
_REPLACED = ("nn.batch_matmul", "nn.softmax", "transpose", "multiply", "reshape")
#: Axes of heads between batch and positions, and of keys whose last axis is that of positions.
_BY_HEADS, _TRANSPOSED = [0, 2, 1, 3], [0, 2, 3, 1]
#: The dtypes of attention, one for all tensors.
DTYPES = ("float32", "float64", *HALVES)
_Shape = tuple[Dim, ...]
Pays = Callable[[str, Dim, Dim], bool]


@declare_pass("FuseAttention", "infer_type")
def fuse_attention(mod: IRModule, forced: Collection[str] = (), pays: Pays | None = None) -> IRModule:
    """The module with calls of ``nn.batch_attention``.

    ``forced``: names of operators that stay as they are.  ``pays``: whether one call is faster, by the dtype and the sizes of
    heads of keys and values; None where every one is.
    """
    if set(forced) & set(_REPLACED):
        return mod
    return rewrite_chains(mod, lambda body: _Fuser(body, pays))


class _Fuser(ChainRewriter):
    """The rewriter of one function."""

    def __init__(self, body: Expr, pays: Pays | None) -> None:
        super().__init__(body)
        self.pays = pays

    def replaced(self, var: Var, call: Call) -> list[tuple[Var, Expr]] | None:
        fused = self._fused(call)
        return None if fused is None else [(var, fused)]

    def _call(self, atom: Expr, name: str) -> Call | None:
        """The sole call of an operator behind ``atom`` and reshapes."""
        wanted = get(name), get("reshape")
        call = self.sole_call(atom, *wanted)
        while call is not None and call.op is get("reshape"):
            call = self.sole_call(call.args[0], *wanted)
        return call

    def _fused(self, last: Call) -> Call | None:
        """Attention in the place of ``last``, a transpose of its result; None for any other call."""
        if not _turns(last, _BY_HEADS):
            return None
        found = self._product(last.args[0])
        weights = None if found is None or found.attrs.transpose_b else self._call(found.args[0], "nn.softmax")
        if found is None or weights is None or not _is_along_last_axis(weights):
            return None
        scale, scores = self._scaled(weights.args[0])
        at = self._product(scores)
        if at is None:
            return None
        query = self._by_heads(at.args[0], _BY_HEADS)
        key = self._by_heads(at.args[1], _BY_HEADS if at.attrs.transpose_b else _TRANSPOSED)
        value = self._by_heads(found.args[1], _BY_HEADS)
        if query is None or key is None or value is None or not _agree(last, (at, weights, found.args[0]), query, key, value):
            return None
        if self.pays is not None and not self.pays(_type(query).dtype, _shape(query)[3], _shape(value)[3]):
            return None
        return replace(last, op=get("nn.batch_attention"), args=(query, key, value), attrs=AttentionAttrs(scale))

    def _product(self, atom: Expr) -> Call | None:
        """The batched product behind ``atom``, of matrices of one dtype of which the first is not transposed."""
        call = self._call(atom, "nn.batch_matmul")
        if call is None or call.attrs.transpose_a:
            return None
        dtypes = {_type(x).dtype for x in (call, *call.args)}
        return call if len(dtypes) == 1 and dtypes <= set(DTYPES) else None

    def _scaled(self, atom: Expr) -> tuple[float, Expr]:
        """The constant factor of ``atom``, and the atom without it."""
        call = self._call(atom, "multiply")
        if call is not None:
            for factor, other in (call.args, call.args[::-1]):
                if isinstance(factor, Constant) and factor.data.ndim == 0 and _shape(other) == _shape(call):
                    return float(factor.data), other
        return 1.0, atom

    def _by_heads(self, atom: Expr, axes: list[int]) -> Expr | None:
        """The tensor ``[batch, positions, heads, size]`` whose matrices by head are ``atom``."""
        call = self._call(atom, "transpose")
        if call is None or not _turns(call, axes):
            return None
        outer, inner, shape = _shape(call)[:2], _shape(call)[2:], _shape(atom)
        return call.args[0] if shape == (product(outer), *inner) else None


def _agree(last: Call, scores: tuple[Expr, ...], query: Expr, key: Expr, value: Expr) -> bool:
    """Whether the sizes are those of attention, by the types; ``scores``: the values between the products."""
    (batch, queries, heads, width), (b, keys, h, w), (c, n, i, e) = map(_shape, (query, key, value))
    same = (b, h, w, c, n, i) == (batch, heads, width, batch, keys, heads) and _shape(last) == (batch, queries, heads, e)
    wanted = (batch * heads, queries, keys)
    return same and all((product(shape[:-2]), *shape[-2:]) == wanted for shape in map(_shape, scores))


def _type(x: Expr) -> TensorType:
    assert isinstance(x.ty, TensorType), x
    return x.ty


def _shape(x: Expr) -> _Shape:
    return _type(x).shape


def _turns(call: Call, axes: list[int]) -> bool:
    """Whether a call is a transpose with these axes, of rank 4."""
    return call.op is get("transpose") and call.attrs.axes is not None and [a % 4 for a in call.attrs.axes] == axes


def _is_along_last_axis(softmax: Call) -> bool:
    rank = len(_shape(softmax))
    return rank >= 2 and softmax.attrs.axis % rank == rank - 1
