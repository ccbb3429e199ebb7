"""Fold per-channel scales and shifts after a convolution or matrix product into its weight and one sum.

    let %c = nn.conv2d(%x, W);                  let %c = nn.conv2d(%x, W * s);
    let %m = multiply(%c, s);            ->     let %b = add(%c, t);
    let %b = add(%m, t);                        %b
    %b

An inference ``nn.batch_norm`` expands to such a chain.  A chain consists of sums, differences, products, quotients and
``nn.bias_add`` with constants that vary along the channels only, in any order and number.

The new weight and the shift are computed in float64 and rounded once to the dtype of the program, float32 or float64.  The result
differs from the original by a few units in the last place of ``sum(|x| * |W| * |s|) + |t|``, the sum that bounds the rounding
errors of the product.  A scale of 0 hides an infinite or NaN product no more than before.  float16 and bfloat16 are left
unchanged: rounding the scaled weight again would be visible.  The pass runs at opt_level 3.

Requires: typed A-normal form, constants folded.
Ensures: the same; a product with a constant weight is followed by at most one sum per channel. A product with another use is left
unchanged.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from ....declarations.frozen_dataclass import frozen
from ....ops.defs.arithmetic.broadcast import ADD, BIAS_ADD, DIVIDE, MULTIPLY, SUBTRACT
from ....ops.defs.arithmetic.elementwise import NEGATIVE
from ...ir.anf import inner_chains, rebuild, rebuild_lets, uses
from ...ir.expr import Call, Constant, Expr, IRModule, Var, let_chain, map_bodies, replace, tensor_type
from ...ir.pass_declaration import declare_pass
from .weighted_products import WeightedProduct, constant_like, per_channel, product_of


@declare_pass("BackwardFoldScaleAxis", "expand_composites", "fold_constant")
def fold_scale_axis(mod: IRModule) -> IRModule:
    """The module with per-channel scales and shifts folded into the weights before them."""
    return map_bodies(mod, lambda body: _Folder(body).chain(body))


# ---- chains of scales and shifts -----------------------------------------------------------------------------------


@frozen
class _Affine:
    """``product * scale + shift`` with a number per channel each, after ``steps`` calls."""

    scale: np.ndarray
    shift: np.ndarray
    is_scaled: bool = False
    steps: int = 0

    @property
    def is_profitable(self) -> bool:
        """Whether the chain is more than the one sum that would replace it."""
        return self.is_scaled or self.steps > 1

    def scaled(self, by: np.ndarray) -> _Affine:
        return _Affine(self.scale * by, self.shift * by, True, self.steps + 1)

    def shifted(self, by: np.ndarray) -> _Affine:
        return _Affine(self.scale, self.shift + by, self.is_scaled, self.steps + 1)

    def is_finite_on(self, product: WeightedProduct) -> bool:
        """Whether the scaled weight and the shift are finite after rounding to the dtype."""
        largest = np.abs(product.weight).max(initial=0).astype(np.float64) * self.scale
        return all(bool(np.isfinite(v.astype(product.weight.dtype)).all()) for v in (largest, self.scale, self.shift))


def _composed(call: Call, of: Expr, product: WeightedProduct, before: _Affine) -> _Affine | None:
    """The composition of ``call`` with ``before``, the affine map of ``of``; None if ``call`` is no per-channel scale or
    shift."""
    if call.op is NEGATIVE:
        return before.scaled(np.array(-1.0))
    if len(call.args) != 2:
        return None
    first = call.args[0] is of
    other = call.args[1] if first else call.args[0]
    rank = tensor_type(call).rank
    if call.op is BIAS_ADD:
        if not (first and call.attrs.axis % rank == product.axis and isinstance(other, Constant)):
            return None
        return before.shifted(other.data.astype(np.float64))
    by = per_channel(other, product.axis, product.size, rank)
    if by is None:
        return None
    if call.op is ADD:
        return before.shifted(by)
    if call.op is SUBTRACT:
        return before.shifted(-by) if first else before.scaled(np.array(-1.0)).shifted(by)
    if call.op is MULTIPLY:
        return before.scaled(by)
    return before.scaled(1.0 / by) if call.op is DIVIDE and first and by.all() else None


# ---- the pass ------------------------------------------------------------------------------------------------------


class _Folder:
    """The rewriter of one function."""

    def __init__(self, body: Expr) -> None:
        self.count = Counter(uses(body))

    def chain(self, chain: Expr) -> Expr:
        bindings, result = let_chain(chain)
        users: dict[Expr, tuple[Var, Call]] = {}  # the users of atoms with a single use, in this chain
        for var, value in bindings:
            if isinstance(value, Call):
                users.update({a: (var, value) for a in value.args if self.count[a] == 1})
        replaced: dict[Var, list[tuple[Var, Expr]]] = {}
        for var, value in bindings:
            self._fold(var, value, users, replaced)
        out: list[tuple[Var, Expr]] = []
        for var, value in bindings:
            inner = rebuild(value, lambda atom: atom, self.chain) if inner_chains(value) else value
            out += replaced.get(var, [(var, inner)])
        return rebuild_lets(chain, out, result)

    def _fold(
        self, var: Var, value: Expr, users: dict[Expr, tuple[Var, Call]], replaced: dict[Var, list[tuple[Var, Expr]]]
    ) -> None:
        """Record in ``replaced`` the new bindings of a product and of the chain after it."""
        product = product_of(value)
        if product is None:
            return
        at, affine, passed = var, _Affine(np.ones(product.size), np.zeros(product.size)), [var]
        while at in users:
            user, call = users[at]
            with np.errstate(all="ignore"):  # a non-finite composition is rejected below
                after = _composed(call, at, product, affine) if call.ty == value.ty else None
                if after is None or not after.is_finite_on(product):
                    break
            at, affine = user, after
            passed.append(user)
        if affine.is_profitable:
            assert isinstance(value, Call)
            replaced.update({v: [] for v in passed})
            replaced[at] = _folded_bindings(at, var, value, product, affine)


def _folded_bindings(last: Var, var: Var, call: Call, product: WeightedProduct, affine: _Affine) -> list[tuple[Var, Expr]]:
    """The bindings that bind ``last`` to the product with its weight scaled, plus the shift."""
    dtype = product.weight.dtype
    scale = affine.scale.reshape([-1 if a == product.weight_axis else 1 for a in range(product.weight.ndim)])
    weight = constant_like((product.weight.astype(np.float64) * scale).astype(dtype), call.args[1])
    scaled = replace(call, args=(call.args[0], weight, *call.args[2:]))
    if not affine.shift.any():
        return [(last, scaled)]
    rank = tensor_type(call).rank
    shift = affine.shift.astype(dtype).reshape((product.size,) + (1,) * (rank - 1 - product.axis))
    return [(var, scaled), (last, Call(ADD, (var, constant_like(shift, call.args[1])), ADD.attrs(), span=call.span, ty=call.ty))]
