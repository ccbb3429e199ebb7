"""Radix sort of long rows in CUDA C: the digits of 8 bits, from the last to the first, with one pass over memory for each.

Adinets and Merrill 2022, "Onesweep: A Faster Least Significant Digit Radix Sort for GPUs".  A first kernel counts the digits of
all passes.  In a pass, a block ranks the elements of its part of a row by their digit and looks back at the counts that blocks
before it have posted.  So the block knows the place of each of its elements.  The block puts its elements in order in shared
memory before it stores them: neighbouring threads store neighbouring elements.

If the elements themselves are results, elements move, whose keys are computed again in each pass: NaN and zeros keep their bits.
Else keys move, without the bits that the dtype does not have.  Positions of 4 bytes move beside them only if they are wanted.
"""

from __future__ import annotations

from string import Template

from ....shape_funcs.symbolic.dim import Dim, const, dim
from ....shape_funcs.symbolic.dim_operations import where
from ...codegen.cuda.assembly import Assembly, Parameter, blocks, divisor, in_memory, size
from ...codegen.cuda.cuda_program import Argument, Word
from ...codegen.cuda.look_back import SUM, SUM_UP_TO, add_look_back
from ...core.tensor_types import ITEMSIZE
from .order_cuda import Order, in_braces

THREADS = 384
#: Bytes of elements or keys that a thread has in registers, and the largest number of them.
BYTES, MOST_ITEMS = 64, 16
#: Elements of a row whose digits a block counts before it adds the counts to those of the row.
SECTION = 1 << 15
RESIDENT = 2
_DIGITS = 256
_COUNTING_THREADS = 256


