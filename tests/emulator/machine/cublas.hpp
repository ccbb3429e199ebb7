// What the machine uses of cuBLAS, with its real signatures: handles, and strided batches of matrix products.
// Matrices are column-major.  Products are summed one after another in the compute type.
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "memory.hpp"

namespace cublas {

enum Status : int { OK = 0, NOT_INITIALIZED = 1, INVALID_VALUE = 7, EXECUTION_FAILED = 13, NOT_SUPPORTED = 15 };
enum Type : int { R_32F = 0, R_64F = 1, R_16F = 2, R_8I = 3, R_32I = 10, R_16BF = 14 };  // cudaDataType
enum Compute : int { C_32F = 68, C_32F_PEDANTIC = 69, C_64F = 70, C_64F_PEDANTIC = 71, C_32I = 72, C_32F_TF32 = 77 };

inline uint64_t bytes_of(int type) { return type == R_64F ? 8 : type == R_32F || type == R_32I ? 4 : type == R_8I ? 1 : 2; }

struct Handle {
  uint64_t stream = 0;
  bool tf32 = false;
};

struct Matrix {
  uint64_t address;
  int type;
  int64_t rows, columns, leading, stride;  // as they lie in memory; counted in elements
  uint64_t element() const { return bytes_of(type); }
  uint64_t bytes(int64_t batches) const {
    if (rows == 0 || columns == 0 || batches == 0) return 0;
    return element() * uint64_t((batches - 1) * std::abs(stride) + (columns - 1) * leading + rows);
  }
};

struct Product {
  Matrix a, b, c;
  bool transpose_a, transpose_b, tf32, doubles;
  int64_t m, n, k, batches;
  double alpha, beta;
  // of cuBLASLt: the matrix that is added, in the layout of the result (0: the result itself); a vector with an element for each
  // row, added before the negative numbers become 0
  uint64_t added = 0, bias = 0;
  bool relu = false;
};

inline float bits_as_float(uint32_t bits) {
  float value;
  memcpy(&value, &bits, 4);
  return value;
}

inline uint32_t float_as_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  return bits;
}

inline double load(const Matrix& from, int64_t at) {
  const char* address = reinterpret_cast<const char*>(from.address) + int64_t(from.element()) * at;
  if (from.type == R_64F) {
    double value;
    memcpy(&value, address, 8);
    return value;
  }
  if (from.type == R_32F) {
    float value;
    memcpy(&value, address, 4);
    return value;
  }
  if (from.type == R_8I) return *reinterpret_cast<const int8_t*>(address);
  if (from.type == R_32I) {
    int32_t value;
    memcpy(&value, address, 4);
    return value;
  }
  uint16_t bits;
  memcpy(&bits, address, 2);
  if (from.type == R_16BF) return bits_as_float(uint32_t(bits) << 16);
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double size = exponent == 31 ? (fraction ? NAN : INFINITY)
                               : exponent ? std::ldexp(1024 + fraction, exponent - 25) : std::ldexp(fraction, -24);
  return bits >> 15 ? -size : size;
}

inline uint16_t to_half(float value) {
  uint16_t sign = uint16_t(float_as_bits(value) >> 16 & 0x8000);
  double size = std::fabs(double(value));
  if (std::isnan(size)) return uint16_t(sign | 0x7e00);
  if (size >= 65520) return uint16_t(sign | 0x7c00);
  int exponent = std::max(size > 0 ? std::ilogb(size) : -14, -14);
  auto units = uint32_t(std::nearbyint(std::ldexp(size, 10 - exponent)));  // rounds half to even; 2048 carries over
  return uint16_t(sign | (units + (uint32_t(exponent + 14) << 10)));
}

inline void store(const Matrix& to, int64_t at, double value) {
  char* address = reinterpret_cast<char*>(to.address) + int64_t(to.element()) * at;
  if (to.type == R_64F) {
    memcpy(address, &value, 8);
    return;
  }
  if (to.type == R_32I) {
    auto number = int32_t(value);
    memcpy(address, &number, 4);
    return;
  }
  auto single = float(value);
  if (to.type == R_32F) {
    memcpy(address, &single, 4);
    return;
  }
  uint32_t bits = float_as_bits(single);
  uint16_t half = to.type == R_16F ? to_half(single)
                  : std::isnan(single) ? uint16_t(bits >> 16 | 0x40)
                                       : uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  memcpy(address, &half, 2);
}

