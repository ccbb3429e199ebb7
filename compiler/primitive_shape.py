"""The shape function of a primitive, made once: allocation asks what it needs, emission writes its program out."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from functools import cached_property

from ..ops.group import Group
from ..ops.kernels.reads import reads
from ..ops.op import OpPattern
from ..ops.relate import PrimitiveShape, shape_program
from .ir import Function
from .primitive import group_of


@dataclass(frozen=True)
class Primitive:
    """A primitive function as the last passes see it: its group and its shape function."""

    group: Group
    shape: PrimitiveShape

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


_known: weakref.WeakKeyDictionary[Function, dict[str, Primitive]] = weakref.WeakKeyDictionary()


def primitive(function: Function, dependence: str = "input") -> Primitive:
    """The primitive that ``function`` is; ``dependence``: which flags hold (see ``data_dependent``)."""
    modes = _known.setdefault(function, {})
    if dependence not in modes:
        group = group_of(function)
        modes[dependence] = Primitive(group, shape_program(group, dependence))
    return modes[dependence]
