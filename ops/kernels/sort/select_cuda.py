"""Selection of the first few of long rows in CUDA C: candidates of sections of a row, then the first of all candidates.

At most FEW (Johnson, Douze and Jégou 2017, "Billion-scale similarity search with GPUs"): each warp holds the first entries that
it has seen, in order of its lanes.  The last that is wanted is the limit: entries beyond the limit are passed over.  The others
wait in shared memory until 32 of them are sorted and merged with those held.  The first limit comes from the least entry of each
lane.
At most SELECTED: a block collects the entries before its limit until a tile is full, and sorts the tile.
"""

from __future__ import annotations

from string import Template

from ....shape_funcs.symbolic.dim import Dim, const, dim
from ....shape_funcs.symbolic.dim_operations import all_, le, lt, max_, min_, where
from ...codegen.cuda.assembly import Assembly, Parameter, blocks, divisor, in_memory, size
from ...codegen.cuda.vector_access import ACCESS
from ...core.tensor_types import ITEMSIZE
from .order_cuda import Order, entry_bytes, in_braces

#: Threads of a block; the entries that ``sort_tile`` sorts.
THREADS, TILE = 256, 2048
#: The largest number of selected entries; the number of candidates that a block collects between two checks of their count.
SELECTED, CANDIDATES = 512, 1024
#: The largest number of entries that a warp selects.
FEW = 32
#: The largest number of sections of a row: for blocks that sort tiles, and for warps.
SECTIONS, FEW_SECTIONS = 256, 512

_FEW = Template("""
const int AT_ONCE = $at_once, WIDTH = $width, TURN = AT_ONCE * $threads;

// AT_ONCE entries of each thread, from `from` on; their keys, and LAST from `end` on.
struct RowEntries {
  const Order& order;
  int64 row, from, end;
  bool is_wide;
  DEVICE int64 place(int k) const {
    return from + (is_wide ? (k / WIDTH * $threads + int(threadIdx.x)) * WIDTH + k % WIDTH : k * $threads + int(threadIdx.x));
  }
  DEVICE void load(int64 begin, Key* keys) {
    from = begin;
$packs
#pragma unroll
    for (int k = 0; k < AT_ONCE; ++k) keys[k] = place(k) < end ? key_in(order.entry(row, place(k))) : Key(~Key(0));
  }
  DEVICE Entry entry(int k, Key key) const { return place(k) < end ? $entry : LAST; }
};
struct FoundEntries {
  const Entry* found;
  int64 from, end;
  DEVICE int64 place(int k) const { return from + k * $threads + int(threadIdx.x); }
  DEVICE Entry entry(int k, Key) const { return place(k) < end ? found[place(k)] : LAST; }
  DEVICE void load(int64 begin, Key* keys) {
    from = begin;
#pragma unroll
    for (int k = 0; k < AT_ONCE; ++k) keys[k] = key_in(entry(k, 0));
  }
};

// Of two sequences in order of lanes the first 32, in order.
DEVICE Entry first_of_both(Entry held, Entry other) {
  int lane = threadIdx.x & 31;
  other = shuffle_from(other, 31 - lane);
  if (before(other, held)) held = other;
  for (int distance = 16; distance > 0; distance /= 2) held = exchanged(held, distance, (lane & distance) == 0);
  return held;
}

// The first entries from start to end - 1, in order of the lanes of the first warp; all threads of the block call it.
template <class Source> DEVICE Entry select_few(Source source, int64 start, int64 end, int kept) {
  __shared__ Entry rooms[$warps][32 * AT_ONCE + 32];
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, waiting = 0;
  Entry *room = rooms[warp], held = LAST, limit = LAST;
  for (int64 from = start; from < end; from += TURN) {
    Key keys[AT_ONCE];
    Entry least = LAST;
    source.load(from, keys);
    bool is_first = from == start, any = false;
    if (is_first) {
      Key key = keys[0];
      int at = 0;
#pragma unroll
      for (int k = 1; k < AT_ONCE; ++k) {
        if (keys[k] < key) {
          key = keys[k];
          at = k;
        }
      }
      least = source.entry(at, key);
      held = sort_warp(least);
      limit = shuffle_from(held, kept - 1);
    }
    const Key most = key_in(limit);
#pragma unroll
    for (int k = 0; k < AT_ONCE; ++k) any |= keys[k] <= most;
    if (!__any_sync(0xffffffffu, any)) continue;
#pragma unroll
    for (int k = 0; k < AT_ONCE; ++k) {
      if (!__any_sync(0xffffffffu, keys[k] <= most)) continue;
      Entry entry = keys[k] <= most ? source.entry(k, keys[k]) : LAST;
      bool waits = before(entry, limit) && (!is_first || before(least, entry));
      uint32 lanes = __ballot_sync(0xffffffffu, waits);
      if (waits) room[waiting + __popc(lanes & ((1u << lane) - 1))] = entry;
      waiting += __popc(lanes);
    }
    __syncwarp();
    for (; waiting >= 32; waiting -= 32) held = first_of_both(held, sort_warp(room[waiting - 32 + lane]));
    limit = shuffle_from(held, kept - 1);
    __syncwarp();
  }
  held = first_of_both(held, sort_warp(lane < waiting ? room[lane] : LAST));
  __syncwarp();
  room[lane] = held;
  __syncthreads();
  if (warp == 0) {
    for (int other = 1; other < $warps; ++other) held = first_of_both(held, rooms[other][lane]);
  }
  __syncthreads();
  return held;
}
""")

