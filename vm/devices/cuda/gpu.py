"""Device operations of a GPU, as machine code of their own: memory, launches, copies and waits, through the driver by address.

The machine calls ``gpu(state, request, a, b, c, d)`` (see ``state_layout``); programs for other devices never compile it.
Launches and copies to the GPU go to one stream, in program order, so memory may be reused as soon as the host has freed it.
Copies to the host go to a second stream, behind an event that marks the work they need: they do not wait for later launches.
"""

from __future__ import annotations

from ....ops.native.memory import alloc, clock_ns, copy_bytes, free, load_i64, native, store_i64, tensor
from ....ops.native.object_layout import TAG_STORAGE
from ....ops.native.objects import storage_at
from ....ops.native.status import DEVICE_ERROR, INTERNAL, OK, OUT_OF_MEMORY
from ...runtime.event_trace import begin_kernel
from ...runtime.heap import LOST, new_storage, release
from ...runtime.objects.chunks import chunk_at, object_in
from ...runtime.shape_eval import load_slots, run_rows
from ...runtime.state_layout import (
    CUDA,
    GPU_ALLOC,
    GPU_AWAIT,
    GPU_CLOSE,
    GPU_COPY_BEGIN,
    GPU_COPY_ON_DEVICE,
    GPU_COPY_WAIT,
    GPU_ENTER,
    GPU_FLUSH,
    GPU_FREE,
    GPU_LAUNCH,
    GPU_LEAVE,
    GPU_SYNC,
    GPU_TO_DEVICE,
    GPU_TRACE,
    GPU_TRIM,
    PACKED_WORDS,
    TRACE_OFF,
    state_at,
)
from .context_switch import enter, leave
from .driver_calls import (
    COPY_ON_DEVICE,
    COPY_TO_DEVICE,
    COPY_TO_HOST,
    EVENT_RECORD,
    EVENT_WAIT,
    HOST_ALLOC,
    HOST_FREE,
    MEM_ALLOC,
    MEM_FREE,
    NO_MEMORY,
    POINTER_ATTRIBUTES,
    POOL_TRIM,
    STREAM_WAIT,
    STREAM_WAIT_EVENT,
    checked,
    drive_1,
    drive_2,
    drive_3,
    drive_4,
)
from .events import (
    acquire_event,
    acquire_timed_event,
    begin_timing,
    destroy_events,
    drop_timing,
    end_timing,
    read_times,
    release_event,
)
from .gpu_layout import (
    ARG_DATA,
    ARG_FAULT,
    ARG_SCRATCH,
    ARG_SITE,
    ARG_SLOT,
    ENTRY_ARGS,
    ENTRY_BLOCK,
    ENTRY_FUNCTION,
    ENTRY_GRID,
    ENTRY_KIND,
    ENTRY_N_ARGS,
    ENTRY_SHARED,
    ENTRY_WORDS,
    GRAPH_BYTES,
    OUT_WORDS,
    PLAN_BODY,
    PLAN_IS_RUN,
    PLAN_N_SCRATCH,
    PLAN_N_STEPS,
    PLAN_PROGRAM,
    PLAN_SLOTS,
    PRODUCT_ENTRY,
    PRODUCT_WORDS,
    STEP_ARGS,
    STEP_BLOCK,
    STEP_FUNCTION,
    STEP_GRID,
    STEP_KIND,
    STEP_N_ARGS,
    STEP_SHARED,
    gpu_at,
)
from .graphs import commit_entry, flush, free_region, reserve_entry
from .matrix_products import NO_ALGORITHM, clear_products, launch_product

#: CU_MEMHOSTALLOC_PORTABLE: page-locked memory for every context.
_PORTABLE = 1
#: CU_POINTER_ATTRIBUTE_MEMORY_TYPE: the memory type of an address.
_MEMORY_TYPE = 2
#: Word in a row of the trace: the end of the enqueueing by the host.
_ASKED_END = 8


# ---- memory -------------------------------------------------------------------------------------------------------------


@native
def allocate(gpu: int, pool: int, nbytes: int) -> int:
    """Allocate a block of device memory (CUDA) or of page-locked memory (PINNED); its address, 0: no memory."""
    c = gpu_at(gpu)
    if c.error != 0:
        return 0
    if pool == CUDA:
        error = drive_4(gpu, MEM_ALLOC, c.out, nbytes, c.pool, c.compute)
    else:
        error = drive_3(gpu, HOST_ALLOC, c.out, nbytes, _PORTABLE)
    if error == 0:
        return load_i64(c.out)
    if error != NO_MEMORY:
        checked(gpu, error)
    return 0


