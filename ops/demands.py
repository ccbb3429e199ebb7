"""Demands of a group's kernel on the tensors of a call, derived from the group; a launch that is not trusted checks them.

A kernel reads sizes where they are handy and takes every other for granted.  So the sizes of all tensors of a call must be what
the group's shape program makes of its parameters', named sizes must be equal wherever they occur, and the conditions must
hold under which the chosen implementation is right.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ..shape_funcs.dims import RESULT, SYM, Dim, const, dim, eq, sym
from ..shape_funcs.program import SIZE, Load, ShapeProgram, assemble
from ..shape_funcs.registry import Check
from .conditions import undecided
from .group import Group
from .implementation import HOST
from .in_place import in_place_pairs
from .kernels.reads import reads
from .op import TypeRelError
from .relate import checks_and_loads, counts_of

#: In place of a tensor's number: there is none.
NOBODY = -1


@dataclass(frozen=True)
class Demands:
    """``tensors``: of a call, in number; the last ``outputs`` of them are written.

    ``equal``: rows ``(tensor, axis, other tensor, its axis)`` of sizes that are equal, or ``(tensor, axis, NOBODY, size)``.
    ``program``: what else sizes, and the values that decide sizes, must hold: its inputs are the tensors, it has checks and no
    outputs; None where there is nothing.  ``over``: for each output the tensor whose memory it may have, or NOBODY.
    ``reads``: is the memory of a tensor touched?
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
    """The demands of ``group`` on ``machine`` (see ``Kernel.devices``).

    Raises TypeRelError for a group that has no kernel there, whose implementation does not take the call, or which writes in
    place what that does not.
    """
    _check_in_place(group, machine)
    values = group.values()
    results = [values[r].shape for r in group.results]
    first = len(group.params)
    sizes = _Sizes()
    for number, tensor in enumerate(group.params):
        for axis, d in enumerate(tensor.shape):
            sizes.demand(number, axis, d)
    checks, values_read = checks_and_loads(group)
    sizes.known.update(values_read)
    for number, shape in enumerate(results, first):
        for axis, d in enumerate(shape):
            # allocated for the most there may be
            sizes.demand(number, axis, d.args[0] if d.op == RESULT else d)
    if counts := counts_of(results):
        sizes.demand(first + len(results), 0, dim(1 + max(index for _, index in counts)))
    over = {first + result: param for param, result in group.in_place}
    n = first + group.n_outputs
    return Demands(
        group.n_outputs,
        tuple(sizes.equal),
        sizes.program((*checks, *_conditions(group, machine))),
        tuple(over.get(k, NOBODY) for k in range(first, n)),
        (*reads(group), *[True] * group.n_outputs),
    )


def _conditions(group: Group, machine: str) -> tuple[Check, ...]:
    """Those under which the implementation is right, and which sizes at run time decide.  Raises TypeRelError."""
    operator = group.nodes[0].operator
    if not operator.kernels:
        return ()
    kernel = group.kernel_on(machine)
    call = group.call_on(machine) if len(group.nodes) == 1 else None
    if kernel is None or call is None or not kernel.takes(call):
        raise TypeRelError(f"{operator.name}: its implementation {group.implementation!r} does not take the call")
    left = undecided(kernel.fits(call))
    if left is None:
        raise TypeRelError(f"{operator.name}: its implementation {kernel.name!r} is not made for these sizes")
    return tuple(Check(c.holds, "") for c in left)


def _check_in_place(group: Group, machine: str) -> None:
    """Raises TypeRelError where the group writes over a parameter, and its kernel does not do that."""
    if not set(group.in_place) <= set(in_place_pairs(group, machine)):
        raise TypeRelError(f"{group.name}: its kernel does not write over parameters as in {group.in_place!r}")
    for side in zip(*group.in_place, strict=True):
        if len(set(side)) < len(side):
            raise TypeRelError(f"{group.name}: two results over one parameter, or one over two, in {group.in_place!r}")


@dataclass
class _Sizes:
    """Demands on sizes, one after the other.  ``known``: where each size or value is found that has a name."""

    known: dict[Dim, Load] = field(default_factory=dict)
    equal: list[tuple[int, int, int, int]] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)

    def demand(self, number: int, axis: int, d: Dim) -> None:
        """Axis ``axis`` of tensor ``number`` has the size ``d``, or gives it its value where that is not known yet."""
        size, found = const(d), self.known.get(d)
        if size is not None:
            self.equal.append((number, axis, NOBODY, size))
        elif found is not None and found[1] == SIZE:
            self.equal.append((number, axis, found[0], found[2]))
        elif found is None and d.op == SYM:
            self.known[d] = (number, SIZE, axis)
        else:
            here = sym(f".t{number}.{axis}")
            self.known[here] = (number, SIZE, axis)
            self.checks.append(Check(eq(here, d), ""))

    def program(self, checks: Iterable[Check]) -> ShapeProgram | None:
        """The program of the demands that are left, and of ``checks``."""
        wanted = [Check(c.condition, "") for c in (*self.checks, *checks) if const(c.condition) != 1]
        return assemble((), wanted, self.known) if wanted else None
