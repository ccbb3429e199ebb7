"""Checks of a call's arguments against a function's parameters: the table of the C-API fast path, and the errors."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...ops.core.similar_names import nearest
from ...ops.core.tensor_types import (
    DTYPES,
    MAX_RANK,
    TensorType,
    TupleType,
    Type,
    dim_text,
    dtype_name,
    is_float,
    is_integer,
    numpy_dtype,
)
from ...ops.native.memory import record
from ...ops.native.object_layout import Record
from ...shape_funcs.symbolic.dim import SYM, Dim, const
from ..bytecode.executable import VMFunction
from ..diagnostics import codes
from ..diagnostics.printable import printable_name
from ..diagnostics.source import InputError, VMError
from . import dlpack

_WORD = np.int64
#: A row of the parameter table.  ``descr``: address of the descr object.  ``numpy_number``, ``float``, ``int``: addresses of the
#: types of numbers that a parameter of rank 0 takes, 0 for none.  ``converted``: a number.  ``around``: number of the
#: row of the tuple around it, -1 for a parameter.  ``field``: number of the field there, or of the parameter.  ``n_fields``: -1
#: for a tensor.  ``value``, ``object``: room for Python's object and for the machine's.  A size is >= 0: fixed, -1: any, -2 - k:
#: equal to every other size with the same k.  A tuple's row is in front of the rows of its fields.
PARAMETER = np.dtype(
    [
        ("descr", _WORD), ("dtype", _WORD), ("rank", _WORD), ("device", _WORD), ("numpy_number", _WORD), ("float", _WORD),
        ("int", _WORD), ("converted", _WORD), ("around", _WORD), ("field", _WORD), ("n_fields", _WORD), ("value", _WORD),
        ("object", _WORD), ("sizes", _WORD, (MAX_RANK,)),
    ]
)  # fmt: skip
PARAMETER_BYTES = PARAMETER.itemsize
assert PARAMETER.fields is not None
SCRATCH_OFFSET = PARAMETER.fields["converted"][1]
parameter_at: Callable[[int], Record] = record(PARAMETER)
#: The byte offset of the value in Python's floats and numpy's numbers.
NUMBER_OFFSET = 16


def named_dims(function: VMFunction) -> dict[Dim, int]:
    """The named dims of the parameters, numbered; all sizes of one named dim must be equal."""
    return {d: i for i, d in enumerate(dict.fromkeys(d for _, t in function.params for d in _dims(t) if d.op == SYM))}


def _dims(ty: Type) -> list[Dim]:
    if isinstance(ty, TupleType):
        return [d for f in ty.fields for d in _dims(f)]
    return list(ty.shape) if isinstance(ty, TensorType) else []


def parameter_table(function: VMFunction, device: int) -> np.ndarray | None:
    """The parameter table of the C-API fast path; None if a parameter is no tensor, and no tuple of tensors and such tuples."""
    numbers, rows = named_dims(function), list[Any]()
    todo = [(ty, function.device_of(i, device), -1, i) for i, (_, ty) in enumerate(function.params)]
    for ty, where, around, field in todo:  # which grows
        row = np.zeros(1, PARAMETER)[0]
        row["around"], row["field"], row["n_fields"] = around, field, -1
        if isinstance(ty, TupleType):
            row["n_fields"] = len(ty.fields)
            todo += [(t, where, len(rows), k) for k, t in enumerate(ty.fields)]
        elif isinstance(ty, TensorType):
            row["descr"], row["dtype"], row["rank"] = id(numpy_dtype(ty.dtype)), DTYPES.index(ty.dtype), ty.rank
            row["device"] = where
            if ty.rank == 0:
                row["numpy_number"], row["float"], row["int"] = _types_of_numbers(ty.dtype)
            for axis, d in enumerate(ty.shape):
                known = const(d)
                row["sizes"][axis] = known if known is not None else (-2 - numbers[d] if d in numbers else -1)
        else:
            return None
        rows.append(row)
    return np.array(rows, PARAMETER)


@functools.cache
def _types_of_numbers(dtype: str) -> tuple[int, int, int]:
    """The addresses of the types of numbers that the fast path takes for a dtype; 0 for a type with another layout."""
    probes: tuple[tuple[Any, bytes, bool], ...] = (
        (numpy_dtype(dtype).type(1), np.ones((), dtype=numpy_dtype(dtype)).tobytes(), True),
        (1.5, np.float64(1.5).tobytes(), dtype in ("float32", "float64")),
    )
    numpy_number, python_float = (
        id(type(value)) if wanted and ctypes.string_at(id(value) + NUMBER_OFFSET, len(content)) == content else 0
        for value, content, wanted in probes
    )
    return numpy_number, python_float, id(int) if dtype in ("float32", "float64", "int32", "int64") else 0


def positional(function: VMFunction, args: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, ...]:
    """The arguments in order.  Raises InputError for an excess, missing, unknown or repeated argument."""
    names = [name for name, _ in function.params]
    if len(args) == len(names) and not named:
        return tuple(args)
    where = f"@{function.name}"
    listed = ", ".join(f"%{n}: {t}" for n, t in function.params) or "none"
    if len(args) > len(names):
        raise InputError(
            f"{where} takes {len(names)} arguments, {len(args)} were given",
            help=f"its parameters: {listed}",
            code=codes.Input.ARGUMENTS,
        )
    given = dict(zip(names, args, strict=False))
    for given_name, value in named.items():
        name = given_name if given_name in names else printable_name(given_name)
        if name not in names:
            hint = nearest(name, names, "{!r}")
            raise InputError(
                f"{where} has no parameter {name!r}{hint}", help=f"its parameters: {listed}", code=codes.Input.ARGUMENTS
            )
        if name in given:
            raise InputError(f"{where}: %{name} is given twice", code=codes.Input.ARGUMENTS)
        given[name] = value
    if function.defaults:
        given = dict(zip(names[-len(function.defaults) :], function.defaults, strict=True)) | given
    missing = [n for n in names if n not in given]
    if missing:
        what = ", ".join(f"%{n}" for n in missing)
        raise InputError(f"{where}: no value for {what}", help=f"its parameters: {listed}", code=codes.Input.ARGUMENTS)
    return tuple(given[n] for n in names)


class ArgumentChecker:
    """Checker of the tensors of one call; all sizes of one named dim must be equal."""

    def __init__(self, function: VMFunction) -> None:
        self.function = function
        #: The first size of each named dim, with its parameter and axis.
        self.sizes: dict[Dim, tuple[int, str, int]] = {}

    def check(self, name: str, ty: TensorType, shape: tuple[int, ...], dtype: str) -> None:
        """Check a tensor's shape and dtype against the parameter's type.  Raises InputError for a mismatch."""
        if dtype != ty.dtype:
            raise InputError(
                f"{self._where(name)} has dtype {dtype}, not {ty.dtype}",
                help=f"%{name} is declared {ty}; convert with .astype",
                code=codes.Input.TYPE,
            )
        if len(shape) != ty.rank:
            raise InputError(
                f"{self._where(name)} has rank {len(shape)}, not {ty.rank}",
                help=f"%{name} is declared {ty}, the value is {TensorType.of(shape, dtype)}",
                code=codes.Input.TYPE,
            )
        for axis, (size, d) in enumerate(zip(shape, ty.shape, strict=True)):
            known = const(d)
            if known is not None and known != size:
                message = f"{self._where(name)} has size {size} on axis {axis}, not {known}"
                help = f"%{name} is declared {ty}, the value is {TensorType.of(shape, dtype)}"
                raise InputError(message, help=help, code=codes.Input.TYPE)
            if d.op != SYM:
                continue
            before, first, its_axis = self.sizes.setdefault(d, (size, name, axis))
            if before != size:
                because = f"{dim_text(d)} is {before} because of %{first} axis {its_axis}"
                message = f"{self._where(name)} has size {size} on axis {axis}, but {dim_text(d)} is {before}"
                raise InputError(message, help=f"{because}; equal names are equal sizes", code=codes.Input.SIZES)

    def _where(self, name: str) -> str:
        return f"@{self.function.name}: %{name}"


#: Remedy for tensors of other devices.
COPY_HELP = "copy it to the host before, as by .cpu(), .get() or numpy.asarray"


def as_array(name: str, value: Any, dtype: str) -> np.ndarray:
    """Convert ``value`` to a C-contiguous, aligned ndarray in native byte order, never a subclass.

    Python's numbers and lists have no dtype: they are converted to ``dtype`` if that keeps their values.  Raises InputError for a
    value that is no tensor, has an unknown dtype or has masked elements; VMError if there is no memory for a copy.
    """
    if not issubclass(type(value), np.ndarray):
        try:
            value = _converted(value, dtype)
        except dlpack.ElsewhereError as error:
            reason = f": {error.reason}" if error.reason else ""
            message = (
                f"%{name}: {type(value).__name__} is on the DLPack device {error.device}, and does not copy itself to the host"
            )
            raise InputError(f"{message}{reason}", help=COPY_HELP, code=codes.Input.TYPE) from None
        except Exception as error:  # converting a foreign object may run its code
            cause = None if isinstance(error, (TypeError, ValueError, BufferError)) else error
            raise InputError(f"%{name}: {type(value).__name__} is no tensor: {error}", code=codes.Input.TYPE) from cause
    if type(value) is not np.ndarray:
        if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
            raise InputError(f"%{name}: elements are masked, and a tensor has no mask", help="fill them: .filled(0)")
        value = np.asarray(value)  # a subclass may override shape, dtype and address
    if dtype_name(value.dtype) not in DTYPES:
        raise InputError(f"%{name} has dtype {value.dtype}", help=f"valid dtypes: {', '.join(DTYPES)}", code=codes.Input.TYPE)
    try:
        return np.require(value, value.dtype if value.dtype.isnative else value.dtype.newbyteorder("="), ["C", "A"])
    except MemoryError:
        raise VMError(f"out of memory: no room for a contiguous copy of %{name}, {value.nbytes} bytes") from None


def _converted(value: Any, dtype: str) -> Any:
    if issubclass(type(value), (bool, int, float, list, tuple)):
        return _as_dtype(np.asarray(value), numpy_dtype(dtype))
    return dlpack.as_array(value) if hasattr(value, "__dlpack__") else np.asarray(value)


def _as_dtype(value: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Convert ``value`` to another dtype if every element keeps its value (a float may be rounded); else ``value`` itself."""
    if value.dtype.kind == "f" and is_float(dtype.name):
        return value.astype(dtype)
    if value.dtype.kind in "iu" and (is_integer(dtype.name) or is_float(dtype.name)):
        with np.errstate(over="ignore"):
            converted = value.astype(dtype)
        return converted if converted.astype(object).tolist() == value.tolist() else value
    return value