// Rounded to 10 bits of fraction.
inline float as_tf32(float value) { return bits_as_float(float_as_bits(value) + 0x1000 & 0xffffe000); }

template <class T>
std::vector<T> gathered(const Matrix& from, int64_t batch, bool transpose, int64_t rows, int64_t columns, bool tf32) {
  std::vector<T> values(size_t(rows * columns));
  for (int64_t column = 0; column < columns; ++column)
    for (int64_t row = 0; row < rows; ++row) {
      int64_t at = batch * from.stride + (transpose ? row * from.leading + column : column * from.leading + row);
      T value = T(load(from, at));
      if (tf32) value = T(as_tf32(float(value)));
      values[size_t(column * rows + row)] = value;
    }
  return values;
}

template <class T>
void multiply(const Product& p, int64_t batch) {
  std::vector<T> a = gathered<T>(p.a, batch, p.transpose_a, p.m, p.k, p.tf32);
  std::vector<T> b = gathered<T>(p.b, batch, p.transpose_b, p.k, p.n, p.tf32);
  std::vector<T> sums(static_cast<size_t>(p.m));
  Matrix added = p.c, bias = {p.bias, p.c.type, p.m, 1, p.m, 0};
  if (p.added) added.address = p.added;
  for (int64_t column = 0; column < p.n; ++column) {
    std::fill(sums.begin(), sums.end(), T(0));
    for (int64_t i = 0; i < p.k; ++i) {
      T factor = b[size_t(column * p.k + i)];
      const T* values = a.data() + i * p.m;
      for (size_t row = 0; row < sums.size(); ++row) sums[row] += values[row] * factor;
    }
    for (int64_t row = 0; row < p.m; ++row) {
      int64_t at = batch * p.c.stride + column * p.c.leading + row;
      T sum = T(p.alpha) * sums[size_t(row)];
      if (p.beta != 0) sum += T(p.beta) * T(load(added, at));
      if (p.bias) sum += T(load(bias, row));
      store(p.c, at, p.relu && sum < 0 ? T(0) : sum);
    }
  }
}

inline void run(const Product& p) {
  Matrix added = p.c, bias = {p.bias, p.c.type, p.m, 1, p.m, 0};
  added.address = p.beta != 0 && p.added ? p.added : p.c.address;
  if (p.bias && !memory::is_ready(p.bias, bias.bytes(1)))
    return gpu::poison(gpu::ILLEGAL_ADDRESS, "cublasLtMatmul: a bias is not within memory of the device");
  if (!memory::is_ready(added.address, added.bytes(p.batches)))
    return gpu::poison(gpu::ILLEGAL_ADDRESS, "cublasLtMatmul: the matrix that is added is not within memory of the device");
  for (const Matrix* matrix : {&p.a, &p.b, &p.c})
    if (!memory::is_ready(matrix->address, p.k || matrix == &p.c ? matrix->bytes(p.batches) : 0))
      return gpu::poison(gpu::ILLEGAL_ADDRESS, "cublasGemmStridedBatchedEx: a matrix is not within memory of the device");
  for (int64_t batch = 0; batch < p.batches; ++batch) p.doubles ? multiply<double>(p, batch) : multiply<float>(p, batch);
}

// Does cuBLAS multiply these types?
inline bool supported(int a, int b, int c, int compute) {
  if (compute == C_64F || compute == C_64F_PEDANTIC) return a == R_64F && b == R_64F && c == R_64F;
  if (compute != C_32F && compute != C_32F_PEDANTIC && compute != C_32F_TF32) return false;
  if (a == R_32F) return b == R_32F && c == R_32F;
  return compute != C_32F_TF32 && (a == R_16F || a == R_16BF) && a == b && (c == a || c == R_32F);
}

inline double scalar(const void* from, bool is_double) {
  return is_double ? *static_cast<const double*>(from) : double(*static_cast<const float*>(from));
}

}  // namespace cublas
