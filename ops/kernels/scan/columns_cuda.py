"""Scans along an axis that is not the last on CUDA: a block scans a tile, a section of neighbouring columns.

The sums of a tile's columns are posted together, with one state for all of them.
"""

from __future__ import annotations

from ....shape_funcs.symbolic.dim import all_, eq, lt, not_, where
from ...codegen.cuda.assembly import blocks, divisor, size
from ...codegen.cuda.device_code.column_tile import COLUMN_TILE, power_of_two, rows_of_tile, tile_bits
from ...codegen.cuda.device_code.look_back import STATE_SHIFT, SUM, SUM_UP_TO, WINDOW, add_look_back
from ...core.tensor_types import ITEMSIZE
from .scan_cuda import THREADS, Scan

#: Rows of a thread; their loads are in flight together.
ROWS = 8

_TILES = f"""
// The sums of a tile's columns: those of the tile alone, or those of all tiles up to it.
DEVICE volatile Sum* posted_sums(uint64* posted, int64 tiles, int64 tile, uint64 state, int columns) {{
  return reinterpret_cast<Sum*>(posted + 1 + tiles) + (2 * tile + int64(state) - 1) * columns;
}}

// All threads: post the state of a tile whose sums all threads have stored.
DEVICE void post_tile(uint64* posted, int64 tile, uint64 state) {{
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) static_cast<volatile uint64*>(posted)[1 + tile] = state << {STATE_SHIFT};
}}

// The distance to the nearest tile above, out of `above` that lie `stride` apart, whose sums up to it are posted; the tiles
// between have posted their own sums.  Called by a warp.
DEVICE int64 distance_to_known(uint64* posted, int64 tile, int64 stride, int64 above) {{
  const int lane = threadIdx.x & 31;
  for (int64 first = 0;; first = first + 32 < {WINDOW} && first + 32 < above ? first + 32 : 0) {{
    uint64 state = 0;
    if (first + lane < above) {{
      const volatile uint64* word = posted + 1 + tile - (first + lane + 1) * stride;
      while ((state = *word >> {STATE_SHIFT}) == 0) __nanosleep(32);
    }}
    uint32 known = __ballot_sync(0xffffffffu, state == {SUM_UP_TO});
    if (known != 0) return first + __ffs(int(known));
  }}
}}
"""

