"""The text of the kernels that the tests of the emulated GPU launch."""

from __future__ import annotations

KERNELS = """
extern "C" __global__ void sums(const int64* x, int64* y, int64 n) {
  int64 sum = 0;
  for (int64 i = threadIdx.x; i < n; i += blockDim.x) sum += x[i];
  sum = block_reduce(sum, Add());
  if (threadIdx.x == 0) y[0] = sum;
}
extern "C" __global__ void scans(const int64* x, int64* y) {
  int64 total;
  y[threadIdx.x] = block_scan(x[threadIdx.x], Add(), total);
}
extern "C" __global__ void add(int64* x, int64 n, int64 by) {
  for (int64 i = blockIdx.x * int64(blockDim.x) + threadIdx.x; i < n; i += int64(gridDim.x) * blockDim.x) x[i] += by;
}
// a template makes kernels that the compiler must not find
template <class T> DEVICE T reversed_of(const T* x, T* shared, bool wait) {
  shared[threadIdx.x] = x[threadIdx.x];
  if (wait) __syncthreads();
  return shared[blockDim.x - 1 - threadIdx.x];
}
extern "C" __global__ void reversed(const int64* x, int64* y, int64 wait) {
  SHARED(int64, shared);
  y[threadIdx.x] = reversed_of(x, shared, wait != 0);
}
extern "C" __global__ void reversed_static(const int64* x, int64* y, int64 wait) {
  __shared__ int64 shared[1024];
  y[threadIdx.x] = reversed_of(x, shared, wait != 0);
}
extern "C" __global__ void lanes(int64* y) {
  int lane = threadIdx.x & 31;
  unsigned all = 0xffffffffu;
  int64* row = y + 8 * threadIdx.x;
  row[0] = __shfl_sync(all, lane, 5);
  row[1] = __shfl_up_sync(all, lane, 3);
  row[2] = __shfl_down_sync(all, lane, 3, 8);
  row[3] = __shfl_xor_sync(all, lane, 1);
  row[4] = __ballot_sync(all, lane % 3 == 0);
  row[5] = __any_sync(all, lane == 7) * 2 + __all_sync(all, lane < 32);
  row[6] = lane < 16 ? __reduce_add_sync(0x0000ffffu, lane) : __shfl_sync(0xffff0000u, lane, 20);
  row[7] = __syncthreads_count(threadIdx.x < 40);
}
extern "C" __global__ void read_at(const int64* x, int64* y, int64 at) { y[threadIdx.x] = x[at]; }
extern "C" __global__ void write_at(int8* x, int64 at) { x[at] = 1; }
extern "C" __global__ void shared_at(int64* y, int64 at) {
  SHARED(int8, shared);
  if (threadIdx.x == 0) shared[at] = 1;
}
// two warps and two lanes use a byte of shared memory: with nothing, a barrier of the warp or of the block in between
extern "C" __global__ void exchange(int64* y, int64 distance, int64 barrier) {
  __shared__ int64 shared[128];
  shared[threadIdx.x] = threadIdx.x;
  if (barrier == 1) __syncwarp();
  if (barrier == 2) __syncthreads();
  y[threadIdx.x] = shared[threadIdx.x ^ distance];
}
extern "C" __global__ void reuse(int64* y, int64 barrier) {
  __shared__ int64 shared[64];
  for (int i = 0; i < 3; ++i) {
    shared[threadIdx.x] = i;
    __syncthreads();
    y[threadIdx.x] = shared[threadIdx.x ^ 1];
    if (barrier) __syncthreads();
  }
}
extern "C" __global__ void tally(int64* y, int64 atomic) {
  __shared__ int32 count;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  if (atomic) atomicAdd(&count, 1); else count += 1;
  __syncthreads();
  y[threadIdx.x] = count;
}
extern "C" __global__ void counted(int32* counter, int64 n) { for (int64 i = 0; i < n; ++i) atomicAdd(counter, 1); }
extern "C" __global__ void some_wait() { if (threadIdx.x < 40) __syncthreads(); }
extern "C" __global__ void half_a_warp(int64* y) {
  if (threadIdx.x < 16) y[threadIdx.x] = __shfl_xor_sync(0xffffffffu, threadIdx.x, 1);
}
extern "C" __global__ void not_in_mask(int64* y) { y[threadIdx.x] = __shfl_sync(0x0000ffffu, threadIdx.x, 1); }
// each block adds its number to the sum of the block before; a block is numbered when it starts, or by its place in the grid
extern "C" __global__ void chained(int64* y, int32* state, int64 by_start, int64 flag_first) {
  __shared__ int32 number;
  if (threadIdx.x == 0) number = by_start ? atomicAdd(state, 1) : int32(blockIdx.x);
  __syncthreads();
  int32* flags = state + 1;
  if (number > 0) while (static_cast<volatile int32*>(flags)[number - 1] == 0) __nanosleep(20);
  __syncthreads();
  if (threadIdx.x == 0) {
    int64 sum = number > 0 ? y[number - 1] + number : 0;
    if (flag_first) flags[number] = 1; else y[number] = sum;
    __threadfence();
    if (flag_first) y[number] = sum; else flags[number] = 1;
  }
}
extern "C" __global__ void wild(int64* y) { y[1ll << 50] = 1; }
extern "C" __global__ void misplaced(float4* y) { y[0] = make_float4(1.0f, 2.0f, 3.0f, 4.0f); }
extern "C" __global__ void many(MANY int64* out) { *out = a0 + A_LAST; }
"""
N_MANY = 599
KERNELS = KERNELS.replace("MANY", "".join(f"int64 a{i}, " for i in range(N_MANY))).replace("A_LAST", f"a{N_MANY - 1}")
