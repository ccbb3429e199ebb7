"""The matcher of patterns, and ``rewrite``: the replacement of expressions that match."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ....ops.core.op import Op, OpPattern
from ....ops.core.tensor_types import TensorType, Type
from ....vm.diagnostics.argument_errors import wrong
from ....vm.diagnostics.python_source import here
from ....vm.diagnostics.source import ArgumentError
from ...ir.expr import Call, Constant, Expr, Function, If, IRModule, Let, Tuple, TupleGetItem, Var
from ...ir.structural_equal import structural_equal
from ...ir.visitor import children, free_vars, post_order
from ...ir.visitor import rewrite as rewritten
from ..inlining import graph_of
from ..requirements import with_requirements
from .dataflow_pattern import (
    AltPattern,
    AttrPattern,
    CallPattern,
    ConstantPattern,
    DataTypePattern,
    DFPattern,
    DominatorPattern,
    ExprPattern,
    FunctionPattern,
    IfPattern,
    LetPattern,
    ShapePattern,
    TupleGetItemPattern,
    TuplePattern,
    TypePattern,
    VarPattern,
    WildcardPattern,
)

#: The expression, or operator, that each pattern matched; a tuple of expressions for the path of a dominator.
Found = dict[DFPattern, Any]
#: Operators whose two arguments match in either order.
_COMMUTATIVE = ("add", "multiply")
#: The bounds of a rewrite that ends: of its rounds, and of the growth of the expression.
_MOST_ROUNDS, _MOST_TIMES_LARGER, _SMALL = 100, 100, 10


def matched(pattern: DFPattern, expr: Expr | Op) -> Found | None:
    """The expressions that the patterns within ``pattern`` match, if it matches the expression.  Raises ArgumentError."""
    if not isinstance(expr, (Expr, Op)):
        raise wrong("match: the expression", "an expression", expr)
    return next(_matches(pattern, expr, {}), None)


def _match(self: DFPattern, expr: Expr | Op) -> bool:
    """Whether the pattern matches the expression, or the operator.  Raises ArgumentError."""
    return matched(self, expr) is not None


for _name, _method in (("match", _match),):  # declared in ``dataflow_pattern``
    setattr(DFPattern, _name, _method)


def _matches(pattern: DFPattern, node: Any, found: Found) -> Iterator[Found]:
    """Every way in which the pattern matches the node, beside those matches that are ``found`` already."""
    if pattern in found:
        if found[pattern] is node:
            yield found
        return
    for inner in _inner_matches(pattern, node, found):
        yield {**inner, pattern: node}


def _inner_matches(pattern: DFPattern, node: Any, found: Found) -> Iterator[Found]:
    match pattern:
        case WildcardPattern():
            fits = True
        case ExprPattern(expr=expr):
            fits = node is expr if isinstance(expr, Op) else isinstance(node, Expr) and structural_equal(node, expr)
        case VarPattern(name=name):
            fits = isinstance(node, Var) and name in ("", node.name)
        case ConstantPattern():
            fits = isinstance(node, Constant)
        case DominatorPattern():
            yield from _dominated(pattern, node, found)
            return
        case AltPattern(left=left, right=right):
            yield from _matches(left, node, found)
            yield from _matches(right, node, found)
            return
        case AttrPattern() | TypePattern() | DataTypePattern() | ShapePattern():
            if _has_property(pattern, node):
                yield from _matches(pattern.pattern, node, found)
            return
        case _:
            for parts in _parts(pattern, node):
                yield from _all(parts, found)
            return
    if fits:
        yield found


def _dominated(pattern: DominatorPattern, node: Any, found: Found) -> Iterator[Found]:
    """The ways in which a node and its arguments match; the pattern of the path has the tuple of its matches."""
    for inner in _matches(pattern.child, node, found):
        region = _region(pattern, node, inner)
        if region is not None:
            parent, between = region
            for whole in _matches(pattern.parent, parent, inner):
                yield {**whole, pattern.path: between}


def _region(pattern: DominatorPattern, child: Expr, found: Found) -> tuple[Expr, tuple[Expr, ...]] | None:
    """The parent, and the expressions between it and the child; None if an argument comes from elsewhere."""
    parents: dict[int, Expr] = {}
    between: dict[int, Expr] = {}
    pending = _arguments(child)
    while pending:
        part = pending.pop()
        if id(part) in parents or id(part) in between:
            continue
        if next(_matches(pattern.parent, part, found), None) is not None:
            parents[id(part)] = part
        elif next(_matches(pattern.path, part, {}), None) is not None:
            between[id(part)] = part
            pending += _arguments(part)
        else:
            return None
    return (next(iter(parents.values())), tuple(between.values())) if len(parents) == 1 else None


def _arguments(node: Expr) -> list[Expr]:
    """The parts of an expression without the callee."""
    return list(node.args if isinstance(node, Call) else children(node))


def _all(parts: Sequence[tuple[DFPattern, Any]], found: Found) -> Iterator[Found]:
    """The ways in which each pattern matches its node."""
    if not parts:
        yield found
        return
    for first in _matches(*parts[0], found):
        yield from _all(parts[1:], first)


def _parts(pattern: DFPattern, node: Any) -> Iterator[list[tuple[DFPattern, Any]]]:
    """The lists of patterns and nodes that must match for the pattern to match the node: any of the lists."""
    match pattern, node:
        case CallPattern(op=op, args=None), Call():
            yield [(op, node.op)]
        case CallPattern(op=op, args=tuple(args)), Call() if len(args) == len(node.args):
            yield [(op, node.op), *zip(args, node.args, strict=True)]
            if len(args) == 2 and isinstance(node.op, Op) and node.op.name in _COMMUTATIVE:
                yield [(op, node.op), *zip(args, node.args[::-1], strict=True)]
        case TuplePattern(fields=None), Tuple():
            yield []
        case TuplePattern(fields=tuple(fields)), Tuple() if len(fields) == len(node.fields):
            yield list(zip(fields, node.fields, strict=True))
        case TupleGetItemPattern(tuple_value=value, index=index), TupleGetItem() if index in (None, node.index):
            yield [(value, node.tuple_value)]
        case IfPattern(cond=cond, true_branch=true, false_branch=false), If():
            yield [(cond, node.cond), (true, node.true_branch), (false, node.false_branch)]
        case LetPattern(var=var, value=value, body=body), Let():
            yield [(var, node.var), (value, node.value), (body, node.body)]
        case FunctionPattern(params=None, body=body), Function():
            yield [(body, node.body)]
        case FunctionPattern(params=tuple(params), body=body), Function() if len(params) == len(node.params):
            yield [*zip(params, node.params, strict=True), (body, node.body)]


def _has_property(pattern: DFPattern, node: Any) -> bool:
    if isinstance(pattern, AttrPattern):
        return all(_attribute(node, name) == _plain(value) for name, value in pattern.attrs.items())
    ty = _type(node)
    if isinstance(pattern, TypePattern):
        return ty is not None and str(ty) == str(pattern.type)
    if not isinstance(ty, TensorType):
        return False
    if isinstance(pattern, DataTypePattern):
        return ty.dtype == pattern.dtype
    assert isinstance(pattern, ShapePattern)
    return tuple(map(str, ty.shape)) == pattern.shape


_ABSENT = object()
#: Relay's numbers of the patterns of operators, where they are other than opaque.
_RELAY_PATTERNS = {
    **{each: each for each in (OpPattern.ELEMWISE, OpPattern.BROADCAST, OpPattern.INJECTIVE, OpPattern.COMM_REDUCE)},
    OpPattern.RESHAPE: OpPattern.INJECTIVE,
}


def _attribute(node: Any, name: str) -> Any:
    """An attribute of a call, a function or an operator, with a list for a tuple."""
    if isinstance(node, Function):
        return node.attrs.get(name, _ABSENT)
    if isinstance(node, Op):
        return _RELAY_PATTERNS.get(node.pattern, OpPattern.OPAQUE) if name == "TOpPattern" else _ABSENT
    value = getattr(node.attrs, name, _ABSENT) if isinstance(node, Call) else _ABSENT
    return _plain(value)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _type(node: Any) -> Type | None:
    if isinstance(node, Constant):
        return TensorType.of(node.data.shape, node.data.dtype.name)
    if isinstance(node, Var):
        return node.ty or node.annotation
    return node.ty if isinstance(node, Expr) else None


# ---- rewriting -----------------------------------------------------------------------------------------------------------


class DFPatternCallback:
    """A rewrite: a subclass sets ``self.pattern`` and gives the replacement of an expression that matches.

    ``require_type``: types are inferred before the match.  ``rewrite_once``: the expressions are matched once only.
    """

    pattern: DFPattern

    def __init__(self, require_type: bool = False, rewrite_once: bool = False) -> None:
        self.require_type, self.rewrite_once = require_type, rewrite_once

    def callback(self, pre: Expr, post: Expr, node_map: dict[DFPattern, list[Any]]) -> Expr:
        """The replacement of ``post``, an expression with rewritten parts; ``node_map``: the match of each pattern.

        ``pre`` is ``post`` too: patterns see rewritten parts.
        """
        raise NotImplementedError

    def rewrite(self, expr: Expr) -> Expr:
        """The expression with every match replaced, until none is left.  Raises ArgumentError."""
        return rewrite(self, expr)


def rewrite(callbacks: DFPatternCallback | Sequence[DFPatternCallback], expr: Expr, mod: IRModule | None = None) -> Expr:
    """The expression with every match of a callback's pattern replaced, parts first, until none is left.

    ``mod``: the module with the functions that the expression calls, for type inference.
    Raises ArgumentError, also for a rewrite that does not end.
    """
    given = tuple(callbacks) if isinstance(callbacks, (list, tuple)) else (callbacks,)
    for callback in given:
        if not isinstance(callback, DFPatternCallback) or not isinstance(getattr(callback, "pattern", None), DFPattern):
            raise wrong("rewrite: a callback", "a DFPatternCallback with a pattern", callback)
    if not isinstance(expr, Expr):
        raise wrong("rewrite: the expression", "an expression", expr)
    active, most = list(given), _MOST_TIMES_LARGER * (len(post_order(expr)) + _SMALL)
    for _ in range(_MOST_ROUNDS):
        before = expr
        for callback in active:
            expr = _once(callback, _typed(expr, mod) if callback.require_type else expr)
        active = [callback for callback in active if not callback.rewrite_once]
        if not active or structural_equal(before, expr):
            return expr
        if len(post_order(expr)) > most:
            break
    message = "rewrite: the replacements match the pattern again and again"
    raise ArgumentError(message, here(), help="the replacement must not match the pattern, or rewrite_once=True")


def _once(callback: DFPatternCallback, expr: Expr) -> Expr:
    def visit(post: Expr) -> Expr:
        found = matched(callback.pattern, post)
        if found is None:
            return post
        new = callback.callback(
            post, post, {pattern: list(each) if isinstance(each, tuple) else [each] for pattern, each in found.items()}
        )
        if not isinstance(new, Expr):
            raise wrong("rewrite: the result of the callback", "an expression", new)
        return new

    return rewritten(expr, visit)


def _typed(expr: Expr, mod: IRModule | None) -> Expr:
    """The expression with types, as a graph."""
    is_function = isinstance(expr, Function)
    main = expr if is_function else Function(tuple(free_vars(expr)), expr)
    assert isinstance(main, Function)
    others = {} if mod is None else {name: f for name, f in mod.functions.items() if name != "main"}
    whole = IRModule({**others, "main": main}, None, {} if mod is None else mod.type_definitions)
    typed = with_requirements(whole, ("InferType",))
    graph = graph_of(typed["main"], typed)
    return graph if is_function else graph.body
