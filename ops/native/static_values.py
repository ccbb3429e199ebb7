"""Values that are known when machine code is compiled: counters of unrolled loops, sizes of tiles, lanes of registers.

A static value is a word or a truth value.  Arithmetic and comparisons of static values and literals are static; beside any other
number it is a word.  A variable that is assigned different values on two ways is a word behind them.  A function is compiled once
for each static value of an argument, and only the branch that a static condition takes.
"""

from __future__ import annotations

from .memory import F, _mark, instruction


def at_compile_time(function: F) -> F:
    """Mark a function of static values, literals, tuples and types that the compiler calls.

    It returns a word, a truth value, or a tuple of such: static values.
    """
    _mark(function, "static")
    return function


@instruction(lambda e, value: e.static(value))
def static(value: int) -> int:
    """A literal as a static value."""
    return value


def static_range(*bounds: int) -> range:
    """As ``range`` of static values, for a loop that is unrolled: its counter is a static value."""
    return range(*bounds)


class StaticWord(int):
    """An attribute that a kernel's body takes as a static value (see ``Kernel.attrs``); its ``repr`` is the text of a call."""

    def __repr__(self) -> str:
        return f"{static.__name__}({int(self)})"
