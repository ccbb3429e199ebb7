"""Results as ONNX's tools have them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...vm.values.adt import ADT
from ...vm.values.tensor import Tensor


def array_of(value: Any) -> Any:
    """A result as an array, or as a list for a sequence."""
    if isinstance(value, tuple):
        return list(map(array_of, value))
    if isinstance(value, ADT):
        return list(map(array_of, _elements(value)))
    return value.numpy() if isinstance(value, Tensor) else value


def _elements(value: ADT) -> Iterator[Any]:
    """The elements of a list."""
    while value.fields:
        first, value = value.fields
        yield first
