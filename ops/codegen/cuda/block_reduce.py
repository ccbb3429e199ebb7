"""CUDA C of reductions: each row is folded in one pass over its elements, by as many threads as is profitable.

A *row* is the set of elements folded into one element of the result.  If the innermost axis is folded, neighbouring threads
share a row; else neighbouring threads fold neighbouring rows: a pack of rows each, where the innermost axis is whole packs.  So a
warp always reads neighbouring elements.  A few long rows are also split between blocks, and a second kernel combines the blocks'
states.
"""

from __future__ import annotations

from ....shape_funcs.defs.axes.reduce import reduced_axes
from ....shape_funcs.symbolic.dim import Dim, const, dim
from ....shape_funcs.symbolic.dim_operations import eq, lt, max_, min_, where
from ...core.group import Group
from ...core.tensor_types import computed_in
from ...native.status import EMPTY_REDUCTION
from ..loop_nest.expression import LOCAL, Cell
from ..loop_nest.expression_text import indented
from ..loop_nest.inlining import Nest
from ..loop_nest.linear_index import Lowered, Table, flat, general
from ..loop_nest.statements import Writer
from .assembly import Assembly, Parameter, size
from .cuda_nest import CudaKernel, elements, function, launch, pack_type
from .cuda_program import Scratch, Size
from .cuda_text import stored
from .parallel_fold import fold
from .vector_access import Packed, are_one_axis, packed, whole_rows

#: Threads per block (also in the text below); the largest number of blocks per launch; the blocks that occupy a GPU.
THREADS, MAX_BLOCKS, BUSY = 256, 8192, 2048
#: The least partition of a row per block, if neighbouring threads share a row and if they do not.
LEAST_PARTITION = {True: 8192, False: 256}

#: The blocks on a multiprocessor for which folds are compiled, if their states are small and if they are large.
RESIDENT = {False: 4, True: 3}
#: The largest size of the states of a thread's pack of rows, in bytes.
STATES = 128

