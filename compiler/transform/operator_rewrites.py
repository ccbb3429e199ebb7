"""Passes of Relay's that replace calls of operators one by one: ``FastMath``, ``CanonicalizeOps`` and others.

The compiler does not run them by itself: they change rounding, or only the form of a program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...ops.core.op import Op, get
from ...ops.core.tensor_types import TensorType, is_float
from ..ir.expr import Call, Constant, Expr, Function, IRModule, map_functions, replace
from ..ir.visitor import children, post_order, uses, with_children
from ..passes.beta_reduction import rewritten_function

#: ``call -> replacement``, or None: the call stays.  The replacement has the type of the call.
Rule = Callable[[Call, Op], "Expr | None"]


def rewritten_calls(mod: IRModule, rule: Rule) -> IRModule:
    """The module with ``rule`` applied to each call of an operator, arguments first.  Primitives stay."""

    def visit(node: Expr) -> Expr:
        found = rule(node, node.op) if isinstance(node, Call) and isinstance(node.op, Op) else None
        return node if found is None else replace(found, ty=node.ty, span=node.span)

    return map_functions(mod, lambda f: rewritten_function(f, visit))


_FAST = {"exp": "fast_exp", "erf": "fast_erf", "tanh": "fast_tanh", "nn.softmax": "nn.fast_softmax"}


def fast_math(mod: IRModule) -> IRModule:
    """``exp``, ``erf``, ``tanh`` and ``nn.softmax`` as their fast approximations."""

    def rule(call: Call, op: Op) -> Expr | None:
        return Call(get(_FAST[op.name]), call.args, call.attrs) if op.name in _FAST else None

    return rewritten_calls(mod, rule)


def div_to_mul(mod: IRModule) -> IRModule:
    """Divisions by constants of floats as multiplications by their reciprocals."""
    multiply = get("multiply")

    def rule(call: Call, op: Op) -> Expr | None:
        divisor = call.args[1] if op.name == "divide" else None
        if not isinstance(divisor, Constant) or not is_float(divisor.data.dtype.name) or not divisor.data.all():
            return None
        reciprocal = np.asarray(np.reciprocal(divisor.data), divisor.data.dtype)
        reciprocal.setflags(write=False)
        return Call(multiply, (call.args[0], Constant(reciprocal, ty=divisor.ty, span=divisor.span)), multiply.attrs())

    return rewritten_calls(mod, rule)


def canonicalize_ops(mod: IRModule) -> IRModule:
    """``nn.bias_add`` as an addition of the bias with axes of size 1 behind its own."""
    expand, add = get("expand_dims"), get("add")

    def rule(call: Call, op: Op) -> Expr | None:
        data = call.args[0].ty if op.name == "nn.bias_add" else None
        if not isinstance(data, TensorType):
            return None
        after = data.rank - 1 - call.attrs.axis % data.rank
        bias = Call(expand, (call.args[1],), expand.attrs(1, after), span=call.span) if after else call.args[1]
        return Call(add, (call.args[0], bias), add.attrs())

    return rewritten_calls(mod, rule)


def fold_explicit_padding(mod: IRModule) -> IRModule:
    """Zeros of ``nn.pad`` before a convolution as the padding of the convolution."""

    def rule(call: Call, op: Op) -> Expr | None:
        pad = call.args[0] if op.name in ("nn.conv1d", "nn.conv2d", "nn.conv3d") else None
        if not _pads_with_zeros(pad):
            return None
        assert isinstance(pad, Call)
        layout = call.attrs.data_layout
        widths = dict(zip(layout, pad.attrs.pad_width, strict=True))
        if any(widths[letter] != (0, 0) for letter in "NC"):
            return None
        spatial = [widths[letter] for letter in layout if letter not in "NC"]
        before, after = _sides(call.attrs.padding, len(spatial))
        padding = [b + w for b, (w, _) in zip(before, spatial, strict=True)]
        padding += [a + w for a, (_, w) in zip(after, spatial, strict=True)]
        return Call(op, (pad.args[0], call.args[1]), replace(call.attrs, padding=tuple(padding)))

    return rewritten_calls(mod, rule)


def flatten_atrous_conv(mod: IRModule) -> IRModule:
    """``nn.batch_to_space_nd`` of a convolution of ``nn.space_to_batch_nd`` as a convolution with dilation."""

    def rule(call: Call, op: Op) -> Expr | None:
        conv = _argument(call, "nn.conv2d") if op.name == "nn.batch_to_space_nd" else None
        blocks = _argument(conv, "nn.space_to_batch_nd") if conv is not None else None
        if conv is None or blocks is None or not _is_plain(conv.attrs) or blocks.attrs.pad_value != 0:
            return None
        shape, pads, crops = blocks.attrs.block_shape, blocks.attrs.paddings, call.attrs.crops
        if shape != call.attrs.block_shape or len(shape) != 2:
            return None
        # cropping the first results is padding less before the data
        padding = [pad[side] - crop[side] for side in (0, 1) for pad, crop in zip(pads, crops, strict=True)]
        if min(padding) < 0:
            return None
        attrs = replace(conv.attrs, dilation=shape, padding=tuple(padding))
        return Call(conv.op, (blocks.args[0], conv.args[1]), attrs)

    return rewritten_calls(mod, rule)


def _argument(call: Call, name: str) -> Call | None:
    """The first argument if it is a call of the operator ``name``."""
    first = call.args[0]
    return first if isinstance(first, Call) and isinstance(first.op, Op) and first.op.name == name else None


def _is_plain(attrs: Any) -> bool:
    """Whether a convolution has its channels last and neither strides, dilation nor padding."""
    steps = {n for value in (attrs.strides, attrs.dilation) for n in (value if isinstance(value, tuple) else (value,))}
    padding = attrs.padding if isinstance(attrs.padding, tuple) else (attrs.padding,)
    return attrs.data_layout == "NHWC" and attrs.out_layout in ("", "NHWC") and steps == {1} and not any(padding)


def canonicalize_cast(mod: IRModule) -> IRModule:
    """A cast of its own for each use of a cast, so that each fuses with its user."""
    return map_functions(mod, _with_own_casts)


def _with_own_casts(function: Function) -> Function:
    count = uses(post_order(function))
    shared = {id(n) for n in post_order(function) if isinstance(n, Call) and n.op is get("cast") and count.get(id(n), 0) > 1}
    new: dict[int, Expr] = {}
    for node in post_order(function):
        parts = [replace(new[id(part)]) if id(part) in shared else new[id(part)] for part in children(node)]
        new[id(node)] = with_children(node, tuple(parts))
    out = new[id(function)]
    assert isinstance(out, Function)
    return out


def _pads_with_zeros(pad: Expr | None) -> bool:
    if not (isinstance(pad, Call) and isinstance(pad.op, Op) and pad.op.name == "nn.pad" and pad.attrs.pad_mode == "constant"):
        return False
    if any(width < 0 for pair in pad.attrs.pad_width for width in pair):
        return False
    value = pad.args[1]
    return isinstance(value, Constant) and not value.data.any()


def _sides(padding: int | tuple[int, ...], rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The padding before each axis, and after it."""
    numbers = (padding,) if isinstance(padding, int) else tuple(padding)
    numbers *= 2 * rank // len(numbers)
    return numbers[:rank], numbers[rank:]
