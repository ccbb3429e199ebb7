"""Attention of float16 and bfloat16 on CUDA by tensor cores: tiles of queries against tiles of keys, with float32 sums.

A block has bands of 16 queries, one for each warp, and passes over the keys (see ``prefill_cuda``).  The scores of a band stay in
the registers of its warp: rounded in pairs, the weights are the left operand of the second product.  Tiles of keys and values are
copied to shared memory while others are multiplied.  The scores of a tile are requested before the values of the tile in front of
it are added: where products run by themselves (``matrix_instructions.HAS_TEAMS``), they do so beside the exponentials (Shah et
al. 2024, "FlashAttention-3: Fast and Accurate Attention with Asynchrony and Low-precision").
"""

from __future__ import annotations

from string import Template

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import Dim, const
from ...codegen.cuda.device_code import matrix_instructions
from ...codegen.cuda.device_code.matrix_instructions import ALIGNMENT, PANEL, POSITIONS, ROW_BYTES, WARPS
from ...core.tensor_types import HALVES
from .halves_thread import TEXT

#: Queries of a team of four warps, and its threads.
BAND, TEAM = 64, 128
#: The largest size of a head.
MOST_DEPTH = 256


@frozen
class Tile:
    """``teams`` bands of 64 queries and ``keys`` keys of ``depth`` elements, and ``columns`` elements of values.

    ``kept``: the queries are in registers.  ``resident``: blocks of a multiprocessor.
    """

    teams: int
    keys: int
    depth: int
    columns: int
    kept: bool
    resident: int

    @property
    def rows(self) -> int:
        """Queries of a block."""
        return self.teams * BAND

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.teams * TEAM

    @property
    def panels(self) -> int:
        """The elements of all panels of values."""
        return -(-self.columns // PANEL) * PANEL

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory: two tiles of keys, two of values, queries or results.

        Queries that are kept, and results, lie where the second tile of values is between them.
        """
        depth, columns = (-(-n // PANEL) * ROW_BYTES for n in (self.depth, self.columns))
        queries, values = self.rows * max(depth, columns), self.keys * columns
        last = max(queries, values) if self.kept else queries + values
        return 2 * self.keys * depth + values + last + ALIGNMENT - 16


def tile_of(dtype: str, d: Dim, e: Dim, has_bias: bool) -> Tile | None:
    """The tile for heads of ``d`` and ``e`` elements; None where a size is not known or too large, and for other dtypes.

    A block has at most 95 KB of shared memory: GPUs of sm_86 and sm_89 have no more to give.
    """
    depth, columns = const(d), const(e)
    if dtype not in HALVES or depth is None or columns is None or max(depth, columns) > MOST_DEPTH:
        return None
    depth, columns = (max(-(-n // 16), 1) * 16 for n in (depth, columns))
    most = max(depth, columns)
    if most > 128:
        return Tile(1, 32 if most <= 192 else 16, depth, columns, False, 2)
    keys = 48 if has_bias and most > 64 else 64  # a bias needs registers
    return Tile(2, keys, depth, columns, True, 2 if most <= 64 and not has_bias else 1)


#: Statements that add the bias to the scores of a tile, in units of the logarithm of 2.
BIAS = """
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const int of_row = of.row + 8 * r < rows ? of.row + 8 * r : rows - 1;
          const bias_type* here = bias + (pair * m + first + of_row) * n + j;
#pragma unroll
          for (int k = 0; k < halves::OF_KEY; ++k) {
            const int key = 8 * k + 2 * (of.lane & 3), next = key + 1 < count ? key + 1 : count - 1;
            of.scores[k][2 * r] = plus_product(of.scores[k][2 * r], number(here[key < count ? key : count - 1]), LOG2E);
            of.scores[k][2 * r + 1] = plus_product(of.scores[k][2 * r + 1], number(here[next]), LOG2E);
          }
        }
