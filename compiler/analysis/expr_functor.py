"""Visitors of users: a class with one method per kind of node, which a subclass overrides.

    class Counter(relay.ExprVisitor):
        def visit_call(self, call):
            super().visit_call(call)
            self.calls += 1

A deep program is visited on a thread whose stack is large enough; methods see the context variables of the caller.
"""

from __future__ import annotations

import contextvars
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ...ops.core.op import Op
from ...vm.diagnostics.argument_errors import wrong
from ..ir.expr import Call, Constant, Constructor, Expr, Function, GlobalVar, If, Let, Tuple, TupleGetItem, Var
from ..ir.match_expr import Clause, Match, PatternVar, RefCreate, RefRead, RefWrite, pattern_parts
from .variables import parts

_METHODS: dict[type, str] = {
    Call: "visit_call", Let: "visit_let", Var: "visit_var", Function: "visit_function", If: "visit_if", Tuple: "visit_tuple",
    TupleGetItem: "visit_tuple_getitem", Constant: "visit_constant", Op: "visit_op", GlobalVar: "visit_global_var",
    Constructor: "visit_constructor", Match: "visit_match", RefCreate: "visit_ref_create", RefRead: "visit_ref_read",
    RefWrite: "visit_ref_write",
}  # fmt: skip

#: The depth from which a program is visited on a thread of its own, and the Python frames and bytes of stack per level of depth.
DEEP, FRAMES, STACK = 100, 12, 8192
_MOST_STACK = 2**31


class ExprFunctor:
    """Dispatch of ``visit`` to a method per kind of node; each object is visited once (``memo_map``)."""

    def __init__(self) -> None:
        self.memo_map: dict[Any, Any] = {}
        self._visiting = False

    def visit(self, expr: Any) -> Any:
        """The result of the method for the node, computed at its first visit.  Raises NotImplementedError without a method."""
        if expr in self.memo_map:
            return self.memo_map[expr]
        if not self._visiting:
            return self._visit_first(expr)
        method = getattr(self, _METHODS[type(expr)], None)
        if method is None:
            raise NotImplementedError(f"{type(self).__name__} has no method {_METHODS[type(expr)]}")
        result = method(expr)
        self.memo_map[expr] = result
        return result

    def _visit_first(self, expr: Any) -> Any:
        if not isinstance(expr, (Expr, Op)):
            raise wrong(f"{type(self).__name__}.visit: the argument", "an expression", expr)
        self._visiting = True
        try:
            return _with_stack(depth(expr), lambda: self.visit(expr))
        finally:
            self._visiting = False


class ExprVisitor(ExprFunctor):
    """A visitor of every node; no method returns a value."""

    def visit_call(self, call: Any) -> Any:
        self._visit_parts(call)

    def visit_let(self, let: Any) -> Any:
        self._visit_parts(let)

    def visit_var(self, var: Any) -> Any:
        pass

    def visit_function(self, fn: Any) -> Any:
        self._visit_parts(fn)

    def visit_if(self, i: Any) -> Any:
        self._visit_parts(i)

    def visit_tuple(self, tup: Any) -> Any:
        self._visit_parts(tup)

    def visit_tuple_getitem(self, t: Any) -> Any:
        self._visit_parts(t)

    def visit_constant(self, const: Any) -> Any:
        pass

    def visit_op(self, op: Any) -> Any:
        pass

    def visit_global_var(self, gvar: Any) -> Any:
        pass

    def visit_constructor(self, con: Any) -> Any:
        pass

    def visit_match(self, m: Any) -> Any:
        self._visit_parts(m)

    def visit_ref_create(self, r: Any) -> Any:
        self._visit_parts(r)

    def visit_ref_read(self, r: Any) -> Any:
        self._visit_parts(r)

    def visit_ref_write(self, r: Any) -> Any:
        self._visit_parts(r)

    def _visit_parts(self, node: Expr) -> None:
        for part in parts(node):
            self.visit(part)


