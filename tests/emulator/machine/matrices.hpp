// Matrix instructions of a warp: loads of four matrices of 8 x 8 halves (ldmatrix), products of 16 x 16 by 16 x 8 (mma.sync).  The
// lanes' parts are those of the PTX ISA, "Matrix fragments for mma.m16n8k16".  The hardware adds in an order of its own, and here
// sums are float64: results are compared with a tolerance.
#pragma once
#include <cmath>

#include "blocks.hpp"

namespace matrices {

inline float as_float(uint32_t bits) {
  float value;
  memcpy(&value, &bits, 4);
  return value;
}

inline float of_float16(unsigned bits) {
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  float size = exponent == 31 ? (fraction ? NAN : INFINITY)
                              : exponent ? std::ldexp(float(1024 + fraction), exponent - 25) : std::ldexp(float(fraction), -24);
  return bits >> 15 ? -size : size;
}

// The value of the lower half of `bits`.
inline float number(unsigned bits, bool is_bfloat16) {
  static const std::vector<float>* halves = [] {
    auto* all = new std::vector<float>(1 << 16);
    for (unsigned k = 0; k < 1 << 16; ++k) (*all)[k] = of_float16(k);
    return all;
  }();
  return is_bfloat16 ? as_float(bits << 16) : (*halves)[bits & 0xffff];
}

inline EmulatorMatrices& of_lane(unsigned first, int lane) {
  return *reinterpret_cast<EmulatorMatrices*>(blocks::running.threads[first + unsigned(lane)].value);
}

// Lane 8 * i + r has the row r of matrix i; a lane gets two elements of the row lane / 4 of each matrix, or of its transpose.
inline void load(unsigned first, bool transposed) {
  for (int i = 0; i < 4; ++i) {
    uint16_t a[8][8];
    for (int r = 0; r < 8; ++r) memcpy(a[r], of_lane(first, 8 * i + r).row, 16);
    for (int lane = 0; lane < 32; ++lane) {
      int g = lane / 4, t = 2 * (lane % 4);
      of_lane(first, lane).left[i] = transposed ? a[t][g] | unsigned(a[t + 1][g]) << 16 : a[g][t] | unsigned(a[g][t + 1]) << 16;
    }
  }
}

// Register x of a lane has two elements of the row lane / 4, and of the row 8 behind for odd x; from x = 2 on 8 columns behind.
inline void product(unsigned first, bool is_bfloat16) {
  float a[16][16], b[16][8];
  for (int lane = 0; lane < 32; ++lane) {
    int g = lane / 4, t = 2 * (lane % 4);
    const EmulatorMatrices& of = of_lane(first, lane);
    for (int y = 0; y < 2; ++y) {
      for (int x = 0; x < 4; ++x) a[g + (x & 1) * 8][t + y + (x >> 1) * 8] = number(of.left[x] >> 16 * y, is_bfloat16);
      for (int x = 0; x < 2; ++x) b[t + y + 8 * x][g] = number(of.right[x] >> 16 * y, is_bfloat16);
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    for (int x = 0; x < 4; ++x) {
      int row = lane / 4 + (x >> 1) * 8, column = 2 * (lane % 4) + (x & 1);
      double sum = of_lane(first, lane).sums[x];
      for (int k = 0; k < 16; ++k) sum += double(a[row][k]) * b[k][column];
      of_lane(first, lane).sums[x] = float(sum);
    }
  }
}

inline void conclude(int operation, unsigned first) {
  if (operation == WARP_LOAD || operation == WARP_LOAD_TRANSPOSED) load(first, operation == WARP_LOAD_TRANSPOSED);
  else product(first, operation == WARP_PRODUCT_BFLOAT16);
}

}  // namespace matrices
