"""Shared dtype rules of operators: accepted input dtypes and the dtype of the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .op import DTypeRule, TypeRelError
from .tensor_types import DTYPES, is_float, is_integer

FLOATS = tuple(d for d in DTYPES if is_float(d))
INTEGERS = tuple(d for d in DTYPES if is_integer(d))
SIGNED = tuple(d for d in INTEGERS if not d.startswith("u"))
NUMBERS = FLOATS + INTEGERS
BOOL = ("bool",)
INTEGRAL = INTEGERS + BOOL
#: Dtypes of 8 bits that are multiplied to int32.
BYTES = ("uint8", "int8")
#: Dtypes of index tensors.
INDICES = ("int32", "int64")


def require(name: str, dtype: str, supported: Sequence[str], input: int | None, what: str) -> None:
    """Raise TypeRelError unless ``dtype``, the dtype of ``what``, is in ``supported``."""
    if dtype not in supported:
        raise TypeRelError(
            f"{name}: {what} is {dtype}; supported: {', '.join(supported)}", input=input, help="convert it with `cast`"
        )


def require_same(name: str, inputs: Sequence[str], numbers: Sequence[int], names: Sequence[str]) -> str:
    """The common dtype of the inputs at the positions ``numbers``.  Raises TypeRelError if they differ."""
    first = numbers[0]
    for n in numbers[1:]:
        if inputs[n] != inputs[first]:
            raise TypeRelError(
                f"{name}: {names[first]} is {inputs[first]} but {names[n]} is {inputs[n]}; they must have one dtype",
                input=n,
                help="convert one of them with `cast`",
            )
    return inputs[first]


def known_dtype(name: str, dtype: str, supported: Sequence[str] = DTYPES) -> str:
    """``dtype``, the attribute of operator ``name``.  Raises TypeRelError if it is not in ``supported``."""
    if dtype not in supported:
        raise TypeRelError(f"{name}: dtype={dtype!r} is not a dtype it gives; valid: {', '.join(supported)}")
    return dtype


def one_of(name: str, attribute: str, value: Any, valid: Sequence[Any]) -> None:
    """Raise TypeRelError unless the attribute's value is one of ``valid``."""
    if value not in valid:
        raise TypeRelError(f"{name}: {attribute}={value!r} is not valid; valid: {', '.join(map(repr, valid))}")


def like_inputs(name: str, names: Sequence[str], supported: Sequence[str] = DTYPES, result: str | None = None) -> DTypeRule:
    """Rule: all inputs have the same dtype out of ``supported``; so has the result, unless ``result`` states its dtype."""

    def rule(inputs: tuple[Any, ...], attrs: Any) -> str:
        dtype = require_same(name, inputs, range(len(names)), names)
        require(name, dtype, supported, 0, names[0])
        return result or dtype

    return rule


def like_first(name: str, names: Sequence[str], others: dict[int, Sequence[str]] | None = None) -> DTypeRule:
    """Rule: the result has the dtype of the first input; ``others`` maps positions of inputs to their accepted dtypes."""

    def rule(inputs: tuple[Any, ...], attrs: Any) -> str:
        for n, supported in (others or {}).items():
            require(name, inputs[n], supported, n, names[n])
        dtype: str = inputs[0]
        return dtype

    return rule


def like_fields(name: str) -> DTypeRule:
    """Rule: the only input is a tuple whose fields have the same dtype; so has the result."""

    def rule(inputs: tuple[Any, ...], attrs: Any) -> str:
        fields = inputs[0]
        if not fields:
            raise TypeRelError(f"{name}: the tuple is empty; it needs at least one tensor", input=0)
        for n, dtype in enumerate(fields):
            if dtype != fields[0]:
                raise TypeRelError(
                    f"{name}: field 0 is {fields[0]} but field {n} is {dtype}; they must have one dtype",
                    input=0,
                    help="convert one of them with `cast`",
                )
        first: str = fields[0]
        return first

    return rule


def from_attr(name: str) -> DTypeRule:
    """Rule: the result has the dtype of the attribute ``dtype``."""
    return lambda inputs, attrs: known_dtype(name, attrs.dtype)
