"""CUDA C of groups that use the results of their reductions: threads that share a row fold it pass after pass, in one launch.

As in ``block_reduce``, a row is the set of elements folded into one, and is contiguous in memory.  Rows that registers hold are
read once (``held_rows``).  Otherwise each pass reads the row again, from the caches that the first pass filled, and
recomputes the values it needs.
"""

from __future__ import annotations

from dataclasses import replace

from ....shape_funcs.symbolic.dim import Dim, dim, product
from ....shape_funcs.symbolic.dim_operations import le, lt, max_, min_, where
from ...core.group import Group
from ...core.tensor_types import computed_in
from ...native.status import EMPTY_REDUCTION
from ..loop_nest.expression_text import indented
from ..loop_nest.linear_index import Lowered, general, without_broadcast
from ..loop_nest.row_passes import RowFold, Rows
from .assembly import Assembly
from .block_reduce import MAX_BLOCKS, REDUCE, THREADS
from .cuda_nest import CudaKernel, Elements, elements, function, launch
from .cuda_text import stored
from .held_rows import LONG, HeldText, Holding, held_rows, short_rows
from .parallel_fold import Fold, fold

_ROWS = r"""
// The same number: what depends on it is computed again, for the compiler does not know that.
DEVICE int opaque(int number) {
  asm volatile("" : "+r"(number));
  return number;
}
// array + offset, in bytes that a compiler does not know (a grid has one layer): it adds an index to this address in one
// instruction, where it would compute the product of a row and its length anew for each index.
template <class T> DEVICE T* address_of(T* array, int64 offset) {
  return (T*)((char*)array + (offset * int64(sizeof(T)) ^ int64(gridDim.z - 1u)));
}
// The logarithm of the number of threads that share a row, of which each holds at most HELD elements.
template <int HELD> DEVICE int log_of_ways(int length) { return 32 - __clz((length - 1) / HELD); }

// The sum of N numbers, by pairs.
template <int N> DEVICE float32 sum_of(const float32* numbers) {
  if constexpr (N == 1) return numbers[0];
  else return sum_of<N / 2>(numbers) + sum_of<N - N / 2>(numbers + N / 2);
}
// The fold of the elements of a row that a thread holds, in PACKS packs: pack number p, at position `at`, if it `is_there`.
template <class Fold, int PACKS, bool = Fold::adds_packs> struct OfThread {
  typename Fold::State state = Fold::start();
  template <class T, int N> DEVICE void take(int, bool is_there, const Pack<T, N>& pack, int64 at) {
    if (!is_there) return;
#pragma unroll
    for (int k = 0; k < N; ++k) Fold::step(state, pack.at[k], at + k);
  }
};
// Sums of two packs in float32 are exact if all elements are equal.
template <class Fold, int PACKS> struct OfThread<Fold, PACKS, true> {
  typename Fold::State state = Fold::start();
  float32 sum = 0.0f;
  template <int N> DEVICE void take(int p, bool is_there, const Pack<float32, N>& pack, int64) {
    const float32 more = is_there ? sum_of<N>(pack.at) : 0.0f;
    sum = p % 2 ? sum + more : more;
    if (p % 2 || p == PACKS - 1) state.value += decltype(state.value)(sum);
  }
};

template <class T, int N> DEVICE void store_row(T* to, const Pack<T, N>& pack, bool straight) {
  if (straight) {
    store_pack(to, pack);
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) to[i] = pack.at[i];
  }
}
// All loads of packs are issued before the first pack is used.  A compiler moves loads behind computations to save registers, and
// each then waits for memory; it does not know that the grid has one layer, so that no bit changes here.
template <class P, int N> DEVICE uint32 last_words(const P (&packs)[N]) {
  uint32 bits = 0, word;
#pragma unroll
  for (int k = 0; k < N; ++k) {
    memcpy(&word, reinterpret_cast<const char*>(packs + k) + sizeof(P) - 4, 4);
    bits |= word;
  }
  return bits;
}
template <class P, int N, class... Others> DEVICE void load_first(P (&packs)[N], const Others&... others) {
  uint32 bits = last_words(packs), word;
  ((bits |= last_words(others)), ...);
#pragma unroll
  for (int k = 0; k < N; ++k) {
    memcpy(&word, packs + k, 4);
    word ^= bits & (gridDim.z - 1u);
    memcpy(packs + k, &word, 4);
  }
}
// The state of `count` neighbouring lanes, known to each of them.
template <class Fold> DEVICE typename Fold::State join_lanes(typename Fold::State state, int count) {
  for (int near = 1; near < count; near *= 2)
    state = join_both<Fold>(state, shuffle_xor(state, near), threadIdx.x & near);
  return state;
}
// The state of all threads that share a row, known to each of them.  All threads of the block take part, and meet once more
// before they join the same fold again.
template <class Fold> DEVICE typename Fold::State join_all(typename Fold::State state, int ways) {
  if (ways <= 32) return join_lanes<Fold>(state, ways);
  state = join_lanes<Fold>(state, 32);
  __shared__ typename Fold::State of_warp[8];
  const int warp = threadIdx.x >> 5, warps = ways >> 5;
  if ((threadIdx.x & 31) == 0) of_warp[warp] = state;
  __syncthreads();
  return join_lanes<Fold>(of_warp[(warp & -warps) + (threadIdx.x & (warps - 1))], warps);
}
"""


