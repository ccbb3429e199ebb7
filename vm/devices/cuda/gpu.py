"""Device operations of a GPU, as machine code of their own: memory, launches, copies and waits, through the driver by address.

``serve`` answers the machine's requests (see ``vm.state.device_requests``); programs for other devices never compile it.
Launches and copies to the GPU go to one stream, in program order, so memory may be reused as soon as the host has freed it.
Copies to the host go to a second stream, behind an event that marks the work they need: they do not wait for later launches.
"""

from __future__ import annotations

from ....ops.core.implementation import GPU as ON_GPU
from ....ops.native.memory import clock_ns, free, load_i64, native, store_i64, tensor
from ....ops.native.object_layout import TAG_STORAGE
from ....ops.native.objects import pending_at, storage_at
from ....ops.native.status import DEVICE_ERROR, OK, OUT_OF_MEMORY
from ...runtime.objects.chunks import chunk_at, object_in
from ...runtime.objects.heap import LOST, n_bytes
from ...runtime.tracing.event_trace import record_event
from ...state.gpu_layout import CUDA, PORTABLE, gpu_at, user_at
from ...state.state_layout import EVENT_DTOH, HOST_COPIES, TRACE_OFF, state_at
from ..request_table import handler
from .context_switch import enter, leave
from .copies import begin_copy, close_ring, on_device, to_device
from .cudnn_table import close_convolutions
from .driver_api.driver_calls import (
    EVENT_RECORD,
    EVENT_WAIT,
    HOST_ALLOC,
    HOST_FREE,
    MEM_ALLOC,
    MEM_FREE,
    NO_MEMORY,
    POOL_TRIM,
    STREAM_WAIT,
    STREAM_WAIT_EVENT,
    checked,
    drive_1,
    drive_2,
    drive_3,
    drive_4,
)
from .events import acquire_timed_event, destroy_events, read_times, release_event
from .graphs.held_back import flush
from .graphs.regions import forget_regions
from .launches import launch
from .matrix_products import clear_products

# ---- memory -------------------------------------------------------------------------------------------------------------


@native
def allocate(gpu: int, pool: int, nbytes: int) -> int:
    """Allocate a block of device memory or of page-locked memory (HOST_COPIES); its address, 0: no memory."""
    c = gpu_at(gpu)
    if c.error != 0:
        return 0
    if pool == HOST_COPIES:
        error = drive_3(gpu, HOST_ALLOC, c.out, nbytes, PORTABLE)
    else:
        error = drive_4(gpu, MEM_ALLOC, c.out, nbytes, c.pool, c.compute)
    if error == 0:
        return load_i64(c.out)
    if error != NO_MEMORY:
        checked(gpu, error)
    return 0


@native
def deallocate(gpu: int, pool: int, address: int) -> None:
    """Return a block to the driver; device memory in stream order."""
    if pool == HOST_COPIES:
        drive_1(gpu, HOST_FREE, address)
    else:
        drive_2(gpu, MEM_FREE, address, gpu_at(gpu).compute)


@native
def wait_for_users(gpu: int, users: int) -> None:
    """Make later launches wait for the foreign streams that used a freed block (see ``interop``).

    ``users``: rows of an event and the address of the next row, freed with the events.
    """
    c = gpu_at(gpu)
    enter(gpu)
    while users != 0:
        event, following = user_at(users).event, user_at(users).next
        checked(gpu, drive_3(gpu, STREAM_WAIT_EVENT, c.compute, event, 0))
        release_event(gpu, event)
        free(users)
        users = following
    leave(gpu)


@native
def end_copy(state: int, gpu: int, event: int) -> int:
    """Wait for a copy; a status.  Launches that were held back since the copy began are flushed first."""
    status = flush(gpu) + 0
    waited = checked(gpu, drive_1(gpu, EVENT_WAIT, event)) + 0
    release_event(gpu, event)
    status = max(status, waited)
    return check_fault(state, gpu, False) if status == 0 else status


# ---- waiting, and errors found then --------------------------------------------------------------------------------------------


@native
def synchronize(state: int, gpu: int) -> int:
    """Wait for all work; a status."""
    c = gpu_at(gpu)
    if c.error != 0:
        return DEVICE_ERROR
    status = flush(gpu) + 0
    if status == 0:
        status = checked(gpu, drive_1(gpu, STREAM_WAIT, c.compute)) + 0
    if status == 0:
        status = checked(gpu, drive_1(gpu, STREAM_WAIT, c.copies)) + 0
    if status != 0:
        return status
    if c.timed_used != 0:
        read_times(state, gpu)
    return check_fault(state, gpu, True)


