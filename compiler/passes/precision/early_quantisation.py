"""Quantise tensors before they are moved and joined, and without a division.

    let %j = concatenate((%a, %b), axis=1);          let %p = qnn.quantize(%a, 0.5f, 3);
    let %y = qnn.quantize(%j, 0.5f, 3);              let %q = qnn.quantize(%b, 0.5f, 3);
                                             ->      let %y = concatenate((%p, %q), axis=1);

    let %a = qnn.dequantize(%sums, 0.3f, 0);         let %a = qnn.dequantize(%sums, 0.6f, 0);
    let %r = nn.relu(%a);                            let %r = nn.relu(%a);
    let %y = qnn.quantize(%r, 0.5f, 3);      ->      let %y = qnn.quantize(%r, 1f, 3);

    let %a = qnn.dequantize(%x, 0.5f, 3);
    let %y = qnn.quantize(%a, 0.5f, 3);      ->      let %y = %x;

What moves is bytes then, and a ``qnn.quantize`` is a part of the kernel that computes its data.  A scale goes through operators
whose result is multiplied by a positive number if their data are, up to the scales of integers and to constants.  A product with
the quotient of two scales is another number than the quotient of a product by at most two roundings of float32.

Requires: typed A-normal form, before composite operators are expanded.
Ensures: the same.  Values without a use are left to ``eliminate_dead_code``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ops.core.op import Op, get
from ....ops.core.tensor_types import TensorType
from ....ops.defs.arithmetic.elementwise import ClipAttrs
from ....ops.defs.qnn.quantisation import QuantizeAttrs
from ...analysis.fake_quantization import DEQUANTIZE, MOVES, QUANTIZE
from ...ir.anf import is_atom
from ...ir.chain_rewriter import ChainRewriter, rewrite_chains
from ...ir.expr import Call, Constant, Expr, IRModule, Tuple, Var, replace
from ...ir.pass_declaration import declare_pass
from ..constant_weights.weighted_products import constant_like
from ..infer_type import retyped

_QUANTIZE = get(QUANTIZE)
#: Operators whose result has each element of the data at least once, and no other.
_WHOLE_MOVES = MOVES - {"strided_slice", "max", "min", "split", "nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d"}
#: By operator, the number of first arguments that are multiplied if the result is.
_HOMOGENEOUS = {
    **dict.fromkeys(MOVES - {"split"}, 1),
    **dict.fromkeys(("nn.relu", "nn.leaky_relu", "clip", "negative", "mean", "sum", "divide", "multiply"), 1),
    **dict.fromkeys(("nn.avg_pool2d", "nn.global_avg_pool2d", "nn.adaptive_avg_pool2d"), 1),
    **dict.fromkeys(("add", "subtract", "maximum", "minimum", "nn.bias_add"), 2),
}

_Bindings = list[tuple[Var, Expr]]


@declare_pass("EarlyQuantisation", "monomorphize", "infer_type")
def early_quantisation(mod: IRModule) -> IRModule:
    """The module with ``qnn.quantize`` in front of movements, and without scales where others can have them."""
    new = rewrite_chains(mod, _Rewriter)
    return retyped(new, mod)


class _Rewriter(ChainRewriter):
    """The rewriter of one function."""

    def replaced(self, var: Var, call: Call) -> _Bindings | None:
        if call.op is not _QUANTIZE:
            return None
        scale, zero_point = map(self.resolved, call.args[1:])
        if not (isinstance(scale, Constant) and isinstance(zero_point, Constant)) or scale.data.size * zero_point.data.size != 1:
            return None
        if not (np.isfinite(scale.data).all() and (scale.data > 0).all()):
            return None
        earlier = _Earlier(self, var, replace(call, args=(call.args[0], scale, zero_point)), scale, zero_point)
        value = earlier.quantised(call.args[0])
        return None if value is None else [*earlier.bindings, (var, value)]

    def value_of(self, atom: Expr) -> Expr | None:
        """The value of a variable; None for a parameter and a constant."""
        return self.values.get(self.resolved(atom))

    def is_sole(self, atom: Expr) -> bool:
        """Whether the atom, and each variable that it stands for, has a single use."""
        while self.count[atom] == 1:
            value = self.values.get(atom)
            if value is None or not is_atom(value):
                return True
            atom = value
        return False


class _Earlier:
    """Moves one ``qnn.quantize`` to the operands of its data; ``bindings``: those that its place needs."""

    def __init__(self, rewriter: _Rewriter, var: Var, call: Call, scale: Constant, zero_point: Constant) -> None:
        self.rewriter, self.var, self.call = rewriter, var, call
        self.scale, self.zero_point = scale, zero_point
        self.factor = 1 / np.float64(scale.data.reshape(()))
        self.bindings: _Bindings = []

    def _bound(self, value: Expr) -> Expr:
        if is_atom(value):
            return value
        self.bindings.append((made := Var(f"{self.var.name}_early", span=self.call.span), value))
        return made

    def quantised(self, atom: Expr) -> Expr | None:
        """The quantised value of ``atom``; None if nothing is gained."""
        value = self.rewriter.value_of(atom)
        if isinstance(value, Call) and isinstance(value.op, Op):
            if value.op.name == DEQUANTIZE and self._is_inverse(value):
                return value.args[0]
            if self.rewriter.is_sole(atom):
                if value.op.name in _WHOLE_MOVES:
                    return replace(value, args=(self._part(value.args[0]), *value.args[1:]), ty=None)
                if value.op.name == "concatenate":
                    return self._joined(value)
        return self._without_scale(atom)

    def _part(self, atom: Expr) -> Expr:
        found = self.quantised(atom)
        return self._bound(replace(self.call, args=(atom, *self.call.args[1:]), ty=None) if found is None else found)

    def _joined(self, concatenate: Call) -> Expr | None:
        fields = self.rewriter.value_of(concatenate.args[0])
        if not isinstance(fields, Tuple) or not self.rewriter.is_sole(concatenate.args[0]):
            return None
        parts = Tuple(tuple(map(self._part, fields.fields)), span=fields.span)
        return replace(concatenate, args=(self._bound(parts),), ty=None)

    def _is_inverse(self, dequantize: Call) -> bool:
        """Whether the data of ``dequantize`` are the integers that the ``qnn.quantize`` makes of its result."""
        data, scale, zero_point = map(self.rewriter.resolved, dequantize.args)
        if not (isinstance(scale, Constant) and isinstance(zero_point, Constant) and isinstance(data.ty, TensorType)):
            return False
        if data.ty.dtype != self.call.attrs.out_dtype or dequantize.attrs.out_dtype != "float32":
            return False
        pairs = (scale, self.scale), (zero_point, self.zero_point)
        return all(one.data.size == 1 and one.data.item() == other.data.item() for one, other in pairs)

    # ---- scales ------------------------------------------------------------------------------------------------------

    def _without_scale(self, atom: Expr) -> Expr | None:
        """The ``qnn.quantize`` with the scale 1; None if its data cannot have the scale."""
        if self.factor == 1 or not self._can_scale(atom, True):
            return None
        one = _constant(np.ones((), np.float32), self.call)
        attrs = QuantizeAttrs(**{**vars(self.call.attrs), "axis": -1})
        return replace(self.call, args=(self._scaled(atom), one, self.call.args[2]), attrs=attrs, ty=None)

    def _can_scale(self, atom: Expr, sole: bool = False) -> bool:
        """Whether a value can be multiplied by the factor without an operator."""
        atom, value = self.rewriter.resolved(atom), self.rewriter.value_of(atom)
        if isinstance(atom, Constant):
            return atom.data.dtype == np.float32 and self._fits(atom)
        if not isinstance(value, Call) or not isinstance(value.op, Op):
            return False
        if value.op.name == DEQUANTIZE:
            scale = self.rewriter.resolved(value.args[1])
            return isinstance(scale, Constant) and value.attrs.out_dtype == "float32" and self._fits(scale)
        count = _HOMOGENEOUS.get(value.op.name, 0) if self.rewriter.is_sole(atom) else 0
        is_real = isinstance(value.ty, TensorType) and value.ty.dtype == "float32"
        return bool(count) and is_real and all(map(self._can_scale, value.args[:count]))

    def _fits(self, constant: Constant) -> bool:
        """Whether the numbers times the factor are numbers of float32, and none of them is almost 0."""
        product = np.abs(constant.data * self.factor)
        return bool((((product > 1e-30) | (constant.data == 0)) & (product < 1e30)).all())

    def _scaled(self, atom: Expr) -> Expr:
        """A value times the factor."""
        atom, value = self.rewriter.resolved(atom), self.rewriter.value_of(atom)
        if isinstance(atom, Constant):
            return self._times(atom)
        assert isinstance(value, Call) and isinstance(value.op, Op)
        first, *rest = value.args
        if value.op.name == DEQUANTIZE:
            scale = self.rewriter.resolved(rest[0])
            assert isinstance(scale, Constant)
            return self._bound(replace(value, args=(first, self._times(scale), *rest[1:]), ty=None))
        count, attrs = _HOMOGENEOUS[value.op.name], value.attrs
        if isinstance(attrs, ClipAttrs):
            attrs = ClipAttrs(*(float(np.float32(bound * self.factor)) for bound in (attrs.a_min, attrs.a_max)))
        args = (*map(self._scaled, value.args[:count]), *value.args[count:])
        return self._bound(replace(value, args=args, attrs=attrs, ty=None))

    def _times(self, constant: Constant) -> Constant:
        return _constant((constant.data * self.factor).astype(np.float32), self.call)


def _constant(data: Any, like: Call) -> Constant:
    array = np.array(data)
    array.setflags(write=False)
    return constant_like(array, like)
