"""From one dtype to another in CUDA C."""

from __future__ import annotations

from ...ty import HALVES, is_float, is_integer

#: ``number(x)``: an element as what is computed with, float32 for the dtypes that only store.
NUMBER = r"""
template <class T> DEVICE T number(T x) { return x; }
DEVICE float32 number(float16 x) { return to_float32(x); }
DEVICE float32 number(bfloat16 x) { return to_float32(x); }
"""


def converted(value: str, source: str, result: str) -> str:
    """``value``, a number of dtype ``source`` (of float32 for a dtype that only stores), as an element of dtype ``result``.

    Out of an integer's range it wraps, as on the CPU; a narrow integer is made of a float through int64.
    """
    if result in HALVES:
        return f"to_{result}(float32({value}))"
    if result == "bool":
        return f"({value} != 0)"
    if is_float(source) and is_integer(result):
        if result == "uint64":
            return f"({value} >= 0 ? uint64({value}) : uint64(int64({value})))"
        return f"{result}(int64({value}))"
    return f"{result}({value})"
