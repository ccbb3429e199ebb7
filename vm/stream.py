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
from ..ops.native.status import OK, OUT_OF_MEMORY
from .heap import QUEUE_COPY, QUEUE_KERNEL, QUEUE_POISON, like, n_bytes, queue_copy, release, reserve
from .layout import EVENT_DTOH, EVENT_HTOD, EVENT_KERNEL, EVENT_SYNC, EVENT_WORDS, PACKED_WORDS, POISON, state_at

_HEAD = 7  # words of a queued kernel before its descriptors: kind, length, function, arguments, pc, packed, -


@native
def record_event(state, kind, pc, subject, start, end, nbytes):
    """One row of the trace."""
    s = state_at(state)
    if s.trace_used + EVENT_WORDS > s.trace_words:
        capacity = max(2 * s.trace_words, 4096 * EVENT_WORDS)
        block = alloc(8 * capacity)
        if block == 0:
            return
        copy_bytes(block, s.trace, 8 * s.trace_used)
        if s.trace != 0:
            free(s.trace)
        s.trace = block
        s.trace_words = capacity
    at = s.trace + 8 * s.trace_used
    store_i64(at, kind)
    store_i64(at + 8, pc)
    store_i64(at + 16, subject)
    store_i64(at + 24, start)
    store_i64(at + 32, end)
    store_i64(at + 40, nbytes)
    s.trace_used += EVENT_WORDS


@native
def queue_kernel(state, function, argv, n, pc, packed):
    """Queue a launch with copies of its ``n`` descriptors; a status."""
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
    return OK


@native
def run_queued_kernel(state, at):
    """Run one queued launch; a status."""
    s = state_at(state)
    n = load_i64(at + 24)
    for i in range(n):
        store_i64(s.argv + 8 * i, at + 8 * _HEAD + i * OBJECT_BYTES)
    store_i64(s.argv + 8 * n, s.libraries)
    if s.tracing == 0:
        return call_kernel(load_i64(at + 16), s.argv, n)
    start = clock_ns()
    status = call_kernel(load_i64(at + 16), s.argv, n)
    record_event(state, EVENT_KERNEL, load_i64(at + 32), load_i64(at + 40), start, clock_ns(), 0)
    return status


@native
def drain(state):
    """Run what is queued.  A status; after a failure the rest of the queue is dropped."""
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
        elif kind == QUEUE_COPY:
            copy_bytes(load_i64(at + 16), load_i64(at + 24), load_i64(at + 32))
            if load_i64(at + 40) != 0:
                free(load_i64(at + 24))
        elif kind == QUEUE_POISON:
            fill_bytes(load_i64(at + 16), POISON, load_i64(at + 24))
        at += 8 * load_i64(at + 8)
    s.queue_used = 0
    return status


@native
def synchronise(state, pc, device):
    """Wait for a device, because the host is about to read what it wrote; a status."""
    s = state_at(state)
    s.syncs += 1
    if s.tracing == 0:
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
    if s.tracing != 0:
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
    if status != 0:
        release(state, at)
        s.status = OUT_OF_MEMORY
        return 0
    wait_for_link(state, start, nbytes)
    s.htod_copies += 1
    s.htod_bytes += nbytes
    if s.tracing != 0:
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
def launch(state, packed, argv, n, pc):
    """Run a kernel of the packed table, or queue it on its device; a status."""
    s = state_at(state)
    row = s.packed + 8 * PACKED_WORDS * packed
    function = load_i64(row)
    s.launches += 1
    if load_i64(row + 8) != 0:
        return queue_kernel(state, function, argv, n, pc, packed)
    store_i64(argv + 8 * n, s.libraries)
    if s.tracing == 0:
        return call_kernel(function, argv, n) + 0
    start = clock_ns()
    status = call_kernel(function, argv, n) + 0
    record_event(state, EVENT_KERNEL, pc, packed, start, clock_ns(), 0)
    return status
