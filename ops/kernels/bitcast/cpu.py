"""Bit casts between dtypes of the same width.

An element of float16 or bfloat16 is a float32 between load and store; neither conversion changes its bits.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...core.tensor_types import HALVES
from ...native.halves import bfloat16_bits, bfloat16_value, float16_bits, float16_value
from ...native.memory import Array, generic
from ...native.status import OK


@generic
def reinterpret(x: Array, out: Array) -> int:
    """Bit cast between compute dtypes."""
    words = x.view(out.dtype)
    for i in range(words.shape[0]):
        out[i] = words[i]
    return OK


@generic
def reinterpret_alike(x: Array, out: Array) -> int:
    """Copy of the same dtype."""
    for i in range(x.shape[0]):
        out[i] = x[i]
    return OK


@generic
def reinterpret_float16(x: Array, out: Array) -> int:
    """Bit cast of float16 to an integer."""
    words = out.view(np.uint16)
    for i in range(words.shape[0]):
        words[i] = float16_bits(x[i])
    return OK


@generic
def reinterpret_as_float16(x: Array, out: Array) -> int:
    """Bit cast of an integer to float16."""
    words = x.view(np.uint16)
    for i in range(words.shape[0]):
        out[i] = float16_value(words[i])
    return OK


@generic
def reinterpret_bfloat16(x: Array, out: Array) -> int:
    """Bit cast of bfloat16 to an integer."""
    words = out.view(np.uint16)
    for i in range(words.shape[0]):
        words[i] = bfloat16_bits(x[i])
    return OK


@generic
def reinterpret_as_bfloat16(x: Array, out: Array) -> int:
    """Bit cast of an integer to bfloat16."""
    words = x.view(np.uint16)
    for i in range(words.shape[0]):
        out[i] = bfloat16_value(words[i])
    return OK


@generic
def reinterpret_float16_as_bfloat16(x: Array, out: Array) -> int:
    """Bit cast of float16 to bfloat16."""
    for i in range(x.shape[0]):
        out[i] = bfloat16_value(float16_bits(x[i]))
    return OK


@generic
def reinterpret_bfloat16_as_float16(x: Array, out: Array) -> int:
    """Bit cast of bfloat16 to float16."""
    for i in range(x.shape[0]):
        out[i] = float16_value(bfloat16_bits(x[i]))
    return OK


#: By the dtypes of the data and of the result; "" stands for every compute dtype.
_BODIES: dict[tuple[str, str], Callable[..., int]] = {
    ("", ""): reinterpret,
    ("float16", ""): reinterpret_float16,
    ("", "float16"): reinterpret_as_float16,
    ("bfloat16", ""): reinterpret_bfloat16,
    ("", "bfloat16"): reinterpret_as_bfloat16,
    ("float16", "bfloat16"): reinterpret_float16_as_bfloat16,
    ("bfloat16", "float16"): reinterpret_bfloat16_as_float16,
}


def body_for(source: str, result: str) -> Callable[..., int]:
    """The body for data of dtype ``source`` and a result of dtype ``result``, of the same width."""
    if "bool" in (source, result):
        return reinterpret_alike  # by value: the bits of True are those of 1, whatever its byte
    if source == result:
        return reinterpret_alike
    return _BODIES[source if source in HALVES else "", result if result in HALVES else ""]
