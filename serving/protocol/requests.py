"""An inference request in the form that both transports decode to, and the checks of its tensors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...declarations.frozen_dataclass import frozen
from ...ops.core.tensor_types import ITEMSIZE, numpy_dtype
from ...vm.diagnostics import codes
from ...vm.diagnostics.printable import printable_name
from ...vm.values.signature import ArgumentChecker
from .datatypes import DATATYPE, little_endian
from .limits import Limits
from .refusals import RequestError
from .served_model import ServedModel, TensorSpec


@frozen(eq=False)
class Wanted:
    """A wanted output; ``binary``: whether its elements come as bytes."""

    spec: TensorSpec
    number: int
    binary: bool


@frozen(eq=False)
class InferRequest:
    """A decoded request: one array for each input of the model, in the order of the parameters.

    ``timeout_ms``: the time that the client waits, None: the server's limit.
    """

    id: str
    arguments: tuple[np.ndarray, ...]
    wanted: tuple[Wanted, ...]
    timeout_ms: float | None


class Inputs:
    """The collector of one request's tensors: each input of the model exactly once, within the limits."""

    def __init__(self, model: ServedModel, limits: Limits) -> None:
        self._model, self._limits = model, limits
        self._specs = {spec.name: spec for spec in model.inputs}
        self._checker = ArgumentChecker(model.function)
        self._arrays: dict[str, np.ndarray] = {}

    def admit(self, name: str, datatype: str, shape: Sequence[Any]) -> TensorSpec:
        """The input of this name.  Raises RequestError or InputError for a tensor that does not fit it; allocates nothing."""
        spec = self._specs.get(name) or self._specs.get(printable_name(name))
        if spec is None:
            raise RequestError(
                f"the model {self._model.name} has no input {name!r}", help=f"its inputs: {', '.join(self._specs)}"
            )
        if spec.name in self._arrays:
            raise RequestError(f"the input {name} is given twice")
        if not all(type(n) is int and 0 <= n < 1 << 63 for n in shape):
            raise RequestError(f"the input {name} has an invalid shape", help="a list of sizes, whole numbers of at least 0")
        wanted = DATATYPE[spec.type.dtype]
        if datatype != wanted:
            raise RequestError(f"the input {name} has the datatype {datatype!r}, not {wanted}")
        nbytes = math.prod(n for n in shape if n) * ITEMSIZE[spec.type.dtype]  # numpy has no empty array of other huge sizes
        if nbytes > self._limits.tensor_bytes:
            message = f"the input {name} has {nbytes} bytes, more than the {self._limits.tensor_bytes} of a tensor"
            raise RequestError(message, help="the option --tensor-bytes of the server", code=codes.Serve.LIMIT)
        self._checker.check(name, spec.type, tuple(shape), spec.type.dtype)
        return spec

    def add(self, name: str, array: np.ndarray) -> None:
        """Keep the array of an admitted input."""
        self._arrays[name] = array

    def arguments(self) -> tuple[np.ndarray, ...]:
        """The arrays in the order of the parameters.  Raises RequestError for a missing input that has no default."""
        defaults = self._model.defaults
        if defaults:
            self._arrays = defaults | self._arrays
        missing = [name for name in self._specs if name not in self._arrays]
        if missing:
            raise RequestError(
                f"no data for the input {', '.join(missing)}", help=f"the model's inputs: {', '.join(self._specs)}"
            )
        return tuple(self._arrays[name] for name in self._specs)


def wanted_outputs(model: ServedModel, named: Sequence[tuple[str, bool]], binary: bool) -> tuple[Wanted, ...]:
    """The outputs that a request names, all if it names none.  Raises RequestError for an unknown output."""
    numbers = {spec.name: i for i, spec in enumerate(model.outputs)}
    found = []
    for wanted_name, as_bytes in named or [(name, binary) for name in numbers]:
        name = wanted_name if wanted_name in numbers else printable_name(wanted_name)
        if name not in numbers:
            raise RequestError(f"the model {model.name} has no output {name!r}", help=f"its outputs: {', '.join(numbers)}")
        found.append(Wanted(model.outputs[numbers[name]], numbers[name], as_bytes))
    if len({w.number for w in found}) < len(found):
        raise RequestError("an output is named twice")
    return tuple(found)


def from_bytes(spec: TensorSpec, shape: Sequence[int], data: Any) -> np.ndarray:
    """The tensor whose elements are these bytes, in place.  Raises RequestError for another number of bytes."""
    dtype = little_endian(spec.type.dtype)
    nbytes = math.prod(shape) * dtype.itemsize
    if len(data) != nbytes:
        raise RequestError(f"the input {spec.name} has {len(data)} bytes of data, its shape {list(shape)} needs {nbytes}")
    array = np.frombuffer(data, np.uint8)
    if spec.type.dtype == "bool" and (array > 1).any():
        raise RequestError(f"the input {spec.name} has bytes that are neither 0 nor 1", help="a BOOL is a byte, 0 or 1")
    return array.view(dtype).reshape(shape)


#: The Python types of a JSON number's dtypes, by numpy's kind.
_TYPES: dict[str, set[type]] = {"b": {bool}, "i": {int}, "u": {int}, "f": {int, float}}


def from_numbers(spec: TensorSpec, shape: Sequence[int], values: Sequence[Any], *, finite: bool = True) -> np.ndarray:
    """The tensor of these numbers; ``finite``: whether NaN and infinities are values that the datatype cannot hold.

    Raises RequestError for such a value, and for a wrong count.
    """
    count, dtype = math.prod(shape), spec.type.dtype
    if len(values) != count:
        raise RequestError(f"the input {spec.name} has {len(values)} elements, its shape {list(shape)} needs {count}")
    kind = "f" if dtype == "bfloat16" else np.dtype(dtype).kind
    found = set(map(type, values))
    if not found <= _TYPES[kind]:
        listed = ", ".join(sorted(t.__name__ for t in found - _TYPES[kind]))
        raise RequestError(f"the input {spec.name} is {DATATYPE[dtype]} and has elements of another type: {listed}")
    try:
        with np.errstate(over="ignore"):
            array = np.array(values, numpy_dtype(dtype)).reshape(shape)
    except (OverflowError, ValueError):
        array = None
    if array is None or (finite and kind == "f" and not np.isfinite(array).all()):
        raise RequestError(f"the input {spec.name} has an element out of the range of {DATATYPE[dtype]}")
    return array


def timeout_of(parameters: Mapping[str, Any]) -> float | None:
    """The time in milliseconds that the parameter ``timeout`` gives in microseconds.  Raises RequestError."""
    value = parameters.get("timeout")
    if value is None:
        return None
    if type(value) is not int or value <= 0:
        raise RequestError(f"the parameter timeout cannot be {value!r}", help="a whole number of microseconds, above 0")
    return value / 1000