_SCAN_COLUMNS = """
  __shared__ Sum of_group[{threads} * {width}], before_tile[{threads} * {width}];
  __shared__ int64 to_known;
  const ColumnTile my(bits);
  const bool aligned = {aligned};
  auto element = [&](int64 at) {{ return data_at(data, at); }};
  for (int64 work = blockIdx.x; work < all_parts; work += gridDim.x) {{
    int64 tile = sections > 1 ? next_part(posted) : work;
    int64 in_order = by_stripes.quotient(tile), slab = by_sections.quotient(in_order), section = in_order - slab * sections;
    int64 row = section * section_rows + my.row, column = (tile - in_order * stripes) * my.columns + my.column;
    int64 start = (slab * length + row) * inner + column;
    Pack<{dtype}, {width}> packs[{rows}];
    load_column_packs(packs, data, aligned, start, inner, length - row, inner - column, element);
    // elements beyond the tensor come after all others of their columns, or are in columns of their own
    Sum sums[{width}], before[{width}];
    each<{width}>([&](int i) {{ sums[i] = START; }});
#pragma unroll
    for (int k = 0; k < {rows}; ++k) each<{width}>([&](int i) {{ sums[i] = Join()(sums[i], summand(packs[k].at[i])); }});
    for (int distance = my.of_warp; distance < 32; distance *= 2) {{
      each<{width}>([&](int i) {{
        Sum other = shuffle_up(sums[i], distance);
        if (my.lane >= distance) sums[i] = Join()(other, sums[i]);
      }});
    }}
    each<{width}>([&](int i) {{ before[i] = shuffle_up(sums[i], my.of_warp & 31); }});
    if (my.lane >= 32 - my.of_warp) each<{width}>([&](int i) {{ of_group[my.group * my.columns + my.column + i] = sums[i]; }});
    __syncthreads();
    auto own = [&](int c) {{
      Sum sum = of_group[c];
      for (int g = 1; g < my.groups; ++g) sum = Join()(sum, of_group[g * my.columns + c]);
      return sum;
    }};
    auto posted_of = [&](int64 of, uint64 state) {{ return posted_sums(posted, all_parts, of, state, my.columns); }};
    if (section == 0) {{
      for (int c = threadIdx.x; c < my.columns; c += {threads}) {{
        before_tile[c] = START;
        if (sections > 1) posted_of(tile, {up_to})[c] = own(c);
      }}
    }} else {{
      for (int c = threadIdx.x; c < my.columns; c += {threads}) posted_of(tile, {sum})[c] = own(c);
      post_tile(posted, tile, {sum});
      if (threadIdx.x < 32) {{
        int64 distance = distance_to_known(posted, tile, stripes, section);
        if (threadIdx.x == 0) to_known = distance;
      }}
      __syncthreads();
      __threadfence();
      for (int c = threadIdx.x; c < my.columns; c += {threads}) {{
        Sum sum = posted_of(tile - to_known * stripes, {up_to})[c];
#pragma unroll 8
        for (int64 k = to_known - 1; k > 0; --k) sum = Join()(sum, Sum(posted_of(tile - k * stripes, {sum})[c]));
        before_tile[c] = sum;
        posted_of(tile, {up_to})[c] = Join()(sum, own(c));
      }}
    }}
    if (sections > 1) post_tile(posted, tile, {up_to});
    else __syncthreads();
    each<{width}>([&](int i) {{
      Sum sum = before_tile[my.column + i];
      for (int g = 0; g < my.group; ++g) sum = Join()(sum, of_group[g * my.columns + my.column + i]);
      sums[i] = my.lane >= my.of_warp ? Join()(sum, before[i]) : sum;
    }});
#pragma unroll
    for (int k = 0; k < {rows}; ++k) {{
      Pack<{out}, {width}> results;
      each<{width}>([&](int i) {{
        Sum next = Join()(sums[i], summand(packs[k].at[i]));
        results.at[i] = stored({exclusive} ? sums[i] : next);
        sums[i] = next;
      }});
      if (row + k < length) store_column_pack(out, results, aligned, start + k * inner, inner - column);
    }}
    __syncthreads();
  }}
"""


def add_columns(scan: Scan) -> None:
    """Add the kernel for an axis that is not the last."""
    packs = (scan.inner + (scan.width - 1)) // scan.width
    bits = tile_bits(packs, scan.length, ROWS, THREADS)
    in_tile, section = power_of_two(bits, THREADS), rows_of_tile(bits, ROWS, THREADS)
    columns = in_tile * scan.width
    stripes, sections = (packs + (in_tile - 1)) // in_tile, (scan.length + (section - 1)) // section
    in_order = scan.outer * sections
    tiles = in_order * stripes
    used = not_(eq(scan.inner, 1))
    cut = all_(used, lt(1, sections))
    tile = COLUMN_TILE.format(threads=THREADS, rows=ROWS, width=scan.width)
    scan.assembly.text(tile, _TILES)
    posted = add_look_back(scan.assembly, "clear_tiles", tiles, cut, columns * ITEMSIZE[scan.sum_type])
    divisors = divisor("by_stripes", stripes, tiles), divisor("by_sections", sections, in_order)
    sizes = (size("bits", bits), size("section_rows", section), size("sections", sections), size("stripes", stripes))
    aligned = f"inner % {scan.width} == 0 && aligned16(data) && aligned16(out)" if scan.is_loaded else "false"
    text = _SCAN_COLUMNS.format(rows=ROWS, aligned=aligned, sum=SUM, up_to=SUM_UP_TO, **scan.texts())
    scan.add("scan_columns", text, (*posted, *sizes, *divisors), where(used, blocks(tiles), 0))
