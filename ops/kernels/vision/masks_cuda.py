"""Non-maximum suppression by masks in CUDA C: which better boxes cover a box, 64 to a word.

The whole device computes the masks.  Then one block per image processes 64 boxes, a *tile*, at a time.
"""

from __future__ import annotations

from string import Template

from ....shape_funcs.symbolic.dim import Dim, all_, le, where
from ...codegen.cuda.assembly import blocks

#: Threads of the block that selects an image's boxes, and the largest number of boxes of an image.
CHOOSING_THREADS, MASKED_BOXES = 1024, 2**14
#: The largest size of masks in bytes.
MASK_BYTES = 2**28


def room_of_masks(images: Dim, boxes: Dim) -> tuple[Dim, Dim]:
    """Whether ``boxes`` of each of ``images`` are few enough for masks, and the bytes of the masks: 0 if not."""
    nbytes = images * boxes * ((boxes + 63) // 64) * 8
    masked = all_(le(boxes, MASKED_BOXES), le(nbytes, MASK_BYTES))
    return masked, where(masked, nbytes, 0)


def mask_blocks(images: Dim, boxes: Dim) -> Dim:
    """The blocks of ``MASKS``: one for each word of a tile."""
    words = (boxes + 63) // 64
    return blocks(images * (words * (words + 1) // 2))


# Blocks of 64 threads; each thread computes one word: the boxes of a tile that cover a box of the same tile or a later one.
# Valid boxes precede the others; `$is_valid`: whether box `mine` of `image` is valid.  `$unless`: when nothing is compared.
MASKS = Template("""
  __shared__ Box others[64];
  auto threshold = $threshold;
  if ($unless) return;
  const int words = int(kept + 63) / 64, pairs = words * (words + 1) / 2;  // masks have at most 2^28 bytes
  for (int64 work = blockIdx.x; work < $images * pairs; work += gridDim.x) {
    int64 image = work / pairs;
    int pair = int(work - image * pairs);
    int tile = int((sqrtf(8.0f * float(pair) + 1.0f) - 1.0f) * 0.5f);  // pairs come in rows of 1, 2, 3, ...
    while (tile * (tile + 1) / 2 > pair) --tile;
    while ((tile + 1) * (tile + 2) / 2 <= pair) ++tile;
    int other = pair - tile * (tile + 1) / 2, mine = tile * 64 + int(threadIdx.x);
    const bool is_mine = mine < kept && $is_valid;
    if (!__syncthreads_or(is_mine)) continue;
    if (other < tile || is_mine) others[threadIdx.x] = boxes[image * kept + other * 64 + threadIdx.x];
    __syncthreads();
    if (is_mine) {
      Box box = boxes[image * kept + mine];
      uint64 mask = 0;
      int count = other == tile ? int(threadIdx.x) : 64;
      for (int at = 0; at < count; ++at) {
        if (covers(others[at], box, threshold)) mask |= 1ull << at;
      }
      masks[(image * words + other) * kept + mine] = mask;
    }
    __syncthreads();
  }
""")

# The first warp chooses from a tile in rounds: a box is kept when no undecided box covers it, and then the boxes that it covers
# are suppressed.  Meanwhile a group of the other warps finds the boxes of the next tile that those kept before this tile cover.
# The words of a tile depend on no choice: groups take turns, so that words are on their way while other groups work.
CHOOSE_BY_MASKS = f"""
DEVICE uint64 of_both(bool low, bool high) {{
  return __ballot_sync(0xffffffffu, low) | uint64(__ballot_sync(0xffffffffu, high)) << 32;
}}

// The boxes of a tile that are kept, of those that are `open`; `low` and `high`: what covers boxes `lane` and `lane + 32`.
DEVICE uint64 kept_of_open(uint64 open, uint64 low, uint64 high) {{
  for (uint64 kept = 0;;) {{
    uint64 free = open & ~of_both((low & open) != 0, (high & open) != 0);
    kept |= free;
    open &= ~free;
    if (open == 0) return kept;
    open &= ~of_both((low & free) != 0, (high & free) != 0);
  }}
}}

DEVICE uint64 first_bits(uint64 bits, int64 count) {{
  uint64 first = 0;
  for (; count > 0 && bits != 0; --count) {{
    first |= bits & -bits;
    bits &= bits - 1;
  }}
  return first;
}}

DEVICE int64 choose_by_masks(const uint64* masks, int64* slots, int64 considered, int64 stride, int64 limit) {{
  const int GROUPS = 3, COLUMNS = {(CHOOSING_THREADS // 32 - 1) // 6}, AHEAD = 14;
  // the kept boxes of each tile; its boxes that are covered by those before the last tile, 32 to a word
  __shared__ uint64 kept_in[{MASKED_BOXES // 64}];
  __shared__ uint32 covered_in[{MASKED_BOXES // 32}];
  __shared__ uint64 near_words[2][2][64];  // of two tiles: what covers a box in its own tile, and in the last
  __shared__ int64 total;
  __shared__ bool ends[2];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, tiles = int((considered + 63) / 64);
  const int half = (warp + 1) & 1, column = (warp - 1) / 2 % COLUMNS, group = warp > 0 ? (warp - 1) / (2 * COLUMNS) : GROUPS;
  uint64 ahead[AHEAD], near = 0;
  // AHEAD words of a box of this thread from `first` on, in flight together; then whether kept boxes are among them
  auto load = [&](int tile, int first) {{
    int64 box = int64(tile) * 64 + half * 32 + lane;
#pragma unroll
    for (int k = 0; k < AHEAD; ++k) {{
      int at = first + k * COLUMNS;
      if (at > tile - 2) break;
      ahead[k] = box < considered ? masks[at * stride + box] : 0;
    }}
  }};
  auto covers_any = [&](int tile, int first) {{
    uint64 covers = 0;
#pragma unroll
    for (int k = 0; k < AHEAD; ++k) {{
      int at = first + k * COLUMNS;
      if (at > tile - 2) break;
      covers |= ahead[k] & kept_in[at];
    }}
    return covers != 0;
  }};
  auto load_ahead = [&](int tile) {{
    if (tile >= tiles) return;
    int64 box = int64(tile) * 64 + half * 32 + lane;
    if (column < 2 && column <= tile) near = box < considered ? masks[(tile - column) * stride + box] : 0;
    load(tile, column);
  }};
  auto find_covered = [&](int tile) {{
    if (tile >= tiles) return;
    if (column < 2) near_words[tile & 1][column][half * 32 + lane] = near;
    bool is_covered = covers_any(tile, column);
    for (int first = column + AHEAD * COLUMNS; first <= tile - 2; first += AHEAD * COLUMNS) {{
      load(tile, first);
      is_covered |= covers_any(tile, first);
    }}
    uint32 lanes = __ballot_sync(0xffffffffu, is_covered);
    if (lane == 0 && lanes != 0) atomicOr(&covered_in[2 * tile + half], lanes);
  }};
  for (int at = threadIdx.x; at < 2 * tiles; at += blockDim.x) covered_in[at] = 0;
  if (group < GROUPS) load_ahead(group);
  if (group == 0) find_covered(0);
  __syncthreads();
  int tile = 0;
  int64 kept = 0;  // of the first warp
  uint64 chosen = 0;
  for (bool is_end = limit == 0; tile < tiles && !is_end; ++tile) {{
    if (warp == 0) {{
      const uint64 *own = near_words[tile & 1][0], *last = near_words[tile & 1][1];
      int count = considered - tile * 64 < 64 ? int(considered - tile * 64) : 64;
      uint64 open = count < 64 ? (1ull << count) - 1 : ~0ull;
      open &= ~(covered_in[2 * tile] | uint64(covered_in[2 * tile + 1]) << 32);
      open &= ~of_both((last[lane] & chosen) != 0, (last[lane + 32] & chosen) != 0);
      chosen = open != 0 ? kept_of_open(open, own[lane], own[lane + 32]) : 0;
      if (limit >= 0 && kept + __popcll(chosen) > limit) chosen = first_bits(chosen, limit - kept);
#pragma unroll
      for (int at = lane; at < 64; at += 32) {{
        if (at < count) slots[tile * 64 + at] = chosen >> at & 1 ? kept + __popcll(chosen & ((1ull << at) - 1)) : -1;
      }}
      kept += __popcll(chosen);
      if (lane == 0) {{
        kept_in[tile] = chosen;
        ends[tile & 1] = kept == limit;
      }}
    }} else if (group == (tile + 1) % GROUPS) {{
      find_covered(tile + 1);
    }} else if (group == tile % GROUPS) {{
      load_ahead(tile + GROUPS);
    }}
    __syncthreads();
    is_end = ends[tile & 1];
  }}
  for (int64 at = int64(tile) * 64 + threadIdx.x; at < considered; at += blockDim.x) slots[at] = -1;
  if (threadIdx.x == 0) total = kept;
  __syncthreads();
  return total;
}}
"""
