"""Elaborate a syntax tree into IR: resolve names, look up operators and attributes, and collect every error.

Methods that are generators are recursive and run on the heap (``visitor.run``), so a text may be nested arbitrarily deep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...declarations.frozen_dataclass import frozen
from ...ops.core import op as registry
from ...ops.core.op import Op
from ...ops.core.similar_names import did_you_mean, question
from ...vm.diagnostics import codes
from ...vm.diagnostics.source import Diagnostic, SourceText
from ..ir.expr import Call, Constant, Expr, Function, GlobalVar, If, IRModule, Tuple, TupleGetItem, Var, make_lets
from ..ir.visitor import Steps, run
from .attributes import AttributeProblem, make_attrs
from .elaborate_types import MISTAKE, Syntax, TypeElaborator, tuples
from .infix import MINUS, SIGNS
from .literals import LiteralError, read_literal, read_size
from .metadata import Metadata
from .sugar import SugarProblem, literal_text, sliced, tensor_of


@frozen
class _Params:
    """The parameters and attributes of a function."""

    params: tuple[Var, ...]
    attrs: dict[str, Any]


class Elaborator(TypeElaborator):
    """The IR of the syntax trees of one source; errors are appended to ``problems``."""

    def __init__(self, source: SourceText, problems: list[Diagnostic], metadata: Metadata | None) -> None:
        super().__init__(source, problems, metadata)
        #: The meanings of each name in scope, innermost last.
        self.meaning: dict[str, list[Expr]] = {}
        self.bound: list[str] = []
        self.leaves: dict[str, Callable[[Syntax], Expr]] = {
            "local": self.local, "global_var": self.global_var, "operator": self.operator, "number": self.number,
            "bool": self.bool, "meta": self.meta, "tensor": self.tensor,
        }  # fmt: skip

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
            self.bind(name, MISTAKE)

    # ---- modules -------------------------------------------------------------------------------------------------

    def module(self, tree: Syntax, known: IRModule | None = None) -> IRModule:
        """The module of a whole text, with the functions of the module ``known``."""
        before = known.functions if known is not None else {}
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
                if name[1:] in before:
                    note = ("the function before", before[name[1:]].span)
                    self.mistake(f"init_module has a function {name}, too", name, note=note, code=codes.Syntax.DUPLICATE)
        definitions = [item for item in tree.children if item.data == "definition"]
        functions = {str(item.children[0])[1:]: run(self.function(item)) for item in definitions}
        if self.defines_nothing(definitions) and not self.problems:
            self.problems.append(
                Diagnostic(
                    "there is no function in the text", help="write `def @main(%x: float32) { %x }`", code=codes.Syntax.EMPTY
                )
            )
        return IRModule({**before, **functions}, self.source)

    def defines_nothing(self, definitions: list[Syntax]) -> bool:
        """Whether a text has no definitions."""
        return not definitions

    def expression(self, tree: Syntax) -> Expr | Op:
        """The expression of a text that is an expression; the operator of a text that is its name."""
        if len(tree.children) == 1 and getattr(tree.children[0], "data", None) == "operator":
            return self.find_operator(tree.children[0]) or MISTAKE
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
                attrs[str(name)] = tuples(self.value(item.children[1]))
            else:
                if attrs:
                    self.mistake("a parameter after a function attribute", item, "attributes come last", code=codes.Syntax.ORDER)
                if item.data == "param_with_device":
                    self.param_device(item.children[1])
                var = Var(name[1:], self.annotation(item.children[-1]), span=self.span(name))
                params.append(var)
                self.bind(name, var)
        return _Params(tuple(params), attrs)

    def param_device(self, attribute: Syntax) -> None:
        """Check the device of a parameter, which Relay's planning of devices has noted; ``place`` decides anew."""
        name, value = attribute.children
        if name != "virtual_device":
            help = "a parameter is written `%x`, `%x: type` or `%x {virtual_device=meta[VirtualDevice][0]}: type`"
            self.mistake(f"a parameter has no attribute {name}", name, help, code=codes.Syntax.ATTRIBUTE)
        self.value(value)

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
        result = MISTAKE if not hasattr(last, "data") or last.data == "error" else (yield self.expr(last))
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
        literal = literal_text(tree)
        if literal is not None:
            return self.literal(literal, tree)
        args = yield self.exprs((tree.children[1],))
        return Call(MINUS.op, args, _no_attrs(MINUS.op), span=self.span(tree))

    def index(self, tree: Syntax) -> Steps[Expr]:
        """Slices and elements of a tensor: ``%x[0:2, -1]``."""
        value, *items = tree.children
        data = yield self.expr(value)
        try:
            return sliced(data, items, self.span(tree))
        except SugarProblem as problem:
            return self.mistake(str(problem), problem.at or tree, problem.help, code=codes.Syntax.INDEX)

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
                return MISTAKE
            return Call(op, args, self.attrs(op, tree, attributes), span=self.span(tree))
        function, *args = yield self.exprs((callee, *values))
        noted = {name: tuples(value) for name, value in self.attribute_values(attributes)[0].items()}
        return Call(function, tuple(args), noted or None, span=self.span(tree))

    # ---- leaves --------------------------------------------------------------------------------------------------

    def local(self, tree: Syntax) -> Expr:
        (name,) = tree.children
        meaning = self.meaning.get(name)
        if meaning:
            return meaning[-1]
        known = [n for n, meanings in self.meaning.items() if meanings and n.startswith("%")]
        divided, slash, _ = name.partition("/")
        help = f"`{divided} / ...` with spaces is a division; a name may contain slashes" if slash and divided in known else None
        return self.mistake(f"unbound variable {name}{did_you_mean(name, known)}", name, help, code=codes.Syntax.UNBOUND_VARIABLE)

    def global_var(self, tree: Syntax) -> Expr:
        (name,) = tree.children
        return GlobalVar(name[1:], span=self.span(name))

    def operator(self, tree: Syntax) -> Expr:
        """An operator as a value: the function that calls it."""
        op = self.find_operator(tree)
        if op is None:
            return MISTAKE
        span = self.span(tree)
        try:
            attrs = make_attrs(op, {})
        except AttributeProblem as problem:
            shown = ", ".join(f"%{name.rstrip('*')}" for name in op.inputs)
            help = f"write a function: `fn ({shown}) {{ {op.name}({shown}, ...) }}`; {problem.help}"
            return self.mistake(
                f"the operator {op.name} is no value: it needs attributes", tree, help, code=codes.Syntax.OPERATOR_AS_VALUE
            )
        params = tuple(Var(name.rstrip("*"), span=span) for name in op.inputs)
        return Function(params, Call(op, params, attrs, span=span), span=span)

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
        constant = self.constant(tree)
        return MISTAKE if constant is None else constant

    def tensor(self, tree: Syntax) -> Expr:
        """The constant of ``[[1f, 2f], [3f, 4f]]``."""
        try:
            return Constant(tensor_of(tree), span=self.span(tree))
        except SugarProblem as problem:
            return self.mistake(str(problem), problem.at or tree, problem.help, code=codes.Syntax.TENSOR)


def _no_attrs(op: Op) -> Any:
    return op.attrs()
