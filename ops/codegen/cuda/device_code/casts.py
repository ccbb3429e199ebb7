"""Casts between dtypes in CUDA C, with the results of the CPU's kernels."""

from __future__ import annotations

from ....core.tensor_types import HALVES, is_float, is_integer

#: Device functions that convert a float to int64 and to uint64.
WHOLE = r"""
// As a processor converts: what does not fit becomes the least int64.
template <class T> DEVICE int64 to_int64(T x) {
  return x >= T(-9223372036854775808.0) && x < T(9223372036854775808.0) ? int64(x) : int64(uint64(1) << 63);
}
template <class T> DEVICE uint64 to_uint64(T x) {
  return x >= T(9223372036854775808.0) && x < T(18446744073709551616.0) ? uint64(x) : uint64(to_int64(x));
}
"""

#: ``number(x)``: an element in its compute dtype, float32 for the storage-only dtypes.
NUMBER = (
    WHOLE
    + r"""
template <class T> DEVICE T number(T x) { return x; }
DEVICE float32 number(float16 x) { return to_float32(x); }
DEVICE float32 number(bfloat16 x) { return to_float32(x); }
DEVICE bool number(truth x) { return x; }
"""
)


def converted(value: str, source: str, result: str) -> str:
    """``value``, a number of dtype ``source`` (float32 for a storage-only dtype), as an element of dtype ``result``.

    A value outside an integer's range wraps, as on the CPU.  A float becomes a narrow integer through int64: the instruction of a
    GPU would give the nearest integer in range.
    """
    if result in HALVES:
        return f"to_{result}(float32({value}))"
    if result == "bool":
        return f"({value} != 0)"
    if is_float(source) and is_integer(result):
        return f"to_uint64({value})" if result == "uint64" else f"{result}(to_int64({value}))"
    return f"{result}({value})"
