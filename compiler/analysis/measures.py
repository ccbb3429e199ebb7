"""Counts over programs: ``relay.analysis.list_op_freqs``, ``count_layers``, ``get_total_mac_number`` and others."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from ...ops.core.op import Op
from ...ops.core.tensor_types import TensorType
from ...shape_funcs.symbolic.dim import const
from ...vm.diagnostics.argument_errors import a_sequence, wrong
from ...vm.diagnostics.python_source import here
from ...vm.diagnostics.source import ArgumentError
from ..ir.expr import Call, Constant, Expr, Function, If, IRModule, Let, Tuple, Var
from ..ir.match_expr import Match
from ..ir.visitor import LEAVES, children
from .variables import nodes


def list_op_freqs(mod: Expr | IRModule) -> dict[str, int]:
    """The number of calls of each operator.  Raises ArgumentError."""
    return dict(Counter(node.op.name for node in nodes(mod) if isinstance(node, Call) and isinstance(node.op, Op)))


def all_dtypes(expr: Expr | IRModule) -> set[str]:
    """The dtypes of the expressions whose types are known: constants, annotated variables, and all after ``InferType``."""
    found = set()
    for node in nodes(expr):
        ty = (node.ty or (node.annotation if isinstance(node, Var) else None)) if isinstance(node, Expr) else None
        if isinstance(ty, TensorType):
            found.add(ty.dtype)
        elif isinstance(node, Constant):
            found.add(node.data.dtype.name)
    return found


def check_constant(expr: Expr) -> bool:
    """Whether the expression is a constant, or a tuple of constants.  Raises ArgumentError."""
    return all(isinstance(node, (Constant, Tuple)) for node in nodes(expr))


def count_layers(expr: Expr | IRModule, valid_ops: Sequence[str]) -> int:
    """The number of calls of the operators ``valid_ops`` on the path with most of them.  Raises ArgumentError."""
    names = set(a_sequence(valid_ops, "count_layers: valid_ops", '["nn.conv2d", "nn.dense"]'))
    found = [node for node in nodes(expr) if isinstance(node, Expr)]
    values = {id(node.var): node.value for node in found if isinstance(node, Let)}
    depth: dict[int, int] = {}
    for node in found:
        if isinstance(node, Var):
            continue
        own = isinstance(node, Call) and isinstance(node.op, Op) and node.op.name in names
        # a bound variable is as deep as its value, which is listed before the body
        parts = [values.get(id(part), part) for part in children(node)]
        depth[id(node)] = own + max((depth.get(id(part), 0) for part in parts), default=0)
    return max(depth.values(), default=0)


def check_basic_block_normal_form(expr: Expr) -> bool:
    """Whether each expression, apart from variables, constants and names, is used in one block only.

    Blocks are the bodies of functions, the branches of conditions and the clauses of matches.  Raises ArgumentError.
    """
    nodes(expr)  # raises an error for another value
    block_of: dict[int, int] = {}
    stack: list[tuple[Expr, int]] = [(expr, 0)]
    blocks = 0
    while stack:
        node, block = stack.pop()
        if isinstance(node, LEAVES):
            continue
        if id(node) in block_of:
            if block_of[id(node)] != block:
                return False
            continue
        block_of[id(node)] = block
        for part in children(node):
            inner = block
            if isinstance(node, Function) or _is_branch(node, part):
                blocks += 1
                inner = blocks
            stack.append((part, inner))
    return True


def _is_branch(node: Expr, part: Expr) -> bool:
    return (isinstance(node, If) and part is not node.cond) or (isinstance(node, Match) and part is not node.data)


def extract_fused_functions(mod: IRModule) -> dict[str, Function]:
    """The primitives of a module after ``FuseOps``, by name.  Raises ArgumentError."""
    if not isinstance(mod, IRModule):
        raise wrong("extract_fused_functions: the module", "an IRModule", mod)
    return {name: f for name, f in mod.functions.items() if f.is_primitive}


# ---- multiplications -----------------------------------------------------------------------------------------------------


def get_total_mac_number(expr: Expr | IRModule) -> int:
    """The number of multiplications with an addition in convolutions and matrix products.

    The program is typed, with known sizes (see ``relay.transform.InferType``).  Raises ArgumentError.
    """
    calls = [node for node in nodes(expr) if isinstance(node, Call) and isinstance(node.op, Op)]
    return sum(_COUNTS[node.op.name](node) for node in calls if isinstance(node.op, Op) and node.op.name in _COUNTS)


def _convolution(call: Call) -> int:
    weight = _shape(call, call.args[1])
    outputs: int = weight[call.attrs.kernel_layout.index("O")]
    return math.prod(_shape(call, call)) * math.prod(weight) // max(outputs, 1)


def _transposed(call: Call) -> int:
    weight = _shape(call, call.args[1])
    inputs: int = weight[call.attrs.kernel_layout.index("I")]
    return math.prod(_shape(call, call.args[0])) * math.prod(weight) // max(inputs, 1)


def _product(call: Call) -> int:
    transposed = getattr(call.attrs, "transpose_a", False)
    return math.prod(_shape(call, call)) * _shape(call, call.args[0])[-2 if transposed else -1]


_COUNTS: dict[str, Callable[[Call], int]] = {
    **{f"nn.conv{rank}d": _convolution for rank in (1, 2, 3)},
    **{f"nn.conv{rank}d_transpose": _transposed for rank in (1, 2, 3)},
    **dict.fromkeys(("nn.dense", "nn.matmul", "nn.batch_matmul"), _product),
}


def _shape(call: Call, of: Expr) -> list[int]:
    ty: Any = of.ty or getattr(of, "annotation", None)
    if isinstance(of, Constant):
        return list(of.data.shape)
    if not isinstance(ty, TensorType):
        assert isinstance(call.op, Op)
        message = f"get_total_mac_number: {call.op.name} has no type yet"
        raise ArgumentError(message, here(), help="relay.transform.InferType()(mod) gives types")
    sizes = [const(d) for d in ty.shape]
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes):
        raise wrong("get_total_mac_number: the sizes of a tensor", "known", str(ty))
    return known
