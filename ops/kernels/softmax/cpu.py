"""Softmax along the middle axis of a 3-D view: of rows, or, if that axis is not the last one, of blocks of columns.

Exponentials are in the compute dtype.  Up to RUN of them are added in that dtype, the sums of runs in float64.

A result that would be less than the least normal number (of float32 1.2e-38) is 0: processors compute with such numbers up to 150
times more slowly, and rows with masked elements are full of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...codegen.loop_nest.reduction import RUN
from ...codegen.loop_nest.vector_math import exp_float32_below, large_exp_float32_below
from ...native.front_end.vector_hints import add_in_any_order, filled_range, larger
from ...native.memory import Array, Element, generic
from ...native.status import OK
from ...native.templates import instantiate

#: The parameters of each body: ``e ** x`` for x <= 0, the compute dtype, and a number just above its least normal number.
exponential: Any = None
number: Any = None
tiny: Any = None
#: Columns that are processed together: memory bandwidth is higher with long contiguous accesses.
BLOCK = 4096


@generic
def exp_float64(x: Element) -> float:
    """``e ** x`` for x <= 0 or NaN; 0 where that would be subnormal."""
    power = math.exp(-708.0 if x < -708.0 else x)  # the library, too, is slow below
    return 0.0 if power < 3.4e-308 else power  # a condition on x would make LLVM call it for x itself


# ---- rows ----------------------------------------------------------------------------------------------------------------


@generic
def largest(data: Array, o: int) -> Element:
    """The largest element of a row, NaN if one is NaN."""
    top = data[o, 0, 0]
    for j in range(1, data.shape[1]):
        top = larger(top, data[o, j, 0])
    return top


@generic
def row_total(data: Array, o: int, top: Element, exponential: Callable[..., Any], number: Callable[..., Any]) -> float:
    """``sum(exp(row - top))``."""
    n, total = data.shape[1], 0.0
    for start in range(0, n, RUN):
        run = number(0)
        for k in range(min(RUN, n - start)):
            run = add_in_any_order(run, exponential(data[o, np.uint64(start + k), 0] - top))
        total += np.float64(run)
    return total


@generic
def at_least(power: Element, least: Element, zero: Element) -> Element:
    """The power, or ``zero`` if it is less than ``least``; NaN stays."""
    return zero if power < least else power


@generic
def scale_row(out: Array, o: int, share: Element, least: Element, number: Callable[..., Any]) -> None:
    """Multiply a row of powers by ``share``; those less than ``least`` become 0."""
    for i in range(out.shape[1]):
        out[o, i, 0] = at_least(out[o, i, 0], least, number(0)) * share


class Folded(NamedTuple):
    """The sum of the powers of a row, and the largest element of the next row."""

    total: float
    coming: Element


@generic
def powers_of_row(
    data: Array, o: int, top: Element, powers: Array, row: int, exponential: Callable[..., Any], number: Callable[..., Any]
) -> Folded:
    """Store the powers of row ``o`` in ``powers``, a row, or row ``row`` of an array like ``data``.

    The maximum of the next row is computed in the same loop as the exponentials of a row, so that memory is never idle.
    """
    n, total, ahead = data.shape[1], 0.0, min(o + 1, data.shape[0] - 1)
    coming = data[ahead, 0, 0]
    for start in range(0, n, RUN):
        run = number(0)
        for k in range(min(RUN, n - start)):
            j = np.uint64(start + k)
            power = exponential(data[o, j, 0] - top)
            if powers.ndim == 1:
                powers[j] = power
            else:
                powers[row, j, 0] = power
            run = add_in_any_order(run, power)
            coming = larger(coming, data[ahead, j, 0])
        total += np.float64(run)
    return Folded(total, coming)


@generic
def softmax_rows(data: Array, out: Array) -> int:
    """Softmax of rows; the result stores exponentials, all scaled by the same factor."""
    if data.size == 0:
        return OK
    outer = data.shape[0]
    top = largest(data, 0)
    for o in range(outer):
        made = powers_of_row(data, o, top, out, o, exponential, number)
        # an infinity or a NaN in a row makes all its results NaN
        share = number(1.0 / made.total) if top - top == number(0) else number(np.nan)
        scale_row(out, o, share, number(tiny * made.total), number)
        top = made.coming
    return OK


@generic
def softmax_rows_over(data: Array, out: Array) -> int:
    """``softmax_rows`` in place: a row is never read ahead of its store."""
    if data.size == 0:
        return OK
    outer, n, _ = data.shape
    for o in range(outer):
        top, total = largest(data, o), 0.0
        for start in range(0, n, RUN):
            run = number(0)
            for k in range(min(RUN, n - start)):
                j = np.uint64(start + k)
                power = exponential(data[o, j, 0] - top)
                out[o, j, 0] = power
                run = add_in_any_order(run, power)
            total += np.float64(run)
        share = number(1.0 / total) if top - top == number(0) else number(np.nan)
        scale_row(out, o, share, number(tiny * total), number)
    return OK


@generic
def softmax_rows_held(data: Array, out: Array, powers: Array) -> int:
    """``softmax_rows``, in place or not, whose exponentials are in ``powers``, since the result would round them."""
    if data.size == 0:
        return OK
    outer, n, _ = data.shape
    top = largest(data, 0)
    for o in range(outer):
        made = powers_of_row(data, o, top, powers, 0, exponential, number)
        share, least = number(1.0 / made.total) if top - top == number(0) else number(np.nan), number(tiny * made.total)
        for i in range(n):
            out[o, i, 0] = at_least(powers[np.uint64(i)], least, number(0)) * share
        top = made.coming
    return OK


@generic
def log_softmax_rows(data: Array, out: Array) -> int:
    """The logarithm of softmax of rows."""
    if data.shape[1] == 0:
        return OK
    outer, n, _ = data.shape
    for o in range(outer):
        top = largest(data, o)
        shift = number(math.log(row_total(data, o, top, exponential, number)))
        if out.itemsize == 2:
            for j in filled_range(n):
                out[o, j, 0] = (data[o, j, 0] - top) - shift
        else:
            for j in range(n):
                out[o, j, 0] = (data[o, j, 0] - top) - shift
    return OK


# ---- columns -------------------------------------------------------------------------------------------------------------


@generic
def column_totals(
    data: Array, o: int, first: int, columns: int, top: Array, total: Array, exponential: Callable[..., Any]
) -> None:
    """``largest`` and ``row_total`` of the columns from ``first`` on, into ``top`` and ``total``."""
    n = data.shape[1]
    for c in range(columns):
        i = np.uint64(first + c)
        top[i] = data[o, 0, i]
        total[i] = 0.0
    for block in range(n // 4):
        j = 4 * block
        for c in range(columns):
            i = np.uint64(first + c)
            one, two = larger(data[o, j, i], data[o, j + 1, i]), larger(data[o, j + 2, i], data[o, j + 3, i])
            top[i] = larger(top[i], larger(one, two))
    for j in range(n // 4 * 4, n):
        for c in range(columns):
            i = np.uint64(first + c)
            top[i] = larger(top[i], data[o, j, i])
    for block in range(n // 4):
        j = 4 * block
        for c in range(columns):
            i = np.uint64(first + c)
            one = exponential(data[o, j, i] - top[i]) + exponential(data[o, j + 1, i] - top[i])
            two = exponential(data[o, j + 2, i] - top[i]) + exponential(data[o, j + 3, i] - top[i])
            total[i] += np.float64(one + two)
    for j in range(n // 4 * 4, n):
        for c in range(columns):
            i = np.uint64(first + c)
            total[i] += np.float64(exponential(data[o, j, i] - top[i]))


@generic
def softmax_columns(data: Array, out: Array, top: Array, share: Array, total: Array, least: Array) -> int:
    """Softmax of columns.  ``top``, ``share`` and ``least`` are of the compute dtype, ``total`` is of float64."""
    if data.shape[1] == 0:
        return OK
    outer, n, inner = data.shape
    for o in range(outer):
        for first in range(0, inner, BLOCK):
            columns = min(BLOCK, inner - first)
            column_totals(data, o, first, columns, top, total, exponential)
            for c in range(columns):
                i = np.uint64(first + c)
                share[i] = 1.0 / total[i]
                least[i] = tiny * total[i]
            for j in range(n):
                for c in range(columns):
                    i = np.uint64(first + c)
                    out[o, j, i] = at_least(exponential(data[o, j, i] - top[i]), least[i], number(0)) * share[i]
    return OK


@generic
def log_softmax_columns(data: Array, out: Array, top: Array, shift: Array, total: Array) -> int:
    """The logarithm of softmax of columns, with the buffers but the last."""
    if data.shape[1] == 0:
        return OK
    outer, n, inner = data.shape
    for o in range(outer):
        for first in range(0, inner, BLOCK):
            columns = min(BLOCK, inner - first)
            column_totals(data, o, first, columns, top, total, exponential)
            for c in range(columns):
                i = np.uint64(first + c)
                shift[i] = math.log(total[i])
            for j in range(n):
                for c in range(columns):
                    i = np.uint64(first + c)
                    out[o, j, i] = (data[o, j, i] - top[i]) - shift[i]
    return OK


# ---- bodies by the data's dtype; "" stands for storage-only dtypes and for any other -----------------------------------------

_OF_DOUBLE = (exp_float64, np.float64, 1.0001 * 2.0**-1022)
_NUMBERS = {"float64": _OF_DOUBLE, "": (exp_float32_below, np.float32, 1.0001 * 2.0**-126)}
#: Exponentials scaled by the same factor, which cancels in the division.
_LARGE = {"float32": (large_exp_float32_below, np.float32, 1.0001 * 2.0**-126), "float64": _OF_DOUBLE}


def _bodies(template: Any, numbers: dict[str, Any]) -> dict[str, Any]:
    return {
        dtype: instantiate(template, f"{template.__name__}_{dtype or 'float32'}", exponential=e, number=n, tiny=t)
        for dtype, (e, n, t) in numbers.items()
    }


#: ``exp(x - max) / sum(exp(x - max))``
SOFTMAX_ROWS = _bodies(softmax_rows, _LARGE)
#: The same in place.
SOFTMAX_ROWS_OVER = _bodies(softmax_rows_over, _LARGE)
#: The same of halves, in place or not.
SOFTMAX_ROWS_OF_HALVES = _bodies(softmax_rows_held, {"": _LARGE["float32"]})[""]
SOFTMAX_COLUMNS = _bodies(softmax_columns, _NUMBERS)
#: The logarithm of softmax.
LOG_SOFTMAX_ROWS = _bodies(log_softmax_rows, _NUMBERS)
LOG_SOFTMAX_COLUMNS = _bodies(log_softmax_columns, _NUMBERS)
