"""CUDA C of a group of fusable operators: a kernel for each result with a reduction, and a second one if blocks share its folds.

Results whose elements are independent share a kernel, in which the second index of a block is the number of the result.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....shape_funcs.symbolic.dim import Dim, const, dim
from ....shape_funcs.symbolic.dim_operations import max_, min_
from ...core.group import Group
from ..loop_nest.expression_text import indented
from ..loop_nest.inlining import Nest, nest_of
from ..loop_nest.linear_index import Lowered, flat, general
from ..loop_nest.row_passes import rows, uses_folds
from .assembly import DIVISOR, Assembly
from .block_reduce import add_reduction
from .concatenate import join
from .cuda_nest import CudaKernel, elements, function, launch, pack_type
from .cuda_program import CudaSource
from .cuda_text import FUNCTIONS, stored
from .parallel_fold import fold_dtype
from .row_reduce import add_row_kernel
from .transposed_tile import add_tiles
from .vector_access import packed

#: Threads per block; the largest number of blocks, which loop over the elements.
THREADS, MAX_BLOCKS = 256, 4096
#: Results per kernel: each has a text of its own, and the number of parameters is limited.
RESULTS = 16

_STORE = r"""
template <int N, class T, class E, class P>
DEVICE void store_packs(T* result, int64 total, const E& element, const P& pack) {
  const int64 first = blockIdx.x * int64(blockDim.x) + threadIdx.x, stride = gridDim.x * int64(blockDim.x);
  const int64 packs = total / N;
#pragma unroll 1
  for (int64 at = first; at < packs; at += stride) store_pack<T, N>(result + at * N, pack(at * N));
#pragma unroll 1
  for (int64 at = packs * N + first; at < total; at += stride) result[at] = element(at);
}
template <class T, class E> DEVICE void store_each(T* result, int64 total, const E& element) {
  const int64 first = blockIdx.x * int64(blockDim.x) + threadIdx.x, stride = gridDim.x * int64(blockDim.x);
  in_batches<2>(first, total, stride, element, [&](T value, int64 at) { result[at] = value; });
}
"""


def source(group: Group) -> CudaSource:
    """The CUDA program of a group of fusable operators.  Equal groups give equal sources.

    Raises TooComplex if the operators should not have been fused.
    """
    assembly, independent = Assembly(), list[Nest]()
    assembly.text(DIVISOR, FUNCTIONS)
    for number, ref in enumerate(group.results):
        name = f"kernel{number}"
        row_plan = rows(group, ref, fold_dtype) if uses_folds(group, ref) else None
        if row_plan is not None and row_plan.folds:  # else, of the reductions only the sizes are read
            add_row_kernel(assembly, group, row_plan, name)
            continue
        nest = nest_of(group, ref)
        if nest.reduction is not None:
            add_reduction(assembly, group, nest, name)
        elif not join(assembly, group, nest, name) and not add_tiles(assembly, group, nest, name):
            independent.append(nest)
    for first in range(0, len(independent), RESULTS):
        _store(assembly, group, independent[first : first + RESULTS])
    return assembly.source()


def _store(assembly: Assembly, group: Group, nests: Sequence[Nest]) -> None:
    """Add a kernel that computes each element of some results independently, named after the first."""
    assembly.text(_STORE)
    kernel, name = CudaKernel(group), f"kernel{group.results.index(nests[0].result)}"
    bodies, grid = list[list[str]](), dim(0)
    for nest in nests:
        lines, blocks = _result(kernel, group, nest)
        bodies.append(lines)
        grid = max_(grid, blocks)
    lines = bodies[0]
    if len(nests) > 1:
        lines = ["switch (blockIdx.y) {"]
        for number, own in enumerate(bodies):
            lines += indented([f"case {number}: {{", *indented(own), "    break;", "}"])
        lines += ["}"]
    body = "\n".join(indented([*kernel.prologue, *lines]))
    assembly.kernel(name, THREADS, kernel.parameters(body), body)
    launch(assembly, name, grid, len(nests))


def _result(kernel: CudaKernel, group: Group, nest: Nest) -> tuple[list[str], Dim]:
    """Statements that store a result, and the number of blocks for it."""
    position = len(group.params) + group.results.index(nest.result)
    result, total = kernel.array(position), kernel.count(nest.dims)
    short, dtype = flat(group, nest), group.values()[nest.result].dtype
    variants = []
    if short is None or short.equal:
        variants.append(_variant(kernel, general(group, nest), nest, dtype, result, total))
    if short is not None:
        variants.append(_variant(kernel, short, nest, dtype, result, total))
    lines = variants[-1][0]
    if len(variants) == 2 and short is not None:
        same = " && ".join(f"{kernel.size(a)} == {kernel.size(b)}" for a, b in short.equal)
        lines = [f"if ({same}) {{", *indented(lines), "} else {", *indented(variants[0][0]), "}"]
    width = max(width for _, width in variants)
    # the fewest blocks that give every thread one pack; a small tensor does not occupy many blocks
    count = kernel.launch_count(position)
    return lines, min_((count + (THREADS * width - 1)) // (THREADS * width), MAX_BLOCKS)


def _variant(kernel: CudaKernel, lowered: Lowered, nest: Nest, dtype: str, result: str, total: str) -> tuple[list[str], int]:
    """Statements that store all elements, and the number of elements per thread and iteration."""
    packs = packed(lowered, dtype)
    made = elements(kernel, lowered, 0, packs, stored("{0}", dtype))
    apart = kernel.unravel_index("at", lowered.extents)
    lines = [*made.outer, *function("element", dtype, [*apart, *made.element])]
    if packs is None:
        return [*lines, f"store_each({result}, {total}, element);"], made.width
    lines += function("pack", pack_type(dtype, made.width, True), [*apart, *made.pack])
    fits = f"aligned16({result})"
    last = lowered.extents[-1]
    if len(lowered.extents) > 1 and (const(last) is None or (const(last) or 0) % made.width):
        fits = f"{kernel.size(last)} % {made.width} == 0 && {fits}"
    return [
        *lines,
        f"if ({fits}) {{",
        f"    store_packs<{made.width}>({result}, {total}, element, pack);",
        "} else {",
        f"    store_each({result}, {total}, element);",
        "}",
    ], made.width
