"""``ToCPS``: continuation-passing style, where a function gets the rest of the program as an argument, its continuation.

    def @main(%n: int32) {                  def @main[A](%n: int32, %k: fn (int32) -> A) -> A {
      let %y = @f(%n);               ->       @f(%n, fn (%y) {
      let %z = add(%y, 1);                      let %z = add(%y, 1);
      %z                                        %k(%z)
    }                                         })
                                            }

Every call of a function passes a continuation; calls of operators and constructors stay.  The rest of the program after an
``if`` or ``match`` is one function, which each branch calls.  The answer, of type ``A``, is the result of the last continuation.
"""

from __future__ import annotations

from collections.abc import Callable

from ....ops.core.adt_types import TypeVar, map_type, type_parts
from ....ops.core.op import Op
from ....ops.core.tensor_types import FuncType, Type
from ....vm.diagnostics import codes
from ....vm.diagnostics.source import TypeCheckError
from ...ir.anf import Names, rebuild
from ...ir.expr import Call, Constructor, Expr, Function, GlobalVar, If, IRModule, Let, Var, let_chain, make_lets, replace
from ...ir.match_expr import Clause, Match, Pattern, PatternConstructor, PatternTuple, PatternVar, with_results
from ...ir.signature_attrs import without_signature
from ...passes.to_a_normal_form import to_a_normal_form
from ..annotations import annotation_of
from ..requirements import with_requirements

#: Applies the continuation to an atom.
Continue = Callable[[Expr], Expr]


def to_cps_module(mod: IRModule) -> IRModule:
    """The module with every function in continuation-passing style.

    Raises TypeCheckError, also for a polymorphic function without a result type and for a constructor with a function as field.
    """
    converter = _Converter(mod, in_place=True)
    return replace(mod, functions={n: f if f.is_primitive else converter.function(n) for n, f in converter.mod.functions.items()})


def to_cps_function(function: Function, mod: IRModule) -> tuple[Function, dict[str, Function]]:
    """The function in continuation-passing style, and the functions ``<name>_cps`` that it calls.  Raises TypeCheckError."""
    name = Names(set(mod.functions))("cps")
    converter = _Converter(replace(mod, functions={**mod.functions, name: function}))
    return converter.function(name), converter.made()


def without_continuation(function: Function) -> Function:
    """A function of the parameters before the last one, the continuation, for which it passes the identity."""
    params = tuple(Var(p.name, p.annotation, span=p.span) for p in function.params[:-1])
    result = Var("result", span=function.span)
    body = Call(function, (*params, Function((result,), result, span=function.span)), span=function.span)
    continuation = function.params[-1].annotation
    ret_type = continuation.params[0] if isinstance(continuation, FuncType) else None
    answer = continuation.result if isinstance(continuation, FuncType) else None
    return Function(params, body, ret_type, {}, tuple(t for t in function.type_params if t is not answer), span=function.span)


class _Converter:
    """The converter of a module's functions; not ``in_place``, called functions get a version ``<name>_cps``."""

    def __init__(self, mod: IRModule, *, in_place: bool = False) -> None:
        self.mod, self._in_place = to_a_normal_form(mod), in_place
        self._check_constructors()
        self._types = {name: f.ty for name, f in with_requirements(self.mod, ("InferType",)).functions.items()}
        self._names = Names(set(mod.functions))
        self._called: dict[str, str] = {}
        self._made: dict[str, Function] = {}

    def _check_constructors(self) -> None:
        for data in self.mod.type_definitions.values():
            for constructor in data.constructors:
                if any(_has_function(field) for field in constructor.inputs):
                    message = f"ToCPS: the constructor {constructor.name} has a function as field, whose answer has no type"
                    raise TypeCheckError(message, constructor.span, code=codes.Type.MISMATCH)

    def function(self, name: str) -> Function:
        """A function of the module with a continuation."""
        answer = TypeVar(Names({v.name for v in self.mod[name].type_params})("Answer"))
        return _Body(self, answer).function(self.mod[name], self._result(name), is_global=True)

    def made(self) -> dict[str, Function]:
        """The versions of called functions, by name."""
        return self._made

    def called(self, name: str) -> str:
        """The name of the version of a function that calls use."""
        if self._in_place or name not in self.mod.functions:
            return name
        if name not in self._called:
            version = self._called[name] = self._names(f"{name}_cps")
            self._made[version] = self.mod[name]  # reserves the place, before the functions that it calls
            self._made[version] = self.function(name)
        return self._called[name]

    def _result(self, name: str) -> Type:
        ret_type, known = self.mod[name].ret_type, self._types.get(name)
        if ret_type is not None:
            return ret_type
        if isinstance(known, FuncType):
            return known.result
        message = f"ToCPS: the polymorphic function @{name} has no result type"
        raise TypeCheckError(message, self.mod[name].span, help="annotate it: -> T", code=codes.Type.ANNOTATION)


