"""Launches of packed functions on a GPU, as machine code: sizes, workspaces, arguments, the steps of a plan."""

from __future__ import annotations

from ....ops.native.memory import clock_ns, load_i64, native, store_i64, tensor
from ....ops.native.objects import storage_at
from ....ops.native.status import DEVICE_ERROR, OK, OUT_OF_MEMORY
from ...runtime.event_trace import begin_kernel
from ...runtime.heap import new_storage, release
from ...runtime.shape_eval import load_slots, run_rows
from ...runtime.state_layout import CUDA, PACKED_WORDS, TRACE_OFF, state_at
from .events import begin_timing, drop_timing, end_timing
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
from .graphs import commit_entry, reserve_entry
from .matrix_products import NO_ALGORITHM, launch_product

#: Word in a row of the trace: the end of the enqueueing by the host.
_ASKED_END = 8


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
