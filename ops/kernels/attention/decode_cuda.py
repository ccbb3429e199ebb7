"""Attention of few queries on CUDA: lanes share the elements of a key, and blocks the keys of a query.

The keys and values are read once for each query, by accesses of 16 bytes, several in flight.  Each group of lanes keeps the sums
of its own keys (see ``parts_cuda``); the block adds them up in the order of the groups, and ``join_parts`` those of blocks.
"""

from __future__ import annotations

from string import Template

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import Dim, const
from ...core.tensor_types import ITEMSIZE

#: Threads of a block.
THREADS = 128
#: The blocks that must fit a multiprocessor, by the dtype that is computed in: a float64 fills two registers.
RESIDENT = {"float32": 4, "float64": 3}
#: Queries from which tiles pay unless there are few scores: each query here reads the keys again.
LEAST_QUERIES = 4
#: The same where tiles are of tensor cores: they read the keys once, with as many bytes in flight.
LEAST_HALVES = 2
#: Packs of 16 bytes of a key, and of a value, that a thread loads at once.
AT_ONCE = 8
#: The largest number of packs of a lane for one key.
MOST_PACKS = 4


@frozen
class Lanes:
    """``lanes`` lanes share a key of ``key_packs`` packs each, a value of ``value_packs``; ``keys`` keys at once.

    ``fills``: all packs of all lanes are full.
    """

    lanes: int
    key_packs: int
    value_packs: int
    keys: int
    fills: bool


