"""A card's side of the machine, as machine code of its own: memory, launches, copies and waits, through the driver by address.

The machine calls ``card(state, request, a, b, c, d)`` (see ``vm.layout``); programs for other devices never compile it.
Launches and copies to the card go to one stream, in the order of the program, so memory may be used again as soon as the
host has given it up.  Copies to the host go to a second stream, behind an event that marks what they need: they do not
wait for what was launched after it.
"""

from __future__ import annotations

from ...ops.native.layout import OBJECT_BYTES, TAG_STORAGE
from ...ops.native.memory import alloc, clock_ns, copy_bytes, free, load_i64, native, store_i64, tensor
from ...ops.native.status import DEVICE_ERROR, INTERNAL, OK, OUT_OF_MEMORY
from ..heap import LOST, OBJECTS_PER_CHUNK, new_storage, release
from ..layout import (
    CARD_ALLOC,
    CARD_AWAIT,
    CARD_CLOSE,
    CARD_COPY_BEGIN,
    CARD_COPY_ON_DEVICE,
    CARD_COPY_WAIT,
    CARD_ENTER,
    CARD_FLUSH,
    CARD_FREE,
    CARD_LAUNCH,
    CARD_LEAVE,
    CARD_SYNC,
    CARD_TO_DEVICE,
    CARD_TRACE,
    CARD_TRIM,
    CUDA,
    PACKED_WORDS,
    TRACE_OFF,
    state_at,
)
from ..shape_eval import load_slots, run_rows
from ..tracing import begin_kernel
from .calls import (
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
from .entering import enter, leave
from .events import begin_timing, drop_timing, end_timing, give_back_events, give_event, read_times, take_event, take_timed
from .graphs import flush, forget, ready, room
from .layout import (
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
    PLAN_BODY,
    PLAN_N_SCRATCH,
    PLAN_N_STEPS,
    PLAN_PROGRAM,
    PLAN_SAFE,
    STEP_ARGS,
    STEP_BLOCK,
    STEP_FUNCTION,
    STEP_GRID,
    STEP_KIND,
    STEP_N_ARGS,
    STEP_SHARED,
    card_at,
)

#: Page-locked memory that every context can use.
_PORTABLE = 1
#: What an address can be asked for: the type of its memory.
_MEMORY_TYPE = 2
#: Place in a row of the trace: when the host had asked for it.
_ASKED_END = 8


# ---- memory -------------------------------------------------------------------------------------------------------------


@native
def allocate(card, pool, nbytes):
    """The address of a block of the card (CUDA) or of page-locked memory (PINNED); 0: no memory."""
    c = card_at(card)
    if c.error != 0:
        return 0
    if pool == CUDA:
        error = drive_4(card, MEM_ALLOC, c.out, nbytes, c.pool, c.compute)
    else:
        error = drive_3(card, HOST_ALLOC, c.out, nbytes, _PORTABLE)
    if error == 0:
        return load_i64(c.out)
    if error != NO_MEMORY:
        checked(card, error)
    return 0


@native
def give_back(card, pool, address):
    """Give a block back to the driver; on the card in the order of the stream."""
    if pool == CUDA:
        drive_2(card, MEM_FREE, address, card_at(card).compute)
    else:
        drive_1(card, HOST_FREE, address)


@native
def await_users(card, users):
    """Let launches from now on wait for streams of others that used a block which is free now (see ``lending``).

    ``users``: rows of an event and the address of the next row, given back with the events.
    """
    c = card_at(card)
    enter(card)
    while users != 0:
        event, following = load_i64(users), load_i64(users + 8)
        checked(card, drive_3(card, STREAM_WAIT_EVENT, c.compute, event, 0))
        give_event(card, event)
        free(users)
        users = following
    leave(card)


# ---- launches -----------------------------------------------------------------------------------------------------------


@native
def workspaces(state, card, plan):
    """Storage for the workspaces of a launch; False when there is no memory."""
    c = card_at(card)
    n = load_i64(plan + 8 * PLAN_N_SCRATCH)
    for i in range(n):
        nbytes = load_i64(c.slots + 8 * load_i64(plan + 8 * (PLAN_BODY + i)))
        storage = new_storage(state, max(nbytes, 1), CUDA)
        if storage == 0:
            release_workspaces(state, card, i)
            return False
        store_i64(c.workspaces + 8 * i, storage)
    return True


@native
def release_workspaces(state, card, n):
    """Whoever gets a workspace's memory next comes later on the stream."""
    for i in range(n):
        release(state, load_i64(card_at(card).workspaces + 8 * i))


@native
def word_of(card, kind, what, argv, pc):
    """One word of a launch's arguments."""
    c = card_at(card)
    if kind == ARG_DATA:
        return tensor(load_i64(argv + 8 * what)).data
    if kind == ARG_SLOT:
        return load_i64(c.slots + 8 * what)
    if kind == ARG_SCRATCH:
        return tensor(load_i64(c.workspaces + 8 * what)).data
    if kind == ARG_FAULT:
        return c.fault
    if kind == ARG_SITE:
        return pc
    return what


@native
def step(card, at, argv, pc):
    """Make one step ready and launch it, unless its grid is empty; a status."""
    c = card_at(card)
    n = load_i64(at + 8 * STEP_N_ARGS)
    entry = room(card, ENTRY_ARGS + n)
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
        store_i64(entry + 8 * (ENTRY_ARGS + i), word_of(card, load_i64(what), load_i64(what + 8), argv, pc))
    return ready(card, ENTRY_ARGS + n)


@native
def steps(state, card, plan, argv, pc):
    """All steps of a launch; a status."""
    at = plan + 8 * (PLAN_BODY + load_i64(plan + 8 * PLAN_N_SCRATCH))
    for _ in range(load_i64(plan + 8 * PLAN_N_STEPS)):
        status = step(card, at, argv, pc) + 0
        if status != 0:
            return status
        at += 8 * (STEP_ARGS + 2 * load_i64(at + 8 * STEP_N_ARGS))
    return OK


@native
def stamp(card, argv, n, n_outputs):
    """Note which launch wrote the results last: if it fails, they are lost (see ``find_fault``)."""
    c = card_at(card)
    c.serial += 1
    for i in range(n - n_outputs, n):
        storage = tensor(load_i64(argv + 8 * i)).storage
        if storage != 0:
            tensor(storage).ndim = c.serial


@native
def launch(state, card, packed, argv, n, n_outputs, pc):
    """Launch what a packed function stands for; a status."""
    s, c = state_at(state), card_at(card)
    if c.error != 0:
        return DEVICE_ERROR
    plan = load_i64(s.packed + 8 * (PACKED_WORDS * packed + 3))
    program = load_i64(plan + 8 * PLAN_PROGRAM)
    status = load_slots(program, argv, c.slots) + 0
    if status == 0:
        status = run_rows(program, c.slots) + 0
    if status != 0:
        return status
    if not workspaces(state, card, plan):
        return OUT_OF_MEMORY
    stamp(card, argv, n, n_outputs)
    if s.tracing != TRACE_OFF:
        status = traced(state, card, plan, packed, argv, n, pc) + 0
    else:
        held_back = load_i64(plan + 8 * PLAN_SAFE) != 0
        if not held_back:
            status = flush(card) + 0
        if status == 0:
            status = steps(state, card, plan, argv, pc) + 0
        if status == 0 and not held_back:
            status = flush(card) + 0
    release_workspaces(state, card, load_i64(plan + 8 * PLAN_N_SCRATCH))
    return status


@native
def traced(state, card, plan, packed, argv, n, pc):
    """Launch one by one between two events; a status."""
    s, c = state_at(state), card_at(card)
    row = begin_kernel(state, pc, packed, argv, n)
    graphs = c.graphs
    c.graphs = 0
    start = begin_timing(card, c.compute) if row >= 0 else 0
    status = steps(state, card, plan, argv, pc) + 0
    c.graphs = graphs
    if row >= 0:
        store_i64(s.trace + 8 * (row + _ASKED_END), clock_ns())
        if status == 0:
            status = end_timing(card, c.compute, start, row) + 0
        else:
            drop_timing(card, start)
    return status


# ---- copies ---------------------------------------------------------------------------------------------------------------


@native
def to_device(state, card, to, source, nbytes, row):
    """Copy from the host, in the order of the launches; a status.  The source may change afterwards.

    The driver takes ordinary host memory into its own buffers before it returns.  Page-locked memory (an array of ``numpy()``
    is in such) it would read when the stream gets there, so that goes through ordinary memory first.
    """
    c = card_at(card)
    if c.error != 0:
        return DEVICE_ERROR
    status = flush(card) + 0
    if status != 0 or nbytes == 0:
        return status
    staging = 0
    if is_read_later(card, source):
        staging = alloc(nbytes)
        if staging == 0:
            return OUT_OF_MEMORY
        copy_bytes(staging, source, nbytes)
        source = staging
    start = begin_timing(card, c.compute) if row >= 0 else 0
    status = checked(card, drive_4(card, COPY_TO_DEVICE, to, source, nbytes, c.compute)) + 0
    if staging != 0:
        free(staging)
    if status != 0:
        drop_timing(card, start)
        return status
    return end_timing(card, c.compute, start, row)


@native
def is_read_later(card, address):
    """Does the driver read this memory by itself, page-locked or managed?  Of ordinary memory it knows nothing, and says 0."""
    out = card_at(card).out
    store_i64(out, 0)
    store_i64(out + 8, _MEMORY_TYPE)
    store_i64(out + 16, out)
    return drive_4(card, POINTER_ATTRIBUTES, 1, out + 8, out + 16, address) == 0 and load_i64(out) & 0xFFFFFFFF != 0


@native
def on_device(state, card, to, source, nbytes):
    """Copy within the card, in the order of the launches; a status."""
    state_at(state).outstanding = 1
    status = flush(card) + 0
    if status != 0 or nbytes == 0:
        return status
    return checked(card, drive_4(card, COPY_ON_DEVICE, to, source, nbytes, card_at(card).compute))


@native
def begin_copy(state, card, to, source, nbytes, row):
    """Copy to page-locked memory as soon as what is launched has run; an event to wait for, or a status negated."""
    c = card_at(card)
    if c.error != 0:
        return -DEVICE_ERROR
    status = flush(card) + 0
    if status != 0:
        return -status
    event = take_event(card)
    if event == 0:
        return -(DEVICE_ERROR if c.error != 0 else OUT_OF_MEMORY)
    status = checked(card, drive_2(card, EVENT_RECORD, event, c.compute)) + 0
    if status == 0:
        status = checked(card, drive_3(card, STREAM_WAIT_EVENT, c.copies, event, 0)) + 0
    start = begin_timing(card, c.copies) if row >= 0 else 0
    if status == 0 and nbytes != 0:
        status = checked(card, drive_4(card, COPY_TO_HOST, to, source, nbytes, c.copies)) + 0
    if status == 0:
        status = end_timing(card, c.copies, start, row) + 0
    else:
        drop_timing(card, start)
    # the same event again: the other stream has already been told to wait for its first use
    if status == 0:
        status = checked(card, drive_2(card, EVENT_RECORD, event, c.copies)) + 0
    if status != 0:
        give_event(card, event)
        return -status
    return event


@native
def end_copy(state, card, event):
    """Wait for a copy; a status.  What was held back since it began runs meanwhile, and fails before then if it fails."""
    status = flush(card) + 0
    waited = checked(card, drive_1(card, EVENT_WAIT, event)) + 0
    give_event(card, event)
    status = max(status, waited)
    return find_fault(state, card, False) if status == 0 else status


# ---- waiting, and what is found out then ---------------------------------------------------------------------------------------


@native
def synchronise(state, card):
    """Wait for everything; a status."""
    c = card_at(card)
    if c.error != 0:
        return DEVICE_ERROR
    status = flush(card) + 0
    if status == 0:
        status = checked(card, drive_1(card, STREAM_WAIT, c.compute)) + 0
    if status == 0:
        status = checked(card, drive_1(card, STREAM_WAIT, c.copies)) + 0
    if status != 0:
        return status
    if c.timed_used != 0:
        read_times(state, card)
    return find_fault(state, card, True)


@native
def find_fault(state, card, everything):
    """The status of the first kernel that failed since the host last looked; what was launched from then on is lost."""
    s, c = state_at(state), card_at(card)
    fault = load_i64(c.fault)
    if fault == 0:
        if everything:
            c.good_serial = c.serial
        return OK
    # kernels behind the one that failed may still be writing
    if not everything and checked(card, drive_1(card, STREAM_WAIT, c.compute)) != 0:
        return DEVICE_ERROR
    s.error_pc = fault >> 8  # see ``fail`` in the prelude
    store_i64(c.fault, 0)
    lose(state, c.good_serial)
    c.good_serial = c.serial
    return fault & 0xFF


@native
def lose(state, good_serial):
    """Mark every storage of the card that a launch after ``good_serial`` wrote: see ``heap.LOST``."""
    chunk = state_at(state).object_chunks
    while chunk != 0:
        for i in range(OBJECTS_PER_CHUNK):
            o = tensor(chunk + 64 + i * OBJECT_BYTES)
            if o.tag == TAG_STORAGE and o.device == CUDA and o.ndim > good_serial:
                o.ndim = LOST
        chunk = load_i64(chunk)


@native
def begin_trace(card):
    """Note when the trace begins, on the card's clock and the host's; everything before has run.  A status."""
    c = card_at(card)
    if c.base_event == 0:
        c.base_event = take_timed(card)
        if c.base_event == 0:
            return OUT_OF_MEMORY
    status = checked(card, drive_2(card, EVENT_RECORD, c.base_event, c.compute)) + 0
    if status == 0:
        status = checked(card, drive_1(card, EVENT_WAIT, c.base_event)) + 0
    c.base_ns = clock_ns()
    return status


@native
def close(state, card):
    """Give back what the card's record holds; streams, pool and context are Python's to close."""
    c = card_at(card)
    for i in range(c.n_graphs):
        forget(card, c.graph_rows + GRAPH_BYTES * i)
    c.n_graphs = 0
    if c.queue != 0:
        free(c.queue)
    c.queue = 0
    give_back_events(card)
    return OK


@native
def trim(state, card):
    """Give the driver's free memory back to the system.

    What the host has just freed is free when the stream gets there: where the stream has nothing else to do, the host waits.
    """
    if state_at(state).outstanding == 0:
        checked(card, drive_1(card, STREAM_WAIT, card_at(card).compute))
    return drive_2(card, POOL_TRIM, card_at(card).pool, 0)


@native
def card(state, request, a, b, c, d):
    """Do what is asked of the card: see ``vm.layout``."""
    own = state_at(state).card_record
    if request == CARD_LAUNCH:
        return launch(state, own, a, b, c >> 32, c & 0xFFFFFFFF, d)
    if request == CARD_ENTER:
        return enter(own) + 0
    if request == CARD_LEAVE:
        leave(own)
        return 0
    if request == CARD_AWAIT:
        await_users(own, a)
        return 0
    if request == CARD_FLUSH:
        return flush(own) + 0
    if request == CARD_ALLOC:
        return allocate(own, a, b)
    if request == CARD_FREE:
        give_back(own, a, b)
        return 0
    if request == CARD_TO_DEVICE:
        return to_device(state, own, a, b, c, d) + 0
    if request == CARD_COPY_BEGIN:
        return begin_copy(state, own, a, b, c, d) + 0
    if request == CARD_COPY_WAIT:
        return end_copy(state, own, a) + 0
    if request == CARD_COPY_ON_DEVICE:
        return on_device(state, own, a, b, c) + 0
    if request == CARD_SYNC:
        return synchronise(state, own) + 0
    if request == CARD_TRIM:
        return trim(state, own)
    if request == CARD_TRACE:
        return begin_trace(own) + 0
    if request == CARD_CLOSE:
        return close(state, own) + 0
    return INTERNAL
