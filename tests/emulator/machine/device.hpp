// CUDA C on the host: what makes a text for NVRTC compile with g++.  It includes no header, so that it
// compiles fast.  Threads of a block are fibers of one host thread (see blocks.hpp), so atomics are plain code,
// and shared memory is thread-local storage, which holds nothing else.
#pragma once
#include "contract.hpp"

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __shared__ thread_local
#define __forceinline__ inline  // a call takes g++ less time than the code of the function at each place
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
#define SHARED(T, name) T* name = reinterpret_cast<T*>(emulator_hooks->dynamic_shared)
#define EMULATOR_API extern "C" __attribute__((visibility("default")))

typedef unsigned long size_t;
static EmulatorDim threadIdx, blockIdx, blockDim, gridDim;
static const int warpSize = 32;
static const EmulatorHooks* emulator_hooks;
static thread_local long long emulator_shared_anchor;

static const void* emulator_static_shared() { return &emulator_shared_anchor; }

#ifdef EMULATOR_CHECKED
#define EMULATOR_IS_CHECKED 1
#else
#define EMULATOR_IS_CHECKED 0
#endif
EMULATOR_API const EmulatorModule emulator_module = {
    sizeof(EmulatorModule), EMULATOR_ARCHITECTURE, EMULATOR_IS_CHECKED, &threadIdx, &blockIdx,
    &blockDim, &gridDim, &emulator_hooks, &emulator_static_shared};

// ---- accesses: g++ calls these when it instruments a text as if for its thread sanitizer ----
#ifdef EMULATOR_CHECKED
#define EMULATOR_UNSEEN __attribute__((no_sanitize_thread))
#define EMULATOR_SEE(name, size, kind) \
  extern "C" EMULATOR_UNSEEN void __tsan_##name(void* address) { emulator_hooks->access(address, size, kind); }
