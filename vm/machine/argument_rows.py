"""Encoding of a call's arguments as rows of words, from which native code makes the machine's objects.

Python describes the arguments without owning objects of the machine (see ``vm.runtime.argument_objects``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...declarations.frozen_dataclass import frozen
from ...ops.core.tensor_types import DTYPES, dtype_name
from ..device_table import CPU
from ..runtime.argument_objects import (
    DEVICE,
    DONATED_BYTES,
    DTYPE,
    ELEMENTS,
    KIND,
    OBJECT,
    RANK,
    ROW_WORDS,
    SIZES,
    TUPLE,
    WANTED,
    WHAT,
)
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
    rows: list[list[int]] = []
    for i, (value, device) in enumerate(zip(prepared, devices, strict=True)):
        _add(rows, value, device, donated=i in donated and device == 0)
    return np.array(rows, np.int64).reshape(len(rows), ROW_WORDS)


def _add(rows: list[list[int]], value: Any, device: int, *, donated: bool = False) -> None:
    """Append the rows of one value."""
    row = [0] * ROW_WORDS
    row[WANTED], row[DONATED_BYTES] = device, -1
    if isinstance(value, Records):
        for item, its_device in zip(value.items, value.devices, strict=True):
            _add(rows, item, its_device)
        return
    if isinstance(value, Record):
        row[KIND], row[WHAT], row[DTYPE] = TUPLE, value.n_fields, value.tag
    elif isinstance(value, tuple):
        for field in value:
            _add(rows, field, device)
        row[KIND], row[WHAT] = TUPLE, len(value)
    elif isinstance(value, Tensor):
        row[KIND], row[WHAT] = OBJECT, value._address
    else:
        on_host = isinstance(value, np.ndarray)
        row[KIND], row[WHAT] = ELEMENTS, value.ctypes.data if on_host else value.address
        row[DTYPE], row[RANK] = DTYPES.index(dtype_name(value.dtype) if on_host else value.dtype), len(value.shape)
        row[DEVICE] = CPU if on_host else device
        row[SIZES : SIZES + len(value.shape)] = value.shape
        if donated:
            row[DONATED_BYTES] = value.nbytes
    rows.append(row)
