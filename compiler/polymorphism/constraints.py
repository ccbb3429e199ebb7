"""Inference of the unknown types of one function by unification: type arguments, and parameters of inner functions.

The walk over the function's A-normal form unifies what must be equal.  The type of an operator's call is computed once the types
of its arguments are known, so the calls are visited again until nothing changes.  A contradiction is no error here: the type
rules report it, for the program with the types found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from ...declarations.frozen_dataclass import frozen
from ...ops.core.adt_types import TypeVar
from ...ops.core.op import Op, OpPattern, TypeRelError
from ...ops.core.tensor_types import TensorType, TupleType, Type, TypeTooLarge
from ...ops.core.type_relation import relate
from ...shape_funcs.symbolic.dim import ANY, fresh
from ..ir.expr import (
    Call,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Tuple,
    TupleGetItem,
    TypeData,
    Var,
    let_chain,
)
from ..ir.match_expr import Match, Pattern, PatternConstructor, PatternTuple, PatternVar, RefCreate, RefRead, RefWrite
from ..type_inference.type_match import map_dims
from .unification import (
    Compound,
    Mismatch,
    ParameterTerm,
    Term,
    Unknown,
    adt_term,
    function_term,
    reference_term,
    term_of,
    tuple_term,
    type_of_term,
    unify,
)


class Program(Protocol):
    """The module around a function."""

    def function(self, name: str) -> Function | None:
        """The global function of a name, if there is one."""

    def definition(self, name: str) -> TypeData | None:
        """The type definition of a name, if there is one."""

    def result_of(self, name: str, type_args: tuple[Type, ...], params: tuple[Type, ...]) -> Type | None:
        """The result type of a function without ``->`` for arguments of these types; None if it cannot be inferred."""

    def parameter_types(self, name: str) -> Sequence[Type | None]:
        """The types of a global function's parameters, declared or as its body determines them, over its type parameters."""


@frozen
class Need:
    """An expression that needs the types of some of its atoms; ``result``: the term of its value."""

    value: Expr
    atoms: Sequence[Expr]
    terms: Sequence[Term]
    result: Term


