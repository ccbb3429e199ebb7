"""Attention of many queries on CUDA: tiles of queries against tiles of keys, without a matrix of scores in memory.

A block has a tile of queries in shared memory and passes over the keys (Dao et al. 2022, "FlashAttention: Fast and
Memory-Efficient Exact Attention with IO-Awareness"): scores of a tile of keys in registers, their weights relative to the largest
score so far, sums of the values by these weights, in registers as well.  A lane computes the scores of queries and keys at equal
distances, and each element that it loads from shared memory is used for several of them.
"""

from __future__ import annotations

from string import Template

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import Dim, const
from ...core.tensor_types import ITEMSIZE, computed_in

#: Threads of a block: two warps; each has half of the queries.
THREADS = 64
#: The blocks that must fit a multiprocessor: two warps for each of its four schedulers, with up to 255 registers.
RESIDENT = 4
#: Elements of a key that are in shared memory at a time where the size of a head is not known, or is large.
DEPTH = 64
#: The largest size of a head whose queries stay in shared memory.
MOST_DEPTH = 128


@frozen
class Tile:
    """``rows`` queries and ``keys`` keys of ``depth`` elements, and ``columns`` elements of values.

    ``whole``: the tile has all elements of a query.  ``part``: the keys whose weights a warp has in shared memory at a time.
    ``in_flight``: loads of a thread from memory at a time.
    """

    rows: int
    keys: int
    depth: int
    columns: int
    whole: bool
    part: int
    in_flight: int
    itemsize: int

    @property
    def width(self) -> int:
        """Elements of an access to shared memory."""
        return 16 // self.itemsize

    @property
    def row(self) -> int:
        """The distance of rows in shared memory: an odd number of accesses, so that rows start in different banks."""
        return (self.depth // self.width | 1) * self.width

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory: queries, keys or values, weights."""
        keys = self.keys * max(self.row, self.columns)
        parts = self.rows * self.row + keys + self.rows * (self.part + 8)
        return max(parts, self.rows * self.columns) * self.itemsize


def tile_of(dtype: str, d: Dim, e: Dim) -> Tile:
    """The tile for heads of ``d`` and ``e`` elements of ``dtype``."""
    number, depth, known = computed_in(dtype), const(d), const(e)
    whole = depth is not None and depth <= MOST_DEPTH
    deep = max(-(-(depth or 0) // 8), 1) * 8 if whole else DEPTH
    if number == "float64":
        columns = 64 if known is None else min(max(-(-known // 16), 1) * 16, 64)
        return Tile(32, 32, deep, columns, whole, 32, 8, ITEMSIZE[number])
    columns = 64 if known is None or known > 128 else max(-(-known // 32), 1) * 32
    # loads element by element of float32, of rows that are no whole packs, leave no registers to a tile of 64 keys
    is_even = dtype != "float32" or not whole or ((depth or 0) % 4 == 0 and known is not None and known % 4 == 0)
    if columns <= 64 and is_even:
        return Tile(64, 64, deep, columns, whole, 64, 16 if whole and deep <= 64 else 8, ITEMSIZE[number])
    return Tile(64, 32, deep, columns, whole, 16, 8, ITEMSIZE[number])


#: Device code, of a namespace of its own.
TEXT = Template("""
namespace tiles {
const int THREADS = $threads, ROWS = $rows, KEYS = $keys, DEPTH = $depth, COLUMNS = $columns, SLICE = $slice;
const bool WHOLE = $whole;
const int IN_FLIGHT = $in_flight;
const int W = 16 / int(sizeof(Number));  // elements of an access to shared memory
const int LINE = $line, SHARES = SLICE + 8;  // distances of rows in shared memory
const int OF_ROW = ROWS / 8, OF_KEY = KEYS / 8, OF_COLUMN = COLUMNS / (8 * W);  // of a thread
typedef Pack<Number, W> Part;

DEVICE void keep(Number* to, const Part& part) {
  uint4 access;
  memcpy(&access, &part, 16);
  *reinterpret_cast<uint4*>(to) = access;
}

// COUNT rows of WIDTH elements on their way to shared memory, DISTANCE apart there, with zeros behind the first `count` rows and
// the first `width` elements.  A thread has at most MOST loads in flight.
template <int COUNT, int WIDTH, int DISTANCE, int MOST> struct Rows {
  static const int UNIT = 16 / int(sizeof($dtype)), ACROSS = WIDTH / UNIT, ALL = COUNT * ACROSS;
  static const int TURNS = (ALL + THREADS - 1) / THREADS, AT_ONCE = TURNS < MOST ? TURNS : MOST;
  static const bool IS_EVEN = THREADS % ACROSS == 0;  // a thread loads the same elements of each row
  Pack<$dtype> packs[AT_ONCE];
  const $dtype* data;
  int64 step;
  int count, width;

  DEVICE static int row(int turn) { return (turn * THREADS + int(threadIdx.x)) / ACROSS; }
  DEVICE static int place(int turn) { return (turn * THREADS + int(threadIdx.x)) % ACROSS * UNIT; }

  // Behind the last row and element others are loaded, which exist, so that no branch is between loads.
  DEVICE const $dtype* at(int turn) const {
    return data + (row(turn) < count ? row(turn) : count - 1) * step + (place(turn) < width ? place(turn) : 0);
  }
  DEVICE void load(int first) {
    const $dtype* from = at(first);
    const int64 jump = THREADS / ACROSS * step;
#pragma unroll
    for (int k = 0; k < AT_ONCE; ++k) {
      packs[k] = load_pack<$dtype>(from);
      if (IS_EVEN) from += row(first + k + 1) < count ? jump : 0;
      else from = at(first + k + 1);
    }
  }
  template <bool IS_FULL> DEVICE void store(Number* room, int first) const {
#pragma unroll
    for (int k = 0; k < AT_ONCE; ++k) {
      const int turn = first + k;
      if (ALL % (THREADS * AT_ONCE) != 0 && row(turn) >= COUNT) break;
      const bool is_there = IS_FULL || (row(turn) < count && place(turn) < width);
#pragma unroll
      for (int p = 0; p < UNIT; p += W) {
        Part part;
#pragma unroll
        for (int i = 0; i < W; ++i) part.at[i] = is_there ? number(packs[k].at[p + i]) : Number(0);
        keep(room + row(turn) * DISTANCE + place(turn) + p, part);
      }
    }
  }
  DEVICE void put(Number* room, const $dtype* from, int64 rows_apart, int rows, int columns, bool are_wide) {
    data = from;
    step = rows_apart;
    count = rows;
    width = columns;
    if (are_wide && rows > 0 && columns > 0) {
#pragma unroll 1
      for (int first = 0; first < TURNS; first += AT_ONCE) {
        load(first);
        if (count == COUNT && width == WIDTH) store<true>(room, first);
        else store<false>(room, first);
      }
    } else {
#pragma unroll 4
      for (int unit = threadIdx.x; unit < COUNT * WIDTH; unit += THREADS) {
        const int row = unit / WIDTH, at = unit % WIDTH;
        room[row * DISTANCE + at] = row < count && at < width ? number(data[row * step + at]) : Number(0);
      }
    }
  }
};

struct Thread {
  Number scores[OF_ROW][OF_KEY];
  Part sums[OF_ROW][OF_COLUMN];
  Number top[OF_ROW], total[OF_ROW];
  int row, column, warp;  // of the warp's queries, of keys and packs of elements: the first of a thread

  DEVICE Thread() {
    const int lane = threadIdx.x & 31;
    // lanes of which one bit differs load the same: half of a warp is one access
    row = (lane & 1) | lane >> 4 << 1;
    column = lane >> 1 & 7;
    warp = threadIdx.x >> 5;
#pragma unroll
    for (int i = 0; i < OF_ROW; ++i) {
      top[i] = lowest();
      total[i] = 0;
#pragma unroll
      for (int g = 0; g < OF_COLUMN; ++g) sums[i][g] = Part{};
    }
  }
  DEVICE int query(int i) const { return warp * (ROWS / 2) + row + 4 * i; }

  DEVICE void clear() {
#pragma unroll
    for (int k = 0; k < OF_ROW * OF_KEY; ++k) scores[k / OF_KEY][k % OF_KEY] = 0;
  }
  // Add the products of DEPTH elements of queries and keys.
  DEVICE void multiply(const Number* queries, const Number* keys) {
#pragma unroll 1
    for (int p = 0; p < DEPTH; p += W) {
      Part of_query[OF_ROW];
#pragma unroll
      for (int i = 0; i < OF_ROW; ++i) of_query[i] = load_pack<Number>(queries + query(i) * LINE + p);
#pragma unroll
      for (int j = 0; j < OF_KEY; ++j) {
        const Part of_key = load_pack<Number>(keys + (column + 8 * j) * LINE + p);
#pragma unroll
        for (int w = 0; w < W; ++w) {
#pragma unroll
          for (int i = 0; i < OF_ROW; ++i) scores[i][j] = plus_product(scores[i][j], of_query[i].at[w], of_key.at[w]);
        }
      }
    }
  }
  // Replace scores by weights, relative to the largest score so far; `count`: the keys of this tile.
  template <class Bias> DEVICE void weigh(Number scale, Bias bias, int count) {
#pragma unroll
    for (int k = 0; k < OF_ROW * OF_KEY; ++k) scores[k / OF_KEY][k % OF_KEY] *= scale;
    bias(*this);
    if (count < KEYS) {
#pragma unroll
      for (int k = 0; k < OF_ROW * OF_KEY; ++k) {
        if (column + 8 * (k % OF_KEY) >= count) scores[k / OF_KEY][k % OF_KEY] = lowest();
      }
    }
#pragma unroll
    for (int i = 0; i < OF_ROW; ++i) {
      Number high = top[i];
#pragma unroll
      for (int j = 0; j < OF_KEY; ++j) high = larger(high, scores[i][j]);
#pragma unroll
      for (int distance = 2; distance <= 8; distance *= 2) high = larger(high, shuffle_xor(high, distance));
      const Number factor = weight(top[i], high);
      Number sum = 0;
#pragma unroll
      for (int j = 0; j < OF_KEY; ++j) {
        scores[i][j] = weight(scores[i][j], high);
        sum += scores[i][j];
      }
      top[i] = high;
      total[i] = plus_product(sum, total[i], factor);
#pragma unroll
      for (int g = 0; g < OF_COLUMN; ++g) {
#pragma unroll
        for (int w = 0; w < W; ++w) sums[i][g].at[w] *= factor;
      }
    }
  }
  // The weights of SLICE keys for the lanes of the warp.
  DEVICE void exchange(Number* shares, int from) const {
    Number* of_warp = shares + warp * (ROWS / 2) * SHARES;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < OF_ROW; ++i) {
#pragma unroll
      for (int j = 0; j < SLICE / 8; ++j) of_warp[(row + 4 * i) * SHARES + column + 8 * j] = scores[i][from / 8 + j];
    }
    __syncwarp();
  }
  // Add the values of SLICE keys, scaled by their weights.
  DEVICE void add(const Number* shares, const Number* values) {
    const Number* of_warp = shares + warp * (ROWS / 2) * SHARES;
#pragma unroll 1
    for (int k = 0; k < SLICE; k += W) {
      Part share[OF_ROW];
#pragma unroll
      for (int i = 0; i < OF_ROW; ++i) share[i] = load_pack<Number>(of_warp + (row + 4 * i) * SHARES + k);
#pragma unroll
      for (int w = 0; w < W; ++w) {
#pragma unroll
        for (int g = 0; g < OF_COLUMN; ++g) {
          const Part value = load_pack<Number>(values + (k + w) * COLUMNS + (g * 8 + column) * W);
#pragma unroll
          for (int i = 0; i < OF_ROW; ++i) {
#pragma unroll
            for (int x = 0; x < W; ++x) sums[i][g].at[x] = plus_product(sums[i][g].at[x], share[i].at[w], value.at[x]);
          }
        }
      }
    }
  }
  // The total of each query over all lanes with its keys.
  DEVICE void finish() {
#pragma unroll
    for (int i = 0; i < OF_ROW; ++i) {
#pragma unroll
      for (int distance = 2; distance <= 8; distance *= 2) total[i] += shuffle_xor(total[i], distance);
    }
  }
  // Sums into shared memory, as results if they are of all keys.
  DEVICE void put(Number* room, bool is_all, int64 n) const {
#pragma unroll
    for (int i = 0; i < OF_ROW; ++i) {
      const Number share = is_all ? share_of(top[i], total[i], n) : Number(1);
#pragma unroll
      for (int g = 0; g < OF_COLUMN; ++g) {
        Part part;
#pragma unroll
        for (int w = 0; w < W; ++w) part.at[w] = result_of(sums[i][g].at[w], share);
        keep(room + query(i) * COLUMNS + (g * 8 + column) * W, part);
      }
    }
  }
};

// Rows of COLUMNS elements from shared memory to memory, the first `rows` of them and their first `columns` elements.
template <class T> DEVICE void store_rows(T* to, const Number* room, int64 step, int rows, int columns, bool is_wide) {
  const int ACROSS = COLUMNS / W;
#pragma unroll 2
  for (int unit = threadIdx.x; unit < ROWS * ACROSS; unit += THREADS) {
    const int row = unit / ACROSS, at = unit % ACROSS * W;
    if (row >= rows || at >= columns) continue;
    const Part part = load_pack<Number>(room + row * COLUMNS + at);
    Pack<T, W> results;
#pragma unroll
    for (int w = 0; w < W; ++w) results.at[w] = stored<T>(part.at[w]);
    if (is_wide) {
      store_pack<T, W>(to + row * step + at, results);
    } else {
#pragma unroll
      for (int w = 0; w < W; ++w) if (at + w < columns) to[row * step + at + w] = results.at[w];
    }
  }
}
}  // namespace tiles
""")

#: Statements that add the bias to the scores of a tile.
BIAS = """
#pragma unroll
        for (int i = 0; i < tiles::OF_ROW; ++i) {
          const int64 here = (pair * m + first + of.query(i)) * n + j;
#pragma unroll
          for (int k = 0; k < tiles::OF_KEY; ++k) {
            const int key = of.column + 8 * k;
            if (of.query(i) < rows && key < count) of.scores[i][k] += number(bias[here + key]);
          }
        }
