"""The shape function of a primitive, made once: allocation asks what it needs, emission writes its program out."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from functools import cached_property

from ..ops.choice import FORCED, force
from ..ops.conditions import Choice
from ..ops.group import Group
from ..ops.kernels.reads import reads
from ..ops.op import OpPattern
from ..ops.relate import PrimitiveShape, shape_program
from ..shape_funcs.registry import Check
from .ir import Function
from .primitive import choice_of, group_of


@dataclass(frozen=True)
class Primitive:
    """A primitive function as the last passes see it: its group and its shape function."""

    group: Group
    shape: PrimitiveShape
    choice: Choice | None = None

    @property
    def is_view(self) -> bool:
        """Is it one RESHAPE operator, that is, no kernel at all?"""
        return self.group.nodes[0].operator.pattern is OpPattern.RESHAPE

    @cached_property
    def reads(self) -> tuple[bool, ...]:
        """Per parameter: does the kernel read its values?  Of the others it needs the sizes only, wherever they lie."""
        return reads(self.group)

    @cached_property
    def code(self) -> tuple[int, ...]:
        """What the shape function does: equal for equal results and checks, whatever the messages say."""
        return tuple(self.shape.program.words())


def _needed(group: Group, choice: Choice) -> tuple[Check, ...]:
    """What an implementation that was forced needs of sizes, where only a run knows them."""
    if choice.because != FORCED:
        return ()
    op = group.nodes[0].op
    _, needed = force(group.call_on(), choice.names[0])
    text = f"{op}: its implementation {choice.names[0]!r}, which is forced, needs {{}}: {{{{}}}} {{}} {{{{}}}} is not so"
    return tuple(Check(c.holds, text.format(c, c.relation), (c.left, c.right)) for c in needed)


_known: weakref.WeakKeyDictionary[Function, dict[str, Primitive]] = weakref.WeakKeyDictionary()


def primitive(function: Function, dependence: str = "input") -> Primitive:
    """The primitive that ``function`` is; ``dependence``: which flags hold (see ``data_dependent``)."""
    modes = _known.setdefault(function, {})
    if dependence not in modes:
        group = group_of(function)
        choice = choice_of(function)
        guards, checks = (choice.guards, _needed(group, choice)) if choice else ((), ())
        modes[dependence] = Primitive(group, shape_program(group, dependence, guards, checks), choice)
    return modes[dependence]
