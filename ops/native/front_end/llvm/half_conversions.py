"""LLVM code that converts float16 and bfloat16, as words of 16 bits, from and to float32: of numbers and of vectors.

The results are those of ``ops.native.halves``, but for signalling NaNs, which become quiet.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from ....core.tensor_types import EXACT, SHORT_NANS
from . import host

_WORD, _HALF_WORD = ir.IntType(32), ir.IntType(16)
#: LLVM's type of a bfloat16, which llvmlite lacks.
_BFLOAT = type("BFloat", (ir.Type,), {"_to_string": lambda self: "bfloat"})()


def has_conversions(dtype: str) -> bool:
    """Whether this CPU converts a half by few instructions: every CPU does bfloat16, those with F16C do float16."""
    return dtype == "bfloat16" or "f16c" in host.features()


def _as(kind: ir.Type, element: ir.Type) -> ir.Type:
    """The type of as many elements of another type."""
    return ir.VectorType(element, kind.count) if isinstance(kind, ir.VectorType) else element


def _number(like: Any, number: int) -> Any:
    """A number, in every lane."""
    return ir.Constant(like.type, [number] * like.type.count if isinstance(like.type, ir.VectorType) else number)


def widened(b: Any, dtype: str, bits: Any) -> Any:
    """The float32 with the values of halves."""
    kind = _as(bits.type, ir.FloatType())
    if dtype == "bfloat16":
        word = b.zext(bits, _as(bits.type, _WORD))
        return b.bitcast(b.shl(word, _number(word, 16)), kind)
    return b.fpext(b.bitcast(bits, _as(bits.type, ir.HalfType())), kind)


def narrowed(b: Any, dtype: str, value: Any, is_filled: bool = False, stored: str = "") -> Any:
    """The halves nearest to float32, as words.

    ``is_filled``: whether a vector fills a register, or will do so.  ``stored``: what is known of the numbers (``Array``).
    """
    kind = _as(value.type, _HALF_WORD)
    if dtype == "float16":
        return b.bitcast(b.fptrunc(value, _as(value.type, ir.HalfType())), kind)
    word = b.bitcast(value, _as(value.type, _WORD))
    sixteen = _number(word, 16)
    if stored == EXACT:
        return b.trunc(b.lshr(word, sixteen), kind)
    if "avx512bf16" in host.features() and (is_filled or isinstance(value.type, ir.VectorType)):
        return _narrowed_by_instruction(b, word, kind)
    odd = b.and_(b.lshr(word, sixteen), _number(word, 1))
    rounded = b.add(b.add(word, _number(word, 0x7FFF)), odd)
    if stored != SHORT_NANS:  # a NaN is not rounded up; its payload may end below the cut, and leave an infinity
        nan = b.or_(word, _number(word, 0x400000))
        rounded = b.select(b.fcmp_unordered("uno", value, value), nan, rounded)
    return b.trunc(b.lshr(rounded, sixteen), kind)


def _narrowed_by_instruction(b: Any, word: Any, kind: ir.Type) -> Any:
    """As the CPU's instruction for bfloat16 rounds, which takes numbers below the least normal one for 0.

    These get its exponent, and the half loses it.  LLVM takes vectors of 4 lanes where it chooses their number.
    """
    small = b.icmp_unsigned("==", b.and_(word, _number(word, 0x7F800000)), _number(word, 0))
    normal = b.select(small, b.add(word, _number(word, 0x800000)), word)
    half = b.fptrunc(b.bitcast(normal, _as(word.type, ir.FloatType())), _as(word.type, _BFLOAT))
    bits = b.bitcast(half, kind)
    return b.select(small, b.sub(bits, _number(bits, 0x80)), bits)
