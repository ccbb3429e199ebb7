"""Matrix products of a machine by cuBLASLt: its table of algorithms, graphs, views, the products without an algorithm."""

from __future__ import annotations

import gc
from collections.abc import Callable

import numpy as np
import pytest

from relayvm.ops.kernels.conv import cuda as conv

from ..emulator import emulator
from .machines import gpu, machine  # noqa: F401  the fixture is used by every test

pytestmark = pytest.mark.skipif(emulator.available() is not None, reason=str(emulator.available()))

LT = {"impl.nn.dense": "lt", "impl.nn.matmul": "lt"}
DENSE = "def @main(%x: Tensor[(?m, ?n), float32], %w: Tensor[(?n, ?n), float32]) { nn.dense(nn.dense(%x, %w), %w) }"


def matrices(m: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(m + n)
    return rng.integers(-3, 4, (m, n)).astype("f"), rng.integers(-3, 4, (n, n)).astype("f")


@pytest.mark.parametrize("graphs", ["off", "on", "auto"])
@pytest.mark.parametrize("no_algorithm", [0, 1])
def test_an_algorithm_is_chosen_once_for_sizes_and_alignment(graphs: str, no_algorithm: int) -> None:
    vm = machine(DENSE, graphs=graphs, **LT)
    emulator.set("no_algorithm", no_algorithm)
    for m, n in ((0, 4), (4, 0), (1, 1), (3, 5), (20, 17), (3, 5), (20, 17), (3, 5), (20, 17)):
        x, w = matrices(m, n)
        np.testing.assert_array_equal(vm.run(x, w).numpy(), x @ w.T @ w.T)
    # both products are one primitive; a product of no elements or terms is none of the library's
    assert emulator.get("cublasLtMatmulAlgoGetHeuristic") == 3
    assert (emulator.get("cublasLtMatmul") == 0) == bool(no_algorithm)
    assert (emulator.get("cublasGemmStridedBatchedEx") == 0) != bool(no_algorithm)


def test_a_forced_implementation_is_taken() -> None:
    x, w = matrices(3, 5)
    for name, function in (("few_rows", "cuLaunchKernel"), ("lt", "cublasLtMatmul"), ("gemm", "cublasGemmStridedBatchedEx")):
        before = emulator.get(function)
        np.testing.assert_array_equal(machine(DENSE, **{"impl.nn.dense": name}).run(x, w).numpy(), x @ w.T @ w.T)
        assert emulator.get(function) == before + 2


def test_more_sizes_than_the_table_has_rows() -> None:
    vm, rows = machine(DENSE, graphs="on", **LT), 128
    assert vm._runtime.session is not None and vm._runtime.session._products is not None
    vm._runtime.session._products._block["n_rows"] = rows
    for m in [*range(1, rows // 2 + 40), 1, 2, 3]:
        x, w = matrices(m, 2)
        np.testing.assert_array_equal(vm.run(x, w).numpy(), x @ w.T @ w.T)
    assert emulator.get("cublasLtMatrixLayoutDestroy") == 3 * (rows // 2)
    made = emulator.get("cublasLtMatrixLayoutCreate")
    del vm
    gc.collect()
    assert emulator.get("cublasLtMatrixLayoutDestroy") == made
    assert emulator.get("cublasLtMatmulDescDestroy") == emulator.get("cublasLtMatmulDescCreate") > 0


def test_a_view_that_begins_at_an_odd_address() -> None:
    rows = "strided_slice(%x, begin=[1, 0], end=[9, 9])"
    vm = machine(f"def @main(%x: Tensor[(?m, ?n), float32], %w: Tensor[(?, ?), float32]) {{ nn.dense({rows}, %w) }}", **LT)
    for n in (5, 8, 5):
        x, w = matrices(4, n)
        np.testing.assert_array_equal(vm.run(x, w).numpy(), x[1:] @ w.T)


def test_bytes_are_multiplied_in_int32() -> None:
    vm = machine('def @main(%x: Tensor[(?, ?), int8], %w: Tensor[(?, ?), int8]) { nn.dense(%x, %w, out_dtype="int32") }')
    for k, used in ((8, 1), (5, 1), (8, 2)):
        x, w = (np.random.default_rng(k).integers(-128, 128, (4, k)).astype(np.int8) for _ in range(2))
        np.testing.assert_array_equal(vm.run(x, w).numpy(), x.astype(int) @ w.astype(int).T)
        assert emulator.get("cublasLtMatmul") == used


@pytest.mark.parametrize("graphs", ["off", "on"])
@pytest.mark.parametrize("no_algorithm", [0, 1])
def test_a_convolution_in_turns(graphs: str, no_algorithm: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conv, "COLUMN_BYTES", 2 * 4 * 8 * 4 * 16)  # columns of 2 images of 4 x 4
    types = "%x: Tensor[(?, ?, ?, ?), float32], %w: Tensor[(?, ?, ?, ?), float32]"
    # more of the smaller images of the second convolution have room
    vm = machine(f"def @main({types}) {{ nn.conv2d(nn.conv2d(%x, %w), %w) }}", graphs=graphs)
    emulator.set("no_plan", 1)
    emulator.set("no_algorithm", no_algorithm)
    calls, w = 0, np.random.default_rng(0).integers(-3, 4, (8, 8, 2, 2)).astype("f")
    for batch, size in ((1, 5), (5, 5), (5, 5), (4, 3), (0, 5), (5, 5)):
        x = np.random.default_rng(batch).integers(-3, 4, (batch, 8, size, size)).astype("f")
        expected = x
        for _ in range(2):
            windows = np.lib.stride_tricks.sliding_window_view(expected, (2, 2), axis=(2, 3))
            expected = np.einsum("bchwij,ocij->bohw", windows, w)
        np.testing.assert_array_equal(vm.run(x, w).numpy(), expected)
        calls += sum(-(-batch // min(max(2 * 16 // n**2, 1), batch)) for n in (size - 1, size - 2) if batch)
    function = "cublasGemmStridedBatchedEx" if no_algorithm else "cublasLtMatmul"
    replayed = 5 if graphs == "on" else 0  # the third run of 5 images of 5 x 5: 3 turns and 2
    assert emulator.get(function) == calls - replayed == 19 - replayed


@pytest.mark.parametrize("no_algorithm", [0, 1])
@pytest.mark.parametrize(
    ("text", "oracle"),
    [
        ("nn.dense(%x, %w) + %b", lambda x, w, b: x @ w.T + b),
        ("nn.bias_add(nn.matmul(%x, %w), %b)", lambda x, w, b: x @ w + b),
        ("%x + (nn.dense(%x, %w) + %b)", lambda x, w, b: x @ w.T + b + x),
        ("%b + (nn.dense(%x, %w) + %x)", lambda x, w, b: x @ w.T + b + x),
    ],
)
def test_a_bias_and_a_matrix_are_added_by_the_product(no_algorithm: int, text: str, oracle: Callable[..., np.ndarray]) -> None:
    shapes = "%x: Tensor[(?m, ?n), float32], %w: Tensor[(?n, ?n), float32], %b: Tensor[(?n), float32]"
    vm = machine(f"def @main({shapes}) {{ {text} }}", graphs="on", **LT)
    assert len(vm.exe.packed) == 1
    emulator.set("no_algorithm", no_algorithm)
    for m, n in ((0, 4), (1, 1), (3, 5), (20, 17), (3, 5), (20, 17), (3, 5)):
        x, w = matrices(m, n)
        b = np.arange(n, dtype="f")
        np.testing.assert_array_equal(vm.run(x, w, b).numpy(), oracle(x, w, b))
    assert (emulator.get("cublasLtMatmul") == 0) == bool(no_algorithm)


@pytest.mark.parametrize(
    ("text", "oracle"),
    [
        ("nn.relu(nn.dense(%x, %w) + %b)", lambda y, b: np.maximum(y + b, 0)),  # cuBLASLt does not say that NaN stays NaN
        ("nn.dense(%x, %w) * %b", lambda y, b: y * b),
        ("nn.dense(%x, %w) + %c", lambda y, b: y + b),  # one column may be broadcast
        ("(nn.dense(%x, %w) + %b) + %b", lambda y, b: y + b + b),
        ("nn.dense(%x, %w) + 1f", lambda y, b: y + 1),
    ],
)
def test_the_library_adds_nothing_else(text: str, oracle: Callable[..., np.ndarray]) -> None:
    shapes = "%x: Tensor[(?m, ?n), float32], %w: Tensor[(?n, ?n), float32], %b: Tensor[(?n), float32], %c: Tensor[(?k), float32]"
    vm = machine(f"def @main({shapes}) {{ {text} }}")
    x, w = matrices(20, 5)
    x[0, 0] = np.nan
    b = np.arange(5, dtype="f")
    np.testing.assert_array_equal(vm.run(x, w, b, b).numpy(), oracle(x @ w.T, b))
    assert (emulator.get("cublasLtMatmul"), emulator.get("cuLaunchKernel")) == (1, 1)
