"""The trace, as machine code: rows of words, one per event, appended to one buffer (``state_layout.EVENT_WORDS``)."""

from __future__ import annotations

from ....ops.native.memory import clock_ns, load_i64, native, store_i64, tensor
from ...state.growable import grow
from ...state.state_layout import (
    EVENT_KERNEL,
    EVENT_SHAPE_FUNC,
    EVENT_TYPE_BYTES,
    EVENT_WORDS,
    PACKED_BYTES,
    TRACE_EVENTS,
    event_at,
    event_type_at,
    packed_at,
    state_at,
)
from ..objects.heap import n_bytes


@native
def has_space(state: int, words: int) -> bool:
    """Reserve ``words`` more words in the trace; False if there is no memory."""
    s = state_at(state)
    if s.trace_used + words > s.trace_words:
        capacity = max(2 * s.trace_words, s.trace_used + words + 4096 * EVENT_WORDS)
        block = grow(s.trace, s.trace_used, capacity)
        if block == 0:
            return False
        s.trace = block
        s.trace_words = capacity
    return True


@native
def record_event(state: int, kind: int, pc: int, subject: int, start: int, end: int, nbytes: int) -> int:
    """Append an event of the host: the first word of its row; -1: no memory, or the trace leaves the event out."""
    s = state_at(state)
    if s.traced_kernels != 0 and (kind != EVENT_KERNEL or load_i64(s.traced_kernels + 8 * subject) == 0):
        return -1
    if not has_space(state, EVENT_WORDS):
        return -1
    row = s.trace_used
    at = s.trace + 8 * s.trace_used
    event = event_at(at)
    event.words = EVENT_WORDS
    event.kind = kind
    event.pc = pc
    event.subject = subject
    event.start = start
    event.end = end
    event.nbytes = nbytes
    event.asked_start = start
    event.asked_end = end
    event.live_bytes = s.live_bytes
    s.trace_used += EVENT_WORDS
    return row


@native
def end_event(state: int, row: int) -> None:
    """Set the end of an event to now; ``row`` -1: there is none."""
    if row >= 0:
        event = event_at(state_at(state).trace + 8 * row)
        event.end = clock_ns()
        event.asked_end = event.end


@native
def record_types(state: int, argv: int, n: int, packed: int) -> None:
    """Append the types of the ``n`` tensors at ``argv`` to the last row, and set its bytes to theirs.

    Without those of a tensor of which the kernel ``packed`` (-1: a shape function) updates only some elements, in place.
    """
    s = state_at(state)
    updated, result = -1, -1
    if packed >= 0:
        row = packed_at(s.packed + PACKED_BYTES * packed)
        updated, result = row.updated, row.result
        if updated >= 0 and tensor(load_i64(argv + 8 * updated)).data != tensor(load_i64(argv + 8 * result)).data:
            updated, result = -1, -1
    words = 0
    for i in range(n):
        words += 2 + tensor(load_i64(argv + 8 * i)).ndim
    if s.trace_used < EVENT_WORDS or not has_space(state, words):
        return
    event = event_at(s.trace + 8 * (s.trace_used - EVENT_WORDS))
    at = s.trace + 8 * s.trace_used
    nbytes = 0
    for i in range(n):
        source = load_i64(argv + 8 * i)
        t = tensor(source)
        ty = event_type_at(at)
        ty.dtype = t.dtype
        ty.ndim = t.ndim
        at += EVENT_TYPE_BYTES
        for axis in range(t.ndim):
            store_i64(at + 8 * axis, t.shape[axis])
        at += 8 * t.ndim
        nbytes += n_bytes(source) if i != updated and i != result else 0
    s.trace_used += words
    event.words = EVENT_WORDS + words
    event.nbytes = nbytes


@native
def record_kernel(state: int, pc: int, packed: int, start: int, argv: int, n: int, asked_start: int, asked_end: int) -> None:
    """Append the event of a finished kernel on the ``n`` tensors at ``argv``; ``asked_start`` is 0 for a kernel on the host."""
    s = state_at(state)
    row = record_event(state, EVENT_KERNEL, pc, packed, start, clock_ns(), 0)
    if row < 0:
        return
    if asked_start != 0:
        event = event_at(s.trace + 8 * row)
        event.asked_start = asked_start
        event.asked_end = asked_end
    if s.tracing > TRACE_EVENTS:
        record_types(state, argv, n - packed_at(s.packed + PACKED_BYTES * packed).workspaces, packed)


@native
def begin_kernel(state: int, pc: int, packed: int, argv: int, n: int) -> int:
    """Append the event of a launch on a GPU, without its times: first word of the row; -1 as ``record_event``."""
    now = clock_ns()
    row = record_event(state, EVENT_KERNEL, pc, packed, now, now, 0)
    if row >= 0 and state_at(state).tracing > TRACE_EVENTS:
        record_types(state, argv, n, packed)
    return row


@native
def record_shape_func(state: int, pc: int, number: int, start: int, argv: int, n: int) -> None:
    """Append the event of a finished shape function on the ``n`` tensors at ``argv``, with 0 bytes."""
    s = state_at(state)
    row = record_event(state, EVENT_SHAPE_FUNC, pc, number, start, clock_ns(), 0)
    if row >= 0 and s.tracing > TRACE_EVENTS:
        record_types(state, argv, n, -1)
        event_at(s.trace + 8 * row).nbytes = 0
