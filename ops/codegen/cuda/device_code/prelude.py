"""The prelude of every CUDA kernel: types by the names of dtypes, errors, reductions and scans of a warp or a block.

It compiles with NVRTC without any header.  A header that emulates the device on the host precedes it, and may define
``SHARED`` itself.
"""

from __future__ import annotations

_TYPES = r"""
typedef signed char int8;
typedef short int16;
typedef int int32;
typedef long long int64;
typedef unsigned char uint8;
typedef unsigned short uint16;
typedef unsigned int uint32;
typedef unsigned long long uint64;
typedef float float32;
typedef double float64;
struct float16 { uint16 bits; };
struct bfloat16 { uint16 bits; };

#define DEVICE __device__ __forceinline__
// A bool in memory: any byte but 0 is true.  A compiler takes the byte of its own bool for 0 or 1.
struct truth {
  uint8 byte;
  truth() = default;
  DEVICE truth(bool value) : byte(value) {}
  DEVICE operator bool() const { return byte != 0; }
};
// Every kernel begins with this.
#define BEGIN_KERNEL()
#ifndef SHARED
// dynamic shared memory as an array of T, aligned to 16 bytes
#define SHARED(T, name) extern __shared__ __align__(16) uint8 shared_bytes_[]; T* name = reinterpret_cast<T*>(shared_bytes_)
#endif

// `fault` is one 64-bit word that the host reads, 0 while all is well: the first error stays in it, as site * 256 + status.
// The word lies in the host's memory: an atomic of every thread that fails would hold up the bus, so one lane of those that
// fail together looks first, and writes where nobody has written.
DEVICE void fail(void* fault, int64 status, int64 site) {
  uint32 lane = ((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x) & 31u;
  if (int(lane) != __ffs(int(__activemask())) - 1) return;
  if (*static_cast<volatile uint64*>(fault) != 0) return;
  atomicCAS(static_cast<uint64*>(fault), uint64(0), uint64(site) << 8 | uint64(status));
}

template <class To, class From> DEVICE To same_bits(From value) {
  static_assert(sizeof(To) == sizeof(From), "the same number of bits");
  To result;
  memcpy(&result, &value, sizeof(To));
  return result;
}
"""

_HALVES = r"""
#if defined(__CUDACC_RTC__) || defined(__CUDA_ARCH__)
DEVICE float32 to_float32(float16 x) {
  float32 result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(x.bits));
  return result;
}
DEVICE float16 to_float16(float32 x) {
  float16 result;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
  return result;
}
DEVICE bfloat16 to_bfloat16(float32 x) {
  bfloat16 result;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
  return result;
}
#else
DEVICE float32 to_float32(float16 x) {
  // the exponent moves from a bias of 15 to one of 127; a product makes the subnormal ones normal
  uint32 sign = uint32(x.bits & 0x8000u) << 16, rest = uint32(x.bits & 0x7fffu) << 13;
  if (rest >= 0x0f800000u) return same_bits<float32>(sign | rest | 0x7f800000u);
  return same_bits<float32>(sign | same_bits<uint32>(same_bits<float32>(rest) * 5.192296858534828e+33f));
}
DEVICE float16 to_float16(float32 x) {
  uint32 bits = same_bits<uint32>(x), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu, half;
  if (rest > 0x7f800000u) half = 0x7e00u | (rest >> 13 & 0x3ffu);                 // NaN
  else if (rest >= 0x477ff000u) half = 0x7c00u;                                   // rounds to infinity
  else if (rest < 0x38800000u) half = same_bits<uint32>(same_bits<float32>(rest) + 0.5f) - 0x3f000000u;  // the sum rounds
  else half = (rest - 0x38000000u + 0xfffu + (rest >> 13 & 1u)) >> 13;
  return float16{uint16(sign | half)};
}
DEVICE bfloat16 to_bfloat16(float32 x) {
  uint32 bits = same_bits<uint32>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return bfloat16{uint16(bits >> 16 | 0x40u)};
  return bfloat16{uint16((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16)};
}
#endif
DEVICE float32 to_float32(bfloat16 x) { return same_bits<float32>(uint32(x.bits) << 16); }
DEVICE float32 to_float32(float32 x) { return x; }
"""

