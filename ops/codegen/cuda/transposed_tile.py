"""CUDA C of nests that read along another axis than they write, such as a transpose: tiles go through shared memory.

Threads compute the elements of a tile in the order of their operands in memory, and store them in the order of
the result, in packs of 16 bytes each way where all rows are aligned whole packs, else element by element.  Lines of a tile are
padded, so that the threads of a warp use different banks.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import Dim, const, dim, product
from ....shape_funcs.symbolic.dim_operations import all_, eq, le, min_, where
from ...core.group import Group
from ...core.tensor_types import ITEMSIZE
from ..loop_nest.expression import AXIS, GUARD, LOAD, Cell
from ..loop_nest.expression_text import indented
from ..loop_nest.inlining import Nest
from ..loop_nest.linear_index import general
from .assembly import Assembly, in_memory
from .cuda_nest import CudaKernel, elements, launch, pack_type
from .cuda_text import stored
from .vector_access import ACCESS, Packed, are_one_axis, packed, whole_rows

#: The blocks on a multiprocessor for which tiles are compiled.
RESIDENT = 4
#: Elements of a side of a tile of elements; threads per block; the largest numbers of blocks, which loop over the tiles.
SIDE, THREADS, MAX_BLOCKS, MAX_PARTS = 32, 256, 1 << 20, 1 << 15


def wide_side(dtype: str) -> int:
    """Elements of a side of a tile of packs."""
    return 64 if ITEMSIZE[dtype] <= 4 else 32


_TILES = r"""
// The result is `outer` matrices of `rows` and `columns`.  A block's tiles have SIDE rows and columns: at(matrix, row, column).
template <int SIDE, class F> DEVICE void each_tile(int64 outer, int64 rows, int64 columns, const F& at) {
  const int64 down = (rows + (SIDE - 1)) / SIDE;
  // a block's next tile is `over` matrices and `step` tiles on: no numbers of 64 bits are divided
  const bool is_long = down >= int64(1) << 32;
  const int64 over = is_long ? 0 : gridDim.x / uint32(down), step = gridDim.x - over * down;
  int64 matrix = is_long ? 0 : blockIdx.x / uint32(down), number = blockIdx.x - matrix * down;
#pragma unroll 1
  while (matrix < outer) {
#pragma unroll 1
    for (int64 column = blockIdx.y * int64(SIDE); column < columns; column += gridDim.y * int64(SIDE)) {
      at(matrix, number * SIDE, column);
      __syncthreads();
    }
    matrix += over;
    number += step;
    if (number >= down) {
      number -= down;
      ++matrix;
    }
  }
}

// element(matrix, row, column) is fastest for neighbouring rows.  `tile` has 32 * 33 elements.
template <class T, class E>
DEVICE void store_tiles(T* tile, T* result, int64 outer, int64 rows, int64 columns, const E& element) {
  const int x = threadIdx.x % 32, y = threadIdx.x / 32;
  each_tile<32>(outer, rows, columns, [&](int64 matrix, int64 row, int64 column) {
    // beyond the matrix its last elements are computed again: the loads of a thread have no branch between them
    const int64 here = row + x < rows ? row + x : rows - 1;
    T some[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const int64 from = column + y + 8 * k;
      some[k] = element(matrix, here, from < columns ? from : columns - 1);
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) tile[(y + 8 * k) * 33 + x] = some[k];
    __syncthreads();
    T* to = result + (matrix * rows + row + y) * columns + column + x;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (row + y + 8 * k < rows && column + x < columns) to[8 * k * columns] = tile[x * 33 + y + 8 * k];
    }
  });
}

