"""Launches of packed functions on a GPU, as machine code: sizes, workspaces, arguments, the steps of a plan."""

from __future__ import annotations

from ....ops.native.inlining import keep_out_of_line
from ....ops.native.memory import clock_ns, load_i64, native, store_i64, tensor
from ....ops.native.objects import storage_at
from ....ops.native.status import DEVICE_ERROR, OK, OUT_OF_MEMORY
from ...runtime.objects.heap import free_storage, new_storage
from ...runtime.shape_eval import MARK_BYTES, load_slots, mark_at, run_rows, sizes_differ
from ...runtime.tracing.event_trace import begin_kernel
from ...state.gpu_layout import (
    CONVOLUTION_ENTRY,
    CUDA,
    PATCH_BYTES,
    PLAN_BODY,
    PLAN_FIRST,
    PRODUCT_ENTRY,
    STEP_AFTER,
    STEP_NEXT,
    STEP_PATCHES,
    TURNS_ENTRY,
    entry_at,
    gpu_at,
    patch_at,
    plan_at,
    product_entry_at,
    step_at,
    turns_at,
)
from ...state.state_layout import PACKED_BYTES, TRACE_OFF, event_at, packed_at, state_at
from .cudnn.layout import convolution_entry_at
from .cudnn_table import has_plan
from .events import begin_timing, drop_timing, end_timing
from .graphs.held_back import issue_entry
from .matrix_products import has_algorithm

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
    at = step + 8 * (STEP_PATCHES + 2 * step_at(step).n_sizes)
    for _ in range(step_at(step).n_data):
        patch = patch_at(at)
        store_i64(entry + 8 * patch.place, tensor(load_i64(argv + 8 * patch.value)).data)
        at += PATCH_BYTES
    for _ in range(step_at(step).n_scratch):
        storage = workspace(gpu, plan, patch_at(at).value)
        if storage < 0:
            return False
        store_i64(entry + 8 * patch_at(at).place, tensor(storage).data if storage != 0 else 0)
        at += PATCH_BYTES
    for _ in range(step_at(step).n_sites):
        store_i64(entry + 8 * patch_at(at).place, pc)
        at += PATCH_BYTES
    if c.first_item != 0:
        for _ in range(step_at(step).n_items):
            patch = patch_at(at)
            word, nbytes = entry + 8 * patch.place, load_i64(c.slots + 8 * patch.value)
            store_i64(word, load_i64(word) + c.first_item * nbytes)
            at += PATCH_BYTES
    return True


# ---- steps -----------------------------------------------------------------------------------------------------------------


@native
def launch_steps(gpu: int, plan: int, argv: int, pc: int) -> int:
    """Launch the steps of a packed function that have work; a status."""
    c = gpu_at(gpu)
    c.first_item = 0
    step: int = plan_at(plan).first
    turns = 0  # their step while they are taken
    while step != 0:
        entry = step + 8 * step_at(step).entry
        if entry_at(entry).kind == TURNS_ENTRY:
            after = step_at(step).after
            turns, step = step, step_at(step).next
            if step == after:  # no step of theirs has work
                turns = 0
            continue
        step = launch_step(gpu, step, entry, plan, argv, pc)
        if step < 0:
            return -step
        if turns != 0 and step == step_at(turns).after:
            if take_turn(gpu, turns):
                step = step_at(turns).next
            else:
                turns = 0
    return OK


@native
def take_turn(gpu: int, turns: int) -> bool:
    """Begin the next turn; False after the last."""
    c = gpu_at(gpu)
    entry = turns + 8 * step_at(turns).entry
    total, per = turns_at(entry).items, turns_at(entry).per
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
    kind, following = entry_at(entry).kind, STEP_NEXT
    if kind == PRODUCT_ENTRY or kind == CONVOLUTION_ENTRY:
        if not (has_algorithm(gpu, entry) if kind == PRODUCT_ENTRY else has_plan(gpu, entry)):
            return step_at(step).next
        following = STEP_AFTER
    status = issue_entry(gpu, entry) + 0
    return -status if status != 0 else load_i64(step + 8 * following)


@native
def prepare_steps(plan: int) -> None:
    """Store the sizes in the entries of the steps that have work, and connect these steps."""
    at = plan + 8 * (PLAN_BODY + plan_at(plan).n_scratch)
    link = plan + 8 * PLAN_FIRST
    for _ in range(plan_at(plan).n_steps):
        if store_sizes(at, plan_at(plan).slots):
            store_i64(link, at)
            link = at + 8 * STEP_NEXT
        at += 8 * step_at(at).words
    store_i64(link, 0)
    at = plan_at(plan).first
    while at != 0:
        step_at(at).after = step_after(at)
        at = step_at(at).next


@native
def store_sizes(step: int, slots: int) -> bool:
    """Store the sizes in a step's entry, without a row of a table; False at once if it has no work."""
    entry = step + 8 * step_at(step).entry
    gate, end = step_at(step).gate, step_at(step).gate + step_at(step).n_gates
    at = step + 8 * STEP_PATCHES
    for _ in range(step_at(step).n_sizes):
        place, value = patch_at(at).place, load_i64(slots + 8 * patch_at(at).value)
        store_i64(entry + 8 * place, value)
        if value <= 0 and gate <= place < end:
            return False
        at += PATCH_BYTES
    for k in range(gate, end):  # a word that no size decides may be 0, too
        if load_i64(entry + 8 * k) <= 0:
            return False
    if entry_at(entry).kind == PRODUCT_ENTRY:
        product_entry_at(entry).row_at = 0
    elif entry_at(entry).kind == CONVOLUTION_ENTRY:
        convolution_entry_at(entry).row_at = 0
    return True


@native
def step_after(step: int) -> int:
    """The next step with work behind those that this step replaces or repeats; 0: none."""
    end = step + 8 * step_at(step).words
    for _ in range(step_at(step).instead):
        end += 8 * step_at(end).words
    at = step_at(step).next
    while at != 0 and at < end:
        at = step_at(at).next
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
    program, slots = plan_at(plan).program, plan_at(plan).slots
    gpu_at(gpu).slots = slots
    if mark_at(slots - MARK_BYTES).is_filled != 0 and not sizes_differ(program, argv, slots):
        return OK
    return evaluate_new_sizes(plan, program, argv, slots)


@native
def evaluate_new_sizes(plan: int, program: int, argv: int, slots: int) -> int:
    """Set the slots and steps of the launch; a status."""
    keep_out_of_line()
    status = load_slots(program, argv, slots) + 0
    mark_at(slots - MARK_BYTES).is_filled = 0
    if status == OK:
        status = run_rows(program, slots) + 0
    if status == OK:
        prepare_steps(plan)
        mark_at(slots - MARK_BYTES).is_filled = 1
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
    release_workspaces(state, gpu, plan_at(plan).n_scratch)
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
        event_at(s.trace + 8 * row).asked_end = clock_ns()
        if status == 0:
            status = end_timing(gpu, c.compute, start, row) + 0
        else:
            drop_timing(gpu, start)
    return status
