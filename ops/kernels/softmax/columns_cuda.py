"""softmax and log_softmax on CUDA along an axis that is not the last: a block takes a tile of neighbouring columns.

A block holds a tile of whole columns in registers.  Longer columns are stripes of several tiles, each of which is read twice: the
second time, from the L2 cache, after all tiles of its stripe have posted the largest elements and the sums of exponentials of
their columns.  A block takes the number of its work when it starts, and waits only for work with smaller numbers.

The text uses the device functions of the rows' kernels (``cuda.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from string import Template
from typing import Any

from ....shape_funcs.symbolic.dim import Dim
from ....shape_funcs.symbolic.dim_operations import all_, eq, le, min_, not_, where
from ...codegen.cuda.assembly import Assembly, Parameter, blocks, divisor, size
from ...codegen.cuda.device_code.column_tile import COLUMN_TILE, power_of_two, rows_of_tile, tile_bits
from ...codegen.cuda.look_back import add_look_back
from ...codegen.cuda.vector_access import ACCESS
from ...core.tensor_types import ITEMSIZE, computed_in

#: Threads of a block, and rows of a thread whose loads are in flight together.
THREADS, ROWS = 256, 8
#: The blocks on a multiprocessor for which kernels are compiled, by the bytes of an element; a pack of halves has more.
RESIDENT = {2: 2, 4: 3, 8: 1}
#: The bits of the fewest packs in a row of a tile, if the tensor has so many: 64 bytes, two sectors of memory.
NARROW = 2
#: The tiles of long columns that are read for the first time before a tile is read again, beyond those of a stripe: more than a
#: GPU works on at a time, and few enough for the L2 cache to hold.
LAG = 256

_EACH_COLUMN = Template("""
// combine(a, b) for each of a thread's columns over all threads that share it, known to all of them.
template <class T, class F> DEVICE void reduce_columns(const ColumnTile& my, T* values, T* of_group, F combine) {
#pragma unroll
  for (int i = 0; i < $width; ++i) {
    for (int distance = my.of_warp; distance < 32; distance *= 2) {
      values[i] = combine(values[i], shuffle_xor(values[i], distance));
    }
    if (my.lane < my.of_warp) of_group[my.group * my.columns + my.column + i] = values[i];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < $width; ++i) {
    values[i] = of_group[my.column + i];
    for (int g = 1; g < my.groups; ++g) values[i] = combine(values[i], of_group[g * my.columns + my.column + i]);
  }
  __syncthreads();
}
""")

_HELD_COLUMNS = Template("""
  __shared__ Number of_group[$threads * $width];
  const ColumnTile my(bits);
  const bool aligned = inner % $width == 0 && aligned16(data) && aligned16(out);
  auto element = [&](int64 at) { return data[at]; };
  for (int64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    int64 slab = by_stripes.quotient(tile), left = inner - (tile - slab * stripes) * my.columns - my.column;
    int64 rows = length - my.row;
    int64 start = (slab * length + my.row) * inner + (inner - left);
    Pack<$dtype, $width> packs[$rows];
    Number held[$rows][$width], top[$width], total[$width];
    load_column_packs(packs, data, aligned, start, inner, rows, left, element);
#pragma unroll
    for (int i = 0; i < $width; ++i) {
      top[i] = LOWEST;
#pragma unroll
      for (int k = 0; k < $rows; ++k) {
        held[k][i] = k < rows ? number(packs[k].at[i]) : LOWEST;
        top[i] = held[k][i] > top[i] ? held[k][i] : top[i];
      }
    }
    reduce_columns(my, top, of_group, Largest());
#pragma unroll
    for (int i = 0; i < $width; ++i) {
      total[i] = 0;
#pragma unroll
      for (int k = 0; k < $rows; ++k) {
        held[k][i] = kept_of(held[k][i], top[i]);
        total[i] += power_of(held[k][i]);
      }
    }
    reduce_columns(my, total, of_group, Add());
#pragma unroll
    for (int i = 0; i < $width; ++i) total[i] = settled(total[i]);
#pragma unroll
    for (int k = 0; k < $rows; ++k) {
#pragma unroll
      for (int i = 0; i < $width; ++i) packs[k].at[i] = outcome(held[k][i], total[i]);
      if (k < rows) store_column_pack(out, packs[k], aligned, start + k * inner, left);
    }
  }
