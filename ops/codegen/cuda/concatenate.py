"""CUDA C of pure concatenation along an axis: each tensor is copied in contiguous runs at full memory bandwidth."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import Dim, dim, product
from ....shape_funcs.symbolic.dim_operations import min_
from ...core.group import Group
from ...core.tensor_types import ITEMSIZE
from ..loop_nest.expression import APPLY, AXIS, LOAD, SELECT
from ..loop_nest.expression_text import indented
from ..loop_nest.inlining import Nest
from .assembly import Assembly, Parameter, divisor, in_memory, size
from .cuda_nest import CudaKernel, launch
from .cuda_program import Data
from .vector_access import ACCESS

#: Tensors per launch (the number of parameters is limited), the largest number of blocks, and threads per block.
PARTS, MAX_BLOCKS, THREADS = 64, 4096, 256

_COPY = r"""
// `outer` runs of `run` elements, the divisor `by_run`; in the result a run begins every `apart` elements.
template <class T> DEVICE void copy_runs(T* to, const T* from, int64 outer, int64 run, Divisor by_run, int64 apart) {
  constexpr int N = 16 / sizeof(T);
  const int64 first = blockIdx.x * int64(blockDim.x) + threadIdx.x, stride = gridDim.x * int64(blockDim.x);
  const int64 total = outer * run;
  if (run % N == 0 && (outer <= 1 || apart % N == 0) && aligned16(to) && aligned16(from)) {
    in_batches<2>(first * N, total, stride * N, [&](int64 at) { return load_pack(from + at); }, [&](const auto& pack, int64 at) {
      const int64 line = by_run.quotient(at);
      store_pack(to + line * apart + (at - line * run), pack);
    });
    return;
  }
  in_batches<4>(first, total, stride, [&](int64 at) { return from[at]; }, [&](T value, int64 at) {
    const int64 line = by_run.quotient(at);
    to[line * apart + (at - line * run)] = value;
  });
}
"""


@frozen
class Part:
    """A parameter that is one whole part of the result."""

    param: int
    joined: int  # the axis of the result along which parts are concatenated
    stacked: bool  # the parameter lacks that axis


def join(assembly: Assembly, group: Group, nest: Nest, name: str) -> bool:
    """Add the kernels of a nest that is a pure concatenation of parameters; return whether it is one."""
    parts = _parts(group, nest)
    if len(parts) < 2:
        return False
    assembly.text(_COPY)
    start = dim(0)
    for number in range(0, len(parts), PARTS):
        entry = name if number == 0 else f"{name}_{number // PARTS}"
        start = _kernel(assembly, group, nest, entry, parts[number : number + PARTS], start)
    return True


def _kernel(assembly: Assembly, group: Group, nest: Nest, name: str, parts: list[Part], start: Dim) -> Dim:
    """Add a kernel that copies ``parts``, the first of which begins at ``start``; return the start of the next part."""
    kernel, position = CudaKernel(group), len(group.params) + group.results.index(nest.result)
    result, dtype, axis = kernel.array(position), group.values()[nest.result].dtype, parts[0].joined
    sizes = [kernel.launch_size(position, k) for k in range(len(nest.dims))]
    outer = product(sizes[:axis])
    kernel.pass_(size("outer", outer))
    kernel.pass_(size("apart", product(sizes[axis:])))
    cases = []
    for number, part in enumerate(parts):
        own = [kernel.launch_size(part.param, k) for k in range(len(group.params[part.param].shape))]
        run = product(own[axis:])
        kernel.pass_(Parameter(f"const {in_memory(dtype)}* __restrict__", f"from{number}", Data(part.param)))
        kernel.pass_(size(f"run{number}", run))
        kernel.pass_(divisor(f"by_run{number}", run, outer * run))
        kernel.pass_(size(f"start{number}", start))
        own_values = " ".join(f"{name} = {name}{number};" for name in ("from", "run", "by_run", "start"))
        cases.append(f"case {number}: {own_values} break;")
        start = start + run
    lines = [
        f"const {in_memory(dtype)}* from = nullptr;",
        "int64 run = 0, start = 0;",
        "Divisor by_run = {0};",
        "switch (blockIdx.y) {",
        *indented(cases),
        "}",
        f"copy_runs({result} + start, from, outer, run, by_run, apart);",
    ]
    assembly.kernel(name, THREADS, kernel.parameters(""), "\n".join(indented(lines)))
    each = THREADS * ACCESS // ITEMSIZE[dtype]
    count = kernel.launch_count(position)
    launch(assembly, name, min_((count + (each - 1)) // each, max(MAX_BLOCKS // len(parts), 1)), len(parts))
    return start


def _parts(group: Group, nest: Nest) -> list[Part]:
    """The parameters whose concatenation is the result, in order; empty if the result is no pure concatenation.

    Only for a group of one operator: its parts are whole parameters, and its shape function has compared their other sizes.
    """
    cells, element = nest.cells, nest.cells[nest.element]
    if len(group.nodes) != 1 or element.kind != SELECT or not cells[element.args[0]].args:
        return []
    axis = cells[cells[element.args[0]].args[0]].what
    found = list(_operands(nest, nest.element, axis, cells.literal(0)))
    parts, start = list[Part](), cells.literal(0)
    for load, begin in found:
        part = _part(group, nest, load, axis, begin)
        if part is None or begin != start or part.stacked != (parts or [part])[0].stacked:
            return []
        parts.append(part)
        size_ = cells.literal(1) if part.stacked else cells.size(group.params[part.param].shape[axis])
        start = cells.apply("add", start, size_)
    return parts


def _operands(nest: Nest, number: int, axis: int, begin: int) -> Iterator[tuple[int, int]]:
    """The cells between which selects by the index of loop ``axis`` choose, each with the cell of its first index."""
    cells, cell = nest.cells, nest.cells[number]
    before = cells[cell.args[0]] if cell.kind == SELECT else None
    if before is not None and before.what == "less" and _is_axis(nest, before.args[0], axis):
        yield from _operands(nest, cell.args[1], axis, begin)
        yield from _operands(nest, cell.args[2], axis, before.args[1])
    else:
        yield number, begin


def _part(group: Group, nest: Nest, number: int, axis: int, begin: int) -> Part | None:
    """The parameter of which a cell is the element at the loops' index, shifted by ``begin``."""
    cells, load, rank = nest.cells, nest.cells[number], len(nest.dims)
    if load.kind != LOAD or group.params[load.what].dtype != group.values()[nest.result].dtype:
        return None
    loops = [k for k in range(rank) if k != axis]
    if len(load.args) == rank - 1:
        return Part(load.what, axis, True) if all(map(partial(_is_axis, nest), load.args, loops)) else None
    if len(load.args) != rank or not all(_is_axis(nest, load.args[k], k) for k in loops):
        return None
    along = cells[load.args[axis]]
    if cells.integer(begin) == 0:
        return Part(load.what, axis, False) if _is_axis(nest, load.args[axis], axis) else None
    moved = along.kind == APPLY and along.what == "subtract" and along.args[1] == begin and _is_axis(nest, along.args[0], axis)
    return Part(load.what, axis, False) if moved else None


def _is_axis(nest: Nest, number: int, axis: int) -> bool:
    return nest.cells[number].kind == AXIS and nest.cells[number].what == axis