class _Body:
    """The converter of a function and the functions inside it, which all have the answer type ``answer``."""

    def __init__(self, converter: _Converter, answer: TypeVar) -> None:
        self.converter, self.answer = converter, answer
        self.renamed: dict[Expr, Expr] = {}

    def function(self, function: Function, result: Type | None, *, is_global: bool) -> Function:
        params = tuple(map(self._var, function.params))
        annotation = None if result is None else FuncType((self._type(annotation_of(result)),), self.answer)
        k = Var("k", annotation, span=function.span)
        body = self.chain(function.body, lambda value: Call(k, (value,), span=function.span), k)
        ret_type, type_params = (self.answer, (*function.type_params, self.answer)) if is_global else (None, function.type_params)
        attrs = without_signature(function.attrs)
        return Function((*params, k), body, ret_type, attrs, type_params, span=function.span)

    def chain(self, chain: Expr, continued: Continue, k: Expr | None) -> Expr:
        """A chain whose result ``continued`` gets; ``k``: the continuation itself, if it is a variable."""
        bindings, result = let_chain(chain)
        out: list[tuple[Var, Expr]] = []
        for position, (var, value) in enumerate(bindings):
            rest = make_lets(bindings[position + 1 :], result)
            if self._is_call_of_function(value):
                assert isinstance(value, Call) and isinstance(value.op, Expr)
                last = k if k is not None and rest is var else self._continuation(var, rest, continued, k)
                call = Call(self._atom(value.op), (*map(self._atom, value.args), last), span=value.span)
                return make_lets(out, call)
            if isinstance(value, (If, Match)):
                return make_lets(out, self._branches(var, value, rest, continued, k))
            new = self._var(var)  # first: a function may call itself
            out.append((new, self._value(value)))
        return make_lets(out, continued(self._atom(result)))

    def _continuation(self, var: Var, rest: Expr, continued: Continue, k: Expr | None) -> Function:
        return Function((self._var(var),), self.chain(rest, continued, k), span=var.span)

    def _branches(self, var: Var, value: If | Match, rest: Expr, continued: Continue, k: Expr | None) -> Expr:
        """An ``if`` or ``match`` whose branches call one continuation."""
        join = k if k is not None and rest is var else Var("join", span=value.span)

        def branch(chain: Expr) -> Expr:
            assert join is not None
            return self.chain(chain, lambda result: Call(join, (result,), span=value.span), join)

        out: Expr
        if isinstance(value, If):
            cond, then, other = self._atom(value.cond), branch(value.true_branch), branch(value.false_branch)
            out = replace(value, cond=cond, true_branch=then, false_branch=other, ty=None)
        else:
            clauses = tuple(Clause(self._pattern(c.lhs), c.rhs) for c in value.clauses)
            results = [branch(c.rhs) for c in clauses]
            out = replace(value, data=self._atom(value.data), clauses=with_results(clauses, results), ty=None)
        if join is k:
            return out
        assert isinstance(join, Var)
        return Let(join, self._continuation(var, rest, continued, k), out, span=value.span)

    # ---- parts ---------------------------------------------------------------------------------------------------------

    def _is_call_of_function(self, value: Expr) -> bool:
        if not isinstance(value, Call) or isinstance(value.op, (Op, Constructor)):
            return False
        return not (isinstance(value.op, GlobalVar) and self._is_primitive(value.op.name))

    def _is_primitive(self, name: str) -> bool:
        function = self.converter.mod.functions.get(name)
        return function is not None and function.is_primitive

    def _value(self, value: Expr) -> Expr:
        if isinstance(value, Function):
            return self.function(value, value.ret_type, is_global=False)
        if isinstance(value, Call) and isinstance(value.op, Constructor):
            return replace(value, args=tuple(map(self._atom, value.args)), ty=None)
        return replace(rebuild(value, self._atom, lambda chain: chain), ty=None)

    def _atom(self, atom: Expr) -> Expr:
        if isinstance(atom, GlobalVar):
            return atom if self._is_primitive(atom.name) else GlobalVar(self.converter.called(atom.name), span=atom.span)
        if isinstance(atom, Constructor) and atom.inputs:
            fields = tuple(Var(f"field{number}", span=atom.span) for number in range(len(atom.inputs)))
            k = Var("k", span=atom.span)
            return Function((*fields, k), Call(k, (Call(atom, fields, span=atom.span),), span=atom.span), span=atom.span)
        return self.renamed.get(atom, atom)

    def _var(self, var: Var) -> Var:
        annotation = None if var.annotation is None else self._type(var.annotation)
        new = self.renamed[var] = Var(var.name, annotation, span=var.span)
        return new

    def _pattern(self, pattern: Pattern) -> Pattern:
        if isinstance(pattern, PatternVar):
            return replace(pattern, var=self._var(pattern.var))
        if isinstance(pattern, (PatternConstructor, PatternTuple)):
            return replace(pattern, patterns=tuple(map(self._pattern, pattern.patterns)))
        return pattern

    def _type(self, ty: Type) -> Type:
        """A type whose functions take a continuation."""

        def change(part: Type) -> Type | None:
            if not isinstance(part, FuncType):
                return None
            continuation = FuncType((self._type(part.result),), self.answer)
            return FuncType((*map(self._type, part.params), continuation), self.answer)

        return map_type(ty, change)


def _has_function(ty: Type) -> bool:
    return isinstance(ty, FuncType) or any(map(_has_function, type_parts(ty)))
