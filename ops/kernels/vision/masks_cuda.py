"""Non-maximum suppression by masks in CUDA C: which better boxes cover a box, 64 to a word.

The boxes of a row, an image or a class of one, are in order of their scores, the valid boxes first.  The whole device computes
the masks.  Then one block per row processes 64 boxes, a *tile*, at a time.  Boxes whose masks have no room are chosen in strips.
The whole device compares the kept boxes of a strip with all boxes after it, and the next strip begins without the covered boxes.
"""

from __future__ import annotations

from string import Template

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import Dim, const, dim
from ....shape_funcs.symbolic.dim_operations import all_, le, lt, max_, where
from ...codegen.cuda.assembly import Assembly, Parameter, Parameters, blocks, size
from ...codegen.cuda.cuda_program import Turns

#: Threads of the block that selects a row's boxes, and the largest number of boxes of a row, or of its strip.
CHOOSING_THREADS, MASKED_BOXES = 1024, 2**14
#: The largest size of masks in bytes.
MASK_BYTES = 2**28
#: Boxes of a strip, multiples of 64: the first for which all rows' masks have room.
STRIPS = (2**13, 2**11, 2**9)
#: Threads of a block that compares kept boxes with later boxes, two of each thread, and the kept boxes that it compares.
_COVERING_THREADS, _COVERING = 128, 1024


