"""The CUDA program of an OPAQUE operator: alone, with the operators after a product, or with those of its inputs."""

from __future__ import annotations

from dataclasses import replace

from ....shape_funcs.symbolic.dim import INT, RESULT, UNKNOWNS, Dim, axis_size, dim, postorder
from ....shape_funcs.symbolic.dim_operations import substitute, where
from ...core.group import Group
from ...core.implementation import GPU
from ..cpu.opaque_kernel import operands, sole_operator, without_epilogue
from ..loop_nest import element_inputs
from ..loop_nest.expression import AXIS, Cell
from ..loop_nest.expression_text import indented
from ..loop_nest.inlining import Nest, nest_of
from ..loop_nest.linear_index import Lowered, flat, general
from . import following, fused_cuda
from .cuda_nest import CudaKernel, elements
from .cuda_program import (
    Argument,
    CudaSource,
    Data,
    Elements,
    Extent,
    Launch,
    MatrixProduct,
    OpaqueCall,
    Operand,
    Size,
    Step,
    Sums,
)
from .library_sums import sums
from .vector_access import Packed, packed


class NoCudaKernel(Exception):
    """An operator that does not run on CUDA devices; the message is one line that names the operator."""


def source(group: Group) -> CudaSource:
    """The CUDA program of a group of one OPAQUE node whose results are all its outputs, or of a product and what follows.

    Raises NoCudaKernel, and ValueError for any other group.
    """
    if group.has_prologue:
        return _with_elements(group)
    added = sums(group)
    after = None
    if group.has_epilogue and added is None:
        if not following.fits(group):
            raise ValueError(f"{group.name}: no kernel applies its operators together")
        after = _following(group)
    operator, kernel = sole_operator(without_epilogue(group)), group.kernel_on(GPU)
    if kernel is None or kernel.cuda is None:
        raise NoCudaKernel(f"the operator {operator.name} has no kernel for CUDA devices")
    node, tensors = group.nodes[0], [Operand(place, t.dtype, t.shape, value) for place, t, value in operands(group)]
    split = len(tensors) - len(node.outputs)
    counts = len(group.params) + len(node.outputs) if group.counts else None
    inputs, results = tuple(tensors[:split]), tuple(map(_with_own_sizes, tensors[split:]))
    found: CudaSource = kernel.cuda(OpaqueCall(operator.name, node.attrs, inputs, results, counts, added or Sums(), after))
    return _with_the_rest(found, group, added is not None) if group.has_epilogue else found


def _with_elements(group: Group) -> CudaSource:
    """The program of an operator whose kernel computes its inputs by the operators before it.  Raises ValueError if none does."""
    if not element_inputs.fits(group):
        raise ValueError(f"{group.name}: no kernel applies its operators together")
    node, values, kernel = group.main, group.values(), group.kernel_on(GPU)
    assert kernel is not None and kernel.cuda is not None
    nests, params = element_inputs.nests(group), len(group.params)
    inputs = list[Operand]()
    for ref in element_inputs.refs(group):
        dtype, shape = values[ref].dtype, values[ref].shape
        if ref in nests:
            inputs.append(Operand(None, dtype, shape, elements=_elements(element_inputs.before(group), nests[ref])))
        else:
            literal = None if ref < params else group.literals[ref - params].value
            inputs.append(Operand(ref if ref < params else None, dtype, shape, literal))
    results = tuple(_with_own_sizes(Operand(params + k, t.dtype, t.shape)) for k, t in enumerate(node.outputs))
    counts = params + len(node.outputs) if group.counts else None
    found: CudaSource = kernel.cuda(OpaqueCall(node.op, node.attrs, tuple(inputs), results, counts))
    return found


