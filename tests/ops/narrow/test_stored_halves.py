"""Float32s that a kernel rounds to bfloat16 by fewer instructions: no result changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from relayvm.ops.codegen.cpu.fused_kernel import source
from relayvm.ops.codegen.cpu.stored_halves import is_exact, stored_halves, stored_sums
from relayvm.ops.codegen.loop_nest.expression import APPLY, Cell
from relayvm.ops.codegen.loop_nest.inlining import nests
from relayvm.ops.core.tensor_types import EXACT, SHORT_NANS, Tensor, numpy_dtype
from relayvm.ops.defs.arithmetic.elementwise import CastAttrs, ClipAttrs
from relayvm.ops.defs.axes.reduce import ReduceAttrs

from ...arrays import wide
from ..fused.run_group import call, compiled, one_call
from ..fused.test_fusable_elements import UNARY
from ..fused.test_halves import ANY_WARNING

HALF = numpy_dtype("bfloat16")
EVERY = np.arange(2**16, dtype=np.uint16).view(HALF)
FEW = EVERY[:8]


def known_of(op: str, *arrays: np.ndarray, attrs: Any = None) -> str:
    (known,) = stored_halves(one_call(op, arrays, attrs)).values()
    return known.lstrip("_")


@pytest.mark.parametrize("name", ["abs", "ceil", "floor", "negative", "nn.relu", "rint", "round", "sign", "trunc"])
def test_integers_and_selected_numbers_are_bfloat16s_already(name: str) -> None:
    assert known_of(name, FEW) == EXACT
    assert "array_bfloat16_exact(" in source(one_call(name, [FEW])).text


def test_sums_of_products_have_nans_of_the_operands() -> None:
    half, single, whole = (Tensor(dtype, ()) for dtype in ("bfloat16", "float32", "int32"))
    assert stored_sums([half, half, whole], half) == f"_{SHORT_NANS}"
    assert stored_sums([half, single], half) == stored_sums([half, half], single) == ""


def test_of_two_numbers() -> None:
    assert known_of("maximum", FEW, FEW) == EXACT
    assert [known_of(name, FEW, FEW) for name in ("add", "divide", "floor_divide")] == [SHORT_NANS] * 3
    assert known_of("clip", FEW, attrs=ClipAttrs(-1.0, 0.5)) == EXACT
    assert known_of("clip", FEW, attrs=ClipAttrs(-1.0, 0.1)) == SHORT_NANS  # 0.1 is no bfloat16


@pytest.mark.parametrize(
    ("dtype", "known"), [("bool", EXACT), ("uint8", EXACT), ("int16", EXACT), ("float16", EXACT), ("float32", "")]
)
def test_casts(dtype: str, known: str) -> None:
    """Only the cast of a float32 leaves the rounding to the store; a NaN of it may have bits that a bfloat16 lacks."""
    assert known_of("cast", np.zeros(8, numpy_dtype(dtype)), attrs=CastAttrs("bfloat16")) == known


def test_a_function_of_an_exact_number() -> None:
    (nest,) = nests(one_call("nn.relu", [FEW]))
    cells, exact = nest.cells, nest.element
    assert is_exact(cells, exact)
    away = cells.put(Cell(APPLY, "float32", (exact,), "away_by_almost_half"))
    assert not is_exact(cells, away) and not is_exact(cells, cells.apply("exp", exact))
    assert is_exact(cells, cells.apply("trunc", away)) and not is_exact(cells, cells.apply("negative", away))


@ANY_WARNING
@pytest.mark.parametrize("name", [n for n, (_, dtypes) in UNARY.items() if "float32" in dtypes])
@pytest.mark.extensive(name=["exp", "round", "ceil", "sigmoid", "negative"])
def test_every_number_is_rounded_as_float32_is(name: str) -> None:
    """NaNs of all bits, too."""
    single = call(name, [wide(EVERY)], run=compiled)
    if single.dtype == bool:
        pytest.skip("its results are no floats")
    got, want = call(name, [EVERY], run=compiled), single.astype(HALF)
    nan = np.isnan(wide(want))
    np.testing.assert_array_equal(np.isnan(wide(got)), nan)
    np.testing.assert_array_equal(got.view(np.uint16)[~nan], want.view(np.uint16)[~nan])


@ANY_WARNING
@pytest.mark.parametrize("name", ["add", "multiply", "divide", "maximum", "power"])
def test_nans_of_two_numbers(name: str) -> None:
    nans = EVERY[np.isnan(wide(EVERY))]
    one, other = np.concatenate([nans, np.ones_like(nans)]), np.concatenate([np.full_like(nans, 2), nans])
    want = np.isnan(call(name, [wide(one), wide(other)], run=compiled))
    np.testing.assert_array_equal(np.isnan(wide(call(name, [one, other], run=compiled))), want)


def test_what_is_folded_is_rounded() -> None:
    assert known_of("max", np.zeros((4, 8), HALF), attrs=ReduceAttrs(axis=(1,))) == SHORT_NANS
