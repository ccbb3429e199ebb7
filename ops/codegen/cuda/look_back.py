"""Prefixes of the parts of rows in one pass over memory: a block looks back at the sums that blocks before it have posted.

Merrill and Garland 2016, "Single-pass Parallel Prefix Scan with Decoupled Look-back".  A block posts the sum of its part, and
then the sum of all parts of the row up to its own.  A block takes its part's number when it starts, so it waits only for blocks
that have started.  The sum up to part i is always ``combine(sum up to part i - 1, sum of part i)``: the same bits for any grid
and any timing.

All threads of a block read posted sums, each a number of them: those of as many parts as threads, in one trip to memory.

A block that looks back waits for the slowest of the blocks before it.  If a block needs few registers for its next part, it
first takes the number of that part and loads from it: on an H200 argwhere of 2^26 elements then takes 249 us, else 309.  Blocks
before it still make progress: a block ends its parts in the order of their numbers.  Scans, whose blocks hold their parts, become
slower so: a part that is taken early is posted late (cumsum 280 us, else 217).
"""

from __future__ import annotations

from string import Template

from ....shape_funcs.symbolic.dim import Dim
from ....shape_funcs.symbolic.dim_operations import where
from .assembly import Assembly, Parameter, blocks, size

#: The states of a part, in the two top bits of its word.
SUM, SUM_UP_TO = 1, 2
STATE_SHIFT = 62
#: The parameters of kernels that look back: the words, with their type, and the number of parts.
POSTED = ("uint64*", "posted")
ALL_PARTS = "all_parts"
_CLEARING_THREADS = 256

