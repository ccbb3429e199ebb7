"""The evaluator of programs as they are written: the meaning of each kind of expression, without passes and types.

A value is a numpy array, a tuple, an ADT, a ``Closure`` or Constructor, or a ``RefValue``.  Arguments are evaluated from left to
right, before their call; of an ``if`` or ``match`` only the branch taken.  An expression that occurs several times is evaluated
once (see ``sharing``).  The values of variables are checked against their annotations.  Depth uses heap memory; a call in tail
position uses none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...declarations.frozen_dataclass import frozen
from ...ops.core.op import Op
from ...ops.native.status import NO_MATCH, STATUS
from ...vm.diagnostics import codes
from ...vm.diagnostics.codes import Code
from ...vm.diagnostics.source import Span, TypeCheckError, VMError
from ...vm.values.adt import ADT
from ..ir.expr import (
    Call,
    Constant,
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
)
from ..ir.match_expr import Match, Pattern, PatternConstructor, PatternTuple, PatternVar, RefCreate, RefRead, RefWrite
from ..ir.visitor import Steps, run
from .debug_annotations import AnnotationChecker
from .debug_arguments import arguments
from .debug_values import RefValue
from .operator_calls import call_operator, kind_of
from .sharing import Sharing, sharing_of


class _Frame:
    """An activation of a function: the values of its variables and shared expressions; ``outer``: the frame of its definition."""

    __slots__ = ("outer", "sharing", "values")

    def __init__(self, sharing: Sharing, outer: _Frame | None) -> None:
        self.sharing, self.outer = sharing, outer
        self.values: dict[Expr, Any] = {}

    def holds(self, expr: Expr) -> _Frame | None:
        """The innermost frame with a value of ``expr``."""
        frame: _Frame | None = self
        while frame is not None and expr not in frame.values:
            frame = frame.outer
        return frame


@frozen(eq=False)
class Closure:
    """A function value: the function and the frame of its definition.  Python may call it."""

    function: Function
    frame: _Frame
    evaluator: Evaluator
    name: str = "fn"

    def __call__(self, *args: Any, **named: Any) -> Any:
        """The result for Python's values.  Raises InputError for arguments that do not fit, and as the program."""
        mod = self.evaluator.mod
        return self.evaluator.call(self, arguments(mod, self.name, self.function, args, named), None)


