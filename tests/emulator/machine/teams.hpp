// Products of a team of four warps (wgmma), which run until the team waits for them.  Until then the sums are NaN.  Matrices in
// shared memory lie as the PTX ISA says for a swizzle of 128 bytes: 8 rows of 128 bytes, and the next 8 rows behind them.
#pragma once
#include <map>

#include "copies.hpp"
#include "matrices.hpp"

namespace blocks {

constexpr unsigned TEAM = 128;

inline uint16_t half_at(const char* address) {
  auto swizzled = uint64_t(address) ^ (uint64_t(address) >> 7 & 7) << 4;
  uint16_t bits;
  memcpy(&bits, reinterpret_cast<const char*>(swizzled), 2);
  return bits;
}

// The element of row r and column c of a matrix with 16 columns, or with 16 rows if it `has_rows`.
inline uint16_t element(const EmulatorPlace& place, int r, int c, bool has_rows) {
  const char* group = place.at + r / 8 * 1024 + r % 8 * 128;
  return half_at(has_rows ? group + c / 64 * place.leading + c % 64 * 2 : group + c * 2);
}

inline void look_at(const EmulatorPlace& place, int rows, int columns, bool has_rows) {
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < columns; c += 8) {
      const char* group = place.at + r / 8 * 1024 + r % 8 * 128 + (has_rows ? c / 64 * place.leading + c % 64 * 2 : c * 2);
      see(reinterpret_cast<const void*>(uint64_t(group) ^ (uint64_t(group) >> 7 & 7) << 4), 16, ACCESS_READ);
    }
}

inline void look_at(const EmulatorTeamProduct& of) {
  if (of.is_left_shared) look_at(of.shared_left, 64, 16, false);
  if (of.has_rows) look_at(of.right, 16, of.columns, true);
  else look_at(of.right, of.columns, 16, false);
}

inline bool are_one(const EmulatorTeamProduct& a, const EmulatorTeamProduct& b) {
  return a.columns == b.columns && a.adds == b.adds && a.is_bfloat16 == b.is_bfloat16 && a.has_rows == b.has_rows &&
         a.is_left_shared == b.is_left_shared && a.right.at == b.right.at && a.right.leading == b.right.leading &&
         (!a.is_left_shared || a.shared_left.at == b.shared_left.at);
}

// One product of the threads from `first` on, which have it at the front of their oldest group.
inline void multiply(unsigned first, size_t k) {
  auto part = [&](unsigned thread) -> TeamProduct& { return running.threads[first + thread].products.front()[k]; };
  const EmulatorTeamProduct& of = part(0).of;
  look_at(of);
  std::vector<float> a(64 * 16), b(16 * size_t(of.columns));
  for (unsigned thread = 0; thread < TEAM; ++thread) {
    if (!are_one(of, part(thread).of)) stop(719, "threads of a team multiply different matrices");
    for (int x = 0; x < 4 && !of.is_left_shared; ++x)
      for (int y = 0; y < 2; ++y) {
        unsigned row = thread / 32 * 16 + thread % 32 / 4 + (x & 1) * 8, column = 2 * (thread % 4) + unsigned(y) + (x >> 1) * 8;
        a[row * 16 + column] = matrices::number(part(thread).of.left[x] >> 16 * y, of.is_bfloat16);
      }
  }
  for (int r = 0; r < 64 && of.is_left_shared; ++r)
    for (int c = 0; c < 16; ++c) a[size_t(r * 16 + c)] = matrices::number(element(of.shared_left, r, c, false), of.is_bfloat16);
  for (int k = 0; k < 16; ++k)
    for (int c = 0; c < of.columns; ++c) {
      uint16_t bits = of.has_rows ? element(of.right, k, c, true) : element(of.right, c, k, false);
      b[size_t(k * of.columns + c)] = matrices::number(bits, of.is_bfloat16);
    }
  for (unsigned thread = 0; thread < TEAM; ++thread)
    for (int x = 0; x < of.columns / 2; ++x) {
      int row = int(thread / 32 * 16 + thread % 32 / 4) + (x >> 1 & 1) * 8, column = x / 4 * 8 + int(2 * (thread % 4)) + (x & 1);
      float& to = part(thread).of.sums[x];
      double sum = !of.adds ? 0 : part(thread).kept.empty() ? to : part(thread).kept[size_t(x)];
      for (int k = 0; k < 16; ++k) sum += double(a[size_t(row * 16 + k)]) * b[size_t(k * of.columns + column)];
      to = float(sum);
    }
}

inline bool runs_with(const Thread& thread, const float* sums) {
  for (auto& group : thread.products)
    for (auto& product : group)
      if (product.of.sums == sums) return true;
  return false;
}

inline void begin(Thread& me, const EmulatorTeamProduct& of) {
  if (!me.is_fenced) stop(719, "a product of a team without a fence for its registers (wgmma.fence)");
  for (const Thread& thread : running.threads)
    if (thread.has_hidden_copies) stop(719, "a product of a team need not see copies to shared memory (fence.proxy.async)");
  if (running.current % TEAM == 0) look_at(of);
  TeamProduct made{of, {}};
  if (!runs_with(me, of.sums)) {
    made.kept.assign(of.sums, of.sums + of.columns / 2);
    memset(of.sums, 0xff, size_t(of.columns) * 2);
  }
  me.products.back().push_back(std::move(made));
}

inline void finish(unsigned first, size_t later) {
  unsigned me = running.current;
  be(first);
  size_t groups = running.threads[first].products.size();
  for (unsigned thread = first; thread < first + TEAM; ++thread)
    if (running.threads[thread].products.size() != groups) stop(719, "threads of a team have committed different products");
  for (; groups > later + 1; --groups) {
    size_t n = running.threads[first].products.front().size();
    for (unsigned thread = first; thread < first + TEAM; ++thread)
      if (running.threads[thread].products.front().size() != n) stop(719, "threads of a team have begun different products");
    for (size_t k = 0; k < n; ++k) multiply(first, k);
    for (unsigned thread = first; thread < first + TEAM; ++thread)
      running.threads[thread].products.erase(running.threads[thread].products.begin());
  }
  be(me);
}

inline void team_hook(int what, const EmulatorTeamProduct* product, int n) {
  Thread& me = running.threads[running.current];
  if (me.products.empty()) me.products.resize(1);
  if (what == TEAM_FENCE) me.is_fenced = true;
  if (what == TEAM_SEE_COPIES) me.has_hidden_copies = false;
  if (what == TEAM_PRODUCT) begin(me, *product);
  if (what == TEAM_COMMIT) me.products.emplace_back();
  if (what != TEAM_WAIT) return;
  unsigned first = running.current / TEAM * TEAM, arrived = ++running.at_team[first / TEAM];
  if (first + TEAM > running.n) stop(719, "a team has four warps");
  if (arrived < TEAM) return wait_as(IN_WARP);
  running.at_team[first / TEAM] = 0;
  finish(first, size_t(n));
  for (unsigned thread = first; thread < first + TEAM; ++thread) {
    running.threads[thread].is_fenced = false;
    if (thread != running.current) wake(thread);
  }
}

}  // namespace blocks
