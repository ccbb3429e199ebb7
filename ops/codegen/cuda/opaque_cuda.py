"""The CUDA program of a group of one OPAQUE operator, and of a product with the sums after it."""

from __future__ import annotations

from dataclasses import replace

from ....shape_funcs.symbolic.dim import INT, RESULT, UNKNOWNS, Dim, axis_size, dim, postorder, substitute
from ...core.group import Group
from ...strategy.implementation import GPU
from ..cpu.epilogue import elementwise
from ..cpu.opaque_kernel import operands, sole_operator, without_epilogue
from . import fused_cuda
from .cuda_program import Argument, CudaSource, Data, Extent, Launch, MatrixProduct, OpaqueCall, Operand, Size, Step, Sums
from .library_sums import sums


class NoCudaKernel(Exception):
    """An operator that does not run on CUDA devices; the message is one line that names the operator."""


def source(group: Group) -> CudaSource:
    """The CUDA program of a group of one OPAQUE node whose results are all its outputs, or of a product and sums.

    Raises NoCudaKernel, and ValueError for any other group.
    """
    added = sums(group)
    if group.has_epilogue and added is None:
        raise ValueError(f"{group.name} is no product with sums of a library")
    operator, kernel = sole_operator(without_epilogue(group)), group.kernel_on(GPU)
    if kernel is None or kernel.cuda is None:
        raise NoCudaKernel(f"the operator {operator.name} has no kernel for CUDA devices")
    node, tensors = group.nodes[0], [Operand(place, t.dtype, t.shape, value) for place, t, value in operands(group)]
    split = len(tensors) - len(node.outputs)
    counts = len(group.params) + len(node.outputs) if group.counts else None
    inputs, results = tuple(tensors[:split]), tuple(map(_with_own_sizes, tensors[split:]))
    found: CudaSource = kernel.cuda(OpaqueCall(operator.name, node.attrs, inputs, results, counts, added or Sums()))
    return _followed_by_sums(found, group) if added else found


def _with_own_sizes(result: Operand) -> Operand:
    """A result whose computed sizes are read from the tensor.

    The launch's program does not compute them again, and products of sizes are not expanded to sums.
    """
    assert result.position is not None, "a literal is no result"
    own = (axis_size(result.position, i) for i in range(len(result.shape)))
    return replace(result, shape=tuple(o if _is_computed(d) else d for o, d in zip(own, result.shape, strict=True)))


def _is_computed(size: Dim) -> bool:
    """Whether a size is computed from others before the launch."""
    return size.op not in (INT, *UNKNOWNS) and all(d.op != RESULT for d in postorder([size]))


def _followed_by_sums(product: CudaSource, group: Group) -> CudaSource:
    """The program of a product, and of a kernel that adds the group's sums to the result in place.

    The library's product, the first step if there is one, replaces all other steps.
    """
    n = len(group.params)
    rest = fused_cuda.source(replace(elementwise(group), in_place=((n, 0),)))
    assert not rest.scratch, "elementwise operators need no workspace"
    steps = (*product.steps, *(_in_place(step, group) for step in rest.steps))
    if isinstance(steps[0], MatrixProduct):
        steps = (replace(steps[0], instead=len(steps) - 1), *steps[1:])
    text = f"{product.text}\nnamespace sums {{\n{rest.text}}}\nusing namespace sums;\n"
    return CudaSource(text, steps, product.scratch)


def _in_place(step: Step, group: Group) -> Step:
    """A step of the elementwise group, whose result is stored over its last parameter."""
    assert isinstance(step, Launch)
    n = len(group.params)
    same: dict[Dim, Dim] = {axis_size(n + 1, i): axis_size(n, i) for i in range(len(group.nodes[0].outputs[0].shape))}

    def extent(e: Extent) -> Dim:
        return substitute(dim(e), same)

    def argument(a: Argument) -> Argument:
        if isinstance(a, Data):
            return Data(min(a.position, n))
        return Size(extent(a.dim)) if isinstance(a, Size) else a

    x, y, z = map(extent, step.grid)
    return Launch(step.entry, (x, y, z), step.block, tuple(map(argument, step.args)), extent(step.shared_bytes))
