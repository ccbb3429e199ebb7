"""Values that are known at compile time: compute with them, call functions with them, make values of the results."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir

from .machine_types import INT64, Boolean, Known, Static, Tuple, Value, items, known, tuple_of
from .scalars import Outside

_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.LShift: operator.lshift, ast.RShift: operator.rshift, ast.BitAnd: operator.and_, ast.BitOr: operator.or_,
    ast.BitXor: operator.xor, ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert, ast.Not: operator.not_,
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}  # fmt: skip
#: Python's functions that have static results.
_FUNCTIONS = (min, max, abs, int, bool)


def known_word(value: Value) -> int | bool | None:
    """The value of a static value or of an integer literal; None for any other value."""
    if isinstance(value.type, Known):
        return bool(value.type.value) if isinstance(value.type.kind, Boolean) else value.type.value
    part = value.parts[0] if value.type == INT64 else None
    return part.constant if isinstance(part, ir.Constant) and isinstance(part.constant, int) else None


def folded(function: Any, *values: Value) -> Value | None:
    """The result of an operator or a function of static values and literals, computed now.

    None if an argument is neither static nor a literal, or if no argument is static.
    """
    for value in values:
        if isinstance(value.type, Known):
            break
    else:
        return None
    words = [known_word(value) for value in values]
    compute = function if isinstance(function, type(min)) or function in (int, bool) else _OPERATORS.get(function)
    if compute is None or (compute is function and function not in _FUNCTIONS) or None in words:
        return None
    try:
        return known(compute(*words))
    except (ArithmeticError, ValueError) as error:
        raise Outside(f"{error} in a static value") from None


def given(value: Value) -> Any:
    """The Python object of an argument of a function that the compiler calls."""
    if isinstance(value.type, Static):
        return value.type.value
    if isinstance(value.type, Tuple):
        return tuple(map(given, items(value)))
    word = known_word(value)
    if word is None:
        raise Outside(f"{value.type} instead of a static value")
    return word


def static(thing: Any) -> Value:
    """The value of an integer, a truth value, or a tuple of such that the compiler has computed."""
    if isinstance(thing, tuple):
        return tuple_of([static(each) for each in thing], getattr(thing, "_fields", ()))
    return known(thing)