@native
def check_fault(state: int, gpu: int, everything: int) -> int:
    """The status of the first kernel that failed since the host's last check; results of later launches are lost."""
    s, c = state_at(state), gpu_at(gpu)
    fault = load_i64(c.fault)
    if fault == 0:
        if everything:
            c.good_serial = c.serial
        return OK
    # kernels behind the failed one may still be writing
    if not everything and checked(gpu, drive_1(gpu, STREAM_WAIT, c.compute)) != 0:
        return DEVICE_ERROR
    s.error_pc = fault >> 8  # see ``fail`` in the prelude
    store_i64(c.fault, 0)
    mark_lost(state, c.good_serial)
    c.good_serial = c.serial
    return fault & 0xFF


@native
def mark_lost(state: int, good_serial: int) -> None:
    """Mark every storage of the GPU that a launch after ``good_serial`` wrote: see ``heap.LOST``."""
    chunk: int = state_at(state).object_chunks
    while chunk != 0:
        for i in range(chunk_at(chunk).used):
            o = storage_at(object_in(chunk, i))
            if o.tag == TAG_STORAGE and o.device == CUDA and o.writer > good_serial:
                o.writer = LOST
        chunk = chunk_at(chunk).next


@native
def begin_trace(gpu: int) -> int:
    """Record the begin of a trace on the GPU's clock and the host's; all earlier work has run.  A status."""
    c = gpu_at(gpu)
    if c.base_event == 0:
        c.base_event = acquire_timed_event(gpu)
        if c.base_event == 0:
            return OUT_OF_MEMORY
    status = checked(gpu, drive_2(gpu, EVENT_RECORD, c.base_event, c.compute)) + 0
    if status == 0:
        status = checked(gpu, drive_1(gpu, EVENT_WAIT, c.base_event)) + 0
    c.base_ns = clock_ns()
    return status


@native
def close(state: int, gpu: int) -> int:
    """Free the blocks and events of the GPU's record; Python closes streams, pool and context."""
    c = gpu_at(gpu)
    forget_regions(gpu)
    if c.products != 0:
        clear_products(gpu)
    if c.convolutions != 0:
        close_convolutions(gpu)
    if c.queue != 0:
        free(c.queue)
    c.queue = 0
    c.n_queued = c.expected = 0
    close_ring(gpu)
    destroy_events(gpu)
    return OK


@native
def trim(state: int, gpu: int) -> int:
    """Return the driver's free memory to the system.

    Memory that the host has just freed becomes free in stream order: on an idle stream, the host waits.
    """
    if state_at(state).outstanding == 0:
        checked(gpu, drive_1(gpu, STREAM_WAIT, gpu_at(gpu).compute))
    return drive_2(gpu, POOL_TRIM, gpu_at(gpu).pool, 0)


# ---- requests (see ``vm.state.device_requests``) -------------------------------------------------------------------------------


@native
def before_other(gpu: int) -> None:
    """Other work on the stream than a launch, or the begin of a run, which follows such work."""
    gpu_at(gpu).starts_early = 0


@native
def end_use(gpu: int, block: int, nbytes: int, users: int) -> int:
    """A GPU works in stream order: the next user of a block is launched after the last one.  Foreign streams are waited for."""
    if users != 0:
        wait_for_users(gpu, users)
    return 0


@native
def begin_copy_to_host(state: int, gpu: int, pending: int) -> int:
    """Begin a pending copy; an event to wait for, or a negated status."""
    p = pending_at(pending)
    nbytes, row = n_bytes(p.source), -1
    if state_at(state).tracing != TRACE_OFF:
        now = clock_ns()
        row = record_event(state, EVENT_DTOH, p.pc, p.reason, now, now, nbytes)
    return begin_copy(state, gpu, tensor(p.to).data, tensor(p.source).data, nbytes, row)


@native
def begin_trim(gpu: int) -> int:
    """Launch what is held back; the next wait reports its status again.  No block has to stay: see ``end_use``."""
    flush(gpu)
    return 0


serve = handler(
    ON_GPU,
    {
        "LAUNCH": launch,
        "ENTER": enter,
        "LEAVE": leave,
        "ALLOC": allocate,
        "FREE": deallocate,
        "END_USE": end_use,
        "TO_DEVICE": to_device,
        "FETCH_BEGIN": begin_copy_to_host,
        "FETCH_WAIT": end_copy,
        "FETCH_DROP": end_copy,
        "COPY_ON_DEVICE": on_device,
        "SYNC": synchronize,
        "FLUSH": flush,
        "TRIM_BEGIN": begin_trim,
        "TRIM": trim,
        "TRACE": begin_trace,
        "CLOSE": close,
    },
    record="gpu",
    before=before_other,
)
