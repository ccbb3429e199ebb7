"""float16 and bfloat16 as machine code converts them, and in plain Python: bit by bit equal to numpy and ml_dtypes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relayvm.ops.core.tensor_types import EXACT, HALVES, SHORT_NANS, numpy_dtype
from relayvm.ops.native import memory
from relayvm.ops.native.compiled import kernel_store
from relayvm.ops.native.front_end import vector_hints
from relayvm.ops.native.front_end.llvm import host, single_halves
from relayvm.ops.native.front_end.llvm.single_halves import complete
from relayvm.ops.native.generated_source import define
from relayvm.ops.native.halves import CONVERSIONS
from relayvm.ops.native.jit.native_compiler import compile_object
from relayvm.ops.native.memory import array_float32, native  # type: ignore[attr-defined]

PATTERNS = np.arange(2**16, dtype=np.uint16)
BOTH = pytest.mark.parametrize("dtype", HALVES)

_LOOP = """
def loop(halves, singles, n):
    x, y = array_{dtype}(halves, n), array_float32(singles, n)
    for i in {ranges}(n):
        {statement}
    return 0
"""
#: Loops of vectors that LLVM chooses, and of those that fill registers, for which some CPUs have another instruction.
RANGES = pytest.mark.parametrize("ranges", ["range", "filled_range", "filled_short_range"])


def loop_names(dtype: str, ranges: str) -> dict[str, Any]:
    """The names that ``_LOOP`` reads."""
    names: dict[str, Any] = {"array_float32": array_float32, f"array_{dtype}": memory.ARRAYS[f"array_{dtype}"]}
    return names | {name: getattr(vector_hints, name) for name in (ranges,) if name != "range"}


def loop(dtype: str, statement: str, ranges: str = "range") -> Callable[[np.ndarray, np.ndarray], None]:
    """Machine code that runs over an array of halves ``x`` and one of float32 ``y``."""
    names = loop_names(dtype, ranges)
    define("loop", _LOOP.format(dtype=dtype, statement=statement, ranges=ranges), names)
    address = kernel_store.address_of(native(names["loop"]), "int64(int64, int64, int64)")
    function = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 3)(address)

    def run(x: np.ndarray, y: np.ndarray) -> None:
        assert function(x.ctypes.data, y.ctypes.data, len(x)) == 0

    return run


def singles() -> np.ndarray:
    """float32 at, beside and half-way between every two halves of both dtypes, and random bits."""
    values = np.concatenate([PATTERNS.view(numpy_dtype(d)).astype(np.float32) for d in HALVES]).view(np.uint32).astype(np.int64)
    steps = [0, 1, -1, *(half + step for half in (2**12, 2**15) for step in (-1, 0, 1))]
    near = [(values + step) % 2**32 for step in steps]
    random = np.random.default_rng(0).integers(0, 2**32, 10**6)
    return np.concatenate([*near, random]).astype(np.uint32).view(np.float32)


@BOTH
def test_every_pattern_is_read(dtype: str) -> None:
    halves = PATTERNS.view(numpy_dtype(dtype))
    got = np.empty(2**16, np.float32)
    loop(dtype, "y[i] = x[i]")(halves, got)
    np.testing.assert_array_equal(quiet(got), quiet(halves.astype(np.float32)))


def quiet(values: np.ndarray) -> np.ndarray:
    """The bits of numbers, of which each NaN is quiet."""
    bits = values.view(np.uint32 if values.itemsize == 4 else np.uint16)
    first = {"float32": 1 << 22, "float16": 1 << 9}.get(values.dtype.name, 1 << 6)
    return np.where(np.isnan(values.astype(np.float32)), bits | first, bits)


@pytest.mark.parametrize("feature", ["avx2", "avx512fp16"])
def test_a_single_float16_is_converted_in_all_lanes(monkeypatch: pytest.MonkeyPatch, feature: str) -> None:
    """By CPUs without an instruction for a single one."""
    had = host.features()
    if not {"f16c", "avx2"} <= had:
        pytest.skip("this CPU converts no float16")
    texts: list[str] = []
    monkeypatch.setattr(single_halves, "complete", lambda text: texts.append(complete(text)) or texts[-1])
    monkeypatch.setattr(host, "features", lambda: had - {"avx512fp16"} | {feature})
    define(
        "loop", _LOOP.format(dtype="float16", statement="y[i] = x[i]", ranges="range"), names := loop_names("float16", "range")
    )
    compile_object(native(names["loop"]), "int64(int64, int64, int64)")
    assert len(texts) == (feature == "avx2")
    assert all("fpext half" not in text and "fpext <8 x half>" in text for text in texts)


@BOTH
@RANGES
def test_every_pattern_is_written_back(dtype: str, ranges: str) -> None:
    """NaN with its payload, too, apart from the bit of signalling ones."""
    halves, back, between = PATTERNS.view(numpy_dtype(dtype)), np.zeros(2**16, numpy_dtype(dtype)), np.empty(2**16, np.float32)
    loop(dtype, "y[i] = x[i]")(halves, between)
    loop(dtype, "x[i] = y[i]", ranges)(back, between)
    np.testing.assert_array_equal(quiet(back), quiet(PATTERNS.view(numpy_dtype(dtype))))


@BOTH
@RANGES
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_is_written_is_the_nearest(dtype: str, ranges: str) -> None:
    values = singles()
    got = np.zeros(len(values), numpy_dtype(dtype))
    loop(dtype, "x[i] = y[i]", ranges)(got, values)
    want, nan = values.astype(numpy_dtype(dtype)), np.isnan(values)
    np.testing.assert_array_equal(got.view(np.uint16)[~nan], want.view(np.uint16)[~nan])
    assert np.isnan(got.astype(np.float32)[nan]).all()
    np.testing.assert_array_equal(np.signbit(got[nan].astype(np.float32)), np.signbit(values[nan]))


@RANGES
@pytest.mark.parametrize("stored", [EXACT, SHORT_NANS])
def test_what_is_known_of_numbers_changes_no_bit(stored: str, ranges: str) -> None:
    values = PATTERNS.view(numpy_dtype("bfloat16")).astype(np.float32)
    if stored == SHORT_NANS:
        values = np.concatenate([values, singles()[~np.isnan(singles())]])
    got, want = (np.zeros(len(values), numpy_dtype("bfloat16")) for _ in range(2))
    loop(f"bfloat16_{stored}", "x[i] = y[i]", ranges)(got, values)
    loop("bfloat16", "x[i] = y[i]", ranges)(want, values)
    np.testing.assert_array_equal(quiet(got), quiet(want))


@BOTH
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_plain_python_converts_alike(dtype: str) -> None:
    value_of, bits_of, rounded = CONVERSIONS[dtype]
    for bits in PATTERNS[::97]:
        half = np.array(bits).view(numpy_dtype(dtype))
        assert np.float32(value_of(bits)).tobytes() == half.astype(np.float32).tobytes()
    for value in singles()[::4001]:
        want = value.astype(numpy_dtype(dtype))
        assert bits_of(value) == want.view(np.uint16) or np.isnan(value)
        np.testing.assert_array_equal(rounded(value), want.astype(np.float32))


@BOTH
@given(value=st.floats() | st.integers(-(2**70), 2**70))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_any_number_becomes_a_float32_first(dtype: str, value: float | int) -> None:
    want = np.float32(value).astype(numpy_dtype(dtype)).astype(np.float32)
    np.testing.assert_array_equal(CONVERSIONS[dtype][2](value), want)


@BOTH
def test_arrays_in_plain_python_read_float32(dtype: str) -> None:
    data = np.array([[1.5, 2], [3, 4]], numpy_dtype(dtype))
    view = memory.ARRAYS[f"array_{dtype}_2d"](data.ctypes.data, (2, 2))
    assert type(view[0, 0]) is np.float32 and view[1, 1] == 4
    view[0, 1] = 1 + 2.0**-20  # rounded
    assert data.tolist() == [[1.5, 1.0], [3.0, 4.0]]
    assert memory.ARRAYS[f"array_{dtype}"](0, 0).shape == (0,)
