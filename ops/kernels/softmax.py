"""Softmax along the middle axis of a 3-D view.  Exponentials in the data's dtype, their sum in float64."""

from __future__ import annotations

import math

from ..native.memory import generic
from ..native.status import OK


@generic
def largest(data, o, i):  # type: ignore[no-untyped-def]
    """The largest of ``data[o, :, i]``, not empty.  What it says of NaN does not matter: the exponentials are NaN then."""
    top = data[o, 0, i]
    for j in range(1, data.shape[1]):
        if data[o, j, i] > top:
            top = data[o, j, i]
    return top


@generic
def softmax(data, out):  # type: ignore[no-untyped-def]
    """``exp(x - max) / sum(exp(x - max))``."""
    outer, n, inner = data.shape
    if n == 0:
        return OK
    for o in range(outer):
        for i in range(inner):
            top = largest(data, o, i)
            total = 0.0
            for j in range(n):
                out[o, j, i] = math.exp(data[o, j, i] - top)
                total += out[o, j, i]
            for j in range(n):
                out[o, j, i] = out[o, j, i] / total
    return OK


@generic
def softmax_of_halves(data, out):  # type: ignore[no-untyped-def]
    """As ``softmax``, of a dtype that only stores: no exponential is kept in the result, where it would be rounded."""
    outer, n, inner = data.shape
    if n == 0:
        return OK
    for o in range(outer):
        for i in range(inner):
            top = largest(data, o, i)
            total = 0.0
            for j in range(n):
                total += math.exp(data[o, j, i] - top)
            for j in range(n):
                out[o, j, i] = math.exp(data[o, j, i] - top) / total
    return OK


@generic
def log_softmax(data, out):  # type: ignore[no-untyped-def]
    """``x - max - log(sum(exp(x - max)))``."""
    outer, n, inner = data.shape
    if n == 0:
        return OK
    for o in range(outer):
        for i in range(inner):
            top = largest(data, o, i)
            total = 0.0
            for j in range(n):
                total += math.exp(data[o, j, i] - top)
            shift = math.log(total)
            for j in range(n):
                out[o, j, i] = (data[o, j, i] - top) - shift
    return OK
