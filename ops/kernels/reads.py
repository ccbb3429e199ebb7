"""Which inputs' values a kernel reads.  Of the others only the sizes count: their data may lie anywhere, and is never touched."""

from __future__ import annotations

import re

from ...shape_funcs.dims import SYM, Dim, postorder
from ..group import Group
from ..implementation import Kernel
from .composition import Nest, TooComplex
from .expression import LOAD, SIZE
from .plan import plans

#: A size that is an element of a parameter, as shape functions name it: the parameter's number, the element's.
RUN_TIME_VALUE = re.compile(r"\.p(\d+)\.(\d+)")


def reads(group: Group) -> tuple[bool, ...]:
    """Per parameter of ``group``, which has a kernel: does the kernel read its values?

    A fused kernel reads what its loops load, and what decides a size that no tensor of it has; a kernel of its own what it is
    given (see ``Kernel.views``).
    """
    kernels = [k for k in group.nodes[0].operator.kernels if group.implementation in ("", k.name)]
    if kernels:
        found = {k for kernel in kernels for k in _given(group, kernel)}
    else:
        try:
            found = {k for nest in plans(group) for k in _loaded(group, nest)}
        except TooComplex:  # nobody runs it: it will be split
            found = set(range(len(group.params)))
    return tuple(k in found for k in range(len(group.params)))


def _given(group: Group, kernel: Kernel) -> set[int]:
    refs = [r for arg in group.nodes[0].args for r in (arg if isinstance(arg, tuple) else (arg,))]
    views = [kernel.views[min(k, len(kernel.views) - 1)] for k in range(len(refs))]
    return {r for r, view in zip(refs, views, strict=True) if kernel.in_python or view != "skip"}


def _loaded(group: Group, nest: Nest) -> set[int]:
    table = nest.cells.table
    known = {d for t in (*group.params, *(group.values()[r] for r in group.results)) for d in t.shape}
    sizes = [*nest.dims, *(cell.what for cell in table if cell.kind == SIZE)]
    return {cell.what for cell in table if cell.kind == LOAD} | {k for d in sizes for k in _read_for(d, known)}


def _read_for(size: Dim, known: set[Dim]) -> set[int]:
    """The parameters that must be read to know ``size``, where the sizes ``known`` are."""
    names = (d.args[0] for d in postorder([size], known) if d.op == SYM and d not in known)
    return {int(found[1]) for found in map(RUN_TIME_VALUE.fullmatch, names) if found}
