"""Products of few rows in a machine: sums in the same launch, views, graphs, more rows in the same program."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ..emulator import emulator
from .machines import gpu, machine  # noqa: F401  the fixture is used by every test

pytestmark = pytest.mark.skipif(emulator.available() is not None, reason=str(emulator.available()))

LIBRARY = ("cublasLtMatmul", "cublasGemmStridedBatchedEx")


def calls() -> tuple[int, int]:
    """Kernels launched, and products of libraries."""
    return emulator.get("cuLaunchKernel"), sum(map(emulator.get, LIBRARY))


@pytest.mark.split(2)
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize(
    ("text", "oracle"),
    [
        ("nn.dense(%x, %w)", lambda x, w, b: x @ w.T),
        ("nn.dense(%x, %w) + %b", lambda x, w, b: x @ w.T + b),
        ("nn.bias_add(nn.matmul(%x, %w), %b)", lambda x, w, b: x @ w + b),
        ("%x + (nn.dense(%x, %w) + %b)", lambda x, w, b: x @ w.T + b + x),
        ("%b + (nn.matmul(%x, %w) + %x)", lambda x, w, b: x @ w + b + x),
        ("nn.matmul(%x, %w) + %x", lambda x, w, b: x @ w + x),
    ],
)
def test_sums_are_added_by_the_launch_of_the_product(text: str, oracle: Callable[..., np.ndarray], dtype: str) -> None:
    types = f"%x: Tensor[(?m, ?n), {dtype}], %w: Tensor[(?n, ?n), {dtype}], %b: Tensor[(?n), {dtype}]"
    vm = machine(f"def @main({types}) {{ {text} }}", graphs="off")
    assert [p.group.implementation for p in vm.exe.packed] == ["few_rows"]
    rng = np.random.default_rng(0)
    most = 16 if dtype == "float32" else 8
    for m, n in ((0, 4), (1, 1), (3, 5), (most, 8), (20, 8), (7, 12), (1, 8), (4, 0), (18, 9), (4, 9)):
        x, w, b = (rng.integers(-3, 4, s).astype(dtype) for s in ((m, n), (n, n), (n,)))
        kernels, products = calls()
        np.testing.assert_array_equal(vm.run(x, w, b).numpy(), oracle(x, w, b))
        launched, multiplied = calls()[0] - kernels, calls()[1] - products
        assert multiplied == (m > most), (m, n)
        assert m > most or launched == (m * n > 0), (m, n)


def test_addresses_that_no_pack_may_have() -> None:
    shapes = "%x: Tensor[(?), float32], %w: Tensor[(?), float32], %b: Tensor[(?), float32]"
    cut = "reshape(strided_slice({0}, begin=[{1}], end=[{2}]), newshape={3})"
    for begin in (0, 1, 2):
        x, b = cut.format("%x", begin, begin + 48, (6, 8)), cut.format("%b", begin, begin + 48, (6, 8))
        for operator, transposed in (("nn.dense", True), ("nn.matmul", False)):
            w = cut.format("%w", begin, begin + 64, (8, 8))
            vm = machine(f"def @main({shapes}) {{ {operator}({x}, {w}) + {b} }}")
            given = [np.random.default_rng(k).integers(-3, 4, 70).astype("f") for k in range(3)]
            left, right, added = (g[begin : begin + size].reshape(-1, 8) for g, size in zip(given, (48, 64, 48), strict=True))
            _, products = calls()
            wanted = left @ (right.T if transposed else right) + added
            np.testing.assert_array_equal(vm.run(*given).numpy(), wanted)
            assert calls()[1] == products


@pytest.mark.parametrize("graphs", ["on", "auto"])
def test_graphs_of_few_and_of_many_rows(graphs: str) -> None:
    vm = machine("def @main(%x: Tensor[(?m, ?n), float32], %w: Tensor[(?n, ?n), float32]) { nn.dense(nn.dense(%x, %w), %w) }",
                 graphs=graphs)  # fmt: skip
    for m in (2, 30, 2, 2, 30, 30, 5, 2, 30, 0):
        x, w = np.full((m, 8), 2, "f"), np.arange(64, dtype="f").reshape(8, 8)
        np.testing.assert_array_equal(vm.run(x, w).numpy(), x @ w.T @ w.T)


@pytest.mark.split(2)
@pytest.mark.parametrize("no_algorithm", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    ("text", "oracle"),
    [
        ("nn.relu(nn.dense(%x, %w) + %b)", lambda x, w, b: np.maximum(x @ w.T + b, 0)),
        ("nn.relu(nn.matmul(%x, %w)) * %x + %x", lambda x, w, b: np.maximum(x @ w, 0) * x + x),
        ("abs(nn.dense(%x, %w)) + %b * %b", lambda x, w, b: abs(x @ w.T) + b * b),
        ('where(greater(nn.matmul(%x, %w), %x), %x, cast(%b, dtype="DTYPE"))', lambda x, w, b: np.where(x @ w > x, x, b)),
    ],
)
def test_elementwise_operators_are_computed_by_the_launch_of_the_product(
    text: str, oracle: Callable[..., np.ndarray], dtype: str, no_algorithm: int
) -> None:
    types = f"%x: Tensor[(?m, ?n), {dtype}], %w: Tensor[(?n, ?n), {dtype}], %b: Tensor[(?n), {dtype}]"
    vm = machine(f"def @main({types}) {{ {text.replace('DTYPE', dtype)} }}", graphs="off")
    emulator.set("no_algorithm", no_algorithm)
    (primitive,) = vm.exe.packed
    assert primitive.group.implementation == "few_rows"
    rng = np.random.default_rng(0)
    most = 16 if dtype == "float32" else 8
    for m, n in ((0, 4), (1, 1), (3, 5), (most, 8), (20, 8), (7, 12), (1, 8), (18, 9), (4, 9)):
        x, w, b = (rng.integers(-3, 4, s).astype(dtype) for s in ((m, n), (n, n), (n,)))
        if m == 7 or m == 18:
            x[m // 2, n - 1] = np.nan
        kernels, products = calls()
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(vm.run(x, w, b).numpy(), oracle(x, w, b))
        # the library's product is followed by a kernel
        assert (calls()[0] - kernels, calls()[1] - products) == (int(m > 0), int(m > most)), (m, n)


def test_a_product_that_is_read_elsewhere_is_a_primitive_of_its_own() -> None:
    types = "%x: Tensor[(?m, ?n), float32], %w: Tensor[(?n, ?n), float32]"
    x, w = np.full((3, 8), 2, "f"), np.arange(64, dtype="f").reshape(8, 8)
    for text, wanted in (
        ("let %y = nn.dense(%x, %w); (%y, nn.relu(%y))", (x @ w.T, np.maximum(x @ w.T, 0))),
        ("reverse(nn.dense(%x, %w), axis=1)", ((x @ w.T)[:, ::-1],)),
        ("transpose(nn.dense(%x, %w), axes=[1, 0])", ((x @ w.T).T,)),
        ("sum(nn.dense(%x, %w), axis=[1])", ((x @ w.T).sum(1),)),
        ("let %y = nn.dense(%x, %w); %y + reverse(%y, axis=0)", (x @ w.T + (x @ w.T)[::-1],)),
    ):
        vm = machine(f"def @main({types}) {{ {text} }}")
        assert len(vm.exe.packed) == 2
        got = vm.run(x, w)
        for g, want in zip(got if isinstance(got, (tuple, list)) else (got,), wanted, strict=True):
            np.testing.assert_array_equal(g.numpy(), want)
