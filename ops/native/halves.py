"""float16 and bfloat16 in machine code: 16 bits in memory, float32 in a register.

The conversions are bit arithmetic without branches, which vectorises on any CPU.  They keep the payload of a NaN.  A CPU that
converts by an instruction does so (``front_end.llvm.half_conversions``), with the same results, except that a signalling NaN
may become quiet.  Generated kernels that only move elements move words (``codegen.loop_nest.moved_words``): they change
no bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.tensor_types import DTYPES
from .memory import Element, bits_float32, float32_bits, generic, instruction

# A float16 has 5 bits of exponent and 10 of fraction, a float32 has 8 and 23.
_REST, _SIGN = 0x7FFF, 0x8000
#: The difference between the exponent biases of float32 (127) and float16 (15), shifted to a float32's exponent.
_REBIAS = (127 - 15) << 23
_SMALLEST_NORMAL, _INFINITE = 1 << 23, 31 << 23  # of float16, with its bits shifted to their position in a float32
#: Of float32: the smallest normal float16, 0.5, infinity, and the smallest value that overflows float16.
_NORMAL_16, _HALF_32, _INFINITE_32, _TOO_LARGE_16 = (127 - 14) << 23, 126 << 23, 255 << 23, (127 + 16) << 23


@generic
def _float16_value(bits: Element) -> Element:
    """``float16_value`` on any CPU."""
    word = np.int64(bits)
    rest = (word & _REST) << 13
    # below the smallest normal number there is no leading one: it is added, and a subtraction removes it
    small = float32_bits(bits_float32(rest + _NORMAL_16) - bits_float32(_NORMAL_16))
    large = rest + (_REBIAS if rest < _INFINITE else 2 * _REBIAS)
    return bits_float32((small if rest < _SMALLEST_NORMAL else large) | (word & _SIGN) << 16)


@generic
def _float16_bits(value: Element) -> np.uint16:
    """``float16_bits`` on any CPU."""
    word = float32_bits(np.float32(value))
    rest = word & 0x7FFFFFFF
    # adding 0.5 shifts out the bits that a subnormal number cannot hold, so the addition itself rounds
    small = float32_bits(bits_float32(rest if rest < _NORMAL_16 else 0) + bits_float32(_HALF_32)) - _HALF_32
    normal = (rest - _REBIAS + 0xFFF + (rest >> 13 & 1)) >> 13
    payload = rest >> 13 & 0x3FF
    special = 0x7C00 if rest <= _INFINITE_32 else 0x7C00 | (0x200 if payload == 0 else payload)
    half = small if rest < _NORMAL_16 else normal if rest < _TOO_LARGE_16 else special
    return np.uint16(half | word >> 16 & _SIGN)


@generic
def _bfloat16_value(bits: Element) -> Element:
    """The float32 with the value of a bfloat16, which is its upper half."""
    return bits_float32(np.int64(bits) << 16)


@generic
def _bfloat16_bits(value: Element) -> np.uint16:
    """The bfloat16 nearest to a number, as its bits."""
    word = float32_bits(np.float32(value))
    rounded = (word + 0x7FFF + (word >> 16 & 1)) >> 16
    cut = word >> 16
    nan = cut | (0x40 if cut & 0x7F == 0 else 0)
    return np.uint16(nan if word & 0x7FFFFFFF > _INFINITE_32 else rounded)


@instruction(lambda e, bits: e.half_value("float16", bits, _float16_value))
def float16_value(bits: Element) -> Element:
    """The float32 with the value of a float16."""
    return _float16_value(bits)


@instruction(lambda e, value: e.half_bits("float16", value, _float16_bits))
def float16_bits(value: Element) -> np.uint16:
    """The float16 nearest to a number, as its bits."""
    return _float16_bits(value)


@instruction(lambda e, bits: e.half_value("bfloat16", bits, _bfloat16_value))
def bfloat16_value(bits: Element) -> Element:
    """The float32 with the value of a bfloat16, which is its upper half."""
    return _bfloat16_value(bits)


@instruction(lambda e, value: e.half_bits("bfloat16", value, _bfloat16_bits))
def bfloat16_bits(value: Element) -> np.uint16:
    """The bfloat16 nearest to a number, as its bits."""
    return _bfloat16_bits(value)


@generic
def float16(value: Element) -> Element:
    """Round a number to float16, as a float32."""
    return float16_value(float16_bits(value))


@generic
def bfloat16(value: Element) -> Element:
    """Round a number to bfloat16, as a float32."""
    return bfloat16_value(bfloat16_bits(value))


#: By dtype: conversion from bits to float32, and from any number to bits, on any CPU.
BY_ARITHMETIC: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "float16": (_float16_value, _float16_bits),
    "bfloat16": (_bfloat16_value, _bfloat16_bits),
}
#: By dtype: conversion from bits to float32, from any number to bits, and rounding of a number.
CONVERSIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]] = {
    "float16": (float16_value, float16_bits, float16),
    "bfloat16": (bfloat16_value, bfloat16_bits, bfloat16),
}


def scalar_types() -> dict[str, Any]:
    """Conversions of numbers in the source of a kernel, by the name of each numeric dtype."""
    own = {name: rounded for name, (_, _, rounded) in CONVERSIONS.items()}
    return {name: own[name] if name in own else getattr(np, name) for name in DTYPES if name != "bool"}
