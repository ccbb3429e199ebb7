"""Elaborate a syntax tree into IR: resolve names, look up operators and attributes, and collect every error.

Methods that are generators are recursive and run on the heap (``visitor.run``), so a text may be nested arbitrarily deep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ops.core import op as registry
from ...ops.core.op import Op
from ...ops.core.similar_names import did_you_mean, question
from ...ops.core.tensor_types import (
    DTYPES,
    MAX_DEPTH,
    MAX_RANK,
    FuncType,
    TensorType,
    TupleType,
    Type,
    TypeTooLarge,
    scalar,
)
from ...shape_funcs.symbolic.dim import ANY, Dim, dim, sym
from ...vm.diagnostics import codes
from ...vm.diagnostics.codes import Code
from ...vm.diagnostics.source import Diagnostic, SourceText, Span
from ..ir.expr import Call, Constant, Expr, Function, GlobalVar, If, IRModule, Tuple, TupleGetItem, Var, make_lets
from ..ir.visitor import Steps, run
from .attributes import AttributeProblem, make_attrs
from .header import CONSTANTS
from .infix import MINUS, SIGNS
from .literals import MAX_DIGITS, LiteralError, read_attribute_number, read_literal, read_size

#: Lark's tree: ``data`` is the rule, ``children`` are trees and tokens, ``meta`` has the place.
Syntax = Any
#: A placeholder for an expression with a recorded error; the module is not returned.
_MISTAKE = Tuple(())


@dataclass(frozen=True)
class _Params:
    """The parameters and attributes of a function."""

    params: tuple[Var, ...]
    attrs: dict[str, Any]


class Elaborator:
    """The IR of the syntax trees of one source; errors are appended to ``problems``."""

    def __init__(self, source: SourceText, problems: list[Diagnostic], constants: tuple[np.ndarray, ...] | None) -> None:
        self.source, self.problems = source, problems
        #: The metadata's constants; None if it could not be read.
        self.constants = None if constants is None else [Constant(data) for data in constants]
        #: The defined functions; None: any name is allowed.
        self.globals: set[str] | None = None
        #: The meanings of each name in scope, innermost last.
        self.meaning: dict[str, list[Expr]] = {}
        self.bound: list[str] = []
        self.leaves: dict[str, Callable[[Syntax], Expr]] = {
            "local": self.local, "global_var": self.global_var, "operator": self.operator, "number": self.number,
            "bool": self.bool, "meta": self.meta,
        }  # fmt: skip

    # ---- places and mistakes ------------------------------------------------------------------------------------

    def span(self, syntax: Syntax) -> Span:
        """The place of a tree or token."""
        at: Any = getattr(syntax, "meta", syntax)
        return Span(self.source, at.start_pos, at.end_pos)

    def mistake(
        self, message: str, at: Syntax, help: str | None = None, note: tuple[str, Span | None] | None = None, *, code: Code
    ) -> Expr:
        """Record an error; returns the placeholder expression."""
        self.problems.append(Diagnostic(message, self.span(at), (note,) if note else (), help, code))
        return _MISTAKE

    # ---- names ---------------------------------------------------------------------------------------------------

    @contextmanager
    def scope(self) -> Iterator[None]:
        """A scope: names bound inside are removed at its end."""
        mark = len(self.bound)
        yield
        for name in self.bound[mark:]:
            self.meaning[name].pop()
        del self.bound[mark:]

    def bind(self, name: str, value: Expr) -> None:
        """Bind ``name`` to ``value`` until the scope ends."""
        self.meaning.setdefault(name, []).append(value)
        self.bound.append(name)

    def bind_skipped(self, error: str) -> None:
        """Bind the names in text skipped after a syntax error, so that their uses are no second error."""
        for name in error.split():
            self.bind(name, _MISTAKE)

    # ---- modules -------------------------------------------------------------------------------------------------

    def module(self, tree: Syntax) -> IRModule:
        """The module of a whole text."""
        first: dict[str, Syntax] = {}
        for item in tree.children:
            name = item.children[0]
            if item.data == "error":
                self.bind_skipped(name)
            elif name in first:
                self.mistake(
                    f"the function {name} is defined twice",
                    name,
                    note=("first here", self.span(first[name])),
                    code=codes.Syntax.DUPLICATE,
                )
            else:
                first[name] = name
        self.globals = set(first) | {n for n in self.meaning if n.startswith("@")}
        definitions = [item for item in tree.children if item.data == "definition"]
        functions = {str(item.children[0])[1:]: run(self.function(item)) for item in definitions}
        if not definitions and not self.problems:
            self.problems.append(
                Diagnostic(
                    "there is no function in the text", help="write `def @main(%x: float32) { %x }`", code=codes.Syntax.EMPTY
                )
            )
        return IRModule(functions, self.source)

    def expression(self, tree: Syntax) -> Expr:
        """The expression of a text that is an expression."""
        free = [item for item in tree.children if getattr(item, "data", None) == "free"]
        for item in free:
            name, annotation = item.children
            self.bind(name, Var(name[1:], self.annotation(annotation), span=self.span(name)))
        return run(self.body(tree.children[len(free) :]))

    def function(self, tree: Syntax) -> Steps[Function]:
        """A definition or a function literal: both end in parameters, result type, block."""
        params, result, block = tree.children[-3:]
        with self.scope():
            head = self.params(params)
            ret_type = self.type(result.children[0]) if result.children else None
            body = yield self.block(block)
        return Function(head.params, body, ret_type, head.attrs, span=self.span(tree))

    def params(self, tree: Syntax) -> _Params:
        seen: dict[str, Syntax] = {}
        params, attrs = [], {}
        for item in tree.children:
            name = item.children[0]
            if name in seen:
                self.mistake(
                    f"a second parameter {name}", name, note=("first here", self.span(seen[name])), code=codes.Syntax.DUPLICATE
                )
            seen[name] = name
            if item.data == "attribute":
                attrs[str(name)] = _tuples(self.value(item.children[1]))
            else:
                if attrs:
                    self.mistake("a parameter after a function attribute", item, "attributes come last", code=codes.Syntax.ORDER)
                var = Var(name[1:], self.annotation(item.children[1]), span=self.span(name))
                params.append(var)
                self.bind(name, var)
        return _Params(tuple(params), attrs)

    # ---- blocks --------------------------------------------------------------------------------------------------

    def block(self, tree: Syntax) -> Steps[Expr]:
        with self.scope():
            result: Expr = yield self.body(tree.children)
        return result

    def body(self, items: list[Syntax]) -> Steps[Expr]:
        """Statements and the result."""
        bindings: list[tuple[Var, Expr]] = []
        for statement in items[:-1]:
            match statement.data:
                case "let":
                    bindings.append((yield self.let(statement)))
                case "graph":
                    name, value = statement.children
                    self.bind(name, (yield self.expr(value)))
                case "sequence":
                    (value,) = statement.children
                    bindings.append((Var("_"), (yield self.expr(value))))
                case "error":
                    self.bind_skipped(statement.children[0])
        last = items[-1]
        result = _MISTAKE if not hasattr(last, "data") or last.data == "error" else (yield self.expr(last))
        return make_lets(bindings, result)

    def let(self, tree: Syntax) -> Steps[tuple[Var, Expr]]:
        name, annotation, value = tree.children
        var = Var(name[1:], self.annotation(annotation), span=self.span(name))
        if value.data == "function":  # it may be recursive
            self.bind(name, var)
            return var, (yield self.expr(value))
        result = yield self.expr(value)
        self.bind(name, var)
        return var, result

    # ---- expressions ---------------------------------------------------------------------------------------------

    def expr(self, tree: Syntax) -> Steps[Expr]:
        leaf = self.leaves.get(tree.data)
        if leaf is not None:
            return leaf(tree)
        result: Expr = yield getattr(self, tree.data)(tree)
        return result

    def exprs(self, trees: Iterable[Syntax]) -> Steps[tuple[Expr, ...]]:
        out = []
        for tree in trees:
            leaf = self.leaves.get(tree.data)
            out.append(leaf(tree) if leaf is not None else (yield self.expr(tree)))
        return tuple(out)

    def infix(self, tree: Syntax) -> Steps[Expr]:
        left, sign, right = tree.children
        args = yield self.exprs((left, right))
        return Call(SIGNS[sign].op, args, _no_attrs(SIGNS[sign].op), span=self.span(tree))

    def minus(self, tree: Syntax) -> Steps[Expr]:
        operand = tree.children[1]
        if operand.data == "number":
            return self.literal("-" + operand.children[0], tree)
        args = yield self.exprs((operand,))
        return Call(MINUS.op, args, _no_attrs(MINUS.op), span=self.span(tree))

    def project(self, tree: Syntax) -> Steps[Expr]:
        value, field = tree.children
        try:
            index = read_size(field[1:])
        except LiteralError as error:
            return self.mistake(str(error), field, error.help, code=codes.Syntax.NUMBER)
        return TupleGetItem((yield self.expr(value)), index, span=self.span(tree))

    def tuple(self, tree: Syntax) -> Steps[Expr]:
        return Tuple((yield self.exprs(tree.children)), span=self.span(tree))

    def if_(self, tree: Syntax) -> Steps[Expr]:
        cond, true, false = tree.children
        parts = (yield self.expr(cond)), (yield self.block(true)), (yield self.block(false))
        return If(*parts, span=self.span(tree))

    def call(self, tree: Syntax) -> Steps[Expr]:
        callee, *arguments = tree.children
        attributes = [a for a in arguments if a.data == "attribute"]
        values = [a for a in arguments if a.data != "attribute"]
        if attributes and values and self.span(values[-1]).start > self.span(attributes[0]).start:
            self.mistake("an argument after an attribute", values[-1], "attributes come last", code=codes.Syntax.ORDER)
        if callee.data == "operator":
            op = self.find_operator(callee)
            args = yield self.exprs(values)
            if op is None:
                return _MISTAKE
            return Call(op, args, self.attrs(op, tree, attributes), span=self.span(tree))
        function, *args = yield self.exprs((callee, *values))
        if attributes:
            self.mistake("a function that is no operator takes no attributes", attributes[0], code=codes.Syntax.ATTRIBUTE)
        return Call(function, tuple(args), span=self.span(tree))

    # ---- leaves --------------------------------------------------------------------------------------------------

    def local(self, tree: Syntax) -> Expr:
        (name,) = tree.children
        meaning = self.meaning.get(name)
        if meaning:
            return meaning[-1]
        known = [n for n, meanings in self.meaning.items() if meanings and n.startswith("%")]
        return self.mistake(f"unbound variable {name}{did_you_mean(name, known)}", name, code=codes.Syntax.UNBOUND_VARIABLE)

    def global_var(self, tree: Syntax) -> Expr:
        (name,) = tree.children
        if self.globals is not None and name not in self.globals:
            return self.mistake(
                f"unknown function {name}{did_you_mean(name, self.globals)}", name, code=codes.Syntax.UNKNOWN_FUNCTION
            )
        return GlobalVar(name[1:], span=self.span(name))

    def operator(self, tree: Syntax) -> Expr:
        if self.find_operator(tree) is None:
            return _MISTAKE
        (name,) = tree.children
        return self.mistake(
            f"the operator {name} is no value",
            name,
            f"call it, or write `fn (%x) {{ {name}(%x) }}`",
            code=codes.Syntax.OPERATOR_AS_VALUE,
        )

    def find_operator(self, tree: Syntax) -> Op | None:
        (name,) = tree.children
        if name in registry.REGISTRY:
            return registry.get(str(name))
        if self.meaning.get(f"%{name}"):
            self.mistake(
                f"unknown operator {name}", name, f"the variable is written `%{name}`", code=codes.Syntax.UNKNOWN_OPERATOR
            )
        else:
            same_end = sorted(n for n in registry.REGISTRY if n.rpartition(".")[2] == name.rpartition(".")[2])
            meant = f"; {question(same_end)}" if same_end else did_you_mean(name, registry.REGISTRY)
            self.mistake(f"unknown operator {name}{meant}", name, code=codes.Syntax.UNKNOWN_OPERATOR)
        return None

    def number(self, tree: Syntax) -> Expr:
        return self.literal("".join(tree.children), tree)

    def literal(self, text: str, tree: Syntax) -> Expr:
        try:
            return Constant(read_literal(text), span=self.span(tree))
        except LiteralError as error:
            return self.mistake(str(error), tree, error.help, code=codes.Syntax.NUMBER)

    def bool(self, tree: Syntax) -> Expr:
        return Constant(np.array(tree.children[0] == "True"), span=self.span(tree))

    def meta(self, tree: Syntax) -> Expr:
        key, number = tree.children
        if key != CONSTANTS:
            return self.mistake(f"the metadata has no {key}", key, f"there is {CONSTANTS}", code=codes.Syntax.METADATA)
        if self.constants is None:
            return _MISTAKE
        if not number.isdigit() or len(number) > MAX_DIGITS or int(number) >= len(self.constants):
            return self.mistake(
                f"the metadata has no constant {number}", number, f"it has {len(self.constants)}", code=codes.Syntax.METADATA
            )
        return self.constants[int(number)]

    # ---- attributes ----------------------------------------------------------------------------------------------

    def attrs(self, op: Op, call: Syntax, attributes: list[Syntax]) -> Any:
        values: dict[str, Any] = {}
        places: dict[str, Syntax] = {}
        for item in attributes:
            name = item.children[0]
            if name in places:
                self.mistake(
                    f"a second attribute {name}",
                    name,
                    note=("first here", self.span(places[name].children[0])),
                    code=codes.Syntax.DUPLICATE,
                )
            values[str(name)], places[str(name)] = self.value(item.children[1]), item
        if _MISTAKE in values.values():
            return None
        try:
            return make_attrs(op, values)
        except AttributeProblem as problem:
            at = call if problem.name is None else places[problem.name].children[0 if problem.help else 1]
            self.mistake(problem.message, at, problem.help, code=codes.Syntax.ATTRIBUTE)
            return None

    def value(self, tree: Syntax, depth: int = 0) -> Any:
        """The Python value of an attribute, ``depth`` deep in lists."""
        match tree.data:
            case "number":
                text = "".join(tree.children)
                try:
                    return read_attribute_number(text)
                except LiteralError as error:
                    return self.mistake(str(error), tree, error.help, code=codes.Syntax.NUMBER)
            case "bool":
                return tree.children[0] == "True"
            case "string":
                return _unescape(tree.children[0][1:-1])
            case "word":
                return None if tree.children[0] == "None" else str(tree.children[0])
        if depth == MAX_DEPTH:
            return self.mistake(f"lists are nested more than {MAX_DEPTH} deep", tree, code=codes.Syntax.ATTRIBUTE)
        items = [self.value(item, depth + 1) for item in tree.children]
        return _MISTAKE if any(item is _MISTAKE for item in items) else items

    # ---- types ---------------------------------------------------------------------------------------------------

    def annotation(self, tree: Syntax) -> Type | None:
        return self.type(tree.children[0]) if tree.children else None

    def type(self, tree: Syntax, depth: int = 1) -> Type | None:
        """The type, ``depth`` deep in other types; None for ``_``, which is left to type inference."""
        if depth > MAX_DEPTH and tree.data not in ("tensor_type", "named_type"):
            self.mistake(f"types are nested more than {MAX_DEPTH} deep", tree, code=codes.Syntax.TYPE)
            return scalar(DTYPES[0])
        try:
            return self.shallow_type(tree, depth)
        except TypeTooLarge as error:
            self.mistake(str(error), tree, error.help, code=codes.Syntax.TYPE)
            return TupleType(())

    def shallow_type(self, tree: Syntax, depth: int) -> Type | None:
        """As ``type``.  Raises TypeTooLarge."""
        match tree.data:
            case "tensor_type":
                dims, dtype = tree.children
                if len(dims.children) > MAX_RANK:
                    self.mistake(
                        f"a tensor has at most {MAX_RANK} dimensions, not {len(dims.children)}", dims, code=codes.Syntax.TYPE
                    )
                return TensorType(tuple(self.dim(token) for token in dims.children), self.dtype(dtype))
            case "named_type":
                (name,) = tree.children
                return None if name == "_" else scalar(self.dtype(name))
            case "tuple_type":
                return TupleType(tuple(self.inner(item, depth) for item in tree.children))
        params, result = tree.children
        return FuncType(tuple(self.inner(item, depth) for item in params.children), self.inner(result, depth))

    def inner(self, tree: Syntax, depth: int) -> Type:
        ty = self.type(tree, depth + 1)
        if ty is None:
            self.mistake("`_` inside a type", tree, "leave out the whole annotation to have it inferred", code=codes.Syntax.TYPE)
            return TupleType(())
        return ty

    def dtype(self, name: Syntax) -> str:
        if name not in DTYPES:
            valid = f"the dtypes are {', '.join(DTYPES)}"
            self.mistake(f"unknown dtype {name}{did_you_mean(name, DTYPES)}", name, valid, code=codes.Syntax.TYPE)
        return str(name)

    def dim(self, token: Syntax) -> Dim:
        if token.startswith("?"):
            return sym(token[1:]) if token != "?" else ANY
        try:
            return dim(read_size(str(token)))
        except LiteralError as error:
            self.mistake(str(error), token, error.help, code=codes.Syntax.TYPE)
            return ANY


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _no_attrs(op: Op) -> Any:
    return op.attrs()


def _unescape(text: str) -> str:
    return text.replace("\\\\", "\0").replace("\\n", "\n").replace('\\"', '"').replace("\0", "\\")
