"""The ``sim`` device, as machine code: a queue in host memory, run only as far as the host waits.

A queue position is the number of words queued before it since the machine was made.  Until queued work runs, the memory that it
will write holds poison, so a missing copy or wait gives a wrong answer on any machine.
"""

from __future__ import annotations

from ....ops.native.memory import alloc, clock_ns, copy_bytes, fill_bytes, free, load_i64, native, store_i64, tensor
from ....ops.native.object_layout import OBJECT_BYTES
from ....ops.native.objects import pending_at, storage_at
from ....ops.native.status import OK, OUT_OF_MEMORY
from ....ops.native.threads.team import run_kernel
from ...bytecode.sync_reason import SyncReason, number_of
from ...runtime.objects.chunks import bytes_of_tensor
from ...runtime.objects.heap import LOST, n_bytes
from ...runtime.stream import wait_for
from ...runtime.tracing.event_trace import end_event, record_event, record_kernel
from ...state.device_requests import ALL
from ...state.state_layout import EVENT_DTOH, PACKED_BYTES, POISON, TRACE_OFF, packed_at, state_at
from ..request_table import handler
from .device_queue import (
    KERNEL,
    QUEUE_COPY,
    QUEUE_KERNEL,
    QUEUE_POISON,
    copy_at,
    dead_at,
    kernel_at,
    queue_copy,
    queue_poison,
    reserve,
    sim_at,
    wait_for_transfer,
)

_QUEUE_FULL = number_of(SyncReason.QUEUE_FULL)
_HEAD = KERNEL.itemsize
#: Most bytes that queued work may hold; then the host waits, as for a device with a full queue.
MOST_QUEUED_BYTES = 16 << 20


# ---- the queue --------------------------------------------------------------------------------------------------------


@native
def end_of_queue(record: int) -> int:
    """The position behind the last entry."""
    s = sim_at(record)
    return s.queue_base + s.queue_used


@native
def run_queued_kernel(state: int, at: int) -> int:
    """Run one queued launch; a status."""
    s, e = state_at(state), kernel_at(at)
    n = e.n
    for i in range(n):
        store_i64(s.argv + 8 * i, at + _HEAD + i * OBJECT_BYTES)
    store_i64(s.argv + 8 * n, s.libraries)
    if s.tracing == TRACE_OFF:
        return run_kernel(s.team, e.function, s.argv, n)
    start = clock_ns()
    status = run_kernel(s.team, e.function, s.argv, n) + 0
    record_kernel(state, e.pc, e.packed, start, s.argv, n, e.asked_start, e.asked_end)
    return status


@native
def mark_lost(at: int) -> None:
    """Mark the results of a queued launch as lost: see ``heap.LOST``.

    A storage that was freed and allocated again since then has another value: its producer is queued behind this launch.
    """
    e = kernel_at(at)
    for i in range(e.n - e.n_outputs, e.n):
        storage = tensor(at + _HEAD + i * OBJECT_BYTES).storage
        if storage != 0 and storage_at(storage).serial <= e.handed_out:
            storage_at(storage).writer = LOST


@native
def run_entry(state: int, record: int, at: int, status: int) -> int:
    """Run one entry; a status.  After a failure (``status``) a kernel is dropped, and its results marked as lost."""
    kind = kernel_at(at).kind
    if kind == QUEUE_KERNEL:
        if status == 0:
            status = run_queued_kernel(state, at) + 0
            if status != 0:
                state_at(state).error_pc = kernel_at(at).pc
        if status != 0:
            mark_lost(at)
    elif kind == QUEUE_COPY:
        copy = copy_at(at)
        copy_bytes(copy.to, copy.source, copy.nbytes)
        if copy.owns != 0:
            free(copy.source)
            sim_at(record).staged_bytes -= copy.nbytes
    elif kind == QUEUE_POISON:
        fill_bytes(dead_at(at).block, POISON, dead_at(at).nbytes)
    return status


@native
def drain(state: int, record: int, until: int) -> int:
    """Run queued entries before the position ``until``; a status.  After a failure all queued kernels are dropped."""
    s = sim_at(record)
    status = 0
    while s.queue_head < s.queue_used and (status != 0 or s.queue_base + s.queue_head < until):
        at = s.queue + 8 * s.queue_head
        s.queue_head += kernel_at(at).words
        status = run_entry(state, record, at, status) + 0
    if s.queue_head == s.queue_used:
        s.queue_base += s.queue_used
        s.queue_head = 0
        s.queue_used = 0
    return status


# ---- requests (see ``vm.state.device_requests``) ------------------------------------------------------------------------


