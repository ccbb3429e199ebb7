"""Programs altered by their syntax, and programs of random operators: the results are grammatical and often have a type."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import relayvm as relay
from relayvm.compiler.passes.infer_type import infer_type
from relayvm.compiler.passes.to_a_normal_form import to_a_normal_form
from relayvm.compiler.text.attributes import value_text
from relayvm.compiler.text.header import split_header
from relayvm.compiler.text.parser import _syntax
from relayvm.ops.core.op import REGISTRY, Op, OpPattern
from relayvm.ops.core.tensor_types import DTYPES
from relayvm.vm.diagnostics.source import SourceText

#: Values that an attribute is given, right or wrong for it.
VALUES = [
    "0", "1", "2", "3", "-1", "-2", "7", "64", "9223372036854775807", "-9223372036854775808", "9223372036854775808",
    "99999999999999999999999", "0.5f", "1e-5f", "inff", "nanf", "True", "False", "None", '"float32"', '"int64"', '"int32"',
    '"bool"', '"linear"', '"NCHW"', '"NHWC"', '"ascend"', '"x"', '""', "float64", "int8", "[]", "[0]", "[1]", "[-1]", "[0, 1]",
    "[1, 0]", "[1, 1]", "[2, 2]", "[0, 0]", "[-1, 4]", "[2, 3]", "[1, 2, 3, 4]", "[0, 0, 0, 0]", "[[0, 0], [1, 1]]",
    "[4611686018427387904, 4]", "[None]", "[True]", "(1,)", "()", "[3, -1, 0, -2]", "[-3]", "[9, 9, 9, 9, 9, 9, 9, 9, 9]",
]  # fmt: skip
NUMBERS = [
    "0", "1", "-1", "2", "7", "1f", "0f", "-0f", "inff", "nanf", "0.5f64", "3i64", "-1i64", "255u8", "1i8", "2f16", "1bf16",
    "2147483647", "9223372036854775807i64", "-9223372036854775808i64", "18446744073709551615u64", "300i8", "True", "False",
]  # fmt: skip
DIMS = ["?", "?n", "?m", "0", "1", "2", "3", "4", "8", "4294967296", "4611686018427387904", "9223372036854775807"]


@functools.cache
def operators() -> tuple[Op, ...]:
    """Every operator, the machine's own among them: a text may say their names."""
    return tuple(REGISTRY[name] for name in sorted(REGISTRY))


# ---- trees ---------------------------------------------------------------------------------------------------------------


@functools.lru_cache(64)
def fragments(text: str) -> dict[str, list[tuple[int, int]]]:
    """Places of the parts of a program, by kind: the rules of the grammar and the kinds of its words."""
    source = SourceText("<string>", text)
    problems: list[Any] = []
    tree = _syntax(source, split_header(source, problems, need_version=False), "module", problems)
    found: dict[str, list[tuple[int, int]]] = {}
    if problems:
        return found

    def add(kind: str, start: int, end: int) -> None:
        found.setdefault(kind, []).append((start, end))
        if kind in _EXPRESSIONS:
            found.setdefault("expression", []).append((start, end))

    pending = [tree]
    while pending:
        node = pending.pop()
        if hasattr(node, "children"):
            if node.start_pos is not None:
                add(node.data, node.start_pos, node.end_pos)
            pending += node.children
        elif node is not None:
            add(node.type, node.start_pos, node.end_pos)
    return found


_EXPRESSIONS = {
    "call", "project", "local", "global_var", "number", "bool", "tuple", "if_", "function", "block", "infix", "minus", "index",
    "tensor", "match",
}  # fmt: skip
_TYPES = {"tensor_type", "named_type", "tuple_type", "fn_type"}


def _span(r: Random, text: str, *kinds: str) -> tuple[int, int] | None:
    all_of_them = [span for kind in kinds for span in fragments(text).get(kind, ())]
    return r.choice(all_of_them) if all_of_them else None


def _put(text: str, span: tuple[int, int] | None, new: str) -> str:
    return text if span is None else text[: span[0]] + new + text[span[1] :]


def _swap(r: Random, text: str) -> str:
    """One part in the place of another of its kind, or both exchanged."""
    kind = r.choice(["expression", "expression", "expression", "let", "_type", "attribute", "block", "definition", "list"])
    kinds = tuple(_TYPES) if kind == "_type" else (kind,)
    a, b = _span(r, text, *kinds), _span(r, text, *kinds)
    if a is None or b is None:
        return text
    if r.random() < 0.5:
        return _put(text, a, text[b[0] : b[1]])
    a, b = sorted((a, b))
    if a[1] > b[0]:
        return text
    return text[: a[0]] + text[b[0] : b[1]] + text[a[1] : b[0]] + text[a[0] : a[1]] + text[b[1] :]


