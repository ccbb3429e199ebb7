"""From one dtype to another in CUDA C."""

from __future__ import annotations

from ...ty import HALVES, is_float, is_integer

#: From a float to 64-bit integers.
WHOLE = r"""
// As a processor converts: what does not fit becomes the least int64.
template <class T> DEVICE int64 to_int64(T x) {
  return x >= T(-9223372036854775808.0) && x < T(9223372036854775808.0) ? int64(x) : int64(uint64(1) << 63);
}
template <class T> DEVICE uint64 to_uint64(T x) {
  return x >= T(9223372036854775808.0) && x < T(18446744073709551616.0) ? uint64(x) : uint64(to_int64(x));
}
"""

#: ``number(x)``: an element as what is computed with, float32 for the dtypes that only store.
NUMBER = (
    WHOLE
    + r"""
template <class T> DEVICE T number(T x) { return x; }
DEVICE float32 number(float16 x) { return to_float32(x); }
DEVICE float32 number(bfloat16 x) { return to_float32(x); }
"""
)


def converted(value: str, source: str, result: str) -> str:
    """``value``, a number of dtype ``source`` (of float32 for a dtype that only stores), as an element of dtype ``result``.

    Out of an integer's range it wraps, as on the CPU; a narrow integer is made of a float through int64.  By itself a card
    would make the nearest integer there is of a float that does not fit.
    """
    if result in HALVES:
        return f"to_{result}(float32({value}))"
    if result == "bool":
        return f"({value} != 0)"
    if is_float(source) and is_integer(result):
        return f"to_uint64({value})" if result == "uint64" else f"{result}(to_int64({value}))"
    return f"{result}({value})"
