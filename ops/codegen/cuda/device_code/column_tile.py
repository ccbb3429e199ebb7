"""Tiles of neighbouring columns: threads of a block hold the packs of a row of the tile, and further threads the rows below.

A tile has ``2**bits`` packs in a row: as many as the tensor has, up to those of a warp, and beyond only where columns are short.
So all threads have rows, and a warp accesses whole sectors of memory.
"""

from __future__ import annotations

from string import Template

from .....shape_funcs.symbolic.dim import Dim, dim
from .....shape_funcs.symbolic.dim_operations import eq, le, min_, where

#: The bits of the number of threads of a warp.
WARP_BITS = 5

#: Device code for a block of ``threads`` threads that each hold ``rows`` neighbouring rows of a pack of ``width`` columns.
COLUMN_TILE = Template("""
// The part of a tile of 2**bits packs of columns that a thread holds: rows from `row` on, columns from `column` on.
struct ColumnTile {
  int of_warp, columns, lane, group, groups, row, column;
  DEVICE explicit ColumnTile(int bits) {
    int tid = threadIdx.x, above = bits < 5 ? 5 : bits;
    of_warp = bits < 5 ? 1 << bits : 32;  // packs of a row that a warp holds: its lanes beyond hold the rows below
    columns = $width << bits;
    lane = tid & 31;
    group = tid >> above;  // threads with rows below those of other warps
    groups = $threads >> above;
    row = (tid >> bits) * $rows;
    column = (tid & ((1 << bits) - 1)) * $width;
  }
};

// Loads of a thread's packs; elements beyond the tensor are 0.  No branch is between loads of aligned packs.
template <class P, class T, class F>
DEVICE void load_column_packs(P* packs, const T* data, bool aligned, int64 start, int64 inner, int64 rows,
                              int64 columns, F at) {
  if (aligned) {
#pragma unroll
    for (int k = 0; k < $rows; ++k) {
      packs[k] = load_pack<T, $width>(data + (k < rows && columns > 0 ? start + k * inner : 0));
    }
  } else {
#pragma unroll
    for (int k = 0; k < $rows; ++k) {
      Pack<T, $width> pack;
#pragma unroll
      for (int i = 0; i < $width; ++i) {
        pack.at[i] = k < rows && i < columns ? at(start + k * inner + i) : decltype(at(start)){};
      }
      packs[k] = pack;
    }
  }
}

template <class T>
DEVICE void store_column_pack(T* out, Pack<T, $width> pack, bool aligned, int64 place, int64 columns) {
  if (aligned && columns > 0) {
    store_pack<T, $width>(out + place, pack);
  } else {
#pragma unroll
    for (int i = 0; i < $width; ++i) {
      if (i < columns) out[place + i] = pack.at[i];
    }
  }
}
""")


def bits_of(number: Dim, most: int) -> Dim:
    """The least ``b`` with ``number <= 2**b``, at most ``most``."""
    bits = dim(most)
    for b in reversed(range(most)):
        bits = where(le(number, 1 << b), b, bits)
    return bits


def power_of_two(bits: Dim, most: int) -> Dim:
    """``2**bits``, at most the power of two ``most``."""
    power = dim(most)
    for b in reversed(range(most.bit_length() - 1)):
        power = where(eq(bits, b), 1 << b, power)
    return power


def rows_of_tile(bits: Dim, rows: int, threads: int) -> Dim:
    """The rows of a tile whose threads hold ``rows`` each."""
    return dim(threads * rows) // power_of_two(bits, threads)


def tile_bits(packs: Dim, length: Dim, rows: int, threads: int, narrowest: int = WARP_BITS) -> Dim:
    """The bits of tiles for columns of ``length`` rows, ``packs`` in a row of the tensor.

    More than ``narrowest`` leave threads for the rows of a column, and no more.
    """
    block_bits = threads.bit_length() - 1
    of_rows = bits_of((length + (rows - 1)) // rows, block_bits - narrowest)
    return min_(bits_of(packs, block_bits), block_bits - of_rows)
