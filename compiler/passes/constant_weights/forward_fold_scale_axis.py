"""Fold scales per channel before a convolution or matrix product into its weight.

    let %m = multiply(%x, s);                   let %r = nn.relu(%x);
    let %r = nn.relu(%m);              ->       let %c = nn.conv2d(%r, W * s);
    let %c = nn.conv2d(%r, W);                  %c
    %c

A scale is a product or quotient with a constant that varies along the channels only, or a negation.  A positive scale moves
behind ``nn.relu``, ``nn.leaky_relu`` and ``nn.max_pool``.  Every value between a scale and the product has this one use.

The new weight is computed in float64 and rounded once to the dtype of the program, float32 or float64; the result differs by
rounding as in ``fold_scale_axis``.  Only users apply the pass.

Requires: typed A-normal form, constants folded.
Ensures: the same, without dead bindings of scales.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np

from ....declarations.frozen_dataclass import frozen
from ....ops.core.op import Op
from ....ops.defs.arithmetic.broadcast import DIVIDE, MULTIPLY
from ....ops.defs.arithmetic.elementwise import NEGATIVE
from ....ops.defs.convolution.conv import Conv1dAttrs, Conv2dAttrs, Conv3dAttrs
from ....ops.defs.products.nn import BatchMatmulAttrs, DenseAttrs, MatmulAttrs
from ....shape_funcs.symbolic.dim import const
from ...ir.anf import rebuild, rebuild_lets, uses
from ...ir.expr import Call, Expr, IRModule, Var, let_chain, map_bodies, replace, tensor_type
from ...ir.pass_declaration import declare_pass
from .weighted_products import constant_like, per_channel, weight_of

#: Operators ``f`` with ``f(s * x) = s * f(x)`` for every positive s.
_HOMOGENEOUS = frozenset({"nn.relu", "nn.leaky_relu", "nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d"})


@declare_pass("ForwardFoldScaleAxis", "expand_composites", "fold_constant")
def forward_fold_scale_axis(mod: IRModule) -> IRModule:
    """The module with scales per channel folded into the weights after them."""
    return map_bodies(mod, lambda body: _Folder(body).chain(body))


# ---- products ------------------------------------------------------------------------------------------------------


@frozen
class _Inputs:
    """The channels of a product's data: their axis and number; the axes of the weight that belong to the outputs (None: no
    groups) and to the inputs."""

    axis: int
    size: int
    outputs: int | None
    inputs: int
    groups: int = 1

    def scaled(self, weight: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """The weight, in float64, times the scale of the channel of the data that each element meets."""
        scale = np.broadcast_to(scale, (self.size,))
        if self.outputs is None or self.groups == 1:
            along: np.ndarray = scale.reshape([-1 if axis == self.inputs else 1 for axis in range(weight.ndim)])
            return np.asarray(weight * along)
        # outputs are in order of their groups, and a group has its own channels
        per_output = np.repeat(scale.reshape(self.groups, -1), weight.shape[self.outputs] // self.groups, axis=0)
        if self.inputs < self.outputs:
            per_output = per_output.T
        both = (self.outputs, self.inputs)
        scales: np.ndarray = per_output.reshape([n if axis in both else 1 for axis, n in enumerate(weight.shape)])
        return np.asarray(weight * scales)


def _convolution(call: Call, weight: np.ndarray) -> _Inputs | None:
    attrs = call.attrs
    if not (attrs.data_layout + attrs.kernel_layout).isupper():  # channels in blocks
        return None
    axis, outputs, inputs = attrs.data_layout.index("C"), attrs.kernel_layout.index("O"), attrs.kernel_layout.index("I")
    size = const(tensor_type(call.args[0]).shape[axis])
    fits = size is not None and weight.shape[inputs] * attrs.groups == size and weight.shape[outputs] % attrs.groups == 0
    return _Inputs(axis, size, outputs, inputs, attrs.groups) if fits and size else None


def _matrix_product(call: Call, weight: np.ndarray) -> _Inputs | None:
    if getattr(call.attrs, "transpose_a", False):
        return None
    transposed = getattr(call.attrs, "transpose_b", True)
    axis = weight.ndim - (1 if transposed else 2)
    return _Inputs(tensor_type(call.args[0]).rank - 1, weight.shape[axis], None, axis) if weight.shape[axis] else None


_INPUTS: dict[type, Callable[[Call, np.ndarray], _Inputs | None]] = {
    **dict.fromkeys((Conv1dAttrs, Conv2dAttrs, Conv3dAttrs), _convolution),
    **dict.fromkeys((DenseAttrs, MatmulAttrs, BatchMatmulAttrs), _matrix_product),
}


# ---- the pass ------------------------------------------------------------------------------------------------------


class _Folder:
    """The rewriter of one function."""

    def __init__(self, body: Expr) -> None:
        self.count = Counter(uses(body))
        self.same: dict[Expr, Expr] = {}  # scales that are folded, with their data
        self.weights: dict[Var, np.ndarray] = {}

    def chain(self, chain: Expr) -> Expr:
        bindings, result = let_chain(chain)
        calls = {var: value for var, value in bindings if isinstance(value, Call)}
        for product, call in calls.items():
            self._fold(product, call, calls)
        out: list[tuple[Var, Expr]] = []
        for var, value in bindings:
            if var in self.same:
                continue
            new = rebuild(value, self._atom, self.chain)
            if var in self.weights:
                assert isinstance(new, Call)
                weight = constant_like(self.weights[var], new.args[1])
                new = replace(new, args=(new.args[0], weight, *new.args[2:]))
            out.append((var, new))
        return rebuild_lets(chain, out, self._atom(result))

    def _atom(self, atom: Expr) -> Expr:
        while atom in self.same:
            atom = self.same[atom]
        return atom

    def _fold(self, var: Var, product: Call, calls: dict[Var, Call]) -> None:
        """Record the new weight of a product, and the scales before it that the weight has taken."""
        weight = weight_of(product)
        inputs = None if weight is None else _INPUTS[type(product.attrs)](product, weight)
        if weight is None or inputs is None:
            return
        scale, crossed = np.ones(1), False
        folded: dict[Expr, Expr] = {}
        at = product.args[0]
        while isinstance(at, Var) and self.count[at] == 1 and at in calls:
            call = calls[at]
            if _is_homogeneous(call, inputs.axis):
                at, crossed = call.args[0], True
                continue
            found = _scale(call, inputs)
            if found is None or (crossed and not (found[1] > 0).all()):
                break
            with np.errstate(all="ignore"):
                after = scale * found[1]
                scaled = inputs.scaled(weight.astype(np.float64), after).astype(weight.dtype)
            if not np.isfinite(scaled).all():
                break
            scale, folded[at] = after, found[0]
            self.weights[var] = scaled
            at = found[0]
        self.same |= folded


def _is_homogeneous(call: Call, channels: int) -> bool:
    """Whether a positive scale of the channels may move behind the call."""
    layout = getattr(call.attrs, "layout", "")
    return isinstance(call.op, Op) and call.op.name in _HOMOGENEOUS and (not layout or layout.find("C") == channels)


def _scale(call: Call, inputs: _Inputs) -> tuple[Expr, np.ndarray] | None:
    """The data of a call and the scale per channel that the call multiplies it with."""
    rank = tensor_type(call).rank if call.op in (NEGATIVE, MULTIPLY, DIVIDE) else 0
    if call.op is NEGATIVE:
        return call.args[0], np.array([-1.0])
    if call.op is MULTIPLY:
        for data, other in (call.args, call.args[::-1]):
            by = per_channel(other, inputs.axis, inputs.size, rank)
            if by is not None and data.ty == call.ty:
                return data, by
    if call.op is DIVIDE and call.args[0].ty == call.ty:
        by = per_channel(call.args[1], inputs.axis, inputs.size, rank)
        if by is not None and by.all():
            return call.args[0], 1.0 / by
    return None
