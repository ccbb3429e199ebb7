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
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...ops.core.tensor_types import TensorType
from ...ops.defs.broadcast import ADD, BIAS_ADD, DIVIDE, MULTIPLY, SUBTRACT
from ...ops.defs.conv import Conv1dAttrs, Conv2dAttrs, Conv3dAttrs
from ...ops.defs.elementwise import NEGATIVE
from ...ops.defs.nn import BatchMatmulAttrs, DenseAttrs, MatmulAttrs
from ...shape_funcs.symbolic.dim import const
from ..ir.anf import inner_chains, rebuild, rebuild_lets, uses
from ..ir.expr import Call, Constant, Expr, IRModule, Var, let_chain, replace, tensor_type
from ..ir.pass_declaration import declare_pass

#: The dtypes of weights that are scaled.
DTYPES = ("float32", "float64")


@declare_pass("FoldScaleAxis", "fold_constant")
def fold_scale_axis(mod: IRModule) -> IRModule:
    """The module with per-channel scales and shifts folded into the weights before them."""
    functions = {}
    for name, f in mod.functions.items():
        functions[name] = f if f.is_primitive else replace(f, body=_Folder(f.body).chain(f.body))
    return replace(mod, functions=functions)


# ---- products ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Product:
    """A product with a constant weight; ``axis``, ``weight_axis``: the axis of the ``size`` channels in its result and in the
    weight."""

    weight: np.ndarray
    axis: int
    weight_axis: int
    size: int


def _convolution(call: Call, rank: int) -> tuple[int, int]:
    layout = call.attrs.out_layout or call.attrs.data_layout
    return layout.index("C"), call.attrs.kernel_layout.index("O")


#: By the attributes of the operator: the axis of the channels in the result of a given rank, and in the weight.
_AXES: dict[type, Callable[[Call, int], tuple[int, int]]] = {
    Conv1dAttrs: _convolution,
    Conv2dAttrs: _convolution,
    Conv3dAttrs: _convolution,
    DenseAttrs: lambda call, rank: (rank - 1, 0),
    MatmulAttrs: lambda call, rank: (rank - 1, 0 if call.attrs.transpose_b else 1),
    BatchMatmulAttrs: lambda call, rank: (rank - 1, 1 if call.attrs.transpose_b else 2),
}


def _product(value: Expr) -> _Product | None:
    """``value`` as a product with a scalable weight."""
    if not (isinstance(value, Call) and type(value.attrs) in _AXES and isinstance(value.ty, TensorType)):
        return None
    weight = value.args[1]
    if not isinstance(weight, Constant) or value.ty.dtype not in DTYPES or weight.data.dtype.name != value.ty.dtype:
        return None
    axis, weight_axis = _AXES[type(value.attrs)](value, value.ty.rank)
    size = const(value.ty.shape[axis])
    return _Product(weight.data, axis, weight_axis, size) if size and weight.data.shape[weight_axis] == size else None


# ---- chains of scales and shifts -----------------------------------------------------------------------------------


@dataclass(frozen=True)
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

    def is_finite_on(self, product: _Product) -> bool:
        """Whether the scaled weight and the shift are finite after rounding to the dtype."""
        largest = np.abs(product.weight).max(initial=0).astype(np.float64) * self.scale
        return all(bool(np.isfinite(v.astype(product.weight.dtype)).all()) for v in (largest, self.scale, self.shift))


def _composed(call: Call, of: Expr, product: _Product, before: _Affine) -> _Affine | None:
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
    by = _per_channel(other, product, rank)
    if by is None:
        return None
    if call.op is ADD:
        return before.shifted(by)
    if call.op is SUBTRACT:
        return before.shifted(-by) if first else before.scaled(np.array(-1.0)).shifted(by)
    if call.op is MULTIPLY:
        return before.scaled(by)
    return before.scaled(1.0 / by) if call.op is DIVIDE and first and by.all() else None


def _per_channel(atom: Expr, product: _Product, rank: int) -> np.ndarray | None:
    """A constant as one number per channel, or one for all; None if it varies along another axis."""
    if not isinstance(atom, Constant) or atom.data.ndim > rank:
        return None
    shape = (1,) * (rank - atom.data.ndim) + atom.data.shape
    if any(n != 1 for axis, n in enumerate(shape) if axis != product.axis) or shape[product.axis] not in (1, product.size):
        return None
    return atom.data.astype(np.float64).reshape(-1)


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
        product = _product(value)
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


def _folded_bindings(last: Var, var: Var, call: Call, product: _Product, affine: _Affine) -> list[tuple[Var, Expr]]:
    """The bindings that bind ``last`` to the product with its weight scaled, plus the shift."""
    dtype = product.weight.dtype
    scale = affine.scale.reshape([-1 if a == product.weight_axis else 1 for a in range(product.weight.ndim)])
    weight = _constant((product.weight.astype(np.float64) * scale).astype(dtype), call.args[1])
    scaled = replace(call, args=(call.args[0], weight, *call.args[2:]))
    if not affine.shift.any():
        return [(last, scaled)]
    rank = tensor_type(call).rank
    shift = affine.shift.astype(dtype).reshape((product.size,) + (1,) * (rank - 1 - product.axis))
    return [(var, scaled), (last, Call(ADD, (var, _constant(shift, call.args[1])), ADD.attrs(), span=call.span, ty=call.ty))]


def _constant(data: np.ndarray, like: Expr) -> Constant:
    data.flags.writeable = False
    return Constant(data, span=like.span, ty=TensorType.of(data.shape, data.dtype.name))