_PACKS = Template("""
    const $dtype* first = order.first(row);
    is_wide = order.step() == 1 && from + TURN <= end && aligned16(first + from);
    if (is_wide) {
      Pack<$dtype, WIDTH> packs[AT_ONCE / WIDTH];
#pragma unroll
      for (int k = 0; k < AT_ONCE / WIDTH; ++k) packs[k] = load_pack<$dtype, WIDTH>(first + place(k * WIDTH));
      __syncwarp();  // all loads are in flight before the first element is looked at
#pragma unroll
      for (int k = 0; k < AT_ONCE; ++k) keys[k] = key_of(packs[k / WIDTH].at[k % WIDTH]);
      return;
    }
""")

_FEW_OF_SECTIONS = """
  for (int64 work = blockIdx.x; work < rows * sections; work += gridDim.x) {
    int64 row = by_sections.quotient(work), start = (work - row * sections) * section;
    int64 end = start + section < length ? start + section : length;
    Entry held = select_few(RowEntries{order, row, start, end, false}, start, end, int(kept));
    if (threadIdx.x < kept) {
      if (sections > 1) found[work * kept + threadIdx.x] = held;
      else order.put(row, threadIdx.x, held);
    }
  }
"""

_FEW_OF_ROWS = """
  int64 candidates = sections * kept;
  for (int64 row = blockIdx.x; row < rows; row += gridDim.x) {
    Entry held = select_few(FoundEntries{found + row * candidates, 0, candidates}, 0, candidates, int(kept));
    if (threadIdx.x < kept) order.put(row, threadIdx.x, held);
  }
"""

_SELECT = Template(r"""
const int CANDIDATES = $CANDIDATES;

// The first `keep` (or all there are) of the entries source(start) to source(end - 1), in order, at the front of `tile`;
// returns how many.  What would not be among those found so far is passed over; the others gather until the tile is full.
template <class Source> DEVICE int select_first(Source source, int64 start, int64 end, int keep, Tile tile) {
  __shared__ int filled;
  int held = 0;
  Entry limit = LAST;
  if (threadIdx.x == 0) filled = 0;
  __syncthreads();
  for (int64 from = start; from < end; from += CANDIDATES) {
    Entry some[CANDIDATES / THREADS];
#pragma unroll
    for (int k = 0; k < CANDIDATES / THREADS; ++k) {
      int64 at = from + k * THREADS + threadIdx.x;
      some[k] = at < end ? source(at) : LAST;
    }
#pragma unroll
    for (int k = 0; k < CANDIDATES / THREADS; ++k) {
      if (before(some[k], limit)) tile[atomicAdd(&filled, 1)] = some[k];
    }
    __syncthreads();
    held = filled;
    if (held + CANDIDATES > TILE || from + CANDIDATES >= end) {
      for (int at = held + threadIdx.x; at < TILE; at += THREADS) tile[at] = LAST;
      sort_tile(tile, held);
      if (held >= keep) {
        held = keep;
        limit = tile[keep - 1];
      }
      if (threadIdx.x == 0) filled = held;
    }
    __syncthreads();
  }
  return held;
}
""").substitute(CANDIDATES=CANDIDATES)