#define EMULATOR_SEE_SIZE(size)                  \
  EMULATOR_SEE(read##size, size, ACCESS_READ)    \
  EMULATOR_SEE(write##size, size, ACCESS_WRITE)  \
  EMULATOR_SEE(unaligned_read##size, size, ACCESS_READ) \
  EMULATOR_SEE(unaligned_write##size, size, ACCESS_WRITE)
EMULATOR_SEE_SIZE(1) EMULATOR_SEE_SIZE(2) EMULATOR_SEE_SIZE(4) EMULATOR_SEE_SIZE(8) EMULATOR_SEE_SIZE(16)
extern "C" EMULATOR_UNSEEN void __tsan_read_range(void* address, size_t n) { emulator_hooks->access(address, n, ACCESS_READ); }
extern "C" EMULATOR_UNSEEN void __tsan_write_range(void* address, size_t n) { emulator_hooks->access(address, n, ACCESS_WRITE); }
extern "C" void __tsan_init() {}
static EMULATOR_UNSEEN void emulator_atomic(const void* address, size_t n) { emulator_hooks->access(address, n, ACCESS_ATOMIC); }
static EMULATOR_UNSEEN void emulator_seen(const void* address, size_t n) { emulator_hooks->access(address, n, ACCESS_READ); }
#else
#define EMULATOR_UNSEEN
static inline void emulator_atomic(const void*, size_t) {}
static inline void emulator_seen(const void*, size_t) {}
#endif

// ---- vectors ----
#define EMULATOR_VECTOR(T, name, alignment2, alignment4)                                             \
  struct name##1 { T x; };                                                                           \
  struct alignas(alignment2) name##2 { T x, y; };                                                    \
  struct name##3 { T x, y, z; };                                                                     \
  struct alignas(alignment4) name##4 { T x, y, z, w; };                                              \
  static inline name##1 make_##name##1(T x) { return {x}; }                                          \
  static inline name##2 make_##name##2(T x, T y) { return {x, y}; }                                  \
  static inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }                          \
  static inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
EMULATOR_VECTOR(signed char, char, 2, 4)
EMULATOR_VECTOR(unsigned char, uchar, 2, 4)
EMULATOR_VECTOR(short, short, 4, 8)
EMULATOR_VECTOR(unsigned short, ushort, 4, 8)
EMULATOR_VECTOR(int, int, 8, 16)
EMULATOR_VECTOR(unsigned, uint, 8, 16)
EMULATOR_VECTOR(long long, longlong, 16, 16)
EMULATOR_VECTOR(unsigned long long, ulonglong, 16, 16)
EMULATOR_VECTOR(float, float, 8, 16)
EMULATOR_VECTOR(double, double, 16, 16)
#undef EMULATOR_VECTOR
typedef EmulatorDim dim3;

// ---- what threads do together ----
static inline void __syncthreads() { emulator_hooks->block(BLOCK_SYNC, 0); }
static inline int __syncthreads_count(int p) { return emulator_hooks->block(BLOCK_COUNT, p != 0); }
static inline int __syncthreads_and(int p) { return emulator_hooks->block(BLOCK_AND, p != 0); }
static inline int __syncthreads_or(int p) { return emulator_hooks->block(BLOCK_OR, p != 0); }
// The lanes that run together: here each lane runs by itself, which CUDA allows.
static inline unsigned __activemask() {
  return 1u << (((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x) & 31u);
}
static inline void __syncwarp(unsigned mask = 0xffffffffu) { emulator_hooks->warp(WARP_SYNC, mask, 0, 0, 32); }
static inline unsigned __ballot_sync(unsigned mask, int p) { return unsigned(emulator_hooks->warp(WARP_BALLOT, mask, p != 0, 0, 32)); }
static inline int __any_sync(unsigned mask, int p) { return int(emulator_hooks->warp(WARP_ANY, mask, p != 0, 0, 32)); }
static inline int __all_sync(unsigned mask, int p) { return int(emulator_hooks->warp(WARP_ALL, mask, p != 0, 0, 32)); }

template <class T>
static inline T emulator_shuffle(int operation, unsigned mask, T value, int argument, int width) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "a shuffle takes 4 or 8 bytes");
  unsigned long long bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  bits = emulator_hooks->warp(operation, mask, bits, argument, width);
  __builtin_memcpy(&value, &bits, sizeof(T));
  return value;
}
template <class T> struct EmulatorShuffled;  // the types that CUDA has shuffles for; narrower ones become int
template <> struct EmulatorShuffled<int> { typedef int type; };
template <> struct EmulatorShuffled<unsigned> { typedef unsigned type; };
template <> struct EmulatorShuffled<long> { typedef long type; };
template <> struct EmulatorShuffled<unsigned long> { typedef unsigned long type; };
template <> struct EmulatorShuffled<long long> { typedef long long type; };
template <> struct EmulatorShuffled<unsigned long long> { typedef unsigned long long type; };
template <> struct EmulatorShuffled<float> { typedef float type; };
template <> struct EmulatorShuffled<double> { typedef double type; };
template <> struct EmulatorShuffled<bool> { typedef int type; };
template <> struct EmulatorShuffled<signed char> { typedef int type; };
template <> struct EmulatorShuffled<unsigned char> { typedef int type; };
template <> struct EmulatorShuffled<short> { typedef int type; };
template <> struct EmulatorShuffled<unsigned short> { typedef int type; };
#define EMULATOR_SHUFFLE(name, operation)                                                                           \
  template <class T>                                                                                                \
  static inline typename EmulatorShuffled<T>::type name(unsigned mask, T value, int argument, int width = 32) {     \
    return emulator_shuffle<typename EmulatorShuffled<T>::type>(operation, mask, value, argument, width);           \
  }
EMULATOR_SHUFFLE(__shfl_sync, WARP_SHUFFLE)
EMULATOR_SHUFFLE(__shfl_up_sync, WARP_SHUFFLE_UP)
EMULATOR_SHUFFLE(__shfl_down_sync, WARP_SHUFFLE_DOWN)
EMULATOR_SHUFFLE(__shfl_xor_sync, WARP_SHUFFLE_XOR)
#undef EMULATOR_SHUFFLE
static inline int __reduce_add_sync(unsigned mask, int v) { return int(emulator_hooks->warp(WARP_ADD, mask, (long long)v, 0, 32)); }
static inline unsigned __reduce_add_sync(unsigned mask, unsigned v) { return unsigned(emulator_hooks->warp(WARP_ADD, mask, v, 0, 32)); }
static inline int __reduce_min_sync(unsigned mask, int v) { return int(emulator_hooks->warp(WARP_MIN, mask, (long long)v, 0, 32)); }
static inline int __reduce_max_sync(unsigned mask, int v) { return int(emulator_hooks->warp(WARP_MAX, mask, (long long)v, 0, 32)); }
static inline unsigned __reduce_min_sync(unsigned mask, unsigned v) { return unsigned(emulator_hooks->warp(WARP_UMIN, mask, v, 0, 32)); }
static inline unsigned __reduce_max_sync(unsigned mask, unsigned v) { return unsigned(emulator_hooks->warp(WARP_UMAX, mask, v, 0, 32)); }
static inline unsigned __reduce_and_sync(unsigned mask, unsigned v) { return unsigned(emulator_hooks->warp(WARP_AND, mask, v, 0, 32)); }
static inline unsigned __reduce_or_sync(unsigned mask, unsigned v) { return unsigned(emulator_hooks->warp(WARP_OR, mask, v, 0, 32)); }
static inline unsigned __reduce_xor_sync(unsigned mask, unsigned v) { return unsigned(emulator_hooks->warp(WARP_XOR, mask, v, 0, 32)); }
template <class T>
static inline unsigned __match_any_sync(unsigned mask, T value) {
  unsigned long long bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  return unsigned(emulator_hooks->warp(WARP_MATCH_ANY, mask, bits, 0, 32));
}
// ---- matrix instructions (see ops/codegen/cuda/device_code/matrix_instructions.py) ----
typedef char* EmulatorAddress;  // in shared memory
static inline void emulator_load(unsigned (&to)[4], EmulatorAddress row, bool transposed) {
  EmulatorMatrices here = {row};
  emulator_seen(row, 16);
  emulator_hooks->warp(transposed ? WARP_LOAD_TRANSPOSED : WARP_LOAD, ~0u, (unsigned long long)&here, 0, 32);
  __builtin_memcpy(to, here.left, 16);
}
static inline void emulator_multiply(int operation, float (&sums)[4], const unsigned (&left)[4], unsigned right0, unsigned right1) {
  EmulatorMatrices here = {nullptr, {}, {}, {right0, right1}};
  __builtin_memcpy(here.sums, sums, 16);
  __builtin_memcpy(here.left, left, 16);
  emulator_hooks->warp(operation, ~0u, (unsigned long long)&here, 0, 32);
  __builtin_memcpy(sums, here.sums, 16);
}
static inline void emulator_copy(EmulatorAddress to, const void* from, int bytes) { emulator_hooks->copies(COPY_BEGIN, to, from, bytes); }
static inline void emulator_commit_copies() { emulator_hooks->copies(COPY_COMMIT, nullptr, nullptr, 0); }
static inline void emulator_wait_for_copies(int later) { emulator_hooks->copies(COPY_WAIT, nullptr, nullptr, later); }
static inline void emulator_team(int what, int n = 0) { emulator_hooks->team(what, nullptr, n); }
template <int N>
static inline void emulator_team_multiply(float (&sums)[N][4], bool is_bfloat16, const unsigned* left, EmulatorPlace shared_left,
                                          EmulatorPlace right, bool has_rows, bool adds) {
  EmulatorTeamProduct here = {&sums[0][0], N * 8, adds, is_bfloat16, has_rows, left == nullptr, {}, shared_left, right};
  if (left) __builtin_memcpy(here.left, left, 16);
  emulator_hooks->team(TEAM_PRODUCT, &here, 0);
}
static inline void __threadfence() { emulator_hooks->turn(TURN_FENCE); }
static inline void __threadfence_block() {}
static inline void __threadfence_system() { emulator_hooks->turn(TURN_FENCE); }
static inline void __nanosleep(unsigned) { emulator_hooks->turn(TURN_WAIT); }
static inline void __trap() { emulator_hooks->trap("__trap()"); }

// ---- atomics: fibers switch only where threads meet, wait or fence, so that plain code is atomic ----
#define EMULATOR_ATOMIC(name, T, next) \
  EMULATOR_UNSEEN static inline T name(T* address, T value) {                         \
    emulator_atomic(address, sizeof(T));                                              \
    T old = *address;                                                                 \
    *address = (next);                                                                \
    return old;                                                                       \
  }                                                                                   \
  static inline T name##_system(T* address, T value) { return name(address, value); } \
  static inline T name##_block(T* address, T value) { return name(address, value); }
#define EMULATOR_ATOMIC_INTEGERS(name, next)          \
  EMULATOR_ATOMIC(name, int, next)                    \
  EMULATOR_ATOMIC(name, unsigned, next)               \
  EMULATOR_ATOMIC(name, long long, next)              \
  EMULATOR_ATOMIC(name, unsigned long long, next)
EMULATOR_ATOMIC(atomicAdd, int, old + value)
EMULATOR_ATOMIC(atomicAdd, unsigned, old + value)
EMULATOR_ATOMIC(atomicAdd, unsigned long long, old + value)
EMULATOR_ATOMIC(atomicSub, int, old - value)
EMULATOR_ATOMIC(atomicSub, unsigned, old - value)
EMULATOR_ATOMIC(atomicExch, int, value)
EMULATOR_ATOMIC(atomicExch, unsigned, value)
EMULATOR_ATOMIC(atomicExch, unsigned long long, value)
EMULATOR_ATOMIC(atomicExch, float, value)
EMULATOR_ATOMIC_INTEGERS(atomicMin, value < old ? value : old)
EMULATOR_ATOMIC_INTEGERS(atomicMax, value > old ? value : old)
EMULATOR_ATOMIC_INTEGERS(atomicAnd, old & value)
EMULATOR_ATOMIC_INTEGERS(atomicOr, old | value)
EMULATOR_ATOMIC_INTEGERS(atomicXor, old ^ value)
EMULATOR_ATOMIC(atomicInc, unsigned, old >= value ? 0 : old + 1)
EMULATOR_ATOMIC(atomicDec, unsigned, old == 0 || old > value ? value : old - 1)
#undef EMULATOR_ATOMIC
#undef EMULATOR_ATOMIC_INTEGERS
#define EMULATOR_CAS(T)                                                            \
  EMULATOR_UNSEEN static inline T atomicCAS(T* address, T compare, T value) {       \
    emulator_atomic(address, sizeof(T));                                            \
    T old = *address;                                                               \
    if (old == compare) *address = value;                                           \
    return old;                                                                     \
  }                                                                                 \
  static inline T atomicCAS_system(T* address, T compare, T value) { return atomicCAS(address, compare, value); }
EMULATOR_CAS(int)
EMULATOR_CAS(unsigned)
EMULATOR_CAS(unsigned short)
EMULATOR_CAS(unsigned long long)
#undef EMULATOR_CAS

// ---- memory ----
#define memcpy __builtin_memcpy
#define memset __builtin_memset
#define EMULATOR_LOAD(name) template <class T> static inline T name(const T* address) { return *address; }
EMULATOR_LOAD(__ldg)
EMULATOR_LOAD(__ldca)
EMULATOR_LOAD(__ldcg)
EMULATOR_LOAD(__ldcs)
EMULATOR_LOAD(__ldcv)
EMULATOR_LOAD(__ldlu)
#undef EMULATOR_LOAD
#define EMULATOR_STORE(name) template <class T> static inline void name(T* address, T value) { *address = value; }
EMULATOR_STORE(__stwb)
EMULATOR_STORE(__stcg)
EMULATOR_STORE(__stcs)
EMULATOR_STORE(__stwt)
#undef EMULATOR_STORE

// ---- bits ----
template <class To, class From> static inline To emulator_bits(From value) {
  static_assert(sizeof(To) == sizeof(From), "the same size");
  To result;
  __builtin_memcpy(&result, &value, sizeof(To));
  return result;
}
static inline int __float_as_int(float x) { return emulator_bits<int>(x); }
static inline unsigned __float_as_uint(float x) { return emulator_bits<unsigned>(x); }
static inline float __int_as_float(int x) { return emulator_bits<float>(x); }
static inline float __uint_as_float(unsigned x) { return emulator_bits<float>(x); }
static inline long long __double_as_longlong(double x) { return emulator_bits<long long>(x); }
static inline double __longlong_as_double(long long x) { return emulator_bits<double>(x); }
static inline int __double2hiint(double x) { return int(emulator_bits<unsigned long long>(x) >> 32); }
static inline int __double2loint(double x) { return int(emulator_bits<unsigned long long>(x)); }
static inline double __hiloint2double(int high, int low) { return emulator_bits<double>((unsigned long long)(unsigned)high << 32 | (unsigned)low); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(unsigned(x)); }
static inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll((unsigned long long)x); }
static inline unsigned long long __brevll(unsigned long long x) {
  unsigned long long result = 0;
  for (int i = 0; i < 64; ++i) result |= (x >> i & 1) << (63 - i);
  return result;
}
static inline unsigned __brev(unsigned x) { return unsigned(__brevll(x) >> 32); }
static inline int __mulhi(int a, int b) { return int((long long)a * b >> 32); }
static inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((unsigned long long)a * b >> 32); }
static inline long long __mul64hi(long long a, long long b) { return (long long)((__int128)a * b >> 64); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) { return (unsigned long long)((unsigned __int128)a * b >> 64); }

