"""Work on devices, as machine code: launches, waits, and copies between host and device.

The host waits for a device only before it reads the device's results, and every wait is counted by its reason (``sync_reason``).
``sim`` runs its queue only as far as the host needs it, and until then its output memory holds poison: a missing copy or wait
gives a wrong answer on any machine.
"""

from __future__ import annotations

from ...ops.native.jit.c_functions import call_6
from ...ops.native.memory import alloc, clock_ns, copy_bytes, load_i64, native, store_i64, tensor
from ...ops.native.object_layout import TAG_PENDING
from ...ops.native.objects import pending_at
from ...ops.native.status import DEVICE_ERROR, OUT_OF_MEMORY, RESULT_LOST
from ...ops.native.threads.team import run_kernel
from ..bytecode.sync_reason import SyncReason, number_of
from ..devices.sim.simulated_device import ALL, drain, end_of_queue, is_full, is_lost, queue_kernel
from ..state.device_queue import queue_copy
from ..state.state_layout import (
    CPU,
    CUDA,
    EVENT_DTOH,
    EVENT_HTOD,
    EVENT_SYNC,
    GPU_COPY_BEGIN,
    GPU_COPY_ON_DEVICE,
    GPU_COPY_WAIT,
    GPU_LAUNCH,
    GPU_SYNC,
    GPU_TO_DEVICE,
    PACKED_WORDS,
    PINNED,
    SIM,
    TRACE_OFF,
    state_at,
)
from .objects.chunks import SMALL, free_object, new_object
from .objects.heap import like, n_bytes, release, retain
from .tracing.event_trace import record_event, record_kernel

_QUEUE_FULL, _MEMORY = number_of(SyncReason.QUEUE_FULL), number_of(SyncReason.MEMORY)


# ---- waiting ----------------------------------------------------------------------------------------------------------


@native
def wait_for(state: int, pc: int, device: int, why: int, ticket: int) -> int:
    """Wait for ``ticket`` on a device (ALL: everything), for the reason ``why``; a status."""
    s = state_at(state)
    s.syncs += 1
    store_i64(s.sync_counts + 8 * why, load_i64(s.sync_counts + 8 * why) + 1)
    start = clock_ns() if s.tracing != TRACE_OFF else 0
    status = wait_until(state, device, ticket) + 0
    if status != DEVICE_ERROR:
        s.n_launched = 0
    if ticket == ALL or status != 0:
        s.outstanding = 0
    if s.tracing != TRACE_OFF:
        record_event(state, EVENT_SYNC, pc, why, start, clock_ns(), 0)
    return status


@native
def wait_until(state: int, device: int, ticket: int) -> int:
    """Run or wait for a device up to ``ticket``; a status."""
    if device != CUDA:
        return drain(state, ticket)
    if ticket == ALL:
        return call_6(state_at(state).gpu, state, GPU_SYNC, 0, 0, 0, 0)
    return call_6(state_at(state).gpu, state, GPU_COPY_WAIT, ticket, 0, 0, 0)


@native
def wait_for_all(state: int, why: int) -> int:
    """Wait for all outstanding work, between two instructions; a status.  ``why`` -1: the wait is not counted."""
    s = state_at(state)
    device = CUDA if s.gpu != 0 else SIM
    if why < 0:
        return wait_until(state, device, ALL)
    return wait_for(state, -1, device, why, ALL) if s.outstanding != 0 else 0


@native
def wait_for_transfer(state: int, start: int, nbytes: int) -> None:
    """Wait until a transfer that began at ``start`` has crossed the simulated link."""
    rate, until = state_at(state).link_bytes_per_s, start + state_at(state).link_latency_ns
    if rate > 0:
        until += int(nbytes * 1.0e9 / rate)
    if until > start:
        while clock_ns() < until:
            pass


# ---- from a device to the host ------------------------------------------------------------------------------------------