#: Device code that all reductions share.
REDUCE = r"""
template <bool VALUE> struct Known { static constexpr bool value = VALUE; };
// The least power of two that is not below `count`; at most `most`, a power of two.
DEVICE int power_of_two(int64 count, int most) {
  return count >= most ? most : count <= 1 ? 1 : 1 << (32 - __clz(int(count) - 1));
}
// Who folds what in a block of 256: `ways` threads share a row, thread number `way` of them is this one.
struct Tile {
  int ways, way, apart;  // apart: the distance from one of them to the next
  int rows, row;         // of the block; of these, this thread's
  // `near` neighbouring threads share a row, a power of two
  DEVICE explicit Tile(int near)
      : ways(near), way(threadIdx.x & (near - 1)), apart(1), rows(256 / near), row(threadIdx.x / near) {}
  DEVICE Tile(int64 all_rows, int64 length, bool side_by_side) : Tile(near_of(all_rows, length, side_by_side)) {
    if (side_by_side) return;
    // neighbouring threads have neighbouring rows
    const int of_way = way, of_row = row;
    apart = ways;
    ways = rows;
    rows = apart;
    way = of_row;
    row = of_way;
  }
  static DEVICE int near_of(int64 all_rows, int64 length, bool side_by_side) {
    if (!side_by_side) return all_rows >= 262144 ? 256 : power_of_two(all_rows, 32);
    return length > 2048 || (length > 256 && all_rows < 2048) ? 256 : power_of_two((length + 7) / 8, 32);
  }
};

// The states of two threads together; `is_second`: whether `mine` is that of the second.
template <class Fold>
DEVICE typename Fold::State join_both(typename Fold::State mine, typename Fold::State other, bool is_second) {
  if (!Fold::commutes && is_second) {
    Fold::join(other, mine);
    return other;
  }
  Fold::join(mine, other);
  return mine;
}
// The state of all threads that share a row, known to the first of them.  All threads of the block take part.
template <class Fold> DEVICE typename Fold::State join_ways(typename Fold::State state, const Tile& tile) {
  typedef typename Fold::State State;
  __shared__ State all[256];
  int near = 1;  // so many neighbours have been joined
  if (tile.apart == 1) {
    for (; near < 32 && near < tile.ways; near *= 2)
      state = join_both<Fold>(state, shuffle_xor(state, near), threadIdx.x & near);
  }
  if (near == tile.ways) return state;
  all[threadIdx.x] = state;
  __syncthreads();
  for (int distance = tile.ways / 2; distance >= near; distance /= 2) {
    if (tile.way < distance) Fold::join(all[threadIdx.x], all[threadIdx.x + distance * tile.apart]);
    __syncthreads();
  }
  state = all[threadIdx.x];
  __syncthreads();
  return state;
}

template <class Fold, int BATCH, class E>
DEVICE void fold_each(typename Fold::State& state, int64 begin, int64 end, const Tile& tile, const E& element) {
  in_batches<BATCH>(begin + tile.way, end, tile.ways, element, [&](auto e, int64 at) { Fold::step(state, e, at); });
}

template <class Fold, int N, int BATCH, class P>
DEVICE void fold_packs(typename Fold::State& state, int64 begin, int64 end, const Tile& tile, const P& pack) {
  in_batches<BATCH>(begin + int64(tile.way) * N, end, int64(tile.ways) * N, pack, [&](const auto& some, int64 at) {
#pragma unroll
    for (int i = 0; i < N; ++i) Fold::step(state, some.at[i], at + i);
  });
}

// The same for threads that fold N neighbouring rows each: pack(at) has the element `at` of each of them.
template <class Fold, int N, int BATCH, class P>
DEVICE void fold_columns(typename Fold::State (&states)[N], int64 begin, int64 end, const Tile& tile, const P& pack) {
  in_batches<BATCH>(begin + tile.way, end, tile.ways, pack, [&](const auto& some, int64 at) {
#pragma unroll
    for (int i = 0; i < N; ++i) Fold::step(states[i], some.at[i], at);
  });
}

// join_ways of N neighbouring rows.
template <class Fold, int N> DEVICE void join_columns(typename Fold::State (&states)[N], const Tile& tile) {
  if (tile.ways == 1) return;
  __shared__ typename Fold::State all[N][256];
#pragma unroll
  for (int i = 0; i < N; ++i) all[i][threadIdx.x] = states[i];
  __syncthreads();
  for (int distance = tile.ways / 2; distance > 0; distance /= 2) {
    if (tile.way < distance) {
#pragma unroll
      for (int i = 0; i < N; ++i) Fold::join(all[i][threadIdx.x], all[i][threadIdx.x + distance * tile.apart]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < N; ++i) states[i] = all[i][threadIdx.x];
  __syncthreads();
}

// The states of a row's `parts` become one.
template <class Fold>
DEVICE typename Fold::State fold_parts(const typename Fold::State* part, int64 parts, const Tile& tile) {
  typename Fold::State state = Fold::start();
  constexpr int BATCH = sizeof(state) > 16 ? 2 : 4;  // more large states spill registers
  in_batches<BATCH>(tile.way, parts, tile.ways, [&](int64 at) { return part[at]; }, [&](const auto& some, int64) {
    Fold::join(state, some);
  });
  return state;
}
"""


def batch(lowered: Lowered) -> int:
    """The number of elements that are loaded before the first of them is folded: fewer where much is computed of each."""
    return 8 if len(lowered.table) <= 40 else 4


def add_reduction(assembly: Assembly, group: Group, nest: Nest, name: str) -> None:
    """Add the kernel ``name`` of a nest that folds, and the kernel that combines its partial states."""
    _Reduction(assembly, group, nest, name).add()