// ---- numbers ----
#define EMULATOR_MINMAX(A, B, T)                                   \
  static inline T min(A a, B b) { return (T)a < (T)b ? (T)a : (T)b; } \
  static inline T max(A a, B b) { return (T)a > (T)b ? (T)a : (T)b; }
EMULATOR_MINMAX(int, int, int)
EMULATOR_MINMAX(unsigned, unsigned, unsigned)
EMULATOR_MINMAX(int, unsigned, unsigned)
EMULATOR_MINMAX(unsigned, int, unsigned)
EMULATOR_MINMAX(long, long, long)
EMULATOR_MINMAX(unsigned long, unsigned long, unsigned long)
EMULATOR_MINMAX(long, unsigned long, unsigned long)
EMULATOR_MINMAX(unsigned long, long, unsigned long)
EMULATOR_MINMAX(long long, long long, long long)
EMULATOR_MINMAX(unsigned long long, unsigned long long, unsigned long long)
EMULATOR_MINMAX(long long, unsigned long long, unsigned long long)
EMULATOR_MINMAX(unsigned long long, long long, unsigned long long)
#undef EMULATOR_MINMAX
static inline float min(float a, float b) { return __builtin_fminf(a, b); }
static inline float max(float a, float b) { return __builtin_fmaxf(a, b); }
static inline double min(double a, double b) { return __builtin_fmin(a, b); }
static inline double max(double a, double b) { return __builtin_fmax(a, b); }
static inline double min(float a, double b) { return __builtin_fmin(a, b); }
static inline double min(double a, float b) { return __builtin_fmin(a, b); }
static inline double max(float a, double b) { return __builtin_fmax(a, b); }
static inline double max(double a, float b) { return __builtin_fmax(a, b); }
static inline int abs(int x) { return x < 0 ? int(0u - unsigned(x)) : x; }
static inline long abs(long x) { return x < 0 ? long(0ul - (unsigned long)x) : x; }
static inline long long abs(long long x) { return x < 0 ? (long long)(0ull - (unsigned long long)x) : x; }
static inline long long llabs(long long x) { return abs(x); }
static inline float abs(float x) { return __builtin_fabsf(x); }
static inline double abs(double x) { return __builtin_fabs(x); }