def _elements(group: Group, nest: Nest) -> Elements:
    """The elements of a value of ``group`` as functions of their place."""
    kernel, whole, short = CudaKernel(group), general(group, nest), flat(group, nest)
    plain = short or (whole if len(nest.dims) == 1 else None)  # one loop over all elements
    packs = packed(plain, None) if plain is not None and not plain.equal else None
    if packs is not None and not all(_is_contiguous(packs, cell) for cell in packs.loads):
        packs = None
    lines = _value(kernel, whole)
    if short is not None:
        same = " && ".join(f"{kernel.size(a)} == {kernel.size(b)}" for a, b in short.equal) or "true"
        lines = [f"if ({same}) {{", *indented(_value(kernel, short)), "} else {", *indented(lines), "}"]
    pack, usable = list[str](), "false"
    if packs is not None and plain is not None:
        made = elements(kernel, plain, 0, packs, is_straight=True)
        pack = ["constexpr bool straight = true;", *made.outer, *kernel.unravel_index("at", plain.extents), *made.pack]
        usable = " && ".join(f"aligned16({a})" for a in dict.fromkeys(kernel.array(cell.what) for cell in packs.loads))
    bodies = ["\n".join(indented([*kernel.prologue, *body], 3)) if body else "" for body in (lines, pack)]
    parameters = tuple((p.kind, p.name, p.argument) for p in kernel.parameters("".join(bodies)))
    return Elements(parameters, bodies[0], packs.width if packs else 0, bodies[1], usable)


def _value(kernel: CudaKernel, lowered: Lowered) -> list[str]:
    """Statements that return the element at the place ``at``."""
    made = elements(kernel, lowered, 0, None)
    return [*made.outer, *kernel.unravel_index("at", lowered.extents), *made.element]


def _is_contiguous(packs: Packed, load: Cell) -> bool:
    """Whether a pack is loaded from the place that it is computed for."""
    offset, distance = load.args
    return packs.table[offset].kind == AXIS and packs.table.integer(distance) == 1


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


def _following(group: Group) -> Elements:
    """The elements of the result of ``group`` from those of its product, which are stored in the place of the result."""
    after = following.in_place(group)
    made = _elements(after, nest_of(after, after.results[0]))
    parameters = tuple((kind, name, _argument(group, argument)) for kind, name, argument in made.parameters)
    return replace(made, parameters=parameters)


def _with_the_rest(product: CudaSource, group: Group, by_library: bool) -> CudaSource:
    """The program of a product, and of a kernel that computes the group's other operators in place, unless the product has them.

    ``by_library``: the library's product has them, too, and replaces all steps behind it.
    """
    rest = fused_cuda.source(following.in_place(group))
    assert not rest.scratch, "elementwise operators need no workspace"
    steps = [*product.steps, *(_in_place(step, group, product.is_whole) for step in rest.steps)]
    for k, step in enumerate(steps if by_library else ()):
        if isinstance(step, MatrixProduct):
            steps[k] = replace(step, instead=len(steps) - 1 - k)
    text = f"{product.text}\nnamespace sums {{\n{rest.text}}}\nusing namespace sums;\n"
    return CudaSource(text, tuple(steps), product.scratch)


def _in_place(step: Step, group: Group, unless: Extent) -> Step:
    """A step of the elementwise group, whose result is stored over its last parameter; nothing runs if ``unless``."""
    assert isinstance(step, Launch)
    x, y, z = (_extent(group, e) for e in step.grid)
    args = tuple(_argument(group, a) for a in step.args)
    return Launch(step.entry, (where(unless, 0, x), y, z), step.block, args, _extent(group, step.shared_bytes))


def _extent(group: Group, extent: Extent) -> Dim:
    """A size of the elementwise group, by the sizes of ``group``."""
    n = len(group.params)
    same: dict[Dim, Dim] = {axis_size(n + 1, i): axis_size(n, i) for i in range(len(group.nodes[0].outputs[0].shape))}
    return substitute(dim(extent), same)


def _argument(group: Group, a: Argument) -> Argument:
    """An argument of the elementwise group, whose result is stored over its last parameter, as one of ``group``."""
    if isinstance(a, Data):
        return Data(min(a.position, len(group.params)))
    return Size(_extent(group, a.dim)) if isinstance(a, Size) else a
