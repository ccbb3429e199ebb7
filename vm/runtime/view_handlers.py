"""Handlers of instructions that make views of a tensor, as machine code: see ``bytecode.dispatch``."""

from __future__ import annotations

from ...ops.native.memory import clock_ns, copy_bytes, load_i64, native, tensor
from ...ops.native.object_layout import TAG_TENSOR
from ...ops.native.status import BAD_COUNT, INTERNAL, OK, OUT_OF_MEMORY, SHAPE_CHECK
from ..bytecode import isa
from ..bytecode.dispatch import handles
from ..state.state_layout import EVENT_ALLOC, TRACE_OFF, state_at
from .frames import set_register
from .handlers import shape_vector
from .objects.heap import checked_bytes, is_inline, itemsize, like, n_bytes, release, status_of_bytes, view
from .objects.poison import NBYTES
from .stream import copy_on_device
from .tracing.event_trace import record_event

#: Rows are moved out of a buffer sized by an upper bound only if the bound has at least so many bytes (a page), and so many times
#: the bytes of the rows: the memory saved is never less than the memory copied.  A copy takes 40 ns; of many rows, a twentieth of
#: the kernel that finds them.
LEAST_BOUND, LEAST_TIMES = 4096, 2


@handles(isa.ReshapeTensor)
@native
def reshape_tensor(state: int, dst: int, src: int, shape: int) -> int:
    t, to = tensor(src), tensor(shape)
    if t.tag != TAG_TENSOR:
        return INTERNAL
    status = shape_vector(shape)
    if status != OK:
        return status
    ndim = to.shape[0]
    if checked_bytes(to.data, ndim, t.dtype) != n_bytes(src):
        return SHAPE_CHECK
    made = view(state, src, t.dtype)
    if made == 0:
        return OUT_OF_MEMORY
    tensor(made).ndim = ndim
    for i in range(ndim):
        tensor(made).shape[i] = load_i64(to.data + 8 * i)
    set_register(state, dst, made)
    return OK


@handles(isa.SliceTensor)
@native
def slice_tensor(state: int, dst: int, src: int, shape: int, offset: int) -> int:
    t, to, where = tensor(src), tensor(shape), tensor(offset)
    if t.tag != TAG_TENSOR:
        return INTERNAL
    status = max(shape_vector(shape), shape_vector(offset))
    if status != OK or where.shape[0] != 1:
        return INTERNAL if status == OK else status
    nbytes, size = checked_bytes(to.data, to.shape[0], t.dtype), itemsize(t.dtype)
    if nbytes < 0:
        return status_of_bytes(nbytes)
    first = load_i64(where.data) if nbytes > 0 else 0
    if first < 0 or nbytes > n_bytes(src) or first > (n_bytes(src) - nbytes) // size:
        return INTERNAL
    made = view(state, src, t.dtype)
    if made == 0:
        return OUT_OF_MEMORY
    o = tensor(made)
    if is_inline(made):
        # an inline tensor stores its elements from its first byte on: its views are copies
        copy_bytes(o.data, t.data + first * size, nbytes)
    else:
        o.data += first * size
        if o.storage != 0 and state_at(state).poison != 0:
            o.payload[NBYTES] = nbytes
    o.ndim = to.shape[0]
    for i in range(to.shape[0]):
        o.shape[i] = load_i64(to.data + 8 * i)
    set_register(state, dst, made)
    return OK


@handles(isa.TrimTensor)
@native
def trim_tensor(state: int, pc: int, dst: int, src: int, count: int, index: int, release: int) -> int:
    t, c = tensor(src), tensor(count)
    if t.tag != TAG_TENSOR or t.ndim == 0:
        return INTERNAL
    status = shape_vector(count)
    if status != OK:
        return status
    if index >= c.shape[0]:
        return INTERNAL
    n = load_i64(c.data + 8 * index)
    if n < 0 or n > t.shape[0]:
        return BAD_COUNT
    made = view(state, src, t.dtype)
    if made == 0:
        return OUT_OF_MEMORY
    tensor(made).ndim = t.ndim
    for i in range(t.ndim):
        tensor(made).shape[i] = t.shape[i]
    tensor(made).shape[0] = n
    if release != 0 and is_worth_moving(n_bytes(src), n_bytes(made)):
        made = move_out(state, made, pc)
        if made == 0:
            return state_at(state).status
    set_register(state, dst, made)
    return OK


@native
def is_worth_moving(bound: int, nbytes: int) -> bool:
    """Whether freeing ``bound`` bytes is worth a copy of the ``nbytes`` in use."""
    if nbytes == 0:
        return bound > 0
    return bound >= LEAST_BOUND and nbytes <= bound // LEAST_TIMES


@native
def move_out(state: int, rows: int, pc: int) -> int:
    """Copy ``rows``, a view that this takes over, to its own storage; ``rows`` itself if there is no memory.

    0 if the device failed (see the state's status).
    """
    s = state_at(state)
    device, nbytes = tensor(rows).device, n_bytes(rows)
    made = like(state, rows, device)
    if made == 0:
        return rows
    if s.tracing != TRACE_OFF:
        now = clock_ns()
        record_event(state, EVENT_ALLOC, pc, device, now, now, nbytes)
    status = copy_on_device(state, made, rows) + 0
    release(state, rows)
    if status != 0:
        release(state, made)
        s.status = status
        return 0
    return made
