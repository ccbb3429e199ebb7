"""Convolutions of halves with channels last, as tensor cores multiply them, for GPUs.

    let %y = nn.conv2d(%x, meta[0]);          let %x_last = transpose(%x, axes=[0, 2, 3, 1]);
    let %z = nn.relu(%y);                     let %y_last = nn.conv2d(%x_last, meta[0], data_layout="NHWC", ..);
                                       ->     let %y = transpose(%y_last, axes=[0, 3, 1, 2]);
                                              let %z_last = nn.relu(%y_last);
                                              let %z = transpose(%z_last, axes=[0, 3, 1, 2]);

Pools, resizes, repeats, sums over places, concatenations of channels and elementwise operators of tensors with channels last
have channels last, too.  All other operators read the tensors that are turned back.  Weights are constants, and are turned here.

Requires: typed A-normal form.
Ensures: the same.  Calls without a use are left to ``eliminate_dead_code``.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ....ops.core.op import Op, OpPattern, get
from ....ops.core.tensor_types import HALVES, TensorType
from ....shape_funcs.symbolic.dim import const
from ...ir.anf import inner_chains, rebuild, rebuild_lets
from ...ir.expr import Call, Constant, Expr, IRModule, Tuple, Var, let_chain, replace
from ...ir.pass_declaration import declare_pass
from ..infer_type import infer_sizes

#: Axes of tensors with channels last by those with channels first, and the other way.
_LAST, _FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
_REDUCTIONS = ("mean", "sum", "max", "min")
_Bindings = list[tuple[Var, Expr]]


@declare_pass("ChannelsLast", "monomorphize", "infer_type")
def channels_last(mod: IRModule) -> IRModule:
    """The module with convolutions of halves with channels last."""
    functions = {n: f if f.is_primitive else replace(f, body=_Turner().chain(f.body), ty=None) for n, f in mod.functions.items()}
    changed = any(functions[name].body is not f.body for name, f in mod.functions.items() if not f.is_primitive)
    return infer_sizes(replace(mod, functions=functions), mod) if changed else mod


class _Turner:
    """The rewriter of one function."""

    def __init__(self) -> None:
        #: The tensors with channels last, by those with channels first.
        self.last: dict[Expr, Expr] = {}
        self.tuples: dict[Expr, tuple[Expr, ...]] = {}

    def chain(self, chain: Expr) -> Expr:
        bindings, result = let_chain(chain)
        out: _Bindings = []
        for var, value in bindings:
            if inner_chains(value):
                value = rebuild(value, lambda atom: atom, self.chain)
            if isinstance(value, Tuple):
                self.tuples[var] = value.fields
            transposed = self._transposed(var, value, out) if isinstance(value, Call) and isinstance(value.op, Op) else None
            if transposed is None:
                out.append((var, value))
            else:
                self._bind(var, transposed, out)
        return rebuild_lets(chain, out, result)

    def _bind(self, var: Var, transposed: Call, out: _Bindings) -> None:
        """Bind the value with channels last, and ``var`` with channels first."""
        if len(_shape(var)) != 4:
            out.append((var, replace(transposed, ty=None)))  # places are summed
            return
        self.last[var] = last = Var(f"{var.name}_last", span=var.span)
        out.append((last, replace(transposed, ty=None)))
        out.append((var, _moved(last, _shape(var), _FIRST, var)))

    def _transposed(self, var: Var, call: Call, out: _Bindings) -> Call | None:
        """The call with channels last; None for another call."""
        op = call.op
        assert isinstance(op, Op)
        if op.name == "nn.conv2d":
            return self._convolution(call, out)
        if op.name == "concatenate":
            return self._concatenation(call, out)
        if not call.args or call.args[0] not in self.last:
            return self._elements(call, out) if op.pattern is OpPattern.BROADCAST else None
        data, attrs = self.last[call.args[0]], call.attrs
        if op.name == "nn.bias_add":
            return replace(call, args=(data, call.args[1]), attrs=_with(attrs, axis=3)) if attrs.axis in (1, -3) else None
        if op.name == "repeat" and attrs.axis is not None:
            return replace(call, args=(data,), attrs=_with(attrs, axis=_LAST.index(attrs.axis % 4)))
        if op.name in _REDUCTIONS:
            axes = () if attrs.axis is None or attrs.exclude else tuple(a % 4 for a in np.atleast_1d(attrs.axis))
            return replace(call, args=(data,), attrs=_with(attrs, axis=(1, 2))) if sorted(axes) == [2, 3] else None
        if op.name.endswith("_pool2d") or op.name == "image.resize2d":
            is_first = attrs.layout == "NCHW" and getattr(attrs, "out_layout", "") in ("", "NCHW") and len(call.args) == 1
            return replace(call, args=(data,), attrs=_with(attrs, layout="NHWC", out_layout="")) if is_first else None
        if op.pattern is OpPattern.ELEMWISE and len(call.args) == 1:
            return replace(call, args=(data,))
        return self._elements(call, out) if op.pattern is OpPattern.BROADCAST else None

    def _convolution(self, call: Call, out: _Bindings) -> Call | None:
        data, weight = call.args
        attrs, ty = call.attrs, weight.ty
        is_first = (attrs.data_layout, attrs.kernel_layout) == ("NCHW", "OIHW") and attrs.out_layout in ("", "NCHW")
        is_half = isinstance(ty, TensorType) and ty.dtype in HALVES and attrs.out_dtype in ("", ty.dtype)
        if not is_first or not is_half or not isinstance(weight, Constant):
            return None
        given = _with(attrs, data_layout="NHWC", kernel_layout="OHWI", out_layout="")
        return replace(call, args=(self._in_last(data, out), _constant(weight)), attrs=given)

    def _concatenation(self, call: Call, out: _Bindings) -> Call | None:
        fields = self.tuples.get(call.args[0], ())
        if not fields or call.attrs.axis not in (1, -3) or not all(field in self.last for field in fields):
            return None
        out.append((whole := Var("fields", span=call.span), Tuple(tuple(self.last[f] for f in fields), span=call.span)))
        return replace(call, args=(whole,), attrs=_with(call.attrs, axis=3))

    def _elements(self, call: Call, out: _Bindings) -> Call | None:
        """An operator with broadcasting, of tensors with channels last, numbers, and tensors of a place for each channel."""
        if not any(arg in self.last for arg in call.args) or (call.attrs is not None and dataclasses.fields(call.attrs)):
            return None
        args: list[Expr] = []
        for arg in call.args:
            shape = _shape(arg)
            if arg in self.last or not shape:
                args.append(self.last.get(arg, arg))
            elif isinstance(arg, Constant) and len(shape) in (3, 4):
                args.append(_constant(arg))
            elif len(shape) == 4 and _is_place(shape):
                args.append(self._in_last(arg, out))
            else:
                return None
        return replace(call, args=tuple(args))

    def _in_last(self, atom: Expr, out: _Bindings) -> Expr:
        if atom not in self.last:
            name = atom.name if isinstance(atom, Var) else "value"
            out.append((var := Var(f"{name}_last", span=atom.span), _moved(atom, _shape(atom), _LAST, atom)))
            return var  # not remembered: another scope may not see this variable
        return self.last[atom]


def _shape(atom: Expr) -> tuple[Any, ...]:
    return atom.ty.shape if isinstance(atom.ty, TensorType) else ()


def _is_place(shape: tuple[Any, ...]) -> bool:
    """Whether a tensor with channels first has one place."""
    return const(shape[2]) == 1 and const(shape[3]) == 1


def _moved(atom: Expr, shape: tuple[Any, ...], axes: tuple[int, ...], at: Expr) -> Call:
    """A tensor of this shape, with channels first, in the other order: a view if it has one place."""
    if _is_place(shape):
        op = get("reshape")
        return Call(op, (atom,), op.attrs((0, 1, 1, -1) if axes == _LAST else (0, -1, 1, 1)), span=at.span)
    op = get("transpose")
    return Call(op, (atom,), op.attrs(axes), span=at.span)


def _constant(constant: Constant) -> Constant:
    data = constant.data.reshape((1,) * (4 - constant.data.ndim) + constant.data.shape).transpose(_LAST).copy()
    data.flags.writeable = False
    return Constant(data, span=constant.span, ty=TensorType.of(data.shape, data.dtype.name))


def _with(attrs: Any, **changed: Any) -> Any:
    """The attributes with other values of those among these that there are."""
    names = {f.name for f in dataclasses.fields(attrs)}
    return dataclasses.replace(attrs, **{name: value for name, value in changed.items() if name in names})
