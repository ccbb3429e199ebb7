"""softmax and log_softmax on CUDA, along the middle of three axes.

If that axis is the last one, a short row is held in the registers of a warp and a longer one in those of a block: one read, one
write.  So are short columns.  A still longer row or column is read twice: the maximum and the sum of exponentials are computed
together, and the sum is rescaled at each new maximum (online softmax).
Exponentials and sums are in the dtype of the data, in float32 for the two storage-only dtypes; sums are added as trees.
"""

from __future__ import annotations

import math
from string import Template

from ....shape_funcs.symbolic.dim import const
from ....shape_funcs.symbolic.dim_operations import all_, eq, le, lt, where
from ...codegen.cuda.assembly import DIVISOR, Assembly, around, blocks, literal, reads, size, writes
from ...codegen.cuda.cuda_program import CudaSource, OpaqueCall
from ...codegen.cuda.device_code.casts import NUMBER, converted
from ...core.tensor_types import ITEMSIZE, computed_in
from .columns_cuda import add_columns

#: Elements per thread in registers; threads per block; threads per block with a warp per row.
HELD, THREADS, WARP_THREADS = 32, 256, 256
#: The longest row for a warp.
WARP_ROW = 32 * HELD
#: The blocks on a multiprocessor for which rows in the registers of a warp are compiled.
WARP_RESIDENT = 4
#: Blocks that hold a row in registers, smallest first: by the threads of a block, the blocks on a multiprocessor.
BLOCKS = {THREADS: 3, 512: 2, 1024: 1}


def softmax(call: OpaqueCall) -> CudaSource:
    """``exp(x - max) / sum(exp(x - max))``, as a product with the sum's reciprocal: one division for a row."""
    return _source(call, kept="exp(value - top)", power="kept", settled="1 / total", outcome="kept * total")


def log_softmax(call: OpaqueCall) -> CudaSource:
    """``x - max - log(sum(exp(x - max)))``."""
    return _source(call, kept="value - top", power="exp(kept)", settled="log(total)", outcome="kept - total")


_FUNCTIONS = Template("""
typedef $number Number;
template <bool VALUE> struct Known { static constexpr bool value = VALUE; };
#define LOWEST ($lowest)
const int WIDTH = 16 / sizeof($dtype), PACKS = $held / WIDTH;  // a pack: elements of 16 bytes
struct Largest { DEVICE Number operator()(Number a, Number b) const { return b > a ? b : a; } };

DEVICE Number kept_of(Number value, Number top) { return $kept; }
DEVICE Number power_of(Number kept) { return $power; }
DEVICE Number settled(Number total) { return $settled; }
DEVICE $dtype outcome(Number kept, Number total) { return $outcome; }

// Whether rows have elements, at multiples of 16 bytes.
DEVICE bool packed_rows(const void* data, const void* out, int64 length) {
  return length > 0 && length % WIDTH == 0 && aligned16(data) && aligned16(out);
}

// A pack of a row from `at` on; beyond the row are the lowest numbers, whose exponentials are 0.  No branch is between loads.
template <bool PACKED> DEVICE void load_numbers(const $dtype* row, int64 at, int64 length, Number* numbers) {
  if constexpr (PACKED) {
    const Pack<$dtype> pack = load_pack(row + (at < length ? at : 0));
#pragma unroll
    for (int k = 0; k < WIDTH; ++k) numbers[k] = at < length ? number(pack.at[k]) : LOWEST;
  } else {
#pragma unroll
    for (int k = 0; k < WIDTH; ++k) numbers[k] = at + k < length ? number(row[at + k]) : LOWEST;
  }
}

template <bool PACKED>
DEVICE void store_outcomes($dtype* row, int64 at, int64 length, const Number* kept, Number total) {
  if constexpr (PACKED) {
    Pack<$dtype> pack;
#pragma unroll
    for (int k = 0; k < WIDTH; ++k) pack.at[k] = outcome(kept[k], total);
    if (at < length) store_pack(row + at, pack);
  } else {
#pragma unroll
    for (int k = 0; k < WIDTH; ++k) {
      if (at + k < length) row[at + k] = outcome(kept[k], total);
    }
  }
}
""")

# Thread `lane` of `lanes` has packs that are `lanes` packs apart; reduce(value, how) combines all of them.
_HELD = """
template <bool PACKED, class T, class Reduce>
DEVICE void held_row(const T* data, T* out, int length, int lane, int lanes, Reduce reduce) {
  Number held[PACKS][WIDTH], top = LOWEST, total = 0;
#pragma unroll
  for (int p = 0; p < PACKS; ++p) load_numbers<PACKED>(data, (p * lanes + lane) * WIDTH, length, held[p]);
#pragma unroll
  for (int p = 0; p < PACKS; ++p) {
#pragma unroll
    for (int k = 0; k < WIDTH; ++k) top = held[p][k] > top ? held[p][k] : top;
  }
  top = reduce(top, Largest());
#pragma unroll
  for (int p = 0; p < PACKS; ++p) {
#pragma unroll
    for (int k = 0; k < WIDTH; ++k) {
      held[p][k] = kept_of(held[p][k], top);
      total += power_of(held[p][k]);
    }
  }
  total = settled(reduce(total, Add()));
#pragma unroll
  for (int p = 0; p < PACKS; ++p) store_outcomes<PACKED>(out, (p * lanes + lane) * WIDTH, length, held[p], total);
}
"""

