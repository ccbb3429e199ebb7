"""Encoding of a call's arguments as rows of words, from which native code makes the machine's objects.

Python describes the arguments without owning objects of the machine (see ``vm.runtime.argument_objects``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...declarations.frozen_dataclass import frozen
from ...ops.core.tensor_types import DTYPES, MAX_RANK, dtype_name
from ..device_table import CPU
from ..runtime.argument_objects import ELEMENTS, OBJECT, ROW, TUPLE
from ..values.tensor import Tensor


@frozen
class Record:
    """A value of an ADT: its constructor's number, and the number of its fields, which precede it."""

    tag: int
    n_fields: int


@frozen
class Records:
    """A value of an ADT as the sequence of its rows, and the device of each."""

    items: tuple[Any, ...]
    devices: tuple[int, ...]


def rows_of(prepared: Sequence[Any], devices: Sequence[int], donated: frozenset[int]) -> np.ndarray:
    """The rows of the arguments returned by ``arguments.prepare``; ``donated``: numbers of the donated arguments.

    The rows contain addresses: the caller keeps the arguments alive while it uses the rows.
    """
    rows: list[tuple[Any, ...]] = []
    for i, (value, device) in enumerate(zip(prepared, devices, strict=True)):
        _add(rows, value, device, donated=i in donated and device == 0)
    return np.array(rows, ROW)


def _add(rows: list[tuple[Any, ...]], value: Any, device: int, *, donated: bool = False) -> None:
    """Append the rows of one value."""
    if isinstance(value, Records):
        for item, its_device in zip(value.items, value.devices, strict=True):
            _add(rows, item, its_device)
        return
    if isinstance(value, Record):
        rows.append(_row(TUPLE, value.n_fields, device, dtype=value.tag))
    elif isinstance(value, tuple):
        for field in value:
            _add(rows, field, device)
        rows.append(_row(TUPLE, len(value), device))
    elif isinstance(value, Tensor):
        rows.append(_row(OBJECT, value._address, device))
    else:
        on_host = isinstance(value, np.ndarray)
        dtype = DTYPES.index(dtype_name(value.dtype) if on_host else value.dtype)
        what, there = (value.ctypes.data, CPU) if on_host else (value.address, device)
        rows.append(_row(ELEMENTS, what, device, dtype, there, value.shape, value.nbytes if donated else -1))


def _row(
    kind: int, what: int, wanted: int, dtype: int = 0, device: int = CPU, sizes: tuple[int, ...] = (), donated: int = -1
) -> tuple[Any, ...]:
    """A ROW."""
    return kind, what, dtype, len(sizes), device, wanted, donated, 0, (*sizes, *[0] * (MAX_RANK - len(sizes)))
