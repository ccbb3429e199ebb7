"""What rewrite rules go by: which dtypes hold which, and when a constant is one number."""

from __future__ import annotations

import numpy as np
import pytest

from relayvm.compiler.ir import Constant, Var
from relayvm.compiler.rules.arithmetic_rules import RULES as ARITHMETIC
from relayvm.compiler.rules.arithmetic_rules import holds
from relayvm.compiler.rules.movement_rules import RULES as MOVEMENT
from relayvm.compiler.rules.rewriting import Scope
from relayvm.ops.op import OpPattern
from relayvm.ops.ty import DTYPES, int_range, is_float, numpy_dtype


def _samples(dtype: str) -> np.ndarray:
    """The values of a dtype that are hardest to hold."""
    if dtype == "bool":
        return np.array([False, True])
    if is_float(dtype):
        info = _finfo(dtype)
        hard = [0.0, -0.0, 1.0, float(info.max), float(info.tiny), 1.0 + float(info.eps), float("inf")]
        return np.array(hard, np.float64).astype(numpy_dtype(dtype))
    low, high = int_range(dtype)
    return np.array([low, high, high - 1, 1, 0], numpy_dtype(dtype))


def _finfo(dtype: str) -> np.finfo:
    if dtype == "bfloat16":
        import ml_dtypes

        return ml_dtypes.finfo(dtype)
    return np.finfo(dtype)


@pytest.mark.parametrize("narrow", DTYPES)
@pytest.mark.parametrize("wide", DTYPES)
def test_a_dtype_holds_another_if_all_its_values_come_back(wide: str, narrow: str) -> None:
    values = _samples(narrow)
    with np.errstate(all="ignore"):
        there = values.astype(numpy_dtype(wide))
    assert holds(wide, narrow) == all(_number(a) == _number(b) for a, b in zip(values, there, strict=True))


def _number(value: np.generic) -> int | float:
    """Exactly: whole numbers as Python's."""
    if value.dtype.kind in "iub":
        return int(value)
    real = float(value)
    return int(real) if real.is_integer() else real


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_constant_of_one_number(dtype: str) -> None:
    scope = Scope()
    ones = np.ones((2, 3), numpy_dtype(dtype))
    assert scope.is_all(Constant(ones), 1) and not scope.is_all(Constant(ones), 0)
    mixed = ones.copy()
    mixed[1, 2] = 0
    assert not scope.is_all(Constant(mixed), 1)
    assert not scope.is_all(Constant(ones[:0]), 1), "of nothing nothing is known"
    assert not scope.is_all(Var("x"), 1)
    zero = np.zeros((), numpy_dtype(dtype))
    assert scope.is_all(Constant(zero), 0)
    if is_float(dtype):
        assert not scope.is_all(Constant(zero), -0.0) and scope.is_all(Constant(-zero), -0.0)
        assert not scope.is_all(Constant(-zero), 0)


def test_rules_are_of_operators_that_programs_call() -> None:
    found = (*ARITHMETIC.operators, *MOVEMENT.operators)
    assert len(found) > 40 and len(set(found)) == len(found), "no operator has rules in both files"
    assert all(op.pattern <= OpPattern.RESHAPE for op in found)
