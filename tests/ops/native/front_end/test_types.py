"""The types of results are numba's, for every operator and every pair of types."""

from __future__ import annotations

import ast
import itertools
import math
import operator
from collections.abc import Callable
from typing import Any

import pytest
from llvmlite import ir
from numba import types
from numba.core.registry import cpu_target

from relayvm.ops.native.front_end.math_functions import number_function
from relayvm.ops.native.front_end.values.machine_types import (
    Type,
    Value,
    arithmetic_type,
    is_number,
    joined_type,
    llvm_parts,
    quotient_type,
    scalar_type,
    shift_type,
)
from relayvm.ops.native.front_end.values.scalars import unary

NAMES = ("bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)), "float32", "float64")


def numbas(name: str) -> Any:
    return types.boolean if name == "bool" else getattr(types, name)


def ours(kind: Any) -> Type:
    return scalar_type(str(kind))


@pytest.fixture(scope="module")
def context() -> Any:
    made = cpu_target.typing_context
    made.refresh()
    return made


@pytest.mark.parametrize(
    ("function", "rule"),
    [
        (operator.add, arithmetic_type),
        (operator.mul, arithmetic_type),
        (operator.floordiv, arithmetic_type),
        (operator.mod, arithmetic_type),
        (operator.truediv, quotient_type),
        (operator.lshift, lambda a, b: shift_type(a)),
    ],
    ids=["add", "multiply", "floordiv", "mod", "divide", "shift"],
)
def test_of_two_numbers(context: Any, function: Callable[..., Any], rule: Callable[[Type, Type], Type]) -> None:
    for a, b in itertools.product(NAMES, repeat=2):
        if function is operator.lshift and "float" in a + b:
            continue
        if {a, b} == {"uint16", "float32"}:
            continue  # float64 by numba, float32 by NumPy and here
        resolved = context.resolve_function_type(function, (numbas(a), numbas(b)), {}).return_type
        assert rule(scalar_type(a), scalar_type(b)) == ours(resolved), (a, b)


def test_of_a_variable_of_two_types(context: Any) -> None:
    for a, b in itertools.product(NAMES, repeat=2):
        assert joined_type(scalar_type(a), scalar_type(b)) == ours(context.unify_types(numbas(a), numbas(b))), (a, b)


@pytest.mark.parametrize("function", [math.exp, math.floor, operator.neg])
def test_of_one_number(context: Any, function: Callable[..., Any]) -> None:
    for name in NAMES:
        kind = scalar_type(name)
        assert is_number(kind)
        made = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), llvm_parts(kind)), "f")
        builder, given = ir.IRBuilder(made.append_basic_block()), Value(kind, tuple(made.args))
        emit = number_function(function)
        result = emit(builder, [given]) if emit else unary(builder, ast.USub, given)
        assert result.type == ours(context.resolve_function_type(function, (numbas(name),), {}).return_type), name
