"""Typing rules: one function's body, binding by binding."""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Any

from ...ops.core.op import Op
from ...ops.core.tensor_types import FuncType, TensorType, TupleType, Type, TypeTooLarge, scalar
from ...ops.defs.machine.adt_ops import RECORD_OPERATORS
from ...shape_funcs.symbolic.dim import ANY, Dim
from ...vm.diagnostics import codes
from ...vm.diagnostics.source import Diagnostic, Span
from ..ir.anf import free_vars, operands
from ..ir.expr import (
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    Tuple,
    TupleGetItem,
    Var,
    let_chain,
    make_lets,
    replace,
    type_of,
)
from ..rules.elements import ElementTable
from .adt_rules import AdtTyper
from .call_rules import Mistake, function_call, mark_of, mistake, operator_type, type_note
from .function_signature import BOTTOM, FAILED, Signature, closed_result, declare
from .shape_checks import enforce
from .type_match import Binder, TypeMismatch, generalize, join, symbols_of
from .value_names import shown_name


class FunctionTyper:
    """The typer of one global function and its inner functions.

    ``lookup``: the signature of a global function, or the diagnostic of an unknown name; ``errors`` collects diagnostics;
    ``typed``, if given, the typed variable of each variable, also of those that are out of scope.  ``follows_sizes``: whether
    sizes are known that a program takes from shapes and computes.  ``settled``: the values that keep their types where their
    operands do (see ``settled_values``).
    """

    def __init__(
        self, lookup: Callable[[GlobalVar], Signature | Diagnostic], errors: list[Diagnostic], adts: AdtTyper,
        typed: dict[Var, Var] | None = None, *, follows_sizes: bool = False, settled: Set[Expr] = frozenset(),
    ) -> None:  # fmt: skip
        self.lookup, self.errors, self.adts, self.typed, self.settled = lookup, errors, adts, typed, settled
        self.env: dict[Var, Var] = {}  # the typed variable of each variable
        self.selves: dict[Var, Var] = {}  # the typed variable of each recursive function, used in its body
        self.known: dict[Expr, Any] = {}  # the known values of variables: an array, or a tuple of arrays and Nones
        self.elements = ElementTable() if follows_sizes else None
        self.names: dict[str, Dim] = {}  # the symbol of each ?n in scope
        self.binder = Binder()  # the size and place of each symbol
        self.out: list[tuple[Var, Expr]] = []

    # ---- functions and chains ----------------------------------------------------------------------------------------

    def function(self, function: Function, signature: Signature) -> Function:
        """The typed function.  Its ``body.ty`` may be FAILED or BOTTOM."""
        outer = self.names, self.binder
        self.names = {**self.names, **signature.names}
        self.binder = Binder(dict(self.binder.sizes), dict(self.binder.positions))
        params = []
        for p, ty in zip(function.params, signature.params, strict=True):
            self.env[p] = _with_type(p, ty)
            params.append(self.env[p])
            if ty is not FAILED:
                self.binder.match(ty, ty, self.env[p])
        want = None if function.ret_type is None else signature.result
        body = self._chain(function.body, want, f"the result of {signature.name}")
        if self.typed is not None:
            self.typed.update(zip(function.params, params, strict=True))
        for p in function.params:
            self.env.pop(p, None)
        self.names, self.binder = outer
        assert body.ty is not None
        ty = replace(signature, result=body.ty).as_type()
        return replace(function, params=tuple(params), body=body, ty=ty)

    def _chain(self, chain: Expr, want: Type | None = None, what: str = "") -> Expr:
        """The typed chain; with ``want``, its result is checked against that type (``what`` names the result in messages)."""
        outer = self.out, self.names, self.binder
        self.out, self.names = [], dict(self.names)
        self.binder = Binder(dict(self.binder.sizes), dict(self.binder.positions))
        bindings, result = let_chain(chain)
        for i, (var, value) in enumerate(bindings):
            # an `if` in tail position passes the wanted type to its branches, so that tail calls remain tail calls
            tail = i == len(bindings) - 1 and var is result and var.annotation is None and isinstance(value, If)
            self._binding(var, value, want if tail else None, what)
        try:
            atom = self._atom(result)
            if want is not None:
                atom = self._serve(atom, want, what)
        except Mistake as error:
            self.errors.append(error.diagnostic)
            atom = replace(result, ty=FAILED)
        for var, _ in bindings:
            self.env.pop(var, None)  # out of scope after the chain
        typed = make_lets(self.out, atom)
        self.out, self.names, self.binder = outer
        return typed

    def _serve(self, atom: Expr, want: Type, what: str) -> Expr:
        """``atom`` as a result of type ``want``.  Raises Mistake."""
        if atom.ty in (FAILED, BOTTOM):
            return atom
        assert atom.ty is not None
        self.binder.checks = []
        try:
            ty = self.binder.match(atom.ty, want, atom)
        except TypeMismatch as mismatch:
            raise mistake(f"{what} must be {want}, not {atom.ty}: {mismatch}", atom.span) from None
        return enforce(self._emit, atom, ty, self.binder.checks, atom.span)

    # ---- bindings ----------------------------------------------------------------------------------------------------

    def _binding(self, var: Var, value: Expr, want: Type | None, what: str) -> None:
        try:
            typed = self._value(var, value, want, what)
        except Mistake as error:
            self.errors.append(error.diagnostic)
            typed = replace(value, ty=FAILED)
        except TypeTooLarge as error:
            self.errors.append(Diagnostic(str(error), value.span or var.span, help=error.help, code=codes.Type.SIZE))
            typed = replace(value, ty=FAILED)
        new = self.selves.pop(var) if var in self.selves else _with_type(var, typed.ty)
        if var.annotation is not None and typed.ty not in (FAILED, BOTTOM):
            new = self._annotated(new, typed)
        else:
            self._add(new, typed)
        self.env[var] = new
        if self.typed is not None:
            self.typed[var] = new

    def _annotated(self, var: Var, typed: Expr) -> Var:
        """Bind ``var`` to ``typed`` under its annotation, with the required checks."""
        assert var.annotation is not None and typed.ty is not None
        want = declare(var.annotation, self.names, (), lambda: ANY)
        self.binder.checks = []
        try:
            ty = self.binder.match(typed.ty, want, var)
        except TypeMismatch as mismatch:
            message = f"%{var.name} must be {var.annotation}, not {typed.ty}: {mismatch}"
            self.errors.append(Diagnostic(message, var.span or typed.span))
            ty, self.binder.checks = FAILED, []
        new = var if isinstance(ty, FuncType) else _with_type(var, ty)
        if self.binder.checks:
            raw = self._add(Var(f"{var.name}_unchecked", span=var.span, ty=typed.ty), typed)
            self._move(var, raw)
            enforce(self._emit, raw, ty, self.binder.checks, typed.span)
            # the variable is bound to the last check
            self.out[-1] = (new, self.out[-1][1])
            self._move(raw, new)
        else:
            self._add(new, typed)
            self._move(var, new)
        return new

    def _move(self, old: Var, new: Var) -> None:
        """Read the symbols first met in ``old`` from ``new``."""
        binder = self.binder
        binder.positions = {s: replace(p, atom=new) if p.atom is old else p for s, p in binder.positions.items()}
        binder.checks = [
            replace(d, like=replace(d.like, atom=new)) if d.like is not None and d.like.atom is old else d for d in binder.checks
        ]

    def _emit(self, hint: str, value: Expr) -> Var:
        return self._add(Var(hint, span=value.span, ty=value.ty), value)

    def _add(self, var: Var, value: Expr) -> Var:
        self.out.append((var, value))
        known = self._known(value)
        if known is not None:
            self.known[var] = known
        if self.elements is not None and value.ty is not FAILED and value.ty is not BOTTOM:
            self.elements.bind(var, value)
        return var

    def _known(self, value: Expr) -> Any:
        """The compile-time value of a typed expression: an array, or a tuple of arrays and Nones; None if unknown."""
        match value:
            case Constant():
                return value.data
            case Var():
                return self.known.get(value)
            case Tuple():
                parts = tuple(map(self._known, value.fields))
                return parts if any(p is not None for p in parts) else None
            case TupleGetItem():
                whole = self.known.get(value.tuple_value)
                # a nonexistent field is reported by the typing of the projection
                return None if whole is None or not 0 <= value.index < len(whole) else whole[value.index]
        return None

    # ---- values --------------------------------------------------------------------------------------------------------

    def _atom(self, atom: Expr) -> Expr:
        """The typed atom.  Raises Mistake."""
        match atom:
            case Var():
                if atom not in self.env:
                    raise mistake(f"there is no variable %{atom.name} here", atom.span, code=codes.Type.UNKNOWN)
                return self.env[atom]
            case Constant():
                if atom in self.settled:
                    return atom
                return replace(atom, ty=TensorType.of_array(atom.data))
            case GlobalVar():
                return replace(atom, ty=self._signature(atom).as_type())
        raise AssertionError(f"not in A-normal form: {type(atom).__name__}")

    def _signature(self, name: GlobalVar) -> Signature:
        found = self.lookup(name)
        if isinstance(found, Diagnostic):
            raise Mistake(found)
        return found

    def _keeps_type(self, value: Expr) -> bool:
        """Whether the type of a value is settled, and its operands are the same objects."""
        if value not in self.settled:
            return False
        return all((isinstance(a, Var) and self.env.get(a) is a) or a in self.settled for a in operands(value))

    def _value(self, var: Var, value: Expr, want: Type | None, what: str) -> Expr:
        if self._keeps_type(value):
            return value
        match value:
            case If():
                return self._if(value, want, what)
            case Function():
                return self._closure(var, value)
            case Call():
                return self._call(value)
            case Tuple():
                fields = tuple(map(self._atom, value.fields))
                return replace(value, fields=fields, ty=mark_of(fields) or TupleType(tuple(map(type_of, fields))))
            case TupleGetItem():
                return self._projection(value)
        return self._atom(value)

    def _call(self, call: Call) -> Expr:
        args = tuple(map(self._atom, call.args))
        if isinstance(call.op, Op):
            if call.op in RECORD_OPERATORS:
                mark = mark_of(args)
                return self.adts.call(call, args, self._emit) if mark is None else replace(call, args=args, ty=mark)
            named = [self._signature(a) for a in args[:1] if isinstance(a, GlobalVar)]
            signature = named[0] if named else None
            ty = mark_of(args) or operator_type(call, args, list(map(self._known, args)), signature, self.elements)
            return replace(call, args=args, ty=ty)
        callee = self._atom(call.op)
        signature = self._signature(callee) if isinstance(callee, GlobalVar) else None
        mark = mark_of(args) or (mark_of([callee]) if signature is None else None)
        if mark is not None:
            return replace(call, op=callee, args=args, ty=mark)
        return function_call(call, callee, args, self._emit, signature)

    def _projection(self, value: TupleGetItem) -> Expr:
        whole = self._atom(value.tuple_value)
        if whole.ty in (FAILED, BOTTOM):
            return replace(value, tuple_value=whole, ty=whole.ty)
        if not isinstance(whole.ty, TupleType):
            raise mistake(
                f"only a tuple has fields, and {shown_name(whole)} is {whole.ty}",
                value.span,
                type_note(whole),
                code=codes.Type.FIELD,
            )
        count = len(whole.ty.fields)
        if not 0 <= value.index < count:
            valid = f"its fields are .0 to .{count - 1}" if count else "it has no fields"
            raise mistake(
                f"{shown_name(whole)} has no field {value.index}", value.span, type_note(whole), help=valid, code=codes.Type.FIELD
            )
        return replace(value, tuple_value=whole, ty=whole.ty.fields[value.index])

    def _if(self, value: If, want: Type | None, what: str) -> Expr:
        try:
            cond = self._atom(value.cond)
            if value.constructor and cond.ty not in (FAILED, BOTTOM):
                self.adts.constructor(cond.ty, value.constructor, value)
            elif cond.ty not in (FAILED, BOTTOM, scalar("bool")):
                message = f"the condition of an if must be bool, not {cond.ty}"
                many = isinstance(cond.ty, TensorType) and cond.ty.rank > 0
                help = "an if decides on one element, a tensor of rank 0" if many else "compare it with something"
                raise mistake(message, value.span, type_note(cond), help=help, code=codes.Type.CONDITION)
        except Mistake as error:
            self.errors.append(error.diagnostic)
            cond = replace(value.cond, ty=FAILED)
        then, other = self._chain(value.true_branch, want, what), self._chain(value.false_branch, want, what)
        return replace(value, cond=cond, true_branch=then, false_branch=other, ty=_joined(value, then, other))

    def _closure(self, var: Var, function: Function) -> Expr:
        signature = Signature.declared(f"%{var.name}", function, self.errors.append, set(self.names))
        inside = free_vars(function)
        recursive = var in inside
        deferred: list[Diagnostic] = []
        if recursive and signature.result is BOTTOM:
            signature, deferred = self._settled(var, function, signature)
        if recursive:
            self.selves[var] = self.env[var] = replace(var, ty=signature.as_type())
        errors_before = len(self.errors)
        typed = self.function(function, signature)
        if len(self.errors) == errors_before:
            self.errors += deferred
        if recursive or not isinstance(typed.ty, FuncType):
            return replace(typed, ty=self.env[var].ty) if recursive else typed
        captured = symbols_of(*(type_of(self.env[v]) for v in inside if v in self.env))
        result = generalize(type_of(typed.body), captured | symbols_of(*signature.params))
        return replace(typed, ty=FuncType(signature.params, result))

    def _settled(self, var: Var, function: Function, signature: Signature) -> tuple[Signature, list[Diagnostic]]:
        """The signature of a recursive function without ``->``, by fixed-point iteration, and the errors that made its result
        FAILED.

        The typing that follows reports no error that depends on the result, because an expression with a FAILED operand fails
        without a message.
        """
        outer = self.errors
        while True:
            reported: list[Diagnostic] = []
            self.errors = reported
            self.env[var] = replace(var, ty=signature.as_type())
            body = self.function(function, signature).body
            assert body.ty is not None
            result = closed_result(body.ty, signature)
            settled = result == signature.result
            signature = replace(signature, result=result)
            if settled or result is FAILED:
                break
        self.errors = outer
        if result is BOTTOM:
            message = f"the result type of %{var.name} cannot be inferred: every path through it calls it again"
            raise mistake(
                message, function.span or var.span, help="annotate it: fn (...) -> T { ... }", code=codes.Type.ANNOTATION
            )
        return signature, reported if result is FAILED else []


def _with_type(var: Var, ty: Type | None) -> Var:
    """The variable with this type: the same object if it has it, so that the types of its users are settled."""
    return var if var.ty is ty or var.ty == ty else replace(var, ty=ty)


def _joined(value: If, then: Expr, other: Expr) -> Type:
    """The type of an ``if``.  Raises Mistake."""
    assert then.ty is not None and other.ty is not None
    if FAILED in (then.ty, other.ty):
        return FAILED
    if BOTTOM in (then.ty, other.ty):
        return other.ty if then.ty is BOTTOM else then.ty
    try:
        return join(then.ty, other.ty)
    except TypeMismatch as mismatch:
        notes = [(f"true branch: {then.ty}", _end(then)), (f"false branch: {other.ty}", _end(other))]
        raise mistake(
            f"the branches of this if have different types: {mismatch}", value.span, *notes, code=codes.Type.BRANCHES
        ) from None


def _end(chain: Expr) -> Span | None:
    return let_chain(chain)[1].span
