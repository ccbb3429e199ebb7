"""Inputs of a run: read from files, written on the command line, or random values of the parameter's type from a seed."""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from ...declarations.frozen_dataclass import frozen
from ...ops.core.similar_names import did_you_mean
from ...ops.core.tensor_types import (
    DTYPES,
    TensorType,
    TupleType,
    Type,
    dim_text,
    int_range,
    is_float,
    is_integer,
    numpy_dtype,
)
from ...shape_funcs.symbolic.dim import SYM, Dim, const
from ...vm.bytecode.executable import VMFunction
from ...vm.diagnostics import codes
from ...vm.diagnostics.source import Diagnostic, InputError
from .array_files import read_array
from .random_inputs import Range, allocated, draw
from .threaded_making import Making

#: The forms of ``--input``, for messages.
FORMS = "NAME=@file.npy, NAME=@file.npz:key, NAME=float32[2,3]=1.5 or, for a scalar, NAME=1.5"
_FILLED = re.compile(r"([a-z]+\d*)(?:\[([^\]]*)\])?=(.*)", re.DOTALL)
#: The source of a size that a given value has.
_VALUE = "a value"
#: The number of drawn elements from which threads draw: numpy takes some 10 ns an element.
_MANY_NUMBERS = 1 << 18


@frozen
class Wanted:
    """The inputs as the command line gives them: ``dims`` by name, the others by parameter (``x``, in a tuple ``x.0``).

    Other inputs are random, from ``seed`` and the input's name: an input that is given does not change the other inputs.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    dims: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0
    ranges: Mapping[str, Range] = field(default_factory=dict)


class InputSyntaxError(ValueError):
    """An option's text in none of the option's forms."""


# ---- the texts of options ------------------------------------------------------------------------------------------------


def split_option(text: str, form: str) -> tuple[str, str]:
    """``NAME=rest``.  Raises InputSyntaxError."""
    name, equals, rest = text.partition("=")
    name = name.strip().removeprefix("%")
    if not (equals and name and rest):
        raise InputSyntaxError(f"{text!r} is not of the form {form}")
    return name, rest


def parse_shape(text: str) -> tuple[int, ...]:
    """``5,4`` as sizes; an empty text is the shape of a scalar.  Raises InputSyntaxError."""
    parts = text.strip().removesuffix(",").split(",") if text.strip() else []
    try:
        sizes = tuple(int(part) for part in parts)
    except ValueError:
        raise InputSyntaxError(f"{text!r} is not a shape such as 5,4") from None
    if any(n < 0 for n in sizes):
        raise InputSyntaxError(f"a size cannot be negative: {text!r}")
    return sizes


def parse_input(text: str) -> tuple[str, Any]:
    """``NAME=VALUE`` as the name and the value: an array, or a Python number for a scalar of the parameter's own dtype.

    Raises InputSyntaxError for another form, InputError for a file that cannot be used.
    """
    name, rest = split_option(text, FORMS)
    if rest.startswith("@"):
        return name, read_array(f"--input {name}", rest[1:])
    filled = _FILLED.fullmatch(rest)
    if filled is None:
        return name, _number(rest, text)
    dtype, sizes, value = filled.groups()
    if dtype not in DTYPES:
        raise InputSyntaxError(f"{dtype!r} in {text!r} is no dtype; valid: {', '.join(DTYPES)}")
    return name, _filled(name, dtype, parse_shape(sizes or ""), value, text)


def _number(text: str, option: str) -> Any:
    """A number or bool in Python's or Relay's notation."""
    words = {"true": True, "false": False, "inf": math.inf, "-inf": -math.inf, "nan": math.nan}
    if text.strip().lower() in words:
        return words[text.strip().lower()]
    with contextlib.suppress(ValueError):
        return int(text, 0)
    with contextlib.suppress(ValueError):
        if math.isfinite(value := float(text)):
            return value
    raise InputSyntaxError(f"{option!r} is not of the form {FORMS}")


def _filled(name: str, dtype: str, shape: tuple[int, ...], text: str, option: str) -> np.ndarray:
    """An array from its elements' text: one value for all elements, or one value per element."""
    values = [_cast(name, _number(t, option), dtype) for t in text.split(",")]
    count = math.prod(shape)
    if len(values) not in (1, count):
        raise InputError(
            f"--input {name}: {len(values)} values for the {count} elements of {TensorType.of(shape, dtype)}",
            help="give one value for all elements, or one for each",
        )
    array = np.array(values, numpy_dtype(dtype))
    filled: np.ndarray = allocated(
        name, lambda: np.full(shape, array[0]) if len(values) == 1 else array.reshape(shape), shape, dtype
    )
    return filled