def add_row_kernel(assembly: Assembly, group: Group, plan: Rows, name: str) -> None:
    """Add the kernel ``name`` that computes a result from rows and their folds."""
    _RowKernel(assembly, group, plan, name).add()


class _RowKernel:
    def __init__(self, assembly: Assembly, group: Group, plan: Rows, name: str) -> None:
        self.assembly, self.group, self.plan, self.name = assembly, group, plan, name
        self.kept = len(plan.dims) - plan.folded
        self.position = len(group.params) + group.results.index(plan.result)
        self.dtype = group.values()[plan.result].dtype
        self.folds = [(f, fold(f.combine, plan.cells[f.element].dtype, f.attrs)) for f in plan.folds]

    def add(self) -> None:
        self.assembly.text(REDUCE, _ROWS)
        for f, made in self.folds:
            self.assembly.text(made.text(self._struct(f), self.plan.cells[f.element].dtype))
        long, short = CudaKernel(self.group).known_at_launch(self.plan.dims[self.kept :]), short_rows(self.dtype)
        if long is None or not self._holds(short):
            self._add(self.name, LONG, dim(1))
        else:
            self._add(self.name, short, le(long, short.longest))
            self._add(f"{self.name}_long", LONG, lt(short.longest, long))

    def _holds(self, short: Holding) -> bool:
        """Whether short rows are held in registers."""
        lowered = without_broadcast(self.group, self.plan) or general(self.group, self.plan)
        return held_rows(lowered, self.plan, self.dtype, short) is not None

    def _add(self, name: str, holding: Holding, wanted: Dim) -> None:
        """Add a kernel and its launch, if ``wanted``."""
        kernel = CudaKernel(self.group)
        result = kernel.array(self.position)
        rows, length = kernel.count(self.plan.dims[: self.kept]), kernel.count(self.plan.dims[self.kept :])
        lines = [f"const int64 rows = {rows}, length = {length};"]
        if any(made.needs_one for _, made in self.folds):
            refuse = f"if (blockIdx.x + threadIdx.x == 0 && rows > 0) fail(fault, {EMPTY_REDUCTION}, site);"
            lines += ["if (length == 0) {", f"    {refuse}", "    return;", "}"]
        lines += self._variants(kernel, result, holding)
        body = "\n".join(indented([*kernel.prologue, *lines]))
        self.assembly.kernel(name, THREADS, kernel.parameters(body), body, holding.resident)
        launch(self.assembly, name, where(wanted, self._blocks(kernel), 0))

    def _struct(self, f: RowFold) -> str:
        return f"Fold_{self.name}_{f.name}"

    def _blocks(self, kernel: CudaKernel) -> Dim:
        # the leading axes of the result are the kept axes
        rows = product(kernel.launch_size(self.position, axis) for axis in range(self.kept))
        long = kernel.known_at_launch(self.plan.dims[self.kept :])
        if long is not None:  # short rows share a block
            rows = min_(rows, max_(rows * long // 4096, 1))
        return min_(rows, MAX_BLOCKS)

    def _variants(self, kernel: CudaKernel, result: str, holding: Holding) -> list[str]:
        quick = without_broadcast(self.group, self.plan)
        long = self._passes(kernel, general(self.group, self.plan), result, holding if quick is None else None)
        if quick is None:
            return long
        same = " && ".join(f"{kernel.size(a)} == {kernel.size(b)}" for a, b in quick.equal)
        return [f"if ({same}) {{", *indented(self._passes(kernel, quick, result, holding)), "} else {", *indented(long), "}"]

    def _passes(self, kernel: CudaKernel, lowered: Lowered, result: str, holding: Holding | None) -> list[str]:
        lines: list[str] = []
        for f, made in self.folds:
            lines += self._fold(kernel, lowered, f, made)
        lines += self._store(kernel, lowered, result)
        lines = [
            "const Tile tile(rows, length, true);",
            "#pragma unroll 1",
            "for (int64 base = blockIdx.x * tile.rows; base < rows; base += gridDim.x * tile.rows) {",
            "    const int64 row = base + tile.row;",
            *indented(lines),
            "    __syncthreads();",
            "}",
        ]
        held = held_rows(lowered, self.plan, self.dtype, holding) if holding is not None else None
        if held is None:
            return lines
        folds = [(f, made, self._struct(f)) for f, made in self.folds]
        return HeldText(kernel, held, self.kept, self.dtype).text(folds, result, lines)

    def _fold(self, kernel: CudaKernel, lowered: Lowered, f: RowFold, made: Fold) -> list[str]:
        """Statements that define the local of a fold."""
        struct, kind = self._struct(f), computed_in(f.dtype)
        each = elements(kernel, replace(lowered, element=lowered.cells[f.element]), self.kept, None)
        return [
            f"{kind} {f.name};",
            "{",
            f"    {struct}::State s = {struct}::start();",
            "    if (row < rows) {",
            *indented(self._element(kernel, lowered, each, computed_in(each.dtype)), 2),
            f"        fold_each<{struct}, 4>(s, 0, length, tile, element);",
            "    }",
            f"    s = join_all<{struct}>(s, tile.ways);",
            f"    {f.name} = {kind}({made.value});",
            "}",
        ]

    def _element(self, kernel: CudaKernel, lowered: Lowered, each: Elements, dtype: str) -> list[str]:
        """Statements that define ``element`` for the row ``row``."""
        apart = kernel.unravel_index("at", lowered.extents[self.kept :], self.kept)
        lines = [*kernel.unravel_index("row", lowered.extents[: self.kept]), *each.outer, *each.rows]
        return [*lines, *function("element", dtype, [*apart, *each.element])]

    def _store(self, kernel: CudaKernel, lowered: Lowered, result: str) -> list[str]:
        each = elements(kernel, lowered, self.kept, None, stored("{0}", self.dtype))
        lines = self._element(kernel, lowered, each, self.dtype)
        if self.plan.per_row:
            return ["if (row < rows && tile.way == 0) {", *indented([*lines, f"{result}[row] = element(0);"]), "}"]
        lines += [
            "in_batches<4>(tile.way, length, tile.ways, element, [&](auto value, int64 at) {",
            f"    {result}[row * length + at] = value;",
            "});",
        ]
        return ["if (row < rows) {", *indented(lines), "}"]