""")

_LONG_COLUMNS = Template("""
  __shared__ Seen room[$threads * $width / 2];
  __shared__ bool is_last;
  const ColumnTile my(bits);
  const bool aligned = inner % $width == 0 && aligned16(data) && aligned16(out);
  auto element = [&](int64 at) { return data[at]; };
  volatile uint64 *arrived = posted + 1, *known = arrived + all_stripes;
  for (int64 work = blockIdx.x; work < 2 * (tiles + behind); work += gridDim.x) {
    const int64 turn = next_part(posted);
    const bool is_again = turn & 1;
    const int64 tile = (turn >> 1) - (is_again ? behind : 0);
    if (tile < 0 || tile >= tiles) {
      __syncthreads();
      continue;
    }
    const int64 stripe = by_sections.quotient(tile), section = tile - stripe * sections, slab = by_stripes.quotient(stripe);
    const int64 left = inner - (stripe - slab * stripes) * my.columns - my.column;
    const int64 row = section * tile_rows + my.row, rows = length - row, start = (slab * length + row) * inner + (inner - left);
    Pack<$dtype, $width> packs[$rows];
    load_column_packs(packs, data, aligned, start, inner, rows, left, element);
    if (is_again) {
      if (threadIdx.x == 0) while (known[stripe] == 0) __nanosleep(32);
      __syncthreads();
      __threadfence();
      Seen of_all[$width];
#pragma unroll
      for (int i = 0; i < $width; ++i) of_all[i] = read_seen(seen + stripe * sections * my.columns + my.column + i);
#pragma unroll
      for (int k = 0; k < $rows; ++k) {
#pragma unroll
        for (int i = 0; i < $width; ++i) {
          packs[k].at[i] = outcome(kept_of(number(packs[k].at[i]), of_all[i].top), of_all[i].total);
        }
        if (k < rows) store_column_pack(out, packs[k], aligned, start + k * inner, left);
      }
      __syncthreads();
      continue;
    }
#pragma unroll
    for (int i = 0; i < $width; ++i) {
      Seen mine = {LOWEST, Number(0)};
#pragma unroll
      for (int k = 0; k < $rows; ++k) {
        const Number value = k < rows ? number(packs[k].at[i]) : LOWEST;
        mine.top = value > mine.top ? value : mine.top;
      }
      for (int distance = my.of_warp; distance < 32; distance *= 2) {
        mine.top = Largest()(mine.top, shuffle_xor(mine.top, distance));
      }
      // results of a column whose largest element is infinite are no numbers, whatever its sum
      const Number base = mine.top == LOWEST || mine.top == -LOWEST ? Number(0) : mine.top;
#pragma unroll
      for (int k = 0; k < $rows; ++k) mine.total += k < rows ? exp(number(packs[k].at[i]) - base) : Number(0);
      for (int distance = my.of_warp; distance < 32; distance *= 2) mine.total += shuffle_xor(mine.total, distance);
      if (my.lane < my.of_warp) room[my.group * my.columns + my.column + i] = mine;
    }
    __syncthreads();
    for (int c = threadIdx.x; c < my.columns; c += $threads) {
      Seen of_tile = room[c];
      for (int g = 1; g < my.groups; ++g) of_tile = Join()(of_tile, room[g * my.columns + c]);
      write_seen(seen + tile * my.columns + c, of_tile);
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) is_last = atomicAdd(posted + 1 + stripe, uint64(1)) == uint64(sections - 1);
    __syncthreads();
    if (is_last) {
      // the last of a stripe's tiles joins all of them, in their order
      __threadfence();
      const int column = threadIdx.x & (my.columns - 1), part = threadIdx.x / my.columns, parts = $threads / my.columns;
      Seen of_part = {LOWEST, Number(0)};
      Seen* of_stripe = seen + stripe * sections * my.columns + column;
#pragma unroll 4
      for (int64 k = part; k < sections; k += parts) of_part = Join()(of_part, read_seen(of_stripe + k * my.columns));
      room[threadIdx.x] = of_part;
      __syncthreads();
      if (part == 0) {
        for (int k = 1; k < parts; ++k) of_part = Join()(of_part, room[k * my.columns + column]);
        write_seen(of_stripe, Seen{of_part.top, of_part.of_all()});
        __threadfence();
      }
      __syncthreads();
      if (threadIdx.x == 0) known[stripe] = 1;
    }
    __syncthreads();
  }