// the host's functions; those that CUDA overloads on float are overloaded here
#define EMULATOR_UNARY(name)                                                       \
  extern "C" double name(double) noexcept;                                         \
  extern "C" float name##f(float) noexcept;                                        \
  static inline float name(float x) { return name##f(x); }
#define EMULATOR_BINARY(name)                                                      \
  extern "C" double name(double, double) noexcept;                                 \
  extern "C" float name##f(float, float) noexcept;                                 \
  static inline float name(float x, float y) { return name##f(x, y); }
EMULATOR_UNARY(sqrt) EMULATOR_UNARY(cbrt) EMULATOR_UNARY(exp) EMULATOR_UNARY(exp2) EMULATOR_UNARY(expm1)
EMULATOR_UNARY(log) EMULATOR_UNARY(log2) EMULATOR_UNARY(log10) EMULATOR_UNARY(log1p)
EMULATOR_UNARY(sin) EMULATOR_UNARY(cos) EMULATOR_UNARY(tan) EMULATOR_UNARY(asin) EMULATOR_UNARY(acos) EMULATOR_UNARY(atan)
EMULATOR_UNARY(sinh) EMULATOR_UNARY(cosh) EMULATOR_UNARY(tanh) EMULATOR_UNARY(asinh) EMULATOR_UNARY(acosh) EMULATOR_UNARY(atanh)
EMULATOR_UNARY(erf) EMULATOR_UNARY(erfc) EMULATOR_UNARY(lgamma) EMULATOR_UNARY(tgamma)
EMULATOR_UNARY(floor) EMULATOR_UNARY(ceil) EMULATOR_UNARY(trunc) EMULATOR_UNARY(round) EMULATOR_UNARY(rint) EMULATOR_UNARY(nearbyint)
EMULATOR_UNARY(fabs) EMULATOR_UNARY(logb)
EMULATOR_BINARY(pow) EMULATOR_BINARY(fmod) EMULATOR_BINARY(remainder) EMULATOR_BINARY(atan2) EMULATOR_BINARY(hypot)
EMULATOR_BINARY(fmin) EMULATOR_BINARY(fmax) EMULATOR_BINARY(copysign) EMULATOR_BINARY(nextafter) EMULATOR_BINARY(fdim)
#undef EMULATOR_UNARY
#undef EMULATOR_BINARY
static inline double rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }
static inline float rsqrtf(float x) { return float(1.0 / __builtin_sqrt(double(x))); }
static inline float rsqrt(float x) { return rsqrtf(x); }
static inline double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
static inline float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
static inline float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
static inline double ldexp(double x, int n) { return __builtin_ldexp(x, n); }
static inline float ldexpf(float x, int n) { return __builtin_ldexpf(x, n); }
#ifdef EMULATOR_ROUGH
// A GPU's functions are not the host's: within some units in the last place, exact where the result is 0, 1 or the argument.
// Here they are off by one or two wherever they may be.
template <class T> struct EmulatorBits;
template <> struct EmulatorBits<float> { typedef unsigned type; static const unsigned off = 2; };
template <> struct EmulatorBits<double> { typedef unsigned long long type; static const unsigned off = 1; };
template <class T, class X> static inline T emulator_rough(T y, X x) {
  typename EmulatorBits<T>::type bits;
  __builtin_memcpy(&bits, &y, sizeof y);
  if (y == 0 || y == 1 || y == -1 || y == T(x) || !__builtin_isfinite(y)) return y;
  bits += EmulatorBits<T>::off;
  T off;
  __builtin_memcpy(&off, &bits, sizeof off);
  return __builtin_isfinite(off) ? off : y;
}
#define exp(x) emulator_rough(exp(x), x)
#define expf(x) emulator_rough(expf(x), x)
#define log(x) emulator_rough(log(x), x)
#define logf(x) emulator_rough(logf(x), x)
#define log2(x) emulator_rough(log2(x), x)
#define log10(x) emulator_rough(log10(x), x)
#define log1p(x) emulator_rough(log1p(x), x)
#define sin(x) emulator_rough(sin(x), x)
#define cos(x) emulator_rough(cos(x), x)
#define tan(x) emulator_rough(tan(x), x)
#define sinh(x) emulator_rough(sinh(x), x)
#define cosh(x) emulator_rough(cosh(x), x)
#define tanh(x) emulator_rough(tanh(x), x)
#define tanhf(x) emulator_rough(tanhf(x), x)
#define asin(x) emulator_rough(asin(x), x)
#define acos(x) emulator_rough(acos(x), x)
#define atan(x) emulator_rough(atan(x), x)
#define asinh(x) emulator_rough(asinh(x), x)
#define acosh(x) emulator_rough(acosh(x), x)
#define atanh(x) emulator_rough(atanh(x), x)
#define erf(x) emulator_rough(erf(x), x)
#define erff(x) emulator_rough(erff(x), x)
#define pow(x, y) emulator_rough(pow(x, y), x)
#define powf(x, y) emulator_rough(powf(x, y), x)
#define atan2(x, y) emulator_rough(atan2(x, y), x)
#endif
static inline long long llrint(double x) { return __builtin_llrint(x); }
static inline bool isnan(float x) { return __builtin_isnan(x); }
static inline bool isnan(double x) { return __builtin_isnan(x); }
static inline bool isinf(float x) { return __builtin_isinf(x) != 0; }
static inline bool isinf(double x) { return __builtin_isinf(x) != 0; }
static inline bool isfinite(float x) { return __builtin_isfinite(x); }
static inline bool isfinite(double x) { return __builtin_isfinite(x); }
static inline bool signbit(float x) { return __builtin_signbit(x) != 0; }
static inline bool signbit(double x) { return __builtin_signbit(x) != 0; }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __frcp_rn(float a) { return 1.0f / a; }
static inline float __fsqrt_rn(float a) { return __builtin_sqrtf(a); }
static inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline double __fma_rn(double a, double b, double c) { return __builtin_fma(a, b, c); }

// Conversions saturate on a GPU and make 0 of NaN; in C++ they are undefined out of range.
template <class T, class F> static inline T emulator_saturate(F x, F low, F above) {
  if (!(x == x)) return 0;
  if (x < low) return T(low);
  if (x >= above) return T(~(T(1) << (sizeof(T) * 8 - 1)));
  return T(x);
}
static inline int __float2int_rz(float x) { return emulator_saturate<int>(__builtin_truncf(x), -0x1p31f, 0x1p31f); }
static inline int __float2int_rn(float x) { return emulator_saturate<int>(__builtin_rintf(x), -0x1p31f, 0x1p31f); }
static inline int __float2int_rd(float x) { return emulator_saturate<int>(__builtin_floorf(x), -0x1p31f, 0x1p31f); }
static inline int __double2int_rz(double x) { return emulator_saturate<int>(__builtin_trunc(x), -0x1p31, 0x1p31); }
static inline int __double2int_rn(double x) { return emulator_saturate<int>(__builtin_rint(x), -0x1p31, 0x1p31); }
static inline long long __float2ll_rz(float x) { return emulator_saturate<long long>(__builtin_truncf(x), -0x1p63f, 0x1p63f); }
static inline long long __float2ll_rn(float x) { return emulator_saturate<long long>(__builtin_rintf(x), -0x1p63f, 0x1p63f); }
static inline long long __double2ll_rz(double x) { return emulator_saturate<long long>(__builtin_trunc(x), -0x1p63, 0x1p63); }
static inline long long __double2ll_rn(double x) { return emulator_saturate<long long>(__builtin_rint(x), -0x1p63, 0x1p63); }

// ---- how the driver calls a kernel ----
template <class T> static inline T emulator_word(unsigned long long word) {
  static_assert(sizeof(T) == 8, "every parameter of a kernel is a 64-bit word");
  return emulator_bits<T>(word);
}
template <int... I> struct EmulatorIndices {};
template <class... A, int... I>
EMULATOR_UNSEEN static inline void emulator_spread(void (*kernel)(A...), const unsigned long long* words, EmulatorIndices<I...>) {
  kernel(emulator_word<A>(words[I])...);
}
template <class... A> static inline void emulator_call(void (*kernel)(A...), const unsigned long long* words) {
  emulator_spread(kernel, words, EmulatorIndices<__integer_pack(sizeof...(A))...>());
}
template <class... A> constexpr int emulator_count(void (*)(A...)) { return sizeof...(A); }
#define EMULATOR_KERNEL(name)                                                                             \
  EMULATOR_API const int emulator_words_##name = emulator_count(&name);                                   \
  EMULATOR_API void emulator_entry_##name(const unsigned long long* words) {                              \
    emulator_call(&name, words);                                                                          \
  }
