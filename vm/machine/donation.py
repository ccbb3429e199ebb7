"""Donated arguments: the program may overwrite their arrays, whose elements are undefined after the run.

During the run a donated array is a storage of the machine.  The machine never frees its memory; results stored in the array are
copied out at the end of the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ops.core.similar_names import nearest
from ...ops.core.tensor_types import TensorType
from ..bytecode.executable import VMFunction
from ..diagnostics import codes
from ..diagnostics.source import InputError


def donated(function: VMFunction, names: Any, args: Sequence[Any], prepared: Sequence[Any]) -> frozenset[int]:
    """The numbers of the parameters in ``names``; ``prepared`` are the arguments ``args`` after conversion for the machine.

    Raises InputError for an unknown or repeated name.  Raises InputError for an argument that is no numpy array, and for an array
    that needs conversion, is read-only, is a view of another array's memory, or shares memory with another argument.
    """
    where, params = f"@{function.name}", [name for name, _ in function.params]
    if isinstance(names, str) or not all(isinstance(n, str) for n in names):
        raise InputError(
            f"{where}: donate takes the names of parameters, not {names!r}",
            help='a list of them: donate=["x"]',
            code=codes.Input.DONATION,
        )
    numbers: list[int] = []
    for name in names:
        if name not in params:
            hint = nearest(name, params, "{!r}")
            listed = ", ".join(f"%{p}" for p in params) or "none"
            raise InputError(
                f"{where} has no parameter {name!r} to donate{hint}", help=f"its parameters: {listed}", code=codes.Input.DONATION
            )
        if params.index(name) in numbers:
            raise InputError(f"{where}: %{name} is donated twice", code=codes.Input.DONATION)
        numbers.append(params.index(name))
    for number in numbers:
        _check(function, number, args, prepared)
    return frozenset(numbers)


def _check(function: VMFunction, number: int, args: Sequence[Any], prepared: Sequence[Any]) -> None:
    (name, ty), value = function.params[number], args[number]
    what = f"@{function.name}: %{name} cannot be donated"
    if not isinstance(ty, TensorType) or not isinstance(value, np.ndarray):
        raise InputError(f"{what}: it is a {type(value).__name__}", help="numpy arrays can be donated", code=codes.Input.DONATION)
    if prepared[number] is not value:
        raise InputError(
            f"{what}: it has to be converted first",
            help="donate a C-contiguous, aligned array in native byte order",
            code=codes.Input.DONATION,
        )
    if not value.flags.writeable:
        raise InputError(f"{what}: its array is read-only", code=codes.Input.DONATION)
    if value.base is not None:
        raise InputError(
            f"{what}: its array is a view of another one's memory",
            help="donate the array that owns the memory",
            code=codes.Input.DONATION,
        )
    for other, p in enumerate(prepared):
        if other != number and isinstance(p, np.ndarray) and np.may_share_memory(value, p):
            raise InputError(f"{what}: %{function.params[other][0]} lies in the same memory", code=codes.Input.DONATION)