@native
def deallocate(gpu: int, pool: int, address: int) -> None:
    """Return a block to the driver; device memory in stream order."""
    if pool == CUDA:
        drive_2(gpu, MEM_FREE, address, gpu_at(gpu).compute)
    else:
        drive_1(gpu, HOST_FREE, address)


@native
def wait_for_users(gpu: int, users: int) -> None:
    """Make later launches wait for the foreign streams that used a freed block (see ``interop``).

    ``users``: rows of an event and the address of the next row, freed with the events.
    """
    c = gpu_at(gpu)
    enter(gpu)
    while users != 0:
        event, following = load_i64(users), load_i64(users + 8)
        checked(gpu, drive_3(gpu, STREAM_WAIT_EVENT, c.compute, event, 0))
        release_event(gpu, event)
        free(users)
        users = following
    leave(gpu)


# ---- launches -----------------------------------------------------------------------------------------------------------


@native
def allocate_workspaces(state: int, gpu: int, plan: int) -> bool:
    """Allocate the workspaces of a launch; False if there is no memory."""
    c = gpu_at(gpu)
    n = load_i64(plan + 8 * PLAN_N_SCRATCH)
    for i in range(n):
        nbytes = load_i64(c.slots + 8 * load_i64(plan + 8 * (PLAN_BODY + i)))
        storage = new_storage(state, max(nbytes, 1), CUDA)
        if storage == 0:
            release_workspaces(state, gpu, i)
            return False
        store_i64(c.workspaces + 8 * i, storage)
    return True


@native
def release_workspaces(state: int, gpu: int, n: int) -> None:
    """Release workspaces: the next users of their memory come later on the stream."""
    for i in range(n):
        release(state, load_i64(gpu_at(gpu).workspaces + 8 * i))


@native
def argument_word(gpu: int, kind: int, what: int, argv: int, pc: int) -> int:
    """One word of a launch's arguments."""
    c = gpu_at(gpu)
    if kind == ARG_DATA:
        return tensor(load_i64(argv + 8 * what)).data  # type: ignore[no-any-return]
    if kind == ARG_SLOT:
        return load_i64(c.slots + 8 * what)
    if kind == ARG_SCRATCH:
        return tensor(load_i64(c.workspaces + 8 * what)).data  # type: ignore[no-any-return]
    if kind == ARG_FAULT:
        return c.fault
    if kind == ARG_SITE:
        return pc
    return what


@native
def launch_step(gpu: int, at: int, argv: int, pc: int) -> int:
    """Fill the queue entry of one step and launch it, unless its grid is empty; a status."""
    c = gpu_at(gpu)
    n = load_i64(at + 8 * STEP_N_ARGS)
    entry = reserve_entry(gpu, ENTRY_ARGS + n)
    if entry == 0:
        return OUT_OF_MEMORY
    for k in range(3):
        extent = load_i64(c.slots + 8 * load_i64(at + 8 * (STEP_GRID + k)))
        if extent <= 0:
            return OK
        store_i64(entry + 8 * (ENTRY_GRID + k), extent)
        store_i64(entry + 8 * (ENTRY_BLOCK + k), load_i64(at + 8 * (STEP_BLOCK + k)))
    store_i64(entry + 8 * ENTRY_WORDS, ENTRY_ARGS + n)
    store_i64(entry + 8 * ENTRY_KIND, load_i64(at + 8 * STEP_KIND))
    store_i64(entry + 8 * ENTRY_FUNCTION, load_i64(at + 8 * STEP_FUNCTION))
    store_i64(entry + 8 * ENTRY_SHARED, load_i64(c.slots + 8 * load_i64(at + 8 * STEP_SHARED)))
    store_i64(entry + 8 * ENTRY_N_ARGS, n)
    for i in range(n):
        what = at + 8 * (STEP_ARGS + 2 * i)
        store_i64(entry + 8 * (ENTRY_ARGS + i), argument_word(gpu, load_i64(what), load_i64(what + 8), argv, pc))
    return commit_entry(gpu, ENTRY_ARGS + n)


@native
def product_step(gpu: int, at: int, argv: int, pc: int) -> int:
    """Launch a matrix product; a status, or NO_ALGORITHM if the next steps have to compute it."""
    c = gpu_at(gpu)
    if load_i64(c.slots + 8 * load_i64(at + 8 * STEP_GRID)) <= 0:
        return NO_ALGORITHM
    words = c.out + 8 * (OUT_WORDS - PRODUCT_WORDS)  # calls of the library use the first of these words
    for i in range(PRODUCT_WORDS):
        what = at + 8 * (STEP_ARGS + 2 * i)
        store_i64(words + 8 * i, argument_word(gpu, load_i64(what), load_i64(what + 8), argv, pc))
    return launch_product(gpu, load_i64(at + 8 * STEP_FUNCTION), words)