_SELECT_SECTIONS = r"""
  __shared__ Entry room[TILE_ROOM];
  Tile tile{room, 0};
  for (int64 work = blockIdx.x; work < rows * sections; work += gridDim.x) {
    int64 row = by_sections.quotient(work), start = (work - row * sections) * section;
    int64 end = start + section < length ? start + section : length;
    auto source = [=](int64 at) { return order.entry(row, at); };
    int held = select_first(source, start, end, int(kept), tile);
    for (int at = threadIdx.x; at < kept; at += THREADS) {
      if (sections > 1) found[work * kept + at] = at < held ? tile[at] : LAST;
      else if (at < held) order.put(row, at, tile[at]);
    }
    __syncthreads();
  }
"""

_SELECT_ROWS = r"""
  __shared__ Entry room[TILE_ROOM];
  Tile tile{room, 0};
  int64 candidates = sections * kept;
  for (int64 row = blockIdx.x; row < rows; row += gridDim.x) {
    const Entry* of_row = found + row * candidates;
    auto source = [=](int64 at) { return of_row[at]; };
    int held = select_first(source, 0, candidates, int(kept), tile);
    for (int at = threadIdx.x; at < held; at += THREADS) order.put(row, at, tile[at]);
    __syncthreads();
  }
"""


def add_selection(assembly: Assembly, order: Order, begin: str, own: tuple[Parameter, ...], used: Dim) -> None:
    """Add the kernels and launches that select the first entries of rows, which run where ``used``.

    ``begin``: the text that makes ``order`` from the parameters ``own``, the fields of the order and its sizes.
    """
    if const(used) == 0:
        return
    is_few = all_(used, lt(0, order.kept), le(order.kept, FEW))
    few, many = where(is_few, used, 0), where(is_few, 0, used)
    names = ("few_of_sections", "few_of_rows"), ("select_sections", "select_rows")
    if const(few) != 0:
        # as many candidates as a block has room for
        width, at_once = ACCESS // ITEMSIZE[order.dtype], 8 if ITEMSIZE[order.dtype] == 8 else 16
        texts = {"threads": THREADS, "warps": THREADS // 32, "width": width, "at_once": at_once, "dtype": in_memory(order.dtype)}
        packs, entry = (
            (_PACKS.substitute(**texts), "make_entry(key, place(k))") if order.elements else ("", "order.entry(row, place(k))")
        )
        assembly.text(_FEW.substitute(packs=packs, entry=entry, **texts))
        _add(
            assembly,
            order,
            (begin + in_braces(_FEW_OF_SECTIONS), begin + in_braces(_FEW_OF_ROWS)),
            names[0],
            own,
            few,
            FEW_SECTIONS,
        )
    if const(many) != 0:
        assembly.text(_SELECT)
        _add(
            assembly, order, (begin + in_braces(_SELECT_SECTIONS), begin + in_braces(_SELECT_ROWS)), names[1], own, many, SECTIONS
        )


def _add(
    assembly: Assembly,
    order: Order,
    bodies: tuple[str, str],
    names: tuple[str, str],
    own: tuple[Parameter, ...],
    used: Dim,
    most: int,
) -> None:
    """Add the two kernels of a selection; the first suffices for rows of one section."""
    parts = min_(max_(dim(4 * SECTIONS) // order.rows, 1), most)
    section = max_((order.length + (parts - 1)) // parts, 2 * TILE)
    of_row = (order.length + (section - 1)) // section
    found = assembly.scratch(where(used, order.rows * of_row * order.kept * entry_bytes(order.dtype), 0))
    sizes = size("section", section), size("sections", of_row), divisor("by_sections", of_row, order.rows * of_row)
    parameters = (*own, Parameter("Entry*", "found", found), *sizes)
    for name, body in zip(names, bodies, strict=True):
        assembly.kernel(name, THREADS, parameters, body, resident=3)
    assembly.launch(names[0], where(used, blocks(order.rows * of_row), 0))
    assembly.launch(names[1], where(all_(used, lt(1, of_row)), blocks(order.rows), 0))
