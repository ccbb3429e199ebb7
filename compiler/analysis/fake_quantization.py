"""Fake-quantized operators: operators of floats between ``qnn.dequantize`` and ``qnn.quantize``."""

from __future__ import annotations

from collections import Counter

from ...ops.core.op import Op
from ...vm.diagnostics.argument_errors import wrong
from ..ir.expr import Call, Constant, Expr, IRModule, Let, Tuple, TupleGetItem
from ..ir.visitor import children
from .variables import nodes

QUANTIZE, DEQUANTIZE = "qnn.quantize", "qnn.dequantize"
#: Operators whose result has only elements of the data, or the zero of the dtype's order.
MOVES = frozenset({
    "reshape", "squeeze", "expand_dims", "transpose", "strided_slice", "nn.batch_flatten", "nn.max_pool2d", "nn.max_pool1d",
    "nn.max_pool3d", "reverse", "tile", "repeat", "layout_transform", "copy", "max", "min", "split", "nn.depth_to_space",
    "nn.space_to_depth",
})  # fmt: skip


def is_call_of(node: Expr, name: str) -> bool:
    """Whether the expression is a call of the operator."""
    return isinstance(node, Call) and isinstance(node.op, Op) and node.op.name == name


def fake_quantized_region(quantize: Expr, values: dict[int, Expr]) -> list[Expr]:
    """The expressions whose values reach the data of a ``qnn.quantize`` from ``qnn.dequantize``, users before their parts.

    ``values``: the values of variables that lets bind, by the variable.  The region is empty if it has another source than
    dequantized tensors and constants.
    """
    assert isinstance(quantize, Call)
    found: dict[int, Expr] = {}
    pending = [quantize.args[0]]
    sources = 0
    while pending:
        node = pending.pop()
        node = values.get(id(node), node)
        if id(node) in found or isinstance(node, Constant):
            continue
        if is_call_of(node, DEQUANTIZE):
            sources += 1
            continue
        if not (isinstance(node, (Tuple, TupleGetItem)) or (isinstance(node, Call) and isinstance(node.op, Op))):
            return []
        found[id(node)] = node
        pending += children(node)
    return list(found.values()) if sources else []


def let_values(expr: Expr | IRModule) -> dict[int, Expr]:
    """The values that lets bind, by the id of the variable; a variable stands for the end of a chain of variables."""
    bound = {id(node.var): node.value for node in nodes(expr) if isinstance(node, Let)}
    for var in bound:
        while id(bound[var]) in bound:
            bound[var] = bound[id(bound[var])]
    return bound


def list_fake_quantized_op_freqs(mod: Expr | IRModule) -> dict[str, int]:
    """The number of calls of each fake-quantized operator.  Raises ArgumentError."""
    if not isinstance(mod, (Expr, IRModule)):
        raise wrong("list_fake_quantized_op_freqs: the module", "an IRModule", mod)
    values = let_values(mod)
    regions = [
        fake_quantized_region(node, values) for node in nodes(mod) if isinstance(node, Expr) and is_call_of(node, QUANTIZE)
    ]
    calls = {id(node): node for region in regions for node in region if isinstance(node, Call) and isinstance(node.op, Op)}
    return dict(Counter(call.op.name for call in calls.values() if isinstance(call.op, Op)))
