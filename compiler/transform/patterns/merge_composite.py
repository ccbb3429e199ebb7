"""``MergeComposite``: the calls that a pattern matches as one call of a function with the attribute ``Composite``.

    nn.relu(nn.conv2d(%x, %w))    ->    %f = fn (%FunctionVar_0_0, %FunctionVar_0_1, Composite="conv_relu",
                                               PartitionedFromPattern="nn.conv2d_nn.relu_") {
                                          nn.relu(nn.conv2d(%FunctionVar_0_0, %FunctionVar_0_1))
                                        };
                                        %f(%x, %w)

Patterns are tried in the order of the table, each from the result of a function towards its parameters.  A call within the match
that is used elsewhere prevents it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....declarations.frozen_dataclass import frozen
from ....ops.core.op import Op
from ....vm.diagnostics.argument_errors import a_sequence, a_text, wrong
from ...ir.expr import Call, Constant, Expr, Function, IRModule, Tuple, TupleGetItem, Var, replace
from ...ir.visitor import children, uses, with_children
from ..inlining import graph_of
from .dataflow_pattern import CallPattern, ConstantPattern, DFPattern, ExprPattern, TupleGetItemPattern, TuplePattern
from .matching import Found, matched

#: The attribute of composite functions that names their operators.
_PARTITIONED = "PartitionedFromPattern"


@frozen
class CompositePattern:
    """A row of a pattern table: the attributes of the composite function, the pattern, and a check of what matches."""

    attrs: Mapping[str, Any]
    pattern: DFPattern
    check: Callable[[Expr], Any]


def pattern_table(given: Any) -> tuple[CompositePattern, ...]:
    """The rows of a table of ``(name, pattern)`` and ``(name, pattern, check)``.  Raises ArgumentError."""
    rows = []
    for row in a_sequence(given, "MergeComposite: the pattern table", '[("conv_relu", pattern), ...]'):
        parts = a_sequence(row, "MergeComposite: a row of the pattern table", '("conv_relu", pattern)')
        if len(parts) not in (2, 3) or not isinstance(parts[1], DFPattern) or not all(map(callable, parts[2:])):
            raise wrong("MergeComposite: a row of the pattern table", "a name, a pattern, and perhaps a check", row)
        attrs = {"Composite": a_text(parts[0], "MergeComposite: a name")}
        rows.append(CompositePattern(attrs, parts[1], *parts[2:] or (lambda expr: True,)))
    return tuple(rows)


def merge_composite(mod: IRModule, table: Sequence[CompositePattern]) -> IRModule:
    """The module with the calls that match as calls of composite functions; primitives stay."""
    functions = {}
    for name, f in mod.functions.items():
        graph = f if f.is_primitive else graph_of(f, mod)
        numbers = itertools.count()
        for row in table if not f.is_primitive else ():
            graph = merged(graph, row, numbers)
        functions[name] = graph
    return replace(mod, functions=functions)


def _outside_composites(function: Function) -> list[Expr]:
    """The expressions of a function in post-order, without those within composite functions."""
    order: list[Expr] = []
    seen: set[int] = set()
    stack: list[tuple[Expr, bool]] = [(function, False)]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            if not _is_composite(node):
                stack.extend((child, False) for child in reversed(children(node)))
    return order


@dataclass(eq=False)
class _Composite:
    """A match: the expressions that move into the function, parts first, and those that become its arguments."""

    inner: list[Expr]
    arguments: list[Expr]


def _is_composite(node: Expr) -> bool:
    return isinstance(node, Function) and ("Composite" in node.attrs or _PARTITIONED in node.attrs)


def merged(function: Function, row: CompositePattern, numbers: Iterator[int]) -> Function:
    """The function with the calls that a pattern matches as calls of functions; ``numbers``: one for each of them."""
    order = _outside_composites(function)
    position, count = {id(node): k for k, node in enumerate(order)}, uses(order)
    taken: set[int] = set()
    roots: dict[int, _Composite] = {}
    for node in reversed(order):
        found = matched(row.pattern, node) if not isinstance(node, Function) and id(node) not in taken else None
        composite = None if found is None else _composite(node, found, position, count)
        if composite is not None and taken.isdisjoint(map(id, composite.inner)) and row.check(node):
            taken.update(map(id, composite.inner))
            roots[id(node)] = composite
    new: dict[int, Expr] = {}
    for node in order:
        found_here = roots.get(id(node))
        if _is_composite(node):
            new[id(node)] = node
        elif found_here is None:
            new[id(node)] = with_children(node, tuple(new[id(child)] for child in children(node)))
        else:
            args = tuple(new[id(argument)] for argument in found_here.arguments)
            callee = _function(node, found_here, row.attrs, next(numbers))
            new[id(node)] = Call(callee, args, span=node.span, ty=node.ty)
    out = new[id(function)]
    assert isinstance(out, Function)
    return out


def _composite(root: Expr, found: Found, position: dict[int, int], count: dict[int, int]) -> _Composite | None:
    """The parts of a match; None if one of its inner values is used outside."""
    kept = (CallPattern, TuplePattern, TupleGetItemPattern)
    inside = {id(node): node for pattern, node in found.items() if isinstance(pattern, kept) and isinstance(node, Expr)}
    between = [node for nodes in found.values() if isinstance(nodes, tuple) for node in nodes]
    inside |= {id(node): node for node in between if isinstance(node, (Call, Tuple, TupleGetItem))}
    constants = {id(node) for pattern, node in found.items() if isinstance(pattern, (ConstantPattern, ExprPattern))}
    inner = sorted(inside.values(), key=lambda node: position[id(node)])
    if not inner:
        return None
    used = uses(inner)
    if any(node is not root and used.get(id(node), 0) != count[id(node)] for node in inner):
        return None
    arguments: dict[int, Expr] = {}
    for node in inner:
        for child in children(node):
            if id(child) not in inside and not (isinstance(child, Constant) and id(child) in constants):
                arguments[id(child)] = child
    return _Composite(inner, list(arguments.values()))


def _function(root: Expr, composite: _Composite, attrs: Mapping[str, Any], number: int) -> Function:
    params = [Var(f"FunctionVar_{number}_{k}", a.ty, span=a.span, ty=a.ty) for k, a in enumerate(composite.arguments)]
    new: dict[int, Expr] = {id(a): p for a, p in zip(composite.arguments, params, strict=True)}
    for node in composite.inner:
        new[id(node)] = with_children(node, tuple(new.get(id(child), child) for child in children(node)))
    noted = {**attrs, _PARTITIONED: "".join(map(_word, composite.inner))}
    return Function(tuple(params), new[id(root)], None, noted, span=root.span)


def _word(node: Expr) -> str:
    if isinstance(node, Call):
        return f"{node.op.name}_" if isinstance(node.op, Op) else "Call_"
    return f"TupleGetItem{node.index}_" if isinstance(node, TupleGetItem) else "Tuple_" if isinstance(node, Tuple) else "If_"
