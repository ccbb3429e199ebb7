"""Matrix instructions of the emulated GPU: products against numpy, and the mistakes that it finds."""

from __future__ import annotations

import numpy as np
import pytest

from relayvm.ops.codegen.cuda.device_code.matrix_instructions import POSITIONS, PROOF, PROOF_BYTES, WARPS, proof, teams
from relayvm.ops.core.tensor_types import HALVES, numpy_dtype

from ...emulator import emulator
from ...emulator.session import Session, refused, word

#: One warp: a product of 16 x 16 by 16 x 8 whose operands are copied to shared memory.
PRODUCT = """
extern "C" __global__ void product(const DTYPE* x, const DTYPE* y, float32* sums, int64 fault) {
  SHARED(uint4, room);
  const Place left = panels_of(place_of(room)), right = left + 16 * 128;
  const int lane = threadIdx.x;
  for (int i = lane; i < 48; i += 32) {
    const int row = i % 16, part = i / 16;  // the two chunks of a row of x, the chunk of one of y
    begin_copy(part < 2 ? chunk_at<16>(left, row, part) : chunk_at<16>(right, row, 0) + (fault == 1 ? 8 : 0),
               part < 2 ? x + row * 16 + part * 8 : y + row * 8, true);
  }
  commit_copies();
  if (fault != 2) wait_for_copies<0>();
  if (fault != 3) __syncwarp();
  uint32 a[4], b[4];
  float32 all[4] = {1, 1, 1, 1};
  load_matrices(a, chunk_at<16>(left, lane % 16, lane / 16));
  load_transposed(b, chunk_at<16>(right, lane % 16, 0));
  if (fault == 4 && lane == 3) return;
  multiply_add(DTYPE{}, all, a, b[0], b[1]);
  for (int i = 0; i < 4; ++i) sums[(lane / 4 + i / 2 * 8) * 8 + 2 * (lane % 4) + i % 2] = all[i];
}
"""
#: A team that multiplies at once, and what it may forget.
TEAM = """
extern "C" __global__ void team(const float16* x, float32* sums, int64 fault) {
  SHARED(uint4, room);
  const Place left = panels_of(place_of(room)), right = left + 64 * 128;
  for (int i = threadIdx.x; i < 128 * 8; i += 128) {
    begin_copy(chunk_at<64>(left, i / 8 % 64, i % 8) + i / 512 * 8192, x + i * 8, true);
  }
  commit_copies();
  wait_for_copies<0>();
  if (fault != 1) show_products();
  __syncthreads();
  float32 all[8][4];
  if (fault != 2) begin_products();
  for (int k = 0; k < 4; ++k) {
    const int of = fault == 3 && threadIdx.x == 70 ? 0 : k;
    multiply_team(all, matrix_at(left + k * 32, 16), matrix_at(right + of * 32, 16), k > 0);
  }
  commit_products();
  if (fault != 4) wait_for_products<0>();
  const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
  for (int i = 0; i < 32; ++i) {
    sums[(row + (i >> 1 & 1) * 8) * 64 + i / 4 * 8 + 2 * (threadIdx.x % 4) + i % 2] = all[i / 4][i % 4];
  }
}
"""


@pytest.mark.parametrize("dtype", HALVES)
def test_a_warp_multiplies_what_it_has_copied(gpu: Session, dtype: str) -> None:
    image = emulator.compile(POSITIONS + WARPS + PRODUCT.replace("DTYPE", dtype), checked=True)
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(shape).astype(numpy_dtype(dtype)) for shape in ((16, 16), (16, 8)))
    out = gpu.allocate(4 * 16 * 8)
    gpu.launch(image, "product", (1,), (32,), (gpu.put(x), gpu.put(y), out, 0), shared_bytes=8192)
    np.testing.assert_allclose(gpu.get(out, (16, 8), "f4"), 1 + x.astype(float) @ y.astype(float), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("fault", "words"), [(1, "not aligned"), (3, "a race in shared memory"), (4, "cannot go on")])
def test_mistakes_of_a_warp_are_faults(gpu: Session, fault: int, words: str) -> None:
    image = emulator.compile(POSITIONS + WARPS + PRODUCT.replace("DTYPE", "float16"), checked=True)
    x, out = gpu.put(np.zeros((16, 16), "f2")), gpu.allocate(4 * 16 * 8)
    gpu.launch(image, "product", (1,), (32,), (x, x, out, fault), shared_bytes=8192)
    assert words in refused(716 if fault == 1 else 719, "cuStreamSynchronize", word(gpu.stream))


def test_copies_that_nobody_waits_for_are_nan(gpu: Session) -> None:
    image = emulator.compile(POSITIONS + WARPS + PRODUCT.replace("DTYPE", "float16"))
    x, out = gpu.put(np.zeros((16, 16), "f2")), gpu.allocate(4 * 16 * 8)
    gpu.launch(image, "product", (1,), (32,), (x, x, out, 2), shared_bytes=8192)
    assert np.isnan(gpu.get(out, (16, 8), "f4")).all()


def test_teams_and_warps_agree(gpu: Session) -> None:
    found = gpu.put(np.full(1, -1))
    gpu.launch(emulator.compile(proof(), "sm_90a", checked=True), PROOF, (1,), (128,), (found,), shared_bytes=PROOF_BYTES)
    assert gpu.get(found, (1,), np.int64)[0] == 0


@pytest.mark.parametrize(
    ("fault", "words"),
    [(0, ""), (1, "fence.proxy.async"), (2, "wgmma.fence"), (3, "different matrices"), (4, "")],
)
def test_a_team_multiplies_when_it_waits(gpu: Session, fault: int, words: str) -> None:
    products = teams("float16", [(64, False, False)])
    image = emulator.compile(POSITIONS + WARPS + products + TEAM, "sm_90a", checked=True)
    x = np.random.default_rng(0).standard_normal((128, 64)).astype("f2")
    out = gpu.allocate(4 * 64 * 64)
    gpu.launch(image, "team", (1,), (128,), (gpu.put(x), out, fault), shared_bytes=3 * 8192)
    if words:
        assert words in refused(719, "cuStreamSynchronize", word(gpu.stream))
        return
    sums = gpu.get(out, (64, 64), "f4")
    if fault == 4:
        assert np.isnan(sums).all()
    else:
        np.testing.assert_allclose(sums, x[:64].astype(float) @ x[64:].astype(float).T, rtol=1e-5, atol=1e-5)
