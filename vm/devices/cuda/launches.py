"""Launches of packed functions on a GPU, as machine code: sizes, workspaces, arguments, the steps of a plan."""

from __future__ import annotations

from ....ops.native.inlining import keep_out_of_line
from ....ops.native.memory import clock_ns, load_i64, native, store_i64, tensor
from ....ops.native.objects import storage_at
from ....ops.native.status import DEVICE_ERROR, OK, OUT_OF_MEMORY
from ...runtime.objects.heap import free_storage, new_storage
from ...runtime.shape_eval import load_slots, run_rows, sizes_differ
from ...runtime.tracing.event_trace import begin_kernel
from ...state.gpu_layout import (
    CONVOLUTION_ENTRY,
    CUDA,
    ENTRY_KIND,
    PLAN_BODY,
    PLAN_FIRST,
    PLAN_N_SCRATCH,
    PLAN_N_STEPS,
    PLAN_PROGRAM,
    PLAN_SLOTS,
    PRODUCT_ENTRY,
    PRODUCT_ROW_AT,
    STEP_AFTER,
    STEP_ENTRY,
    STEP_GATE,
    STEP_INSTEAD,
    STEP_N_DATA,
    STEP_N_GATES,
    STEP_N_ITEMS,
    STEP_N_SCRATCH,
    STEP_N_SITES,
    STEP_N_SIZES,
    STEP_NEXT,
    STEP_PATCHES,
    STEP_WORDS,
    TURNS_ENTRY,
    TURNS_ITEMS,
    TURNS_PER,
    gpu_at,
)
from ...state.state_layout import PACKED_BYTES, TRACE_OFF, packed_at, state_at
from .cudnn.layout import CONVOLUTION_ROW_AT
from .cudnn_table import has_plan
from .events import begin_timing, drop_timing, end_timing
from .graphs.held_back import issue_entry
from .matrix_products import has_algorithm

#: Word in a row of the trace: the end of the enqueueing by the host.
_ASKED_END = 8


# ---- workspaces and arguments ----------------------------------------------------------------------------------------------


@native
def workspace(gpu: int, plan: int, number: int) -> int:
    """The storage of a workspace, allocated at its first use in this launch; 0: it has no bytes; negative: there is no memory.

    Steps that are replaced allocate nothing.
    """
    c = gpu_at(gpu)
    storage = load_i64(c.workspaces + 8 * number)
    nbytes = load_i64(c.slots + 8 * load_i64(plan + 8 * (PLAN_BODY + number)))
    if storage != 0 or nbytes <= 0:
        return storage
    storage = new_storage(c.state, nbytes, CUDA)
    store_i64(c.workspaces + 8 * number, storage)
    return storage if storage != 0 else -1


@native
def release_workspaces(state: int, gpu: int, n: int) -> None:
    """Free the workspaces, which have no other owner: the next users of their memory come later on the stream."""
    for i in range(n):
        storage = load_i64(gpu_at(gpu).workspaces + 8 * i)
        if storage != 0:
            free_storage(state, storage)
            store_i64(gpu_at(gpu).workspaces + 8 * i, 0)


@native
def store_addresses(gpu: int, step: int, entry: int, plan: int, argv: int, pc: int) -> bool:
    """Store the words of a step's entry that each launch decides; False if there is no memory for a workspace."""
    c = gpu_at(gpu)
    at = step + 8 * (STEP_PATCHES + 2 * load_i64(step + 8 * STEP_N_SIZES))
    for _ in range(load_i64(step + 8 * STEP_N_DATA)):
        store_i64(entry + 8 * load_i64(at), tensor(load_i64(argv + 8 * load_i64(at + 8))).data)
        at += 16
    for _ in range(load_i64(step + 8 * STEP_N_SCRATCH)):
        storage = workspace(gpu, plan, load_i64(at + 8))
        if storage < 0:
            return False
        store_i64(entry + 8 * load_i64(at), tensor(storage).data if storage != 0 else 0)
        at += 16
    for _ in range(load_i64(step + 8 * STEP_N_SITES)):
        store_i64(entry + 8 * load_i64(at), pc)
        at += 16
    if c.first_item != 0:
        for _ in range(load_i64(step + 8 * STEP_N_ITEMS)):
            word, nbytes = entry + 8 * load_i64(at), load_i64(c.slots + 8 * load_i64(at + 8))
            store_i64(word, load_i64(word) + c.first_item * nbytes)
            at += 16
    return True


# ---- steps -----------------------------------------------------------------------------------------------------------------


@native
def launch_steps(gpu: int, plan: int, argv: int, pc: int) -> int:
    """Launch the steps of a packed function that have work; a status."""
    c = gpu_at(gpu)
    c.first_item = 0
    step, turns = load_i64(plan + 8 * PLAN_FIRST), 0  # ``turns``: their step while they are taken
    while step != 0:
        entry = step + 8 * load_i64(step + 8 * STEP_ENTRY)
        if load_i64(entry + 8 * ENTRY_KIND) == TURNS_ENTRY:
            after = load_i64(step + 8 * STEP_AFTER)
            turns, step = step, load_i64(step + 8 * STEP_NEXT)
            if step == after:  # no step of theirs has work
                turns = 0
            continue
        step = launch_step(gpu, step, entry, plan, argv, pc)
        if step < 0:
            return -step
        if turns != 0 and step == load_i64(turns + 8 * STEP_AFTER):
            if take_turn(gpu, turns):
                step = load_i64(turns + 8 * STEP_NEXT)
            else:
                turns = 0
    return OK


