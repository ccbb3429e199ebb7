"""Instructions of tensor cores as functions of CUDA C, for real GPUs and for the emulated one.

They multiply matrices of halves into sums of float32, load operands, and copy to shared memory while the thread goes on.

Two kinds of products (PTX ISA, "Matrix Multiply-Accumulate Instructions", "Asynchronous Warpgroup Level Matrix Instructions"):

* Of a warp, from sm_80 on: ``mma.sync``, with all operands in registers.
* Of a team of four warps, on sm_90a alone (``HAS_TEAMS``): ``wgmma``, whose right operand is in shared memory, and which runs
  until the team has waited for it.  Only this kind reaches the rate of the hardware there.

The sums of both lie alike: lane ``l`` of a warp has elements ``2 * (l % 4)`` and the next of rows ``l / 4`` and ``l / 4 + 8`` of
each 8 columns.  Rounded in pairs, the sums of a product are the left operand of another.

A matrix in shared memory is in panels of 64 columns: rows of 128 bytes, whose 16-byte chunk ``c`` of row ``r`` is at
``c ^ (r % 8)``, so that the chunks of 8 rows are in different banks.  This is the swizzle of 128 bytes of ``wgmma``: panels are
at multiples of 1024 bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from string import Template

#: Elements of a row of a panel; bytes of the row.
PANEL, ROW_BYTES = 64, 128
#: Multiple of bytes at which panels begin.
ALIGNMENT = 1024

#: The type of an address in shared memory, and the addresses of panels and chunks.
POSITIONS = r"""
#if defined(__CUDACC_RTC__) || defined(__CUDA_ARCH__)
typedef uint32 Place;  // an address in shared memory
DEVICE Place place_of(const void* shared) { return Place(__cvta_generic_to_shared(shared)); }
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define HAS_TEAMS 1
#else
#define HAS_TEAMS 0
#endif
#else
typedef EmulatorAddress Place;
DEVICE Place place_of(const void* shared) { return Place(shared); }
#define HAS_TEAMS EMULATOR_TEAMS
#endif
DEVICE Place panels_of(Place room) { return room + ((1024 - (uint64(room) & 1023)) & 1023); }
// A chunk of 16 bytes of a matrix with ROWS rows.
template <int ROWS> DEVICE Place chunk_at(Place matrix, int row, int chunk) {
  return matrix + ((chunk >> 3) * ROWS + row) * 128 + (((chunk ^ row) & 7) << 4);
}
"""

#: Products of warps, loads of their operands, copies, conversions.
WARPS = r"""
#if defined(__CUDACC_RTC__) || defined(__CUDA_ARCH__)
// Matrices of 8 x 8 halves: lane 8 * i + r has the address of row r of matrix i.
DEVICE void load_matrices(uint32 (&to)[4], Place row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(row) : "memory");
}
DEVICE void load_transposed(uint32 (&to)[4], Place row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(row) : "memory");
}
// sums (16 x 8) += left (16 x 16) * right (16 x 8)
#define MULTIPLY(T, number)                                                                                              \
  DEVICE void multiply_add(T, float32 (&sums)[4], const uint32 (&left)[4], uint32 right0, uint32 right1) {                 \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." number "." number ".f32 "                                      \
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                       \
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])                                             \
                 : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right0), "r"(right1));                     \
  }
MULTIPLY(float16, "f16")
MULTIPLY(bfloat16, "bf16")
#undef MULTIPLY
// Begin to copy 16 bytes to shared memory; zeros unless `is_there`.
DEVICE void begin_copy(Place to, const void* from, bool is_there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(is_there ? 16 : 0) : "memory");
}
DEVICE void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int LATER> DEVICE void wait_for_copies() { asm volatile("cp.async.wait_group %0;" ::"n"(LATER) : "memory"); }
DEVICE float32 power_of_2(float32 x) {
  float32 result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
DEVICE uint32 pair_of(float16, float32 low, float32 high) {
  uint32 result;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
}
DEVICE uint32 pair_of(bfloat16, float32 low, float32 high) {
  uint32 result;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
}
DEVICE void put(Place to, uint16 bits) { asm volatile("st.shared.b16 [%0], %1;" ::"r"(to), "h"(bits) : "memory"); }
DEVICE void put(Place to, uint32 bits) { asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(bits) : "memory"); }
DEVICE uint4 chunk_of(Place at) {
  uint4 chunk;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(chunk.x), "=r"(chunk.y), "=r"(chunk.z), "=r"(chunk.w) : "r"(at) : "memory");
  return chunk;
}
#else
DEVICE void load_matrices(uint32 (&to)[4], Place row) { emulator_load(to, row, false); }
DEVICE void load_transposed(uint32 (&to)[4], Place row) { emulator_load(to, row, true); }
DEVICE void multiply_add(float16, float32 (&sums)[4], const uint32 (&left)[4], uint32 right0, uint32 right1) {
  emulator_multiply(WARP_PRODUCT_FLOAT16, sums, left, right0, right1);
}
DEVICE void multiply_add(bfloat16, float32 (&sums)[4], const uint32 (&left)[4], uint32 right0, uint32 right1) {
  emulator_multiply(WARP_PRODUCT_BFLOAT16, sums, left, right0, right1);
}
DEVICE void begin_copy(Place to, const void* from, bool is_there) { emulator_copy(to, from, is_there ? 16 : 0); }
DEVICE void commit_copies() { emulator_commit_copies(); }
template <int LATER> DEVICE void wait_for_copies() { emulator_wait_for_copies(LATER); }
DEVICE float32 power_of_2(float32 x) { return exp2f(x); }
DEVICE uint32 pair_of(float16, float32 low, float32 high) {
  return to_float16(low).bits | uint32(to_float16(high).bits) << 16;
}
DEVICE uint32 pair_of(bfloat16, float32 low, float32 high) {
  return to_bfloat16(low).bits | uint32(to_bfloat16(high).bits) << 16;
}
DEVICE void put(Place to, uint16 bits) { *reinterpret_cast<uint16*>(to) = bits; }
DEVICE void put(Place to, uint32 bits) { *reinterpret_cast<uint32*>(to) = bits; }
DEVICE uint4 chunk_of(Place at) { return *reinterpret_cast<const uint4*>(at); }
#endif
"""

#: Instructions of teams; the functions of their products replace ``__PRODUCTS__``.
_TEAMS = r"""
#if HAS_TEAMS
#if defined(__CUDACC_RTC__) || defined(__CUDA_ARCH__)
typedef uint64 Matrix;  // where a matrix is, its swizzle, and the bytes from 8 rows to the next and from a panel to the next
DEVICE Matrix matrix_at(Place at, int panel_bytes) {
  return uint64((at & 0x3ffff) >> 4) | uint64(panel_bytes >> 4) << 16 | uint64(1024 >> 4) << 32 | uint64(1) << 62;
}
// From here on, products may read and write registers of this thread.
DEVICE void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int LATER> DEVICE void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LATER) : "memory");
}
// From here on, products may read what this thread has written to shared memory.
DEVICE void show_products() { asm volatile("fence.proxy.async;" ::: "memory"); }
// No access to sums is moved across this.
template <int N> DEVICE void hold(float32 (&sums)[N][4]) {
#pragma unroll
  for (int i = 0; i < N * 4; ++i) asm volatile("" : "+f"(sums[i / 4][i % 4]) :: "memory");
}
#else
typedef EmulatorPlace Matrix;
DEVICE Matrix matrix_at(Place at, int panel_bytes) { return {at, panel_bytes}; }
DEVICE void begin_products() { emulator_team(TEAM_FENCE); }
DEVICE void commit_products() { emulator_team(TEAM_COMMIT); }
template <int LATER> DEVICE void wait_for_products() { emulator_team(TEAM_WAIT, LATER); }
DEVICE void show_products() { emulator_team(TEAM_SEE_COPIES); }
template <int N> DEVICE void hold(float32 (&sums)[N][4]) {}
#endif
__PRODUCTS__
#else
DEVICE void show_products() {}
#endif
"""

_TYPES = {"float16": "f16", "bfloat16": "bf16"}


def teams(dtype: str, products: Iterable[tuple[int, bool, bool]]) -> str:
    """The instructions of teams with functions ``multiply_team`` of some ``products``.

    ``sums (64 x columns) += left (64 x 16) * right (16 x columns)``; a product is the number of columns, whether the left operand
    is in registers, and whether the right one is stored by rows of its columns (else by the columns themselves).
    """
    found = "\n".join(_product(dtype, *product) for product in dict.fromkeys(products))
    return _TEAMS.replace("__PRODUCTS__", found)


_MULTIPLY_TEAM = Template("""\
#if defined(__CUDACC_RTC__) || defined(__CUDA_ARCH__)
$head
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %$adds, 0; $kind {$sums}, $left, %$right, p, $how; }"
               : $outputs : $inputs"l"(right), "r"(adds));
}
#else
$head
  emulator_team_multiply(sums, $is_bfloat16, $emulated, right, $transposed, adds != 0);
}
#endif""")