"""
#: The body of the kernel.  A unit of work is a tile of queries, columns of values, and a part of the keys.
BODY = Template("""
  SHARED(Number, room);
  Number *queries = room, *keys = queries + tiles::ROWS * tiles::LINE;
  Number* shares = keys + tiles::KEYS * (tiles::LINE > tiles::COLUMNS ? tiles::LINE : tiles::COLUMNS);
  const bool wide_keys = d % $unit == 0 && aligned16(query) && aligned16(key);
  const bool wide_values = e % $unit == 0 && aligned16(value);
  const bool wide_sums = e % tiles::W == 0 && aligned16(out);
  for (int64 work = blockIdx.x; work < units; work += gridDim.x) {
    const int64 rest = by_bands.quotient(work), rest_of_slab = by_slabs.quotient(rest), pair = by_parts.quotient(rest_of_slab);
    const int64 first = (work - rest * bands) * tiles::ROWS, slab = (rest - rest_of_slab * slabs) * tiles::COLUMNS;
    const int64 part = rest_of_slab - pair * parts, batch = by_heads.quotient(pair), head = pair - batch * heads;
    const int64 begin = part * part_keys, end = begin + part_keys < n ? begin + part_keys : n;
    const $dtype* query_here = query + ((batch * m + first) * heads + head) * d;
    const $dtype* key_here = key + (batch * n * heads + head) * d;
    const $dtype* value_here = value + (batch * n * heads + head) * e + slab;
    const int rows = m - first < tiles::ROWS ? int(m - first) : tiles::ROWS;
    const int columns = e - slab < tiles::COLUMNS ? int(e - slab) : tiles::COLUMNS;
    tiles::Thread thread;
    tiles::Rows<tiles::ROWS, tiles::DEPTH, tiles::LINE, tiles::IN_FLIGHT> query_rows;
    tiles::Rows<tiles::KEYS, tiles::DEPTH, tiles::LINE, tiles::IN_FLIGHT> key_rows;
    tiles::Rows<tiles::KEYS, tiles::COLUMNS, tiles::COLUMNS, tiles::IN_FLIGHT> value_rows;
    __syncthreads();
    if (tiles::WHOLE) query_rows.put(queries, query_here, heads * d, rows, int(d), wide_keys);
    for (int64 j = begin; j < end; j += tiles::KEYS) {
      const int count = end - j < tiles::KEYS ? int(end - j) : tiles::KEYS;
      for (int64 p = 0; p < (tiles::WHOLE ? 1 : d); p += tiles::DEPTH) {
        const int depth = d - p < tiles::DEPTH ? int(d - p) : tiles::DEPTH;
        __syncthreads();
        if (!tiles::WHOLE) query_rows.put(queries, query_here + p, heads * d, rows, depth, wide_keys);
        key_rows.put(keys, key_here + j * heads * d + p, heads * d, count, depth, wide_keys);
        __syncthreads();
        if (tiles::WHOLE || p == 0) thread.clear();
        thread.multiply(queries, keys);
      }
      auto bias_of = [&](tiles::Thread& of) {
$bias
      };
      thread.weigh($scale, bias_of, count);
      if (tiles::SLICE == tiles::KEYS) thread.exchange(shares, 0);
      __syncthreads();
      value_rows.put(keys, value_here + j * heads * e, heads * e, count, columns, wide_values);
      __syncthreads();
#pragma unroll
      for (int from = 0; from < tiles::KEYS; from += tiles::SLICE) {
        if (tiles::SLICE < tiles::KEYS) thread.exchange(shares, from);
        thread.add(shares, keys + from * tiles::COLUMNS);
      }
    }
    thread.finish();
    __syncthreads();
    thread.put(room, parts == 1, n);
    __syncthreads();
    const int64 at = (batch * m + first) * heads + head;
    if (parts == 1) {
      tiles::store_rows(out + at * e + slab, room, heads * e, rows, columns, wide_sums);
      continue;
    }
    const int64 before = part * all_rows + at;
    tiles::store_rows(sums + before * e + slab, room, heads * e, rows, columns, e % tiles::W == 0);
    if (slab > 0 || thread.column > 0) continue;
#pragma unroll
    for (int i = 0; i < tiles::OF_ROW; ++i) {
      if (thread.query(i) >= rows) continue;
      tops[before + thread.query(i) * heads] = thread.top[i];
      totals[before + thread.query(i) * heads] = thread.total[i];
    }
  }
""")
