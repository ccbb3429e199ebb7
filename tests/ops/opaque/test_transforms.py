"""Fourier transforms against numpy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relayvm.ops.core.op import TypeRelError, get
from relayvm.ops.core.tensor_types import TensorType, numpy_dtype
from relayvm.ops.core.type_relation import relate
from relayvm.ops.kernels.fft import cpu
from relayvm.ops.native import memory
from relayvm.ops.native.status import OUT_OF_MEMORY
from relayvm.shape_funcs.symbolic.dim import sym

from .opaque_kernels import run

TOLERANCE = {"float64": 1e-12, "float32": 1e-6, "float16": 1e-3, "bfloat16": 1e-2}


def near(result: np.ndarray, expected: np.ndarray) -> None:
    bound = TOLERANCE[result.dtype.name] * (1 + np.abs(expected).max(initial=0))
    np.testing.assert_allclose(result.astype(np.float64), expected, rtol=0, atol=bound)


def check_dft(real: np.ndarray, imaginary: np.ndarray, inverse: bool, jit: bool = False) -> None:
    (x, y), status, _ = run("dft", [real, imaginary], jit=jit, inverse=inverse)
    given = real.astype(np.float64) + 1j * imaginary.astype(np.float64)
    expected = (np.fft.ifft if inverse else np.fft.fft)(given) if given.size else given
    assert status == 0 and x.dtype == y.dtype == real.dtype
    near(x, expected.real)
    near(y, expected.imag)


def check_stft(data: np.ndarray, window: np.ndarray, n: int, hop: int, jit: bool = False, **attrs: Any) -> None:
    (result,), status, _ = run("stft", [data, window], jit=jit, n_fft=n, hop_length=hop, win_length=len(window), **attrs)
    assert status == 0 and result.dtype == data.dtype
    before = (n - len(window)) // 2
    whole = np.pad(window.astype(np.float64), (before, n - len(window) - before))
    frames = np.lib.stride_tricks.sliding_window_view(data.astype(np.float64), n, axis=-1)[..., ::hop, :] * whole
    expected = (np.fft.rfft if attrs.get("onesided", True) else np.fft.fft)(frames) * (n**-0.5 if attrs.get("normalized") else 1)
    transposed = np.swapaxes(expected, -1, -2)
    near(result, np.stack([transposed.real, transposed.imag], -1))


@settings(max_examples=80)
@given(
    st.sampled_from([(), (3,), (2, 2), (0,)]), st.integers(0, 70), st.integers(0, 10**6), st.booleans(),
    st.sampled_from(["float32", "float64"]),
)  # fmt: skip
def test_dft(outer: tuple[int, ...], n: int, seed: int, inverse: bool, dtype: str) -> None:
    rng = np.random.default_rng(seed)
    real, imaginary = (rng.standard_normal((*outer, n)).astype(dtype) for _ in range(2))
    check_dft(real, imaginary, inverse)


@pytest.mark.parametrize(("dtype", "inverse"), [("float32", False), ("float64", True), ("float16", False)])
def test_dft_as_machine_code(dtype: str, inverse: bool) -> None:
    """Powers of 2, primes, and a size at which the definition would take 10^8 steps."""
    rng = np.random.default_rng(3)
    for shape in [(2, 64), (3, 17), (1, 1), (0, 4), (2, 0), (1, 10007), (1, 2**14)]:
        real, imaginary = (rng.standard_normal(shape).astype(numpy_dtype(dtype)) for _ in range(2))
        check_dft(real, imaginary, inverse, jit=True)


@settings(max_examples=60)
@given(
    st.sampled_from([(), (2,), (0,)]), st.integers(1, 12), st.integers(1, 12), st.integers(0, 20), st.integers(1, 5),
    st.booleans(), st.booleans(), st.integers(0, 10**6),
)  # fmt: skip
def test_stft(outer: Any, n: int, length: int, more: int, hop: int, onesided: bool, normalized: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    data, window = rng.standard_normal((*outer, n + more)), rng.standard_normal(min(n, length))
    check_stft(data, window, n, hop, onesided=onesided, normalized=normalized)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_stft_as_machine_code(dtype: str) -> None:
    rng = np.random.default_rng(4)
    for shape, n, hop, length in [((2, 900), 256, 64, 200), ((30,), 12, 5, 12), ((1, 1), 1, 1, 1)]:
        data, window = (rng.integers(-9, 9, s).astype(numpy_dtype(dtype)) for s in (shape, (length,)))
        check_stft(data, window, n, hop, jit=True)


def test_a_transform_has_room_for_its_convolution() -> None:
    for n in range(1, 200):
        m = cpu.length_of(n)
        assert m & (m - 1) == 0 and (m == n or 2 * n - 1 <= m < 4 * n)


def test_no_memory_is_a_status(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "alloc", lambda nbytes: 0)
    x = np.ones(4)
    assert run("dft", [x, x]).status == OUT_OF_MEMORY
    assert run("stft", [x, x], n_fft=4, hop_length=1, win_length=4).status == OUT_OF_MEMORY


def test_an_unknown_size_is_checked_at_run_time() -> None:
    n, op = sym("n"), get("stft")
    out, checks = relate(op, [TensorType.of((n,)), TensorType.of((4,))], op.attrs(4, 1, 4))
    assert [str(d) for d in (out.shape[0], out.shape[2])] == ["3", "2"]
    assert [c.message for c in checks] == ["stft: a frame has {} elements, the data {}"]


FRAMES = {"n_fft": 4, "hop_length": 2, "win_length": 4}


@pytest.mark.parametrize(
    ("name", "shapes", "attrs", "message"),
    [
        ("dft", [(), ()], {}, "the real part must have at least 1 dimension, not 0"),
        ("dft", [(2, 3), (3,)], {}, "the real part has 2 dimensions, the imaginary part 1"),
        ("dft", [(2, 3), (2, 4)], {}, "axis 1 of the real part has size 3, of the imaginary part 4"),
        ("stft", [(2, 3, 4), (4,)], FRAMES, "the data must have 1 or 2 dimensions, not 3"),
        ("stft", [(9,), (4, 1)], FRAMES, "the window must have 1 dimension, not 2"),
        ("stft", [(9,), (3,)], FRAMES, "win_length says 4, the window has 3 elements"),
        ("stft", [(9,), (4,)], FRAMES | {"hop_length": 0}, "hop_length must be at least 1, not 0"),
        ("stft", [(9,), (4,)], FRAMES | {"n_fft": 3}, "win_length 4 is more than n_fft 3"),
        ("stft", [(3,), (4,)], FRAMES, "a frame has 4 elements, the data 3"),
    ],
)
def test_what_is_refused(name: str, shapes: list[Any], attrs: dict[str, int], message: str) -> None:
    op = get(name)
    with pytest.raises(TypeRelError) as refused:
        relate(op, [TensorType.of(s) for s in shapes], op.attrs(**attrs))
    assert refused.value.message.startswith(f"{name}: {message}")
