"""Work on devices, as machine code: the queue of ``sim``, copies between host and device, and the trace of both.

Work for ``sim`` is queued and runs when the host waits.  Until then the memory it writes holds poison, so a copy or a
wait that is missing gives a wrong answer on any machine.
"""

from __future__ import annotations

from ..ops.native.layout import OBJECT_BYTES
from ..ops.native.memory import (
    alloc,
    call_kernel,
    clock_ns,
    copy_bytes,
    fill_bytes,
    free,
    load_i64,
    native,
    store_i64,
    tensor,
)
from ..ops.native.status import OK, OUT_OF_MEMORY, RESULT_LOST
from .heap import LOST, QUEUE_COPY, QUEUE_KERNEL, QUEUE_POISON, like, n_bytes, queue_copy, release, reserve
from .layout import (
    EVENT_DTOH,
    EVENT_HTOD,
    EVENT_KERNEL,
    EVENT_SHAPE_FUNC,
    EVENT_SYNC,
    EVENT_WORDS,
    PACKED_WORDS,
    POISON,
    TRACE_EVENTS,
    TRACE_OFF,
    state_at,
)

#: Words of a queued kernel before its descriptors: kind, length, function, arguments, pc, packed, and, where it was traced
#: (else 0), when the host began and ended to queue it; last, how many of the arguments it writes.
_HEAD = 9
#: Most bytes that queued work may hold; then the host waits, as it does where a device's queue is full.
_MOST_QUEUED_BYTES = 16 << 20


@native
def trace_room(state, words):
    """Let the trace hold ``words`` words more; False when there is no memory."""
    s = state_at(state)
    if s.trace_used + words > s.trace_words:
        capacity = max(2 * s.trace_words, s.trace_used + words + 4096 * EVENT_WORDS)
        block = alloc(8 * capacity)
        if block == 0:
            return False
        copy_bytes(block, s.trace, 8 * s.trace_used)
        if s.trace != 0:
            free(s.trace)
        s.trace = block
        s.trace_words = capacity
    return True


@native
def record_event(state, kind, pc, subject, start, end, nbytes):
    """One row of the trace, of what happened while the host asked for it."""
    s = state_at(state)
    if not trace_room(state, EVENT_WORDS):
        return
    at = s.trace + 8 * s.trace_used
    store_i64(at, EVENT_WORDS)
    store_i64(at + 8, kind)
    store_i64(at + 16, pc)
    store_i64(at + 24, subject)
    store_i64(at + 32, start)
    store_i64(at + 40, end)
    store_i64(at + 48, nbytes)
    store_i64(at + 56, start)
    store_i64(at + 64, end)
    store_i64(at + 72, s.live_bytes)
    s.trace_used += EVENT_WORDS


@native
def record_types(state, argv, n):
    """Add the types of the ``n`` tensors at ``argv`` to the last row of the trace, whose bytes are theirs."""
    s = state_at(state)
    words = 0
    for i in range(n):
        words += 2 + tensor(load_i64(argv + 8 * i)).ndim
    if s.trace_used < EVENT_WORDS or not trace_room(state, words):
        return
    row = s.trace + 8 * (s.trace_used - EVENT_WORDS)
    at = s.trace + 8 * s.trace_used
    nbytes = 0
    for i in range(n):
        source = load_i64(argv + 8 * i)
        t = tensor(source)
        store_i64(at, t.dtype)
        store_i64(at + 8, t.ndim)
        for axis in range(t.ndim):
            store_i64(at + 16 + 8 * axis, t.shape[axis])
        at += 16 + 8 * t.ndim
        nbytes += n_bytes(source)
    s.trace_used += words
    store_i64(row, EVENT_WORDS + words)
    store_i64(row + 48, nbytes)


@native
def record_kernel(state, pc, packed, start, argv, n, asked_start, asked_end):
    """The row of a kernel that just ended, on the ``n`` tensors at ``argv``; ``asked_start`` is 0 where the host ran it."""
    s = state_at(state)
    used = s.trace_used
    record_event(state, EVENT_KERNEL, pc, packed, start, clock_ns(), 0)
    if s.trace_used == used:
        return
    if asked_start != 0:
        store_i64(s.trace + 8 * used + 56, asked_start)
        store_i64(s.trace + 8 * used + 64, asked_end)
    if s.tracing > TRACE_EVENTS:
        record_types(state, argv, n)


@native
def record_shape_func(state, pc, number, start, argv, n):
    """The row of a shape function that just ended, on the ``n`` tensors at ``argv``; it moves no bytes."""
    s = state_at(state)
    used = s.trace_used
    record_event(state, EVENT_SHAPE_FUNC, pc, number, start, clock_ns(), 0)
    if s.tracing > TRACE_EVENTS and s.trace_used != used:
        record_types(state, argv, n)
        store_i64(s.trace + 8 * used + 48, 0)


@native
def queue_kernel(state, function, argv, n, n_outputs, pc, packed):
    """Queue a launch with copies of its ``n`` descriptors; a status.  A full queue runs: nobody may ever read its results."""
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
        copy_bytes(at + 8 * _HEAD + i * OBJECT_BYTES, load_i64(argv + 8 * i), OBJECT_BYTES)
    store_i64(at + 48, start)
    store_i64(at + 56, clock_ns() if start != 0 else 0)
    store_i64(at + 64, n_outputs)
    s = state_at(state)
    return drain(state) if 8 * s.queue_used + s.staged_bytes > _MOST_QUEUED_BYTES else OK


