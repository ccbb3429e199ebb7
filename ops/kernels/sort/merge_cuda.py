"""Sort of rows in CUDA C: stable, any row length, no synchronization with the host.

A warp sorts a short row.  A few longer rows are sorted by ranks (``rank_cuda``).  A row that fits a block's shared memory is else
sorted there: runs are merged in pairs.  A longer row is sorted by its digits (``radix_cuda``), or only its first entries are
selected (``select_cuda``).
"""

from __future__ import annotations

from string import Template

from ....shape_funcs.symbolic.dim import const, dim
from ....shape_funcs.symbolic.dim_operations import all_, le, lt, not_, where
from ...codegen.cuda.assembly import DIVISOR, Assembly, Parameter, blocks, size
from ...native.status import SIZE_OVERFLOW
from .order_cuda import Order, in_braces, keys, members
from .radix_cuda import add_radix_sort
from .rank_cuda import add_ranks, is_ranked
from .select_cuda import FEW, SELECTED, THREADS, TILE, add_selection

#: Entries of a thread when a block sorts a tile.
ITEMS = TILE // THREADS
#: A row of at most SHORT elements is sorted by one warp.
SHORT = 32
#: A row of 2**MAX_BITS - 1 elements or more fails with SIZE_OVERFLOW: positions of 32 bits, of which the last is that of LAST.
MAX_BITS = 32


# ---- sorting in shared memory ----------------------------------------------------------------------------------------

_TILES = Template(r"""
const int THREADS = $THREADS, ITEMS = $ITEMS, TILE = $TILE;

// Entries of shared memory from `first` on.  A gap follows ITEMS entries: threads that access every ITEMS-th meet in no bank.
struct Tile {
  Entry* room;
  int first;
  DEVICE Entry& operator[](int at) const { return room[uint32(first + at) + uint32(first + at) / ITEMS]; }
  DEVICE Tile from(int at) const { return Tile{room, first + at}; }
};
const int TILE_ROOM = TILE + TILE / ITEMS;

// How many of the first `at` of two sorted runs of `run` entries, merged, come from the first run.
DEVICE int merge_path(Tile a, Tile b, int run, int at) {
  int low = at > run ? at - run : 0, high = at < run ? at : run;
  while (low < high) {
    int middle = (low + high) / 2;
    if (before(b[at - 1 - middle], a[middle])) high = middle;
    else low = middle + 1;
  }
  return low;
}

// The entries from `at` on of two sorted runs, merged.
DEVICE void merge_items(Tile a, Tile b, int run, int at, Entry* items) {
  int i = merge_path(a, b, run, at), j = at - i;
#pragma unroll
  for (int k = 0; k < ITEMS; ++k) {
    bool first = i < run && (j >= run || !before(b[j], a[i]));
    items[k] = first ? a[i] : j < run ? b[j] : LAST;
    if (first) ++i;
    else ++j;
  }
}

// Sorts the TILE entries of a tile, of which those from `count` on are LAST.  All threads of the block call it.
DEVICE void sort_tile(Tile tile, int count) {
  Entry items[ITEMS];
  int mine = threadIdx.x * ITEMS;
  __syncthreads();
#pragma unroll
  for (int k = 0; k < ITEMS; ++k) items[k] = tile[mine + k];
#pragma unroll
  for (int round = 0; round < ITEMS; ++round) {
#pragma unroll
    for (int k = round & 1; k + 1 < ITEMS; k += 2) {
      if (before(items[k + 1], items[k])) {
        Entry other = items[k];
        items[k] = items[k + 1];
        items[k + 1] = other;
      }
    }
  }
  for (int run = ITEMS;; run *= 2) {
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) tile[mine + k] = items[k];
    __syncthreads();
    if (run >= count) return;
    Tile a = tile.from(mine / (2 * run) * (2 * run));
    merge_items(a, a.from(run), run, mine % (2 * run), items);
    __syncthreads();
  }
}
""").substitute(ITEMS=ITEMS, THREADS=THREADS, TILE=TILE)

_WARP = r"""
// The entry of this lane after it and the lane at a distance have exchanged theirs, if that puts them in order.
DEVICE Entry exchanged(Entry mine, int distance, bool wants_first) {
  Entry other = shuffle_xor(mine, distance);
  return (wants_first ? before(other, mine) : before(mine, other)) ? other : mine;
}

// The entries of a warp in order of its lanes.
DEVICE Entry sort_warp(Entry mine) {
  int lane = threadIdx.x & 31;
  for (int width = 2; width <= 32; width *= 2) {
    for (int distance = width / 2; distance > 0; distance /= 2) {
      mine = exchanged(mine, distance, ((lane & width) == 0) == ((lane & distance) == 0));
    }
  }
  return mine;
}
"""