def _product(dtype: str, columns: int, in_registers: bool, by_rows: bool) -> str:
    """The function of one product, for GPUs and for the emulated one; its argument ``adds`` is 0 where sums begin at 0."""
    n = columns // 2
    sums, outputs = ", ".join(f"%{k}" for k in range(n)), ", ".join(f'"+f"(sums[{k // 4}][{k % 4}])' for k in range(n))
    kind = f"wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.{_TYPES[dtype]}.{_TYPES[dtype]}"
    if in_registers:
        left, inputs, parameter = (
            f"{{%{n}, %{n + 1}, %{n + 2}, %{n + 3}}}",
            "".join(f'"r"(left[{k}]), ' for k in range(4)),
            "const uint32 (&left)[4]",
        )
        right, adds, how, emulated = n + 4, n + 5, f"1, 1, {int(by_rows)}", "left, Matrix{}"
    else:
        left, inputs, parameter = f"%{n}", '"l"(left), ', "Matrix left"
        right, adds, how, emulated = n + 1, n + 2, f"1, 1, 0, {int(by_rows)}", "nullptr, left"
    name, transposed = f"multiply_team{'_by_rows' if by_rows else ''}", "true" if by_rows else "false"
    head = f"DEVICE void {name}(float32 (&sums)[{columns // 8}][4], {parameter}, Matrix right, int adds) {{"
    return _MULTIPLY_TEAM.substitute(
        head=head, adds=adds, kind=kind, sums=sums, left=left, right=right, how=how, outputs=outputs, inputs=inputs,
        emulated=emulated, transposed=transposed, is_bfloat16="true" if dtype == "bfloat16" else "false",
    )  # fmt: skip