@native
def launch_steps(state: int, gpu: int, plan: int, argv: int, pc: int) -> int:
    """Launch all steps of a packed function; a status."""
    at = plan + 8 * (PLAN_BODY + load_i64(plan + 8 * PLAN_N_SCRATCH))
    skipped = 0
    for _ in range(load_i64(plan + 8 * PLAN_N_STEPS)):
        status = OK
        if skipped > 0:
            skipped -= 1
        elif load_i64(at + 8 * STEP_KIND) == PRODUCT_ENTRY:
            status = product_step(gpu, at, argv, pc) + 0
            if status == OK:
                skipped = load_i64(at + 8 * STEP_BLOCK)
            elif status == NO_ALGORITHM:
                status = OK
        else:
            status = launch_step(gpu, at, argv, pc) + 0
        if status != 0:
            return status
        at += 8 * (STEP_ARGS + 2 * load_i64(at + 8 * STEP_N_ARGS))
    return OK


@native
def mark_written(gpu: int, argv: int, n: int, n_outputs: int) -> None:
    """Store the number of this launch in its results: if it fails, they are lost (see ``check_fault``)."""
    c = gpu_at(gpu)
    c.serial += 1
    for i in range(n - n_outputs, n):
        storage = tensor(load_i64(argv + 8 * i)).storage
        if storage != 0:
            storage_at(storage).writer = c.serial


@native
def evaluate_sizes(gpu: int, plan: int, argv: int) -> int:
    """Set the slots of the launch, by its program unless the sizes are those of its previous launch; a status."""
    program, slots = load_i64(plan + 8 * PLAN_PROGRAM), load_i64(plan + 8 * PLAN_SLOTS)
    gpu_at(gpu).slots = slots
    if load_i64(plan + 8 * PLAN_IS_RUN) != 0 and are_loaded(program, argv, slots):
        return OK
    store_i64(plan + 8 * PLAN_IS_RUN, 0)
    status = load_slots(program, argv, slots) + 0
    if status == OK:
        status = run_rows(program, slots) + 0
    if status == OK:
        store_i64(plan + 8 * PLAN_IS_RUN, 1)
    return status


@native
def are_loaded(program: int, argv: int, slots: int) -> bool:
    """Whether the slots have the sizes of these tensors; the program loads nothing but sizes."""
    at = program + 32
    n = load_i64(program)
    i = 0
    while i < n:
        t = tensor(load_i64(argv + 8 * load_i64(at)))
        axis = load_i64(at + 16)
        if axis >= t.ndim or t.shape[axis] != load_i64(slots + 8 * i):
            return False
        at += 24
        i += 1
    return True


@native
def launch(state: int, gpu: int, packed: int, argv: int, n: int, n_outputs: int, pc: int) -> int:
    """Launch a packed function; a status."""
    s, c = state_at(state), gpu_at(gpu)
    if c.error != 0:
        return DEVICE_ERROR
    plan = load_i64(s.packed + 8 * (PACKED_WORDS * packed + 3))
    status = evaluate_sizes(gpu, plan, argv) + 0
    if status != 0:
        return status
    if not allocate_workspaces(state, gpu, plan):
        return OUT_OF_MEMORY
    mark_written(gpu, argv, n, n_outputs)
    if s.tracing != TRACE_OFF:
        status = launch_traced(state, gpu, plan, packed, argv, n, pc) + 0
    else:
        status = launch_steps(state, gpu, plan, argv, pc) + 0
    release_workspaces(state, gpu, load_i64(plan + 8 * PLAN_N_SCRATCH))
    return status


@native
def launch_traced(state: int, gpu: int, plan: int, packed: int, argv: int, n: int, pc: int) -> int:
    """Launch the steps without a graph between two events; a status."""
    s, c = state_at(state), gpu_at(gpu)
    row = begin_kernel(state, pc, packed, argv, n)
    graphs = c.graphs
    c.graphs = 0
    start = begin_timing(gpu, c.compute) if row >= 0 else 0
    status = launch_steps(state, gpu, plan, argv, pc) + 0
    c.graphs = graphs
    if row >= 0:
        store_i64(s.trace + 8 * (row + _ASKED_END), clock_ns())
        if status == 0:
            status = end_timing(gpu, c.compute, start, row) + 0
        else:
            drop_timing(gpu, start)
    return status


# ---- copies ---------------------------------------------------------------------------------------------------------------