@native
def launch(state: int, record: int, packed: int, argv: int, counts: int, pc: int) -> int:
    """Queue a launch with copies of its descriptors; a status."""
    s, n = state_at(state), counts >> 32
    start = clock_ns() if s.tracing != TRACE_OFF else 0
    nbytes = _HEAD + n * OBJECT_BYTES
    at = reserve(record, nbytes // 8)
    if at == 0:
        return OUT_OF_MEMORY
    e = kernel_at(at)
    e.kind = QUEUE_KERNEL
    e.words = nbytes // 8
    e.function = packed_at(s.packed + PACKED_BYTES * packed).function
    e.n = n
    e.pc = pc
    e.packed = packed
    for i in range(n):
        source = load_i64(argv + 8 * i)
        copy_bytes(at + _HEAD + i * OBJECT_BYTES, source, bytes_of_tensor(source))
    e.asked_start = start
    e.asked_end = clock_ns() if start != 0 else 0
    e.n_outputs = counts & 0xFFFFFFFF
    e.handed_out = s.handed_out
    d = sim_at(record)
    if 8 * (d.queue_used - d.queue_head) + d.staged_bytes > MOST_QUEUED_BYTES:  # nobody may ever read the results
        return wait_for(state, pc, _QUEUE_FULL, ALL)
    return OK


@native
def new_block(pool: int, nbytes: int) -> int:
    """A block in host memory that holds poison; 0: no memory."""
    block = alloc(nbytes)
    if block != 0:
        fill_bytes(block, POISON, nbytes)
    return block


@native
def free_block(pool: int, block: int) -> None:
    """Free a block."""
    free(block)


@native
def end_use(state: int, record: int, block: int, nbytes: int, users: int) -> int:
    """Poison dead bytes after the work queued so far; ``users`` as before."""
    queue_poison(record, block, nbytes)
    return users


@native
def to_device(state: int, record: int, to: int, source: int, nbytes: int, row: int) -> int:
    """Copy from the host: at once, or after the work queued so far; a status."""
    s = sim_at(record)
    start = clock_ns()
    status = OK
    if s.queue_used == 0:
        copy_bytes(to, source, nbytes)
    elif row & 1:
        status = queue_copy(record, to, source, nbytes, 0) + 0
    else:
        staging = alloc(nbytes)
        if staging == 0:
            return OUT_OF_MEMORY
        copy_bytes(staging, source, nbytes)
        s.staged_bytes += nbytes
        status = queue_copy(record, to, staging, nbytes, 1) + 0
    if status == OK:
        wait_for_transfer(record, start, nbytes)
        end_event(state, row >> 1)
    return status


@native
def begin_copy(state: int, record: int, pending: int) -> int:
    """The position behind the work that the copy needs."""
    return end_of_queue(record)


@native
def end_copy(state: int, record: int, pending: int) -> int:
    """Make a copy to the host, which has waited for the copy's source; a status."""
    p = pending_at(pending)
    nbytes = n_bytes(p.source)
    start = clock_ns()
    copy_bytes(tensor(p.to).data, tensor(p.source).data, nbytes)
    wait_for_transfer(record, start, nbytes)
    if state_at(state).tracing != TRACE_OFF:
        record_event(state, EVENT_DTOH, p.pc, p.reason, start, clock_ns(), nbytes)
    return OK


@native
def copy_on_device(state: int, record: int, to: int, source: int, nbytes: int) -> int:
    """Copy within the device: at once, or after the work queued so far; a status."""
    if sim_at(record).queue_used == 0:
        copy_bytes(to, source, nbytes)
        return OK
    state_at(state).outstanding = 1
    return queue_copy(record, to, source, nbytes, 0)


@native
def synchronize(state: int, record: int) -> int:
    """Run all queued entries; a status."""
    return drain(state, record, ALL)


@native
def is_busy(state: int, record: int) -> int:
    """Whether queued work may use free blocks."""
    return int(sim_at(record).queue_used != 0)


@native
def close(state: int, record: int) -> None:
    """Free the queue."""
    s = sim_at(record)
    if s.queue != 0:
        free(s.queue)
    s.queue = 0


serve = handler(
    "sim",
    {
        "LAUNCH": launch,
        "ALLOC": new_block,
        "FREE": free_block,
        "END_USE": end_use,
        "TO_DEVICE": to_device,
        "FETCH_BEGIN": begin_copy,
        "FETCH_WAIT": drain,
        "FETCH_END": end_copy,
        "COPY_ON_DEVICE": copy_on_device,
        "SYNC": synchronize,
        "TRIM_BEGIN": is_busy,
        "CLOSE": close,
    },
)