class Evaluator:
    """The evaluator of a module."""

    def __init__(self, mod: IRModule) -> None:
        self.mod, self.annotations = mod, AnnotationChecker(mod)
        self._globals: dict[str, Closure] = {}

    def function(self, name: str, span: Span | None = None) -> Closure:
        """The function of a name.  Raises TypeCheckError for an unknown name."""
        if name not in self._globals:
            function = self.mod.functions.get(name)
            if function is None:
                raise TypeCheckError(f"there is no function @{name}", span, code=codes.Type.UNKNOWN)
            self._globals[name] = Closure(function, _Frame(sharing_of(function), None), self, name)
        return self._globals[name]

    def call(self, callee: Any, args: Sequence[Any], span: Span | None) -> Any:
        """The result of a function value.  Raises TypeCheckError for a value that does not fit its use, VMError for failures."""
        if isinstance(callee, Constructor):
            return _made(callee, args, span)
        due: _Due = {}
        function, frame = _entered(callee, args, span, due)
        return self._checked(run(self._steps(function.body, frame)), due)

    # ---- expressions ---------------------------------------------------------------------------------------------------

    def _steps(self, expr: Expr, frame: _Frame) -> Steps[Any]:
        """The value of an expression, checked against the result types of the functions that it calls in tail position."""
        due: _Due = {}
        value = yield from self._reduced(expr, frame, due)
        return self._checked(value, due)

    def _checked(self, value: Any, due: _Due) -> Any:
        for function, sizes, span in due.values():
            assert function.ret_type is not None
            self.annotations.check_result(value, function.ret_type, sizes, span)
        return value

    def _reduced(self, expr: Expr, frame: _Frame, due: _Due) -> Steps[Any]:
        """The value of an expression.  What follows in tail position is evaluated by the same generator."""
        first = True
        while True:
            known = frame.holds(expr) if expr in frame.sharing.shared or isinstance(expr, Var) else None
            if known is not None:
                return known.values[expr]
            if expr in frame.sharing.shared and not first:
                return (yield self._shared(expr, frame))
            first = False
            match expr:
                case Let():
                    value = yield self._operand(expr.value, frame)
                    self.annotations.check([(expr.var, value)], expr.span)
                    frame.values[expr.var] = value
                    expr = expr.body
                case If():
                    taken = _condition((yield self._operand(expr.cond, frame)), expr)
                    yield from self._hoist(expr, frame)
                    expr = expr.true_branch if taken else expr.false_branch
                case Match():
                    data = yield self._operand(expr.data, frame)
                    yield from self._hoist(expr, frame)
                    expr = self._clause(expr, data, frame.values)
                case Call(op=Op() as op):
                    args = yield from self._each(expr.args, frame)
                    return call_operator(expr, op, args)
                case Call(op=Expr() as called):
                    callee = yield self._operand(called, frame)
                    args = yield from self._each(expr.args, frame)
                    if isinstance(callee, Constructor):
                        return _made(callee, args, expr.span)
                    function, frame = _entered(callee, args, expr.span, due)
                    expr = function.body
                case _:
                    return (yield from self._simple(expr, frame))

    def _operand(self, expr: Expr, frame: _Frame) -> Steps[Any]:
        return self._shared(expr, frame) if expr in frame.sharing.shared else self._steps(expr, frame)

    def _shared(self, expr: Expr, frame: _Frame) -> Steps[Any]:
        """The value of a shared expression, kept in the frame."""
        known = frame.holds(expr)
        if known is None:
            frame.values[expr] = yield self._steps(expr, frame)
            known = frame
        return known.values[expr]

    def _hoist(self, expr: Expr, frame: _Frame) -> Steps[None]:
        """Evaluate the shared expressions that ``expr`` and what follows it use."""
        for each in frame.sharing.hoisted.get(expr, ()):
            yield self._shared(each, frame)

    def _each(self, exprs: Sequence[Expr], frame: _Frame) -> Steps[list[Any]]:
        values = []
        for each in exprs:
            values.append((yield self._operand(each, frame)))
        return values

    def _simple(self, expr: Expr, frame: _Frame) -> Steps[Any]:
        """The value of an expression without a tail position."""
        match expr:
            case Constant():
                return expr.data
            case GlobalVar():
                return self.function(expr.name, expr.span)
            case Constructor():
                return expr
            case Var():
                help = "bind it by a let or a parameter around its use"
                raise TypeCheckError(f"%{expr.name} is not bound", expr.span, help=help, code=codes.Type.UNKNOWN)
            case Function():
                yield from self._hoist(expr, frame)
                return Closure(expr, frame, self)
            case Tuple():
                return tuple((yield from self._each(expr.fields, frame)))
            case TupleGetItem():
                return _field((yield self._operand(expr.tuple_value, frame)), expr)
            case RefCreate():
                return RefValue((yield self._operand(expr.value, frame)))
            case RefRead():
                return _reference((yield self._operand(expr.ref, frame)), expr).value
            case RefWrite():
                reference = _reference((yield self._operand(expr.ref, frame)), expr)
                reference.value = yield self._operand(expr.value, frame)
                return ()
        raise AssertionError(f"not an expression: {expr!r}")

    def _clause(self, match: Match, data: Any, values: dict[Expr, Any]) -> Expr:
        """The right side of the first clause that applies, with its variables in ``values``."""
        for clause in match.clauses:
            bound = _bindings(clause.lhs, data)
            if bound is not None:
                self.annotations.check(bound.items(), match.span)
                values |= dict(bound.items())
                return clause.rhs
        raise VMError(STATUS[NO_MATCH], match.span, code=codes.of_status(NO_MATCH))


