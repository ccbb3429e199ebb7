"""The shape function of a primitive, made once: allocation asks what it needs, emission writes its program out."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, replace
from functools import cached_property

from ..ops.choice import FORCED, force
from ..ops.conditions import Choice
from ..ops.group import Group
from ..ops.implementation import HOST
from ..ops.kernels import opaque
from ..ops.kernels.reads import reads
from ..ops.op import OpPattern
from ..ops.relate import PrimitiveShape, as_size, shape_program
from ..ops.ty import TensorType
from ..shape_funcs.dims import Dim, const, dim, fresh, max_, substitute, symbols, where
from ..shape_funcs.registry import Check
from .ir import Call, Function
from .primitive import choice_of, group_of, machine_of

#: A workspace that is known to be smaller is left to the kernel, which allocates it.
SMALL_WORKSPACE = 4096
_NOTHING = dim(0)


@dataclass(frozen=True)
class Primitive:
    """A primitive function as the last passes see it: its group and its shape function.

    ``workspace``: the bytes that its calls bring for the kernel to work in, enough for each version that may run, over the sizes
    of the group's parameters; 0 for none.  ``guards``: of the versions.  The workspace, where it is not known, and the guards are
    the last vectors that the shape function gives.
    """

    group: Group
    shape: PrimitiveShape
    choice: Choice | None = None
    workspace: Dim = _NOTHING
    guards: tuple[Dim, ...] = ()

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


def _workspace(group: Group, choice: Choice | None) -> Dim:
    """The bytes that the versions of a primitive on the host work in, each where it may run; 0 where they are known to be few."""
    if not group.nodes[0].operator.kernels:
        return _NOTHING
    names, guards = (choice.names, choice.guards) if choice else ((group.implementation,), ())
    most = _NOTHING
    for name, guard in zip(names, (*guards, dim(1)), strict=True):
        most = max_(most, where(guard, opaque.workspace(replace(group, implementation=name)), 0))
    known = const(most)
    return _NOTHING if known is not None and known < SMALL_WORKSPACE else most


_known: weakref.WeakKeyDictionary[Function, dict[tuple[str, str], Primitive]] = weakref.WeakKeyDictionary()


def primitive(function: Function, dependence: str = "input", target: str = HOST) -> Primitive:
    """The primitive that ``function`` is, of a program for ``target``.

    ``dependence``: which flags hold (see ``data_dependent``).
    """
    modes, mode = _known.setdefault(function, {}), (dependence, machine_of(function, target))
    if mode not in modes:
        group, choice = group_of(function), choice_of(function)
        guards, checks = (tuple(choice.guards), _needed(group, choice)) if choice else ((), ())
        workspace = _workspace(group, choice) if mode[1] == HOST else _NOTHING
        sizes = (*([workspace] if const(workspace) is None else []), *guards)
        modes[mode] = Primitive(group, shape_program(group, dependence, sizes, checks), choice, workspace, guards)
    return modes[mode]


def workspace_type(call: Call, prim: Primitive) -> TensorType:
    """The type of the workspace that ``call`` of a primitive brings: over the sizes of its arguments."""
    known: dict[Dim, Dim] = {}
    for a, tensor in zip(call.args, prim.group.params, strict=True):
        assert isinstance(a.ty, TensorType), a
        known |= dict(zip(tensor.shape, a.ty.shape, strict=True))
    is_known = all(d in known for d in symbols(prim.workspace).values())
    # it may depend on values, too
    return TensorType((as_size(substitute(prim.workspace, known)) if is_known else fresh(),), "uint8")
