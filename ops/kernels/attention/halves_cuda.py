"""Attention of float16 and bfloat16 on CUDA by tensor cores: tiles of queries against tiles of keys, with float32 sums.

A block has bands of 16 queries, one for each warp, and passes over the keys (see ``prefill_cuda``).  The scores of a band stay in
the registers of its warp: rounded in pairs, the weights are the left operand of the second product.  Tiles of keys and values are
copied to shared memory while others are multiplied.  The scores of a tile are requested before the values of the tile in front of
it are added: where products run by themselves (``matrix_instructions.HAS_TEAMS``), they do so beside the exponentials (Shah et
al. 2024, "FlashAttention-3: Fast and Accurate Attention with Asynchrony and Low-precision").
"""

from __future__ import annotations

from string import Template

from ....shape_funcs.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import Dim, const
from ...codegen.cuda.device_code import matrix_instructions
from ...codegen.cuda.device_code.matrix_instructions import ALIGNMENT, PANEL, PLACES, ROW_BYTES, WARPS
from ...core.tensor_types import HALVES

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
    return Tile(2, 64, depth, columns, True, 2 if most <= 64 and not has_bias else 1)


#: Device code, of a namespace of its own.
TEXT = Template("""
namespace halves {
const int THREADS = $threads, ROWS = $rows, KEYS = $keys, DEPTH = $depth;
const int COLUMNS = HAS_TEAMS ? $panels : $columns;  // teams multiply whole panels of values
const bool KEPT = $kept, IS_RAW = $is_raw;
const int STEPS = DEPTH / 16, OF_KEY = KEYS / 8, OF_COLUMN = COLUMNS / 8;
const int WIDE = (DEPTH + 63) / 64 * 128, HIGH = (COLUMNS + 63) / 64 * 128;  // bytes of a row of all panels
const int KEY_BYTES = KEYS * WIDE, VALUE_BYTES = KEYS * HIGH;

// COUNT rows of WIDTH elements on their way to shared memory, with zeros behind the first `count` rows and `width` elements.
template <int COUNT, int WIDTH> DEVICE void fetch(Place to, const $dtype* from, int64 step, int count, int width, bool is_wide) {
  const int ACROSS = WIDTH / 8, ALL = COUNT * ACROSS;
  if (is_wide) {
#pragma unroll
    for (int t = 0; t < (ALL + THREADS - 1) / THREADS; ++t) {
      const int unit = t * THREADS + int(threadIdx.x), row = unit / ACROSS, chunk = unit % ACROSS;
      if (ALL % THREADS != 0 && unit >= ALL) break;
      const bool is_there = row < count && chunk * 8 < width;
      begin_copy(chunk_at<COUNT>(to, row, chunk), is_there ? from + row * step + chunk * 8 : from, is_there);
    }
    return;
  }
#pragma unroll 1
  for (int unit = threadIdx.x; unit < COUNT * WIDTH; unit += THREADS) {
    const int row = unit / WIDTH, at = unit % WIDTH;
    put(chunk_at<COUNT>(to, row, at / 8) + at % 8 * 2, row < count && at < width ? from[row * step + at].bits : uint16(0));
  }
}

struct Thread {
  float32 scores[OF_KEY][4], sums[OF_COLUMN][4], top[2], total[2], factor[2];
  uint32 shares[OF_KEY][2], kept[KEPT ? STEPS : 1][4];
  int lane, warp, row;  // `row` of the block's queries, and the 8th behind it
  Place queries, keys, values;

  DEVICE explicit Thread(Place room) {
    lane = threadIdx.x & 31;
    warp = threadIdx.x >> 5;
    row = warp * 16 + lane / 4;
    keys = room;
    values = keys + 2 * KEY_BYTES;
    queries = values + (KEPT ? 1 : 2) * VALUE_BYTES;
  }
  DEVICE void begin() {
#pragma unroll
    for (int r = 0; r < 2; ++r) top[r] = lowest(), total[r] = 0;
#pragma unroll
    for (int x = 0; x < OF_COLUMN * 4; ++x) sums[x / 4][x % 4] = 0;
  }
  // The band of queries of this warp.
  DEVICE void load_queries(int k, uint32 (&to)[4]) const {
    load_matrices(to, chunk_at<ROWS>(queries, warp * 16 + lane % 16, 2 * k + lane / 16));
  }
  DEVICE void keep_queries() {
#pragma unroll
    for (int k = 0; k < (KEPT ? STEPS : 0); ++k) load_queries(k, kept[KEPT ? k : 0]);
  }

#if HAS_TEAMS
  DEVICE void begin_multiply() {
    hold(scores);
    hold(sums);
    begin_products();
  }
  // Begin the products of queries with the keys of a tile.
  DEVICE void multiply(int tile) {
    const Place these = keys + (tile & 1) * KEY_BYTES;
#pragma unroll
    for (int k = 0; k < STEPS; ++k) {
      const Matrix right = matrix_at(these + k / 4 * (KEYS * 128) + k % 4 * 32, 16);
      $multiply
    }
    commit_products();
  }
  // Begin to add the values of a tile, scaled by their weights.
  DEVICE void add(int tile) {
    const Place these = values + (tile & 1) * VALUE_BYTES;
#pragma unroll
    for (int k = 0; k < KEYS / 16; ++k) {
      const uint32 left[4] = {shares[2 * k][0], shares[2 * k][1], shares[2 * k + 1][0], shares[2 * k + 1][1]};
      multiply_team_by_rows(sums, left, matrix_at(these + k * 2048, KEYS * 128), 1);
    }
    commit_products();
  }
  // The scores, and the sums, are there.
  template <int LATER> DEVICE void finish_multiply() {
    wait_for_products<LATER>();
    hold(scores);
  }
  DEVICE void finish_add() {
    wait_for_products<0>();
    hold(sums);
  }
#else
  DEVICE void begin_multiply() {}
  DEVICE void multiply(int tile) {
    const Place these = keys + (tile & 1) * KEY_BYTES;
#pragma unroll
    for (int x = 0; x < OF_KEY * 4; ++x) scores[x / 4][x % 4] = 0;
#pragma unroll
    for (int k = 0; k < STEPS; ++k) {
      uint32 left[4];
      if (KEPT) memcpy(left, kept[KEPT ? k : 0], 16);
      else load_queries(k, left);
#pragma unroll
      for (int j = 0; j < OF_KEY; j += 2) {
        uint32 right[4];
        load_matrices(right, chunk_at<KEYS>(these, j * 8 + (lane & 7) + (lane >> 4) * 8, 2 * k + (lane >> 3 & 1)));
        multiply_add($dtype{}, scores[j], left, right[0], right[1]);
        multiply_add($dtype{}, scores[j + 1], left, right[2], right[3]);
      }
    }
  }
  DEVICE void add(int tile) {
    const Place these = values + (tile & 1) * VALUE_BYTES;
#pragma unroll
    for (int k = 0; k < KEYS / 16; ++k) {
      const uint32 left[4] = {shares[2 * k][0], shares[2 * k][1], shares[2 * k + 1][0], shares[2 * k + 1][1]};
#pragma unroll
      for (int x = 0; x < OF_COLUMN; x += 2) {
        uint32 right[4];
        load_transposed(right, chunk_at<KEYS>(these, k * 16 + lane % 16, x + lane / 16));
        multiply_add($dtype{}, sums[x], left, right[0], right[1]);
        multiply_add($dtype{}, sums[x + 1], left, right[2], right[3]);
      }
    }
  }
  template <int LATER> DEVICE void finish_multiply() {}
  DEVICE void finish_add() {}
#endif

  // Replace scores by weights, relative to the largest score so far; `count`: the keys of this tile.  Scores are in units of the
  // logarithm of 2: those of the products, if they need no more than a positive factor, are scaled in the exponent.
  template <class Bias> DEVICE void weigh(float32 scale, Bias bias, int count) {
    const float32 times = IS_RAW ? scale : 1;
    if (!IS_RAW) {
#pragma unroll
      for (int x = 0; x < OF_KEY * 4; ++x) scores[x / 4][x % 4] *= scale;
      bias(*this);
    }
    if (count < KEYS) {
#pragma unroll
      for (int x = 0; x < OF_KEY * 4; ++x) {
        if (x / 4 * 8 + 2 * (lane & 3) + (x & 1) >= count) scores[x / 4][x % 4] = lowest();
      }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float32 high = top[r];
#pragma unroll
      for (int j = 0; j < OF_KEY; ++j) high = larger(high, larger(scores[j][2 * r], scores[j][2 * r + 1]));
      high = larger(high, shuffle_xor(high, 1));
      high = larger(high, shuffle_xor(high, 2));
      const float32 base = high == lowest() ? float32(0) : high * times;
      factor[r] = power_of_2(plus_product(-base, top[r], times));
      float32 sum = 0;
#pragma unroll
      for (int j = 0; j < OF_KEY; ++j) {
#pragma unroll
        for (int x = 2 * r; x < 2 * r + 2; ++x) sum += scores[j][x] = power_of_2(plus_product(-base, scores[j][x], times));
      }
      top[r] = high;
      total[r] = plus_product(sum, total[r], factor[r]);
    }
  }
  // The sums relative to the largest score; mostly it has been found before.
  DEVICE void scale_sums() {
    if (!__any_sync(0xffffffffu, factor[0] != 1 || factor[1] != 1)) return;
#pragma unroll
    for (int x = 0; x < OF_COLUMN * 4; ++x) sums[x / 4][x % 4] *= factor[x % 4 / 2];
  }
  // The weights as an operand.
  DEVICE void pack() {
#pragma unroll
    for (int x = 0; x < OF_KEY * 2; ++x) {
      shares[x / 2][x % 2] = pair_of($dtype{}, scores[x / 2][x % 2 * 2], scores[x / 2][x % 2 * 2 + 1]);
    }
  }
  // The total of each query over all lanes with its keys.
  DEVICE void finish() {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      total[r] += shuffle_xor(total[r], 1);
      total[r] += shuffle_xor(total[r], 2);
    }
  }
  // Results in the rows of shared memory of this warp.
  DEVICE void put_results(int64 n) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float32 share = share_of(top[r], total[r], n);
#pragma unroll
      for (int x = 0; x < OF_COLUMN; ++x) {
        const uint32 pair = pair_of($dtype{}, sums[x][2 * r] * share, sums[x][2 * r + 1] * share);
        put(chunk_at<ROWS>(queries, row + 8 * r, x) + 4 * (lane & 3), pair);
      }
    }
  }
  // The rows of results of this warp: the first `rows` of the block, `width` elements each.
  DEVICE void store_results($out* to, int64 step, int rows, int width, bool is_wide) const {
#pragma unroll 1
    for (int unit = lane; unit < 16 * OF_COLUMN; unit += 32) {
      const int of = warp * 16 + unit / OF_COLUMN, chunk = unit % OF_COLUMN;
      if (of >= rows || chunk * 8 >= width) continue;
      const uint4 found = chunk_of(chunk_at<ROWS>(queries, of, chunk));
      if (is_wide) {
        store_access(reinterpret_cast<uint4*>(to + of * step + chunk * 8), found);
        continue;
      }
      Pack<$out> elements;
      memcpy(&elements, &found, 16);
#pragma unroll
      for (int x = 0; x < 8; ++x) if (chunk * 8 + x < width) to[of * step + chunk * 8 + x] = elements.at[x];
    }
  }
  // The sums of a part of the keys.
  DEVICE void store_sums(float32* to, int64 step, int rows, int width) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (row + 8 * r >= rows) continue;
#pragma unroll
      for (int x = 0; x < OF_COLUMN * 2; ++x) {
        const int at = x / 2 * 8 + 2 * (lane & 3) + x % 2;
        if (at < width) to[(row + 8 * r) * step + at] = sums[x / 2][2 * r + x % 2];
      }
    }
  }
};
}  // namespace halves
""")

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
    auto count_of = [&](int tile) {
      const int64 left = end - begin - tile * int64(KEYS);
      return left < KEYS ? int(left) : KEYS;
    };
    auto fetch_keys = [&](int tile) {
      const $dtype* from = key_here + tile * KEYS * heads * d;
      fetch<KEYS, DEPTH>(thread.keys + (tile & 1) * KEY_BYTES, from, heads * d, count_of(tile), int(d), wide_keys);
    };
    auto fetch_values = [&](int tile) {
      const $dtype* from = value_here + tile * KEYS * heads * e;
      fetch<KEYS, COLUMNS>(thread.values + (tile & 1) * VALUE_BYTES, from, heads * e, count_of(tile), int(e), wide_values);
    };
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
      fetch<ROWS, DEPTH>(thread.queries, query_here, heads * d, rows, int(d), wide_keys);
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
    return PLACES, WARPS, instructions, TEXT.substitute(texts, **sizes, **flags, multiply=multiply)