@native
def to_device(state: int, gpu: int, to: int, source: int, nbytes: int, row: int) -> int:
    """Copy from the host, in stream order; a status.  The source may change afterwards.

    The driver copies pageable host memory to its own buffers before it returns.  The driver would read page-locked memory (such
    as an array of ``numpy()``) when the stream gets there, so such memory is copied to pageable memory first.
    """
    c = gpu_at(gpu)
    if c.error != 0:
        return DEVICE_ERROR
    status = flush(gpu) + 0
    if status != 0 or nbytes == 0:
        return status
    staging = 0
    if is_read_asynchronously(gpu, source):
        staging = alloc(nbytes)
        if staging == 0:
            return OUT_OF_MEMORY
        copy_bytes(staging, source, nbytes)
        source = staging
    start = begin_timing(gpu, c.compute) if row >= 0 else 0
    status = checked(gpu, drive_4(gpu, COPY_TO_DEVICE, to, source, nbytes, c.compute)) + 0
    if staging != 0:
        free(staging)
    if status != 0:
        drop_timing(gpu, start)
        return status
    return end_timing(gpu, c.compute, start, row)


@native
def is_read_asynchronously(gpu: int, address: int) -> bool:
    """Whether the driver reads this memory asynchronously: page-locked or managed, not pageable, which has memory type 0."""
    out = gpu_at(gpu).out
    store_i64(out, 0)
    store_i64(out + 8, _MEMORY_TYPE)
    store_i64(out + 16, out)
    return drive_4(gpu, POINTER_ATTRIBUTES, 1, out + 8, out + 16, address) == 0 and load_i64(out) & 0xFFFFFFFF != 0


@native
def on_device(state: int, gpu: int, to: int, source: int, nbytes: int) -> int:
    """Copy within the GPU, in stream order; a status."""
    state_at(state).outstanding = 1
    status = flush(gpu) + 0
    if status != 0 or nbytes == 0:
        return status
    return checked(gpu, drive_4(gpu, COPY_ON_DEVICE, to, source, nbytes, gpu_at(gpu).compute))


@native
def begin_copy(state: int, gpu: int, to: int, source: int, nbytes: int, row: int) -> int:
    """Begin a copy to page-locked memory after all earlier launches; an event to wait for, or a negated status."""
    c = gpu_at(gpu)
    if c.error != 0:
        return -DEVICE_ERROR
    status = flush(gpu) + 0
    if status != 0:
        return -status
    event = acquire_event(gpu)
    if event == 0:
        return -(DEVICE_ERROR if c.error != 0 else OUT_OF_MEMORY)
    status = checked(gpu, drive_2(gpu, EVENT_RECORD, event, c.compute)) + 0
    if status == 0:
        status = checked(gpu, drive_3(gpu, STREAM_WAIT_EVENT, c.copies, event, 0)) + 0
    start = begin_timing(gpu, c.copies) if row >= 0 else 0
    if status == 0 and nbytes != 0:
        status = checked(gpu, drive_4(gpu, COPY_TO_HOST, to, source, nbytes, c.copies)) + 0
    if status == 0:
        status = end_timing(gpu, c.copies, start, row) + 0
    else:
        drop_timing(gpu, start)
    # the event is recorded again: the other stream already waits for its first use
    if status == 0:
        status = checked(gpu, drive_2(gpu, EVENT_RECORD, event, c.copies)) + 0
    if status != 0:
        release_event(gpu, event)
        return -status
    return event


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
    for i in range(c.n_graphs):
        free_region(gpu, c.graph_rows + GRAPH_BYTES * i)
    c.n_graphs = 0
    if c.products != 0:
        clear_products(gpu)
    if c.queue != 0:
        free(c.queue)
    c.queue = 0
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


@native
def gpu(state: int, request: int, a: int, b: int, c: int, d: int) -> int:
    """Serve a request to the GPU: see ``vm.runtime.state_layout``."""
    own = state_at(state).gpu_record
    if request == GPU_LAUNCH:
        return launch(state, own, a, b, c >> 32, c & 0xFFFFFFFF, d)
    if request == GPU_ENTER:
        return enter(own) + 0
    if request == GPU_LEAVE:
        leave(own)
        return 0
    if request == GPU_AWAIT:
        wait_for_users(own, a)
        return 0
    if request == GPU_FLUSH:
        return flush(own) + 0
    if request == GPU_ALLOC:
        return allocate(own, a, b)
    if request == GPU_FREE:
        deallocate(own, a, b)
        return 0
    if request == GPU_TO_DEVICE:
        return to_device(state, own, a, b, c, d) + 0
    if request == GPU_COPY_BEGIN:
        return begin_copy(state, own, a, b, c, d) + 0
    if request == GPU_COPY_WAIT:
        return end_copy(state, own, a) + 0
    if request == GPU_COPY_ON_DEVICE:
        return on_device(state, own, a, b, c) + 0
    if request == GPU_SYNC:
        return synchronize(state, own) + 0
    if request == GPU_TRIM:
        return trim(state, own)
    if request == GPU_TRACE:
        return begin_trace(own) + 0
    if request == GPU_CLOSE:
        return close(state, own) + 0
    return INTERNAL