class _Reduction:
    def __init__(self, assembly: Assembly, group: Group, nest: Nest, name: str) -> None:
        assert nest.reduction is not None and nest.reduction.operator.reduction is not None
        self.assembly, self.group, self.nest, self.name = assembly, group, nest, name
        self.node, self.reduction = nest.reduction, nest.reduction.operator.reduction
        self.kept = len(nest.dims) - nest.folded
        self.position = len(group.params) + group.results.index(nest.result)
        self.element = nest.cells[nest.element].dtype
        self.fold = fold(self.reduction.combine, self.element, self.node.attrs)
        rank = len(group.values()[self.node.args[0]].shape)
        folded = reduced_axes(self.node.attrs, rank)
        self.side_by_side = not rank or rank - 1 in folded
        self.is_flat = nest.folded > 0 and are_one_axis(group, nest, range(self.kept))
        self.packs = self._packs()

    def _packs(self) -> Packed | None:
        """Packs of rows that neighbouring threads fold; None if rows are folded side by side, or are not contiguous."""
        if self.side_by_side or not self.nest.folded or not (self.is_flat or whole_rows(self.group, self.nest, self.kept - 1)):
            return None
        lowered = general(self.group, self.nest)
        found = packed(lowered, axis=self.kept - 1)
        return found and packed(lowered, width=min(found.width, STATES // self.fold.nbytes), axis=self.kept - 1)

    def add(self) -> None:
        self.assembly.text(REDUCE)
        struct = f"Fold_{self.name}"
        self.assembly.text(self.fold.text(struct, self.element))
        kernel = CudaKernel(self.group)
        rows, long = kernel.launch_count(self.position), kernel.known_at_launch(self.nest.dims[self.kept :])
        grid_x, parts = self._grid(rows, long)
        if long is not None and const(parts) != 1:
            partial = self.assembly.scratch(where(lt(1, parts), rows * parts * self.fold.nbytes, 0))
            # a multiple of the elements that a thread reads at a time
            kernel.pass_(size("share", ((long + (parts - 1)) // parts + 15) // 16 * 16))
            self._first(kernel, struct, grid_x, parts, partial)
            self._second(struct, rows, parts, partial)
        else:
            self._first(kernel, struct, grid_x, parts, None)

    def _grid(self, rows: Dim, long: Dim | None) -> tuple[Dim, Dim]:
        """The number of blocks, and the number of partitions of each row."""
        at_once = rows if self.side_by_side else (self._columns(rows) + 31) // 32
        if long is None:  # known only in the kernel
            return min_(at_once, MAX_BLOCKS), dim(1)
        least = LEAST_PARTITION[self.side_by_side]
        if self.packs is not None:  # the same number of packs of any width
            least = least * 4 // self.packs.width
        parts = max_(min_(dim(BUSY) // at_once, long // least), 1)
        if self.side_by_side:  # short rows share a block
            at_once = min_(at_once, max_(rows * long // 512, 1))
        return min_(at_once, MAX_BLOCKS), parts

    def _first(self, kernel: CudaKernel, struct: str, grid_x: Dim, parts: Dim, partial: Scratch | None) -> None:
        rows, length = kernel.count(self.nest.dims[: self.kept]), kernel.count(self.nest.dims[self.kept :])
        lines = [f"const int64 rows = {rows}, length = {length};"]
        if self.fold.needs_one:
            refuse = f"if (blockIdx.x + blockIdx.y + threadIdx.x == 0) fail(fault, {EMPTY_REDUCTION}, site);"
            lines += ["if (length == 0) {", f"    {refuse}", "    return;", "}"]
        if partial is None:
            lines += ["const int64 begin = 0, end = length;"]
        else:
            kernel.pass_(Parameter(f"{struct}::State*", "partial", partial))
            lines += ["const int64 begin = share * blockIdx.y, end = begin + share < length ? begin + share : length;"]
        by_element = self._rows(kernel, struct, partial is not None)
        if self.packs is None:
            lines += by_element
        else:
            run = rows if self.is_flat else kernel.size(self.nest.dims[self.kept - 1])
            by_pack = self._packs_of_rows(kernel, struct, self.packs, partial is not None)
            lines += [f"if ({run} % {self.packs.width} == 0) {{", *indented(by_pack), "} else {", *indented(by_element), "}"]
        body = "\n".join(indented([*kernel.prologue, *lines]))
        self.assembly.kernel(self.name, THREADS, kernel.parameters(body), body, RESIDENT[self.fold.nbytes > 16])
        launch(self.assembly, self.name, grid_x, parts)

    def _rows(self, kernel: CudaKernel, struct: str, is_split: bool) -> list[str]:
        """Statements that fold all rows of a block, an element at a time or packs along a row."""
        return [
            f"const Tile tile(rows, length, {str(self.side_by_side).lower()});",
            "#pragma unroll 1",
            "for (int64 base = blockIdx.x * tile.rows; base < rows; base += gridDim.x * tile.rows) {",
            "    const int64 row = base + tile.row;",
            f"    {struct}::State s = {struct}::start();",
            "    if (row < rows) {",
            *indented(self._variants(kernel, struct), 2),
            "    }",
            f"    s = join_ways<{struct}>(s, tile);",
            "    if (tile.way == 0 && row < rows) {",
            *indented(self._keep_part(kernel, is_split), 2),
            "    }",
            "}",
        ]

    def _packs_of_rows(self, kernel: CudaKernel, struct: str, packs: Packed, is_split: bool) -> list[str]:
        """Statements that fold all rows of a block, a pack of rows by each thread."""
        lowered, width = general(self.group, self.nest), packs.width
        made = elements(kernel, lowered, self.kept, packs, is_straight=True)
        apart = kernel.unravel_index("at", lowered.extents[self.kept :], self.kept)
        of_row = self._row_indices(kernel, lowered)
        kind = pack_type(made.dtype, width, False)
        straight = " && ".join(f"aligned16({a})" for a in dict.fromkeys(kernel.array(cell.what) for cell in packs.loads))
        known = "constexpr bool straight = decltype(kind)::value;"
        fold = f"fold_columns<{struct}, {width}, {{}}>(states, begin, end, tile, [&](int64 at) {{{{ return pack(at, {{}}); }}}});"
        return [
            f"const bool aligned = {straight};",
            f"const Tile tile(rows / {width}, length, false);",
            "#pragma unroll 1",
            f"for (int64 base = blockIdx.x * tile.rows; base < rows / {width}; base += gridDim.x * tile.rows) {{",
            f"    const int64 first = (base + tile.row) * {width};",
            f"    {struct}::State states[{width}];",
            "#pragma unroll",
            f"    for (int i = 0; i < {width}; ++i) states[i] = {struct}::start();",
            "    if (first < rows) {",
            "        const int64 row = first;",
            *indented([*of_row, *made.outer, *made.rows], 2),
            *indented(function("pack", kind, [known, *apart, *made.pack], ", auto kind"), 2),
            f"        if (aligned) {fold.format(batch(lowered) // 2, 'Known<true>()')}",
            f"        else {fold.format(1, 'Known<false>()')}",
            "    }",
            f"    join_columns<{struct}, {width}>(states, tile);",
            "    if (tile.way == 0 && first < rows) {",
            "#pragma unroll",
            f"        for (int i = 0; i < {width}; ++i) {{",
            f"            const {struct}::State& s = states[i];",
            "            const int64 row = first + i;",
            *indented(self._keep_part(kernel, is_split), 3),
            "        }",
            "    }",
            "}",
        ]

    def _row_indices(self, kernel: CudaKernel, lowered: Lowered) -> list[str]:
        """Statements that define the indices of row ``row``."""
        if not self.is_flat:
            return kernel.unravel_index("row", lowered.extents[: self.kept])
        return [f"const int64 i{k} = {'row' if k == self.kept - 1 else 0};" for k in range(self.kept)]

    def _second(self, struct: str, rows: Dim, parts: Dim, partial: Scratch) -> None:
        """The kernel that combines the partial states of each row."""
        kernel = CudaKernel(self.group)
        result = kernel.array(self.position)
        kernel.pass_(Parameter(f"const {struct}::State*", "partial", partial))
        kernel.pass_(Parameter("int64", "parts", Size(parts)))
        all_rows, length = kernel.count(self.nest.dims[: self.kept]), kernel.count(self.nest.dims[self.kept :])
        lines = [
            f"const int64 rows = {all_rows}, length = {length};",
            "const Tile tile(rows, parts, true);",
            "#pragma unroll 1",
            "for (int64 base = blockIdx.x * tile.rows; base < rows; base += gridDim.x * tile.rows) {",
            "    const int64 row = base + tile.row;",
            f"    {struct}::State s = {struct}::start();",
            f"    if (row < rows) s = fold_parts<{struct}>(partial + row * parts, parts, tile);",
            f"    s = join_ways<{struct}>(s, tile);",
            "    if (tile.way == 0 && row < rows) {",
            *indented(self._keep(kernel, result, "row"), 2),
            "    }",
            "}",
        ]
        name = f"{self.name}_parts"
        body = "\n".join(indented([*kernel.prologue, *lines]))
        self.assembly.kernel(name, THREADS, kernel.parameters(body), body)
        launch(self.assembly, name, where(lt(1, parts), min_((rows * parts + 2047) // 2048, MAX_BLOCKS), 0))

    def _columns(self, rows: Dim) -> Dim:
        """The number of rows, or of packs of rows, of which each thread folds its share."""
        if self.packs is None:
            return rows
        kernel, width = CudaKernel(self.group), self.packs.width
        run = rows if self.is_flat else kernel.launch_size(self.position, self.nest.store.index(self.kept - 1))
        return where(eq(run % width, 0), rows // width, rows)

    def _variants(self, kernel: CudaKernel, struct: str) -> list[str]:
        """Statements that fold the elements ``begin`` to ``end`` of row ``row`` into the state ``s``."""
        short = flat(self.group, self.nest)
        if short is None:
            return self._folding(kernel, struct, general(self.group, self.nest))
        if not short.equal:
            return self._folding(kernel, struct, short)
        same = " && ".join(f"{kernel.size(a)} == {kernel.size(b)}" for a, b in short.equal)
        long = self._folding(kernel, struct, general(self.group, self.nest))
        return [f"if ({same}) {{", *indented(self._folding(kernel, struct, short)), "} else {", *indented(long), "}"]

    def _folding(self, kernel: CudaKernel, struct: str, lowered: Lowered) -> list[str]:
        kept = len(lowered.extents) - lowered.folded
        # packs are contiguous along the innermost axis, which must be a folded axis
        packs = packed(lowered) if lowered.folded and self.side_by_side else None
        made = elements(kernel, lowered, kept, packs, is_straight=True)
        dtype = lowered.table[lowered.element].dtype
        inside = lowered.extents[kept:]
        apart = kernel.unravel_index("at", inside, kept)
        of_row = kernel.unravel_index("row", lowered.extents[:kept]) if self.side_by_side else self._row_indices(kernel, lowered)
        lines = [*of_row, *made.outer, *made.rows]
        lines += function("element", computed_in(dtype), [*apart, *made.element])
        several = batch(lowered) if self.side_by_side else 2 * batch(lowered)  # a load of a column is one element
        each = f"fold_each<{struct}, {several}>(s, begin, end, tile, element);"
        if packs is None:
            return [*lines, each]
        lines += function("fits", "bool", [*apart, *made.fits])
        lines.append("const bool straight = begin < end && fits(begin);")
        lines += function("pack", pack_type(dtype, made.width, False), [*apart, *made.pack])
        last = kernel.size(inside[-1])
        folding = f"fold_packs<{struct}, {made.width}, {batch(lowered)}>(s, begin, end, tile, pack);"
        if len(inside) == 1 and not kept:  # the last elements are no pack
            return [
                *lines,
                f"const int64 whole = length - length % {made.width};",
                folding.replace("end", "(end < whole ? end : whole)", 1),
                each.replace("begin", "(begin > whole ? begin : whole)", 1),
            ]
        return [*lines, f"if ({last} % {made.width} == 0) {{", f"    {folding}", "} else {", f"    {each}", "}"]

    def _keep_part(self, kernel: CudaKernel, is_split: bool) -> list[str]:
        """Statements that store the state ``s`` of the block's part of row ``row``, or its result."""
        keep = self._keep(kernel, kernel.array(self.position), "row")
        if not is_split:
            return keep
        part = "partial[row * gridDim.y + blockIdx.y] = s;"
        return ["if (gridDim.y > 1) {", f"    {part}", "} else {", *indented(keep), "}"]

    def _keep(self, kernel: CudaKernel, result: str, row: str) -> list[str]:
        """Statements that store the result of the state ``s``."""
        table = Table()
        total = table.put(Cell(LOCAL, self.fold.dtype, (), self.fold.value))
        if self.reduction.finish is not None:
            count = table.put(Cell(LOCAL, "int64", (), "length"))
            total = table.expression(self.reduction.finish(table.reference(total), table.reference(count)))
        writer = Writer(table, 0, kernel.context)
        value, dtype = writer.value(total), self.node.outputs[0].dtype
        if table[total].dtype != dtype:
            value = kernel.language.cast(value, table[total].dtype, dtype)
        return [*writer.regions[0], f"{result}[{row}] = {stored(value, dtype)};"]
