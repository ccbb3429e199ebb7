"""Functions of two words, each with constructs that native functions may use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from relayvm.ops.native.memory import generic, native

#: All functions of this file that are compared with their machine code.
PROGRAMS: list[Callable[[int, int], int]] = []


def program(function: Callable[[int, int], int]) -> Callable[[int, int], int]:
    """Mark a native function that is compared with its machine code."""
    PROGRAMS.append(native(function))
    return function


@program
def variable_of_two_types(a: int, b: int) -> int:
    t: Any = 0
    for i in range(3):
        t = t + 0.5 * i
    return int(t * 4 + a)


@program
def swap(a: int, b: int) -> int:
    a, b = b, a
    return a * 1000 + b


@program
def tuples(a: int, b: int) -> int:
    t = (a, b, a + b)
    x, _, z = t
    return t[0] + 10 * t[-1] + len(t) + z + (t + halves(x))[3] + t[1:][0]


@program
def item_by_a_variable(a: int, b: int) -> int:
    t = (3, 1, 4, 1)
    return t[a % 4] * 10 + t[-1 - b % 4]


@program
def chain(a: int, b: int) -> int:
    return int(0 <= a < b != 5)


@program
def value_of_and_or(a: int, b: int) -> int:
    return (a and b) * 10 + (a or b) + int(not a)


@program
def while_continue_break(a: int, b: int) -> int:
    n = total = 0
    while True:
        n += 1
        if n % 3 == 0:
            continue
        if n > 20:
            break
        total += n * a
    return total * 100 + n


@program
def while_of_a_condition(a: int, b: int) -> int:
    while a > 0 and b != 0:
        a, b = a >> 1, b + 1
    return a * 100 + b


@program
def loop_that_is_left(a: int, b: int) -> int:
    found = -1
    for i in range(10):
        for j in range(i):
            if i * j == a:
                found = i
                break
        if found >= 0:
            return found
    return b


@program
def ranges(a: int, b: int) -> int:
    total = 0
    for i in range(a, b):
        total += i
    for i in range(b, a, -2):
        total += 3 * i
    for i in range(0, 20, max(a, 1)):
        total += 5 * i
    for i in range(9, -9, min(b, -1)):
        total += 7 * i
    return total


@program
def counter_after_a_loop(a: int, b: int) -> int:
    i = -5
    for i in range(a):
        i = i * 2
    return i


@program
def loop_over_a_tuple(a: int, b: int) -> int:
    total = 0
    for x in (a, b, 3):
        if x > 0:
            total += x
    return total


@program
def membership(a: int, b: int) -> int:
    return int(a in (1, 5, b)) + 2 * int(a not in (2, 0))


@program
def branches_that_return(a: int, b: int) -> int:
    if a > b:
        return 1
    elif a == b:
        return 2
    return 3


@program
def extremes(a: int, b: int) -> int:
    return min(a, b, 3) * 100 + max(a, b) + abs(a - b)


@program
def value_of_two_types(a: int, b: int) -> int:
    x = a if a > b else 0.25
    return int(x * 8)


@program
def shifts_and_bits(a: int, b: int) -> int:
    return ((a << 3) ^ (b >> 1)) & ~a | 1


@program
def chained_assignment(a: int, b: int) -> int:
    x = y = a + 1
    x += b
    return x * 10 + y


@program
def sum_of_bools(a: int, b: int) -> int:
    return (a > 0) + (b > 0) + (a == b) * 10


@program
def conversions(a: int, b: int) -> int:
    return int(a / 4) + int(-b / 3.0) + int(float(a)) + int(bool(b))


@generic
def twice(x: Any, scale: Any = 2, offset: int = 0) -> Any:
    """Arguments of several types, with defaults."""
    return x * scale + offset


@generic
def apply(function: Callable[..., Any], x: Any) -> Any:
    """A function as an argument; a named argument."""
    return function(x, offset=1)


@generic
def halves(x: Any) -> Any:
    """Two results."""
    return x // 2, x - x // 2


@native
def fibonacci(n: int) -> int:
    """A function that calls itself."""
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


@native
def is_even(n: int) -> bool:
    """Functions that call each other."""
    return n == 0 or is_odd(n - 1)


@native
def is_odd(n: int) -> bool:
    """See ``is_even``."""
    return n != 0 and is_even(n - 1)


@program
def calls(a: int, b: int) -> int:
    x, y = halves(a)
    floats = twice(b * 0.5, 4.0)
    return int(apply(twice, a) + floats + x * y) + fibonacci(b % 9) + int(is_even(b % 7))
