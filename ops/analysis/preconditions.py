"""Preconditions of a group's kernel on the tensors of a call, derived from the group; untrusted launches check them.

A kernel reads each size from any one of the tensors that have it.  Therefore the result sizes of a call must equal the outputs of
the group's shape program, all occurrences of a symbol must be equal, and the conditions of the chosen implementation must hold.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ...declarations.frozen_dataclass import frozen
from ...shape_funcs.symbolic.dim import RESULT, SYM, Dim, axis_size, const, dim
from ...shape_funcs.symbolic.dim_operations import eq
from ...shape_funcs.symbolic.program import SIZE, Load, ShapeProgram, assemble
from ...shape_funcs.symbolic.registry import Check
from ..codegen.cpu import epilogue
from ..codegen.cuda import following
from ..codegen.loop_nest import element_inputs
from ..core.conditions import undecided
from ..core.group import Group
from ..core.implementation import GPU, HOST
from ..core.op import TypeRelError
from ..core.type_relation import checks_and_loads, counts_of
from .aliasing import in_place_pairs
from .uses import reads

#: Number in place of a tensor's: no tensor.
NO_TENSOR = -1


@frozen
class Demands:
    """Preconditions of a launch.  ``tensors``: the number of tensors of a call; the last ``outputs`` of them are written.

    ``equal``: rows ``(tensor, axis, other tensor, its axis)`` of equal sizes, or ``(tensor, axis, NO_TENSOR, size)``.
    ``program``: a shape program with the remaining conditions on sizes and on values that determine sizes; its inputs are the
    tensors, it has checks and no outputs; None if there are no further conditions.  ``over``: for each output the tensor whose
    memory it may share, or NO_TENSOR.  ``reads``: per tensor, whether its memory is accessed.
    """

    outputs: int
    equal: tuple[tuple[int, int, int, int], ...]
    program: ShapeProgram | None
    over: tuple[int, ...]
    reads: tuple[bool, ...]

    @property
    def tensors(self) -> int:
        return len(self.reads)


def demands(group: Group, machine: str = HOST) -> Demands:
    """The preconditions of ``group`` on ``machine`` (see ``Kernel.devices``).

    Raises TypeRelError if the group has no kernel there, if its implementation does not take the call, or if the group declares
    in-place pairs that its kernel does not support.
    """
    _check_in_place(group, machine)
    values = group.values()
    results = [values[r].shape for r in group.results]
    first = len(group.params)
    sizes = _SizeConditions()
    for number, tensor in enumerate(group.params):
        for axis, d in enumerate(tensor.shape):
            sizes.demand(number, axis, d)
    checks, values_read = checks_and_loads(group)
    sizes.known.update(values_read)
    for number, shape in enumerate(results, first):
        for axis, d in enumerate(shape):
            # allocated for the upper bound
            sizes.demand(number, axis, d.args[0] if d.op == RESULT else d)
    if counts := counts_of(results):
        sizes.demand(first + len(results), 0, dim(1 + max(index for _, index in counts)))
    over = {first + result: param for param, result in group.in_place}
    n = first + group.n_outputs
    return Demands(
        group.n_outputs,
        tuple(sizes.equal),
        sizes.program((*checks, *_conditions(group, machine))),
        tuple(over.get(k, NO_TENSOR) for k in range(first, n)),
        (*reads(group), *[True] * group.n_outputs),
    )


def _conditions(group: Group, machine: str) -> tuple[Check, ...]:
    """The run-time conditions under which the group's implementation is correct.  Raises TypeRelError."""
    operator = group.main.operator
    if not operator.kernels:
        return ()
    kernel = group.kernel_on(machine)
    if len(group.nodes) > 1 and not _are_together(group, machine):
        raise TypeRelError(f"{group.name}: no kernel applies its operators together")
    call = group.call_on(machine)
    if kernel is None or not kernel.takes(call):
        raise TypeRelError(f"{operator.name}: its implementation {group.implementation!r} does not take the call")
    left = undecided(kernel.fits(call))
    if left is None:
        raise TypeRelError(f"{operator.name}: its implementation {kernel.name!r} is not made for these sizes")
    return tuple(Check(c.holds, "") for c in left)


def _are_together(group: Group, machine: str) -> bool:
    """Whether a kernel for ``machine`` computes an operator with kernels of its own, and others."""
    if group.has_prologue:
        return machine == GPU and element_inputs.fits(group)
    return epilogue.fits(group) if machine == HOST else following.runs_whole(group)


def _check_in_place(group: Group, machine: str) -> None:
    """Raise TypeRelError if the group declares in-place pairs that its kernel does not support."""
    if not set(group.in_place) <= set(in_place_pairs(group, machine)):
        raise TypeRelError(f"{group.name}: its kernel does not write over parameters as in {group.in_place!r}")
    for side in zip(*group.in_place, strict=True):
        if len(set(side)) < len(side):
            raise TypeRelError(f"{group.name}: two results over one parameter, or one over two, in {group.in_place!r}")


@dataclass
class _SizeConditions:
    """Accumulated preconditions on sizes.  ``known``: the load of each symbolic size or value."""

    known: dict[Dim, Load] = field(default_factory=dict)
    equal: list[tuple[int, int, int, int]] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)

    def demand(self, number: int, axis: int, d: Dim) -> None:
        """Require size ``d`` of axis ``axis`` of tensor ``number``; the first occurrence of a symbol defines its value."""
        size, load = const(d), self.known.get(d)
        if size is not None:
            self.equal.append((number, axis, NO_TENSOR, size))
        elif load is not None and load[1] == SIZE:
            self.equal.append((number, axis, load[0], load[2]))
        elif load is None and d.op == SYM:
            self.known[d] = (number, SIZE, axis)
        else:
            here = axis_size(number, axis)
            self.known[here] = (number, SIZE, axis)
            self.checks.append(Check(eq(here, d), ""))

    def program(self, checks: Iterable[Check]) -> ShapeProgram | None:
        """The shape program of the conditions that are not rows of ``equal``, and of ``checks``; None if there are none."""
        wanted = [Check(c.condition, "") for c in (*self.checks, *checks) if const(c.condition) != 1]
        return assemble((), wanted, self.known) if wanted else None