@native
def take_turn(gpu: int, turns: int) -> bool:
    """Begin the next turn; False after the last."""
    c = gpu_at(gpu)
    entry = turns + 8 * load_i64(turns + 8 * STEP_ENTRY)
    total, per = load_i64(entry + 8 * TURNS_ITEMS), load_i64(entry + 8 * TURNS_PER)
    done = c.first_item + per
    if done >= total:
        c.first_item = 0
        return False
    c.first_item = min(done, total - per)
    return True


@native
def launch_step(gpu: int, step: int, entry: int, plan: int, argv: int, pc: int) -> int:
    """Launch one step; the step that follows (0: none), or a negated status."""
    if not store_addresses(gpu, step, entry, plan, argv, pc):
        return -OUT_OF_MEMORY
    kind, following = load_i64(entry + 8 * ENTRY_KIND), STEP_NEXT
    if kind == PRODUCT_ENTRY or kind == CONVOLUTION_ENTRY:
        if not (has_algorithm(gpu, entry) if kind == PRODUCT_ENTRY else has_plan(gpu, entry)):
            return load_i64(step + 8 * STEP_NEXT)
        following = STEP_AFTER
    status = issue_entry(gpu, entry) + 0
    return -status if status != 0 else load_i64(step + 8 * following)


@native
def prepare_steps(plan: int) -> None:
    """Store the sizes in the entries of the steps that have work, and connect these steps."""
    at = plan + 8 * (PLAN_BODY + load_i64(plan + 8 * PLAN_N_SCRATCH))
    link = plan + 8 * PLAN_FIRST
    for _ in range(load_i64(plan + 8 * PLAN_N_STEPS)):
        if store_sizes(at, load_i64(plan + 8 * PLAN_SLOTS)):
            store_i64(link, at)
            link = at + 8 * STEP_NEXT
        at += 8 * load_i64(at + 8 * STEP_WORDS)
    store_i64(link, 0)
    at = load_i64(plan + 8 * PLAN_FIRST)
    while at != 0:
        store_i64(at + 8 * STEP_AFTER, step_after(at))
        at = load_i64(at + 8 * STEP_NEXT)


@native
def store_sizes(step: int, slots: int) -> bool:
    """Store the sizes in a step's entry, without a row of a table; False at once if it has no work."""
    entry = step + 8 * load_i64(step + 8 * STEP_ENTRY)
    gate, end = load_i64(step + 8 * STEP_GATE), load_i64(step + 8 * STEP_GATE) + load_i64(step + 8 * STEP_N_GATES)
    at = step + 8 * STEP_PATCHES
    for _ in range(load_i64(step + 8 * STEP_N_SIZES)):
        place, value = load_i64(at), load_i64(slots + 8 * load_i64(at + 8))
        store_i64(entry + 8 * place, value)
        if value <= 0 and gate <= place < end:
            return False
        at += 16
    for k in range(gate, end):  # a word that no size decides may be 0, too
        if load_i64(entry + 8 * k) <= 0:
            return False
    if load_i64(entry + 8 * ENTRY_KIND) == PRODUCT_ENTRY:
        store_i64(entry + 8 * PRODUCT_ROW_AT, 0)
    elif load_i64(entry + 8 * ENTRY_KIND) == CONVOLUTION_ENTRY:
        store_i64(entry + 8 * CONVOLUTION_ROW_AT, 0)
    return True


@native
def step_after(step: int) -> int:
    """The next step with work behind those that this step replaces or repeats; 0: none."""
    end = step + 8 * load_i64(step + 8 * STEP_WORDS)
    for _ in range(load_i64(step + 8 * STEP_INSTEAD)):
        end += 8 * load_i64(end + 8 * STEP_WORDS)
    at = load_i64(step + 8 * STEP_NEXT)
    while at != 0 and at < end:
        at = load_i64(at + 8 * STEP_NEXT)
    return at


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
    """Set the slots and steps of the launch, unless they are set for the sizes of these tensors; a status."""
    program, slots = load_i64(plan + 8 * PLAN_PROGRAM), load_i64(plan + 8 * PLAN_SLOTS)
    gpu_at(gpu).slots = slots
    if load_i64(slots - 8) != 0 and not sizes_differ(program, argv, slots):
        return OK
    return evaluate_new_sizes(plan, program, argv, slots)


@native
def evaluate_new_sizes(plan: int, program: int, argv: int, slots: int) -> int:
    """Set the slots and steps of the launch; a status."""
    keep_out_of_line()
    status = load_slots(program, argv, slots) + 0
    store_i64(slots - 8, 0)
    if status == OK:
        status = run_rows(program, slots) + 0
    if status == OK:
        prepare_steps(plan)
        store_i64(slots - 8, 1)
    return status


@native
def launch(state: int, gpu: int, packed: int, argv: int, counts: int, pc: int) -> int:
    """Launch a packed function; a status."""
    s, c = state_at(state), gpu_at(gpu)
    n, n_outputs = counts >> 32, counts & 0xFFFFFFFF
    if c.error != 0:
        return DEVICE_ERROR
    plan = packed_at(s.packed + PACKED_BYTES * packed).launches
    status = evaluate_sizes(gpu, plan, argv) + 0
    if status != 0:
        return status
    mark_written(gpu, argv, n, n_outputs)
    if s.tracing != TRACE_OFF:
        status = launch_traced(state, gpu, plan, packed, argv, n, pc) + 0
    else:
        status = launch_steps(gpu, plan, argv, pc) + 0
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
    status = launch_steps(gpu, plan, argv, pc) + 0
    c.graphs = graphs
    if row >= 0:
        store_i64(s.trace + 8 * (row + _ASKED_END), clock_ns())
        if status == 0:
            status = end_timing(gpu, c.compute, start, row) + 0
        else:
            drop_timing(gpu, start)
    return status
