"""Print a module as text.  The text parses back to a structurally equal module, which prints the same text.

As in Relay, every inner expression gets a line of its own, ``%0 = ...;``, so a deep graph prints as a flat text.  The line is in
the innermost block that encloses all uses of the expression (``block_lines``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from ...ops.core.adt_types import TypeVar
from ...ops.core.op import Op
from ...ops.core.tensor_types import Type
from ...vm.diagnostics.argument_errors import wrong
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
    TypeData,
    Var,
)
from ..ir.match_expr import (
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    RefCreate,
    RefRead,
    RefWrite,
)
from ..ir.visitor import LEAVES, Steps, free_vars, run
from .attributes import shown_attrs, value_text
from .block_lines import Block, Blocks
from .comments import Annotate, Comments
from .header import VERSION_LINE
from .literals import literal_text
from .metadata import CONSTANTS, metadata_text

#: A variable's name that parses; ``//`` would begin a comment.
_NAME = re.compile(r"(?!.*//)/?([0-9]+\.)*[A-Za-z_]([\w/]*\w)?(\.([0-9]+\.)*[A-Za-z_]([\w/]*\w)?)*", re.ASCII)
_INDENT = "  "
#: The deepest indentation: with more the text would grow with the square of its depth.
_MOST_INDENTS = 64


def pretty_print(what: IRModule | Expr | Op) -> str:
    """The text without the metadata section.  Raises ArgumentError."""
    return astext(what, show_meta_data=False)


def astext(
    what: IRModule | Expr | Op,
    show_meta_data: bool = True,
    annotate: Annotate | None = None,
    *,
    show_types: bool = False,
    show_spans: bool = False,
) -> str:
    """The text of a module, an expression or an operator.

    Constants that are no literals go to a metadata section; without ``show_meta_data`` it is omitted, and the text does not parse
    back.  ``show_types`` adds a comment with the inferred type to each line that has one, ``show_spans`` with its place in the
    source, ``annotate`` with the text that the function gives for the line's expression.  Raises ArgumentError.
    """
    if not isinstance(what, (Expr, IRModule, Op)):
        raise wrong("astext: the argument", "a module or an expression", what)
    if annotate is not None and not callable(annotate):
        raise wrong("astext: annotate", "a function of an expression, whose result is a text", annotate)
    comments = Comments(show_types, show_spans, annotate)
    constants: dict[int, Constant] = {}
    if isinstance(what, IRModule):
        texts = [_definition(data) for data in what.type_definitions.values()]
        texts += [_Printer(constants, comments).definition(name, f) for name, f in what.functions.items()]
    elif isinstance(what, Op):
        texts = [f"{what.name}\n"]
    else:
        texts = [_Printer(constants, comments).expression(what)]
    parts = [VERSION_LINE + "\n", *texts]
    if constants and show_meta_data:
        parts.append("\n" + metadata_text(c.data for c in constants.values()))
    text = "".join(parts)
    return text if isinstance(what, IRModule) else text.removesuffix("\n")


class _Printer:
    """The printer of one function or expression."""

    def __init__(self, constants: dict[int, Constant], comments: Comments) -> None:
        self.constants, self.comments = constants, comments
        self.names: dict[int, str] = {}
        #: Names in use, each with the last number appended to distinguish its variables.
        self.taken: dict[str, int] = {}
        #: The names of expressions with a line of their own: ``%3``.
        self.lines: dict[int, str] = {}
        self.out: list[str] = []
        self.blocks: Blocks

    def definition(self, name: str, function: Function) -> str:
        self.blocks = Blocks(function.body)
        self.out.append(f"def @{name}{self.signature(function)} ")
        run(self.block(self.blocks.root, 0))
        return "".join(self.out) + "\n"

    def expression(self, expr: Expr) -> str:
        self.blocks = Blocks(expr)
        for var in free_vars(expr):
            self.out.append(f"free_var {self.var(var)};\n")
        run(self.lines_of(self.blocks.root, ""))
        return "".join(self.out)

    # ---- blocks ----

    def block(self, block: Block, depth: int) -> Steps[None]:
        """``{``, the lines, ``}``."""
        self.out.append("{\n")
        yield self.lines_of(block, _INDENT * min(depth + 1, _MOST_INDENTS))
        self.out.append(_INDENT * depth + "}")

    def lines_of(self, block: Block, indent: str) -> Steps[None]:
        depth = len(indent) // len(_INDENT)
        for item, is_binding in block.lines:
            if is_binding:
                assert isinstance(item, Let)
                self.out.append(f"{indent}let {self.var(item.var)} = ")
                yield self.inline(item.value, depth)
                self.out.append(f";{self.comments.of(item.value)}\n")
            else:
                self.out.append(f"{indent}")
                at = len(self.out)
                yield self.inline(item, depth)
                # numbered after its own blocks, so that numbers ascend line by line
                name = self.lines[id(item)] = f"%{len(self.lines)}"
                self.out[at:at] = [f"{name} = "]
                self.out.append(f";{self.comments.of(item)}\n")
        self.out.append(indent)
        yield self.inline(block.result, depth)
        self.out.append(f"{self.comments.of(block.result)}\n")

    # ---- expressions ----

    def inline(self, expr: Expr, depth: int) -> Steps[None]:
        """The expression itself; its children are leaves or have lines of their own."""
        if id(expr) in self.lines or isinstance(expr, LEAVES):
            self.out.append(self.atom(expr))
            return
        match expr:
            case If(cond=cond, constructor=constructor):
                true, false = self.blocks.inside(expr)
                self.out.append(f"if ({self.atom(cond)}{' is ' * bool(constructor)}{constructor}) ")
                yield self.block(true, depth)
                self.out.append(" else ")
                yield self.block(false, depth)
            case Function():
                self.out.append(f"fn {self.signature(expr)} ")
                yield self.block(self.blocks.inside(expr)[0], depth)
            case Match():
                yield self.match(expr, depth)
            case Let():
                yield self.block(self.blocks.inside(expr)[0], depth)
            case _:
                self.out.append(self.flat(expr))

    def match(self, expr: Match, depth: int) -> Steps[None]:
        """A line for each clause."""
        self.out.append(f"match{'' if expr.complete else '?'} ({self.atom(expr.data)}) {{\n")
        for clause, block in zip(expr.clauses, self.blocks.inside(expr), strict=True):
            self.out.append(f"{_INDENT * (depth + 1)}{self.pattern(clause.lhs)} => ")
            yield self.block(block, depth + 1)
            self.out.append(",\n")
        self.out.append(_INDENT * depth + "}")

    def pattern(self, pattern: Pattern) -> str:
        match pattern:
            case PatternVar(var=var):
                return self.var(var)
            case PatternConstructor(constructor=constructor, patterns=patterns):
                fields = f"({', '.join(map(self.pattern, patterns))})" if patterns else ""
                return f"{constructor.name_hint}{fields}"
            case PatternTuple(patterns=patterns):
                return f"({', '.join(map(self.pattern, patterns))}{',' if len(patterns) == 1 else ''})"
        return "_"

    def flat(self, expr: Expr) -> str:
        match expr:
            case Call(op=op, args=args, attrs=attrs):
                shown = [self.atom(arg) for arg in args]
                shown += [f"{name}={value_text(value)}" for name, value in shown_attrs(attrs)]
                if isinstance(op, Constructor) and not shown:
                    return op.name_hint
                types = f"[{', '.join(map(str, expr.type_args))}]" if expr.type_args else ""
                return f"{op.name if isinstance(op, Op) else self.head(op)}{types}({', '.join(shown)})"
            case RefCreate(value=value):
                return f"ref({self.atom(value)})"
            case RefRead(ref=ref):
                return f"ref_read({self.atom(ref)})"
            case RefWrite(ref=ref, value=value):
                return f"ref_write({self.atom(ref)}, {self.atom(value)})"
            case Tuple(fields=fields):
                return f"({', '.join(map(self.atom, fields))}{',' if len(fields) == 1 else ''})"
            case TupleGetItem(tuple_value=value, index=index):
                return f"{self.head(value)}.{index}"
        raise AssertionError(f"no such expression: {type(expr).__name__}")

    def atom(self, expr: Expr) -> str:
        if id(expr) in self.lines:
            return self.lines[id(expr)]
        match expr:
            case Var():
                return "%" + self.name(expr)
            case GlobalVar(name=name):
                return f"@{name}"
            case Constructor(name_hint=name):
                return name
            case Constant(data=data):
                return self.constant(expr, data)
        raise AssertionError(f"{type(expr).__name__} has no line of its own")

    def head(self, expr: Expr) -> str:
        """An atom before ``(`` or ``.0``, in parentheses if a constant: a minus would apply to the whole, and ``1.0`` is a
        number."""
        return f"({self.atom(expr)})" if isinstance(expr, Constant) else self.atom(expr)

    def constant(self, expr: Constant, data: np.ndarray) -> str:
        literal = literal_text(data) if data.ndim == 0 else None
        if literal is not None:
            return literal
        self.constants.setdefault(id(expr), expr)
        return f"meta[{CONSTANTS}][{list(self.constants).index(id(expr))}]"

    # ---- names and types ----

    def signature(self, function: Function) -> str:
        params = [self.var(param) for param in function.params]
        params += [f"{name}={value_text(value)}" for name, value in function.attrs.items()]
        result = f" -> {function.ret_type}" if function.ret_type is not None else ""
        return f"{type_params(function.type_params)}({', '.join(params)}){result}"

    def var(self, var: Var) -> str:
        """A variable at its binding."""
        return f"%{self.name(var)}{_annotation(var.annotation)}"

    def name(self, var: Var) -> str:
        if id(var) not in self.names:
            base = name = _valid(var.name)
            while name in self.taken:
                self.taken[base] += 1
                name = f"{base}{self.taken[base]}"
            self.names[id(var)] = name
            self.taken[name] = 0
        return self.names[id(var)]


def type_params(type_vars: Sequence[TypeVar]) -> str:
    """Type parameters in brackets; empty for none."""
    return f"[{', '.join(v.name for v in type_vars)}]" if type_vars else ""


def _definition(data: TypeData) -> str:
    """A type definition."""
    head = f"type {data.header}{type_params(data.type_vars)}"
    if not data.constructors:
        return f"extern {head}\n"
    lines = []
    for c in data.constructors:
        fields = f"({', '.join(map(str, c.inputs))})" if c.inputs else ""
        lines.append(f"{_INDENT}{c.name_hint}{fields},\n")
    return f"{head} {{\n{''.join(lines)}}}\n"


def _annotation(ty: Type | None) -> str:
    return "" if ty is None else f": {ty}"


def _valid(name: str) -> str:
    """The name, or a similar one that parses."""
    if _NAME.fullmatch(name):
        return name
    name = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return name if name[:1].isalpha() or name[:1] == "_" else f"v{name}"
