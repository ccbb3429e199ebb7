"""Bind every intermediate value to a variable, in the innermost scope that contains all its uses.

    def @main(%x: float32) {          def @main(%x: float32) {
      %0 = exp(%x);                     let %exp = exp(%x);
      add(%0, tanh(%0))          ->     let %tanh = tanh(%exp);
    }                                   let %add = add(%exp, %tanh);
                                        %add
                                      }

Requires: any module.
Ensures: every function body and branch is a chain of lets that ends in an atom; the values are calls, tuples and projections of
atoms, ``if``, functions, or atoms (only in a let with an annotation).  A shared expression is bound once.  An expression that is
used in a single branch is evaluated in that branch only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ...ops.core.op import Op
from ..ir.anf import Names, is_atom
from ..ir.expr import (
    Call,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    IRModule,
    Let,
    Tuple,
    TupleGetItem,
    Var,
    make_lets,
    replace,
)
from ..ir.match_expr import Match, RefCreate, RefRead, RefWrite, with_results
from ..ir.pass_declaration import declare_pass
from ..ir.visitor import bound_vars, children, with_children


@declare_pass("ToANormalForm", makes_form=True)
def to_a_normal_form(mod: IRModule) -> IRModule:
    """The module in A-normal form; linear in its size, without recursion over the depth of its expressions."""
    return replace(mod, functions={name: with_atoms(f)[0] for name, f in mod.functions.items()})


def with_atoms(function: Function) -> tuple[Function, Mapping[Expr, Expr]]:
    """The function in A-normal form, and the atom of each of its expressions that has become the value of a binding.

    A let has the atom of its result; its variable has an atom if it is no variable of the A-normal form.
    """
    if function.is_primitive:
        return function, {}
    normalizer = _Normalizer(function)
    return normalizer.run(), normalizer.atom


@dataclass(eq=False)
class _Scope:
    """A function body or a branch, with its bindings."""

    parent: _Scope | None
    depth: int
    bindings: list[tuple[Var, Expr]]

    @staticmethod
    def inside(parent: _Scope | None) -> _Scope:
        return _Scope(parent, 0 if parent is None else parent.depth + 1, [])


class _Event(NamedTuple):
    """A step of the walk: all children of ``node`` are done, or (``binds``) the value of the let ``node`` is done."""

    node: Expr
    binds: bool


def _walk(root: Expr) -> list[_Event]:
    """The events of one depth-first walk: children before their parents, a let's value before its body."""
    events: list[_Event] = []
    seen: set[Expr] = set()
    stack: list[tuple[Expr, bool | None]] = [(root, None)]
    while stack:
        node, binds = stack.pop()
        if binds is not None:
            events.append(_Event(node, binds))
            continue
        if is_atom(node) or node in seen:
            continue
        seen.add(node)
        stack.append((node, False))
        if isinstance(node, Let):
            stack += [(node.body, None), (node, True), (node.value, None)]
        else:
            stack += [(p, None) for p in reversed(children(node))]
    return events


def _meet(a: _Scope, b: _Scope) -> _Scope:
    """The innermost scope that encloses both."""
    while a is not b:
        if a.depth < b.depth:
            a, b = b, a
        assert a.parent is not None
        a = a.parent
    return a


class _Normalizer:
    def __init__(self, function: Function) -> None:
        self.function = function
        self.events = _walk(function.body)
        self.scope: dict[Expr, _Scope] = {}  # the scope in which a node is evaluated
        self.inner: dict[Expr, list[_Scope]] = {}  # the scopes of a node's branches or body
        self.atom: dict[Expr, Expr] = {}  # the atom of a node's value
        self.lets: dict[Expr, Var] = {}  # the variable that a let binds to a node
        taken = {p.name for p in function.params}
        for node, binds in self.events:
            if binds:
                assert isinstance(node, Let)
                self.lets.setdefault(node.value, node.var)
                taken.add(node.var.name)
            else:
                taken.update(v.name for v in bound_vars(node))
        self.names = Names(taken)

    def run(self) -> Function:
        root = _Scope.inside(None)
        self._place(root)
        for node, binds in self.events:
            if binds:
                assert isinstance(node, Let)
                self._bind(node)
            else:
                self._emit(node)
        body = make_lets(root.bindings, self._atom(self.function.body))
        return replace(self.function, body=body)

    def _place(self, root: _Scope) -> None:
        """Determine the scope of each node; in the reversed events, users precede their operands."""
        if not is_atom(self.function.body):
            self.scope[self.function.body] = root
        for node, binds in reversed(self.events):
            if binds:
                continue
            here = self.scope[node]
            parts = children(node)
            scopes = [here] * len(parts)
            if isinstance(node, (If, Function, Match)):
                first = len(parts) - 1 if isinstance(node, Function) else 1
                scopes[first:] = [_Scope.inside(here) for _ in scopes[first:]]
                self.inner[node] = scopes[first:]
            for part, scope in zip(parts, scopes, strict=True):
                if not is_atom(part):
                    old = self.scope.get(part)
                    self.scope[part] = scope if old is None else _meet(old, scope)

    def _atom(self, expr: Expr) -> Expr:
        return self.atom.get(expr, expr)

    def _bind(self, let: Let) -> None:
        """Alias ``let %x = atom`` without an annotation: ``%x`` needs no binding."""
        value = self._atom(let.value)
        if value is let.var:
            return
        if let.var.annotation is None:
            self.atom[let.var] = value
        else:
            self.scope[let].bindings.append((let.var, value))

    def _emit(self, node: Expr) -> None:
        if isinstance(node, Let):
            self.atom[node] = self._atom(node.body)
            return
        value, hint = self._value(node)
        var = self.lets.get(node)
        if var is None:
            var = Var(self.names(hint), span=node.span)
        self.scope[node].bindings.append((var, value))
        self.atom[node] = var

    def _value(self, node: Expr) -> tuple[Expr, str]:
        """The node over atoms, and a hint for its variable's name."""
        match node:
            case Call():
                args = tuple(map(self._atom, node.args))
                if isinstance(node.op, Op):
                    return replace(node, args=args), node.op.name.rpartition(".")[2]
                op = self._atom(node.op)
                return replace(node, op=op, args=args), _hint(op)
            case Tuple():
                return replace(node, fields=tuple(map(self._atom, node.fields))), "tuple"
            case TupleGetItem():
                whole = self._atom(node.tuple_value)
                return replace(node, tuple_value=whole), f"{whole.name}_{node.index}" if isinstance(whole, Var) else "item"
            case If():
                then, other = (
                    make_lets(scope.bindings, self._atom(branch))
                    for scope, branch in zip(self.inner[node], (node.true_branch, node.false_branch), strict=True)
                )
                return replace(node, cond=self._atom(node.cond), true_branch=then, false_branch=other), "branch"
            case Match():
                results = [
                    make_lets(scope.bindings, self._atom(c.rhs)) for scope, c in zip(self.inner[node], node.clauses, strict=True)
                ]
                return replace(node, data=self._atom(node.data), clauses=with_results(node.clauses, results)), "match"
            case RefCreate() | RefRead() | RefWrite():
                return with_children(node, tuple(map(self._atom, children(node)))), "ref"
            case Function():
                (scope,) = self.inner[node]
                return replace(node, body=make_lets(scope.bindings, self._atom(node.body))), "fn"
        raise AssertionError(f"not an expression: {node!r}")


def _hint(callee: Expr) -> str:
    """The name of a call's variable."""
    return (
        callee.name.lower()
        if isinstance(callee, Constructor)
        else callee.name
        if isinstance(callee, (Var, GlobalVar))
        else "call"
    )
