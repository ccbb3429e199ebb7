"""Trace events, as the native loop recorded them."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ....ops.core.tensor_types import DTYPES
from ...state.state_layout import EVENT_WORDS

if TYPE_CHECKING:
    from collections.abc import Sequence

KERNEL, SHAPE_FUNC, DTOH, HTOD, SYNC, ALLOC, HOST_CALL = "kernel", "shape_func", "dtoh", "htod", "sync", "alloc", "host_call"
#: Kinds by the number that the loop writes: ``state_layout.EVENT_KERNEL`` and the following.
KINDS = (KERNEL, SHAPE_FUNC, DTOH, HTOD, SYNC, ALLOC, HOST_CALL)


class Event(NamedTuple):
    """One row of a trace.

    ``pc``: word in the whole code (-1: no instruction); ``subject``: number of the kernel, shape function, reason (-1: none) or
    device.  Times are nanoseconds of a monotonic clock: the event ran from ``start_ns`` to ``end_ns``; the host enqueued it from
    ``asked_start_ns`` to ``asked_end_ns``, which is earlier on a device with a queue and the same elsewhere.  ``nbytes``: copied,
    allocated, or accessed by a kernel (if types are traced).  ``live_bytes``: storage in use after the event.  ``types``: dtype
    and shape of each argument, if they are traced.
    """

    kind: str
    pc: int
    subject: int
    start_ns: int
    end_ns: int
    nbytes: int
    asked_start_ns: int = 0
    asked_end_ns: int = 0
    live_bytes: int = 0
    types: tuple[tuple[str, tuple[int, ...]], ...] = ()


def read_events(words: np.ndarray) -> list[Event]:
    """Parse the words of a trace into events, in order."""
    data, at, out = words.tolist(), 0, []
    make, head = Event._make, EVENT_WORDS
    while at < len(data):
        end = at + data[at]
        types = _types(tuple(data[at + head : end])) if end > at + head else ()
        out.append(make((KINDS[data[at + 1]], *data[at + 2 : at + head], types)))
        at = end
    return out


@functools.lru_cache(maxsize=4096)
def _types(words: tuple[int, ...]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    out, at = [], 0
    while at < len(words):
        dtype, ndim = words[at], words[at + 1]
        out.append((DTYPES[dtype], tuple(words[at + 2 : at + 2 + ndim])))
        at += 2 + ndim
    return tuple(out)


def types_text(types: Sequence[tuple[str, tuple[int, ...]]]) -> str:
    """Format types as ``float32[2000, 80], int64``."""
    return ", ".join(f"{dtype}[{', '.join(map(str, shape))}]" if shape else dtype for dtype, shape in types)
