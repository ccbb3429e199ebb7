"""A thread of attention on tensor cores, in CUDA C: scores, weights and sums, in registers, and the shared memory of its block.

Products are of single warps or of teams of four (see ``matrix_instructions``).  Those of teams run from ``multiply`` and ``add``
until ``finish_multiply`` and ``finish_add``; for warps these do nothing.
"""

from __future__ import annotations

from string import Template

#: Device code, of a namespace of its own.
TEXT = Template("""
namespace halves {
const int THREADS = $threads, ROWS = $rows, KEYS = $keys, DEPTH = $depth;
const int COLUMNS = HAS_TEAMS ? $panels : $columns;  // teams multiply whole panels of values
const bool KEPT = $kept, IS_RAW = $is_raw;
const int STEPS = DEPTH / 16, OF_KEY = KEYS / 8, OF_COLUMN = COLUMNS / 8;
const int WIDE = (DEPTH + 63) / 64 * 128, HIGH = (COLUMNS + 63) / 64 * 128;  // bytes of a row of all panels
const int KEY_BYTES = KEYS * WIDE, VALUE_BYTES = KEYS * HIGH;

// COUNT rows of WIDTH elements on their way to shared memory, tile after tile, with zeros behind the last row and element.
// A thread copies the same chunk of rows at equal distances: threads behind the last chunk of a row copy none.
template <int COUNT, int WIDTH> struct Rows {
  static const int ACROSS = WIDTH <= 16 ? 2 : WIDTH <= 32 ? 4 : WIDTH <= 64 ? 8 : WIDTH <= 128 ? 16 : 32;
  static const int APART = THREADS / ACROSS, TURNS = (COUNT + APART - 1) / APART;
  const $dtype *from, *mine;  // the next tile, and the first chunk of this thread
  int64 step, jump;  // from a row of this thread to its next, and to the next tile
  int row, offset, width;
  bool is_wide, copies, is_there;

  DEVICE Rows(const $dtype* first, int64 distance, int64 elements, bool aligned) {
    const int chunk = threadIdx.x % ACROSS;
    row = threadIdx.x / ACROSS;
    from = first;
    mine = first + row * distance + chunk * 8;
    step = APART * distance;
    jump = COUNT * distance;
    offset = int(chunk_at<COUNT>(Place(0), row, chunk) - Place(0));
    width = int(elements);
    is_wide = aligned;
    copies = chunk * 8 < WIDTH;
    is_there = chunk * 8 < width;
  }
  // Rows APART, a multiple of 4, behind one another have the same chunk at the same place of their lines, or in the other half.
  template <bool IS_FULL> DEVICE void copy(Place to, int count) const {
    const $dtype* at = mine;
#pragma unroll
    for (int t = 0; t < TURNS; ++t, at += step) {
      if (COUNT % APART != 0 && row + t * APART >= COUNT) break;
      const bool is_here = is_there && (IS_FULL || row + t * APART < count);
      begin_copy(to + ((offset ^ (t * APART & 7) << 4) + t * APART * 128), is_here ? at : from, is_here);
    }
  }
  // Begin to copy the next tile, of which `count` rows are there.
  DEVICE void fetch(Place to, int count) {
    if (is_wide) {
      if (copies && count >= COUNT) copy<true>(to, count);
      else if (copies) copy<false>(to, count);
    } else {
      const int64 distance = jump / COUNT;
#pragma unroll 1
      for (int unit = threadIdx.x; unit < COUNT * WIDTH; unit += THREADS) {
        const int of = unit / WIDTH, at = unit % WIDTH;
        put(chunk_at<COUNT>(to, of, at / 8) + at % 8 * 2, of < count && at < width ? from[of * distance + at].bits : uint16(0));
      }
    }
    from += jump;
    mine += jump;
  }
};

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
        const uint32 pair = pair_of($dtype{}, result_of(sums[x][2 * r], share), result_of(sums[x][2 * r + 1], share));
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
