"""Products of few rows by their own kernel on the emulated GPU, against numpy: rows, sizes, dtypes, odd numbers, any grid."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from relayvm.ops.core.dtype_rules import FLOATS
from relayvm.ops.core.tensor_types import numpy_dtype
from relayvm.ops.kernels.matmul import few_rows
from relayvm.ops.kernels.matmul.library_products import Product
from relayvm.shape_funcs.symbolic.dim import const, dim

from ....emulator import emulator
from ....emulator.session import Session
from ..on_gpu import run, source_of, steps_of

if reason := emulator.available():
    pytest.skip(reason, allow_module_level=True)

FEW: dict[str, Any] = {"implementation": "few_rows"}
#: Columns and inner axis; several warps share the inner axis of some, a lane has one pack of others or several.
SIZES = [(0, 3), (3, 0), (1, 1), (5, 7), (8, 4), (20, 256), (130, 33), (36, 516), (4, 1032)]
OPERATORS = ("nn.dense", "nn.matmul")


def stored(operator: str, matrix: np.ndarray) -> np.ndarray:
    """The second argument for a matrix ``[k, n]``."""
    return np.ascontiguousarray(matrix.T) if operator == "nn.dense" else matrix


def small(rng: np.random.Generator, shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
    return rng.integers(-3, 4, shape).astype(numpy_dtype(dtype))


@pytest.mark.split(2)
@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.extensive(dtype=("float32", "float16"))
@pytest.mark.parametrize("dtype", FLOATS)
def test_every_number_of_rows(dtype: str, operator: str) -> None:
    rng = np.random.default_rng(0)
    for m in range(18):
        # three sizes at a time: each meets every kernel
        for n, k in SIZES[m % 3 :: 3]:
            x, w = small(rng, (m, k), dtype), small(rng, (k, n), dtype)
            (result,), status, _ = run(operator, [x, stored(operator, w)], **FEW)
            assert status == 0 and result.dtype == x.dtype
            np.testing.assert_array_equal(result, (x.astype(np.int64) @ w.astype(np.int64)).astype(result.dtype))


@pytest.mark.parametrize("operator", OPERATORS)
def test_which_rows_are_few(operator: str) -> None:
    side = 1 << 10  # of a matrix that just is not too large
    for m, n, k, is_few in (
        (1, 4, 8, True), (16, side, side, True), (17, 8, 64, False),
        (5, side + 4, side, False), (4, side + 4, side, True),  # more elements
        (5, 8, 63, False), (4, 8, 63, True),  # no packs
        (5, 7, 64, operator == "nn.dense"),
        (1, 4, few_rows.LONGEST, True), (1, 4, few_rows.LONGEST + 4, False), (1, 512, few_rows.LONGEST + 4, True),
    ):  # fmt: skip
        product = Product(dim(1), dim(m), dim(n), dim(k), dim(0), dim(0), False, operator == "nn.dense")
        assert const(few_rows.pays("float32", product)) == is_few, (m, n, k)
        assert const(few_rows.pays("float64", product)) == (is_few and m <= 8), (m, n, k)
        assert not const(few_rows.pays("float32", replace(product, transpose_a=True)))


@pytest.mark.parametrize("operator", OPERATORS)
def test_which_rows_of_halves_are_few(operator: str) -> None:
    side, is_dense = 1 << 9, operator == "nn.dense"
    for m, n, k, is_few in (
        (1, 4, 8, True), (8, side, side, True), (9, side, side, False),
        (1, 2 * side, side, is_dense), (8, 2 * side, 2 * side, is_dense), (1, 2 * side + 4, 2 * side, False),
        (8, 5, 7, True),
    ):  # fmt: skip
        product = Product(dim(1), dim(m), dim(n), dim(k), dim(0), dim(0), False, is_dense)
        assert const(few_rows.pays("float16", product)) == is_few, (m, n, k)


def test_halves_with_operators_after_the_product_pay_longer() -> None:
    """A launch is saved: the inner product of BERT-base is within the bound, up to 8 rows."""
    for m, is_few in ((1, True), (8, True), (9, False)):
        product = Product(dim(1), dim(m), dim(3072), dim(768), dim(0), dim(0), False, False)
        assert const(few_rows.pays("bfloat16", product, followed=True)) == is_few
        assert not const(few_rows.pays("bfloat16", product))


def test_many_columns() -> None:
    """A warp has four columns, or four lanes lie side by side."""
    rng = np.random.default_rng(2)
    for operator, n, k in (("nn.dense", 2049, 516), ("nn.matmul", 16388, 12), ("nn.matmul", 1028, 12)):
        for m in (1, 3, 8, 13):
            x, w = small(rng, (m, k)), small(rng, (k, n))
            np.testing.assert_array_equal(run(operator, [x, stored(operator, w)], **FEW).outputs[0], x @ w)


@pytest.mark.parametrize("operator", OPERATORS)
def test_numbers_that_are_none_stay_in_their_row_and_column(operator: str) -> None:
    rng = np.random.default_rng(3)
    for m, n, k in ((3, 21, 44), (7, 24, 260), (16, 12, 36), (2, 5, 3)):
        x, w = small(rng, (m, k)) + np.float32(4), small(rng, (k, n)) + np.float32(4)
        x[1, k - 1], x[0, 0], w[k // 2, n - 1] = np.nan, np.inf, -np.inf
        with np.errstate(invalid="ignore"):
            wanted = x @ w
        np.testing.assert_array_equal(run(operator, [x, stored(operator, w)], **FEW).outputs[0], wanted)


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_error_is_that_of_sums_in_parts(operator: str) -> None:
    rng = np.random.default_rng(4)
    for dtype, k, bound in (("float32", 2048, 2e-6), ("float16", 1024, 1e-3), ("float64", 512, 1e-14)):
        x, w = (rng.standard_normal(shape).astype(dtype) for shape in ((6, k), (k, 12)))
        (result,), _, _ = run(operator, [x, stored(operator, w)], **FEW)
        exact = x.astype(np.float64) @ w.astype(np.float64)
        assert np.abs(result - exact).max() <= bound * np.abs(exact).max()


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_row_has_the_same_bits_among_any_others(operator: str) -> None:
    rng = np.random.default_rng(6)
    for n, k in ((12, 1032), (20, 76), (3, 13)):
        x, w = (rng.standard_normal(shape).astype("f") for shape in ((16, k), (k, n)))
        alone = np.concatenate([run(operator, [x[i : i + 1], stored(operator, w)], **FEW).outputs[0] for i in range(16)])
        for m in (3, 8, 16) if k % 4 == 0 else (3, 4):
            np.testing.assert_array_equal(run(operator, [x[:m], stored(operator, w)], **FEW).outputs[0], alone[:m])


@pytest.mark.parametrize("operator", OPERATORS)
def test_results_are_the_same_bits_for_any_grid(operator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    x, w = (rng.standard_normal(shape).astype("f") for shape in ((7, 520), (520, 44)))
    wanted = run(operator, [x, stored(operator, w)], **FEW).outputs[0]
    launched, grids, case = Session.launch, list[int](), {"most": 1}

    def launch(self: Session, image: bytes, entry: str, grid: Any, *args: Any, **kwargs: Any) -> None:
        grids.append(grid[0])
        launched(self, image, entry, (min(case["most"], grid[0]), *grid[1:]), *args, **kwargs)

    monkeypatch.setattr(Session, "launch", launch)
    for case["most"], schedule in ((1, 0), (3, 1), (1 << 30, 2)):
        np.testing.assert_array_equal(run(operator, [x, stored(operator, w)], schedule=schedule, **FEW).outputs[0], wanted)
    assert min(grids) > 3


def test_known_sizes_leave_one_kernel() -> None:
    def steps(m: int, n: int, k: int, **attributes: Any) -> list[str]:
        given = [np.empty((m, k), "f"), np.empty((n, k), "f")]
        return steps_of(source_of("nn.dense", given, static=True, **attributes).steps)

    assert steps(1, 256, 256, **FEW)[:1] == ["few_rows_1_1"] and steps(7, 1024, 512, **FEW)[:1] == ["few_rows_8_4"]
    assert all("few_rows" not in s for s in steps(17, 256, 256, implementation="lt"))