def items(dtype: str) -> int:
    """Elements of a thread."""
    return min(MOST_ITEMS, BYTES // ITEMSIZE[dtype])


def part(dtype: str) -> int:
    """Elements of a row that a block moves."""
    return THREADS * items(dtype)


_MOVED = Template("""
const int THREADS_OF_PASS = $threads, ITEMS_OF_PASS = $items, PART = THREADS_OF_PASS * ITEMS_OF_PASS, PASSES = $passes;
const bool MOVES_POSITIONS = $positions, MOVES_VALUES = $values;
typedef $moved Moved;
DEVICE Moved moved_key(Key key) { return Moved(key >> $unused); }
DEVICE uint32 digit_of(Moved moved, int64 pass) { return uint32(($key) >> ($unused + 8 * int(pass))) & 255u; }
""")

#: A row of elements in memory.
_ELEMENTS = Template("""
typedef $dtype Loaded;
struct Row {
  const $dtype* first;
  int64 step;
  DEVICE Row(const Order& order, int64 row) : first(order.first(row)), step(order.step()) {}
  // `there` elements at distances of STRIDE from `at`
  template <int N, int STRIDE> DEVICE void load(int64 at, int there, $dtype* loaded) const {
    const $dtype* from = first + at * step;
    if (step == 1) {
#pragma unroll
      for (int k = 0; k < N; ++k) loaded[k] = k < there ? from[k * STRIDE] : $dtype{};
    } else {
#pragma unroll
      for (int k = 0; k < N; ++k) loaded[k] = k < there ? from[k * STRIDE * step] : $dtype{};
    }
    __syncwarp();  // all loads are in flight before the first element is looked at
  }
  DEVICE static Moved moved($dtype loaded) { return $moved; }
  DEVICE uint32 position(int64 at) const { return uint32(at); }
};
""")
#: A row of entries, of which some may be LAST.
_ENTRIES = """
typedef Moved Loaded;
struct Row {
  const Order& order;
  int64 row;
  DEVICE Row(const Order& order, int64 row) : order(order), row(row) {}
  template <int N, int STRIDE> DEVICE void load(int64 at, int there, Moved* loaded) const {
#pragma unroll
    for (int k = 0; k < N; ++k) loaded[k] = k < there ? moved_key(key_in(order.entry(row, at + k * STRIDE))) : Moved(0);
  }
  DEVICE static Moved moved(Moved loaded) { return loaded; }
  DEVICE uint32 position(int64 at) const { return uint32(position_of(order.entry(row, at))); }
};
"""

_SHARED = Template(r"""
// The lanes of the warp whose digit has the same bit; in assembly, because the compiler tests the bit twice.
DEVICE uint32 lanes_of_bit(uint32 digit, int bit) {
#if defined(__CUDACC_RTC__) || defined(__CUDA_ARCH__)
  uint32 lanes;
  asm volatile(
      "{ .reg .pred p; and.b32 %0, %1, %2; setp.ne.u32 p, %0, 0; vote.sync.ballot.b32 %0, p, 0xffffffff; "
      "@!p not.b32 %0, %0; }"
      : "=r"(lanes)
      : "r"(digit), "r"(1u << bit));
  return lanes;
#else
  bool is_set = digit >> bit & 1;
  uint32 lanes = __ballot_sync(0xffffffffu, is_set);
  return is_set ? lanes : ~lanes;
#endif
}

// The lanes of the warp whose digit is the same.
DEVICE uint32 lanes_of(uint32 digit) {
  uint32 lanes = lanes_of_bit(digit, 0);
#pragma unroll
  for (int bit = 1; bit < 8; ++bit) lanes &= lanes_of_bit(digit, bit);
  return lanes;
}

// How many elements of the parts of a row before `part` have a digit, from the nearest part that knows.
DEVICE int64 count_before(const PostedCounts& posts, int64 part, int64 in_row, int digit) {
  const int AT_ONCE = 2;
  int64 sum = 0, first = part - in_row;
  for (int64 at = part - 1;;) {
    int64 counts[AT_ONCE];
    uint64 states[AT_ONCE];
#pragma unroll
    for (int k = 0; k < AT_ONCE; ++k) {
      states[k] = posts.read((at - k > first ? at - k : first) * $DIGITS + digit, counts[k]);
    }
    bool waits = false;
#pragma unroll
    for (int k = 0; k < AT_ONCE; ++k) {
      waits |= states[k] == 0;
      if (waits) continue;
      sum += counts[k];
      --at;
      if (states[k] == $SUM_UP_TO) return sum;
    }
    if (waits) __nanosleep(32);
  }
}
""").substitute(DIGITS=_DIGITS, SUM_UP_TO=SUM_UP_TO)

_COUNT = Template("""
  __shared__ uint32 seen[PASSES * $DIGITS];
  for (int64 work = blockIdx.x; work < rows * sections; work += gridDim.x) {
    int64 row = by_sections.quotient(work), start = (work - row * sections) * $SECTION;
    int count = length - start < $SECTION ? int(length - start) : $SECTION;
    for (int at = threadIdx.x; at < PASSES * $DIGITS; at += $COUNTING_THREADS) seen[at] = 0;
    __syncthreads();
    const Row from(order, row);
    auto add = [&](Moved moved) {
#pragma unroll
      for (int pass = 0; pass < PASSES; ++pass) atomicAdd(&seen[pass * $DIGITS + digit_of(moved, pass)], 1u);
    };
    for (int begin = 0; begin < count; begin += 8 * $COUNTING_THREADS) {
      int at = begin + threadIdx.x, there = (count - at + $COUNTING_THREADS - 1) / $COUNTING_THREADS;
      Loaded some[8];
      from.load<8, $COUNTING_THREADS>(start + at, there, some);
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        if (k < there) add(Row::moved(some[k]));
      }
    }
    __syncthreads();
    for (int at = threadIdx.x; at < PASSES * $DIGITS; at += $COUNTING_THREADS) {
      if (seen[at] != 0) atomicAdd(&digits[row * (PASSES * $DIGITS) + at], seen[at]);
    }
    __syncthreads();
  }
""").substitute(COUNTING_THREADS=_COUNTING_THREADS, DIGITS=_DIGITS, SECTION=SECTION)

# Elements of a warp follow each other: its k-th element of each lane, then the next.
_PASS = Template("""
  __shared__ __align__(16) uint8 room[PART * (sizeof(Moved) < 4 ? 4 : sizeof(Moved))];
  __shared__ uint32 places[$DIGITS];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, mine = warp * (32 * ITEMS_OF_PASS) + lane, digit = threadIdx.x;
  uint32 *all_ranks = reinterpret_cast<uint32*>(room), *ranks_of_warp = all_ranks + warp * $DIGITS;
  Moved* ordered = reinterpret_cast<Moved*>(room);
  uint32* ordered_positions = reinterpret_cast<uint32*>(room);
  const uint32 below = (1u << lane) - 1;
  const bool is_first = pass == 0, is_last = pass == PASSES - 1;
  const PostedCounts posts{posted};
  for (int64 work = blockIdx.x; work < rows * parts; work += gridDim.x) {
    int64 part = next_part(posted), row = by_parts.quotient(part), in_row = part - row * parts, start = in_row * PART;
    int count = length - start < PART ? int(length - start) : PART;
    const Row from(order, row);
    const int there = count == PART ? ITEMS_OF_PASS : (count - mine + 31) >> 5;  // elements of the thread
    Moved moved[ITEMS_OF_PASS];
    if (is_first) {
      Loaded loaded[ITEMS_OF_PASS];
      from.load<ITEMS_OF_PASS, 32>(start + mine, there, loaded);
#pragma unroll
      for (int k = 0; k < ITEMS_OF_PASS; ++k) moved[k] = MOVES_VALUES || k < there ? Row::moved(loaded[k]) : Moved(~Moved(0));
    } else {
      const Moved* moves = from_moved + row * length + start + mine;
#pragma unroll
      for (int k = 0; k < ITEMS_OF_PASS; ++k) moved[k] = k < there ? moves[32 * k] : Moved(~Moved(0));
    }
#pragma unroll
    for (int k = lane; k < $DIGITS; k += 32) ranks_of_warp[k] = 0;
    __syncwarp();
    uint32 ranks[ITEMS_OF_PASS];
#pragma unroll
    for (int k = 0; k < ITEMS_OF_PASS; ++k) {
      uint32 own = digit_of(moved[k], pass);
      if (MOVES_VALUES && count - mine <= 32 * k) own = $LAST_DIGIT;  // a key that is not there has all bits
      uint32 lanes = lanes_of(own);
      uint32 before = ranks_of_warp[own];
      __syncwarp();
      if ((lanes & below) == 0) ranks_of_warp[own] = before + __popc(lanes);
      __syncwarp();
      ranks[k] = (own << 16) + before + __popc(lanes & below);  // a register for both
    }
    __syncthreads();
    uint32 own = 0, of_warps[THREADS_OF_PASS / 32];
    if (digit < $DIGITS) {
#pragma unroll
      for (int w = 0; w < THREADS_OF_PASS / 32; ++w) of_warps[w] = all_ranks[w * $DIGITS + digit];
#pragma unroll
      for (int w = 0; w < THREADS_OF_PASS / 32; ++w) {
        uint32 before = own;
        own += of_warps[w];
        of_warps[w] = before;
      }
      if (digit == $LAST_DIGIT) own -= PART - count;
      if (in_row > 0) posts.post(part * $DIGITS + digit, $SUM, own);
      if (cleared) cleared[1 + part * $DIGITS + digit] = 0;
      if (cleared && part == 0 && digit == 0) cleared[0] = 0;
    }
    uint32 total, up_to = block_scan(own, Add(), total), begin = up_to - own;
    if (digit < $DIGITS) {
#pragma unroll
      for (int w = 0; w < THREADS_OF_PASS / 32; ++w) all_ranks[w * $DIGITS + digit] = begin + of_warps[w];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < ITEMS_OF_PASS; ++k) ranks[k] = (ranks[k] & 0xffffu) + ranks_of_warp[ranks[k] >> 16];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < ITEMS_OF_PASS; ++k) ordered[ranks[k]] = moved[k];
    uint32 positions[ITEMS_OF_PASS];
    if (MOVES_POSITIONS && is_first) {
#pragma unroll
      for (int k = 0; k < ITEMS_OF_PASS; ++k) positions[k] = k < there ? from.position(start + mine + 32 * k) : 0;
    } else if (MOVES_POSITIONS) {
      const uint32* moves = from_positions + row * length + start + mine;
#pragma unroll
      for (int k = 0; k < ITEMS_OF_PASS; ++k) positions[k] = k < there ? moves[32 * k] : 0;
    }
    if (in_row == 0) {  // where each digit begins in the row
      uint32 in_all = digit < $DIGITS ? digits[(row * PASSES + pass) * $DIGITS + digit] : 0;
      uint32 before = block_scan(in_all, Add(), total) - in_all;
      if (digit < $DIGITS) {
        posts.post(part * $DIGITS + digit, $SUM_UP_TO, before + own);
        places[digit] = before - begin;
      }
    } else if (digit < $DIGITS) {
      int64 before = count_before(posts, part, in_row, digit);
      posts.post(part * $DIGITS + digit, $SUM_UP_TO, before + own);
      places[digit] = uint32(before) - begin;
    }
    __syncthreads();$keep
#pragma unroll
    for (int k = 0; k < ITEMS_OF_PASS; ++k) {
      int at = int(threadIdx.x) + k * THREADS_OF_PASS;
      if (at >= count) continue;
      Moved value = ordered[at];
      uint32 own = digit_of(value, pass), to = places[own] + at;
      ranks[k] |= own << 16;  // where the position goes, too
      if (!is_last) to_moved[row * length + to] = value;
      else if (to < kept) { $put }
    }
    __syncthreads();
    if (MOVES_POSITIONS) {
#pragma unroll
      for (int k = 0; k < ITEMS_OF_PASS; ++k) ordered_positions[ranks[k] & 0xffffu] = positions[k];
      __syncthreads();
#pragma unroll
      for (int k = 0; k < ITEMS_OF_PASS; ++k) {
        int at = int(threadIdx.x) + k * THREADS_OF_PASS;
        if (at >= count) continue;
        uint32 position = ordered_positions[at], to = places[ranks[k] >> 16] + at;
        if (!is_last) to_positions[row * length + to] = position;
        else if (to < kept) { $finish }
      }
      __syncthreads();
    }
  }
""")
#: What a pass does with the elements of its results: what it keeps, and the texts at the element and at its position.
_KEEP_VALUES = "", "order.put_value(row, to, same_bits<$dtype>(value));", "order.put_position(row, to, position);"
_KEEP_ENTRIES = (
    "\n    Moved values[ITEMS_OF_PASS];",
    "values[k] = value;",
    "order.put(row, to, position == ~0u ? LAST : make_entry(Key(values[k]) << $unused, position));",
)


def add_radix_sort(assembly: Assembly, order: Order, begin: str, own: tuple[Parameter, ...], used: Dim) -> None:
    """Add the kernels and launches of a radix sort, which run where ``used``.

    ``begin``: the text that makes ``order`` from the parameters ``own``, the fields of the order and its sizes.
    """
    nbytes, elements = ITEMSIZE[order.dtype], order.elements
    moves_values = elements is not None and elements.put_value != ""
    moves_positions = elements is None or not moves_values or elements.put_position != ""
    unused = max(0, 32 - 8 * nbytes)
    dtype = in_memory(order.dtype)
    texts = {"dtype": dtype, "unused": unused, "threads": THREADS, "items": items(order.dtype), "passes": nbytes}
    texts |= {"moved": f"uint{8 * nbytes}", "positions": str(moves_positions).lower(), "values": str(moves_values).lower()}
    key = f"key_of(same_bits<{dtype}>(moved))" if moves_values else f"Key(moved) << {unused}"
    loaded = "same_bits<Moved>(loaded)" if moves_values else "moved_key(key_of(loaded))"
    row = _ENTRIES if elements is None else _ELEMENTS.substitute(dtype=dtype, moved=loaded)
    of_row = (order.length + (part(order.dtype) - 1)) // part(order.dtype)
    parts = order.rows * of_row
    posted, all_parts = add_look_back(assembly, "clear_digits", parts * _DIGITS, used)
    assembly.text(_MOVED.substitute(key=key, **texts), row, _SHARED)
    counters = order.rows * (nbytes * _DIGITS)
    digits = Parameter("uint32*", "digits", assembly.scratch(where(used, counters * 4, 0)))
    words = counters // 2
    assembly.launch("clear_digits", where(used, blocks(words, 256), 0), {"posted": digits.argument, "words": words})
    sections = (order.length + (SECTION - 1)) // SECTION
    counting = (*own, digits, size("sections", sections), divisor("by_sections", sections, order.rows * sections))
    assembly.kernel("count_digits", _COUNTING_THREADS, counting, begin + in_braces(_COUNT))
    assembly.launch("count_digits", where(used, blocks(order.rows * sections), 0))
    keep, put, finish = _KEEP_VALUES if moves_values else _KEEP_ENTRIES
    put, finish = (Template(part).substitute(texts) for part in (put, finish if moves_positions else ""))
    numbers = {"DIGITS": _DIGITS, "LAST_DIGIT": _DIGITS - 1, "SUM": SUM, "SUM_UP_TO": SUM_UP_TO}
    body = begin + in_braces(_PASS.substitute(numbers, keep=keep, put=put, finish=finish))
    keys = order.rows * order.length
    moved = _buffers(assembly, where(used, keys * nbytes, 0), nbytes)
    positions = _buffers(assembly, where(used, keys * 4, 0) if moves_positions else dim(0), nbytes)
    regions = (posted.argument, assembly.scratch(where(used, (parts * _DIGITS + 1) * 8, 0)))
    kinds = {"from_moved": "const Moved*", "to_moved": "Moved*", "from_positions": "const uint32*", "to_positions": "uint32*"}
    kinds |= {"posted": "uint64*", "cleared": "uint64*"}
    buffers = tuple(Parameter(kind, name, Word(0)) for name, kind in kinds.items())
    division = size("parts", of_row), divisor("by_parts", of_row, parts)
    assembly.kernel(
        "move_by_digit", THREADS, (*own, digits, all_parts, *buffers, size("pass", 0), *division), body, resident=RESIDENT
    )
    for number in range(nbytes):
        given = {"from_moved": moved[number - 1], "to_moved": moved[number], "pass": dim(number)}
        given |= {"from_positions": positions[number - 1], "to_positions": positions[number]}
        given |= {"posted": regions[number % 2], "cleared": regions[1 - number % 2]}
        assembly.launch("move_by_digit", where(used, blocks(parts), 0), given)


def _buffers(assembly: Assembly, keys: Dim, passes: int) -> list[Argument]:
    """The result of each pass: two workspaces in turn, none for the last pass."""
    both = [assembly.scratch(keys if k < passes - 1 else 0) for k in range(2)] if const(keys) != 0 else [Word(0)] * 2
    return [*(both[number % 2] for number in range(passes - 1)), Word(0)]