@native
def run_queued_kernel(state, at):
    """Run one queued launch; a status."""
    s = state_at(state)
    n = load_i64(at + 24)
    for i in range(n):
        store_i64(s.argv + 8 * i, at + 8 * _HEAD + i * OBJECT_BYTES)
    store_i64(s.argv + 8 * n, s.libraries)
    if s.tracing == TRACE_OFF:
        return call_kernel(load_i64(at + 16), s.argv, n)
    start = clock_ns()
    status = call_kernel(load_i64(at + 16), s.argv, n)
    record_kernel(state, load_i64(at + 32), load_i64(at + 40), start, s.argv, n, load_i64(at + 48), load_i64(at + 56))
    return status


@native
def mark_lost(at):
    """What a queued launch should have written will never be there: see ``heap.LOST``."""
    n = load_i64(at + 24)
    for i in range(n - load_i64(at + 64), n):
        storage = tensor(at + 8 * _HEAD + i * OBJECT_BYTES).storage
        if storage != 0:
            tensor(storage).ndim = LOST


@native
def is_lost(at):
    """Was the work that makes this tensor dropped?"""
    storage = tensor(at).storage
    return storage != 0 and tensor(storage).ndim == LOST


@native
def drain(state):
    """Run what is queued.  A status; after a failure the rest of the queue is dropped, and its results marked as lost."""
    s = state_at(state)
    at = s.queue
    end = s.queue + 8 * s.queue_used
    status = 0
    while at < end:
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
        elif kind == QUEUE_POISON:
            fill_bytes(load_i64(at + 16), POISON, load_i64(at + 24))
        at += 8 * load_i64(at + 8)
    s.queue_used = 0
    s.staged_bytes = 0
    return status


@native
def synchronise(state, pc, device):
    """Wait for a device, because the host is about to read what it wrote; a status."""
    s = state_at(state)
    s.syncs += 1
    if s.tracing == TRACE_OFF:
        return drain(state)
    start = clock_ns()
    status = drain(state)
    record_event(state, EVENT_SYNC, pc, device, start, clock_ns(), 0)
    return status


@native
def wait_for_link(state, start, nbytes):
    """Take as long as the link would."""
    rate = state_at(state).link_bytes_per_s
    if rate > 0:
        until = start + int(nbytes * 1.0e9 / rate)
        while clock_ns() < until:
            pass


@native
def device_to_host(state, source, pc, reason):
    """A copy on the host: waits for the device first.  0 when that failed (see the state's status) or no memory."""
    s = state_at(state)
    s.status = synchronise(state, pc, tensor(source).device)
    if s.status == 0 and is_lost(source):
        s.status = RESULT_LOST
    if s.status != 0:
        return 0
    at = like(state, source, 0)
    if at == 0:
        s.status = OUT_OF_MEMORY
        return 0
    nbytes = n_bytes(source)
    start = clock_ns()
    copy_bytes(tensor(at).data, tensor(source).data, nbytes)
    wait_for_link(state, start, nbytes)
    s.dtoh_copies += 1
    s.dtoh_bytes += nbytes
    if s.tracing != TRACE_OFF:
        record_event(state, EVENT_DTOH, pc, reason, start, clock_ns(), nbytes)
    return at


@native
def host_to_device(state, source, device, pc, reason, lasts):
    """A copy on the device.  ``lasts``: the source stays as it is until the queue has run, so it need not be staged.

    0 when there is no memory.
    """
    s = state_at(state)
    at = like(state, source, device)
    if at == 0:
        s.status = OUT_OF_MEMORY
        return 0
    nbytes = n_bytes(source)
    start = clock_ns()
    status = 0
    if s.queue_used == 0:
        copy_bytes(tensor(at).data, tensor(source).data, nbytes)
    elif lasts:
        status = queue_copy(state, tensor(at).data, tensor(source).data, nbytes, 0)
    else:
        staging = alloc(nbytes)
        status = OUT_OF_MEMORY
        if staging != 0:
            copy_bytes(staging, tensor(source).data, nbytes)
            status = queue_copy(state, tensor(at).data, staging, nbytes, 1)
            s.staged_bytes += nbytes
    if status != 0:
        release(state, at)
        s.status = OUT_OF_MEMORY
        return 0
    wait_for_link(state, start, nbytes)
    s.htod_copies += 1
    s.htod_bytes += nbytes
    if s.tracing != TRACE_OFF:
        record_event(state, EVENT_HTOD, pc, reason, start, clock_ns(), nbytes)
    return at


@native
def arguments_fit(row, argv, n, device):
    """Are the tensors at ``argv`` of the ranks and dtypes that the kernel was made for, on its device?"""
    for i in range(n):
        t = tensor(load_i64(argv + 8 * i))
        if t.ndim != load_i64(row + 16 * i) or t.dtype != load_i64(row + 16 * i + 8) or t.device != device:
            return False
    return True


@native
def launch(state, packed, argv, n, n_outputs, pc):
    """Run a kernel of the packed table, or queue it on its device; a status."""
    s = state_at(state)
    row = s.packed + 8 * PACKED_WORDS * packed
    function = load_i64(row)
    s.launches += 1
    if load_i64(row + 8) != 0:
        return queue_kernel(state, function, argv, n, n_outputs, pc, packed)
    store_i64(argv + 8 * n, s.libraries)
    if s.tracing == TRACE_OFF:
        return call_kernel(function, argv, n) + 0
    start = clock_ns()
    status = call_kernel(function, argv, n) + 0
    record_kernel(state, pc, packed, start, argv, n, 0, 0)
    return status
