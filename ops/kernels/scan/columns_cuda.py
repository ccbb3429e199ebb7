"""Scans along an axis that is not the last on CUDA: a block scans a tile, a section of neighbouring columns.

Each column of a tile has a posted sum with a state of its own: a block waits for no fence, and reads states and sums in one trip.
"""

from __future__ import annotations

from string import Template

from ....shape_funcs.symbolic.dim_operations import all_, eq, lt, not_, where
from ...codegen.cuda.assembly import blocks, divisor, size
from ...codegen.cuda.device_code.column_tile import COLUMN_TILE, power_of_two, rows_of_tile, tile_bits
from ...codegen.cuda.look_back import SUM, SUM_UP_TO, add_look_back
from .scan_cuda import THREADS, Scan

#: Rows of a thread; their loads are in flight together.  Packs of 8 elements leave registers to fewer rows.
ROWS, ROWS_OF_WIDE = 8, 4
#: Blocks that a multiprocessor holds.
_RESIDENT = 3

#: The posted sums that a thread reads at once.
_READS = 2

_SCAN_COLUMNS = Template("""
  __shared__ Sum before_tile[$threads * $width], up_to_group[$threads * $width], before_thread[$threads * $width];
  const ColumnTile my(bits);
  const int column_bits = int(bits) + $width_bits;
  const bool aligned = $aligned;
  const Posted<Sum> posts = {posted};
  auto element = [&](int64 at) { return data_at(data, at); };
  for (int64 work = blockIdx.x; work < all_parts; work += gridDim.x) {
    int64 tile = sections > 1 ? next_part(posted) : work;
    int64 in_order = by_stripes.quotient(tile), slab = by_sections.quotient(in_order), section = in_order - slab * sections;
    int64 row = section * section_rows + my.row, column = (tile - in_order * stripes) * my.columns + my.column;
    int64 start = (slab * length + row) * inner + column;
    Held<$dtype, $width> held[$rows];
    load_column_packs(held, data, aligned, start, inner, length - row, inner - column, element);
    // elements beyond the tensor come after all others of their columns, or are in columns of their own
    Sum sums[$width];
    each<$width>([&](int i) { sums[i] = START; });
#pragma unroll
    for (int k = 0; k < $rows; ++k) {
      const Pack<$dtype, $width> pack = held[k];
      each<$width>([&](int i) { sums[i] = Join()(sums[i], summand(pack.at[i])); });
    }
    for (int distance = my.of_warp; distance < 32; distance *= 2) {
      each<$width>([&](int i) {
        Sum other = shuffle_up(sums[i], distance);
        if (my.lane >= distance) sums[i] = Join()(other, sums[i]);
      });
    }
    each<$width>([&](int i) { before_thread[i * $threads + threadIdx.x] = shuffle_up(sums[i], my.of_warp & 31); });
    if (my.lane >= 32 - my.of_warp) each<$width>([&](int i) { up_to_group[my.group * my.columns + my.column + i] = sums[i]; });
    __syncthreads();
    for (int c = threadIdx.x; c < my.columns; c += $threads) {
      Sum sum = up_to_group[c];
      for (int g = 1; g < my.groups; ++g) up_to_group[g * my.columns + c] = sum = Join()(sum, up_to_group[g * my.columns + c]);
      before_tile[c] = START;
      if (sections > 1) posts.post(tile * my.columns + c, section == 0 ? $up_to : $sum, sum);
    }
    if (section > 0) {
      look_back<$threads, $reads, Sum>(posts, tile, stripes, section, column_bits, Join(), [&](int c, Sum before) {
        before_tile[c] = before;
        posts.post(tile * my.columns + c, $up_to, Join()(before, up_to_group[(my.groups - 1) * my.columns + c]));
      });
    } else {
      __syncthreads();
    }
    each<$width>([&](int i) {
      int c = my.column + i;
      Sum sum = before_tile[c];
      if (my.group > 0) sum = Join()(sum, up_to_group[(my.group - 1) * my.columns + c]);
      sums[i] = my.lane >= my.of_warp ? Join()(sum, before_thread[i * $threads + threadIdx.x]) : sum;
    });
#pragma unroll
    for (int k = 0; k < $rows; ++k) {
      const Pack<$dtype, $width> pack = held[k];
      Pack<$out, $width> results;
      each<$width>([&](int i) {
        Sum next = Join()(sums[i], summand(pack.at[i]));
        results.at[i] = stored($exclusive ? sums[i] : next);
        sums[i] = next;
      });
      if (row + k < length) store_column_pack(out, results, aligned, start + k * inner, inner - column);
    }
    __syncthreads();
  }
""")


def add_columns(scan: Scan) -> None:
    """Add the kernel for an axis that is not the last."""
    packs = (scan.inner + (scan.width - 1)) // scan.width
    rows = ROWS if scan.width <= 4 else ROWS_OF_WIDE
    bits = tile_bits(packs, scan.length, rows, THREADS)
    in_tile, section = power_of_two(bits, THREADS), rows_of_tile(bits, rows, THREADS)
    columns = in_tile * scan.width
    stripes, sections = (packs + (in_tile - 1)) // in_tile, (scan.length + (section - 1)) // section
    in_order = scan.outer * sections
    tiles = in_order * stripes
    used = not_(eq(scan.inner, 1))
    cut = all_(used, lt(1, sections))
    tile = COLUMN_TILE.substitute(threads=THREADS, rows=rows, width=scan.width)
    posted = add_look_back(scan.assembly, "clear_tiles", tiles, cut, columns * scan.posted_words)
    scan.assembly.text(tile)
    divisors = divisor("by_stripes", stripes, tiles), divisor("by_sections", sections, in_order)
    sizes = (size("bits", bits), size("section_rows", section), size("sections", sections), size("stripes", stripes))
    aligned = f"inner % {scan.width} == 0 && aligned16(data) && aligned16(out)" if scan.is_loaded else "false"
    numbers = {"rows": rows, "reads": _READS, "sum": SUM, "up_to": SUM_UP_TO, "width_bits": scan.width.bit_length() - 1}
    text = _SCAN_COLUMNS.substitute(aligned=aligned, **numbers, **scan.texts())
    scan.add("scan_columns", text, (*posted, *sizes, *divisors), where(used, blocks(tiles), 0), _RESIDENT)
