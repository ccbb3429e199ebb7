"""Operators that create tensors from a shape, or from three scalars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....declarations.frozen_dataclass import frozen
from ...core.compute import Cast, Scalar, Value, apply, cast
from ...core.dtype_rules import NUMBERS, from_attr, known_dtype, require_same
from ...core.op import Op, OpPattern, TypeRelError
from ...core.parameters import Parameter, Parameters
from ...core.tensor_types import computed_in
from .elementwise import one, zero


@frozen
class FullAttrs:
    """``shape``: shape of the result; ``dtype``: dtype of the result, "" for the dtype of ``fill_value``."""

    shape: tuple[int, ...]
    dtype: str = ""


@frozen
class InitAttrs:
    """``shape`` and ``dtype`` of the result."""

    shape: tuple[int, ...]
    dtype: str = "float32"


@frozen
class ArangeAttrs:
    """``dtype``: dtype of the result and of all three inputs."""

    dtype: str = "float32"


def full_dtype(name: str, fill: str, dtype: str) -> str:
    """The dtype of ``full`` with a scalar of dtype ``fill``.  Raises TypeRelError."""
    return known_dtype(name, dtype) if dtype else fill


def fill_element(inputs: tuple[Value, ...], axes: tuple[Scalar, ...], attrs: Any, output: Value) -> Scalar:
    """The ``compute`` of a constant tensor: every element is the first input, a scalar."""
    return cast(inputs[0](), output.dtype)


def zero_element(inputs: tuple[Value, ...], axes: tuple[Scalar, ...], attrs: Any, output: Value) -> Scalar:
    """The ``compute`` of zeros."""
    return zero(output.dtype)


def one_element(inputs: tuple[Value, ...], axes: tuple[Scalar, ...], attrs: Any, output: Value) -> Scalar:
    """The ``compute`` of ones."""
    return one(output.dtype)


def _arange_dtype(inputs: tuple[Any, ...], attrs: ArangeAttrs) -> str:
    names = ("start", "stop", "step")
    dtype = known_dtype("arange", attrs.dtype, NUMBERS)
    if require_same("arange", inputs, range(3), names) != dtype:
        raise TypeRelError(f"arange: the inputs are {inputs[0]} but dtype={dtype!r}; they must be the same", input=0)
    return dtype


def _arange(inputs: tuple[Value, ...], axes: tuple[Scalar, ...], attrs: ArangeAttrs, output: Value) -> Scalar:
    # each input is a scalar, or a vector of one element
    start, step = (x(*(0,) * x.rank) for x in (inputs[0], inputs[2]))
    # a cast to float16 or bfloat16 would round the index
    dtype = computed_in(output.dtype)
    number = axes[0] if dtype == "int64" else Cast(axes[0], dtype)
    return start + apply("multiply", number, step, dtype=output.dtype)


def _arange_call(given: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """A single argument is ``stop``; the step is 1 by default."""
    start, stop, step = given["start"], given["stop"], given["step"]
    if stop is None:
        start, stop = 0, start
    return "arange", {**given, "start": start, "stop": stop, "step": 1 if step is None else step}


Op(
    name="full",
    doc="A tensor filled with a scalar: `full(7, shape=[2]) = [7, 7]`.",
    inputs=("fill_value",),
    python=Parameters.of("fill_value", Parameter("shape", ()), "dtype"),
    attrs=FullAttrs,
    pattern=OpPattern.INJECTIVE,
    dtype=lambda inputs, attrs: full_dtype("full", inputs[0], attrs.dtype),
    compute=fill_element,
)
Op(
    name="zeros",
    doc='Zeros: `zeros(shape=[2], dtype="int32") = [0, 0]`.',
    inputs=(),
    attrs=InitAttrs,
    pattern=OpPattern.INJECTIVE,
    dtype=from_attr("zeros"),
    compute=zero_element,
)
Op(
    name="ones",
    doc='Ones: `ones(shape=[2], dtype="int32") = [1, 1]`.',
    inputs=(),
    attrs=InitAttrs,
    pattern=OpPattern.INJECTIVE,
    dtype=from_attr("ones"),
    compute=one_element,
)
Op(
    name="arange",
    doc='`start, start + step, ...` below `stop`: `arange(0, 5, 2, dtype="int32") = [0, 2, 4]`.',
    inputs=("start", "stop", "step"),
    python=Parameters.of(
        Parameter("start", dtype="dtype"),
        Parameter("stop", None, dtype="dtype"),
        Parameter("step", None, dtype="dtype"),
        "dtype",
        call=_arange_call,
    ),
    attrs=ArangeAttrs,
    pattern=OpPattern.INJECTIVE,
    dtype=_arange_dtype,
    compute=_arange,
)