_SHARED_WORK = r"""
// N elements at once, in accesses of 16 bytes where there are so many: the address must be a multiple of 16, or of all of
// the pack where that is smaller.
template <class T, int N = 16 / sizeof(T)> struct Pack { T at[N]; };
template <int BYTES> struct Access { typedef uint4 type; };
template <> struct Access<8> { typedef uint2 type; };
template <> struct Access<4> { typedef uint32 type; };
template <> struct Access<2> { typedef uint16 type; };
template <> struct Access<1> { typedef uint8 type; };
template <class T, int N = 16 / sizeof(T)> DEVICE Pack<T, N> load_pack(const T* from) {
  typedef typename Access<sizeof(Pack<T, N>)>::type access;
  Pack<T, N> pack;
#pragma unroll
  for (int i = 0; i < int(sizeof(pack) / sizeof(access)); ++i) {
    access part = reinterpret_cast<const access*>(from)[i];
    memcpy(reinterpret_cast<char*>(&pack) + i * sizeof(access), &part, sizeof(access));
  }
  return pack;
}
// A compiler that sees the parts of 16 bytes may store each of them; it keeps this store whole.
template <class T> DEVICE void store_access(T* to, const T& access) { *to = access; }
DEVICE void store_access(uint4* to, const uint4& access) { __stwb(to, access); }
template <class T, int N> DEVICE void store_pack(T* to, const Pack<T, N>& pack) {
  typedef typename Access<sizeof(Pack<T, N>)>::type access;
#pragma unroll
  for (int i = 0; i < int(sizeof(pack) / sizeof(access)); ++i) {
    access part;
    memcpy(&part, reinterpret_cast<const char*>(&pack) + i * sizeof(access), sizeof(access));
    store_access(reinterpret_cast<access*>(to) + i, part);
  }
}
DEVICE bool aligned16(const void* address) { return (reinterpret_cast<uint64>(address) & 15) == 0; }

// Shuffles of any type that is plain bytes; all 32 lanes take part.
template <class T> struct Words { uint32 at[(sizeof(T) + 3) / 4]; };
#define SHUFFLE(name, shuffle)                                                      \
  template <class T> DEVICE T name(T value, int lane) {                             \
    Words<T> words = {};                                                            \
    memcpy(&words, &value, sizeof(T));                                              \
    for (int i = 0; i < int(sizeof(words) / 4); ++i) words.at[i] = shuffle(0xffffffffu, words.at[i], lane); \
    memcpy(&value, &words, sizeof(T));                                              \
    return value;                                                                   \
  }
SHUFFLE(shuffle_xor, __shfl_xor_sync)
SHUFFLE(shuffle_up, __shfl_up_sync)
SHUFFLE(shuffle_down, __shfl_down_sync)
SHUFFLE(shuffle_from, __shfl_sync)
#undef SHUFFLE

// combine(first, second) of the values of the first `count` lanes, in their order, known to all lanes.  The order in which
// pairs are combined is fixed.
template <class T, class F> DEVICE T warp_reduce(T value, F combine, int count = 32) {
  int lane = threadIdx.x & 31;
  for (int distance = 1; distance < 32; distance *= 2) {
    T other = shuffle_xor(value, distance);
    // lanes lie in groups of `distance`; a group has a value when its first lane counts
    int group = lane & -distance;
    if ((group ^ distance) >= count) continue;
    value = group >= count ? other : lane & distance ? combine(other, value) : combine(value, other);
  }
  return value;
}

// The same over all threads of a block (a multiple of 32, in one dimension), known to all of them.
template <class T, class F> DEVICE T block_reduce(T value, F combine) {
  __shared__ T of_warp[32];
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
  value = warp_reduce(value, combine);
  if (warps == 1) return value;
  if (lane == 0) of_warp[warp] = value;
  __syncthreads();
  value = warp_reduce(of_warp[lane < warps ? lane : 0], combine, warps);
  __syncthreads();
  return value;
}

// combine() of the values of the lanes up to this one.
template <class T, class F> DEVICE T warp_scan(T value, F combine) {
  int lane = threadIdx.x & 31;
  for (int distance = 1; distance < 32; distance *= 2) {
    T before = shuffle_up(value, distance);
    if (lane >= distance) value = combine(before, value);
  }
  return value;
}

// combine() of the values of the threads of the block up to this one; `total` becomes that of all of them.
template <class T, class F> DEVICE T block_scan(T value, F combine, T& total) {
  __shared__ T of_warp[32];
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
  value = warp_scan(value, combine);
  if (lane == 31) of_warp[warp] = value;
  __syncthreads();
  T ends = warp_scan(of_warp[lane < warps ? lane : 0], combine);
  total = shuffle_from(ends, warps - 1);
  T before = shuffle_from(ends, warp > 0 ? warp - 1 : 0);
  __syncthreads();
  return warp > 0 ? combine(before, value) : value;
}

struct Add { template <class T> DEVICE T operator()(T a, T b) const { return a + b; } };
struct Multiply { template <class T> DEVICE T operator()(T a, T b) const { return a * b; } };
"""

#: The CUDA C that precedes every kernel text.
PRELUDE: str = _TYPES + _HALVES + _SHARED_WORK