def lanes_of(dtype: str, d: Dim, e: Dim) -> Lanes | None:
    """The lanes for heads of ``d`` and ``e`` elements; None where a size is not known or too large."""
    depth, columns, unit = const(d), const(e), 16 // ITEMSIZE[dtype]
    if depth is None or columns is None:
        return None
    wanted = max(-(-max(depth, columns, 1) // unit), 4)
    lanes = min(1 << (wanted - 1).bit_length(), 32)
    of_key, of_value = (max(-(-x // (unit * lanes)), 1) for x in (depth, columns))
    most = max(of_key, of_value)
    fills = depth == unit * lanes * of_key and columns == unit * lanes * of_value
    return Lanes(lanes, of_key, of_value, AT_ONCE // most, fills) if most <= MOST_PACKS else None


#: Device code, of a namespace of its own.
TEXT = Template("""
namespace few {
const int THREADS = $threads, LANES = $lanes, GROUPS = THREADS / LANES, KEYS = $keys;
const int UNIT = 16 / int(sizeof($dtype)), OF_KEY = $key_packs, OF_VALUE = $value_packs;

// How rows are loaded: by elements unless they are aligned, by packs, or by packs that are all full.
enum Load { ANY, WIDE, FULL };

// Pack p of a lane from a row of `width` elements, with zeros behind them.
template <Load LOAD> DEVICE Pack<$dtype> pack_of(const $dtype* row, int p, int width, bool is_wide) {
  const int at = (p * LANES + int(threadIdx.x) % LANES) * UNIT;
  if (LOAD == FULL) return load_pack<$dtype>(row + at);
  Pack<$dtype> pack = {};
  if ((LOAD == WIDE || is_wide) && at < width) pack = load_pack<$dtype>(row + at);
  if (LOAD == WIDE || is_wide) return pack;
#pragma unroll
  for (int i = 0; i < UNIT; ++i) if (at + i < width) pack.at[i] = row[at + i];
  return pack;
}

struct Thread {
  const $dtype *key, *value;  // the first that are not yet added
  int64 key_step, value_step;  // to the next key and value of this thread
  int d, e;
  bool wide_keys, wide_values;
  Pack<$dtype> query[OF_KEY];
  Number top, total, sum[OF_VALUE][UNIT];

  // Add COUNT keys of this thread, if they are there; bias(score, k) is the score of the key k of them.
  template <int COUNT, Load LOAD, class Bias> DEVICE void add(Number scale, Bias bias, bool is_there) {
    Pack<$dtype> keys[COUNT][OF_KEY], values[COUNT][OF_VALUE];
    Number scores[COUNT], high = top;
#pragma unroll
    for (int k = 0; k < COUNT; ++k, key += key_step) {
#pragma unroll
      for (int p = 0; p < OF_KEY; ++p) keys[k][p] = pack_of<LOAD>(key, p, is_there ? d : 0, wide_keys);
    }
#pragma unroll
    for (int k = 0; k < COUNT; ++k, value += value_step) {
#pragma unroll
      for (int p = 0; p < OF_VALUE; ++p) values[k][p] = pack_of<LOAD>(value, p, is_there ? e : 0, wide_values);
    }
#pragma unroll
    for (int k = 0; k < COUNT; ++k) {
      Number score = 0;
#pragma unroll
      for (int p = 0; p < OF_KEY * UNIT; ++p) {
        score = plus_product(score, number(query[p / UNIT].at[p % UNIT]), number(keys[k][p / UNIT].at[p % UNIT]));
      }
      scores[k] = score;
    }
#pragma unroll
    for (int distance = 1; distance < LANES; distance *= 2) {
#pragma unroll
      for (int k = 0; k < COUNT; ++k) scores[k] += shuffle_xor(scores[k], distance);
    }
#pragma unroll
    for (int k = 0; k < COUNT; ++k) {
      scores[k] = is_there ? bias(scale * scores[k], k) : lowest();
      high = larger(high, scores[k]);
    }
    const Number factor = weight(top, high);
    top = high;
    total *= factor;
#pragma unroll
    for (int p = 0; p < OF_VALUE * UNIT; ++p) sum[p / UNIT][p % UNIT] *= factor;
#pragma unroll
    for (int k = 0; k < COUNT; ++k) {
      const Number share = weight(scores[k], top);
      total += share;
#pragma unroll
      for (int p = 0; p < OF_VALUE * UNIT; ++p) {
        Number& of = sum[p / UNIT][p % UNIT];
        of = plus_product(of, share, number(values[k][p / UNIT].at[p % UNIT]));
      }
    }
  }
};
}  // namespace few
""")

#: The body of the kernel.  A unit of work is a query, and a part of the keys.
BODY = Template("""
  using namespace few;
  __shared__ Number top_of[GROUPS], total_of[GROUPS], sums_of[GROUPS][LANES * OF_VALUE * UNIT];
  const int lane = threadIdx.x % LANES, group = threadIdx.x / LANES;
  Thread thread;
  thread.d = int(d);
  thread.e = int(e);
  thread.key_step = GROUPS * heads * d;
  thread.value_step = GROUPS * heads * e;
  thread.wide_keys = d % UNIT == 0 && aligned16(query) && aligned16(key);
  thread.wide_values = e % UNIT == 0 && aligned16(value);
  for (int64 work = blockIdx.x; work < units; work += gridDim.x) {
    const int64 rest = by_queries.quotient(work), i = work - rest * m, pair = by_parts.quotient(rest), part = rest - pair * parts;
    const int64 batch = by_heads.quotient(pair), head = pair - batch * heads, at = (batch * m + i) * heads + head;
    const int64 begin = part * part_keys, end = begin + part_keys < n ? begin + part_keys : n;
    thread.top = lowest();
    thread.total = 0;
#pragma unroll
    for (int p = 0; p < OF_VALUE * UNIT; ++p) thread.sum[p / UNIT][p % UNIT] = 0;
#pragma unroll
    for (int p = 0; p < OF_KEY; ++p) thread.query[p] = pack_of<ANY>(query + at * d, p, int(d), thread.wide_keys);
    int64 j = begin + group;
    thread.key = key + ((batch * n + j) * heads + head) * d;
    thread.value = value + ((batch * n + j) * heads + head) * e;
    auto bias_of = [&](Number score, int k) { return score$bias; };
    const int of_warp = group % (32 / LANES);  // the lanes of a warp stay together
    if (thread.wide_keys && thread.wide_values) {
      const int last = (KEYS - 1) * GROUPS + 32 / LANES - 1 - of_warp;
#pragma unroll 1
      for (; j + last < end; j += KEYS * GROUPS) thread.add<KEYS, $load>($scale, bias_of, true);
    }
#pragma unroll 1
    for (; j - of_warp < end; j += GROUPS) thread.add<1, ANY>($scale, bias_of, j < end);
    __syncthreads();
    if (lane == 0) {
      top_of[group] = thread.top;
      total_of[group] = thread.total;
    }
#pragma unroll
    for (int p = 0; p < OF_VALUE * UNIT; ++p) {
      sums_of[group][(p / UNIT * LANES + lane) * UNIT + p % UNIT] = thread.sum[p / UNIT][p % UNIT];
    }
    __syncthreads();
    for (int x = threadIdx.x; x < e; x += THREADS) {
      const Sums all = joined(top_of, total_of, 1, &sums_of[0][x], LANES * OF_VALUE * UNIT, GROUPS);
      if (parts == 1) {
        out[at * e + x] = stored<$out>(result_of(all.sum, share_of(all.top, all.total, n)));
        continue;
      }
      sums[(part * all_rows + at) * e + x] = all.sum;
      if (x > 0) continue;
      tops[part * all_rows + at] = all.top;
      totals[part * all_rows + at] = all.total;
    }
  }
""")

#: The bias of a score.
BIAS = " + number(bias[(pair * m + i) * n + j + k * GROUPS])"