// A tile of packs: of SIDE lines of PACKS packs each.  A warp has NEAR neighbouring packs of several lines.
template <class T> struct Wide {
  static constexpr int N = 16 / sizeof(T), SIDE = sizeof(T) <= 4 ? 64 : 32, PACKS = SIDE / N, NEAR = PACKS < 8 ? PACKS : 8;
  static constexpr int PITCH = SIDE + (sizeof(T) < 4 ? 4 / sizeof(T) : 1), EACH = SIDE * PACKS / 256;
  int line, along;
  // pack number `k` of this thread's EACH
  DEVICE explicit Wide(int k) {
    const int lane = threadIdx.x % 32, group = threadIdx.x / 32 + 8 * k;
    line = group / (PACKS / NEAR) * (32 / NEAR) + lane / NEAR;
    along = (group % (PACKS / NEAR) * NEAR + lane % NEAR) * N;
  }
};

// The same with pack(matrix, row, column), a pack of neighbouring rows; rows and columns are whole packs.
template <class T, class P>
DEVICE void store_wide_tiles(T* tile, T* result, int64 outer, int64 rows, int64 columns, const P& pack) {
  typedef Wide<T> W;
  each_tile<W::SIDE>(outer, rows, columns, [&](int64 matrix, int64 row, int64 column) {
    Pack<T, W::N> some[W::EACH];
#pragma unroll
    for (int k = 0; k < W::EACH; ++k) {
      const W at(k);
      const int64 here = row + at.along < rows ? row + at.along : rows - W::N;
      some[k] = pack(matrix, here, column + at.line < columns ? column + at.line : columns - 1);
    }
#pragma unroll
    for (int k = 0; k < W::EACH; ++k) {
      const W at(k);
#pragma unroll
      for (int i = 0; i < W::N; ++i) tile[at.line * W::PITCH + at.along + i] = some[k].at[i];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < W::EACH; ++k) {
      const W at(k);
      Pack<T, W::N> turned;
#pragma unroll
      for (int i = 0; i < W::N; ++i) turned.at[i] = tile[(at.along + i) * W::PITCH + at.line];
      if (row + at.line < rows && column + at.along < columns) {
        store_pack(result + (matrix * rows + row + at.line) * columns + column + at.along, turned);
      }
    }
  });
}
"""


@frozen
class Transposed:
    """The axes of a result as three: ``outer`` ones, the axes along which operands are read, and the innermost axes."""

    outer: tuple[int, ...]
    read: tuple[int, ...]
    written: tuple[int, ...]


def add_tiles(assembly: Assembly, group: Group, nest: Nest, name: str) -> bool:
    """Add a kernel of tiles for a nest that reads along another axis than it writes; return whether the nest does."""
    transposed = _transposed(group, nest)
    if transposed is None:
        return False
    assembly.text(_TILES)
    _TileKernel(group, nest, transposed).add(assembly, name)
    return True


class _TileKernel:
    def __init__(self, group: Group, nest: Nest, transposed: Transposed) -> None:
        self.group, self.nest, self.transposed = group, nest, transposed
        self.kernel, self.position = CudaKernel(group), len(group.params) + group.results.index(nest.result)
        self.dtype, self.lowered = group.values()[nest.result].dtype, general(group, nest)
        self.parts = (transposed.outer, transposed.read, transposed.written)
        self.is_flat = are_one_axis(group, nest, transposed.read)
        self.packs = self._packs()

    def add(self, assembly: Assembly, name: str) -> None:
        """Add the kernel and its launch."""
        kernel, nest = self.kernel, self.nest
        result, total = kernel.array(self.position), kernel.count(nest.dims)
        made = elements(kernel, self.lowered, 0, self.packs, stored("{0}", self.dtype), is_straight=self.packs is not None)
        sizes = [kernel.count([nest.dims[a] for a in axes]) for axes in self.parts]
        kind = in_memory(self.dtype)
        extent = "32 * 33" if self.packs is None else f"Wide<{kind}>::SIDE * Wide<{kind}>::PITCH"
        lines = [*made.outer, *self._function("element", kind, made.element), f"__shared__ {kind} tile[{extent}];"]
        if self.packs is not None:
            lines += self._function("pack", pack_type(self.dtype, made.width, True), made.pack)
        call = f"(tile, {result}, {', '.join(sizes)}, "
        storing = [f"if ({total} > 0) store_tiles{call}element);"]
        if self.packs is not None:
            storing = [f"if ({self._fits(result, *sizes[1:])}) store_wide_tiles{call}pack);", f"else {storing[0]}"]
        body = "\n".join(indented([*kernel.prologue, *lines, *storing]))
        assembly.kernel(name, THREADS, kernel.parameters(body), body, RESIDENT)
        launch(assembly, name, *self._grid())

    def _packs(self) -> Packed | None:
        """Packs along the axis that operands are read along; None if these are not contiguous in all of them."""
        axis = self.transposed.read[-1]
        if not whole_rows(self.group, self.nest, axis):
            return None
        found = packed(self.lowered, self.dtype, ACCESS // ITEMSIZE[self.dtype], axis)
        return found if found is not None and found.loads else None

    def _fits(self, result: str, rows: str, columns: str) -> str:
        """The condition of tiles of packs: whole packs, aligned, and so many of them that most of a tile is used."""
        assert self.packs is not None
        kernel, width = self.kernel, self.packs.width
        run = rows if self.is_flat else kernel.size(self.nest.dims[self.transposed.read[-1]])
        bases = dict.fromkeys([result, *(kernel.array(cell.what) for cell in self.packs.loads)])
        sizes = [f"{rows} >= {SIDE}", f"{columns} >= {SIDE}", f"{run} % {width} == 0", f"{columns} % {width} == 0"]
        return " && ".join([*sizes, *(f"aligned16({base})" for base in bases)])

    def _grid(self) -> tuple[Dim, Dim]:
        sizes = [self.kernel.launch_size(self.position, axis) for axis in range(len(self.nest.dims))]
        outer, rows, columns = (product(sizes[a] for a in axes) for axes in self.parts)
        side = dim(SIDE)
        if self.packs is not None:
            run, width = rows if self.is_flat else sizes[self.transposed.read[-1]], self.packs.width
            whole = all_(le(SIDE, rows), le(SIDE, columns), eq(run % width, 0), eq(columns % width, 0))
            side = where(whole, wide_side(self.dtype), SIDE)
        down, across = ((n + (side - 1)) // side for n in (rows, columns))
        return min_(outer * down, MAX_BLOCKS), min_(across, MAX_PARTS)

    def _function(self, name: str, kind: str, body: list[str]) -> list[str]:
        """A function of the indices of a matrix, and of a row and a column of it."""
        dims, lines = self.nest.dims, list[str]()
        for index, axes in zip(("matrix", "row", "column"), self.parts, strict=True):
            if axes == self.transposed.read and self.is_flat:
                lines += [f"const int64 i{axis} = {index if axis == axes[-1] else 0};" for axis in axes]
            else:
                lines += self.kernel.unravel_index(index, [dims[a] for a in axes], min(axes, default=0))
        straight = ["constexpr bool straight = true;"] if name == "pack" else []
        head = f"auto {name} = [&](int64 matrix, int64 row, int64 column) -> {kind} {{"
        return [head, *indented([*straight, *lines, *body]), "};"]


def _transposed(group: Group, nest: Nest) -> Transposed | None:
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
    return Transposed(tuple(range(first)), tuple(range(first, end + 1)), tuple(range(end + 1, rank)))


def _axes(cells: Sequence[Cell], load: Cell) -> list[int]:
    """The loops whose indices are the indices of a load; -1 for any other index."""
    return [cells[a].what if cells[a].kind == AXIS else -1 for a in load.args]


def _follow(axes: list[int], axis: int) -> bool:
    return axis - 1 in axes and axes.index(axis - 1) + 1 == axes.index(axis)


def _is_whole(group: Group, nest: Nest, load: Cell, axis: int) -> bool:
    """Whether the axis of the operand has the size of the loop, so that it follows the axis before without a gap."""
    cells = nest.cells.table
    return bool(group.params[load.what].shape[_axes(cells, load).index(axis)] == nest.dims[axis])
