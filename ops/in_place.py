"""Which results of a kernel may be written over which of its inputs.

An operator's own kernels say so (``Kernel.in_place``).  Of a generated kernel it follows from its loops: a result may take the
memory of a parameter that is read nowhere but where the element of the same index is written, and only before that.
"""

from __future__ import annotations

from ..shape_funcs.dims import const, product
from .group import Group
from .implementation import HOST, Kernel
from .kernels.composition import Nest, TooComplex
from .kernels.expression import AXIS, LOAD
from .kernels.plan import plans
from .kernels.reads import read_by, sizes_read
from .ty import ITEMSIZE, Tensor

#: A parameter, by number, and a result, by its position among the results.
Pair = tuple[int, int]


def in_place_pairs(group: Group, machine: str = HOST) -> tuple[Pair, ...]:
    """The pairs of a parameter and a result that may be the same memory when the kernel of ``group`` runs on ``machine``.

    Each holds for itself: a parameter takes one result, a result one parameter.  Both always have the same number of bytes.
    """
    if group.nodes[0].operator.kernels:
        kernel = group.kernel_on(machine)
        return _declared(group, kernel) if kernel is not None else ()
    try:
        nests = plans(group)
    except TooComplex:  # nobody runs it: it will be split
        return ()
    return tuple(
        (param, position)
        for position, nest in enumerate(nests)
        for param, tensor in enumerate(group.params)
        if same_bytes(tensor, group.values()[nest.result]) and _read_where_written(group, nests, nest, param)
    )


def same_bytes(a: Tensor, b: Tensor) -> bool:
    """Have the two the same number of bytes, whatever the sizes are?"""
    return product(a.shape) is product(b.shape) and ITEMSIZE[a.dtype] == ITEMSIZE[b.dtype]


def kernel_pairs(group: Group, pair: Pair) -> frozenset[Pair]:
    """A pair of a group of one operator as its implementations declare it (``Kernel.in_place``): by input and output.

    There are as many as the call has inputs that are this parameter.
    """
    param, position = pair
    refs = [r for arg in group.nodes[0].args for r in (arg if isinstance(arg, tuple) else (arg,))]
    output = group.results[position] - len(group.params) - len(group.literals)
    return frozenset((k, output) for k, ref in enumerate(refs) if ref == param)


def _declared(group: Group, kernel: Kernel) -> tuple[Pair, ...]:
    values, out = group.values(), []
    for param, tensor in enumerate(group.params):
        for position, ref in enumerate(group.results):
            pairs = kernel_pairs(group, (param, position))
            if pairs and pairs <= set(kernel.in_place) and same_bytes(tensor, values[ref]):
                out.append((param, position))
    return tuple(out)


def _read_where_written(group: Group, nests: list[Nest], nest: Nest, param: int) -> bool:
    """Does only ``nest`` read ``param``, each element where it writes that of the same index?"""
    shape = group.params[param].shape
    if nest.folded or nest.columns or shape != nest.dims or any(param in sizes_read(group, n) for n in nests):
        return False
    if any(n is not nest and param in read_by(group, n) for n in nests):
        return False
    table = nest.cells.table
    return all(
        const(size) == 1 or (table[index].kind == AXIS and table[index].what == axis)
        for cell in table
        if cell.kind == LOAD and cell.what == param
        for axis, (size, index) in enumerate(zip(shape, cell.args, strict=True))
    )
