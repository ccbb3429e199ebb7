"""Attention over rows of a cache as they lie: one call in the place of products of a transposed view and the softmax between.

    let %seen = slice_like(%buffer, %rows, axes=[0]);                               // [n, b, s, d]
    let %keys = transpose(%seen, axes=[1, 2, 0, 3]);
    let %scores = multiply(nn.batch_matmul(%q, reshape(%keys, newshape=[-3, -2])), 0.125f);
    let %weights = nn.softmax(where(%visible, reshape(%scores, newshape=[-4, -1, 8, -2]), -inf));
    let %found = nn.batch_matmul(reshape(%weights, newshape=[-3, -2]), reshape(%values, newshape=[-3, -2]), transpose_b=False);
    ->
    let %bias = where(%visible, 0f, -inf);
    let %rows = nn.attention(%q by rows, %seen, %seen_values, %bias, scale=0.125);
    let %found = reshape(transpose(%rows, axes=[1, 2, 0, 3]), newshape=[-3, -2]);

The transposes, which copy a cache, have no use then.  Between the products may be reshapes that keep the last axis, factors,
terms that are added, and choices between a score and minus infinity; around the softmax casts to a wider dtype and back; behind
it zeros in the place of NaN, for queries that see no row; around the views a transpose of the last two axes, a factor, and the
repetition of each head for a group of heads of queries, whose queries become more rows of one head.  The sizes are equal by the
types.  All floats; the result differs by rounding.

Requires: typed A-normal form.
Ensures: the same.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Collection

import numpy as np

from ....declarations.frozen_dataclass import frozen
from ....ops.core.op import Op, get
from ....ops.core.tensor_types import TensorType, is_float, numpy_dtype
from ....shape_funcs.symbolic.dim import Dim, const, dim, product
from ...builder.build import const as constant
from ...builder.operator_functions import operators as relay
from ...ir.chain_rewriter import ChainRewriter, rewrite_chains
from ...ir.expr import Call, Constant, Expr, IRModule, Var, tensor_type
from ...ir.pass_declaration import declare_pass
from ..attention_parts import DTYPES
from ..infer_type import infer_sizes
from ..to_a_normal_form import to_a_normal_form

#: The operators that are replaced.
_REPLACED = ("nn.batch_matmul", "nn.softmax", "transpose")
#: The axes of the view of a cache with its rows first, for batch, heads, rows.
_BY_HEADS, _TO_ROWS = [1, 2, 0, 3], [2, 0, 1, 3]
_Shape = tuple[Dim, ...]


@declare_pass("AttendInPlace", "infer_type")
def attend_in_place(mod: IRModule, forced: Collection[str] = ()) -> IRModule:
    """The module with calls of ``nn.attention``.  ``forced``: names of operators that stay as they are."""
    if set(forced) & set(_REPLACED):
        return mod
    out = rewrite_chains(mod, _Attender)
    same = all(out[name] is f or out[name].body is f.body for name, f in mod.functions.items())
    return mod if same else infer_sizes(to_a_normal_form(out))


@frozen
class _View:
    """Rows of a cache ``[n, batch, heads, size]``: each head stands for ``groups`` heads, its elements times ``factor``."""

    rows: Expr
    groups: int
    factor: float
    swapped: bool


@frozen
class _Weights:
    """``softmax``: the weights of the rows; ``zero_nan``: whether those of a query that sees no row are 0."""

    softmax: Call
    zero_nan: bool


@frozen
class _Scores:
    """``scale * product + bias``, and minus infinity where one of ``visible`` is false.

    The terms and conditions are pairs of an operand and a tensor that has the shape of the scores there.
    """

    product: Call
    scale: float
    terms: tuple[tuple[Expr, Expr], ...]
    visible: tuple[tuple[Expr, Expr], ...]


class _Attender(ChainRewriter):
    """The rewriter of one function."""

    def replaced(self, var: Var, call: Call) -> list[tuple[Var, Expr]] | None:
        if call.op is not get("nn.batch_matmul") or call.attrs.transpose_a:
            return None
        values = self._view(call.args[1])
        weights = None if values is None else self._weights(call.args[0])
        if values is None or weights is None or values.swapped != call.attrs.transpose_b:
            return None
        scores = self._scores(weights.softmax.args[0])
        keys = None if scores is None else self._view(scores.product.args[1])
        if scores is None or keys is None or keys.swapped == scores.product.attrs.transpose_b or values.factor != 1:
            return None
        made = _Attention(call, scores, keys, values, weights.zero_nan)
        return [(var, made.result())] if made.fits() else None

    def _call(self, atom: Expr) -> Call | None:
        """The call of an operator, whose first argument is a tensor, that computes ``atom``."""
        value = self.values.get(atom)
        if not isinstance(value, Call) or not isinstance(value.op, Op) or not value.args:
            return None
        return value if isinstance(value.args[0].ty, TensorType) else None

    def _weights(self, atom: Expr) -> _Weights | None:
        """The softmax along the last axis behind ``atom``, reshapes that keep that axis, a cast and a choice of zeros."""
        zero_nan = False
        while (call := self._call(atom)) is not None:
            if call.op is get("nn.softmax"):
                return _Weights(call, zero_nan) if _is_along_last_axis(call) else None
            if call.op is get("where") and _number(call.args[1]) == 0 and self._is_nan_of(call.args[0], call.args[2]):
                zero_nan, atom = True, call.args[2]
            elif _is_view_along_last_axis(call) or _is_cast_of_float(call):
                atom = call.args[0]
            else:
                return None
        return None

    def _is_nan_of(self, condition: Expr, x: Expr) -> bool:
        call = self._call(condition)
        return call is not None and call.op is get("isnan") and call.args[0] is x

    def _view(self, atom: Expr) -> _View | None:
        """The rows of a cache whose matrices by head are ``atom``."""
        groups, factor, swapped = 1, 1.0, False
        while (call := self._call(atom)) is not None:
            before = call.args[0]
            shape, inner = _shape(call), _shape(before)
            if call.op is get("reshape") and shape[-2:] == inner[-2:]:
                pass
            elif call.op is get("broadcast_to") or call.op is get("dyn.broadcast_to"):
                repeated = const(shape[2]) if len(shape) == 5 and len(inner) == 5 and const(inner[2]) == 1 else None
                if repeated is None or groups != 1 or (*shape[:2], *shape[3:]) != (*inner[:2], *inner[3:]):
                    return None
                groups = repeated
            elif call.op is get("repeat") and groups == 1 and _is_repeated_head(shape, inner):
                groups = call.attrs.repeats
            elif call.op is get("expand_dims") and groups != 1 and len(shape) == 5 and (*shape[:2], *shape[3:]) == inner:
                pass
            elif call.op is get("multiply") and (number := _number(call.args[1])) is not None and shape == inner:
                factor *= number
            elif call.op is get("transpose") and _exchanges_last_two(call):
                swapped = not swapped
            elif call.op is get("transpose") and _axes(call) == _BY_HEADS and self._is_view(before):
                return _View(before, groups, factor, swapped)
            else:
                return None
            atom = before
        return None

    def _is_view(self, atom: Expr) -> bool:
        call = self._call(atom)
        return call is not None and call.op is get("slice_like") and list(call.attrs.axes or ()) == [0]

    def _scores(self, atom: Expr) -> _Scores | None:
        """The scores as a product with what is done to it."""
        scale, terms, visible = 1.0, list[tuple[Expr, Expr]](), list[tuple[Expr, Expr]]()
        while (call := self._call(atom)) is not None:
            shape = _shape(call)
            if call.op is get("nn.batch_matmul"):
                return None if call.attrs.transpose_a else _Scores(call, scale, tuple(terms), tuple(visible))
            if _is_view_along_last_axis(call) or (_is_cast_of_float(call) and not terms):
                atom = call.args[0]
            elif call.op in (get("multiply"), get("divide")) and (number := _number(call.args[1])):
                scale *= number if call.op is get("multiply") else 1 / number
                atom = call.args[0]
            elif call.op is get("add") and scale == 1.0 and shape in map(_shape, call.args):
                first = self._leads_to_product(call.args[0])
                atom, other = call.args if first else call.args[::-1]
                terms.append((other, call))
            elif call.op is get("where") and _number(call.args[2]) == -math.inf and shape == _shape(call.args[1]):
                atom = call.args[1]
                visible.append((call.args[0], call))
            else:
                return None
            if _shape(atom)[-1:] != shape[-1:]:
                return None
        return None

    def _leads_to_product(self, atom: Expr) -> bool:
        """Whether ``atom`` is, perhaps by several calls, a product of matrices; the other term of a sum is a bias."""
        return self._scores(atom) is not None


class _Attention:
    """The call in the place of ``last``, the second product."""

    def __init__(self, last: Call, scores: _Scores, keys: _View, values: _View, zero_nan: bool) -> None:
        self.last, self.scores, self.keys, self.values, self.zero_nan = last, scores, keys, values, zero_nan
        (self.n, self.batch, heads, size), wide = _shape(keys.rows), _shape(values.rows)[3]
        matrices, self.queries, _ = _shape(scores.product)
        known = [const(x) for x in (heads, size, wide, self.queries)]
        self.are_known = None not in known and matrices is product((self.batch, dim(keys.groups), heads))
        self.heads, self.size, self.wide, each = (x or 0 for x in known)
        #: The rows of queries of each head of the cache.
        self.rows, self.each = keys.groups * each, each

    def fits(self) -> bool:
        """Whether the sizes and dtypes are those of attention, by the types."""
        if not self.are_known or self.values.groups != self.keys.groups or self.scores.scale * self.keys.factor <= 0:
            return False
        product_of_scores, caches = self.scores.product, (self.keys.rows, self.values.rows)
        dtypes = {tensor_type(x).dtype for x in (self.last, product_of_scores, *product_of_scores.args, *caches)}
        if len(dtypes) != 1 or not dtypes <= set(DTYPES) or _shape(caches[0])[:3] != _shape(caches[1])[:3]:
            return False
        matrices, shape = _shape(product_of_scores)[0], _shape(product_of_scores)
        fits = _shape(product_of_scores.args[0]) == (matrices, self.queries, _shape(caches[0])[3])
        fits = fits and _shape(self.last.args[0]) == shape == (matrices, self.queries, self.n)
        return fits and all(self._heads_of(_shape(x)) for _, x in (*self.scores.terms, *self.scores.visible))

    def _heads_of(self, shape: _Shape) -> int:
        """The heads of scores of this shape, with four axes or as many matrices as the product; 0 for any other shape."""
        if shape == _shape(self.scores.product):
            return self.heads * self.keys.groups
        heads = const(shape[1]) if len(shape) == 4 else None
        if heads is None or heads % self.heads or (shape[0], shape[3]) != (self.batch, self.n):
            return 0
        return heads if const(shape[2]) == self.rows * self.heads // heads else 0

    def result(self) -> Expr:
        """The expression."""
        by_head = relay.reshape(self.scores.product.args[0], [-1, self.heads, self.rows, self.size])
        scale = self.scores.scale * self.keys.factor
        query, bias = relay.transpose(by_head, _TO_ROWS), self._bias()
        found = relay.nn.attention(query, self.keys.rows, self.values.rows, bias, scale=scale)
        by_matrix = relay.transpose(found, _BY_HEADS)
        if self.zero_nan:
            dtype = tensor_type(self.last).dtype
            is_hidden = relay.equal(relay.max(bias, axis=[-1], keepdims=True), constant(-math.inf, dtype))
            by_matrix = relay.where(is_hidden, constant(0, dtype), by_matrix)
        result: Expr = relay.reshape(by_matrix, [-1, self.each, self.wide])
        return result

    def _bias(self) -> Expr:
        """The bias ``[batch, heads, rows, n]``."""
        dtype = numpy_dtype(tensor_type(self.last).dtype)
        terms = [self._by_head(term, like) for term, like in self.scores.terms]
        total = functools.reduce(relay.add, terms) if terms else None
        hidden = constant(np.array(-math.inf, dtype))
        for condition, like in self.scores.visible:
            shown = self._by_head(condition, like)
            total = relay.where(shown, constant(np.array(0, dtype)) if total is None else total, hidden)
        return (
            relay.zeros(self._sizes((self.batch, dim(self.heads), dim(self.rows), self.n)), dtype.name)
            if total is None
            else total
        )

    def _by_head(self, operand: Expr, like: Expr) -> Expr:
        """An operand of scores that have the shape of ``like``, for each head of the cache.

        Repetitions by known numbers are the same calls for all layers, so that they are computed once.
        """
        shape, wanted = _shape(operand), _shape(like)
        missing = len(wanted) - len(shape)
        shape = (*(dim(1),) * missing, *shape)
        repeated = [(axis, const(b)) for axis, (a, b) in enumerate(zip(shape, wanted, strict=True)) if a is not b]
        if all(const(shape[axis]) == 1 and times is not None for axis, times in repeated):
            wide = relay.expand_dims(operand, 0, missing) if missing else operand
            for axis, times in repeated:
                wide = relay.repeat(wide, times, axis)
        else:
            wide = relay.broadcast_to(operand, self._sizes(wanted))
        return self._grouped(wide, self._heads_of(wanted), len(wanted) == 3)

    def _sizes(self, shape: _Shape) -> Expr:
        """The sizes of scores as a vector, from those of the cache: the scores themselves are not computed."""
        sizes = relay.shape_of(self.keys.rows, dtype="int64")
        n, batch = (relay.strided_slice(sizes, [axis], [axis + 1]) for axis in (0, 1))
        if len(shape) == 3:
            batch = relay.multiply(batch, constant(self.heads * self.keys.groups, "int64"))
        known = constant([const(x) or 0 for x in shape[1:-1]], "int64")
        sizes_of_scores: Expr = relay.concatenate([batch, known, n], 0)
        return sizes_of_scores

    def _grouped(self, x: Expr, heads: int, in_matrices: bool = True) -> Expr:
        """Scores of ``heads`` heads as ``[batch, self.heads, self.rows, n]``."""
        if in_matrices:
            x = relay.reshape(x, [-4, -1, heads, 0, 0])
        if heads == self.heads:
            return x
        grouped: Expr = relay.reshape(relay.reshape(x, [0, -4, self.heads, heads // self.heads, 0, 0]), [0, 0, -3, 0])
        return grouped


def _shape(x: Expr) -> _Shape:
    return tensor_type(x).shape


def _number(atom: Expr) -> float | None:
    """The number that a constant of one element is."""
    return float(atom.data.reshape(-1)[0]) if isinstance(atom, Constant) and atom.data.size == 1 and atom.data.ndim <= 1 else None


def _axes(call: Call) -> list[int]:
    rank = len(_shape(call))
    return [a % rank for a in call.attrs.axes] if call.attrs.axes is not None else [*range(rank)][::-1]


def _exchanges_last_two(call: Call) -> bool:
    rank = len(_shape(call))
    return rank >= 2 and _axes(call) == [*range(rank - 2), rank - 1, rank - 2]


def _is_repeated_head(shape: _Shape, inner: _Shape) -> bool:
    """Whether a repetition is of heads: of ``[batch, heads, 1, n, size]``, or of ``[batch, heads, n, size]``."""
    at = 2 if len(shape) == 5 and const(inner[2]) == 1 else 1 if len(shape) == 4 else -1
    return at > 0 and (*shape[:at], *shape[at + 1 :]) == (*inner[:at], *inner[at + 1 :]) and shape[at] is not inner[at]


def _is_view_along_last_axis(call: Call) -> bool:
    """Whether a call is a reshape that keeps the last axis."""
    return call.op is get("reshape") and _shape(call)[-1:] == _shape(call.args[0])[-1:]


def _is_cast_of_float(call: Call) -> bool:
    return call.op is get("cast") and is_float(tensor_type(call.args[0]).dtype) and is_float(tensor_type(call).dtype)


def _is_along_last_axis(softmax: Call) -> bool:
    rank = len(_shape(softmax))
    return int(softmax.attrs.axis) % rank == rank - 1
