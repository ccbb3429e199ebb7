"""The ``sim`` device, as machine code: a queue in host memory, run only as far as the host waits.

A queue position is the number of words queued before it since the machine was made.
"""

from __future__ import annotations

from ....ops.native.memory import clock_ns, copy_bytes, fill_bytes, free, load_i64, native, store_i64, tensor
from ....ops.native.object_layout import OBJECT_BYTES
from ....ops.native.objects import storage_at
from ....ops.native.status import OK, OUT_OF_MEMORY
from ....ops.native.threads.team import run_kernel
from ...runtime.objects.chunks import bytes_of_tensor
from ...runtime.objects.heap import LOST
from ...runtime.tracing.event_trace import record_kernel
from ...state.device_queue import QUEUE_COPY, QUEUE_KERNEL, QUEUE_POISON, reserve
from ...state.state_layout import POISON, TRACE_OFF, state_at

#: Words of a queued kernel before its descriptors: kind, length, function, arguments, pc, packed, start and end of its enqueueing
#: by the host if traced (else 0), number of outputs, number of storages allocated so far.
_HEAD = 10
#: Most bytes that queued work may hold; then the host waits, as for a device with a full queue.
MOST_QUEUED_BYTES = 16 << 20
#: The position behind all entries.
ALL = 1 << 62


@native
def queue_kernel(state: int, function: int, argv: int, n: int, n_outputs: int, pc: int, packed: int) -> int:
    """Queue a launch with copies of its ``n`` descriptors; a status."""
    start = clock_ns() if state_at(state).tracing != TRACE_OFF else 0
    words = OBJECT_BYTES // 8
    at = reserve(state, _HEAD + n * words)
    if at == 0:
        return OUT_OF_MEMORY
    store_i64(at, QUEUE_KERNEL)
    store_i64(at + 8, _HEAD + n * words)
    store_i64(at + 16, function)
    store_i64(at + 24, n)
    store_i64(at + 32, pc)
    store_i64(at + 40, packed)
    for i in range(n):
        source = load_i64(argv + 8 * i)
        copy_bytes(at + 8 * _HEAD + i * OBJECT_BYTES, source, bytes_of_tensor(source))
    store_i64(at + 48, start)
    store_i64(at + 56, clock_ns() if start != 0 else 0)
    store_i64(at + 64, n_outputs)
    store_i64(at + 72, state_at(state).handed_out)
    return OK


@native
def is_full(state: int) -> bool:
    """Whether the queue is full: nobody may ever read its results."""
    s = state_at(state)
    return 8 * (s.queue_used - s.queue_head) + s.staged_bytes > MOST_QUEUED_BYTES


@native
def end_of_queue(state: int) -> int:
    """The position behind the last entry."""
    s = state_at(state)
    return s.queue_base + s.queue_used


@native
def run_queued_kernel(state: int, at: int) -> int:
    """Run one queued launch; a status."""
    s = state_at(state)
    n = load_i64(at + 24)
    for i in range(n):
        store_i64(s.argv + 8 * i, at + 8 * _HEAD + i * OBJECT_BYTES)
    store_i64(s.argv + 8 * n, s.libraries)
    if s.tracing == TRACE_OFF:
        return run_kernel(s.team, load_i64(at + 16), s.argv, n)
    start = clock_ns()
    status = run_kernel(s.team, load_i64(at + 16), s.argv, n) + 0
    record_kernel(state, load_i64(at + 32), load_i64(at + 40), start, s.argv, n, load_i64(at + 48), load_i64(at + 56))
    return status


@native
def mark_lost(at: int) -> None:
    """Mark the results of a queued launch as lost: see ``heap.LOST``.

    A storage that was freed and allocated again since then has another value: its producer is queued behind this launch.
    """
    n = load_i64(at + 24)
    for i in range(n - load_i64(at + 64), n):
        storage = tensor(at + 8 * _HEAD + i * OBJECT_BYTES).storage
        if storage != 0 and storage_at(storage).serial <= load_i64(at + 72):
            storage_at(storage).writer = LOST


@native
def is_lost(at: int) -> bool:
    """Whether the launch that produces this tensor was dropped."""
    storage = tensor(at).storage
    return storage != 0 and storage_at(storage).writer == LOST  # type: ignore[no-any-return]


@native
def run_entry(state: int, at: int, status: int) -> int:
    """Run one entry; a status.  After a failure (``status``) a kernel is dropped, and its results marked as lost."""
    s = state_at(state)
    kind = load_i64(at)
    if kind == QUEUE_KERNEL:
        if status == 0:
            status = run_queued_kernel(state, at) + 0
            if status != 0:
                s.error_pc = load_i64(at + 32)
        if status != 0:
            mark_lost(at)
    elif kind == QUEUE_COPY:
        copy_bytes(load_i64(at + 16), load_i64(at + 24), load_i64(at + 32))
        if load_i64(at + 40) != 0:
            free(load_i64(at + 24))
            s.staged_bytes -= load_i64(at + 32)
    elif kind == QUEUE_POISON:
        fill_bytes(load_i64(at + 16), POISON, load_i64(at + 24))
    return status


@native
def drain(state: int, until: int) -> int:
    """Run queued entries before the position ``until``; a status.  After a failure all queued kernels are dropped."""
    s = state_at(state)
    status = 0
    while s.queue_head < s.queue_used and (status != 0 or s.queue_base + s.queue_head < until):
        at = s.queue + 8 * s.queue_head
        s.queue_head += load_i64(at + 8)
        status = run_entry(state, at, status) + 0
    if s.queue_head == s.queue_used:
        s.queue_base += s.queue_used
        s.queue_head = 0
        s.queue_used = 0
    return status