def _operator(r: Random, text: str) -> str:
    """Another operator, of as many inputs as a rule."""
    span = _span(r, text, "operator")
    if span is None:
        return text
    old = REGISTRY.get(text[span[0] : span[1]])
    alike = [op for op in operators() if old is None or len(op.inputs) == len(old.inputs)]
    return _put(text, span, r.choice(alike if r.random() < 0.9 else operators()).name)


_SIGNS = ["+", "-", "*", "/", "==", "<", ">="]


def _sign(r: Random, text: str) -> str:
    return _put(
        text,
        _span(r, text, "PLUS", "MINUS", "STAR", "SLASH", "EQUALITY", "RELATION"),
        r.choice(_SIGNS),
    )


def _dtype(r: Random, text: str) -> str:
    names = [s for s in fragments(text).get("NAME", ()) if text[s[0] : s[1]] in DTYPES]
    return _put(text, r.choice(names), r.choice(DTYPES)) if names else text


def _dim(r: Random, text: str) -> str:
    return _put(text, _span(r, text, "_dim", "dims", "DIM"), r.choice(DIMS))


def _number(r: Random, text: str) -> str:
    return _put(text, _span(r, text, "NUMBER", "BOOL"), r.choice(NUMBERS))


def _attribute(r: Random, text: str) -> str:
    """Another value, a second one, or none."""
    span = _span(r, text, "attribute")
    if span is None:
        return text
    name = text[span[0] : span[1]].partition("=")[0]
    return _put(text, span, r.choice([f"{name}={r.choice(VALUES)}"] * 4 + ["", text[span[0] : span[1]] + f", {name}=1"]))


def _variable(r: Random, text: str) -> str:
    """Another variable where one is bound or used."""
    a, b = _span(r, text, "LOCAL", "GRAPH"), _span(r, text, "LOCAL", "GRAPH", "GLOBAL")
    return _put(text, a, text[b[0] : b[1]]) if a and b else text


def _statement(r: Random, text: str) -> str:
    """A statement less, or twice."""
    span = _span(r, text, "let", "graph", "sequence")
    return _put(text, span, r.choice(["", 2 * text[span[0] : span[1]]])) if span else text


def _wrap(r: Random, text: str) -> str:
    """An expression within another."""
    span = _span(r, text, "expression")
    if span is None:
        return text
    inner = text[span[0] : span[1]]
    unary = r.choice([op.name for op in operators() if len(op.inputs) == 1])
    forms = [
        f"({inner}, {inner})", f"({inner},)", f"{inner}.0", f"-{inner}", f"({inner} + {inner})", f"{unary}({inner})",
        f"if (True) {{ {inner} }} else {{ {inner} }}", f"fn () {{ {inner} }}", f"fn () {{ {inner} }}()", f"{inner}()",
        f"{{ let %made = {inner}; %made }}", f"(let %made = {inner}; %made)", f"match {inner} {{ %made => %made }}",
        f"({inner}, {inner}).1", f"shape_of({inner}, dtype=\"int64\")", f"{inner}.7",
        f"fn (%q: Tensor[(?, 4), float32]) {{ {inner} }}",
    ]  # fmt: skip
    return _put(text, span, r.choice(forms))


def _deep(r: Random, text: str) -> str:
    """An expression within many others of one kind."""
    span = _span(r, text, "expression")
    if span is None:
        return text
    head, tail = r.choice(
        [("(", ",)"), ("-", ""), ("exp(", ")"), ("{", "}"), ("", ".0"), ("fn () {", "}"), ("if (True) {", "} else {1f}")]
    )
    n = r.choice([20, 100, 600])
    return _put(text, span, head * n + text[span[0] : span[1]] + tail * n)


_ALTERATIONS: tuple[tuple[Callable[[Random, str], str], int], ...] = (
    (_swap, 4), (_operator, 4), (_sign, 1), (_dtype, 2), (_dim, 3), (_number, 2), (_attribute, 3), (_variable, 3),
    (_statement, 2), (_wrap, 3),
)  # fmt: skip


