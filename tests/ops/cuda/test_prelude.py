"""The prelude of every CUDA C text, and the functions that generated texts call."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from relayvm.ops.codegen.cuda.assembly import DIVISOR
from relayvm.ops.codegen.cuda.cuda_text import FUNCTIONS
from relayvm.ops.codegen.cuda.device_code import nvrtc
from relayvm.ops.codegen.cuda.device_code.prelude import PRELUDE
from relayvm.ops.core.tensor_types import HALVES, numpy_dtype
from relayvm.shape_funcs.symbolic.dim import const
from relayvm.shape_funcs.symbolic.dim_operations import division

from ...emulator import emulator, real
from ...emulator.session import Session

pytestmark = pytest.mark.skipif(emulator.available() is not None, reason=str(emulator.available()))


def run(text, arrays, result, threads=256, blocks=1):
    """The array, like ``result``, that kernel ``k`` writes to its last argument; its other arguments are ``arrays``."""
    image = emulator.compile(DIVISOR + FUNCTIONS + text)
    with Session() as gpu:
        out = gpu.put(result)
        gpu.launch(image, "k", (blocks, 1, 1), (threads, 1, 1), [*(gpu.put(a) for a in arrays), out])
        return gpu.get(out, result.shape, result.dtype)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", HALVES)
def test_every_half_becomes_its_float_and_comes_back(dtype):
    bits = np.arange(65536, dtype="uint16")
    text = f"""extern "C" __global__ void k(const {dtype}* x, float32* y) {{
      int i = blockIdx.x * 256 + threadIdx.x; y[i] = to_float32(x[i]); }}"""
    floats = run(text, [bits], np.zeros(65536, "float32"), blocks=256)
    np.testing.assert_array_equal(floats, bits.view(numpy_dtype(dtype)).astype("float32"))
    text = f"""extern "C" __global__ void k(const float32* x, {dtype}* y) {{
      int i = blockIdx.x * 256 + threadIdx.x; y[i] = to_{dtype}(x[i]); }}"""
    back = run(text, [floats], np.zeros(65536, "uint16"), blocks=256).view(numpy_dtype(dtype))
    np.testing.assert_array_equal(back.astype("float32"), floats)
    # between two halves, a hair off the middle, beyond the largest, below the smallest
    ends = bits.view(numpy_dtype(dtype)).astype("float64")[:32768]
    finite = ends[np.isfinite(ends)]
    middle = (finite[:-1] + finite[1:]) / 2
    x = np.concatenate([middle, -middle, middle * (1 + 1e-6), middle * (1 - 1e-6), finite[-1:] * 1.01, [np.inf, 1e-45, 0]])
    x = np.concatenate([x, np.full(-len(x) % 256, np.nan)]).astype("float32")
    expected = x.astype(numpy_dtype(dtype)).astype("float32")
    ours = run(text, [x], np.zeros(len(x), "uint16"), blocks=len(x) // 256).view(numpy_dtype(dtype)).astype("float32")
    np.testing.assert_array_equal(ours, expected)


_LAST = """
struct Span { int64 first, last; };
// not commutative, and only neighbours can be joined: shows the order of what is combined
struct Join {
  DEVICE Span operator()(Span a, Span b) const { return a.last + 1 == b.first ? Span{a.first, b.last} : Span{-1, -1}; }
};
"""


@pytest.mark.parametrize("threads", [32, 64, 96, 256, 1024])
def test_reductions_and_scans_keep_the_order(threads):
    text = (
        _LAST
        + """extern "C" __global__ void k(int64* out) {
      int t = threadIdx.x; Span total, mine{t, t};
      Span all = block_reduce(mine, Join()), before = block_scan(mine, Join(), total);
      out[4 * t] = all.first + all.last; out[4 * t + 1] = before.first; out[4 * t + 2] = before.last;
      out[4 * t + 3] = total.first + total.last;
      int64 sum = block_reduce(int64(t), Add()); if (sum != int64(blockDim.x) * (blockDim.x - 1) / 2) out[4 * t] = -7; }"""
    )
    out = run(text, [], np.zeros((threads, 4), "int64"), threads)
    at = np.arange(threads)
    np.testing.assert_array_equal(out, np.stack([at * 0 + threads - 1, at * 0, at, at * 0 + threads - 1], 1))


@pytest.mark.parametrize("count", [1, 2, 3, 5, 16, 17, 31, 32])
def test_a_reduction_of_some_lanes_is_known_to_all(count):
    text = (
        _LAST
        + f"""extern "C" __global__ void k(int64* out) {{
      int t = threadIdx.x; Span all = warp_reduce(Span{{t, t}}, Join(), {count}); out[t] = all.first * 100 + all.last; }}"""
    )
    np.testing.assert_array_equal(run(text, [], np.zeros(32, "int64"), 32), np.full(32, count - 1))


def test_the_first_error_stays():
    text = """extern "C" __global__ void k(int64* word) { if (threadIdx.x >= 40) fail(word, 9, 1000 + threadIdx.x / 64); }"""
    (word,) = run(text, [], np.zeros(1, "uint64"))
    assert word & 0xFF == 9 and word >> 8 in (1000, 1001, 1002, 1003)
    (word,) = run(text, [], np.full(1, 77 * 256 + 3, "uint64"))
    assert word == 77 * 256 + 3


@pytest.mark.skipif(real.gpu is not None, reason="a real GPU does not count its accesses")
def test_threads_that_fail_together_write_over_the_bus_once():
    text = """extern "C" __global__ void k(void* word) { fail(word, 9, 1000 + blockIdx.x); }"""
    with Session() as gpu:
        word = gpu.pinned((1,), "uint64")
        word[0] = 0
        gpu.launch(emulator.compile(DIVISOR + FUNCTIONS + text, checked=True), "k", (3, 1, 1), (16, 2, 8), [word.ctypes.data])
        gpu.wait()
        assert word[0] & 0xFF == 9 and word[0] >> 8 in (1000, 1001, 1002) and emulator.get("bus_atomics") == 1


def test_one_lane_of_a_warp_looks_at_the_fault_before_it_writes():
    text = """extern "C" __global__ void k(void* word) { if (threadIdx.x & 1) fail(word, 9, 7); }"""
    compiler = nvrtc.Nvrtc()
    try:
        library = compiler._library
    except nvrtc.NoNvrtc as error:
        pytest.skip(str(error))
    program = library.createProgram(PRELUDE + text, "kernel.cu", (), ())
    library.compileProgram(program, ("--gpu-architecture=compute_80", *nvrtc.OPTIONS))
    made = library.getPTX(program).decode()
    library.destroyProgram(program)
    positions = [made.find(word) for word in ("activemask", "ld.volatile", "atom.")]
    assert -1 not in positions and positions == sorted(positions) and made.count("atom.") == 1


def test_divisors():
    text = """extern "C" __global__ void k(const int64* n, const Divisor* by, int64* out) {
      int i = blockIdx.x * 256 + threadIdx.x; out[i] = by[i].quotient(n[i]); }"""
    rng = np.random.default_rng(0)
    by = np.concatenate([np.arange(1, 1025), 2 ** rng.integers(0, 31, 1024), rng.integers(1, 2**31, 2048)])
    for top in (2**31, 2**40, 2**55 + 1):
        n = np.concatenate([rng.integers(0, top - 1, len(by) - 4), [0, top - 2, top - 3, 1]])
        words = np.array([const(division(int(b), top - (top != 2**40))) for b in by])
        ours = run(text, [n, words], np.zeros(len(by), "int64"), blocks=len(by) // 256)
        np.testing.assert_array_equal(ours, n // by)


def test_division_rounds_down_and_floats_become_integers_as_on_the_processor():
    a, b = (v.reshape(-1) for v in np.meshgrid([-9, -8, -1, 0, 1, 7, 2**40, -(2**40), 2**32 + 1], [-3, 2, 5, 2**33, -(2**34)]))
    a, b = (np.concatenate([v, np.ones(-len(v) % 32, int)]) for v in (a, b))
    for name, expected in (("floor_quotient", a // b), ("floor_remainder", a % b)):
        text = f"""extern "C" __global__ void k(const int64* a, const int64* b, int64* out) {{
          out[threadIdx.x] = {name}(a[threadIdx.x], b[threadIdx.x]); }}"""
        np.testing.assert_array_equal(run(text, [a, b], np.zeros(len(a), "int64"), len(a)), expected)
    x = np.zeros(32)
    x[:9] = [1e300, -1e300, np.nan, np.inf, -np.inf, 9223372036854774784.0, -9223372036854775808.0, 1.9, -1.9]
    text = """extern "C" __global__ void k(const float64* x, int64* out) { out[threadIdx.x] = to_int64(x[threadIdx.x]); }"""
    least = -(2**63)
    expected = [least, least, least, least, least, 9223372036854774784, least, 1, -1]
    np.testing.assert_array_equal(run(text, [x], np.zeros(32, "int64"), 32)[:9], expected)


@pytest.mark.parametrize("dtype", HALVES)
def test_the_error_function_of_halves_adds_little_to_their_rounding(dtype: str) -> None:
    x = np.arange(65536, dtype="uint16").view(numpy_dtype(dtype)).astype("float32")
    text = """extern "C" __global__ void k(const float32* x, float32* out) {
      int i = blockIdx.x * 256 + threadIdx.x; out[i] = erf_of_half(x[i]); }"""
    ours = run(text, [x], np.zeros(65536, "float32"), blocks=256)
    with np.errstate(invalid="ignore"):  # NaN with a signalling bit
        wanted = special.erf(x.astype("float64"))
    np.testing.assert_allclose(ours, wanted, rtol=7e-6, atol=1e-45)
    np.testing.assert_array_equal(np.signbit(ours)[x == 0], np.signbit(x)[x == 0])
    limit = np.abs(x) >= 4
    np.testing.assert_array_equal(ours[limit], np.sign(x)[limit])
