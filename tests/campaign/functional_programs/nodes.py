"""A random functional program as a tree of texts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

#: A type: a word, or a tuple of a word and types: ``("List", "int")``.
Ty = Any

WORDS = {"int": "int32", "float": "float32", "bool": "bool", "vec": "Tensor[(?), int32]", "fvec": "Tensor[(?), float32]"}


def type_text(ty: Ty) -> str:
    """The type in the text format."""
    if isinstance(ty, str):
        return WORDS.get(ty, ty)
    head, *parts = ty
    texts = [type_text(p) for p in parts]
    if head == "tuple":
        return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"
    if head == "fn":
        return f"fn({', '.join(texts[:-1])}) -> {texts[-1]}"
    if head == "ref":
        return f"ref({texts[0]})"
    return f"{head}[{', '.join(texts)}]" if texts else head


@dataclass(frozen=True)
class Node:
    """An expression of a type: texts and expressions in order.  ``form`` names its kind in the counts."""

    ty: Ty
    parts: tuple[str | Node, ...]
    form: str

    def text(self) -> str:
        """The expression in the text format."""
        return "".join(p if isinstance(p, str) else p.text() for p in self.parts)

    def nodes(self) -> Iterator[Node]:
        """This expression and all inside it."""
        yield self
        for p in self.parts:
            if isinstance(p, Node):
                yield from p.nodes()


@dataclass(frozen=True)
class GlobalFunction:
    """``head`` is the text up to the body's brace; ``after`` follows the body."""

    name: str
    head: str
    body: Node

    def text(self) -> str:
        """The definition in the text format."""
        return f"{self.head} {{\n  {self.body.text()}\n}}"


@dataclass(frozen=True)
class Program:
    """Type definitions, functions in order of definition with ``main`` last, and arguments of ``main`` as lists of numbers."""

    types: str
    functions: tuple[GlobalFunction, ...]
    arguments: tuple[tuple[str, tuple[float, ...] | float], ...]


def smaller_nodes(node: Node, simplest: dict[str, Node]) -> Iterator[Node]:
    """Simpler expressions of the same type, the simplest first; a variable may be unbound in some of them."""
    key = repr(node.ty)
    if key in simplest and simplest[key].parts != node.parts:
        yield simplest[key]
    inner = [n for n in node.nodes() if n is not node and n.ty == node.ty]
    yield from sorted(inner, key=lambda n: len(n.text()))
    for i, p in enumerate(node.parts):
        if isinstance(p, Node):
            for q in smaller_nodes(p, simplest):
                yield replace(node, parts=(*node.parts[:i], q, *node.parts[i + 1 :]))


def smaller_programs(program: Program, simplest: dict[str, Node]) -> Iterator[Program]:
    """Programs with fewer functions and simpler expressions."""
    functions = program.functions
    for i in range(len(functions) - 1):
        yield replace(program, functions=(*functions[:i], *functions[i + 1 :]))
    for i, f in enumerate(functions):
        for body in smaller_nodes(f.body, simplest):
            yield replace(program, functions=(*functions[:i], replace(f, body=body), *functions[i + 1 :]))