def uses_teams(text: str) -> bool:
    """Whether kernels of CUDA C multiply by teams where the architecture has them: such a text is compiled for ``sm_90a``."""
    return "HAS_TEAMS" in text


#: The kernel of ``proof``: one block of a team, with ``PROOF_BYTES`` of dynamic shared memory and one parameter, an int64 that
#: becomes the number of elements for which a team and its warps disagree.
PROOF, PROOF_THREADS, PROOF_BYTES = "differing_products", 128, 2 * 64 * 2 * ROW_BYTES + ALIGNMENT - 16
_PROOF = r"""
DEVICE int64 differing(const float32* a, const float32* b, int n) {
  int64 found = 0;
  for (int i = 0; i < n; ++i) found += a[i] != b[i];
  return found;
}
// All numbers are small integers, and so are the sums: they are exact.
extern "C" __global__ void __launch_bounds__(128) differing_products(int64* found) {
#if HAS_TEAMS
  SHARED(uint4, room);
  const Place x = panels_of(place_of(room)), y = x + 64 * 256;  // 64 x 128 each
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  for (int i = threadIdx.x; i < 64 * 128; i += 128) {
    const int row = i / 128, column = i % 128;
    put(chunk_at<64>(x, row, column / 8) + column % 8 * 2, to_float16(float32((row * 7 + column * 3) % 9 - 4)).bits);
    put(chunk_at<64>(y, row, column / 8) + column % 8 * 2, to_float16(float32((row * 5 + column * 2) % 7 - 3)).bits);
  }
  show_products();
  __syncthreads();
  float32 scores[8][4] = {}, wanted_scores[8][4] = {}, sums[16][4] = {}, wanted_sums[16][4] = {};
  uint32 left[8][4];
  for (int k = 0; k < 8; ++k) {
    load_matrices(left[k], chunk_at<64>(x, warp * 16 + lane % 16, 2 * k + lane / 16));
    for (int j = 0; j < 8; j += 2) {
      uint32 right[4];
      load_matrices(right, chunk_at<64>(y, j * 8 + (lane & 7) + (lane >> 4) * 8, 2 * k + (lane >> 3 & 1)));
      multiply_add(float16{}, wanted_scores[j], left[k], right[0], right[1]);
      multiply_add(float16{}, wanted_scores[j + 1], left[k], right[2], right[3]);
    }
  }
  for (int k = 0; k < 4; ++k) {
    for (int j = 0; j < 16; j += 2) {
      uint32 right[4];
      load_transposed(right, chunk_at<64>(y, k * 16 + lane % 16, j + lane / 16));
      multiply_add(float16{}, wanted_sums[j], left[k], right[0], right[1]);
      multiply_add(float16{}, wanted_sums[j + 1], left[k], right[2], right[3]);
    }
  }
  hold(scores);
  hold(sums);
  begin_products();
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const Matrix right = matrix_at(y + k / 4 * 8192 + k % 4 * 32, 16);
    if (k % 2) multiply_team(scores, left[k], right, 1);
    else multiply_team(scores, matrix_at(x + k / 4 * 8192 + k % 4 * 32, 16), right, k > 0);
  }
  commit_products();
#pragma unroll
  for (int k = 0; k < 4; ++k) multiply_team_by_rows(sums, left[k], matrix_at(y + k * 2048, 8192), k > 0);
  commit_products();
  wait_for_products<0>();
  hold(scores);
  hold(sums);
  int64 mine = differing(&scores[0][0], &wanted_scores[0][0], 32) + differing(&sums[0][0], &wanted_sums[0][0], 64);
  const int64 all = block_reduce(mine, Add());
  if (threadIdx.x == 0) found[0] = all;
#endif
}
"""


def proof() -> str:
    """A kernel that compares the products of a team with those of its warps, for each kind of operand."""
    return "\n".join([POSITIONS, WARPS, teams("float16", ((64, True, False), (64, False, False), (128, True, True))), _PROOF])
