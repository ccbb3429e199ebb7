"""Prefixes of the parts of rows in one pass over memory: a block looks back at the sums that blocks before it have posted.

Merrill and Garland 2016, "Single-pass Parallel Prefix Scan with Decoupled Look-back".  A block posts the sum of its part, and
then the sum of all parts of the row up to its own.  A block takes its part's number when it starts, so it waits only for blocks
that have started.  The sum up to part i is always ``combine(sum up to part i - 1, sum of part i)``: the same bits for any grid
and any timing.
"""

from __future__ import annotations

from .....shape_funcs.symbolic.dim import Dim, dim, where
from ..assembly import Assembly, Parameter, blocks, size

#: The states of a part, in the two top bits of its word.
SUM, SUM_UP_TO = 1, 2
STATE_SHIFT = 62
#: The parts before a block's own that the block reads at most.
WINDOW = 256
#: The parameters of kernels that look back: the words, with their type, and the number of parts.
POSTED = ("uint64*", "posted")
ALL_PARTS = "all_parts"
_CLEARING_THREADS = 256

_TEXT = rf"""
// The words of parts: `posted[0]` numbers the blocks, `posted[1 + part]` has the state and, up to 4 bytes, the sum.  Larger sums
// lie after the words of all parts: two for each part, because a block may read the first while the second is written.
template <class Sum, int BYTES = sizeof(Sum)> struct Posted {{
  uint64* posted;
  int64 parts;
  DEVICE void post(int64 part, uint64 state, Sum sum) const {{
    uint32 bits = 0;
    memcpy(&bits, &sum, sizeof(Sum));
    static_cast<volatile uint64*>(posted)[1 + part] = state << {STATE_SHIFT} | bits;
  }}
  DEVICE uint64 read(int64 part, Sum& sum) const {{
    uint64 word = static_cast<volatile uint64*>(posted)[1 + part];
    uint32 bits = uint32(word);
    memcpy(&sum, &bits, sizeof(Sum));
    return word >> {STATE_SHIFT};
  }}
}};
template <class Sum> struct Posted<Sum, 8> {{
  uint64* posted;
  int64 parts;
  DEVICE volatile uint64* place(int64 part, uint64 state) const {{ return posted + parts + 2 * part + state; }}
  DEVICE void post(int64 part, uint64 state, Sum sum) const {{
    *place(part, state) = same_bits<uint64>(sum);
    __threadfence();
    static_cast<volatile uint64*>(posted)[1 + part] = state << {STATE_SHIFT};
  }}
  DEVICE uint64 read(int64 part, Sum& sum) const {{
    uint64 state = static_cast<volatile uint64*>(posted)[1 + part] >> {STATE_SHIFT};
    if (state == 0) return 0;
    __threadfence();
    sum = same_bits<Sum>(uint64(*place(part, state)));
    return state;
  }}
}};
// Numbers below 2**62, with their states in one word.
struct PostedCounts {{
  uint64* posted;
  int64 parts;
  DEVICE void post(int64 part, uint64 state, int64 count) const {{
    static_cast<volatile uint64*>(posted)[1 + part] = state << {STATE_SHIFT} | uint64(count);
  }}
  DEVICE uint64 read(int64 part, int64& count) const {{
    uint64 word = static_cast<volatile uint64*>(posted)[1 + part];
    count = int64(word << {64 - STATE_SHIFT} >> {64 - STATE_SHIFT});
    return word >> {STATE_SHIFT};
  }}
}};

// The next number of a part, known to all threads of the block.
DEVICE int64 next_part(uint64* posted) {{
  __shared__ uint64 next;
  if (threadIdx.x == 0) next = atomicAdd(posted, uint64(1));
  __syncthreads();
  return int64(next);
}}

// The sum of the parts before `part` in its row, from the nearest part whose sum up to it is known.
template <class Posts, class Sum, class F> DEVICE Sum sum_before(const Posts& posts, int64 part, int64 in_row, F combine) {{
  __shared__ Sum seen[{WINDOW}];
  int lane = threadIdx.x & 31;
  for (int first = 0;; first = first + 32 < {WINDOW} && first + 32 < in_row ? first + 32 : 0) {{
    uint64 state = 0;
    if (first + lane < in_row) {{
      Sum sum;
      while ((state = posts.read(part - 1 - first - lane, sum)) == 0) __nanosleep(32);
      seen[first + lane] = sum;
    }}
    uint32 known = __ballot_sync(0xffffffffu, state == {SUM_UP_TO});
    __syncwarp();
    if (known == 0) continue;
    int at = first + __ffs(int(known)) - 1;
    Sum sum = seen[at];
#pragma unroll 8
    while (at > 0) sum = combine(sum, seen[--at]);
    __syncwarp();
    return sum;
  }}
}}

// The sum of the parts before this block's `part`, number `in_row` of its row, after the block has posted its `own` sum; `first`
// for the first part of a row.  Known to all threads of the block.
template <class Posts, class Sum, class F>
DEVICE Sum look_back(const Posts& posts, int64 part, int64 in_row, Sum own, Sum first, F combine) {{
  __shared__ Sum before;
  if (threadIdx.x < 32) {{
    Sum sum = first;
    if (in_row > 0) {{
      if (threadIdx.x == 0) posts.post(part, {SUM}, own);
      sum = sum_before<Posts, Sum>(posts, part, in_row, combine);
    }}
    if (threadIdx.x == 0) {{
      posts.post(part, {SUM_UP_TO}, in_row > 0 ? combine(sum, own) : own);
      before = sum;
    }}
  }}
  __syncthreads();
  return before;
}}
"""

_CLEAR = f"""
  int64 step = gridDim.x * int64({_CLEARING_THREADS});
#pragma unroll 1
  for (int64 at = blockIdx.x * int64({_CLEARING_THREADS}) + threadIdx.x; at < words; at += step) posted[at] = 0;
"""


def add_look_back(assembly: Assembly, name: str, parts: Dim, used: Dim, sum_bytes: Dim | int) -> tuple[Parameter, Parameter]:
    """The parameters ``posted`` and ``all_parts``, cleared by a launch of the kernel ``name`` where ``used``.

    ``sum_bytes``: the workspace of a sum beside its word, 0 for sums in words.
    """
    assembly.text(_TEXT)
    room = assembly.scratch(where(used, (parts + 1) * 8 + parts * (dim(sum_bytes) * 2), 0))
    posted, words = Parameter(*POSTED, room), size("words", parts + 1)
    assembly.kernel(name, _CLEARING_THREADS, (posted, words), _CLEAR)
    assembly.launch(name, where(used, blocks(parts + 1, _CLEARING_THREADS), 0))
    return posted, size(ALL_PARTS, parts)