#: The functions whose results are to be checked, each once for the same sizes, with the sizes that its arguments name.
_Due = dict[Any, tuple[Function, dict[str, int], "Span | None"]]


def _entered(callee: Any, args: Sequence[Any], span: Span | None, due: _Due) -> tuple[Function, _Frame]:
    """The function of a call and its new frame; its result is ``due`` to be checked."""
    if not isinstance(callee, Closure):
        raise _misuse(f"only a function is called, not {kind_of(callee)}", span, codes.Type.NOT_A_FUNCTION)
    function = callee.function
    if len(args) != len(function.params):
        message = f"the function takes {len(function.params)} arguments, {len(args)} given"
        raise _misuse(message, span, codes.Type.ARITY)
    sizes = callee.evaluator.annotations.check(zip(function.params, args, strict=True), span)
    if function.ret_type is not None:
        due.setdefault((function, tuple(sizes.items())), (function, sizes, span))
    frame = _Frame(callee.frame.sharing, callee.frame)
    frame.values.update(zip(function.params, args, strict=True))
    return function, frame


def _made(constructor: Constructor, args: Sequence[Any], span: Span | None) -> ADT:
    if len(args) != len(constructor.inputs):
        message = f"{constructor.name_hint} takes {len(constructor.inputs)} arguments, {len(args)} given"
        raise _misuse(message, span, codes.Type.ARITY)
    return ADT(constructor.name_hint, args, constructor.tag)


def _condition(value: Any, expr: If) -> bool:
    if not isinstance(value, np.ndarray) or value.dtype != np.bool_ or value.ndim:
        raise _misuse(f"the condition of an if is a bool, not {kind_of(value)}", expr.cond.span, codes.Type.CONDITION)
    return bool(value)


def _field(value: Any, expr: TupleGetItem) -> Any:
    if not isinstance(value, tuple) or not 0 <= expr.index < len(value):
        raise _misuse(f"there is no field {expr.index} in {kind_of(value)}", expr.span, codes.Type.FIELD)
    return value[expr.index]


def _reference(value: Any, expr: Expr) -> RefValue:
    if not isinstance(value, RefValue):
        raise _misuse(f"only a reference is read and written, not {kind_of(value)}", expr.span, codes.Type.MISMATCH)
    return value


def _bindings(pattern: Pattern, data: Any) -> Mapping[Var, Any] | None:
    """The variables that a pattern binds; None if it does not match."""
    bound: dict[Var, Any] = {}
    todo = [(pattern, data)]
    while todo:
        pattern, value = todo.pop()
        match pattern:
            case PatternVar():
                bound[pattern.var] = value
            case PatternConstructor():
                if not isinstance(value, ADT):
                    raise _misuse(f"a pattern of a constructor does not fit {kind_of(value)}", pattern.span, codes.Type.MATCH)
                if value.constructor != pattern.constructor.name_hint:
                    return None
                todo += _parts(pattern, pattern.patterns, value.fields)
            case PatternTuple():
                if not isinstance(value, tuple):
                    raise _misuse(f"a pattern of a tuple does not fit {kind_of(value)}", pattern.span, codes.Type.MATCH)
                todo += _parts(pattern, pattern.patterns, value)
    return bound


def _parts(pattern: Pattern, patterns: Sequence[Pattern], values: Sequence[Any]) -> list[tuple[Pattern, Any]]:
    if len(patterns) != len(values):
        raise _misuse(f"a pattern of {len(patterns)} fields does not fit {len(values)}", pattern.span, codes.Type.MATCH)
    return list(zip(patterns, values, strict=True))


def _misuse(message: str, span: Span | None, code: Code) -> TypeCheckError:
    return TypeCheckError(message, span, code=code)