_SEEN = """
// The largest of the elements seen, and the sum of exp(element - largest).
struct Seen {
  Number top, total;
  DEVICE void rise(Number value) {
    if (value > top) {
      total *= exp(top - value);
      top = value;
    }
  }
  // where both are infinite, their difference is not a number: what all elements are divided by is left to `of_all`
  DEVICE void add(Number value) { total += value == top ? Number(1) : exp(value - top); }
  DEVICE Number of_all() const { return settled(top == -LOWEST ? top - top : total); }
};
struct Join {
  DEVICE Seen operator()(Seen a, Seen b) const {
    Number top = b.top > a.top ? b.top : a.top;
    Number of_a = a.top == top ? a.total : a.total * exp(a.top - top), of_b = b.top == top ? b.total : b.total * exp(b.top - top);
    return Seen{top, of_a + of_b};
  }
};
"""

# Rows of packs and rows of elements, known to the compiler.
_ROWS = Template("""
  auto all_rows = [&](auto kind) {
    constexpr bool PACKED = decltype(kind)::value;
    $body
  };
  if (packed_rows(data, out, length)) all_rows(Known<true>());
  else all_rows(Known<false>());
""")

_WARP_ROWS = """
    auto reduce = [](Number value, auto how) { return warp_reduce(value, how); };
    int64 warps = blockDim.x / 32;
    for (int64 row = blockIdx.x * warps + threadIdx.x / 32; row < rows; row += gridDim.x * warps) {
      held_row<PACKED>(data + row * length, out + row * length, int(length), int(threadIdx.x & 31), 32, reduce);
    }
"""

_BLOCK_ROWS = """
    auto reduce = [](Number value, auto how) { return block_reduce(value, how); };
    for (int64 row = blockIdx.x; row < rows; row += gridDim.x) {
      held_row<PACKED>(data + row * length, out + row * length, int(length), threadIdx.x, blockDim.x, reduce);
    }
"""

_LONG_ROWS = """
    int64 first = threadIdx.x * int64(WIDTH), step = blockDim.x * int64(WIDTH);
    Number some[WIDTH];
    for (int64 row = blockIdx.x; row < rows; row += gridDim.x) {
      Seen seen = {LOWEST, Number(0)};
      for (int64 at = first; at < length; at += step) {
        load_numbers<PACKED>(data + row * length, at, length, some);
#pragma unroll
        for (int k = 0; k < WIDTH; ++k) {
          if (at + k < length) seen.rise(some[k]);
        }
#pragma unroll
        for (int k = 0; k < WIDTH; ++k) {
          if (at + k < length) seen.add(some[k]);
        }
      }
      seen = block_reduce(seen, Join());
      Number total = seen.of_all();
      for (int64 at = first; at < length; at += step) {
        load_numbers<PACKED>(data + row * length, at, length, some);
#pragma unroll
        for (int k = 0; k < WIDTH; ++k) some[k] = kept_of(some[k], seen.top);
        store_outcomes<PACKED>(out + row * length, at, length, some, total);
      }
    }
"""

# The rows of large blocks: elements that are no packs would take more registers than their threads have.
_PACKED_ROWS = "if constexpr (PACKED) {" + _BLOCK_ROWS + "} else {" + _LONG_ROWS + "}"


def _source(call: OpaqueCall, kept: str, power: str, settled: str, outcome: str) -> CudaSource:
    (data,), (out,) = call.inputs, call.results
    number = computed_in(data.dtype)
    outer, length, inner = around(data.shape, call.attrs.axis)
    functions = _FUNCTIONS.substitute(
        number=number,
        dtype=data.dtype,
        held=HELD,
        lowest=literal(number, -math.inf),
        kept=kept,
        power=power,
        settled=settled,
        outcome=converted(f"({outcome})", number, data.dtype),
    )
    assembly = Assembly()
    assembly.text(NUMBER, DIVISOR, functions, _HELD, _SEEN)
    tensors = (reads("data", data), writes("out", out))
    rows = (*tensors, size("rows", outer), size("length", length))
    kernels = [("warp_rows", WARP_THREADS, _WARP_ROWS, WARP_ROW, WARP_THREADS // 32, WARP_RESIDENT)]
    of_blocks = BLOCKS if ITEMSIZE[data.dtype] <= 4 else {THREADS: 1}
    for n, resident in of_blocks.items():
        kernels.append((f"block_rows_{n}", n, _BLOCK_ROWS if n == THREADS else _PACKED_ROWS, n * HELD, 1, resident))
    shorter = -1
    for name, threads, body, longest, per_block, resident in kernels:
        used = all_(eq(inner, 1), lt(shorter, length), le(length, longest))
        assembly.kernel(name, threads, rows, _ROWS.substitute(body=body.strip()), resident if ITEMSIZE[data.dtype] <= 4 else 1)
        assembly.launch(name, where(used, blocks(outer, per_block), 0))
        shorter = longest
    assembly.kernel("long_rows", THREADS, rows, _ROWS.substitute(body=_LONG_ROWS.strip()))
    assembly.launch("long_rows", where(all_(eq(inner, 1), lt(shorter, length)), blocks(outer), 0))
    if const(inner) != 1:
        add_columns(assembly, tensors, outer, length, inner, data.dtype)
    return assembly.source()
