"""``SimplifyFCTranspose``: products with a transposed weight as products with another parameter, the transposed weight itself.

def @main(%x, %w) {                                      def @main(%x, %w.T) {
  nn.dense(%x, transpose(%w, axes=[1, 0]))      ->         nn.dense(%x, %w.T)
}                                                        }
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...ops.core.op import Op
from ...ops.core.tensor_types import TensorType
from ...vm.diagnostics.argument_errors import a_mapping, a_sequence, a_text, wrong
from ...vm.diagnostics.python_source import here
from ...vm.diagnostics.source import ArgumentError
from ..ir.call_graph import mentioned
from ..ir.expr import Call, Expr, Function, IRModule, Var, replace
from ..ir.visitor import children, post_order
from ..passes.beta_reduction import rewritten_function


def search_fc_transpose(expr: Expr) -> list[str]:
    """The names of the variables that the expression uses only as ``nn.dense(x, transpose(w, [1, 0]))``, sorted.

    Raises ArgumentError.
    """
    if not isinstance(expr, Expr):
        raise wrong("search_fc_transpose: the argument", "an expression", expr)
    return sorted({weight.name for weight in _transposed_weights(expr)})


def _transposed_weights(expr: Expr) -> set[Var]:
    """The variables whose every use is a transpose of both axes, of which every use is the weight of an ``nn.dense``."""
    found: set[Expr] = set()
    others: set[Expr] = set()
    nodes = post_order(expr)
    transposes = {id(node): node.args[0] for node in nodes if isinstance(node, Call) and _is_transpose(node)}
    for node in nodes:
        for position, part in enumerate(children(node)):
            weight = transposes.get(id(part))
            if weight is None:
                if isinstance(part, Var) and id(node) not in transposes:
                    others.add(part)
            elif isinstance(node, Call) and isinstance(node.op, Op) and node.op.name == "nn.dense" and position == 1:
                found.add(weight)
            else:
                others.add(weight)
    if id(expr) in transposes:
        others.add(transposes[id(expr)])
    return {weight for weight in found - others if isinstance(weight, Var)}


def _is_transpose(node: Expr) -> bool:
    if not (isinstance(node, Call) and isinstance(node.op, Op) and node.op.name == "transpose" and isinstance(node.args[0], Var)):
        return False
    axes = node.attrs.axes
    # a weight of nn.dense has two axes
    return not axes or tuple(axis % 2 for axis in axes) == (1, 0)


def checked_weights(target_weights: Any) -> frozenset[str]:
    """Names of weights.  Raises ArgumentError."""
    given = a_sequence(target_weights, "SimplifyFCTranspose: the weights", "relay.analysis.search_fc_transpose(function)")
    return frozenset(a_text(name, "SimplifyFCTranspose: a weight") for name in given)


def simplify_fc_transpose(mod: IRModule, names: frozenset[str]) -> IRModule:
    """The module with a parameter ``w.T`` in the place of each ``w`` of these names that ``search_fc_transpose`` finds.

    Functions that the program itself calls keep their parameters.
    """
    called = {name for f in mod.functions.values() for name in mentioned(f.body)}
    functions = {n: f if f.is_primitive or n in called else _simplified(f, names) for n, f in mod.functions.items()}
    return replace(mod, functions=functions)


def _simplified(function: Function, names: frozenset[str]) -> Function:
    weights = [w for w in function.params if w.name in names]
    wanted = _transposed_weights(function.body)
    new = {id(w): Var(f"{w.name}.T", _transposed(w), span=w.span) for w in weights if w in wanted}

    def visit(node: Expr) -> Expr:
        transposed = new.get(id(node.args[0])) if _is_transpose(node) and isinstance(node, Call) else None
        return node if transposed is None else transposed

    out = rewritten_function(function, visit)
    return replace(out, params=tuple(new.get(id(p), p) for p in function.params), ty=None) if new else function


def _transposed(weight: Var) -> TensorType | None:
    ty = weight.annotation
    return replace(ty, shape=tuple(reversed(ty.shape))) if isinstance(ty, TensorType) else None


def convert(func: Function, params: Mapping[str, Any]) -> tuple[Function, dict[str, np.ndarray]]:
    """The function after ``SimplifyFCTranspose``, and the weights ``params`` by name with those that it takes transposed.

    A weight ``w`` that is used only transposed is the array ``w.T`` of the result.  Raises ArgumentError.
    """
    if not isinstance(func, Function):
        raise wrong("simplify_fc_transpose.convert: the function", "a relay.Function", func)
    given = a_mapping(params, "simplify_fc_transpose.convert: the params")
    names = frozenset(search_fc_transpose(func.body)) & set(given) & {p.name for p in func.params}
    new = simplify_fc_transpose(IRModule({"main": func}), names)["main"]
    out: dict[str, np.ndarray] = {}
    for name, value in given.items():
        array = np.asarray(value)
        if name in names and array.ndim != 2:
            message = f"simplify_fc_transpose.convert: the weight {name} of nn.dense must have two axes, not {array.ndim}"
            raise ArgumentError(message, here())
        out[f"{name}.T" if name in names else name] = np.ascontiguousarray(array.T) if name in names else array
    return new, out
