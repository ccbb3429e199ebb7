"""Predicates of rewrite rules: the dtypes that represent others, and constants with equal elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from relayvm.compiler.ir.expr import Call, Constant, Expr, Var
from relayvm.compiler.rules.arithmetic_rules import RULES as ARITHMETIC
from relayvm.compiler.rules.arithmetic_rules import holds
from relayvm.compiler.rules.movement_rules import RULES as MOVEMENT
from relayvm.compiler.rules.rewriting import Definitions, Rules
from relayvm.ops.core.op import Op, OpPattern, TypeRelError
from relayvm.ops.core.tensor_types import DTYPES, TensorType, int_range, is_float, numpy_dtype
from relayvm.ops.core.type_relation import relate
from relayvm.ops.defs.arithmetic.elementwise import ABS, CAST, CEIL, CLIP, FLOOR, NEGATIVE, ROUND, TRUNC
from relayvm.shape_funcs.symbolic.dim import const

from ...ops.fused.run_group import evaluate, one_call

pytestmark = pytest.mark.many

_ROUNDING = (FLOOR, CEIL, TRUNC, ROUND)
#: The operators that the rules of an operator match in its operand.
_NEIGHBOURS: dict[Op, tuple[Op, ...]] = {ABS: (NEGATIVE,), **dict.fromkeys(_ROUNDING, _ROUNDING)}


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
    scope = Definitions()
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


# ---- every rule against the kernels of the operators -----------------------------------------------------------------


def _telling(dtype: str) -> np.ndarray:
    """Numbers at which rules go wrong, if they do."""
    if dtype == "bool":
        return np.array([False, True])
    if is_float(dtype):
        info = _finfo(dtype)
        numbers: list[Any] = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            -1.5,
            2.5,
            7.0,
            float(info.max),
            -float(info.tiny),
            np.inf,
            -np.inf,
            np.nan,
        ]
    else:
        low, high = int_range(dtype)
        numbers = [low, high, 0, 1, 2, 5, high - 1] if low == 0 else [low, high, 0, 1, -1, 2, -7, 5]
    return np.array(numbers, numpy_dtype(dtype))


class _Program:
    """Values bound one by one, as a rule sees them and as the kernels compute them."""

    def __init__(self) -> None:
        self.scope = Definitions()
        self.arrays: dict[Expr, np.ndarray] = {}

    def given(self, array: np.ndarray, *, constant: bool = False) -> Expr:
        ty = TensorType.of(array.shape, array.dtype.name)
        atom = Constant(array, ty=ty) if constant else Var("x", ty=ty)
        self.arrays[atom] = array
        return atom

    def typed(self, op: Op, args: tuple[Expr, ...], attrs: Any) -> Call | None:
        try:
            ty, checks = relate(op, [a.ty for a in args], attrs, [self.scope.constant(a) for a in args])
        except TypeRelError:
            return None
        return None if checks else Call(op, args, attrs, ty=ty)

    def value(self, value: Call) -> np.ndarray | None:
        """The kernel's result; None where it fails."""
        flat = [a.data if isinstance(a, Constant) else self.arrays[a] for a in value.args]  # a rule may make a constant
        if value.op.pattern is OpPattern.RESHAPE:
            return flat[0].reshape([const(s) for s in value.ty.shape])
        status, outputs = evaluate(one_call(value.op.name, flat, value.attrs, static=True), flat)
        return None if status else outputs[0]

    def bind(self, value: Call) -> Expr | None:
        array = self.value(value)
        if array is None:
            return None
        var = Var("y", ty=value.ty)
        self.scope.values[var], self.arrays[var] = value, array
        return var

    def check(self, call: Call, rules: Rules) -> int:
        """Apply each rule that matches ``call``, and compare its result with the kernels; the number of matching rules."""
        assert isinstance(call.op, Op)
        refused = 0
        for rule in rules.of(call.op):
            new = rule(call, self.scope)
            if new is None:
                continue
            refused += 1
            wanted = self.value(call)
            assert wanted is not None, f"{rule.__name__} takes away a failure"
            if isinstance(new, Call):
                again = self.typed(new.op, new.args, new.attrs)
                assert again is not None and again.ty == call.ty
                got = self.value(again)
            else:
                got = self.arrays[new]
            assert got is not None and got.dtype == wanted.dtype and got.shape == wanted.shape
            where = f"{rule.__name__}: {call.op.name}{[self.arrays[a] for a in call.args]} {call.attrs}: {got}, not {wanted}"
            assert _bits(got) == _bits(wanted), where
        return refused


def _bits(array: np.ndarray) -> list[Any]:
    """Exactly, -0.0 apart from 0.0; every NaN alike."""
    if array.dtype.kind in "iub":
        return array.reshape(-1).tolist()  # type: ignore[no-any-return]
    return [str(v) for v in array.astype(np.float64).reshape(-1)]


def _attrs(op: Op) -> list[Any]:
    if op is CAST:
        return [op.attrs(dtype) for dtype in DTYPES]
    if op is CLIP:
        bounds = (-math.inf, -3.0, 0.5, 5.0)
        return [op.attrs(a, b) for a in bounds for b in bounds if a <= b]
    return [op.attrs()]


UNARY = [op for op in ARITHMETIC.operators if len(op.inputs) == 1]


@pytest.mark.lengthy
@pytest.mark.split(2)
@pytest.mark.extensive(dtype=("float32", "int8", "uint64", "bool"))
@pytest.mark.parametrize("dtype", DTYPES)
def test_rules_of_arithmetic_give_what_the_kernels_give(dtype: str) -> None:
    """Each rule of one, two and three operands: every constant, the same operand twice, and each call inside each other."""
    refused = 0
    for op in ARITHMETIC.operators:
        program = _Program()
        values = _telling(dtype)
        x, truths = program.given(values), np.arange(len(values)) % 2 == 0
        constants = [program.given(np.array([v]), constant=True) for v in values]
        if len(op.inputs) == 2:
            operands: list[tuple[Expr, ...]] = [(x, x), *((x, c) for c in constants), *((c, x) for c in constants)]
            inner = [program.typed(op, (x, c), op.attrs()) for c in constants[:2]]
            operands += [(v, c) for v in (program.bind(i) for i in inner if i is not None) if v is not None for c in constants]
        elif len(op.inputs) == 3:
            conditions = [program.given(truths), *(program.given(np.array([b]), constant=True) for b in (False, True))]
            operands = [(c, *pair) for c in conditions for pair in ((x, x), (x, program.given(values[::-1].copy())))]
        else:
            inner = [program.typed(u, (x,), a) for u in {*UNARY} & {op, *_NEIGHBOURS.get(op, ())} for a in _attrs(u)]
            operands = [(x,), *((v,) for v in (program.bind(i) for i in inner if i is not None) if v is not None)]
        for args in operands:
            for attrs in _attrs(op):
                call = program.typed(op, args, attrs)
                # a kernel that fails is not what a rule is about
                if call is not None and program.value(call) is not None:
                    refused += program.check(call, ARITHMETIC)
    assert refused > 10
