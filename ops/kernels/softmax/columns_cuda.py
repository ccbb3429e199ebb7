"""softmax and log_softmax on CUDA along an axis that is not the last: a block takes a tile of neighbouring columns.

The text uses the device functions of the rows' kernels (``cuda.py``).
"""

from __future__ import annotations

from collections.abc import Sequence

from ....shape_funcs.symbolic.dim import Dim, all_, eq, le, not_, where
from ...codegen.cuda.assembly import Assembly, Parameter, blocks, divisor, size
from ...codegen.cuda.device_code.column_tile import COLUMN_TILE, power_of_two, rows_of_tile, tile_bits
from ...codegen.cuda.vector_access import ACCESS
from ...core.tensor_types import ITEMSIZE

#: Threads of a block, and rows of a thread whose loads are in flight together.
THREADS, ROWS = 256, 8
#: The blocks on a multiprocessor for which kernels are compiled, by the bytes of an element; a pack of halves has more.
RESIDENT = {2: 2, 4: 3, 8: 1}
#: The bits of the fewest packs in a row of a tile, if the tensor has so many: 64 bytes, two sectors of memory.
NARROW = 2

_EACH_COLUMN = """
// combine(a, b) for each of a thread's columns over all threads that share it, known to all of them.
template <class T, class F> DEVICE void reduce_columns(const ColumnTile& my, T* values, T* of_group, F combine) {{
#pragma unroll
  for (int i = 0; i < {width}; ++i) {{
    for (int distance = my.of_warp; distance < 32; distance *= 2) {{
      values[i] = combine(values[i], shuffle_xor(values[i], distance));
    }}
    if (my.lane < my.of_warp) of_group[my.group * my.columns + my.column + i] = values[i];
  }}
  __syncthreads();
#pragma unroll
  for (int i = 0; i < {width}; ++i) {{
    values[i] = of_group[my.column + i];
    for (int g = 1; g < my.groups; ++g) values[i] = combine(values[i], of_group[g * my.columns + my.column + i]);
  }}
  __syncthreads();
}}
"""

_HELD_COLUMNS = """
  __shared__ Number of_group[{threads} * {width}];
  const ColumnTile my(bits);
  const bool aligned = inner % {width} == 0 && aligned16(data) && aligned16(out);
  auto element = [&](int64 at) {{ return data[at]; }};
  for (int64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {{
    int64 slab = by_stripes.quotient(tile), left = inner - (tile - slab * stripes) * my.columns - my.column;
    int64 rows = length - my.row;
    int64 start = (slab * length + my.row) * inner + (inner - left);
    Pack<{dtype}, {width}> packs[{rows}];
    Number held[{rows}][{width}], top[{width}], total[{width}];
    load_column_packs(packs, data, aligned, start, inner, rows, left, element);
#pragma unroll
    for (int i = 0; i < {width}; ++i) {{
      top[i] = LOWEST;
#pragma unroll
      for (int k = 0; k < {rows}; ++k) {{
        held[k][i] = k < rows ? number(packs[k].at[i]) : LOWEST;
        top[i] = held[k][i] > top[i] ? held[k][i] : top[i];
      }}
    }}
    reduce_columns(my, top, of_group, Largest());
#pragma unroll
    for (int i = 0; i < {width}; ++i) {{
      total[i] = 0;
#pragma unroll
      for (int k = 0; k < {rows}; ++k) {{
        held[k][i] = kept_of(held[k][i], top[i]);
        total[i] += power_of(held[k][i]);
      }}
    }}
    reduce_columns(my, total, of_group, Add());
#pragma unroll
    for (int i = 0; i < {width}; ++i) total[i] = settled(total[i]);
#pragma unroll
    for (int k = 0; k < {rows}; ++k) {{
#pragma unroll
      for (int i = 0; i < {width}; ++i) packs[k].at[i] = outcome(held[k][i], total[i]);
      if (k < rows) store_column_pack(out, packs[k], aligned, start + k * inner, left);
    }}
  }}
"""

_LONG_COLUMNS = """
  __shared__ Seen of_group[{threads} * {width}];
  const ColumnTile my(bits);
  const bool aligned = inner % {width} == 0 && aligned16(data) && aligned16(out);
  auto element = [&](int64 at) {{ return data[at]; }};
  for (int64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {{
    int64 slab = by_stripes.quotient(tile), left = inner - (tile - slab * stripes) * my.columns - my.column;
    int64 start = slab * length * inner + (inner - left);
    Pack<{dtype}, {width}> packs[{rows}];
    Seen seen[{width}];
#pragma unroll
    for (int i = 0; i < {width}; ++i) seen[i] = Seen{{LOWEST, Number(0)}};
    for (int64 row = my.row; row < length; row += tile_rows) {{
      load_column_packs(packs, data, aligned, start + row * inner, inner, length - row, left, element);
#pragma unroll
      for (int i = 0; i < {width}; ++i) {{
#pragma unroll
        for (int k = 0; k < {rows}; ++k) {{
          if (row + k < length) seen[i].rise(number(packs[k].at[i]));
        }}
#pragma unroll
        for (int k = 0; k < {rows}; ++k) {{
          if (row + k < length) seen[i].add(number(packs[k].at[i]));
        }}
      }}
    }}
    reduce_columns(my, seen, of_group, Join());
    Number total[{width}];
#pragma unroll
    for (int i = 0; i < {width}; ++i) total[i] = seen[i].of_all();
    for (int64 row = my.row; row < length; row += tile_rows) {{
      load_column_packs(packs, data, aligned, start + row * inner, inner, length - row, left, element);
#pragma unroll
      for (int k = 0; k < {rows}; ++k) {{
#pragma unroll
        for (int i = 0; i < {width}; ++i) packs[k].at[i] = outcome(kept_of(number(packs[k].at[i]), seen[i].top), total[i]);
        if (row + k < length) store_column_pack(out, packs[k], aligned, start + (row + k) * inner, left);
      }}
    }}
  }}
"""


def add_columns(assembly: Assembly, tensors: Sequence[Parameter], outer: Dim, length: Dim, inner: Dim, dtype: str) -> None:
    """Add the kernels for an ``inner`` that is not 1."""
    width = ACCESS // ITEMSIZE[dtype]
    texts = {"threads": THREADS, "rows": ROWS, "width": width, "dtype": dtype}
    assembly.text(COLUMN_TILE.format(**texts), _EACH_COLUMN.format(**texts))
    packs = (inner + (width - 1)) // width
    bits = tile_bits(packs, length, ROWS, THREADS, NARROW)
    in_tile, rows = power_of_two(bits, THREADS), rows_of_tile(bits, ROWS, THREADS)
    stripes = (packs + (in_tile - 1)) // in_tile
    tiles = outer * stripes
    sizes = {"length": length, "inner": inner, "bits": bits, "tile_rows": rows, "stripes": stripes, "tiles": tiles}
    parameters = (*tensors, *(size(name, value) for name, value in sizes.items()), divisor("by_stripes", stripes, tiles))
    is_held = le(length, rows)
    for name, body, used in (("held_columns", _HELD_COLUMNS, is_held), ("long_columns", _LONG_COLUMNS, not_(is_held))):
        assembly.kernel(name, THREADS, parameters, body.format(**texts), RESIDENT[ITEMSIZE[dtype]])
        assembly.launch(name, where(all_(used, not_(eq(inner, 1))), blocks(tiles), 0))