@native
def begin_copy(state: int, source: int, pc: int, reason: int) -> int:
    """Begin a copy of ``source`` to the host, after the work enqueued so far; a pending copy.

    0 if there is no memory, or the device failed (see the state's status).
    """
    s = state_at(state)
    device = tensor(source).device
    to = like(state, source, PINNED if device == CUDA else CPU)
    at = new_pending(state, to, source)
    if at == 0:
        s.status = OUT_OF_MEMORY
        return 0
    p = pending_at(at)
    p.device = device
    p.pc = pc
    p.reason = reason
    if device != CUDA:
        p.ticket = end_of_queue(state)
        return at
    nbytes = n_bytes(source)
    row = -1
    if s.tracing != TRACE_OFF:
        now = clock_ns()
        row = record_event(state, EVENT_DTOH, pc, reason, now, now, nbytes)
    p.ticket = call_6(s.gpu, state, GPU_COPY_BEGIN, tensor(to).data, tensor(source).data, nbytes, row)
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
    to, source, device, pc, reason = p.to, p.source, p.device, p.pc, p.reason
    ticket = p.ticket
    status = 0
    if why >= 0:
        status = wait_for(state, pc, device, why, max(ticket, until)) + 0
    if device == CUDA and (why < 0 or until == ALL):  # the GPU's ticket is still to be released
        status = max(status, wait_until(state, device, ticket) + 0)
    if status == 0 and is_lost(source):
        status = RESULT_LOST
    nbytes = n_bytes(source)
    if status == 0 and device != CUDA:
        start = clock_ns()
        copy_bytes(tensor(to).data, tensor(source).data, nbytes)
        wait_for_transfer(state, start, nbytes)
        if s.tracing != TRACE_OFF:
            record_event(state, EVENT_DTOH, pc, reason, start, clock_ns(), nbytes)
    s.status = status
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
    """Copy a host tensor to a device.  ``lasts``: the source does not change until the queue has run, so no staging is needed.

    0 if there is no memory, or the device failed (see the state's status).
    """
    s = state_at(state)
    at = like(state, source, device)
    if at == 0:
        s.status = OUT_OF_MEMORY
        return 0
    nbytes = n_bytes(source)
    start = clock_ns()
    row = -1
    if device == CUDA and s.tracing != TRACE_OFF:
        row = record_event(state, EVENT_HTOD, pc, reason, start, start, nbytes)
    status = fill_on_device(state, at, source, nbytes, row, lasts) + 0
    if status != 0:
        release(state, at)
        s.status = status
        return 0
    s.htod_copies += 1
    s.htod_bytes += nbytes
    if device != CUDA:
        wait_for_transfer(state, start, nbytes)
        if s.tracing != TRACE_OFF:
            record_event(state, EVENT_HTOD, pc, reason, start, clock_ns(), nbytes)
    return at


@native
def fill_on_device(state: int, at: int, source: int, nbytes: int, row: int, lasts: int) -> int:
    """Copy the elements of a host tensor into a device tensor, after the work enqueued so far; a status."""
    s = state_at(state)
    to, data = tensor(at).data, tensor(source).data
    s.outstanding = 1
    if tensor(at).device == CUDA:
        return call_6(s.gpu, state, GPU_TO_DEVICE, to, data, nbytes, row)
    if s.queue_used == 0:
        copy_bytes(to, data, nbytes)
        return 0
    if lasts:
        return queue_copy(state, to, data, nbytes, 0)
    staging = alloc(nbytes)
    if staging == 0:
        return OUT_OF_MEMORY
    copy_bytes(staging, data, nbytes)
    s.staged_bytes += nbytes
    return queue_copy(state, to, staging, nbytes, 1)


# ---- on one device --------------------------------------------------------------------------------------------------------


@native
def copy_on_device(state: int, to: int, source: int) -> int:
    """Copy the elements of a tensor into another one on the same device, after the work enqueued so far; a status."""
    s = state_at(state)
    there, data, nbytes, device = tensor(to).data, tensor(source).data, n_bytes(source), tensor(source).device
    if device == CUDA:
        return call_6(s.gpu, state, GPU_COPY_ON_DEVICE, there, data, nbytes, 0)
    if device == SIM and s.queue_used != 0:
        s.outstanding = 1
        return queue_copy(state, there, data, nbytes, 0)
    copy_bytes(there, data, nbytes)
    return 0


# ---- launches ----------------------------------------------------------------------------------------------------------------


@native
def arguments_match(row: int, argv: int, n: int) -> bool:
    """Whether the tensors at ``argv`` have the ranks, dtypes and devices that the kernel was compiled for.

    ``row``: three words for each tensor; the last one is -1 for any device.
    """
    for i in range(n):
        t = tensor(load_i64(argv + 8 * i))
        at = row + 24 * i
        device = load_i64(at + 16)
        if t.ndim != load_i64(at) or t.dtype != load_i64(at + 8) or (device >= 0 and t.device != device):
            return False
    return True


@native
def launch(state: int, packed: int, argv: int, n: int, n_outputs: int, pc: int) -> int:
    """Run a kernel of the packed table, or launch it on its device; a status."""
    s = state_at(state)
    row = s.packed + 8 * PACKED_WORDS * packed
    s.launches += 1
    if load_i64(row + 8) != CPU:
        return launch_on_device(state, packed, argv, n, n_outputs, pc)
    function = load_i64(row)
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
    row = s.packed + 8 * PACKED_WORDS * packed
    device = load_i64(row + 8)
    if s.n_launched == 0:
        s.first_pc = pc
    s.last_pc = pc
    s.n_launched += 1
    s.outstanding = 1
    if device == CUDA:
        status = call_6(s.gpu, state, GPU_LAUNCH, packed, argv, n << 32 | n_outputs, pc)
    else:
        status = queue_kernel(state, load_i64(row), argv, n, n_outputs, pc, packed) + 0
        if status == 0 and is_full(state):
            status = wait_for(state, pc, device, _QUEUE_FULL, ALL) + 0
    if status == 0 and s.wait_each != 0:
        status = wait_for(state, pc, device, s.wait_each - 1, ALL) + 0
    return status
