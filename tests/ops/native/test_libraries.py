"""Discovery of library functions: the BLAS in use, and equal products of all BLAS sources."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from relayvm.ops.native.blas import blas_sources, library_calls
from relayvm.ops.native.blas.blas_sources import SOURCES, Source
from relayvm.ops.native.blas.library_calls import TABLE, addresses, blas
from relayvm.ops.native.compiled import kernel_store
from relayvm.ops.native.tuning.fingerprint import NONE, library_fields

from ..opaque.opaque_kernels import run

#: What numpy says of itself: wheels bring OpenBLAS under this name, most with integers of 64 bits.
OF_NUMPYS_BUILD = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
NUMPY_HAS_ONE = OF_NUMPYS_BUILD["name"] == "scipy-openblas" and "USE64BITINT" in OF_NUMPYS_BUILD["openblas configuration"]
NUMPY, SCIPY = SOURCES
OF_NUMPY = pytest.param(NUMPY, marks=pytest.mark.skipif(not NUMPY_HAS_ONE, reason="this numpy brings no BLAS"), id="numpy")

#: In a process of its own: nothing has imported scipy yet.
SCIPYS_ALONE = """
import sys
from relayvm.ops.native.blas.blas_sources import SOURCES
from relayvm.ops.native.blas import library_calls
library_calls.SOURCES = SOURCES[1:]
found = library_calls.blas()
assert found.package == "scipy" and all(found.addresses.values()), found
assert "scipy.linalg" not in sys.modules
entries = library_calls.addresses(library_calls.TABLE)
assert all(entries.values()) and len(set(entries.values())) == len(library_calls.TABLE), entries
import scipy.linalg.cython_blas
assert "sgemm" in scipy.linalg.cython_blas.__pyx_capi__
assert scipy.linalg.solve([[2.0]], [4.0]) == [2.0]
library_calls.blas.cache_clear()
assert library_calls.addresses(library_calls.TABLE) == entries
"""

NUMPYS_ALONE = """
import sys
from pathlib import Path
from types import SimpleNamespace
import numpy
def mapped():
    return {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/" in line}
before = mapped()
from relayvm.ops.native.blas import library_calls
assert library_calls.blas().package == "numpy"
assert not {path for path in mapped() - before if "blas" in path} and "scipy" not in sys.modules
"""


@pytest.fixture
def chosen_from(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A function that makes BLAS be looked for in the sources given to it."""

    def choose(*sources: Source) -> None:
        monkeypatch.setattr(library_calls, "SOURCES", sources)
        blas.cache_clear()

    yield choose
    blas.cache_clear()


def in_a_process(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_numpys_is_first_wherever_it_brings_one(chosen_from: Any) -> None:
    chosen_from(*SOURCES)
    assert blas().package == ("numpy" if NUMPY_HAS_ONE else "scipy")
    assert blas().addresses == {name: SOURCES[not NUMPY_HAS_ONE].address(name) for name in TABLE}


def test_scipys_is_found_without_the_package_around_it() -> None:
    in_a_process(SCIPYS_ALONE)


@pytest.mark.skipif(not (NUMPY_HAS_ONE and Path("/proc/self/maps").exists()), reason="no BLAS of numpy's, or none to be seen")
def test_numpys_is_the_one_that_is_loaded_already() -> None:
    in_a_process(NUMPYS_ALONE)


@pytest.mark.parametrize(
    ("module", "why"),
    [
        ("numpy.random._common", "numpy: it is not linked with a library that has scipy_sgemm_64_"),
        ("numpy._core.no_such_module", "numpy: No module named 'numpy._core.no_such_module'"),
        ("sys", "numpy: sys is no file"),
        ("numpy", f"numpy: {np.__file__} is not loaded: "),
    ],
)
def test_where_numpy_brings_none_it_is_scipys(module: str, why: str, chosen_from: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy.random  # noqa: F401

    monkeypatch.setattr(blas_sources, "NUMPY_MODULE", module)
    chosen_from(*SOURCES)
    (reported,) = blas().passed_over
    assert reported.startswith(why)
    assert blas().package == "scipy" and library_fields(["sgemm"])["blas"].startswith("scipy ")


def test_a_table_of_scipys_that_is_another_one(chosen_from: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    table = SimpleNamespace(__pyx_capi__={"sgemm": blas_sources._cython_blas().__pyx_capi__["daxpy"]})
    monkeypatch.setattr(blas_sources, "_cython_blas", lambda: table)
    chosen_from(SCIPY)
    with pytest.raises(ImportError, match=r"scipy: scipy.linalg.cython_blas.sgemm has an unknown signature: void \(int"):
        blas()
    table.__pyx_capi__ = {}
    with pytest.raises(ImportError, match=r"scipy: scipy.linalg.cython_blas has no sgemm"):
        blas()


def test_integers_of_32_bits_where_the_high_half_comes_first(chosen_from: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas_sources.sys, "byteorder", "big")
    chosen_from(SCIPY)
    with pytest.raises(ImportError, match=r"there is no BLAS \(scipy: it takes integers of 32 bits, and here the low half"):
        blas()


def test_a_blas_that_multiplies_wrong_is_passed_over(chosen_from: Any) -> None:
    nothing = ctypes.CFUNCTYPE(None)(lambda: None)
    address = ctypes.cast(nothing, ctypes.c_void_p).value or 0
    # the products of one type right, of the other not done at all
    broken = Source("broken", lambda name: address if name == "dgemm" else SCIPY.address(name))
    chosen_from(broken, SCIPY)
    assert blas().package == "scipy" and blas().passed_over == ("broken: its dgemm gives a wrong product",)
    chosen_from(broken)
    with pytest.raises(ImportError, match=r"^there is no BLAS \(broken: its dgemm gives a wrong product\)$"):
        addresses(["sgemm"])
    assert library_fields(["sgemm"]) == {"blas": NONE}
    assert addresses([]) == {} and library_fields([]) == {}


@pytest.mark.parametrize("source", [OF_NUMPY, pytest.param(SCIPY, id="scipy")])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("jit", [False, True])
def test_products_are_equal_whichever_it_is(source: Source, dtype: str, jit: bool, chosen_from: Any) -> None:
    """An array of small whole numbers, whose sums are exact in any order."""
    chosen_from(source)
    rng = np.random.default_rng(0)
    for m, n, k in [(1, 1, 1), (3, 5, 7), (17, 33, 65), (129, 1, 31), (1, 127, 3), (0, 3, 2), (3, 0, 2), (3, 2, 0), (0, 0, 0)]:
        a, b = (rng.integers(-9, 10, shape).astype(dtype) for shape in ((m, k), (k, n)))
        for turn_a in (False, True):
            for turn_b in (False, True):
                given = [np.ascontiguousarray(x.T) if transposed else x for x, transposed in ((a, turn_a), (b, turn_b))]
                ran = run("nn.matmul", given, implementation="blas", transpose_a=turn_a, transpose_b=turn_b, jit=jit)
                assert ran.status == 0
                np.testing.assert_array_equal(ran.outputs[0], a @ b)


@pytest.mark.skipif(not NUMPY_HAS_ONE, reason="this numpy brings no BLAS")
def test_one_kernel_serves_every_blas(chosen_from: Any) -> None:
    x = np.arange(6, dtype="float32").reshape(2, 3)
    chosen_from(SCIPY)
    run("nn.dense", [x, x], implementation="blas", jit=True)
    compiled = kernel_store.counters["compiles"] + kernel_store.counters["disk_hits"]
    chosen_from(NUMPY)
    run("nn.dense", [x, x], implementation="blas", jit=True)
    assert kernel_store.counters["compiles"] + kernel_store.counters["disk_hits"] == compiled
