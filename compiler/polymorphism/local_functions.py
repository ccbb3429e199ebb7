"""Give each use of an inner polymorphic function a copy of its own, so that every copy has one type.

    let %f = fn [A](%x: A) -> A { %x };        let %f = fn [A](%x: A) -> A { %x };
    (%f(1), %f(2f))                       ->   let %f1 = fn [A](%x: A) -> A { %x };
                                               (%f(1), %f1(2f))

A recursive function uses itself at the type of its copy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...ops.core.adt_types import TypeVar, substitute_types
from ...ops.core.tensor_types import Type
from ..ir.anf import rebuild, rebuild_lets
from ..ir.expr import Expr, Function, Var, let_chain, make_lets, replace
from ..ir.match_expr import Clause, Match, Pattern, PatternConstructor, PatternTuple, PatternVar

_Env = dict[Expr, Expr]


def copy_per_use(chain: Expr) -> Expr:
    """The chain, in A-normal form, with a copy of each inner polymorphic function for every use."""
    bindings, result = let_chain(chain)
    done = [(var, rebuild(value, lambda atom: atom, copy_per_use)) for var, value in bindings]
    # from the last one on: a copy of a function uses the functions before it once more
    for position in reversed(range(len(done))):
        var, value = done[position]
        if isinstance(value, Function) and value.type_params:
            uses = _Uses(var, value)
            rest = [(v, rebuild(x, uses.atom, uses.chain)) for v, x in done[position + 1 :]]
            result = uses.atom(result)
            done = [*done[:position], *(uses.copies or [(var, value)]), *rest]
    return rebuild_lets(chain, done, result)


class _Uses:
    """The replacement of the uses of a function: the first one keeps it, every other one has a copy."""

    def __init__(self, var: Var, function: Function) -> None:
        self.var, self.function = var, function
        self.copies: list[tuple[Var, Expr]] = []

    def atom(self, atom: Expr) -> Expr:
        """The variable of a copy in place of the function's variable."""
        if atom is not self.var:
            return atom
        self.copies.append(_copied(self.var, self.function) if self.copies else (self.var, self.function))
        return self.copies[-1][0]

    def chain(self, chain: Expr) -> Expr:
        """A chain with its uses replaced."""
        bindings, end = let_chain(chain)
        return rebuild_lets(chain, [(v, rebuild(x, self.atom, self.chain)) for v, x in bindings], self.atom(end))


def with_opaque_copies(function: Function, opaque: Callable[[TypeVar], Type], copied: _Env) -> Function:
    """The function with a copy of each inner polymorphic function without type parameters, after it.

    ``opaque``: the type in the place of a type parameter.  ``copied`` gets the variables of the copies.
    """

    def chain(expr: Expr) -> Expr:
        bindings, result = let_chain(expr)
        out: list[tuple[Var, Expr]] = []
        for var, value in bindings:
            if isinstance(value, Function) and value.type_params:
                renamer = _Renamer()
                new = Var(var.name, span=var.span)
                made = renamer.function(value, {var: new}, {}, {v: opaque(v) for v in value.type_params})
                copied.update({**renamer.renamed, var: new})
                out += [(var, value), (new, replace(made, body=chain(made.body)))]
            else:
                out.append((var, rebuild(value, lambda atom: atom, chain)))
        return rebuild_lets(expr, out, result)

    return function if function.is_primitive else replace(function, body=chain(function.body))


def _copied(var: Var, function: Function) -> tuple[Var, Expr]:
    """A copy of an inner function, whose every variable is new, under a new variable."""
    new = Var(var.name, span=var.span)
    return new, _Renamer().function(function, {var: new}, {})


class _Renamer:
    """Copies with new variables for all variables that are bound inside: ``renamed``."""

    def __init__(self) -> None:
        self.renamed: _Env = {}

    def function(
        self, function: Function, env: _Env, types: dict[TypeVar, Type], given: Mapping[TypeVar, Type] | None = None
    ) -> Function:
        """A copy of a function, with type parameters of its own or, if types are ``given`` for them, without any."""
        own = () if given is not None else tuple(TypeVar(v.name) for v in function.type_params)
        types = {**types, **(given if given is not None else dict(zip(function.type_params, own, strict=True)))}
        params = tuple(self._var(p, types) for p in function.params)
        body = self.chain(function.body, {**env, **dict(zip(function.params, params, strict=True))}, types)
        ret_type = None if function.ret_type is None else substitute_types(function.ret_type, types)
        return replace(function, params=params, body=body, ret_type=ret_type, type_params=own)

    def chain(self, chain: Expr, env: _Env, types: dict[TypeVar, Type]) -> Expr:
        """A copy of a chain."""
        env = dict(env)
        bindings, result = let_chain(chain)
        out: list[tuple[Var, Expr]] = []
        for var, value in bindings:
            new = self._var(var, types)
            if isinstance(value, Function):  # it may be recursive
                env[var] = new
            out.append((new, self._value(value, env, types)))
            env[var] = new
        return make_lets(out, env.get(result, result))

    def _value(self, value: Expr, env: _Env, types: dict[TypeVar, Type]) -> Expr:
        if isinstance(value, Function):
            return self.function(value, env, types)
        if isinstance(value, Match):
            return replace(
                value, data=env.get(value.data, value.data), clauses=tuple(self._clause(c, env, types) for c in value.clauses)
            )
        return rebuild(value, lambda atom: env.get(atom, atom), lambda chain: self.chain(chain, env, types))

    def _clause(self, clause: Clause, env: _Env, types: dict[TypeVar, Type]) -> Clause:
        bound: _Env = {}
        lhs = self._pattern(clause.lhs, bound, types)
        return Clause(lhs, self.chain(clause.rhs, {**env, **bound}, types))

    def _pattern(self, pattern: Pattern, bound: _Env, types: dict[TypeVar, Type]) -> Pattern:
        if isinstance(pattern, PatternVar):
            new = bound[pattern.var] = self._var(pattern.var, types)
            return replace(pattern, var=new)
        if isinstance(pattern, (PatternConstructor, PatternTuple)):
            return replace(pattern, patterns=tuple(self._pattern(p, bound, types) for p in pattern.patterns))
        return pattern

    def _var(self, var: Var, types: dict[TypeVar, Type]) -> Var:
        annotation = None if var.annotation is None else substitute_types(var.annotation, types)
        new = self.renamed[var] = Var(var.name, annotation, span=var.span)
        return new