""")

_POSTED = """
DEVICE Seen read_seen(const volatile Seen* from) { return Seen{from->top, from->total}; }
DEVICE void write_seen(volatile Seen* to, Seen seen) {
  to->top = seen.top;
  to->total = seen.total;
}
"""


def add_columns(assembly: Assembly, tensors: Sequence[Parameter], outer: Dim, length: Dim, inner: Dim, dtype: str) -> None:
    """Add the kernels for an ``inner`` that is not 1."""
    width = ACCESS // ITEMSIZE[dtype]
    texts = {"threads": THREADS, "rows": ROWS, "width": width, "dtype": dtype}
    assembly.text(COLUMN_TILE.substitute(**texts), _EACH_COLUMN.substitute(**texts), _POSTED)
    packs = (inner + (width - 1)) // width
    bits = tile_bits(packs, length, ROWS, THREADS, NARROW)
    rows = rows_of_tile(bits, ROWS, THREADS)
    stripes = (packs + (power_of_two(bits, THREADS) - 1)) // power_of_two(bits, THREADS)
    tiles = outer * stripes
    sizes = {"length": length, "inner": inner, "bits": bits, "tile_rows": rows, "stripes": stripes, "tiles": tiles}
    parameters = (*tensors, *(size(name, value) for name, value in sizes.items()), divisor("by_stripes", stripes, tiles))
    assembly.kernel("held_columns", THREADS, parameters, _HELD_COLUMNS.substitute(**texts), RESIDENT[ITEMSIZE[dtype]])
    assembly.launch("held_columns", where(all_(le(length, rows), not_(eq(inner, 1))), blocks(tiles), 0))
    _add_long(assembly, tensors, (outer, length, inner), dtype, texts, all_(not_(le(length, rows)), not_(eq(inner, 1))))


def _add_long(
    assembly: Assembly, tensors: Sequence[Parameter], shape: tuple[Dim, Dim, Dim], dtype: str, texts: dict[str, Any], used: Dim
) -> None:
    """Add the kernel of columns that no block holds."""
    outer, length, inner = shape
    packs = (inner + (texts["width"] - 1)) // texts["width"]
    bits = tile_bits(packs, length, ROWS, THREADS, NARROW)
    in_tile, rows = power_of_two(bits, THREADS), rows_of_tile(bits, ROWS, THREADS)
    stripes, sections = (packs + (in_tile - 1)) // in_tile, (length + (rows - 1)) // rows
    all_stripes = outer * stripes
    tiles = all_stripes * sections
    lag = min_(sections + LAG, tiles)
    posted = add_look_back(assembly, "clear_stripes", all_stripes * 2, used)
    seen = assembly.scratch(where(used, tiles * in_tile * (2 * texts["width"] * ITEMSIZE[computed_in(dtype)]), 0))
    sizes = {"length": length, "inner": inner, "bits": bits, "tile_rows": rows, "stripes": stripes, "sections": sections}
    sizes |= {"all_stripes": all_stripes, "tiles": tiles, "behind": lag}
    divisors = divisor("by_sections", sections, tiles), divisor("by_stripes", stripes, all_stripes)
    parameters = (*tensors, *posted, Parameter("Seen*", "seen", seen), *(size(n, v) for n, v in sizes.items()), *divisors)
    assembly.kernel("long_columns", THREADS, parameters, _LONG_COLUMNS.substitute(**texts), RESIDENT[ITEMSIZE[dtype]])
    assembly.launch("long_columns", where(used, blocks((tiles + lag) * 2), 0))
