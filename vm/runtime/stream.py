"""Work on devices, as machine code: launches, waits, and copies between host and device.

The host waits for a device only before it reads the device's results, and every wait is counted by its reason (``sync_reason``).
What a device does for a request is its own folder's (``vm.devices``).
"""

from __future__ import annotations

from ...ops.native.memory import clock_ns, copy_bytes, load_i64, native, store_i64, tensor
from ...ops.native.object_layout import TAG_PENDING
from ...ops.native.objects import pending_at
from ...ops.native.status import DEVICE_ERROR, OUT_OF_MEMORY, RESULT_LOST
from ...ops.native.threads.team import run_kernel
from ..bytecode.sync_reason import SyncReason, number_of
from ..device_table import CPU
from ..state.device_requests import (
    ALL,
    COPY_ON_DEVICE,
    FETCH_BEGIN,
    FETCH_DROP,
    FETCH_END,
    FETCH_WAIT,
    LAUNCH,
    SYNC,
    TO_DEVICE,
    ask,
)
from ..state.state_layout import EVENT_HTOD, EVENT_SYNC, PACKED_BYTES, TRACE_OFF, TYPE_BYTES, packed_at, state_at, type_at
from .objects.chunks import SMALL, free_object, new_object
from .objects.heap import is_lost, like, n_bytes, release, retain
from .tracing.event_trace import record_event, record_kernel

_MEMORY = number_of(SyncReason.MEMORY)


# ---- waiting ----------------------------------------------------------------------------------------------------------


@native
def wait_for(state: int, pc: int, why: int, ticket: int) -> int:
    """Wait for ``ticket`` of the device (ALL: everything), for the reason ``why``; a status."""
    s = state_at(state)
    s.syncs += 1
    store_i64(s.sync_counts + 8 * why, load_i64(s.sync_counts + 8 * why) + 1)
    start = clock_ns() if s.tracing != TRACE_OFF else 0
    status = wait_until(state, ticket) + 0
    if status != DEVICE_ERROR:
        s.n_launched = 0
    if ticket == ALL or status != 0:
        s.outstanding = 0
    if s.tracing != TRACE_OFF:
        record_event(state, EVENT_SYNC, pc, why, start, clock_ns(), 0)
    return status


@native
def wait_until(state: int, ticket: int) -> int:
    """Wait for the device up to ``ticket``; a status."""
    if ticket == ALL:
        return ask(state, SYNC, 0, 0, 0, 0)
    return ask(state, FETCH_WAIT, ticket, 0, 0, 0)


@native
def wait_for_all(state: int, why: int) -> int:
    """Wait for all outstanding work, between two instructions; a status.  ``why`` -1: the wait is not counted."""
    s = state_at(state)
    if why < 0:
        return wait_until(state, ALL) if s.device != 0 else 0
    return wait_for(state, -1, why, ALL) if s.outstanding != 0 else 0


# ---- from a device to the host ------------------------------------------------------------------------------------------


@native
def begin_copy(state: int, source: int, pc: int, reason: int) -> int:
    """Begin a copy of ``source`` to the host, after the work enqueued so far; a pending copy.

    0 if there is no memory, or the device failed (see the state's status).
    """
    s = state_at(state)
    at = new_pending(state, like(state, source, s.host_pool), source)
    if at == 0:
        s.status = OUT_OF_MEMORY
        return 0
    p = pending_at(at)
    p.device = tensor(source).device
    p.pc = pc
    p.reason = reason
    p.ticket = ask(state, FETCH_BEGIN, at, 0, 0, 0)
    if p.ticket < 0:
        s.status = -p.ticket
        p.device = CPU  # nothing to wait for
        release(state, at)
        return 0
    return at


@native
def new_pending(state: int, to: int, source: int) -> int:
    """A pending copy of ``source`` into ``to``, which it takes over (0: no memory); 0: no memory."""
    if to == 0:
        return 0
    at = new_object(state, TAG_PENDING, SMALL)
    if at == 0:
        release(state, to)
        return 0
    pending_at(at).to = to
    pending_at(at).source = retain(source)
    return at


@native
def end_copy(state: int, at: int, why: int, until: int) -> int:
    """Finish and release a pending copy; its host tensor.  0 if the device failed (see the state's status).

    ``why``: the reason of the wait; -1: the device is idle, so the wait is not counted.  ``until``: wait for at least this ticket
    (ALL, or 0: only the copy).
    """
    s = state_at(state)
    p = pending_at(at)
    to: int
    to, source, ticket = p.to, p.source, p.ticket
    status = 0
    if why >= 0:
        status = wait_for(state, p.pc, why, max(ticket, until)) + 0
    if why < 0:
        status = wait_until(state, ticket) + 0
    elif until == ALL:  # a wait for everything releases no ticket
        status = max(status, ask(state, FETCH_DROP, ticket, 0, 0, 0))
    if status == 0 and is_lost(source):
        status = RESULT_LOST
    if status == 0:
        status = ask(state, FETCH_END, at, 0, 0, 0)
    s.status = status
    nbytes = n_bytes(source)
    free_object(state, at, SMALL)
    release(state, source)
    if status != 0:
        release(state, to)
        return 0
    s.dtoh_copies += 1
    s.dtoh_bytes += nbytes
    return to


