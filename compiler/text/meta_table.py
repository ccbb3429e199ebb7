"""The constants that a caller gives for the ``meta[...]`` of a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...ops.core.tensor_types import DTYPES
from ...vm.diagnostics.argument_errors import a_sequence, wrong
from ..ir.expr import Constant
from .metadata import CONSTANTS, Metadata

#: Constants or arrays by ``relay.Constant``, the only kind of metadata here.
MetaTable = Mapping[str, Sequence[Any]]


def given_metadata(table: MetaTable | None) -> Metadata | None:
    """The metadata of a table; None without a table.  Raises ArgumentError."""
    if table is None:
        return None
    if not isinstance(table, Mapping) or any(key != CONSTANTS for key in table):
        raise wrong("parse: meta_table", f"a dict with the one key {CONSTANTS!r}", table)
    return Metadata(tuple(map(_array, a_sequence(table.get(CONSTANTS, ()), "parse: meta_table", "a list of constants"))))


def _array(value: Any) -> np.ndarray:
    """The array of a constant, as it is.  Raises ArgumentError."""
    data = value.data if isinstance(value, Constant) else value
    if not isinstance(data, np.ndarray) or data.dtype.name not in DTYPES:
        raise wrong("parse: a constant of meta_table", "a relay.Constant or an array", value)
    return data