"""
#: The body of the kernel.  A unit of work is a tile of queries and a part of the keys.
BODY = Template("""
  using namespace halves;
  typedef $dtype bias_type;
  const float32 LOG2E = 1.44269504f, scale = $scale * LOG2E;
  SHARED(uint4, room);
  Thread thread(panels_of(place_of(room)));
  const bool wide_keys = d % 8 == 0 && aligned16(query) && aligned16(key);
  const bool wide_values = e % 8 == 0 && aligned16(value), wide_results = e % 8 == 0 && aligned16(out);
  for (int64 work = blockIdx.x; work < units; work += gridDim.x) {
    const int64 rest = by_bands.quotient(work), pair = by_parts.quotient(rest), batch = by_heads.quotient(pair);
    const int64 first = (work - rest * bands) * ROWS, part = rest - pair * parts, head = pair - batch * heads;
    const int64 begin = part * part_keys, end = begin + part_keys < n ? begin + part_keys : n;
    const $dtype* query_here = query + ((batch * m + first) * heads + head) * d;
    const $dtype* key_here = key + ((batch * n + begin) * heads + head) * d;
    const $dtype* value_here = value + ((batch * n + begin) * heads + head) * e;
    const int rows = m - first < ROWS ? int(m - first) : ROWS;
    const int tiles = int((end - begin + (KEYS - 1)) / KEYS);
    const int keys_here = int(end - begin);
    auto count_of = [&](int tile) { return keys_here - tile * KEYS < KEYS ? keys_here - tile * KEYS : KEYS; };
    Rows<ROWS, DEPTH> query_rows(query_here, heads * d, d, wide_keys);
    Rows<KEYS, DEPTH> key_rows(key_here, heads * d, d, wide_keys);
    Rows<KEYS, COLUMNS> value_rows(value_here, heads * e, e, wide_values);
    auto fetch_keys = [&](int tile) { key_rows.fetch(thread.keys + (tile & 1) * KEY_BYTES, count_of(tile)); };
    auto fetch_values = [&](int tile) { value_rows.fetch(thread.values + (tile & 1) * VALUE_BYTES, count_of(tile)); };
    auto weigh = [&](int tile) {
      const int count = count_of(tile);
      const int64 j = begin + tile * int64(KEYS);
      auto bias_of = [&](Thread& of) {
$bias
      };
      thread.weigh(scale, bias_of, count);
    };
    auto arrive = [&] {  // all copies of this thread are there, and soon those of others
      show_products();
      __syncthreads();
    };
    thread.begin();
    __syncthreads();
    if (tiles > 0) {
      query_rows.fetch(thread.queries, rows);
      fetch_keys(0);
      commit_copies();
      if (tiles > 1) fetch_keys(1);
      fetch_values(0);
      commit_copies();
      wait_for_copies<1>();
      arrive();
      thread.keep_queries();
      thread.begin_multiply();
      thread.multiply(0);
      thread.finish_multiply<0>();
      weigh(0);
      thread.pack();
#pragma unroll 1
      for (int tile = 1; tile < tiles; ++tile) {
        wait_for_copies<0>();
        arrive();
        if (tile + 1 < tiles) fetch_keys(tile + 1);
        fetch_values(tile);
        commit_copies();
        thread.begin_multiply();
        thread.multiply(tile);
        thread.add(tile - 1);
        thread.finish_multiply<1>();
        weigh(tile);
        thread.finish_add();
        thread.scale_sums();
        thread.pack();
      }
      wait_for_copies<0>();
      arrive();
      thread.begin_multiply();
      thread.add(tiles - 1);
      thread.finish_add();
    }
    thread.finish();
    const int64 at = (batch * m + first) * heads + head;
    if (parts == 1) {
      __syncthreads();
      thread.put_results(n);
      __syncwarp();
      thread.store_results(out + at * e, heads * e, rows, int(e), wide_results);
      continue;
    }
    const int64 before = part * all_rows + at;
    thread.store_sums(sums + before * e, heads * e, rows, int(e));
    if ((thread.lane & 3) > 0) continue;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (thread.row + 8 * r >= rows) continue;
      tops[before + (thread.row + 8 * r) * heads] = thread.top[r] * $unit;
      totals[before + (thread.row + 8 * r) * heads] = thread.total[r];
    }
  }
""")


def text(tile: Tile, texts: dict[str, str], is_raw: bool) -> tuple[str, ...]:
    """The device code of a tile; ``texts``: the names of dtypes."""
    left = "thread.kept[k]" if tile.kept else "matrix_at(queries + k / 4 * (ROWS * 128) + warp / 4 * 8192 + k % 4 * 32, 16)"
    flags = {name: str(flag).lower() for name, flag in (("kept", tile.kept), ("is_raw", is_raw))}
    sizes = {
        "threads": tile.threads,
        "rows": tile.rows,
        "keys": tile.keys,
        "depth": tile.depth,
        "columns": tile.columns,
        "panels": tile.panels,
    }
    multiply = f"multiply_team(scores, {left.removeprefix('thread.')}, right, k > 0);"
    products = ((tile.keys, tile.kept, False), (tile.panels, True, True))
    instructions = matrix_instructions.teams(texts["dtype"], products)
    return POSITIONS, WARPS, instructions, TEXT.substitute(texts, **sizes, **flags, multiply=multiply)
