"""Attributes that are elements: numbers in the dtype of the data."""

from __future__ import annotations

from .compute import Literal, Scalar
from .op import TypeRelError
from .tensor_types import int_range, is_float


def require_element(name: str, attribute: str, value: float, dtype: str) -> None:
    """Raise TypeRelError unless ``value`` is an element of ``dtype``: whole and in range for an integer, 0 or 1 for a bool."""
    if is_float(dtype):
        return
    low, high = (0, 1) if dtype == "bool" else int_range(dtype)
    if value != value or not low <= value <= high or value != int(value):
        raise TypeRelError(f"{name}: {attribute}={value!r} is no {dtype}")


def element(value: float, dtype: str) -> Scalar:
    """The constant ``value`` of ``dtype``; ``require_element`` must have accepted it."""
    return Literal(bool(value) if dtype == "bool" else float(value) if is_float(dtype) else int(value), dtype)