def altered(r: Random, text: str) -> str:
    """The program with one to three parts altered."""
    kinds, weights = zip(*_ALTERATIONS, strict=True)
    for kind in r.choices(kinds, weights, k=r.choice([1, 1, 2, 3])):
        text = kind(r, text)
    return _deep(r, text) if r.random() < 0.01 else text


# ---- programs that are made ----------------------------------------------------------------------------------------------

_PARAMETERS = [
    "Tensor[(?n, 4), float32]", "Tensor[(3, 4), float32]", "Tensor[(?n), int64]", "Tensor[(2), int64]", "int64", "float32",
    "bool", "Tensor[(?, ?), float32]",
    "Tensor[(2, 3, 8, 8), float32]", "Tensor[(?b, 3, ?h, ?w), float32]", "Tensor[(?n, 4), int32]",
    "Tensor[(0, 4), float32]", "Tensor[(?n, 4), float16]", "(Tensor[(?n, 4), float32], Tensor[(?m, 4), float32])",
    "Tensor[(?n, 4), bool]", "Tensor[(1), int32]", "Tensor[(4, 4), float64]", "Tensor[(?k), float32]",
]  # fmt: skip


def made(r: Random) -> str:
    """A program of one to six calls of drawn operators on what there is; of most calls some are tried until one has a type."""
    values = [f"%p{i}" for i in range(r.randint(1, 4))]
    alike = r.choice(_PARAMETERS)
    params = ", ".join(f"{v}: {alike if r.random() < 0.6 else r.choice(_PARAMETERS)}" for v in values)
    lines: list[str] = []

    def whole(result: str) -> str:
        return f'#[version = "0.0.5"]\ndef @main({params}) {{\n' + "".join(lines) + f"  {result}\n}}\n"

    for i in range(r.randint(1, 6)):
        lines.append("")
        for _ in range(r.choice([1, 8, 8, 8])):
            lines[-1] = f"  let %v{i} = {_call(r, values)};\n"
            if _has_type(whole(f"%v{i}")):
                break
        values.append(f"%v{i}")
    return whole(r.choice([values[-1], values[-1], f"({', '.join(values)},)"]))


def _has_type(text: str) -> bool:
    """Whether the program has a type; also one that makes inference fail otherwise than by refusing it is kept."""
    try:
        infer_type(to_a_normal_form(relay.parse(text)))
    except relay.RelayError:
        return False
    except Exception:
        return True
    return True


def _call(r: Random, values: list[str]) -> str:
    op = r.choice([op for op in operators() if op.pattern is not OpPattern.MACHINE])
    args = []
    for name in op.inputs:
        one = [r.choice(values[-3:] if r.random() < 0.7 else [*values, r.choice(NUMBERS)]) for _ in range(r.randint(1, 3))]
        args.append(f"({', '.join(one)},)" if name.endswith("*") else one[0])
    for field in dataclasses.fields(op.attrs):
        missing = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if r.random() < (0.97 if missing else 0.25):
            wanted = r.random() < 0.97
            args.append(f"{field.name}={_value(r, op.attrs, field.name) if wanted else r.choice(VALUES)}")
    return f"{op.name}({', '.join(args)})"


def _value(r: Random, attrs: type, name: str) -> str:
    """A value of the attribute's own type, most often a small one."""
    return _of_type(r, typing.get_type_hints(attrs)[name])


def _of_type(r: Random, hint: Any) -> str:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _of_type(r, r.choice(args))
    if origin is typing.Literal:
        return value_text(r.choice(args))
    if origin is tuple:
        parts = [args[0]] * r.choice([1, 2, 2, 3, 4]) if len(args) == 2 and args[1] is Ellipsis else args
        return f"[{', '.join(_of_type(r, a) for a in parts)}]"
    if hint is str:
        return r.choice([f'"{d}"' for d in DTYPES] + ['"NCHW"', '"x"'])
    if hint is bool:
        return r.choice(["True", "False"])
    if hint is int:
        return r.choice(
            ["0", "1", "1", "2", "2", "3", "4", "-1", "-2", "9223372036854775807", "-9223372036854775808", "4294967296"]
        )
    return r.choice(["0.5f64", "1", "0", "nanf64", "-2.0f64"]) if hint is float else r.choice(VALUES)


def programs(texts: Iterator[str]) -> tuple[str, ...]:
    """The texts that are programs, with the version line."""
    out = []
    for text in texts:
        whole = text if text.lstrip().startswith("#[version") else '#[version = "0.0.5"]\n' + text
        try:
            relay.parse(whole)
        except relay.RelayError:
            continue
        out.append(whole)
    return tuple(out)
