"""Late-bound constants: constants whose elements leave an executable and are loaded before it runs.

An executable keeps the type and the SHA-256 of the elements, and takes back those elements only: it stays the program that was
compiled and verified.  Machines that exist already keep their constants.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...ops.core.ndarray import NDArray
from ...ops.core.tensor_types import TensorType
from ..diagnostics import codes
from ..diagnostics.argument_errors import a_count, a_mapping
from ..diagnostics.source import InputError
from .executable import ExecutableData, LateBound

_HELP = "load_late_bound_consts(path) takes back the file of move_late_bound_consts"


def large_constants(exe: ExecutableData, byte_limit: int) -> dict[str, NDArray]:
    """The constants of at least ``byte_limit`` bytes by name: ``const_0`` for number 0.  Raises ArgumentError."""
    limit = a_count(byte_limit, "byte_limit")
    known = enumerate(exe.constants)
    return {f"const_{i}": c.view(NDArray) for i, c in known if isinstance(c, np.ndarray) and c.nbytes >= limit}


def take_out(exe: ExecutableData, moved: Mapping[str, np.ndarray]) -> None:
    """Leave the names of the ``large_constants`` in the executable in place of their elements."""
    constants: list[np.ndarray | LateBound] = list(exe.constants)
    for name, data in moved.items():
        digest = hashlib.sha256(data.tobytes()).hexdigest()
        constants[int(name.removeprefix("const_"))] = LateBound(name, data.dtype, data.shape, digest)
    object.__setattr__(exe, "constants", tuple(constants))


def put_back(exe: ExecutableData, values: Mapping[str, Any], where: str) -> None:
    """Take back elements by name; other names are ignored.  ``where``: the origin of the values, for messages.

    Raises InputError, and leaves the executable unchanged, for other elements than those that were taken out, and if no value is
    that of a late-bound constant.
    """
    given = a_mapping(values, where, "arrays by name")
    awaited = late_bound(exe)
    if awaited and not any(each.name in given for each in awaited):
        message = f"{where}: no late-bound constant is there: {_listed(awaited)}"
        raise InputError(message, help=_HELP, code=codes.Input.ARGUMENTS)
    constants = [_checked(c, given[c.name], where) if isinstance(c, LateBound) and c.name in given else c for c in exe.constants]
    object.__setattr__(exe, "constants", tuple(constants))


def _checked(constant: LateBound, value: Any, where: str) -> np.ndarray:
    data = np.array(value, order="C")
    wanted, found = (TensorType.of(each.shape, each.dtype.name) for each in (constant, data))
    if (data.dtype, data.shape) != (constant.dtype, constant.shape):
        message = f"{where}: {constant.name} is {found}, the constant that was taken out is {wanted}"
        raise InputError(message, help=_HELP, code=codes.Input.TYPE)
    if data.dtype == np.bool_ and (data.view(np.uint8) > 1).any():
        raise InputError(f"{where}: {constant.name}: a bool is neither 0 nor 1", help=_HELP)
    if hashlib.sha256(data.tobytes()).hexdigest() != constant.digest:
        message = f"{where}: {constant.name} has other elements than the constant that was taken out"
        raise InputError(message, help="to run other weights, compile the program with them, or make them parameters")
    data.setflags(write=False)
    return data


def late_bound(exe: ExecutableData) -> list[LateBound]:
    """The constants whose elements are not there."""
    return [c for c in exe.constants if isinstance(c, LateBound)]


def check_bound(exe: ExecutableData) -> None:
    """Raises InputError if elements of constants are not there."""
    if missing := late_bound(exe):
        message = f"the executable cannot run without its late-bound constants: {_listed(missing)}"
        help = "executable.load_late_bound_consts(path) takes back the file of move_late_bound_consts"
        raise InputError(message, help=help, code=codes.Input.ARGUMENTS)


def _listed(constants: list[LateBound]) -> str:
    shown = ", ".join(f"{c.name} ({TensorType.of(c.shape, c.dtype.name)})" for c in constants[:4])
    return shown + (f" and {len(constants) - 4} more" if len(constants) > 4 else "")
