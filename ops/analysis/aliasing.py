"""In-place reuse: pairs of a kernel's result and parameter that may share memory.

Hand-written kernels declare the pairs (``Kernel.in_place``).  For a generated kernel they follow from its loops: a result may
reuse the memory of a parameter if the loop that writes the result loads each element of the parameter only in the iteration that
writes the same index, before the store, and no other loop reads the parameter.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...shape_funcs.symbolic.dim import const, product
from ..codegen.cpu import epilogue
from ..codegen.cpu.loop_plan import plans
from ..codegen.loop_nest.expression import AXIS, LOAD
from ..codegen.loop_nest.inlining import Nest, TooComplex
from ..core.group import Group
from ..core.implementation import HOST, Kernel
from ..core.tensor_types import ITEMSIZE, Tensor
from .uses import read_by, sizes_read

#: A parameter (number) and a result (position among the results).
Pair = tuple[int, int]


def in_place_pairs(group: Group, machine: str = HOST) -> tuple[Pair, ...]:
    """The pairs of a parameter and a result that may share memory if the kernel of ``group`` runs on ``machine``.

    The pairs are alternatives: each parameter and each result may occur in one chosen pair only.  Both have equal sizes in bytes.
    """
    if group.has_prologue:
        return ()
    if group.has_epilogue:
        return tuple((param, 0) for param in epilogue.overwritten(group)) if machine == HOST else ()
    if group.nodes[0].operator.kernels:
        kernel = group.kernel_on(machine)
        return _declared(group, kernel) if kernel is not None else ()
    try:
        nests = plans(group)
    except TooComplex:  # the group is never run: it will be split
        return ()
    return tuple(
        (param, position)
        for position, nest in enumerate(nests)
        for param, tensor in enumerate(group.params)
        if same_bytes(tensor, group.values()[nest.result]) and _is_elementwise_use(group, nests, nest, param)
    )


def same_bytes(a: Tensor, b: Tensor) -> bool:
    """Whether both tensors have the same number of bytes for all sizes."""
    return product(a.shape) is product(b.shape) and ITEMSIZE[a.dtype] == ITEMSIZE[b.dtype]


def kernel_pairs(group: Group, pair: Pair) -> frozenset[Pair]:
    """The pairs (input, output) of ``Kernel.in_place`` that correspond to ``pair`` of a group of one operator.

    There is a pair for each input of the call that is this parameter.
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


def _is_elementwise_use(group: Group, nests: Sequence[Nest], nest: Nest, param: int) -> bool:
    """Whether only ``nest`` reads ``param``, each element in the iteration that writes the same index."""
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