def _cast(name: str, value: Any, dtype: str) -> Any:
    """The number as an element of ``dtype``.  Raises InputError if ``dtype`` cannot represent the number."""
    if dtype == "bool" and value in (0, 1):
        return bool(value)
    if is_integer(dtype) and not isinstance(value, float) and int_range(dtype)[0] <= value <= int_range(dtype)[1]:
        return int(value)
    if is_float(dtype) and ((isinstance(value, float) and not math.isfinite(value)) or _is_finite_in(dtype, value)):
        return float(value)
    raise InputError(f"--input {name}: {dtype} cannot hold {value!r}")


def _is_finite_in(dtype: str, value: float) -> bool:
    with contextlib.suppress(OverflowError), np.errstate(over="ignore"):
        return math.isfinite(np.array(float(value)).astype(numpy_dtype(dtype)))
    return False


# ---- all inputs of a function -------------------------------------------------------------------------------------------------


def make_inputs(function: VMFunction, wanted: Wanted) -> tuple[Any, ...]:
    """The arguments of ``function``, in order.  Raises as ``begin_inputs`` and its result."""
    return begin_inputs(function, wanted)()


def begin_inputs(function: VMFunction, wanted: Wanted) -> Callable[[], tuple[Any, ...]]:
    """Begin to make the arguments of ``function``; the result waits for them and returns them, in order.

    Raises InputError: for a name that the function does not have, and for every size that is neither given nor implied.  The
    result raises InputError for values that cannot be made.
    """
    leaves = [leaf for name, ty in function.params for leaf in _leaves(name, ty, function)]
    _check_names(function, leaves, wanted)
    wanted = replace(wanted, values=_defaults(function, wanted) | dict(wanted.values))
    sizes = _Sizes(function, wanted)
    for name, ty in leaves:
        if name in wanted.shapes:
            sizes.take_shape(name, ty, wanted.shapes[name])
    for name, ty in leaves:
        if isinstance(value := wanted.values.get(name), np.ndarray) and value.ndim == ty.rank:
            sizes.take_value(name, ty, value.shape)
    missing = [d for name, ty in leaves if name not in wanted.values for d in sizes.missing(name, ty)]
    if missing:
        raise InputError(missing)
    made = _begun(leaves, wanted, sizes)

    def wait() -> tuple[Any, ...]:
        tensors = dict(zip((name for name, _ in leaves), made(), strict=True))
        return tuple(_assembled(name, ty, tensors) for name, ty in function.params)

    return wait


def _defaults(function: VMFunction, wanted: Wanted) -> dict[str, Any]:
    """The values of the parameters that have a default, unless another value is asked for."""
    last = function.params[len(function.params) - len(function.defaults) :]
    found = {name: value for (name, _), value in zip(last, function.defaults, strict=True)}
    return {name: value for name, value in found.items() if name not in wanted.shapes and name not in wanted.ranges}


def _begun(leaves: Sequence[tuple[str, TensorType]], wanted: Wanted, sizes: _Sizes) -> Callable[[], list[Any]]:
    """Begin to make the tensors.  Threads share much work, with the same result: each tensor has its own generator."""

    def make(leaf: tuple[str, TensorType]) -> Any:
        return _leaf(*leaf, wanted, sizes)

    drawn = sum(math.prod(sizes.shape(ty)) for name, ty in leaves if name not in wanted.values)
    if drawn < _MANY_NUMBERS:
        return lambda: list(map(make, leaves))
    return Making(make, leaves, os.cpu_count() or 1).values


def _leaves(name: str, ty: Type, function: VMFunction) -> list[tuple[str, TensorType]]:
    """The tensors of a parameter: the parameter itself, or ``x.0``, ``x.1`` of a tuple."""
    if isinstance(ty, TensorType):
        return [(name, ty)]
    if isinstance(ty, TupleType):
        return [leaf for i, f in enumerate(ty.fields) for leaf in _leaves(f"{name}.{i}", f, function)]
    raise InputError(
        f"@{function.name} takes a function as %{name}: only the program itself can call it", help="choose another --entry"
    )


def _assembled(name: str, ty: Type, made: Mapping[str, Any]) -> Any:
    if isinstance(ty, TupleType):
        return tuple(_assembled(f"{name}.{i}", f, made) for i, f in enumerate(ty.fields))
    return made[name]


def _check_names(function: VMFunction, leaves: Sequence[tuple[str, TensorType]], wanted: Wanted) -> None:
    names = [name for name, _ in leaves]
    listed = ", ".join(f"%{n}: {t}" for n, t in leaves) or "none"
    for given in (*wanted.values, *wanted.shapes, *wanted.ranges):
        if given not in names:
            guess = did_you_mean(given, names)
            raise InputError(
                f"@{function.name} has no parameter %{given}{guess}", help=f"its parameters: {listed}", code=codes.Input.ARGUMENTS
            )
    for given in wanted.ranges:
        if given in wanted.values:
            raise InputError(f"--range {given} is for a drawn input, but --input gives %{given}", help="leave one of them out")
    dims = sorted({_name(d) for _, t in leaves for d in t.shape} - {""})
    for given in wanted.dims:
        if given not in dims:
            named = f"its named dimensions: {', '.join(f'?{d}' for d in dims)}" if dims else f"its parameters: {listed}"
            raise InputError(
                f"@{function.name} has no dimension ?{given}{did_you_mean(given, dims)}", help=named, code=codes.Input.ARGUMENTS
            )