_TEXT = Template(r"""
DEVICE uint64 read_word(const uint64* word) { return *static_cast<const volatile uint64*>(word); }
DEVICE void post_word(uint64* word, uint64 value) { *static_cast<volatile uint64*>(word) = value; }

// The words of parts: `posted[0]` numbers the blocks; the words of a part follow, each with the part's state.  A sum of up to 4
// bytes has a word, a sum of 8 bytes two words, a half in each: a block that reads two states has read a half of another sum.
template <class Sum, int BYTES = sizeof(Sum)> struct Posted {
  uint64* posted;
  DEVICE void post(int64 part, uint64 state, Sum sum) const {
    uint32 bits = 0;
    memcpy(&bits, &sum, sizeof(Sum));
    post_word(posted + 1 + part, state << $STATE_SHIFT | bits);
  }
  DEVICE uint64 read(int64 part, Sum& sum) const {
    uint64 word = read_word(posted + 1 + part);
    uint32 bits = uint32(word);
    memcpy(&sum, &bits, sizeof(Sum));
    return word >> $STATE_SHIFT;
  }
};
template <class Sum> struct Posted<Sum, 8> {
  uint64* posted;
  DEVICE void post(int64 part, uint64 state, Sum sum) const {
    uint64 bits = same_bits<uint64>(sum);
    post_word(posted + 1 + 2 * part, state << $STATE_SHIFT | bits >> 32);
    post_word(posted + 2 + 2 * part, state << $STATE_SHIFT | uint32(bits));
  }
  DEVICE uint64 read(int64 part, Sum& sum) const {
    uint64 high = read_word(posted + 1 + 2 * part), low = read_word(posted + 2 + 2 * part);
    sum = same_bits<Sum>(high << 32 | uint32(low));
    return high >> $STATE_SHIFT == low >> $STATE_SHIFT ? high >> $STATE_SHIFT : 0;
  }
};
// Numbers below 2**62, with their states in one word.
struct PostedCounts {
  uint64* posted;
  DEVICE void post(int64 part, uint64 state, int64 count) const {
    post_word(posted + 1 + part, state << $STATE_SHIFT | uint64(count));
  }
  DEVICE uint64 read(int64 part, int64& count) const {
    uint64 word = read_word(posted + 1 + part);
    count = int64(word << $STATE_BITS >> $STATE_BITS);
    return word >> $STATE_SHIFT;
  }
};

// The next number of a part, known to all threads of the block.
DEVICE int64 next_part(uint64* posted) {
  __shared__ uint64 next;
  if (threadIdx.x == 0) next = atomicAdd(posted, uint64(1));
  __syncthreads();
  return int64(next);
}

// The sums of the parts before this block's part `mine`, number `in_row` of its row, of each of 2**column_bits columns;
// neighbours in the row lie `stride` apart.  All THREADS threads of the block take part and read READS posted sums at once;
// `found(column, sum)` is called by some thread when a column's sum is known.  Ends with a barrier.
template <int THREADS, int READS, class Sum, class Posts, class F, class Found>
DEVICE void look_back(const Posts& posts, int64 mine, int64 stride, int64 in_row, int column_bits, F combine, Found found) {
  __shared__ Sum seen[READS * THREADS];
  __shared__ uint32 knows[READS * THREADS / 32];
  const int tid = threadIdx.x, columns = 1 << column_bits, window = READS * THREADS >> column_bits;
  // the bits of a column in a word of `knows`, and from a word to the next with bits of the column
  const uint32 bits_of_column = columns < 32 ? 0xffffffffu / ((1u << columns) - 1) : 1u;
  const int step = columns < 32 ? 1 : columns >> 5;
  auto nearest = [&](int c) {
    for (int word = c >> 5; word < READS * THREADS / 32; word += step) {
      uint32 bits = knows[word] & bits_of_column << (c & 31);
      if (bits != 0) return (32 * word + __ffs(int(bits)) - 1) >> column_bits;
    }
    return window;
  };
  for (;;) {
    uint64 states[READS];
    Sum sums[READS];
    auto read = [&](int k) {
      int item = k * THREADS + tid, distance = item >> column_bits;
      int64 part = mine - stride * (distance < in_row ? distance + 1 : in_row);
      return posts.read((part << column_bits) + (item & (columns - 1)), sums[k]);
    };
#pragma unroll
    for (int k = 0; k < READS; ++k) states[k] = read(k);  // these loads do not wait for each other
#pragma unroll
    for (int k = 0; k < READS; ++k) {
      while (states[k] == 0) {
        __nanosleep(32);
        states[k] = read(k);
      }
      int item = k * THREADS + tid;
      seen[item] = sums[k];
      uint32 bits = __ballot_sync(0xffffffffu, states[k] == $SUM_UP_TO);
      if ((tid & 31) == 0) knows[item >> 5] = bits;
    }
    __syncthreads();
    bool is_missing = false;
    if (Sum(0.5f) == Sum(0) && columns == 1) {  // integers, whose sums are the same in any order: a warp adds
      int at = nearest(0);
      is_missing = at == window;
      if (tid < 32 && !is_missing) {
        Sum sum = seen[tid <= at ? tid : 0];
#pragma unroll 4
        for (int k = tid + 32; k <= at; k += 32) sum = combine(sum, seen[k]);
        sum = warp_reduce(sum, combine, at < 31 ? at + 1 : 32);
        if (tid == 0) found(0, sum);
      }
    } else {
      for (int c = tid; c < columns; c += THREADS) {
        int at = nearest(c);
        is_missing |= at == window;
        if (at == window) continue;
        Sum sum = seen[(at << column_bits) + c];
#pragma unroll 8
        while (at > 0) sum = combine(sum, seen[(--at << column_bits) + c]);
        found(c, sum);
      }
    }
    if (!__syncthreads_or(is_missing)) return;
  }
}

// The sum of the parts before this block's `part`, whose `own` sum is posted; `first` for the first part of a row.  Known to all
// threads of the block.
template <int THREADS, class Sum, class Posts, class F>
DEVICE Sum sum_of_parts_before(const Posts& posts, int64 part, int64 in_row, Sum own, Sum first, F combine) {
  __shared__ Sum before;
  if (in_row == 0) {
    __syncthreads();
    return first;
  }
  look_back<THREADS, 1, Sum>(posts, part, 1, in_row, 0, combine, [&](int, Sum sum) {
    posts.post(part, $SUM_UP_TO, combine(sum, own));
    before = sum;
  });
  return before;
}
template <class Posts, class Sum> DEVICE void post_own(const Posts& posts, int64 part, int64 in_row, Sum own) {
  if (threadIdx.x == 0) posts.post(part, in_row > 0 ? $SUM : $SUM_UP_TO, own);
}
""").substitute(STATE_BITS=64 - STATE_SHIFT, STATE_SHIFT=STATE_SHIFT, SUM=SUM, SUM_UP_TO=SUM_UP_TO)

_CLEAR = f"""
  int64 step = gridDim.x * int64({_CLEARING_THREADS});
#pragma unroll 1
  for (int64 at = blockIdx.x * int64({_CLEARING_THREADS}) + threadIdx.x; at < words; at += step) posted[at] = 0;
"""


def add_look_back(
    assembly: Assembly, name: str, parts: Dim, used: Dim, words_of_part: Dim | int = 1
) -> tuple[Parameter, Parameter]:
    """The parameters ``posted`` and ``all_parts``, cleared by a launch of the kernel ``name`` where ``used``."""
    assembly.text(_TEXT)
    count = parts * words_of_part + 1
    posted, words = Parameter(*POSTED, assembly.scratch(where(used, count * 8, 0))), size("words", count)
    assembly.kernel(name, _CLEARING_THREADS, (posted, words), _CLEAR)
    assembly.launch(name, where(used, blocks(count, _CLEARING_THREADS), 0))
    return posted, size(ALL_PARTS, parts)