def _mask_bytes(rows: Dim, boxes: Dim | int) -> Dim:
    return rows * boxes * ((dim(boxes) + 63) // 64) * 8


def strip_width(rows: Dim, boxes: Dim) -> Dim:
    """The boxes of a strip; all boxes if the masks have room; 0 if not even the masks of the narrowest strips have room."""
    width = dim(0)
    for strip in reversed(STRIPS):
        width = where(le(_mask_bytes(rows, strip), MASK_BYTES), strip, width)
    return where(all_(le(boxes, MASKED_BOXES), le(_mask_bytes(rows, boxes), MASK_BYTES)), boxes, width)


@frozen
class Masks:
    """Kernels that choose boxes by masks, and their workspaces; nothing of them runs where ``width`` is 0.

    ``rows``: rows of ``boxes`` boxes, which the workspace ``of_boxes`` has.  ``width``: boxes of a strip.  ``fields``: parameters
    of all kernels; the texts may read them.  ``threshold``, ``limit``: expressions; ``is_valid``: whether the box ``at`` of
    ``row`` is valid.  ``unless``: a condition on ``threshold``, under which nothing is compared.
    """

    assembly: Assembly
    rows: Dim
    boxes: Dim
    width: Dim
    of_boxes: Parameter
    found_in: Parameter
    fields: Parameters
    threshold: str
    limit: str
    is_valid: str
    unless: str = "false"

    @property
    def used(self) -> Dim:
        """Whether boxes are chosen by masks."""
        return lt(0, self.width)

    def add(self, name: str, body: str, more: Parameters) -> None:
        """Add all kernels: ``name`` runs ``body``, which calls ``choose_in_row``, for each strip."""
        count = where(self.used, (self.boxes + (self.width - 1)) // max_(self.width, 1), 0)
        several = lt(1, count)
        reserve = self.assembly.scratch
        words = (self.boxes + 63) // 64
        made = (
            Parameter("uint64*", "masks", reserve(where(self.used, _mask_bytes(self.rows, self.width), 0))),
            Parameter("uint32*", "covered", reserve(where(several, self.rows * words * 8, 0))),
            Parameter("int64*", "chosen", reserve(where(several, self.rows * self.boxes * 8, 0))),
            Parameter("int64*", "found_before", reserve(where(several, self.rows * 8, 0))),
            Parameter("int64*", "now", reserve(where(several, 16, 0))),
            size("rows_of_boxes", self.rows), size("boxes_of_row", self.boxes), size("width", self.width), size("strips", count),
        )  # fmt: skip
        parameters = (self.of_boxes, self.found_in, *made, *self.fields)
        names = {"threshold": self.threshold, "limit": self.limit, "is_valid": self.is_valid, "unless": self.unless}
        self.assembly.text(CHOOSE_BY_MASKS)
        self.assembly.kernel("begin_strips", 256, parameters, _BEGIN)
        self.assembly.launch("begin_strips", where(several, blocks(self.rows * words * 2, 256), 0))
        before = len(self.assembly.steps)
        self.assembly.kernel("make_masks", 64, parameters, _MASKS.substitute(names))
        tiles = (self.width + 63) // 64
        self.assembly.launch("make_masks", where(self.used, blocks(self.rows * (tiles * (tiles + 1) // 2)), 0))
        self.assembly.kernel(name, CHOOSING_THREADS, (*parameters, *more), _OF_STRIP + body)
        self.assembly.launch(name, where(self.used, blocks(self.rows), 0))
        names |= {"threads": str(_COVERING_THREADS), "covering": str(_COVERING)}
        self.assembly.kernel("cover", _COVERING_THREADS, parameters, _COVER.substitute(names))
        across = (self.boxes - self.width + (2 * _COVERING_THREADS - 1)) // (2 * _COVERING_THREADS)
        deep = (self.width + (_COVERING - 1)) // _COVERING
        self.assembly.launch("cover", where(several, blocks(self.rows * across * deep), 0))
        if const(count) != 1:
            self.assembly.steps.insert(before, Turns(count, 1, len(self.assembly.steps) - before))


# The number of the strip is `now[0]` for the kernels that make and read masks, `now[1] - 1` for the kernel after them: no kernel
# changes a word that another of its blocks reads.
_BEGIN = """
  int64 all = rows_of_boxes * ((boxes_of_row + 63) / 64) * 2, step = gridDim.x * int64(blockDim.x);
  for (int64 at = blockIdx.x * int64(blockDim.x) + threadIdx.x; at < all; at += step) covered[at] = 0;
  if (blockIdx.x == 0 && threadIdx.x < 2) now[threadIdx.x] = 0;
"""

_OF_STRIP = """
  const int64 strip = strips > 1 ? now[0] : 0, base = strip * width;
  const bool several = strips > 1;
  if (several && blockIdx.x == 0 && threadIdx.x == 0) now[1] = strip + 1;
  // The number of kept boxes of a row with those in the strip.  All threads of the block call it.
  auto choose_in_row = [&](int64 row, int64* slots, int64 considered, int64 limit) -> int64 {
    const int64 before = strip == 0 ? 0 : found_in[row], words = (width + 63) / 64;
    if (several && threadIdx.x == 0) found_before[row] = before;
    const uint32* gone = several ? covered + row * ((boxes_of_row + 63) / 64) * 2 + base / 32 : nullptr;
    int64 here = considered - base < width ? considered - base : width;
    if (here < 0) here = 0;
    const int64 found = choose_by_masks(masks + row * words * width, gone, slots + base, here, width, before, limit);
    if (!several) return found;
    for (int64 at = base + threadIdx.x; at < base + here; at += blockDim.x) {
      if (slots[at] >= 0) chosen[row * boxes_of_row + slots[at]] = at;
    }
    return found;
  };
"""

# Blocks of 64 threads; each thread computes one word: the boxes of a tile that cover a box of the same tile or a later one.
_MASKS = Template("""
  __shared__ Box others[64];
  auto threshold = $threshold;
  if ($unless) return;
  const int64 base = strips > 1 ? now[0] * width : 0;
  const int words = int(width + 63) / 64, pairs = words * (words + 1) / 2;  // masks have at most 2^28 bytes
  for (int64 work = blockIdx.x; work < rows_of_boxes * pairs; work += gridDim.x) {
    const int64 row = work / pairs;
    const int pair = int(work - row * pairs);
    int tile = int((sqrtf(8.0f * float(pair) + 1.0f) - 1.0f) * 0.5f);  // pairs come in rows of 1, 2, 3, ...
    while (tile * (tile + 1) / 2 > pair) --tile;
    while ((tile + 1) * (tile + 2) / 2 <= pair) ++tile;
    const int other = pair - tile * (tile + 1) / 2, mine = tile * 64 + int(threadIdx.x);
    const int64 at = base + mine, first = row * boxes_of_row + base;
    const bool is_mine = mine < width && at < boxes_of_row && $is_valid;
    if (!__syncthreads_or(is_mine)) continue;
    if (other < tile || is_mine) others[threadIdx.x] = boxes[first + other * 64 + threadIdx.x];
    __syncthreads();
    if (is_mine) {
      uint64 open = ~0ull, mask = 0;  // those not covered
      if (strips > 1) {
        const uint64* gone = reinterpret_cast<const uint64*>(covered) + row * ((boxes_of_row + 63) / 64) + base / 64;
        open = gone[tile] >> threadIdx.x & 1 ? 0 : ~gone[other];
      }
      if (open != 0) {
        const Box box = boxes[first + mine];
        const int count = other == tile ? int(threadIdx.x) : 64;
        for (int k = 0; k < count; ++k) {
          if ((open >> k & 1) != 0 && covers(others[k], box, threshold)) mask |= 1ull << k;
        }
      }
      masks[(row * words + other) * width + mine] = mask;
    }
    __syncthreads();
  }
""")

# Which boxes after the strip the boxes kept in the strip cover.  A thread has two boxes at a distance.
_COVER = Template("""
  __shared__ Box others[$threads];
  auto threshold = $threshold;
  const int64 strip = now[1] - 1, base = (strip + 1) * width, rest = boxes_of_row - base, limit = $limit;
  if (blockIdx.x == 0 && threadIdx.x == 0) now[0] = strip + 1;
  if ($unless || rest <= 0) return;
  const int64 across = (rest + 2 * $threads - 1) / (2 * $threads), deep = (width + $covering - 1) / $covering;
  for (int64 work = blockIdx.x; work < rows_of_boxes * across * deep; work += gridDim.x) {
    const int64 row = work / (across * deep), from = found_before[row] + work / across % deep * $covering, found = found_in[row];
    const int64 until = from + $covering < found ? from + $covering : found, origin = row * boxes_of_row;
    uint32* gone = covered + row * ((boxes_of_row + 63) / 64) * 2;
    Box mine[2];
    bool is_open[2], is_covered[2] = {};
    int64 place[2];
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const int64 at = place[k] = base + (work % across * 2 + k) * $threads + threadIdx.x;
      is_open[k] = at < boxes_of_row && $is_valid && (gone[at / 32] >> (at % 32) & 1) == 0;
      if (is_open[k]) mine[k] = boxes[origin + at];
    }
    const bool is_any = from < until && found != limit;
    if (!__syncthreads_or(is_any && (is_open[0] || is_open[1]))) continue;
    for (int64 first = from; first < until; first += $threads) {
      const int count = until - first < $threads ? int(until - first) : $threads;
      __syncthreads();
      if (threadIdx.x < count) others[threadIdx.x] = boxes[origin + chosen[origin + first + threadIdx.x]];
      __syncthreads();
      for (int other = 0; other < count && (is_open[0] || is_open[1]); ++other) {
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          if (is_open[k] && covers(others[other], mine[k], threshold)) {
            is_open[k] = false;
            is_covered[k] = true;
          }
        }
      }
    }
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const uint32 lanes = __ballot_sync(0xffffffffu, is_covered[k]);
      if ((threadIdx.x & 31) == 0 && lanes != 0) atomicOr(gone + place[k] / 32, lanes);
    }
    __syncthreads();
  }
""")

# The first warp chooses from a tile in rounds: a box is kept when no undecided box covers it, and then the boxes that it covers
# are suppressed.  Meanwhile a group of the other warps finds the boxes of the next tile that those kept before this tile cover.
# The words of a tile depend on no choice: groups take turns, so that words are on their way while other groups work.
CHOOSE_BY_MASKS = Template("""
DEVICE uint64 of_both(bool low, bool high) {
  return __ballot_sync(0xffffffffu, low) | uint64(__ballot_sync(0xffffffffu, high)) << 32;
}

// The boxes of a tile that are kept, of those that are `open`; `low` and `high`: what covers boxes `lane` and `lane + 32`.
DEVICE uint64 kept_of_open(uint64 open, uint64 low, uint64 high) {
  for (uint64 kept = 0;;) {
    uint64 free = open & ~of_both((low & open) != 0, (high & open) != 0);
    kept |= free;
    open &= ~free;
    if (open == 0) return kept;
    open &= ~of_both((low & free) != 0, (high & free) != 0);
  }
}

DEVICE uint64 first_bits(uint64 bits, int64 count) {
  uint64 first = 0;
  for (; count > 0 && bits != 0; --count) {
    first |= bits & -bits;
    bits &= bits - 1;
  }
  return first;
}

// `covered`: boxes that are so already, or none; `before`: the number of the kept boxes before.
DEVICE int64 choose_by_masks(
    const uint64* masks, const uint32* covered, int64* slots, int64 considered, int64 stride, int64 before, int64 limit) {
  const int GROUPS = 3, COLUMNS = $TURNS, AHEAD = 14;
  // the kept boxes of each tile; its boxes that are covered by those before the last tile, 32 to a word
  __shared__ uint64 kept_in[$PAIRS];
  __shared__ uint32 covered_in[$WORDS];
  __shared__ uint64 near_words[2][2][64];  // of two tiles: what covers a box in its own tile, and in the last
  __shared__ int64 total;
  __shared__ bool ends[2];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, tiles = int((considered + 63) / 64);
  const int half = (warp + 1) & 1, column = (warp - 1) / 2 % COLUMNS, group = warp > 0 ? (warp - 1) / (2 * COLUMNS) : GROUPS;
  uint64 ahead[AHEAD], near = 0;
  // AHEAD words of a box of this thread from `first` on, in flight together; then whether kept boxes are among them
  auto load = [&](int tile, int first) {
    int64 box = int64(tile) * 64 + half * 32 + lane;
#pragma unroll
    for (int k = 0; k < AHEAD; ++k) {
      int at = first + k * COLUMNS;
      if (at > tile - 2) break;
      ahead[k] = box < considered ? masks[at * stride + box] : 0;
    }
  };
  auto covers_any = [&](int tile, int first) {
    uint64 covers = 0;
#pragma unroll
    for (int k = 0; k < AHEAD; ++k) {
      int at = first + k * COLUMNS;
      if (at > tile - 2) break;
      covers |= ahead[k] & kept_in[at];
    }
    return covers != 0;
  };
  auto load_ahead = [&](int tile) {
    if (tile >= tiles) return;
    int64 box = int64(tile) * 64 + half * 32 + lane;
    if (column < 2 && column <= tile) near = box < considered ? masks[(tile - column) * stride + box] : 0;
    load(tile, column);
  };
  auto find_covered = [&](int tile) {
    if (tile >= tiles) return;
    if (column < 2) near_words[tile & 1][column][half * 32 + lane] = near;
    bool is_covered = covers_any(tile, column);
    for (int first = column + AHEAD * COLUMNS; first <= tile - 2; first += AHEAD * COLUMNS) {
      load(tile, first);
      is_covered |= covers_any(tile, first);
    }
    uint32 lanes = __ballot_sync(0xffffffffu, is_covered);
    if (lane == 0 && lanes != 0) atomicOr(&covered_in[2 * tile + half], lanes);
  };
  for (int at = threadIdx.x; at < 2 * tiles; at += blockDim.x) covered_in[at] = covered == nullptr ? 0 : covered[at];
  if (group < GROUPS) load_ahead(group);
  if (group == 0) find_covered(0);
  __syncthreads();
  int tile = 0;
  int64 kept = before;  // of the first warp
  uint64 chosen = 0;
  for (bool is_end = limit == before; tile < tiles && !is_end; ++tile) {
    if (warp == 0) {
      const uint64 *own = near_words[tile & 1][0], *last = near_words[tile & 1][1];
      int count = considered - tile * 64 < 64 ? int(considered - tile * 64) : 64;
      uint64 open = count < 64 ? (1ull << count) - 1 : ~0ull;
      open &= ~(covered_in[2 * tile] | uint64(covered_in[2 * tile + 1]) << 32);
      open &= ~of_both((last[lane] & chosen) != 0, (last[lane + 32] & chosen) != 0);
      chosen = open != 0 ? kept_of_open(open, own[lane], own[lane + 32]) : 0;
      if (limit >= 0 && kept + __popcll(chosen) > limit) chosen = first_bits(chosen, limit - kept);
#pragma unroll
      for (int at = lane; at < 64; at += 32) {
        if (at < count) slots[tile * 64 + at] = chosen >> at & 1 ? kept + __popcll(chosen & ((1ull << at) - 1)) : -1;
      }
      kept += __popcll(chosen);
      if (lane == 0) {
        kept_in[tile] = chosen;
        ends[tile & 1] = kept == limit;
      }
    } else if (group == (tile + 1) % GROUPS) {
      find_covered(tile + 1);
    } else if (group == tile % GROUPS) {
      load_ahead(tile + GROUPS);
    }
    __syncthreads();
    is_end = ends[tile & 1];
  }
  for (int64 at = int64(tile) * 64 + threadIdx.x; at < considered; at += blockDim.x) slots[at] = -1;
  if (threadIdx.x == 0) total = kept;
  __syncthreads();
  return total;
}
""").substitute(PAIRS=MASKED_BOXES // 64, TURNS=(CHOOSING_THREADS // 32 - 1) // 6, WORDS=MASKED_BOXES // 32)
