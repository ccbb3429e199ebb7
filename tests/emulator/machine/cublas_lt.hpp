// The objects of cuBLASLt: descriptions of products and layouts, with the attributes that the machine sets, by their real numbers
// and sizes.  An attribute that the machine does not use is refused.
#pragma once
#include <cstring>
#include <map>

#include "cublas.hpp"

namespace cublas_lt {

enum Attribute : int {
  DESC_TRANS_A = 3, DESC_TRANS_B = 4, DESC_EPILOGUE = 7, DESC_BIAS_POINTER = 8,        // cublasLtMatmulDescAttributes_t
  LAYOUT_BATCHES = 5, LAYOUT_STRIDE = 6,                                              // cublasLtMatrixLayoutAttribute_t
  PREF_WORKSPACE = 1, PREF_REDUCTIONS = 3, PREF_ALIGNMENT_A = 5, PREF_ALIGNMENT_D = 8,  // cublasLtMatmulPreferenceAttributes_t
};
enum Epilogue : int { PLAIN = 1, RELU = 2, BIAS = 4 };  // flags, but PLAIN
constexpr int OUTPUT_REDUCTIONS = 1 | 4;  // partial sums in the type of the result
constexpr uint64_t MAGIC = 0x6c74, ALIGNMENT = 16, WORKSPACE = 4096;

struct Handle {};

// An attribute's value as it was set, or 0.
struct Attributes {
  std::map<int, uint64_t> values;
  int set(const std::map<int, size_t>& known, int attribute, const void* from, size_t n) {
    auto found = known.find(attribute);
    if (found == known.end() || found->second != n || !from) return cublas::INVALID_VALUE;
    values[attribute] = 0;
    memcpy(&values[attribute], from, n);
    return cublas::OK;
  }
  uint64_t get(int attribute, uint64_t otherwise = 0) const {
    auto found = values.find(attribute);
    return found == values.end() ? otherwise : found->second;
  }
};

struct Layout : Attributes {
  int type = 0;
  uint64_t rows = 0, columns = 0;
  int64_t leading = 0;
  int64_t batches() const { return int32_t(get(LAYOUT_BATCHES, 1)); }
  bool fits() const { return leading >= int64_t(rows) && rows > 0 && columns > 0 && batches() > 0; }
  bool operator==(const Layout& other) const {
    return type == other.type && rows == other.rows && columns == other.columns && leading == other.leading &&
           batches() == other.batches() && get(LAYOUT_STRIDE) == other.get(LAYOUT_STRIDE);
  }
  cublas::Matrix at(const void* address) const {
    return {uint64_t(address), type, int64_t(rows), int64_t(columns), leading, int64_t(get(LAYOUT_STRIDE))};
  }
};

struct Description : Attributes {
  int compute = 0, scale = 0;
  bool transposes(int attribute) const { return get(attribute) != 0; }
  int epilogue() const { return int(get(DESC_EPILOGUE, PLAIN)); }
};

struct Preference : Attributes {};

struct Algorithm {  // cublasLtMatmulAlgo_t
  uint64_t magic, product, alignment, bias_alignment, workspace, rest[3];
};

struct Result {  // cublasLtMatmulHeuristicResult_t
  Algorithm algorithm;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};
static_assert(sizeof(Algorithm) == 64 && sizeof(Result) == 96, "as in cublasLt.h");

// A product as a whole, for an algorithm to know again.
inline uint64_t hashed(const Description& by, const Layout& a, const Layout& b, const Layout& d) {
  uint64_t h = 14695981039346656037ull;
  auto add = [&](uint64_t word) { h = (h ^ word) * 1099511628211ull; };
  for (const Layout* l : {&a, &b, &d})
    for (uint64_t word : {uint64_t(l->type), l->rows, l->columns, uint64_t(l->leading), uint64_t(l->batches()), l->get(LAYOUT_STRIDE)})
      add(word);
  for (int attribute : {DESC_TRANS_A, DESC_TRANS_B}) add(by.get(attribute));
  add(uint64_t(by.epilogue()));
  add(uint64_t(by.compute));
  return h;
}

// A status of cuBLAS: whether the matrices fit together, and whether the library multiplies them.
inline int check(const Description& by, const Layout& a, const Layout& b, const Layout& c, const Layout& d) {
  bool ta = by.transposes(DESC_TRANS_A), tb = by.transposes(DESC_TRANS_B);
  uint64_t k = ta ? a.rows : a.columns;
  if (!a.fits() || !b.fits() || !d.fits() || !(c == d) || (ta ? a.columns : a.rows) != d.rows || (tb ? b.columns : b.rows) != k ||
      (tb ? b.rows : b.columns) != d.columns || a.batches() != d.batches() || b.batches() != d.batches())
    return cublas::INVALID_VALUE;
  int epilogue = by.epilogue();
  if (epilogue != PLAIN && (epilogue & ~(RELU | BIAS))) return cublas::INVALID_VALUE;
  if ((epilogue & BIAS) && !by.get(DESC_BIAS_POINTER)) return cublas::INVALID_VALUE;
  if (a.type == cublas::R_8I) {
    bool divisible = a.leading % 4 == 0 && b.leading % 4 == 0 && d.leading % 4 == 0 && d.rows % 4 == 0 && k % 4 == 0;
    bool known = b.type == cublas::R_8I && d.type == cublas::R_32I && by.compute == cublas::C_32I && by.scale == cublas::R_32I;
    return known && ta && !tb && epilogue == PLAIN && divisible ? cublas::OK : cublas::NOT_SUPPORTED;
  }
  int scale = by.compute == cublas::C_64F ? cublas::R_64F : cublas::R_32F;
  if (by.scale != scale || !cublas::supported(a.type, b.type, d.type, by.compute)) return cublas::NOT_SUPPORTED;
  return epilogue != PLAIN && a.type == cublas::R_64F ? cublas::NOT_SUPPORTED : cublas::OK;
}

inline bool is_aligned(uint64_t address, uint64_t to) { return address % to == 0; }

}  // namespace cublas_lt
