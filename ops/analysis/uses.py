"""Uses: the parameters whose values a kernel reads.  Of all others only the sizes are used; their data is never accessed."""

from __future__ import annotations

from ...shape_funcs.symbolic.dim import ELEMENT, Dim, postorder
from ..codegen.cpu import epilogue
from ..codegen.cpu.loop_plan import plans
from ..codegen.loop_nest import element_inputs
from ..codegen.loop_nest.expression import LOAD, SIZE
from ..codegen.loop_nest.inlining import Nest, TooComplex
from ..core.group import Group
from ..core.implementation import Kernel


def reads(group: Group) -> tuple[bool, ...]:
    """Per parameter of ``group``, whether the kernel reads its values.

    A generated kernel reads the parameters that its loops load, and the parameters whose values determine a size that no tensor
    of the group has.  A hand-written kernel reads its arguments (see ``Kernel.views``).
    """
    if group.has_prologue:
        used = {ref for ref in element_inputs.refs(group) if ref < len(group.params)}
        used |= {k for nest in element_inputs.nests(group).values() for k in read_by(element_inputs.before(group), nest)}
        return tuple(k in used for k in range(len(group.params)))
    kernels = [k for k in group.nodes[0].operator.kernels if group.implementation in ("", k.name)]
    if kernels:
        used = {k for kernel in kernels for k in _arguments(group, kernel)}
        used |= epilogue.operands_read(group) if group.has_epilogue else set()
    else:
        try:
            used = {k for nest in plans(group) for k in read_by(group, nest)}
        except TooComplex:  # the group is never run: it will be split
            used = set(range(len(group.params)))
    return tuple(k in used for k in range(len(group.params)))


def _arguments(group: Group, kernel: Kernel) -> set[int]:
    refs = [r for arg in group.nodes[0].args for r in (arg if isinstance(arg, tuple) else (arg,))]
    views = [kernel.views[min(k, len(kernel.views) - 1)] for k in range(len(refs))]
    return {r for r, view in zip(refs, views, strict=True) if kernel.in_python or view != "skip"}


def read_by(group: Group, nest: Nest) -> set[int]:
    """The parameters that the loops of ``nest`` load, or whose values determine a size of the loops."""
    return {cell.what for cell in nest.cells.table if cell.kind == LOAD} | sizes_read(group, nest)


def sizes_read(group: Group, nest: Nest) -> set[int]:
    """The parameters whose values determine a size of ``nest`` that no tensor of the group has."""
    known = {d for t in (*group.params, *(group.values()[r] for r in group.results)) for d in t.shape}
    sizes = [*nest.dims, *(cell.what for cell in nest.cells.table if cell.kind == SIZE)]
    return {k for d in sizes for k in _read_for(d, known)}


def _read_for(size: Dim, known: set[Dim]) -> set[int]:
    """The parameters that must be read to compute ``size`` from the sizes ``known``."""
    return {d.args[0] for d in postorder([size], known) if d.op == ELEMENT and d not in known}
