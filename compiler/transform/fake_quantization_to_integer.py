"""``FakeQuantizationToInteger``: operators of floats between ``qnn.dequantize`` and ``qnn.quantize`` as operators of integers.

    qnn.quantize(nn.dense(qnn.dequantize(%x, 0.5f, 0), qnn.dequantize(%w, 0.25f, 0)), 2f, 0)    ->
        qnn.requantize(qnn.dense(%x, %w, 0, 0, 0.5f, 0.25f), 0.125f, 0, 2f, 0)

A region changes if all of its operators have a rule and all of its scales and zero points are constants.  Rules are there for
convolutions, matrix products, products, sums of one scale, ``nn.relu``, ``clip``, ``concatenate``, and operators that move
elements or choose the largest.
The result differs from that of the floats by at most the rounding of a requantization.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...declarations.frozen_dataclass import frozen
from ...ops.core.op import Op, get
from ...ops.core.tensor_types import TensorType, TupleType, int_range
from ...vm.diagnostics.python_source import here
from ...vm.diagnostics.source import ArgumentError
from ..analysis.fake_quantization import DEQUANTIZE, MOVES, QUANTIZE, fake_quantized_region, is_call_of
from ..builder.operator_functions import operator_function
from ..ir.expr import Call, Constant, Expr, IRModule, Tuple, TupleGetItem, map_functions, replace
from ..ir.visitor import post_order
from ..passes.beta_reduction import rewritten_function
from .inlining import graph_of


@frozen
class _Quantized:
    """Integers that stand for ``scale * (value - zero_point)``; ``scale``: one number, or one for each index of ``axis``."""

    value: Expr
    scale: np.ndarray
    zero_point: int
    axis: int = -1


class _Unsupported(Exception):
    """A part of a region without a rule; ``args``: the reason."""


def fake_quantization_to_integer(mod: IRModule, hard_fail: bool, use_qat: bool = False) -> IRModule:
    """The module with integers in the regions whose operators have rules.

    ``use_qat``: so are operators with rules and dequantized arguments in the regions that stay; their results are dequantized.
    Raises ArgumentError for a region that stays, with ``hard_fail``.
    """

    def visit(node: Expr) -> Expr:
        if not is_call_of(node, QUANTIZE) or not fake_quantized_region(node, {}):
            return node
        try:
            assert isinstance(node, Call)
            return replace(_integer(node), ty=node.ty, span=node.span)
        except _Unsupported as reason:
            if hard_fail:
                raise ArgumentError(f"FakeQuantizationToInteger: {reason}", here()) from None
            return node

    found = map_functions(mod, lambda f: rewritten_function(graph_of(f, mod), visit))
    return map_functions(found, lambda f: rewritten_function(f, _dequantized_later)) if use_qat else found


def _dequantized_later(node: Expr) -> Expr:
    """A call of dequantized arguments as the dequantized result of integers; another expression as it is."""
    if not isinstance(node, Call) or not isinstance(node.op, Op) or not (node.op.name in _RULES or node.op.name in MOVES):
        return node
    parts = [part for arg in node.args for part in (arg.fields if isinstance(arg, Tuple) else (arg,))]
    if not all(is_call_of(part, DEQUANTIZE) for part in parts) or isinstance(node.ty, TupleType):
        return node
    known: dict[int, Any] = {}
    try:
        for part in (*parts, *(arg for arg in node.args if isinstance(arg, Tuple))):
            known[id(part)] = _of(part, known)
        found = _of(node, known)
    except _Unsupported:
        return node
    numbers = _constant(found.scale, "float32"), _constant(found.zero_point, "int32")
    made = _call("qnn.dequantize", found.value, *numbers, axis=found.axis if found.scale.size > 1 else -1)
    return replace(made, ty=node.ty, span=node.span)


def _call(name: str, *args: Any, **attrs: Any) -> Call:
    return operator_function(get(name))(*args, **attrs)


def _constant(value: Any, dtype: str) -> Constant:
    return Constant(np.asarray(value, dtype))


def _integer(quantize: Call) -> Expr:
    """The quantized data of a ``qnn.quantize``, computed with integers."""
    scale, zero_point = _known(quantize.args[1]), _known(quantize.args[2])
    known: dict[int, Any] = {}
    inside = {id(node) for node in fake_quantized_region(quantize, {})}
    for node in post_order(quantize.args[0]):
        if id(node) in inside or is_call_of(node, DEQUANTIZE):
            known[id(node)] = _of(node, known)
    found = known[id(quantize.args[0])]
    scales = _constant(found.scale, "float32"), _constant(found.zero_point, "int32")
    wanted = _constant(scale, "float32"), _constant(zero_point, "int32")
    return _call(
        "qnn.requantize",
        found.value,
        *scales,
        *wanted,
        axis=found.axis if found.scale.size > 1 else -1,
        out_dtype=quantize.attrs.out_dtype,
    )


def _of(node: Expr, known: dict[int, Any]) -> Any:
    """An expression of a region in integers; a tuple of them for a tuple."""
    if isinstance(node, Tuple):
        return tuple(_part(field, known) for field in node.fields)
    if isinstance(node, TupleGetItem):
        whole = known[id(node.tuple_value)]
        return replace_value(whole, TupleGetItem(whole.value, node.index, span=node.span))
    assert isinstance(node, Call) and isinstance(node.op, Op)
    if node.op.name == DEQUANTIZE:
        zero_point = _known(node.args[2])
        if zero_point.size == 0 or (zero_point != zero_point.reshape(-1)[0]).any():
            raise _Unsupported("zero points that differ between channels have no rule")
        scale, ty = _known(node.args[1]), node.ty
        axis = node.attrs.axis % ty.rank if isinstance(ty, TensorType) and ty.rank else -1
        return _Quantized(node.args[0], scale if scale.size > 1 else scale.reshape(()), int(zero_point.reshape(-1)[0]), axis)
    rule = _RULES.get(node.op.name) or (_moved if node.op.name in MOVES else None)
    if rule is None:
        raise _Unsupported(f"{node.op.name} has no rule")
    return rule(node, [_part(argument, known) for argument in node.args])


def replace_value(quantized: _Quantized, value: Expr) -> _Quantized:
    """Another value of the same scale and zero point."""
    return _Quantized(value, quantized.scale, quantized.zero_point, quantized.axis)


def _part(node: Expr, known: dict[int, Any]) -> Any:
    if id(node) not in known:
        raise _Unsupported("a constant of floats has no scale")
    return known[id(node)]


def _known(expr: Expr) -> np.ndarray:
    if not isinstance(expr, Constant):
        raise _Unsupported("a scale or zero point is no constant")
    return np.asarray(expr.data)


# ---- rules -------------------------------------------------------------------------------------------------------------


def _one_scale(*parts: _Quantized) -> None:
    if any(part.scale.size > 1 for part in parts):
        raise _Unsupported("scales for each channel have rules in products only")


def _moved(call: Call, args: list[_Quantized]) -> _Quantized:
    (data,) = args
    _one_scale(data)
    ty = replace(call.ty, dtype=_dtype(data)) if isinstance(call.ty, TensorType) else None
    return replace_value(data, replace(call, args=(data.value,), ty=ty))


def _relu(call: Call, args: list[_Quantized]) -> _Quantized:
    (data,) = args
    return replace_value(data, _call("maximum", data.value, _constant(data.zero_point, _dtype(data))))


def _dtype(part: _Quantized) -> str:
    ty = part.value.ty
    return ty.dtype if isinstance(ty, TensorType) else "int32"


def _clip(call: Call, args: list[_Quantized]) -> _Quantized:
    (data,) = args
    _one_scale(data)
    low, high = int_range(_dtype(data))
    bounds = [np.round(bound / float(data.scale)) + data.zero_point for bound in (call.attrs.a_min, call.attrs.a_max)]
    limits = [int(min(max(bound, low), high)) for bound in bounds]
    return replace_value(data, _call("clip", data.value, *limits))


def _product(call: Call, args: list[_Quantized]) -> _Quantized:
    """A convolution or matrix product: the scale of the result is the product of the scales."""
    assert isinstance(call.op, Op)
    data, weight = args
    _one_scale(data)
    if call.op.name == "nn.batch_matmul":
        _one_scale(weight)
    zero_points = [_constant(part.zero_point, "int32") for part in args]
    scales = [_constant(part.scale, "float32") for part in args]
    attrs = {name: value for name, value in vars(call.attrs).items() if name not in ("out_dtype", "transpose_a", "transpose_b")}
    if getattr(call.attrs, "transpose_a", False):
        raise _Unsupported("a product with a transposed first matrix has no rule")
    name, matrix = call.op.name.removeprefix("nn."), weight.value
    if not getattr(call.attrs, "transpose_b", True):
        matrix = _call("transpose", matrix, [1, 0] if name == "matmul" else [0, 2, 1])
    layout = getattr(call.attrs, "out_layout", "") or getattr(call.attrs, "data_layout", "")
    axis = layout.index("C") if layout else -1
    function = operator_function(get(f"qnn.{'dense' if name == 'matmul' else name}"))
    made = function(data.value, matrix, *zero_points, *scales, **attrs, out_dtype="int32")
    return _Quantized(made, np.asarray(data.scale * weight.scale, "float32"), 0, axis)


def _multiply(call: Call, args: list[_Quantized]) -> _Quantized:
    left, right = args
    _one_scale(left, right)
    return _Quantized(_call("multiply", _centred(left), _centred(right)), np.asarray(left.scale * right.scale, "float32"), 0)


def _centred(part: _Quantized) -> Expr:
    """The integers as int32, without their zero point."""
    wide = _call("cast", part.value, "int32")
    return _call("subtract", wide, _constant(part.zero_point, "int32")) if part.zero_point else wide


def _add(call: Call, args: list[_Quantized]) -> _Quantized:
    """A sum of integers of one scale, such as a convolution's and its bias."""
    left, right = args
    if left.scale.shape != right.scale.shape or not np.allclose(left.scale, right.scale, rtol=1e-5, atol=0):
        raise _Unsupported("a sum of values of different scales has no rule")
    attrs = {"axis": call.attrs.axis} if hasattr(call.attrs, "axis") else {}
    assert isinstance(call.op, Op)
    return _Quantized(_call(call.op.name, _centred(left), _centred(right), **attrs), left.scale, 0, left.axis)


def _concatenate(call: Call, args: list[Any]) -> _Quantized:
    (fields,) = args
    first = fields[0]
    _one_scale(*fields)
    values = [first.value, *(_requantized(field, first) for field in fields[1:])]
    return replace_value(first, _call("concatenate", values, call.attrs.axis))


def _requantized(part: _Quantized, like: _Quantized) -> Expr:
    if (float(part.scale), part.zero_point, _dtype(part)) == (float(like.scale), like.zero_point, _dtype(like)):
        return part.value
    numbers = [_constant(n, t) for p in (part, like) for n, t in ((p.scale, "float32"), (p.zero_point, "int32"))]
    return _call("qnn.requantize", part.value, *numbers, out_dtype=_dtype(like))


_RULES: dict[str, Callable[[Call, Any], _Quantized]] = {
    "nn.relu": _relu,
    "clip": _clip,
    **dict.fromkeys(("nn.conv2d", "nn.dense", "nn.matmul", "nn.batch_matmul"), _product),
    "multiply": _multiply,
    **dict.fromkeys(("add", "nn.bias_add"), _add),
    "concatenate": _concatenate,
}
