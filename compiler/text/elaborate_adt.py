"""Elaborate type definitions, type parameters, constructors, matches and references."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...ops.core.adt_types import GlobalTypeVar, RefType, TypeCall, TypeVar
from ...ops.core.similar_names import did_you_mean
from ...ops.core.tensor_types import DTYPES, TupleType, Type
from ...vm.diagnostics import codes
from ...vm.diagnostics.source import Span
from ..ir.expr import Call, Constructor, Expr, Function, GlobalVar, If, IRModule, TypeData, Var
from ..ir.match_expr import (
    Clause,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    RefCreate,
    RefRead,
    RefWrite,
)
from ..ir.visitor import Steps
from .elaborate import Elaborator
from .elaborate_types import MISTAKE, Syntax

Note = tuple[str, Span | None]
#: Expressions that are written as calls, with their numbers of arguments.
_REFERENCES: dict[str, tuple[Any, int]] = {"ref": (RefCreate, 1), "ref_read": (RefRead, 1), "ref_write": (RefWrite, 2)}


class AdtElaborator(Elaborator):
    """An elaborator that also knows type definitions."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.type_definitions: dict[str, TypeData] = {}
        self.constructors: dict[str, Constructor] = {}
        #: The type parameters in scope.
        self.type_vars: dict[str, TypeVar] = {}
        self.leaves["instance"] = self.instance

    # ---- type definitions ------------------------------------------------------------------------------------------

    def module(self, tree: Syntax, known: IRModule | None = None) -> IRModule:
        """The module of a whole text, with the definitions of ``known``.

        Types and functions may be used before their definitions.
        """
        if known is not None:
            self.type_definitions = dict(known.type_definitions)
            self.constructors = {c.name_hint: c for data in known.type_definitions.values() for c in data.constructors}
        definitions = [item for item in tree.children if item.data in ("type_definition", "extern_type")]
        for item in definitions:
            self.declare_type(item)
        for item in definitions:
            if self.type_definitions[str(item.children[0])].span == self.span(item):
                self.define_type(item)
        tree.children = [item for item in tree.children if item.data not in ("type_definition", "extern_type")]
        mod = super().module(tree, known)
        return replace(mod, type_definitions=self.type_definitions)

    def defines_nothing(self, definitions: list[Syntax]) -> bool:
        """Whether a text has neither functions nor types."""
        return super().defines_nothing(definitions) and not self.type_definitions

    def declare_type(self, item: Syntax) -> None:
        """Enter a definition without its constructors, which may mention any type of the module."""
        name, params = item.children[:2]
        old = self.type_definitions.get(str(name))
        if old is not None:
            self.mistake(f"the type {name} is defined twice", name, note=("first here", old.span), code=codes.Syntax.DUPLICATE)
            return
        if name in DTYPES:
            self.mistake(f"the type {name} has the name of a dtype", name, code=codes.Syntax.DUPLICATE)
        type_vars = self.type_params(params)
        header = GlobalTypeVar(str(name))
        self.type_definitions[str(name)] = TypeData(header, type_vars, span=self.span(item))

    def define_type(self, item: Syntax) -> None:
        data = self.type_definitions[str(item.children[0])]
        if item.data == "extern_type":
            return
        self.type_vars = {v.name: v for v in data.type_vars}
        made = []
        for tag, part in enumerate(item.children[2].children):
            name, *fields = part.children
            old = self.constructors.get(str(name))
            if old is not None:
                note = ("first here", old.span)
                self.mistake(f"the constructor {name} is defined twice", name, note=note, code=codes.Syntax.DUPLICATE)
            inputs = tuple(self.inner(field, 1) for field in fields)
            made.append(Constructor(str(name), inputs, data.header, tag, span=self.span(name)))
            self.constructors[str(name)] = made[-1]
        self.type_vars = {}
        self.type_definitions[data.header.name] = replace(data, constructors=tuple(made))

    def type_params(self, tree: Syntax) -> tuple[TypeVar, ...]:
        """The type parameters between brackets."""
        names = [str(name) for name in tree.children]
        for k, name in enumerate(names):
            if name in names[:k]:
                self.mistake(f"a second type parameter {name}", tree.children[k], code=codes.Syntax.DUPLICATE)
        return tuple(map(TypeVar, names))

    # ---- types -----------------------------------------------------------------------------------------------------

    def shallow_type(self, tree: Syntax, depth: int) -> Type | None:
        """As ``type``, of the name of a definition or of a type parameter, too.  Raises TypeTooLarge."""
        match tree.data:
            case "named_type" if tree.children[0] in self.type_vars:
                return self.type_vars[tree.children[0]]
            case "named_type" if tree.children[0] in self.type_definitions:
                return self.type_call(tree.children[0], [], depth)
            case "type_call" if tree.children[0] != "Storage" or "Storage" in self.type_definitions:
                return self.type_call(tree.children[0], tree.children[1:], depth)
            case "ref_type":
                name, value = tree.children
                if name != "ref":
                    self.mistake(
                        f"there is no type {name}(...)", name, "a reference has the type `ref(T)`", code=codes.Syntax.TYPE
                    )
                return RefType(self.inner(value, depth))
        return super().shallow_type(tree, depth)

    def type_call(self, name: Syntax, args: list[Syntax], depth: int) -> Type:
        """An instance of a definition."""
        data = self.type_definitions.get(str(name))
        if data is None:
            known = [*self.type_definitions, *self.type_vars, *DTYPES]
            self.mistake(f"there is no type {name}{did_you_mean(name, known)}", name, code=codes.Syntax.TYPE)
            return TupleType(())
        if len(args) != len(data.type_vars):
            wanted = f"{len(data.type_vars)} type argument{'' if len(data.type_vars) == 1 else 's'}"
            note = ("defined here", data.span)
            self.mistake(f"the type {name} takes {wanted}, {len(args)} given", name, note=note, code=codes.Syntax.TYPE)
            return TupleType(())
        return TypeCall(data.header, tuple(self.inner(arg, depth) for arg in args))

    # ---- functions and calls -----------------------------------------------------------------------------------------

    def function(self, tree: Syntax) -> Steps[Function]:
        """A definition or a function literal, with its type parameters."""
        outer = self.type_vars
        type_params = self.type_params(tree.children[-4])
        self.type_vars = {**outer, **{v.name: v for v in type_params}}
        function: Function = yield super().function(tree)
        self.type_vars = outer
        return replace(function, type_params=type_params) if type_params else function

    def instance(self, tree: Syntax) -> Expr:
        self.mistake(
            "type arguments stand before the arguments of a call", tree, "write `@f[float32](%x)`", code=codes.Syntax.TOKEN
        )
        return MISTAKE

    def operator(self, tree: Syntax) -> Expr:
        constructor = self.constructors.get(tree.children[0])
        if constructor is None:
            return super().operator(tree)
        # without fields, the name alone is the value
        return constructor if constructor.inputs else Call(constructor, (), span=self.span(tree))

    def call(self, tree: Syntax) -> Steps[Expr]:
        callee, *arguments = tree.children
        if callee.data == "operator" and callee.children[0] in self.constructors:
            args = yield self.exprs(arguments)
            return Call(self.constructors[callee.children[0]], args, span=self.span(tree))
        if callee.data == "operator" and callee.children[0] in _REFERENCES:
            made: Expr = yield self.reference(tree)
            return made
        if callee.data == "instance":
            name, *types = callee.children
            args = yield self.exprs(arguments)
            type_args = tuple(self.inner(t, 1) for t in types)
            return Call(GlobalVar(name[1:], span=self.span(name)), args, type_args=type_args, span=self.span(tree))
        called: Expr = yield super().call(tree)
        return called

    def reference(self, tree: Syntax) -> Steps[Expr]:
        callee, *arguments = tree.children
        name = callee.children[0]
        node, count = _REFERENCES[name]
        if len(arguments) != count:
            takes = f"{count} argument{'' if count == 1 else 's'}"
            return self.mistake(f"{name} takes {takes}, {len(arguments)} given", tree, code=codes.Type.ARITY)
        args = yield self.exprs(arguments)
        made: Expr = node(*args, span=self.span(tree))
        return made

    def if_made_by(self, tree: Syntax) -> Steps[Expr]:
        """An ``if`` on the constructor of a value: the form that ``match`` is lowered to."""
        cond, name, true, false = tree.children
        parts = (yield self.expr(cond)), (yield self.block(true)), (yield self.block(false))
        return If(*parts, str(name), span=self.span(tree))

    # ---- matches -----------------------------------------------------------------------------------------------------

    def match(self, tree: Syntax) -> Steps[Expr]:
        word, data, *items = tree.children
        value = yield self.expr(data)
        clauses = []
        for item in items:
            with self.scope():
                lhs = self.pattern(item.children[0], {})
                clauses.append(Clause(lhs, (yield self.expr(item.children[1]))))
        return Match(value, tuple(clauses), not word.endswith("?"), span=self.span(tree))

    def pattern(self, tree: Syntax, seen: dict[str, Syntax]) -> Pattern:
        """The pattern; its variables are bound in the scope."""
        span = self.span(tree)
        match tree.data:
            case "bound_pattern":
                name, annotation = tree.children
                if name in seen:
                    note: Note = ("first here", self.span(seen[name]))
                    self.mistake(f"a second variable {name} in one pattern", name, note=note, code=codes.Syntax.DUPLICATE)
                seen[name] = name
                var = Var(name[1:], self.annotation(annotation), span=self.span(name))
                self.bind(name, var)
                return PatternVar(var, span=span)
            case "tuple_pattern":
                return PatternTuple(tuple(self.pattern(item, seen) for item in tree.children), span=span)
        name, *fields = tree.children
        if name == "_" and not fields:
            return PatternWildcard(span=span)
        patterns = tuple(self.pattern(item, seen) for item in fields)
        constructor = self.constructors.get(name)
        if constructor is None:
            hint = did_you_mean(name, self.constructors)
            self.mistake(f"there is no constructor {name}{hint}", name, code=codes.Type.MATCH)
            return PatternWildcard(span=span)
        if len(patterns) != len(constructor.inputs):
            fields_text = f"{len(constructor.inputs)} field{'' if len(constructor.inputs) == 1 else 's'}"
            note = ("defined here", constructor.span)
            self.mistake(f"{name} has {fields_text}, the pattern {len(patterns)}", tree, note=note, code=codes.Type.ARITY)
        return PatternConstructor(constructor, patterns, span=span)
