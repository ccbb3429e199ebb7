"""Numbers of the text format: ``5`` is int32, ``1.5f`` float32, ``2i64``, ``1e-3f64``, ``0.5bf16``, ``inff``.

A suffix without a width has Relay's default: ``42i`` is int32, ``3bf`` bfloat16.
"""

from __future__ import annotations

import functools
import re

import numpy as np

from ...ops.core.dtype_words import DTypeProblem, read_dtype
from ...ops.core.tensor_types import DTYPES, is_float, numpy_dtype
from ...shape_funcs.symbolic.int_operations import INT64_MAX

#: Suffix of a literal per dtype; optional for int32.
SUFFIXES = {
    name: "f" if name == "float32" else re.sub(r"float|uint|int", lambda m: {"float": "f", "uint": "u"}.get(m[0], "i"), name)
    for name in DTYPES
    if name != "bool"
}
#: The word of a dtype that each suffix begins with.
_WORDS = {"i": "int", "u": "uint", "f": "float", "bf": "bfloat"}
_SUFFIX = re.compile(r"(i|u|f|bf)(\d*(?:x\d+)?)")
_SHOWN_SUFFIXES = ", ".join(sorted({*SUFFIXES.values(), *_WORDS}))
_NUMBER = re.compile(r"(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|inf|nan)(\w*)")
#: The most digits that are read: reading takes a time quadratic in their number.
MAX_DIGITS = 400


class LiteralError(ValueError):
    """A malformed number.  ``help``: the correct form."""

    def __init__(self, message: str, help: str | None = None) -> None:
        super().__init__(message)
        self.help = help


def _split(text: str) -> tuple[str, str]:
    match = _NUMBER.fullmatch(text)
    assert match is not None, text
    return match[1], match[2]


def _is_integer(digits: str) -> bool:
    return digits.isdigit()


def read_literal(text: str) -> np.ndarray:
    """The rank-0 array of a literal; an odd number of ``-`` before it makes it negative.  Raises LiteralError."""
    digits, suffix = _split(text.lstrip("-"))
    sign = (len(text) - len(text.lstrip("-"))) % 2 == 1
    _check_length(digits)
    if not suffix:
        if not _is_integer(digits):
            raise LiteralError(f"the float {text} has no suffix", f"write {text}f for float32 or {text}f64 for float64")
        dtype = "int32" if _fits(-int(digits) if sign else int(digits), "int32") else "int64"
    else:
        dtype = _suffix_dtype(suffix, text)
    if is_float(dtype):
        return _float(-float(digits) if sign else float(digits), dtype, text)
    if not _is_integer(digits):
        raise LiteralError(f"{text} is no number: {dtype} takes digits only", f"write {digits}f for float32")
    value = -int(digits) if sign else int(digits)
    if not _fits(value, dtype):
        info = np.iinfo(dtype)
        raise LiteralError(f"{text} is out of range", f"{dtype} holds {info.min} to {info.max}")
    return np.array(value, dtype)


def _suffix_dtype(suffix: str, text: str) -> str:
    """The dtype that a suffix names.  Raises LiteralError."""
    match = _SUFFIX.fullmatch(suffix)
    if match is None:
        raise LiteralError(f"{text} is no number: there is no suffix {suffix!r}", f"the suffixes are {_SHOWN_SUFFIXES}")
    try:
        return read_dtype(_WORDS[match[1]] + match[2])
    except DTypeProblem as problem:
        raise LiteralError(f"{text} is no number: {problem}", f"the suffixes are {_SHOWN_SUFFIXES}") from None


def _check_length(digits: str) -> None:
    """Raises LiteralError."""
    if len(digits) > MAX_DIGITS:
        raise LiteralError(f"this number has {len(digits)} digits; at most {MAX_DIGITS} are read")


def read_size(digits: str) -> int:
    """The size, index or count of the digits.  Raises LiteralError if it exceeds int64."""
    if not digits.isdigit():
        raise LiteralError(f"a dimension is a plain integer, not {digits}")
    if len(digits) > MAX_DIGITS or int(digits) > INT64_MAX:
        shown = digits if len(digits) <= 40 else f"a number of {len(digits)} digits"
        raise LiteralError(f"{shown} is out of range", f"int64 holds up to {INT64_MAX}")
    return int(digits)


def _fits(value: int, dtype: str) -> bool:
    info = np.iinfo(dtype)
    return info.min <= value <= info.max


def _float(value: float, dtype: str, text: str) -> np.ndarray:
    element = numpy_dtype(dtype).type
    largest, bound = _largest(dtype)
    if abs(value) > bound and "inf" not in text:
        raise LiteralError(f"{text} is out of range", f"the largest {dtype} is {largest}")
    return np.array(element(value))


@functools.cache
def _largest(dtype: str) -> tuple[float, float]:
    """The largest number of a dtype, and the largest that is read: the printer rounds the former, perhaps upwards."""
    element = numpy_dtype(dtype).type
    largest = np.nextafter(element(np.inf), element(0))  # versions of ml_dtypes print other numbers of digits
    return float(largest), max(float(largest), float(str(largest)))


def read_attribute_number(text: str) -> int | float:
    """The Python number of an attribute value; a float's suffix is optional.  Raises LiteralError."""
    digits, suffix = _split(text.lstrip("-"))
    _check_length(digits)
    text = "-" * ((len(text) - len(text.lstrip("-"))) % 2) + digits + suffix
    if not suffix and not _is_integer(digits):
        return float(text)
    if not suffix:
        value = int(text)
        if not -(2**63) <= value < 2**64:
            raise LiteralError(f"{text} is out of range", f"int64 holds {-INT64_MAX - 1} to {INT64_MAX}")
        return value
    number: int | float = read_literal(text).item()
    return number


def literal_text(data: np.ndarray) -> str | None:
    """The literal that reads back to exactly ``data`` (rank 0); None if there is none, as for a NaN with a payload."""
    dtype = data.dtype.name
    if dtype == "bool":
        return str(bool(data))
    if not is_float(dtype):
        return f"{int(data)}{'' if dtype == 'int32' else SUFFIXES[dtype]}"
    digits = str(data[()]).removesuffix(".0")
    text = digits + SUFFIXES[dtype]
    return text if read_literal(text).tobytes() == data.tobytes() else None