@native
def device_to_host(state: int, source: int, pc: int, reason: int) -> int:
    """Copy a device tensor to the host, for a reason of the program; waits.

    0 if the copy failed (see the state's status) or there is no memory.
    """
    pending = begin_copy_or_wait(state, source, pc, reason)
    if pending == 0:
        return 0
    return end_copy(state, pending, load_i64(state_at(state).reason_kinds + 8 * reason), 0)


@native
def begin_copy_or_wait(state: int, source: int, pc: int, reason: int) -> int:
    """As ``begin_copy``; without memory, first wait for the work that may be using the pool's free blocks."""
    s = state_at(state)
    pending = begin_copy(state, source, pc, reason)
    if pending != 0 or s.status != OUT_OF_MEMORY or s.outstanding == 0:
        return pending
    s.status = wait_for_all(state, _MEMORY)
    return begin_copy(state, source, pc, reason) if s.status == 0 else 0


@native
def fetch(state: int, source: int, why: int) -> int:
    """Copy a device tensor to the host, between two runs, for the sync reason ``why``.  0 as ``device_to_host``."""
    pending = begin_copy_or_wait(state, source, -1, -1)
    if pending == 0:
        return 0
    return end_copy(state, pending, why if state_at(state).outstanding != 0 else -1, ALL)


# ---- from the host to a device --------------------------------------------------------------------------------------------


@native
def host_to_device(state: int, source: int, device: int, pc: int, reason: int, lasts: int) -> int:
    """Copy a host tensor to a device.  ``lasts``, 0 or 1: the source does not change until the copy is made.

    0 if there is no memory, or the device failed (see the state's status).
    """
    s = state_at(state)
    at = like(state, source, device)
    if at == 0:
        s.status = OUT_OF_MEMORY
        return 0
    nbytes = n_bytes(source)
    row = -1
    if s.tracing != TRACE_OFF:
        start = clock_ns()
        row = record_event(state, EVENT_HTOD, pc, reason, start, start, nbytes)
    s.outstanding = 1
    status = ask(state, TO_DEVICE, tensor(at).data, tensor(source).data, nbytes, row << 1 | lasts)
    if status != 0:
        release(state, at)
        s.status = status
        return 0
    s.htod_copies += 1
    s.htod_bytes += nbytes
    return at


# ---- on one device --------------------------------------------------------------------------------------------------------


@native
def copy_on_device(state: int, to: int, source: int) -> int:
    """Copy the elements of a tensor into another one on the same device, after the work enqueued so far; a status."""
    there, data, nbytes = tensor(to).data, tensor(source).data, n_bytes(source)
    if tensor(source).device != CPU:
        return ask(state, COPY_ON_DEVICE, there, data, nbytes, 0)
    copy_bytes(there, data, nbytes)
    return 0


# ---- launches ----------------------------------------------------------------------------------------------------------------


@native
def arguments_match(types: int, argv: int, n: int) -> bool:
    """Whether the tensors at ``argv`` have the ranks, dtypes and devices that the kernel was compiled for.

    ``types``: a TYPE for each tensor; its device is -1 for any device.
    """
    for i in range(n):
        t, wanted = tensor(load_i64(argv + 8 * i)), type_at(types + TYPE_BYTES * i)
        if t.ndim != wanted.ndim or t.dtype != wanted.dtype or (wanted.device >= 0 and t.device != wanted.device):
            return False
    return True


@native
def launch(state: int, packed: int, argv: int, n: int, n_outputs: int, pc: int) -> int:
    """Run a kernel of the packed table, or launch it on its device; a status."""
    s = state_at(state)
    row = packed_at(s.packed + PACKED_BYTES * packed)
    s.launches += 1
    if row.device != CPU:
        return launch_on_device(state, packed, argv, n, n_outputs, pc)
    function = row.function
    store_i64(argv + 8 * n, s.libraries)
    if s.tracing == TRACE_OFF:
        return run_kernel(s.team, function, argv, n)
    start = clock_ns()
    status = run_kernel(s.team, function, argv, n) + 0
    record_kernel(state, pc, packed, start, argv, n, 0, 0)
    return status


@native
def launch_on_device(state: int, packed: int, argv: int, n: int, n_outputs: int, pc: int) -> int:
    """Launch on an asynchronous device; a status."""
    s = state_at(state)
    if s.n_launched == 0:
        s.first_pc = pc
    s.last_pc = pc
    s.n_launched += 1
    s.outstanding = 1
    status = ask(state, LAUNCH, packed, argv, n << 32 | n_outputs, pc)
    if status == 0 and s.wait_each != 0:
        status = wait_for(state, pc, s.wait_each - 1, ALL) + 0
    return status
