"""The machine's only entry point, as machine code: run, and the services for Python on objects."""

from __future__ import annotations

from ...ops.native.jit.c_functions import call_6
from ...ops.native.memory import free, load_i64, native, store_i64
from ...ops.native.status import INTERNAL
from ..devices.sim.simulated_device import ALL, drain
from ..state.state_layout import (
    CLOSED,
    GPU_CLOSE,
    GPU_ENTER,
    GPU_FLUSH,
    GPU_LEAVE,
    GPU_SYNC,
    GPU_TRACE,
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
    status = drain(state, ALL) + 0
    if s.gpu != 0:  # kernels that still run there may write to memory that is freed here
        status = call_6(s.gpu, state, GPU_SYNC, 0, 0, 0, 0)
    s.outstanding = 0
    for i in range(n_constants):
        for device in range(1, N_DEVICES):
            at = s.constants + 8 * (N_DEVICES * i + device)
            release(state, load_i64(at))
            store_i64(at, 0)
    release_deferred(state)
    drain(state, ALL)
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
    if s.gpu != 0:
        call_6(s.gpu, state, GPU_CLOSE, 0, 0, 0, 0)
    while s.object_chunks != 0:
        following = load_i64(s.object_chunks)
        free(s.object_chunks)
        s.object_chunks = following
    for block in (s.queue, s.deferred):
        if block != 0:
            free(block)
    return 0


@native
def machine(state: int, request: int, a: int, b: int) -> int:
    """Serve a request; the answer depends on the request.

    RUN: the reason.  OPEN(function, n arguments).  RELEASE(object).  RETAIN, OWN(object): its address.  BUILD(rows, number of
    rows): number of arguments.  TAKE_IN(a row): address of a tensor that owns its elements.  STACK(words): 1.  TO_HOST(tensor,
    sync reason), TO_DEVICE(tensor, device): address of a counted copy.  WAIT(sync reason), TRACE (a GPU's clock), RETIRE(n
    constants): a status.  TRIM: number of bytes freed.  Without memory, an address is 0, a number is -1, and a 1 is 0.
    """
    gpu = state_at(state).gpu
    uses_gpu = gpu != 0 and request not in (OPEN, RELEASE, RETAIN, STACK)
    if uses_gpu:
        call_6(gpu, state, GPU_ENTER, 0, 0, 0, 0)
    answer = answer_to(state, request, a, b)
    if uses_gpu:
        call_6(gpu, state, GPU_LEAVE, 0, 0, 0, 0)
    return answer


@native
def answer_to(state: int, request: int, a: int, b: int) -> int:
    """The answer of ``machine``, once the GPU in use has been entered by this thread."""
    gpu = state_at(state).gpu
    if request == RUN:
        reason = run_loop(state)
        # the GPU runs asynchronously; its errors are found by the next wait.  A time slice ends no region of launches
        if gpu != 0 and reason != OUT_OF_FUEL:
            call_6(gpu, state, GPU_FLUSH, 0, 0, 0, 0)
        return reason
    if request == OPEN:
        open_frame(state, a, b)
        return 0
    if request == LEAVE:
        if gpu != 0:  # the run may have ended between two time slices
            call_6(gpu, state, GPU_FLUSH, 0, 0, 0, 0)
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
        return host_to_device(state, a, b, -1, -1, False)
    if request == WAIT:
        return wait_for_all(state, a) + 0
    if request == TRIM:
        return trim_all(state)
    if request == TRACE:
        return call_6(gpu, state, GPU_TRACE, 0, 0, 0, 0)
    if request == RETIRE:
        return retire(state, a)
    if request == CLOSE:
        return close(state, a)
    return INTERNAL
