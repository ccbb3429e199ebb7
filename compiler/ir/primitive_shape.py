"""Shape functions of primitives, built once for allocation, memory planning and emission."""

from __future__ import annotations

import weakref
from dataclasses import replace
from functools import cached_property

from ...declarations.frozen_dataclass import frozen
from ...ops.analysis.uses import reads
from ...ops.codegen.cpu import opaque_kernel
from ...ops.core.conditions import Choice
from ...ops.core.group import Group
from ...ops.core.implementation import HOST
from ...ops.core.op import OpPattern
from ...ops.core.tensor_types import TensorType
from ...ops.core.type_relation import PrimitiveShape, as_size, shape_program
from ...ops.strategy.choice import FORCED, force
from ...shape_funcs.symbolic.dim import UNKNOWNS, Dim, const, dim, fresh, postorder
from ...shape_funcs.symbolic.dim_operations import max_, substitute, where
from ...shape_funcs.symbolic.registry import Check
from .expr import Call, Function
from .lowering_context import LoweringContext
from .primitive import choice_of, group_of, machine_of

#: The least known size in bytes of a planned workspace; the kernel allocates a smaller one itself.
SMALL_WORKSPACE = 4096
_NOTHING = dim(0)


@frozen
class Primitive:
    """A primitive function as the last passes see it: its group and its shape function.

    ``workspace``: the size in bytes of the workspace that a call provides, sufficient for each version that may run, over the
    sizes of the group's parameters; 0 for none.  ``guards``: of the versions.  An unknown workspace size and the guards are the
    last vectors of the shape function.
    """

    group: Group
    shape: PrimitiveShape
    choice: Choice | None = None
    workspace: Dim = _NOTHING
    guards: tuple[Dim, ...] = ()

    @property
    def is_view(self) -> bool:
        """Whether it is one RESHAPE operator, and hence has no kernel."""
        return self.group.nodes[0].operator.pattern is OpPattern.RESHAPE

    @cached_property
    def reads(self) -> tuple[bool, ...]:
        """Per parameter whether the kernel reads its elements.  Of the other parameters it needs the sizes only."""
        return reads(self.group)

    @cached_property
    def code(self) -> tuple[int, ...]:
        """The program of the shape function without its messages: equal for equal results and checks."""
        return tuple(self.shape.program.words())


def _needed(group: Group, choice: Choice, machine: str) -> tuple[Check, ...]:
    """The run-time checks on sizes that a forced implementation requires."""
    if choice.because != FORCED:
        return ()
    op = group.nodes[0].op
    _, needed = force(group.call_on(machine), choice.names[0])
    text = f"{op}: its implementation {choice.names[0]!r}, which is forced, needs {{}}: {{{{}}}} {{}} {{{{}}}} is not so"
    return tuple(Check(c.holds, text.format(c, c.relation), (c.left, c.right)) for c in needed)


def _workspace(group: Group, choice: Choice | None) -> Dim:
    """The workspace in bytes of the versions of a host primitive, the largest whose guard holds; 0 if it is known to be small."""
    if not group.nodes[0].operator.kernels:
        return _NOTHING
    names, guards = (choice.names, choice.guards) if choice else ((group.implementation,), ())
    most = _NOTHING
    for name, guard in zip(names, (*guards, dim(1)), strict=True):
        most = max_(most, where(guard, opaque_kernel.workspace(replace(group, implementation=name)), 0))
    known = const(most)
    return _NOTHING if known is not None and known < SMALL_WORKSPACE else most


_known: weakref.WeakKeyDictionary[Function, dict[tuple[str, str], Primitive]] = weakref.WeakKeyDictionary()


def primitive(function: Function, context: LoweringContext) -> Primitive:
    """The primitive of ``function``, in a program that is lowered in ``context``."""
    modes, mode = _known.setdefault(function, {}), (context.data_dependence, machine_of(function, context.target))
    if mode not in modes:
        group, choice = group_of(function), choice_of(function)
        guards, checks = (tuple(choice.guards), _needed(group, choice, mode[1])) if choice else ((), ())
        workspace = _workspace(group, choice) if mode[1] == HOST else _NOTHING
        sizes = (*([workspace] if const(workspace) is None else []), *guards)
        modes[mode] = Primitive(group, shape_program(group, mode[0], sizes, checks), choice, workspace, guards)
    return modes[mode]


def workspace_type(call: Call, prim: Primitive) -> TensorType:
    """The type of the workspace that ``call`` of a primitive provides, over the sizes of its arguments."""
    known: dict[Dim, Dim] = {}
    for a, tensor in zip(call.args, prim.group.params, strict=True):
        assert isinstance(a.ty, TensorType), a
        known |= dict(zip(tensor.shape, a.ty.shape, strict=True))
    is_known = all(d in known for d in postorder([prim.workspace]) if d.op in UNKNOWNS)
    # the size may also depend on values
    return TensorType((as_size(substitute(prim.workspace, known)) if is_known else fresh(),), "uint8")
