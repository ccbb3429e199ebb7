"""Traversal of A-normal form: the operands and inner chains of a binding's value, and its reconstruction.

The value of a binding is a call, tuple or projection of *atoms*, an ``if`` whose branches are chains, a function whose
body is a chain, or an atom.  Chains are walked in loops; only the nesting of branches and functions recurses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from ...ops.core.op import Op
from ...ops.core.tensor_types import Type
from .expr import (
    Call,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Tuple,
    TupleGetItem,
    Var,
    let_chain,
    make_lets,
    replace,
)
from .match_expr import Match, RefCreate, RefRead, RefWrite, with_results
from .visitor import bound_vars, children, with_children


def is_atom(expr: Expr) -> bool:
    """Whether ``expr`` is a variable, a constant, a global name or a constructor."""
    return isinstance(expr, (Var, Constant, GlobalVar, Constructor))


def operands(value: Expr) -> tuple[Expr, ...]:
    """The atoms that ``value`` itself uses, without its inner chains; the callee of a call comes first."""
    match value:
        case Call():
            return value.args if isinstance(value.op, Op) else (value.op, *value.args)
        case Tuple():
            return value.fields
        case TupleGetItem():
            return (value.tuple_value,)
        case If():
            return (value.cond,)
        case Function():
            return ()
        case Match():
            return (value.data,)
        case RefCreate() | RefRead() | RefWrite():
            return children(value)
    return (value,)


def inner_chains(value: Expr) -> tuple[Expr, ...]:
    """The chains inside ``value``: branches, or the body of a function."""
    match value:
        case If():
            return (value.true_branch, value.false_branch)
        case Function():
            return (value.body,)
        case Match():
            return tuple(c.rhs for c in value.clauses)
    return ()


def rebuild(value: Expr, atom: Callable[[Expr], Expr], chain: Callable[[Expr], Expr]) -> Expr:
    """``value`` with ``atom`` applied to its operands and ``chain`` to its inner chains; the same object if none changed."""
    match value:
        case Call():
            op = value.op if isinstance(value.op, Op) else atom(value.op)
            args = tuple(map(atom, value.args))
            return value if op is value.op and _same(args, value.args) else replace(value, op=op, args=args)
        case Tuple():
            items = tuple(map(atom, value.fields))
            return value if _same(items, value.fields) else replace(value, fields=items)
        case TupleGetItem():
            whole = atom(value.tuple_value)
            return value if whole is value.tuple_value else replace(value, tuple_value=whole)
        case If():
            cond, then, other = atom(value.cond), chain(value.true_branch), chain(value.false_branch)
            if cond is value.cond and then is value.true_branch and other is value.false_branch:
                return value
            return replace(value, cond=cond, true_branch=then, false_branch=other)
        case Function():
            body = chain(value.body)
            return value if body is value.body else replace(value, body=body)
        case Match():
            data, results = atom(value.data), tuple(chain(c.rhs) for c in value.clauses)
            if data is value.data and all(r is c.rhs for r, c in zip(results, value.clauses, strict=True)):
                return value
            return replace(value, data=data, clauses=with_results(value.clauses, results))
        case RefCreate() | RefRead() | RefWrite():
            return with_children(value, tuple(map(atom, children(value))))
    return atom(value)


def _same(a: tuple[Expr, ...], b: tuple[Expr, ...]) -> bool:
    return all(x is y for x, y in zip(a, b, strict=True))


def rebuild_lets(chain: Expr, bindings: list[tuple[Var, Expr]], result: Expr) -> Expr:
    """``make_lets(bindings, result)``, or ``chain`` itself if it is equal."""
    old, end = let_chain(chain)
    same = end is result and len(old) == len(bindings)
    if same and all(v is w and x is y for (v, x), (w, y) in zip(old, bindings, strict=True)):
        return chain
    return make_lets(bindings, result)


def nested_bindings(chain: Expr) -> Iterator[tuple[Var, Expr]]:
    """The bindings of a chain and of the chains inside it."""
    pending = [chain]
    while pending:
        expr = pending.pop()
        while isinstance(expr, Let):
            yield expr.var, expr.value
            pending.extend(inner_chains(expr.value))
            expr = expr.body


def with_annotations(function: Function, annotations: Sequence[Type | None], ret_type: Type | None) -> Function:
    """A copy of the function with parameters of these types, without other types."""
    params = tuple(replace(p, annotation=t, ty=None) for p, t in zip(function.params, annotations, strict=True))
    new: Mapping[Expr, Expr] = dict(zip(function.params, params, strict=True))

    def atom(a: Expr) -> Expr:
        return new.get(a, a)

    def chain(c: Expr) -> Expr:
        bindings, result = let_chain(c)
        return rebuild_lets(c, [(var, rebuild(value, atom, chain)) for var, value in bindings], atom(result))

    return replace(function, params=params, body=chain(function.body), ret_type=ret_type, ty=None)


def values(chain: Expr) -> Iterator[Expr]:
    """Every binding's value in ``chain`` and in the chains inside it, outermost first."""
    return (value for _, value in nested_bindings(chain))


def uses(chain: Expr) -> Iterator[Expr]:
    """Every atom used in ``chain`` and the chains inside it, once per use; results of chains count."""
    pending = [chain]
    while pending:
        expr = pending.pop()
        while isinstance(expr, Let):
            yield from operands(expr.value)
            pending.extend(inner_chains(expr.value))
            expr = expr.body
        yield expr


def free_vars(function: Function) -> list[Var]:
    """The free variables of ``function``, in order of first use."""
    bound = set(function.params)
    pending: list[Expr] = [function.body]
    used: dict[Var, None] = {}
    while pending:
        expr = pending.pop()
        while isinstance(expr, Let):
            bound.add(expr.var)
            used.update((a, None) for a in operands(expr.value) if isinstance(a, Var))
            pending.extend(inner_chains(expr.value))
            bound.update(bound_vars(expr.value))
            expr = expr.body
        if isinstance(expr, Var):
            used[expr] = None
    return [v for v in used if v not in bound]


def deepest(function: Function) -> tuple[int, Expr | None]:
    """The nesting depth of branches and functions in ``function``, and the innermost value with a chain."""
    depth, innermost = 0, None
    pending: list[tuple[Expr, int]] = [(function.body, 0)]
    while pending:
        expr, level = pending.pop()
        while isinstance(expr, Let):
            for chain in inner_chains(expr.value):
                pending.append((chain, level + 1))
                if level + 1 > depth:
                    depth, innermost = level + 1, expr.value
            expr = expr.body
    return depth, innermost


class Names:
    """Unique names: ``add``, ``add1``, ``add2`` ..."""

    def __init__(self, taken: set[str] | None = None) -> None:
        self._taken = set(taken or ())
        self._next: dict[str, int] = {}

    def __call__(self, hint: str) -> str:
        """``hint``, or ``hint`` with the first free number."""
        name, number = hint, self._next.get(hint, 0)
        while name in self._taken:
            number += 1
            name = f"{hint}{number}"
        self._next[hint] = number
        self._taken.add(name)
        return name
