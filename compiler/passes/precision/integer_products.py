"""Multiply the integers of dequantised tensors, and dequantise the sums.

    let %a = qnn.dequantize(%x, 0.5f, 3);
    let %b = qnn.dequantize(W, 0.25f, 0i8);           let %y_sums = qnn.conv2d(%x, W, 3, 0i8, 0.5f, 0.25f);
    let %y = nn.conv2d(%a, %b);                  ->   let %y = qnn.dequantize(%y_sums, 0.125f, 0, axis=1);

    let %a = qnn.dequantize(%x, 0.5f, 3);             let %y_moved = nn.max_pool2d(%x);
    let %y = nn.max_pool2d(%a);                  ->   let %y = qnn.dequantize(%y_moved, 0.5f, 3);

Sums of integers are exact, where those of floats are rounded: a tensor that is quantised afterwards differs by a quantum at most.
What stands between a product and its ``qnn.quantize`` stays in floats, and becomes part of the kernel of the product.

A product stays in floats if a scale or a zero point is no constant, a scale is not finite, the data has a scale for each channel,
an operand has more than 8 bits, or the sum may exceed an int32.

Requires: typed A-normal form, before composite operators are expanded.
Ensures: the same.  Calls of ``qnn.dequantize`` without a use are left to ``eliminate_dead_code``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ....declarations.frozen_dataclass import frozen
from ....ops.core.op import Op, get
from ....ops.core.tensor_types import TensorType
from ....ops.defs.movement.transform import TransposeAttrs
from ....ops.defs.qnn.products import QnnBatchMatmulAttrs, QnnConv2dAttrs, QnnDenseAttrs
from ....ops.defs.qnn.quantisation import DequantizeAttrs
from ....shape_funcs.symbolic.dim import const
from ....vm.bytecode.executable import FloatProduct
from ...analysis.fake_quantization import DEQUANTIZE, MOVES
from ...ir.chain_rewriter import ChainRewriter, rewrite_chains
from ...ir.expr import Call, Constant, Expr, IRModule, Var, replace, tensor_type
from ...ir.pass_declaration import declare_pass
from ..constant_weights.weighted_products import constant_like
from ..infer_type import retyped

_DEQUANTIZE = get(DEQUANTIZE)
#: The dtypes of operands that kernels of integers multiply, and the largest magnitude of one without its zero point.
_BYTES, _LARGEST = ("int8", "uint8"), 255
#: The most products in a sum that an int32 holds.
_MOST_TERMS = (2**31 - 1) // _LARGEST**2
#: Operators of which the first argument alone has numbers, and the result some of these or the zero of their order.
_CHOICES = MOVES | {"take"}

_Bindings = list[tuple[Var, Expr]]


@declare_pass("IntegerProducts", "monomorphize", "infer_type")
def integer_products(mod: IRModule) -> IRModule:
    """The module with products of integers in the place of products of dequantised tensors, and the reasons for the others."""
    kept: list[FloatProduct] = []
    new = rewrite_chains(mod, lambda body: _Rewriter(body, kept))
    new = retyped(new, mod)
    return replace(new, float_products=tuple(kept)) if kept else new


@frozen
class _Quantised:
    """Integers that stand for ``scale * (value - zero_point)``.

    ``axis``: the axis with a scale or a zero point for each index; None if there is one of each for all.
    """

    value: Expr
    scale: Constant
    zero_point: Constant
    axis: int | None


@frozen
class _Product:
    """A product of integers.

    ``channels``: the axis of the output channels in the weight as it was.  ``axis``: their axis in the result.  ``terms``: the
    number of products in a sum.  ``order``: the order of the weight's axes for the operator; None for that which it has.
    """

    op: str
    attrs: Any
    channels: int
    axis: int
    terms: int | None
    order: tuple[int, ...] | None = None


class _Rewriter(ChainRewriter):
    """The rewriter of one function; ``kept``: the products of dequantised tensors that stay in floats."""

    def __init__(self, body: Expr, kept: list[FloatProduct]) -> None:
        super().__init__(body)
        self.kept = kept
        #: The dequantised tensors, or the reason for which products with one stay in floats.
        self.quantised: dict[Expr, _Quantised | str] = {}

    def replaced(self, var: Var, call: Call) -> _Bindings | None:
        if not isinstance(call.op, Op):
            return None
        if call.op is _DEQUANTIZE:
            self.quantised[var] = _of_constants(replace(call, args=tuple(map(self.resolved, call.args))))
            return None
        parts = [self.quantised.get(self.resolved(atom)) for atom in call.args]
        if not parts or parts[0] is None:
            return None
        if call.op in _PRODUCTS:
            return None if parts[1] is None else self._product(var, call, call.op, parts[0], parts[1])
        return self._moved(var, call, parts[0]) if call.op.name in _CHOICES else None

    def _product(self, var: Var, call: Call, op: Op, data: _Quantised | str, weight: _Quantised | str) -> _Bindings | None:
        """The bindings of a product of integers; None, with a note of the reason, if the product stays in floats."""
        reasons = [part for part in (data, weight) if isinstance(part, str)]
        found: _Bindings | str | None = reasons[0] if reasons else None
        if isinstance(data, _Quantised) and isinstance(weight, _Quantised):
            found = _multiplied(var, call, op, data, weight)
        if not isinstance(found, str):
            return found
        self.kept.append(FloatProduct(op.name, call.span.place if call.span else "", found))
        return None

    def _moved(self, var: Var, call: Call, data: _Quantised | str) -> _Bindings | None:
        """The call on integers; None if their order is not that of the numbers that they stand for."""
        if isinstance(data, str):
            self.quantised[var] = data
            return None
        scale = data.scale.data
        if data.axis is not None or not isinstance(call.ty, TensorType) or not (np.isfinite(scale).all() and (scale > 0).all()):
            return None
        moved = Var(f"{var.name}_moved", span=call.span)
        self.quantised[var] = _Quantised(moved, data.scale, data.zero_point, None)
        value = replace(call, args=(data.value, *call.args[1:]), ty=None)
        return [(moved, value), (var, Call(_DEQUANTIZE, (moved, data.scale, data.zero_point), DequantizeAttrs(), span=call.span))]


def _of_constants(call: Call) -> _Quantised | str:
    """The operands of a ``qnn.dequantize`` of bytes to float32 whose parameters are constants; else the reason."""
    value, scale, zero_point = call.args
    given, result = value.ty, call.ty
    assert isinstance(given, TensorType) and isinstance(result, TensorType), "typed"
    if given.dtype not in _BYTES:
        return f"an operand is {given.dtype}, not int8 or uint8"
    if result.dtype != "float32":
        return f"an operand is dequantised to {result.dtype}, not to float32"
    if not isinstance(scale, Constant):
        return "the scale of an operand is no constant"
    if not isinstance(zero_point, Constant):
        return "the zero point of an operand is no constant"
    if max(scale.data.ndim, zero_point.data.ndim) > 1:
        return "an operand has scales or zero points of blocks"
    zero_point = _one_of_equals(zero_point)
    vectors = [p for p in (scale, zero_point) if p.data.size != 1]
    return _Quantised(value, scale, zero_point, call.attrs.axis % given.rank if vectors and given.rank else None)


def _one_of_equals(parameter: Constant) -> Constant:
    """A scalar in the place of equal zero points, such as those of channels whose weights are symmetric.

    A zero point of 0 takes no sums of the other operand.
    """
    data = parameter.data
    if data.size < 2 or (data != data.flat[0]).any():
        return parameter
    return _constant(data.reshape(-1)[0], parameter)


def _multiplied(var: Var, call: Call, op: Op, data: _Quantised, weight: _Quantised) -> _Bindings | str:
    """The bindings of a product of integers, dequantised; the reason if the product stays in floats."""
    product = _PRODUCTS[op](call)
    if product is None:
        return "its data are transposed"
    if product.terms is None:
        return "the number of products in a sum is not known before the run"
    if product.terms > _MOST_TERMS:
        return f"a sum of {product.terms} products, more than {_MOST_TERMS}, might exceed an int32"
    if data.axis is not None:
        return "the data have a scale or a zero point for each channel"
    if weight.axis not in (None, product.channels):
        return "the weight has a scale or a zero point for each index of another axis than its output channels"
    scale = np.multiply(data.scale.data.reshape(()), weight.scale.data, dtype=np.float32)
    if not np.isfinite(scale).all():
        return "a scale is not finite"
    matrix: Expr = weight.value
    out: _Bindings = []
    if product.order is not None:
        transposed = matrix = Var(f"{var.name}_transposed", span=call.span)
        out.append((transposed, Call(get("transpose"), (weight.value,), TransposeAttrs(product.order), span=call.span)))
    sums = Var(f"{var.name}_sums", span=call.span)
    parameters = data.zero_point, weight.zero_point, data.scale, weight.scale
    out.append((sums, Call(get(product.op), (data.value, matrix, *parameters), product.attrs, span=call.span)))
    attrs = DequantizeAttrs(product.axis if scale.size > 1 else -1)
    whole = Call(_DEQUANTIZE, (sums, _constant(scale, call), _constant(np.zeros((), np.int32), call)), attrs, span=call.span)
    return [*out, (var, whole)]


def _constant(data: np.ndarray | np.generic, like: Call | Constant) -> Constant:
    array = np.array(data)
    array.setflags(write=False)
    return constant_like(array, like)


# ---- products ----------------------------------------------------------------------------------------------------------


def _convolution(call: Call) -> _Product | None:
    attrs, weight = call.attrs, tensor_type(call.args[1])
    channels = attrs.kernel_layout.find("O")
    sizes = [const(size) for axis, size in enumerate(weight.shape) if axis != channels]
    terms = None if None in sizes else math.prod(size for size in sizes if size is not None)
    layout = attrs.out_layout or attrs.data_layout
    own = QnnConv2dAttrs(**{**vars(attrs), "out_dtype": "int32"})
    return _Product("qnn.conv2d", own, channels, layout.find("C"), terms)


def _dense(call: Call) -> _Product | None:
    attrs, (_, inner) = call.attrs, tensor_type(call.args[1]).shape
    return _Product("qnn.dense", QnnDenseAttrs(attrs.units, "int32"), 0, tensor_type(call).rank - 1, const(inner))


def _matmul(call: Call) -> _Product | None:
    attrs, sizes = call.attrs, tensor_type(call.args[1]).shape
    if attrs.transpose_a:
        return None
    columns, order = (0, None) if attrs.transpose_b else (1, (1, 0))
    own = QnnDenseAttrs(attrs.units, "int32")
    return _Product("qnn.dense", own, columns, tensor_type(call).rank - 1, const(sizes[1 - columns]), order)


def _batches(call: Call) -> _Product | None:
    attrs, sizes = call.attrs, tensor_type(call.args[1]).shape
    if attrs.transpose_a:
        return None
    columns, order = (1, None) if attrs.transpose_b else (2, (0, 2, 1))
    return _Product("qnn.batch_matmul", QnnBatchMatmulAttrs("int32"), -1, 2, const(sizes[3 - columns]), order)


#: By a product of floats, the product of integers; None where there is none.
_PRODUCTS: dict[Op, Callable[[Call], _Product | None]] = {
    get("nn.conv2d"): _convolution,
    get("nn.dense"): _dense,
    get("nn.matmul"): _matmul,
    get("nn.batch_matmul"): _batches,
}
