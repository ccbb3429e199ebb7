"""CUDA C of nests that read along another axis than they write, such as a transpose: tiles go through shared memory.

Threads compute the elements of a tile in the order of their operands in memory, and store them in the order of
the result.  A tile is padded by a column, so that the threads of a warp use different banks.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....shape_funcs.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import const, min_, product
from ...core.group import Group
from ..loop_nest.expression import AXIS, GUARD, LOAD, Cell
from ..loop_nest.expression_text import indented
from ..loop_nest.inlining import Nest
from ..loop_nest.linear_index import general
from .assembly import Assembly
from .cuda_nest import Kernel, elements, launch
from .cuda_text import stored

#: Elements of a side of a tile; threads per block; the largest numbers of blocks, which loop over the tiles.
SIDE, THREADS, MAX_BLOCKS, MAX_PARTS = 32, 256, 1 << 20, 1 << 15

_TILES = r"""
// The result is `outer` matrices; element(matrix, row, column) is fastest for neighbouring rows.
template <class T, class E> DEVICE void store_tiles(T* result, int64 outer, int64 rows, int64 columns, const E& element) {
  __shared__ T tile[32][33];
  const int x = threadIdx.x % 32, y = threadIdx.x / 32;
  const int64 down = (rows + 31) / 32, lines = outer * down;
#pragma unroll 1
  for (int64 line = blockIdx.x; line < lines; line += gridDim.x) {
    const int64 matrix = outer == 1 ? 0 : lines < int64(1) << 32 ? int64(uint32(line) / uint32(down)) : line / down;
    const int64 row = (line - matrix * down) * 32, here = row + x < rows ? row + x : rows - 1;
#pragma unroll 1
    for (int64 column = blockIdx.y * int64(32); column < columns; column += gridDim.y * int64(32)) {
      // beyond the matrix its last elements are computed again: the loads of a thread have no branch between them
      T some[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const int64 from = column + y + 8 * k;
        some[k] = element(matrix, here, from < columns ? from : columns - 1);
      }
#pragma unroll
      for (int k = 0; k < 4; ++k) tile[y + 8 * k][x] = some[k];
      __syncthreads();
      T* to = result + (matrix * rows + row + y) * columns + column + x;
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        if (row + y + 8 * k < rows && column + x < columns) to[8 * k * columns] = tile[x][y + 8 * k];
      }
      __syncthreads();
    }
  }
}
"""


@frozen
class Turned:
    """The axes of a result as three: ``outer`` ones, the axes along which operands are read, and the innermost axes."""

    outer: tuple[int, ...]
    read: tuple[int, ...]
    written: tuple[int, ...]


def add_tiles(assembly: Assembly, group: Group, nest: Nest, name: str) -> bool:
    """Add a kernel of tiles for a nest that reads along another axis than it writes; return whether the nest does."""
    turned = _turned(group, nest)
    if turned is None:
        return False
    assembly.text(_TILES)
    kernel, position = Kernel(group), len(group.params) + group.results.index(nest.result)
    dtype, lowered = group.values()[nest.result].dtype, general(group, nest)
    result, total = kernel.array(position), kernel.count(nest.dims)
    made = elements(kernel, lowered, 0, None, stored("{0}", dtype))
    parts = [("matrix", turned.outer), ("row", turned.read), ("column", turned.written)]
    apart = [
        line for index, axes in parts for line in kernel.unravel_index(index, [nest.dims[a] for a in axes], min(axes, default=0))
    ]
    head = f"auto element = [&](int64 matrix, int64 row, int64 column) -> {dtype} {{"
    lines = [*made.outer, head, *indented([*apart, *made.element]), "};"]
    outer, rows, columns = (kernel.count([nest.dims[a] for a in axes]) for _, axes in parts)
    lines += [f"if ({total} > 0) store_tiles({result}, {outer}, {rows}, {columns}, element);"]
    body = "\n".join(indented([*kernel.prologue, *lines]))
    assembly.kernel(name, THREADS, kernel.parameters(body), body)
    out, down, across = (product(kernel.launch_size(position, a) for a in axes) for _, axes in parts)
    launch(assembly, name, min_(out * ((down + (SIDE - 1)) // SIDE), MAX_BLOCKS), min_((across + (SIDE - 1)) // SIDE, MAX_PARTS))
    return True


def _turned(group: Group, nest: Nest) -> Turned | None:
    """The axes of a nest whose largest operands are all read along the same axis, which is not the innermost of the result."""
    cells, rank = nest.cells.table, len(nest.dims)
    if rank < 2 or nest.store != tuple(range(rank)) or any(c.kind == GUARD for c in cells):
        return None
    loads = [c for c in cells if c.kind == LOAD and c.args]
    whole = [c for c in loads if sorted(_axes(cells, c)) == list(range(rank))]
    last = {_axes(cells, c)[-1] for c in whole}
    if not whole or len(last) != 1 or rank - 1 in last:
        return None
    end = last.pop()
    first = end
    while first > 0 and all(_follow(_axes(cells, c), first) and _is_whole(group, nest, c, first) for c in whole):
        first -= 1
    if const(nest.dims[end]) == 1 or const(nest.dims[rank - 1]) == 1:
        return None
    return Turned(tuple(range(first)), tuple(range(first, end + 1)), tuple(range(end + 1, rank)))


def _axes(cells: Sequence[Cell], load: Cell) -> list[int]:
    """The loops whose indices are the indices of a load; -1 for any other index."""
    return [cells[a].what if cells[a].kind == AXIS else -1 for a in load.args]


def _follow(axes: list[int], axis: int) -> bool:
    return axis - 1 in axes and axes.index(axis - 1) + 1 == axes.index(axis)


def _is_whole(group: Group, nest: Nest, load: Cell, axis: int) -> bool:
    """Whether the axis of the operand has the size of the loop, so that it follows the axis before without a gap."""
    cells = nest.cells.table
    return bool(group.params[load.what].shape[_axes(cells, load).index(axis)] == nest.dims[axis])
