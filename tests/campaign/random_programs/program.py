"""A random program as plain data: statements over names, and the value that numpy gives to each name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Value:
    """The value of a name.

    ``error``: how far a result may be off, relative to itself and absolutely; 0: it must be exactly this.  ``known``: the sizes
    are known at compile time, whatever the program says of its parameters.
    """

    array: np.ndarray
    error: float = 0.0
    known: bool = False

    @property
    def kind(self) -> tuple[str, int]:
        """dtype and rank: values of one kind can stand for each other in a program that leaves sizes open."""
        return self.array.dtype.name, self.array.ndim


@dataclass(frozen=True)
class Block:
    """Statements in order, and the names that are the results."""

    statements: tuple[Statement, ...]
    results: tuple[str, ...]

    def defined(self) -> set[str]:
        """Names that its statements bind."""
        return {t for s in self.statements for t in s.targets}

    def free(self) -> list[str]:
        """Names that it uses and does not bind, in order of appearance."""
        bound: set[str] = set()
        found: dict[str, None] = {}
        for s in self.statements:
            found |= dict.fromkeys(n for n in s.uses() if n not in bound)
            bound.update(s.targets)
        found |= dict.fromkeys(n for n in self.results if n not in bound)
        return list(found)


@dataclass(frozen=True)
class Statement:
    """Binds ``targets``."""

    targets: tuple[str, ...]

    def uses(self) -> Iterable[str]:
        """The names that it reads."""
        raise NotImplementedError


@dataclass(frozen=True)
class Operation(Statement):
    """A call of an operator.  ``args``: names, a tuple of them for a tuple input.  ``fields``: the result is a tuple."""

    op: str
    args: tuple[Any, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    fields: bool = False

    def uses(self) -> Iterator[str]:
        for a in self.args:
            yield from a if isinstance(a, tuple) else (a,)


@dataclass(frozen=True)
class Choice(Statement):
    """``if (condition) { then } else { otherwise }``; several results are a tuple."""

    condition: str
    then: Block
    otherwise: Block

    def uses(self) -> Iterable[str]:
        return [self.condition, *self.then.free(), *self.otherwise.free()]


@dataclass(frozen=True)
class Apply(Statement):
    """The block as a function, called once.

    ``how``: ``global``, ``closure`` (``captured`` of the free names are not passed) or ``handed`` (a closure that another
    function calls).
    """

    block: Block
    how: str
    captured: tuple[str, ...] = ()

    def uses(self) -> Iterable[str]:
        return self.block.free()

    def passed(self) -> list[str]:
        """The arguments of the call."""
        return [n for n in self.block.free() if n not in self.captured]


@dataclass(frozen=True)
class Step:
    """One step of a loop's body: ``carried`` becomes ``op(carried, other)``.  ``other``: a name, ``@`` for the carried value
    itself, None for an operator of one input; ``joined``: the inputs are one tuple."""

    op: str
    other: str | None
    attrs: dict[str, Any] = field(default_factory=dict)
    joined: bool = False


@dataclass(frozen=True)
class Loop(Statement):
    """A function that calls itself ``counter`` times; ``tail``: as the last thing that it does."""

    counter: str
    carried: str
    steps: tuple[Step, ...]
    tail: bool

    def uses(self) -> list[str]:
        return [self.counter, self.carried, *(s.other for s in self.steps if s.other not in (None, "@"))]  # type: ignore[misc]

    def others(self) -> list[str]:
        """The names that the steps use beside the carried value."""
        return list(dict.fromkeys(self.uses()[2:]))


@dataclass(frozen=True)
class Repeat(Statement):
    """A function that calls itself ``counter`` times, 0 or 1, with the block's results for the ``carried`` names.

    ``tail``: as the last thing that it does; else it computes the block on what the inner call gives.
    """

    counter: str
    carried: tuple[str, ...]
    block: Block
    tail: bool

    def uses(self) -> list[str]:
        return [self.counter, *self.carried, *self.others()]

    def others(self) -> list[str]:
        """Arguments that do not change."""
        return [n for n in self.block.free() if n not in self.carried]


@dataclass(frozen=True)
class Program:
    """``values`` has every name; those that no statement binds are inputs: parameters, or ``constants`` of the program.

    ``sizes``: how parameters say theirs: ``any`` (``?``), ``named`` (equal sizes have one name) or ``static``.
    """

    body: Block
    values: dict[str, Value]
    constants: frozenset[str]
    sizes: str

    def inputs(self) -> list[str]:
        """Names that no statement binds."""
        return self.body.free()

    def parameters(self) -> list[str]:
        """The inputs that a run takes."""
        return [n for n in self.inputs() if n not in self.constants]


def statements(block: Block) -> Iterator[Statement]:
    """All of them, those of inner blocks too."""
    for s in block.statements:
        yield s
        for inner in blocks(s):
            yield from statements(inner)


def blocks(s: Statement) -> tuple[Block, ...]:
    """The blocks in a statement."""
    if isinstance(s, Choice):
        return s.then, s.otherwise
    return (s.block,) if isinstance(s, (Apply, Repeat)) else ()
