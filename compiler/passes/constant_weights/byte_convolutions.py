"""Store constant weights of convolutions of bytes in words, for the kernels of the CPU.

    let %y = qnn.conv2d(%x, W, %z, 0, 1f, 1f, padding=1);
    ->
    let %wide = cast(%z, dtype="int32");
    let %factor = negative(%wide);
    let %start = multiply(SUMS, %factor);
    let %byte = cast(%wide, dtype="uint8");
    let %pad = reshape(%byte, newshape=[1]);
    let %y = nn.byte_conv2d(%x, WORDS, %start, %pad, kernel_size=[3, 3], form="channels", padding=1);

The sum of ``(x - z) * w`` is that of ``x * w``, of data that is padded with ``z``, less ``z`` times the sum of the weights.  A
constant ``z`` leaves a constant start and a constant pad.  Bytes with a sign are moved by 128, and their zero point with them.
``nn.conv2d`` of bytes is taken in the same way, with a zero point of 0.  An ``nn.bias_add`` that alone uses the result becomes a
part of the start; the convolution without it is left to ``eliminate_dead_code``.

The weight without its constant zero point fits bytes with a sign; the result is int32; channels come first.  Any other
convolution of integers is left to ``expand_composites``.

Requires: typed A-normal form.
Ensures: the same.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from ....ops.core.op import Op, get
from ....ops.core.tensor_types import TensorType
from ....ops.defs.convolution.conv import Conv2dAttrs
from ....ops.defs.qnn.products import QnnConv2dAttrs
from ....ops.defs.weight_forms.byte_convolution import NAME, ByteConv2dAttrs, best_form, words_of
from ....shape_funcs.defs.convolution.conv import data_layouts, kernel_layouts, per_axis
from ....shape_funcs.symbolic.dim import const
from ...ir.chain_rewriter import ChainRewriter, rewrite_chains
from ...ir.expr import Call, Constant, Expr, IRModule, Var
from ...ir.pass_declaration import declare_pass
from ..infer_type import retyped
from .weighted_products import constant_like

#: The operators that are replaced, with the type of their attributes.
_REPLACED = {"qnn.conv2d": QnnConv2dAttrs, "nn.conv2d": Conv2dAttrs}
#: The dtypes of data, with the numbers that make them bytes without a sign.
_MOVED = {"uint8": 0, "int8": 128}
_BYTES = np.iinfo(np.int8)


@declare_pass("ByteConvolutions", "monomorphize", "infer_type")
def byte_convolutions(mod: IRModule, forced: Collection[str] = ()) -> IRModule:
    """The module with calls of ``nn.byte_conv2d``.  ``forced``: names of operators that stay as they are."""
    if set(forced) & set(_REPLACED):
        return mod
    made = rewrite_chains(mod, _Rewriter)
    return retyped(made, mod)


class _Rewriter(ChainRewriter):
    """The rewriter of one function."""

    def replaced(self, var: Var, call: Call) -> list[tuple[Var, Expr]] | None:
        if call.op is get("nn.bias_add") and call.attrs.axis in (1, -3):
            convolved = self.sole_call(call.args[0], *map(get, _REPLACED))
            return None if convolved is None else self._convolution(var, convolved, self.resolved(call.args[1]))
        return self._convolution(var, call)

    def _convolution(self, var: Var, call: Call, bias: Expr | None = None) -> list[tuple[Var, Expr]] | None:
        """The bindings of a convolution, with the sum of a ``bias``."""
        if not isinstance(call.op, Op) or call.op.name not in _REPLACED or not _is_plain(call):
            return None
        data, weight, *parameters = call.args[0], *map(self.resolved, call.args[1:])
        bytes_of = _weight(weight, parameters[1] if parameters else None)
        moved = _MOVED.get(_type(data).dtype)
        zero_point = parameters[0] if parameters else Constant(np.zeros((), np.int32), span=call.span)
        if bytes_of is None or moved is None or not _is_byte(zero_point, _type(data).dtype, moved):
            return None
        return _Bindings(var, call).of(data, bytes_of, zero_point, moved, bias)


class _Bindings:
    """The bindings that replace a binding ``let var = call``."""

    def __init__(self, var: Var, call: Call) -> None:
        self.var, self.call, self.out = var, call, list[tuple[Var, Expr]]()

    def of(self, data: Expr, weight: np.ndarray, zero_point: Expr, moved: int, bias: Expr | None) -> list[tuple[Var, Expr]]:
        """The bindings; ``moved``: the number that makes data bytes without a sign."""
        attrs, (_, inputs, *window) = self.call.attrs, weight.shape
        form = best_form(inputs, window[0], window[1], per_axis(attrs.dilation, 2, "dilation")[1])
        words, sums = words_of(weight, attrs.groups, form), weight.sum((1, 2, 3), dtype=np.int32)
        if moved:
            data = self._bind(
                "bytes", "bitwise_xor", self._bind("bits", "cast", data, dtype="uint8"), self._number(moved, "uint8")
            )
        start, pad = self._start(sums, zero_point, moved)
        if isinstance(bias, Constant) and isinstance(start, Constant):
            start = constant_like(start.data + bias.data, self.call)
        elif bias is not None:
            start = self._bind("biased", "add", start, bias)
        given = ByteConv2dAttrs((window[0], window[1]), form, attrs.strides, attrs.padding, attrs.dilation, attrs.groups)
        args = data, constant_like(words, self.call), start, pad
        return [*self.out, (self.var, Call(get(NAME), args, given, span=self.call.span))]

    def _start(self, sums: np.ndarray, zero_point: Expr, moved: int) -> tuple[Expr, Expr]:
        """The value with which sums begin, and the byte of the padding."""
        if isinstance(zero_point, Constant):
            byte = int(zero_point.data.reshape(())) + moved
            return constant_like(sums * np.int32(-byte), self.call), constant_like(np.array([byte], np.uint8), self.call)
        wide = self._bind("wide", "cast", zero_point, dtype="int32")
        if moved:
            wide = self._bind("moved", "add", wide, self._number(moved, "int32"))
        factor = self._bind("factor", "negative", wide)
        start = self._bind("start", "multiply", constant_like(sums, self.call), factor)
        return start, self._bind("pad", "reshape", self._bind("byte", "cast", wide, dtype="uint8"), newshape=(1,))

    def _number(self, value: int, dtype: str) -> Constant:
        return constant_like(np.array(value, dtype), self.call)

    def _bind(self, hint: str, op: str, *args: Expr, **attrs: Any) -> Var:
        var = Var(f"{self.var.name}_{hint}", span=self.call.span)
        self.out.append((var, Call(get(op), args, get(op).attrs(**attrs), span=self.call.span)))
        return var


def _type(x: Expr) -> TensorType:
    assert isinstance(x.ty, TensorType), x
    return x.ty


def _is_plain(call: Call) -> bool:
    """Whether a convolution has its channels first and a result of int32."""
    attrs = call.attrs
    layouts = attrs.data_layout, attrs.kernel_layout, attrs.out_layout or attrs.data_layout
    first = data_layouts(2)[0], kernel_layouts(2)[0], data_layouts(2)[0]
    return layouts == first and isinstance(call.ty, TensorType) and call.ty.dtype == "int32"


def _weight(weight: Expr, zero_point: Expr | None) -> np.ndarray | None:
    """A constant weight without its constant zero point, or one for each output channel, as int8; None if it does not fit."""
    if not isinstance(weight, Constant) or weight.data.dtype.name not in _MOVED or not weight.data.size:
        return None
    wide = weight.data.astype(np.int32)
    if zero_point is not None:
        if not isinstance(zero_point, Constant) or zero_point.data.size not in (1, len(wide)):
            return None
        wide = wide - zero_point.data.astype(np.int32).reshape(-1, 1, 1, 1)
    return wide.astype(np.int8) if _BYTES.min <= wide.min() and wide.max() <= _BYTES.max else None


def _is_byte(zero_point: Expr, dtype: str, moved: int) -> bool:
    """Whether a zero point is one number of the range of the data."""
    ty = _type(zero_point) if not isinstance(zero_point, Constant) else None
    if isinstance(zero_point, Constant):
        return zero_point.data.size == 1 and 0 <= int(zero_point.data.reshape(())) + moved <= np.iinfo(np.uint8).max
    assert ty is not None
    return ty.dtype == dtype and all(const(d) == 1 for d in ty.shape)