def _name(d: Dim) -> str:
    """The name of a dimension in the program; empty for a dimension without a name."""
    text = dim_text(d)
    return text[1:] if d.op == SYM else ""


class _Sizes:
    """Known sizes of symbolic dimensions, each with its source (an option or a value)."""

    def __init__(self, function: VMFunction, wanted: Wanted) -> None:
        self.function = function
        self.known: dict[Dim, tuple[int, str]] = {}
        for _, ty in (leaf for name, t in function.params for leaf in _leaves(name, t, function)):
            for d in ty.shape:
                if _name(d) in wanted.dims:
                    self.known[d] = (wanted.dims[_name(d)], f"--dim {_name(d)}={wanted.dims[_name(d)]}")

    def take_shape(self, name: str, ty: TensorType, shape: tuple[int, ...]) -> None:
        """Add the sizes of ``--shape``.  Raises InputError if they contradict the type or a known size."""
        flag = f"--shape {name}={','.join(map(str, shape))}"
        if len(shape) != ty.rank:
            raise InputError(
                f"{flag} is of rank {len(shape)}, but %{name} has rank {ty.rank}",
                help=f"%{name} is declared {ty}",
                code=codes.Input.TYPE,
            )
        for axis, (d, n) in enumerate(zip(ty.shape, shape, strict=True)):
            fixed = const(d)
            if fixed is not None and fixed != n:
                raise InputError(
                    f"{flag}: axis {axis} of %{name} is {fixed}, not {n}", help=f"%{name} is declared {ty}", code=codes.Input.TYPE
                )
            if fixed is None and self.known.setdefault(d, (n, flag))[0] != n:
                before, source = self.known[d]
                raise InputError(
                    f"{dim_text(d)} has two sizes: {before} by {source}, {n} by {flag}",
                    help="leave one of them out",
                    code=codes.Input.SIZES,
                )

    def take_value(self, name: str, ty: TensorType, shape: tuple[int, ...]) -> None:
        """Add the sizes of a given value.  Raises InputError if an option gave another size.

        The machine checks later that values fit their types and each other.
        """
        for axis, (d, n) in enumerate(zip(ty.shape, shape, strict=True)):
            if const(d) is not None:
                continue
            before, source = self.known.setdefault(d, (n, _VALUE))
            if before != n and source is not _VALUE:
                raise InputError(
                    f"{dim_text(d)} has two sizes: {before} by {source}, {n} by axis {axis} of the value of %{name}",
                    help=f"leave {source} out, or give %{name} a value of that size",
                    code=codes.Input.SIZES,
                )

    def missing(self, name: str, ty: TensorType) -> list[Diagnostic]:
        """One diagnostic for a tensor with unknown sizes, else none."""
        unknown = [d for d in ty.shape if const(d) is None and d not in self.known]
        if not unknown:
            return []
        example = ",".join(str(const(d)) if const(d) is not None else "SIZE" for d in ty.shape)
        options = [f"--dim {_name(d)}=SIZE" for d in dict.fromkeys(unknown) if _name(d)]
        if not all(_name(d) for d in unknown):
            options = [f"--shape {name}={example}"]
        axes = ", ".join(f"axis {axis} ({dim_text(d)})" for axis, d in enumerate(ty.shape) if d in unknown)
        return [
            Diagnostic(
                f"@{self.function.name}: no value for %{name}: {ty}; to draw one, sizes must be known: {axes}",
                help=f"give {' and '.join(options)}, or the value: --input {name}=@file.npy",
                code=codes.Input.ARGUMENTS,
            )
        ]

    def shape(self, ty: TensorType) -> tuple[int, ...]:
        """The sizes of a tensor without unknown sizes."""
        return tuple(self.known[d][0] if (n := const(d)) is None else n for d in ty.shape)


def _leaf(name: str, ty: TensorType, wanted: Wanted, sizes: _Sizes) -> Any:
    """One tensor: the given value, else random values."""
    if name not in wanted.values:
        return draw(name, ty.dtype, sizes.shape(ty), wanted.seed, wanted.ranges.get(name))
    value = wanted.values[name]
    if isinstance(value, (bool, int, float)):
        return np.array(_cast(name, value, ty.dtype), numpy_dtype(ty.dtype))
    return value