class ExprMutator(ExprFunctor):
    """A rewrite: each method returns the node that replaces its argument.  A node of which no part changes stays the same.

    A new node has no type: the passes of ``relay.transform`` infer it.
    """

    def visit_call(self, call: Any) -> Any:
        args = [self.visit(arg) for arg in call.args]
        return _changed(call, op=self.visit(call.op), args=tuple(args))

    def visit_let(self, let: Any) -> Any:
        var, value = self.visit(let.var), self.visit(let.value)
        return _changed(let, var=var, value=value, body=self.visit(let.body))

    def visit_var(self, var: Any) -> Any:
        return var

    def visit_function(self, fn: Any) -> Any:
        params = [self.visit(param) for param in fn.params]
        return _changed(fn, params=tuple(params), body=self.visit(fn.body))

    def visit_if(self, i: Any) -> Any:
        cond, true = self.visit(i.cond), self.visit(i.true_branch)
        return _changed(i, cond=cond, true_branch=true, false_branch=self.visit(i.false_branch))

    def visit_tuple(self, tup: Any) -> Any:
        fields = [self.visit(part) for part in tup.fields]
        return _changed(tup, fields=tuple(fields))

    def visit_tuple_getitem(self, t: Any) -> Any:
        return _changed(t, tuple_value=self.visit(t.tuple_value))

    def visit_constant(self, const: Any) -> Any:
        return const

    def visit_op(self, op: Any) -> Any:
        return op

    def visit_global_var(self, gvar: Any) -> Any:
        return gvar

    def visit_constructor(self, con: Any) -> Any:
        return con

    def visit_match(self, m: Any) -> Any:
        data = self.visit(m.data)
        clauses = tuple(_changed_clause(c, self.visit_pattern(c.lhs), self.visit(c.rhs)) for c in m.clauses)
        same = all(a is b for a, b in zip(clauses, m.clauses, strict=True))
        return _changed(m, data=data, clauses=m.clauses if same else clauses)

    def visit_pattern(self, p: Any) -> Any:
        """The pattern that replaces a clause's pattern; its variables are visited."""
        if isinstance(p, PatternVar):
            var = self.visit(p.var)
            return p if var is p.var else replace(p, var=var)
        old = pattern_parts(p)
        new = tuple(map(self.visit_pattern, old))
        return p if all(a is b for a, b in zip(new, old, strict=True)) else replace(p, patterns=new)

    def visit_ref_create(self, r: Any) -> Any:
        return _changed(r, value=self.visit(r.value))

    def visit_ref_read(self, r: Any) -> Any:
        return _changed(r, ref=self.visit(r.ref))

    def visit_ref_write(self, r: Any) -> Any:
        ref = self.visit(r.ref)
        return _changed(r, ref=ref, value=self.visit(r.value))


def _changed_clause(clause: Clause, lhs: Any, rhs: Any) -> Clause:
    return clause if lhs is clause.lhs and rhs is clause.rhs else Clause(lhs, rhs)


def _changed(node: Any, **new: Any) -> Any:
    """The node with new parts and without its type; the node itself if the parts are the same objects."""
    return node if all(_same(getattr(node, name), part) for name, part in new.items()) else replace(node, ty=None, **new)


def _same(a: Any, b: Any) -> bool:
    """Whether two parts, or tuples of parts, are the same objects."""
    if isinstance(a, tuple):
        return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))
    return a is b


def depth(expr: Expr | Op) -> int:
    """The length of the longest path from ``expr`` to a leaf."""
    deepest: dict[int, int] = {}
    stack: list[tuple[Expr | Op, bool]] = [(expr, False)]
    while stack:
        node, done = stack.pop()
        if done:
            deepest[id(node)] = 1 + max((deepest.get(id(part), 0) for part in parts(node)), default=0)
        elif id(node) not in deepest:
            deepest[id(node)] = 0
            stack.append((node, True))
            stack.extend((part, False) for part in parts(node))
    return deepest[id(expr)]


def _with_stack(levels: int, function: Callable[[], Any]) -> Any:
    """The result of a function that recurs through so many levels of a program."""
    if levels <= DEEP:
        return function()
    outcome: list[Any] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            outcome.append(context.run(function))
        except BaseException as error:
            errors.append(error)

    context = contextvars.copy_context()
    limit = sys.getrecursionlimit()
    before = threading.stack_size(min(_MOST_STACK, max(2**24, levels * STACK)))
    try:
        sys.setrecursionlimit(max(limit, 1000 + levels * FRAMES))
        worker = threading.Thread(target=work, name="relayvm visitor")
        worker.start()
        worker.join()
    finally:
        threading.stack_size(before)
        sys.setrecursionlimit(limit)
    if errors:
        raise errors[0]
    return outcome[0]