class TypeSolver:
    """The types of one function's values.  ``mapping``: the types of the type parameters in scope."""

    def __init__(self, program: Program, mapping: Mapping[TypeVar, Type]) -> None:
        self.program = program
        self.mapping: dict[TypeVar, Term] = {v: term_of(t, {}) for v, t in mapping.items()}
        self.vars: dict[Var, Term] = {}
        #: The terms of the expressions whose types the rewriting of the function needs: matches, constructors' calls, functions.
        self.terms: dict[Expr, Term] = {}
        #: Per use of a global function the terms of its type arguments.
        self.instances: dict[Expr, list[Term]] = {}
        #: Per use of a global function the terms of its parameters.
        self.parameters: dict[GlobalVar, list[Term]] = {}
        self.needs: list[Need] = []
        #: Whether the program contradicts itself, or uses an unknown name: then types may be open for that reason.
        self.is_wrong = False
        #: Steps that could not be finished: each returns whether it changed anything, or None once it is done.
        self._waiting: list[Callable[[], bool | None]] = []
        self._known: dict[Var, Constant] = {}

    def parameter_types(self, function: Function) -> list[Type | None]:
        """The types of a function's parameters as far as its body determines them, over its type parameters."""
        self.mapping |= {v: ParameterTerm(var=v) for v in function.type_params}
        self.solve(function)
        return [self.type_of(self.vars[p]) for p in function.params]

    def solve(self, function: Function, params: Sequence[Type] = ()) -> Type | None:
        """Infer the types of a function; its result type, if known.  ``params``: the types of the arguments, if known."""
        result = self._function(function)
        for p, ty in zip(function.params, params, strict=False):
            self._same(self.vars[p], term_of(ty, {}))
        self.settle()
        return type_of_term(result)

    def take(self, param: Var, ty: Type) -> None:
        """Let a parameter have the type of an argument, too."""
        self._same(self.vars[param], term_of(ty, {}))
        self.settle()

    def settle(self) -> None:
        """Finish the steps that wait for types, as far as possible."""
        changed = True
        while changed:
            changed = False
            waiting, self._waiting = self._waiting, []
            for step in waiting:
                outcome = step()
                changed |= bool(outcome) or outcome is None
                if outcome is not None:
                    self._waiting.append(step)

    def type_of(self, term: Term) -> Type | None:
        """The type of a term, if known."""
        try:
            return type_of_term(term)
        except TypeTooLarge:
            return None

    # ---- functions and chains ----------------------------------------------------------------------------------------

    def _declared(self, ty: Type | None) -> Term:
        return Unknown() if ty is None else term_of(ty, self.mapping)

    def _function(self, function: Function) -> Term:
        """The term of a function's result; its parameters are in ``vars``."""
        for v in function.type_params:
            self.mapping.setdefault(v, Unknown())
        for p in function.params:
            self.vars[p] = self._declared(p.annotation)
        result = self._declared(function.ret_type)
        self._same(result, self._chain(function.body))
        return result

    def _chain(self, chain: Expr) -> Term:
        bindings, result = let_chain(chain)
        for var, value in bindings:
            self.vars[var] = self._declared(var.annotation)
            self._same(self.vars[var], self._value(var, value))
            if isinstance(value, Constant):
                self._known[var] = value
        return self._atom(result)

    def _atom(self, atom: Expr) -> Term:
        match atom:
            case Var():
                self.is_wrong |= atom not in self.vars  # an unbound variable is reported by the type rules
                return self.vars.setdefault(atom, Unknown())
            case Constant():
                return term_of(TensorType.of(atom.data.shape, atom.data.dtype.name), {})
            case GlobalVar():
                return self._global(atom)
            case Constructor():
                return self._constructor(atom)
        raise AssertionError(f"not in A-normal form: {type(atom).__name__}")

    def _same(self, a: Term, b: Term) -> bool:
        try:
            return unify(a, b)
        except Mismatch:
            self.is_wrong = True
            return False

    def _global(self, name: GlobalVar, type_args: Sequence[Type] = ()) -> Term:
        """The type of a use of a global function, with type arguments of its own."""
        function = self.program.function(name.name)
        if function is None:
            self.is_wrong = True
            return Unknown()
        mapping: dict[TypeVar, Term] = {v: Unknown() for v in function.type_params}
        for v, ty in zip(function.type_params, type_args, strict=False):
            self._same(mapping[v], self._declared(ty))
        terms = self.instances[name] = list(mapping.values())
        params = [Unknown() if ty is None else term_of(ty, mapping) for ty in self.program.parameter_types(name.name)]
        self.parameters[name] = params
        if function.ret_type is not None:
            return function_term(params, term_of(function.ret_type, mapping))
        result = Unknown()
        seen: list[object] = []
        self._waiting.append(lambda: self._result(name.name, terms, params, result, seen))
        self.needs.append(Need(name, (), (), result))
        return function_term(params, result)

    def _result(
        self, name: str, type_args: Sequence[Term], params: Sequence[Term], result: Term, seen: list[object]
    ) -> bool | None:
        """Infer the result of a function without ``->`` from the types of its arguments, again when these have changed."""
        known = [self.type_of(t) for t in (*type_args, *params)]
        given = tuple(t for t in known if t is not None)
        if len(given) < len(known) or (seen and seen[0] == given):
            return False
        seen[:] = [given]
        ty = self.program.result_of(name, given[: len(type_args)], given[len(type_args) :])
        return False if ty is None else self._same(result, term_of(ty, {}))

    def _constructor(self, constructor: Constructor) -> Term:
        """The type of a constructor as a function."""
        data = self.program.definition(constructor.belong_to.name)
        mapping: dict[TypeVar, Term] = {v: Unknown() for v in data.type_vars} if data else {}
        adt = adt_term(constructor.belong_to.name, list(mapping.values()))
        term = function_term([term_of(t, mapping) for t in constructor.inputs], adt)
        self.terms[constructor] = term
        return term

    # ---- values --------------------------------------------------------------------------------------------------------

    def _value(self, var: Var, value: Expr) -> Term:
        match value:
            case If():
                cond = self._atom(value.cond)
                then = self._chain(value.true_branch)
                self.needs.append(Need(value, (value.cond,), (cond,), then))
                self._same(then, self._chain(value.false_branch))
                return then
            case Function():
                return self._inner(var, value)
            case Call():
                return self._call(value)
            case Tuple():
                return tuple_term([self._atom(f) for f in value.fields])
            case TupleGetItem():
                whole, field = self._atom(value.tuple_value), Unknown()
                self._waiting.append(lambda: self._project(whole, value.index, field))
                self.needs.append(Need(value, (value.tuple_value,), (whole,), field))
                return field
            case Match():
                return self._match(value)
            case RefCreate():
                return reference_term(self._atom(value.value))
            case RefRead():
                held = Unknown()
                self._same(self._atom(value.ref), reference_term(held))
                return held
            case RefWrite():
                self._same(self._atom(value.ref), reference_term(self._atom(value.value)))
                return tuple_term([])
        return self._atom(value)

    def _inner(self, var: Var, function: Function) -> Term:
        """An inner function, which may call itself by the name of its variable."""
        params = [Unknown() for _ in function.params]
        result = Unknown()
        self._same(self.vars[var], function_term([*params], result))
        found = self._function(function)
        for p, term in zip(function.params, params, strict=True):
            self._same(term, self.vars[p])
        self._same(result, found)
        return function_term([*params], result)

    def _call(self, call: Call) -> Term:
        args = [self._atom(a) for a in call.args]
        result = Unknown()
        if isinstance(call.op, Op):
            if call.op.pattern is not OpPattern.MACHINE:
                seen: list[object] = []
                self._waiting.append(lambda: self._relate(call, args, result, seen))
                self.needs.append(Need(call, call.args, args, result))
            elif args:
                self._same(result, args[0])  # a check, or a mark of a device
            return result
        callee = self._global(call.op, call.type_args) if isinstance(call.op, GlobalVar) else self._atom(call.op)
        self._same(callee, function_term(args, result))
        return result

    def _relate(self, call: Call, args: Sequence[Term], result: Term, seen: list[object]) -> bool:
        """Compute the type of an operator's call from the types of its arguments, again when these have changed."""
        known = [self.type_of(a) for a in args]
        types = [t for t in known if t is not None]
        if len(types) < len(known) or (seen and seen[0] == types):
            return False
        seen[:] = [types]
        assert isinstance(call.op, Op)
        try:
            ty = relate(call.op, [_with_sizes(t) for t in types], call.attrs, [self._data(a) for a in call.args])[0]
        except TypeRelError:
            return False
        self._same(result, term_of(ty, {}))
        return True

    def _data(self, atom: Expr) -> object:
        """The value of a constant argument, else None."""
        found = self._known.get(atom) if isinstance(atom, Var) else atom
        return found.data if isinstance(found, Constant) else None

    def _project(self, whole: Term, index: int, field: Term) -> bool | None:
        known = whole.root()
        if not isinstance(known, Compound) or known.head != ("tuple",) or index >= len(known.parts):
            return False
        self._same(field, known.parts[index])
        return None

    # ---- matches -------------------------------------------------------------------------------------------------------

    def _match(self, match: Match) -> Term:
        data, result = self._atom(match.data), Unknown()
        for clause in match.clauses:
            self._same(data, self._pattern(clause.lhs))
            self._same(result, self._chain(clause.rhs))
        self.terms[match] = result
        return result

    def _pattern(self, pattern: Pattern) -> Term:
        match pattern:
            case PatternVar():
                self.vars[pattern.var] = self._declared(pattern.var.annotation)
                return self.vars[pattern.var]
            case PatternTuple():
                return tuple_term([self._pattern(p) for p in pattern.patterns])
            case PatternConstructor():
                result = Unknown()
                fields = [self._pattern(p) for p in pattern.patterns]
                self._same(self._constructor(pattern.constructor), function_term(fields, result))
                return result
        return Unknown()


def _with_sizes(ty: Type) -> Type:
    """The type of a value: each ``?`` is a size of its own."""
    return map_dims(ty, lambda d: fresh() if d is ANY else d) if isinstance(ty, (TensorType, TupleType)) else ty