_SORT_SHORT = r"""
  int lane = threadIdx.x & 31;
  int64 warps = blockDim.x / 32;
  for (int64 row = blockIdx.x * warps + threadIdx.x / 32; row < rows; row += gridDim.x * warps) {
    Entry mine = sort_warp(lane < length ? order.entry(row, lane) : LAST);
    if (lane < kept) order.put(row, lane, mine);
  }
"""

_SORT_TILES = r"""
  __shared__ Entry room[TILE_ROOM];
  Tile tile{room, 0};
  for (int64 row = blockIdx.x; row < rows; row += gridDim.x) {
    int count = int(length);
    for (int at = threadIdx.x; at < TILE; at += THREADS) tile[at] = at < count ? order.entry(row, at) : LAST;
    sort_tile(tile, count);
    for (int at = threadIdx.x; at < kept; at += THREADS) order.put(row, at, tile[at]);
    __syncthreads();
  }
"""


# ---- launches ----------------------------------------------------------------------------------------------------------


def add_sort(assembly: Assembly, order: Order) -> None:
    """Add the kernels and launches that sort rows.

    A row of 2**MAX_BITS - 1 elements or more fails with SIZE_OVERFLOW.
    """
    assembly.text(DIVISOR, keys(order.dtype, order.is_ascend), _WARP, _TILES, members(order))
    # the last 32-bit position is that of LAST
    assembly.require(lt(order.length, 2**MAX_BITS - 1), SIZE_OVERFLOW)
    plan = _Plan(assembly, order)
    plan.short_rows()
    plan.ranks()
    plan.tiles()
    if order.kept is not order.length:
        add_selection(assembly, order, plan.begin, plan.parameters(), plan.selects)


class _Plan:
    """The kernels and launch conditions of a sort."""

    def __init__(self, assembly: Assembly, order: Order) -> None:
        self.assembly, self.order = assembly, order
        self.names = {p.name for p in order.fields}
        self.begin = f"  Order order = {{{', '.join(p.name for p in order.fields)}}};\n"
        is_long, is_all = lt(TILE, order.length), order.kept is order.length
        #: Whether rows are sorted by ranks; warps select as fast.
        by_warps = dim(0) if is_all else all_(is_long, le(order.kept, FEW))
        self.ranked = all_(lt(SHORT, order.length), not_(by_warps), is_ranked(order, is_long))
        #: Whether rows are split and only their first entries are needed.
        few = dim(0) if is_all else le(order.kept, SELECTED)
        self.selects = all_(is_long, few, not_(self.ranked))
        self.is_long = all_(is_long, not_(few), not_(self.ranked))

    def parameters(self) -> tuple[Parameter, ...]:
        """The fields of the order and its sizes."""
        order = self.order
        sizes = (size("rows", order.rows), size("length", order.length), size("kept", order.kept))
        return (*order.fields, *(p for p in sizes if p.name not in self.names))

    def kernel(self, name: str, body: str, *more: Parameter) -> None:
        self.assembly.kernel(name, THREADS, (*self.parameters(), *more), self.begin + in_braces(body))

    def short_rows(self) -> None:
        """Add the kernel of one warp per row."""
        self.kernel("sort_short", _SORT_SHORT)
        self.assembly.launch("sort_short", where(le(self.order.length, SHORT), blocks(self.order.rows, THREADS // 32), 0))

    def ranks(self) -> None:
        """Add the kernel of many blocks per row, for a few rows."""
        add_ranks(self.assembly, self.order, self.begin, self.parameters(), self.ranked)

    def tiles(self) -> None:
        """Add the kernel of one block per row, then the radix sort of longer rows."""
        order, assembly = self.order, self.assembly
        self.kernel("sort_tiles", _SORT_TILES)
        in_tile = all_(lt(SHORT, order.length), le(order.length, TILE), not_(self.ranked))
        assembly.launch("sort_tiles", where(in_tile, blocks(order.rows), 0))
        if const(self.is_long) != 0:
            add_radix_sort(assembly, order, self.begin, self.parameters(), self.is_long)
