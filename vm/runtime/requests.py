"""The machine's only entry point, as machine code: run, and the services for Python on objects."""

from __future__ import annotations

from ...ops.native.memory import free, load_i64, native, store_i64
from ...ops.native.status import INTERNAL, OK
from ..state.device_requests import CLOSE as CLOSE_DEVICE
from ..state.device_requests import ENTER, FLUSH, SYNC, ask
from ..state.device_requests import LEAVE as LEAVE_DEVICE
from ..state.device_requests import TRACE as TRACE_DEVICE
from ..state.state_layout import (
    CLOSED,
    N_DEVICES,
    OUT_OF_FUEL,
    TRACE_OFF,
    state_at,
)
from .argument_objects import build
from .frames import open_frame, reserve_stack, unwind
from .loop import run_loop
from .objects.chunks import trim_chunks
from .objects.cycles import collect_cycles
from .objects.heap import owned, release, retain, trim
from .stream import fetch, host_to_device, wait_for_all

#: Requests.
(RUN, OPEN, LEAVE, RELEASE, RETAIN, OWN, BUILD, TAKE_IN, STACK, TO_HOST, TO_DEVICE, WAIT, TRIM, TRACE, RETIRE, CLOSE) = range(16)


@native
def leave(state: int) -> None:
    """Release the frames and the result of a call, and the objects whose release was deferred."""
    s = state_at(state)
    unwind(state)
    release(state, s.result)
    s.result = 0
    release_deferred(state)


@native
def release_deferred(state: int) -> None:
    s = state_at(state)
    for i in range(s.n_deferred):
        release(state, load_i64(s.deferred + 8 * i))
    s.n_deferred = 0
    if s.closed == CLOSED:
        trim(state)


@native
def trim_all(state: int) -> int:
    """Return free memory to the system, that of cycles too; the bytes of its storages.

    A closed machine returns objects when it has been freed.
    """
    s = state_at(state)
    if s.search_at != 0:
        collect_cycles(state)
    given = trim(state)
    if s.closed != CLOSED:
        trim_chunks(state)
    return given


@native
def retire(state: int, n_constants: int) -> int:
    """Free everything that results do not hold; a status, that of the outstanding work.  No call may follow."""
    s = state_at(state)
    # kernels that still run may write to memory that is freed here
    status = ask(state, SYNC, 0, 0, 0, 0) if s.device != 0 else OK
    s.outstanding = 0
    for i in range(n_constants):
        for device in range(1, N_DEVICES):
            at = s.constants + 8 * (N_DEVICES * i + device)
            release(state, load_i64(at))
            store_i64(at, 0)
    release_deferred(state)
    if s.device != 0:
        ask(state, SYNC, 0, 0, 0, 0)
    trim_all(state)
    if s.stack != 0:
        free(s.stack)
    if s.trace != 0:
        free(s.trace)
    s.stack = 0
    s.stack_words = 0
    s.tracing = TRACE_OFF
    s.trace = 0
    s.trace_words = 0
    s.trace_used = 0
    s.closed = CLOSED
    return status


@native
def close(state: int, n_constants: int) -> int:
    """Free everything; nobody may hold an object any more."""
    s = state_at(state)
    retire(state, n_constants)
    if s.device != 0:
        ask(state, CLOSE_DEVICE, 0, 0, 0, 0)
    while s.object_chunks != 0:
        following = load_i64(s.object_chunks)
        free(s.object_chunks)
        s.object_chunks = following
    if s.deferred != 0:
        free(s.deferred)
    return 0


@native
def machine(state: int, request: int, a: int, b: int) -> int:
    """Serve a request; the answer depends on the request.

    RUN: the reason.  OPEN(function, n arguments).  RELEASE(object).  RETAIN, OWN(object): its address.  BUILD(rows, number of
    rows): number of arguments.  TAKE_IN(a row): address of a tensor that owns its elements.  STACK(words): 1.  TO_HOST(tensor,
    sync reason), TO_DEVICE(tensor, device): address of a counted copy.  WAIT(sync reason), TRACE (a device's clock), RETIRE(n
    constants): a status.  TRIM: number of bytes freed.  Without memory, an address is 0, a number is -1, and a 1 is 0.
    """
    uses_device = state_at(state).device != 0 and request not in (OPEN, RELEASE, RETAIN, STACK)
    if uses_device:
        ask(state, ENTER, 0, 0, 0, 0)
    answer = answer_to(state, request, a, b)
    if uses_device:
        ask(state, LEAVE_DEVICE, 0, 0, 0, 0)
    return answer


@native
def answer_to(state: int, request: int, a: int, b: int) -> int:
    """The answer of ``machine``, once the device in use has been entered by this thread."""
    device = state_at(state).device
    if request == RUN:
        reason = run_loop(state)
        # the device runs asynchronously; its errors are found by the next wait.  A time slice ends no region of launches
        if device != 0 and reason != OUT_OF_FUEL:
            ask(state, FLUSH, 0, 0, 0, 0)
        return reason
    if request == OPEN:
        open_frame(state, a, b)
        return 0
    if request == LEAVE:
        if device != 0:  # the run may have ended between two time slices
            ask(state, FLUSH, 0, 0, 0, 0)
        leave(state)
        return 0
    if request == RELEASE:
        release(state, a)
        return 0
    if request == RETAIN:
        return retain(a)
    if request == OWN:
        return owned(state, a)
    if request == BUILD:
        return build(state, a, b)
    if request == TAKE_IN:
        return 0 if build(state, a, 1) < 0 else owned(state, load_i64(state_at(state).argv))
    if request == STACK:
        return int(reserve_stack(state, a))
    if request == TO_HOST:
        return fetch(state, a, b)
    if request == TO_DEVICE:
        return host_to_device(state, a, b, -1, -1, 0)
    if request == WAIT:
        return wait_for_all(state, a) + 0
    if request == TRIM:
        return trim_all(state)
    if request == TRACE:
        return ask(state, TRACE_DEVICE, 0, 0, 0, 0)
    if request == RETIRE:
        return retire(state, a)
    if request == CLOSE:
        return close(state, a)
    return INTERNAL
