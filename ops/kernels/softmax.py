"""Softmax along the middle axis of a 3-D view: of rows, or, where that axis is not the last one, of blocks of columns.

Exponentials are in the dtype that is computed in.  They are added in that dtype as far as RUN elements, the sums of runs in
float64.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..native.arithmetic import add_in_any_order, larger
from ..native.filling import filled
from ..native.memory import generic
from ..native.status import OK
from .folding import RUN
from .real_functions import exp_float32_below, large_exp_float32_below

#: What each body is filled in with: ``e ** x`` of what is not above 0, and the dtype that is computed in.
exponential = number = None
#: Columns that are gone through together: many, for memory is read faster in long stretches.
BLOCK = 4096


@generic
def exp_float64(x):  # type: ignore[no-untyped-def]
    """``e ** x``."""
    return math.exp(x)


# ---- rows ----------------------------------------------------------------------------------------------------------------


@generic
def largest(data, o):  # type: ignore[no-untyped-def]
    """The largest element of a row, NaN if one is NaN."""
    top = data[o, 0, 0]
    for j in range(1, data.shape[1]):
        top = larger(top, data[o, j, 0])
    return top


@generic
def row_total(data, o, top, exponential, number):  # type: ignore[no-untyped-def]
    """``sum(exp(row - top))``."""
    n, total = data.shape[1], 0.0
    for start in range(0, n, RUN):
        run = number(0)
        for k in range(min(RUN, n - start)):
            run = add_in_any_order(run, exponential(data[o, np.uint64(start + k), 0] - top))
        total += np.float64(run)
    return total


@generic
def softmax_rows(data, out):  # type: ignore[no-untyped-def]
    """Softmax of rows; exponentials, all of them times the same number, are kept in the result.

    The largest element of the next row is looked for as those of a row are computed: else the memory would rest meanwhile.
    """
    if data.size == 0:
        return OK
    outer, n, _ = data.shape
    coming = largest(data, 0)
    for o in range(outer):
        top, total, ahead = coming, 0.0, min(o + 1, outer - 1)
        coming = data[ahead, 0, 0]
        for start in range(0, n, RUN):
            run = number(0)
            for k in range(min(RUN, n - start)):
                j = np.uint64(start + k)
                power = exponential(data[o, j, 0] - top)
                out[o, j, 0] = power
                run = add_in_any_order(run, power)
                coming = larger(coming, data[ahead, j, 0])
            total += np.float64(run)
        # an infinity or a NaN in a row is in all of its results
        share = number(1.0 / total) if top - top == number(0) else number(np.nan)
        for j in range(n):
            out[o, j, 0] = out[o, j, 0] * share
    return OK


@generic
def softmax_rows_over(data, out):  # type: ignore[no-untyped-def]
    """As ``softmax_rows`` where both are the same memory: a row that is written is never read ahead of."""
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
        for j in range(n):
            out[o, j, 0] = out[o, j, 0] * share
    return OK


@generic
def softmax_rows_twice(data, out):  # type: ignore[no-untyped-def]
    """Softmax of rows; exponentials are computed a second time, since the result would round them."""
    if data.shape[1] == 0:
        return OK
    outer, n, _ = data.shape
    for o in range(outer):
        top = largest(data, o)
        share = number(1.0 / row_total(data, o, top, exponential, number))
        for j in range(n):
            out[o, j, 0] = exponential(data[o, j, 0] - top) * share
    return OK


@generic
def log_softmax_rows(data, out):  # type: ignore[no-untyped-def]
    """The logarithm of softmax of rows."""
    if data.shape[1] == 0:
        return OK
    outer, n, _ = data.shape
    for o in range(outer):
        top = largest(data, o)
        shift = number(math.log(row_total(data, o, top, exponential, number)))
        for j in range(n):
            out[o, j, 0] = (data[o, j, 0] - top) - shift
    return OK


# ---- columns -------------------------------------------------------------------------------------------------------------


@generic
def column_totals(data, o, first, columns, top, total, exponential):  # type: ignore[no-untyped-def]
    """As ``largest`` and ``row_total``, of the columns from ``first`` on, into ``top`` and ``total``."""
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
def softmax_columns(data, out, top, share, total):  # type: ignore[no-untyped-def]
    """Softmax of columns.  ``top`` and ``share`` are of the dtype that is computed in, ``total`` is of float64."""
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
            for j in range(n):
                for c in range(columns):
                    i = np.uint64(first + c)
                    out[o, j, i] = exponential(data[o, j, i] - top[i]) * share[i]
    return OK


@generic
def log_softmax_columns(data, out, top, shift, total):  # type: ignore[no-untyped-def]
    """The logarithm of softmax of columns, with the same buffers."""
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


# ---- the bodies by the data's dtype; "" stands for those that only store, and for what is not named ---------------------------

_NUMBERS = {"float64": (exp_float64, np.float64), "": (exp_float32_below, np.float32)}
#: All times the same number, which a body that keeps them divides by as well.
_LARGE = {"float32": (large_exp_float32_below, np.float32), "float64": (exp_float64, np.float64)}


def _bodies(template: Any, numbers: dict[str, Any]) -> dict[str, Any]:
    return {
        dtype: filled(template, f"{template.__name__}_{dtype or 'float32'}", exponential=e, number=n)
        for dtype, (e, n) in numbers.items()
    }


_OF_HALVES = _bodies(softmax_rows_twice, {"": _NUMBERS[""]})
#: ``exp(x - max) / sum(exp(x - max))``
SOFTMAX_ROWS = _bodies(softmax_rows, _LARGE) | _OF_HALVES
#: The same where the result is the input's memory.
SOFTMAX_ROWS_OVER = _bodies(softmax_rows_over, _LARGE) | _OF_HALVES
SOFTMAX_COLUMNS = _bodies(softmax_columns, _NUMBERS)
#: The logarithm of softmax.
LOG_SOFTMAX_ROWS = _bodies(log_softmax_rows, _NUMBERS)
LOG_SOFTMAX_COLUMNS = _bodies(log_softmax_columns, _NUMBERS)
