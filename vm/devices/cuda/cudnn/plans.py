"""Plans of convolutions by cuDNN's backend, made in machine code at the first meeting of sizes; the numbers of cudnn_graph.h.

A plan is the first configuration of the library's heuristics whose engine computes as exactly as the program states, gives the
same result in each run, compiles nothing at run time, and has enough of the machine's workspace.
"""

from __future__ import annotations

from .....ops.native.c_functions import call_1, call_2, call_5, call_6
from .....ops.native.memory import load_i32, load_i64, native, store_i64
from ....state.gpu_layout import gpu_at
from .layout import (
    BATCH,
    CHANNELS,
    CONVOLUTION,
    INPUTS,
    OUT_SPACE,
    OUTPUTS,
    PLAN_ROW,
    SPACE,
    WINDOW,
    convolution_at,
    convolutions_at,
    plan_row_at,
)

_LOW = 0xFFFFFFFF
assert PLAN_ROW.fields is not None and CONVOLUTION.fields is not None
_SIZES = PLAN_ROW.fields["sizes"][1]
_STRIDE, _DILATION, _BEFORE = (CONVOLUTION.fields[name][1] for name in ("stride", "dilation", "before"))

# Descriptors: cudnnBackendDescriptorType_t.
_CONVOLUTION, _ENGINE, _CONFIGURATION, _HEURISTICS, _PLAN, _GRAPH, _PACK, _TENSOR = 1, 2, 3, 4, 5, 15, 16, 17
_FORWARD, _TRANSPOSED = 10, 12
# Types of attributes: cudnnBackendAttributeType_t.
_HANDLE, _DATA_TYPE, _INT64, _FLOAT, _DOUBLE, _POINTER, _MODE, _HEURISTICS_MODE = 0, 1, 3, 4, 5, 6, 7, 8
_NUMERICAL, _DESCRIPTOR, _BEHAVIOR = 11, 15, 19
# Attributes: cudnnBackendAttributeName_t.
_COMPUTE, _DIRECTION, _DILATIONS, _STRIDES, _AFTER, _PADDING, _AXES = range(100, 107)
_SEARCH_MODE, _SEARCH_GRAPH, _SEARCH_RESULTS = 200, 201, 202
_OF_ENGINE = 300
_PLAN_HANDLE, _PLAN_CONFIGURATION, _PLAN_WORKSPACE = 400, 401, 402
_ALPHA, _BETA, _HOW, _WEIGHT, _DATA, _OUT = range(700, 706)
#: The distance to the same attributes of a transposed convolution ("backward data").
_TO_TRANSPOSED = 6
_GRAPH_HANDLE, _OPERATIONS = 800, 801
_ALIGNMENT, _ELEMENT, _DIMS, _STEPS = range(900, 904)
_NUMBER = 906
_PACK_NUMBERS, _PACK_ADDRESSES, _PACK_WORKSPACE = 1000, 1001, 1003
_NUMERICAL_NOTES, _BEHAVIOR_NOTES = 1303, 1305

#: CUDNN_CROSS_CORRELATION: the window is not mirrored.
_NOT_MIRRORED = 1
#: CUDNN_HEUR_MODE_A, and CUDNN_HEUR_MODE_FALLBACK: engines that work, with no promise of speed.
_BY_SPEED, _ANY_ENGINE = 3, 2
#: CUDNN_DATA_FLOAT and CUDNN_DATA_DOUBLE.
_SINGLE, _DOUBLES = 0, 1
#: 1 as float and as double.
_ONE_SINGLE, _ONE_DOUBLE = 0x3F800000, 0x3FF0000000000000
#: Tensors' numbers in a graph.
_OF_DATA, _OF_WEIGHT, _OF_OUT = 1, 2, 3
#: Numerical notes with which an engine may be taken, as bits: Winograd's algorithm with tiles of 4 x 4, NaN stays NaN.  Without:
#: conversion to narrower inputs, narrower sums, FFT, larger tiles, results that differ between runs; and notes unknown here.
_EXACT = 1 << 5 | 1 << 6 | 1 << 9
#: CUDNN_NUMERICAL_NOTE_TENSOR_CORE as a bit: with float32, TF32.
_TENSOR_CORE = 1 << 0
#: Behavior notes with which an engine may be taken, as bits: it knows graphs, it calls cuBLASLt.  Without: compilation at run
#: time, weights in another order; and notes unknown here.
_AHEAD = 1 << 3 | 1 << 4
#: The most notes of an engine, and the most configurations of a search.
_MOST_NOTES, _MOST_FOUND = 32, 64
#: Words of the block in which plans are made: a value, a number of elements; sizes, steps, and paddings by axis; notes;
#: configurations; descriptors to destroy.
_VALUE, _COUNT, _DIMS_AT, _STEPS_AT, _AFTER_AT, _NOTES_AT = 0, 8, 16, 64, 112, 136
_FOUND_AT = _NOTES_AT + 4 * _MOST_NOTES
_MADE_AT = _FOUND_AT + 8 * _MOST_FOUND
BLOCK_WORDS = _MADE_AT // 8 + 2 * _MOST_FOUND + 16  # two searches and the graph


# ---- descriptors ------------------------------------------------------------------------------------------------------------


@native
def create(gpu: int, kind: int) -> int:
    """A descriptor; 0 if it failed."""
    p = convolutions_at(gpu_at(gpu).convolutions)
    store_i64(p.block, 0)
    p.failed |= call_2(p.create, kind, p.block) & _LOW
    return load_i64(p.block)


@native
def create_for_now(gpu: int, kind: int) -> int:
    """A descriptor that is destroyed with the end of the plan's making; 0 if it failed."""
    p = convolutions_at(gpu_at(gpu).convolutions)
    made = create(gpu, kind)
    if made != 0:
        store_i64(p.block + _MADE_AT + 8 * p.n_made, made)
        p.n_made += 1
    return made


@native
def put(gpu: int, thing: int, attribute: int, kind: int, n: int, values: int) -> None:
    """Set an attribute of ``n`` elements."""
    p = convolutions_at(gpu_at(gpu).convolutions)
    p.failed |= call_5(p.set, thing, attribute, kind, n, values) & _LOW


@native
def put_word(gpu: int, thing: int, attribute: int, kind: int, value: int) -> None:
    """Set an attribute of one element, of at most 64 bits."""
    block = convolutions_at(gpu_at(gpu).convolutions).block
    store_i64(block, value)
    put(gpu, thing, attribute, kind, 1, block)


@native
def finalize(gpu: int, thing: int) -> None:
    p = convolutions_at(gpu_at(gpu).convolutions)
    p.failed |= call_1(p.finalize, thing) & _LOW


@native
def count_of(gpu: int, thing: int, attribute: int, kind: int, most: int, to: int) -> int:
    """Read at most ``most`` elements of an attribute to an address; the number of elements that it has."""
    p = convolutions_at(gpu_at(gpu).convolutions)
    store_i64(p.block + _COUNT, 0)
    p.failed |= call_6(p.get, thing, attribute, kind, most, p.block + _COUNT, to) & _LOW
    return load_i64(p.block + _COUNT)


@native
def destroy(gpu: int, thing: int) -> None:
    if thing != 0:
        call_1(convolutions_at(gpu_at(gpu).convolutions).destroy, thing)


# ---- the graph of one convolution -------------------------------------------------------------------------------------------


@native
def new_tensor(gpu: int, row: int, number: int, batch: int, channels: int, space: int) -> int:
    """The descriptor of a tensor with these sizes; ``space``: where among the row's sizes those of its spatial axes begin."""
    p, r = convolutions_at(gpu_at(gpu).convolutions), plan_row_at(row)
    s = convolution_at(r.convolution)
    dims, steps, last = p.block + _DIMS_AT, p.block + _STEPS_AT, s.axes + 1
    step = channels if s.channels_last != 0 else 1
    for i in range(s.axes):
        n = load_i64(row + _SIZES + 8 * (space + 2 - i))
        store_i64(dims + 8 * (last - i), n)
        store_i64(steps + 8 * (last - i), step)
        step *= n
    store_i64(dims, batch)
    store_i64(dims + 8, channels)
    store_i64(steps + 8, 1 if s.channels_last != 0 else step)
    store_i64(steps, step if s.channels_last != 0 else step * channels)
    made = create_for_now(gpu, _TENSOR)
    put_word(gpu, made, _NUMBER, _INT64, number)
    put_word(gpu, made, _ELEMENT, _DATA_TYPE, s.type_out if number == _OF_OUT else s.type)
    put_word(gpu, made, _ALIGNMENT, _INT64, r.alignment)
    put(gpu, made, _DIMS, _INT64, s.axes + 2, dims)
    put(gpu, made, _STEPS, _INT64, s.axes + 2, steps)
    finalize(gpu, made)
    return made


@native
def padding_after(row: int, axis: int) -> int:
    """The padding behind the last element of an axis with which the result has its size: as before the first if that does.

    More engines know the same padding at both ends.
    """
    s, w = convolution_at(plan_row_at(row).convolution), row + _SIZES
    n, out = load_i64(w + 8 * (SPACE + axis)), load_i64(w + 8 * (OUT_SPACE + axis))
    span = (load_i64(w + 8 * (WINDOW + axis)) - 1) * s.dilation[axis] + 1
    beyond = n + 2 * s.before[axis] - span
    if beyond >= 0 and beyond // s.stride[axis] + 1 == out:
        return s.before[axis]
    return max((out - 1) * s.stride[axis] + span - n - s.before[axis], 0)


@native
def new_convolution(gpu: int, row: int) -> int:
    """The descriptor of how the window moves."""
    p, record = convolutions_at(gpu_at(gpu).convolutions), plan_row_at(row).convolution
    s = convolution_at(record)
    for axis in range(3):
        store_i64(p.block + _AFTER_AT + 8 * axis, padding_after(row, axis))
    first, made = 8 * (3 - s.axes), create_for_now(gpu, _CONVOLUTION)
    put_word(gpu, made, _COMPUTE, _DATA_TYPE, s.compute)
    put_word(gpu, made, _DIRECTION, _MODE, _NOT_MIRRORED)
    put_word(gpu, made, _AXES, _INT64, s.axes)
    put(gpu, made, _DILATIONS, _INT64, s.axes, record + _DILATION + first)
    put(gpu, made, _STRIDES, _INT64, s.axes, record + _STRIDE + first)
    put(gpu, made, _PADDING, _INT64, s.axes, record + _BEFORE + first)
    put(gpu, made, _AFTER, _INT64, s.axes, p.block + _AFTER_AT + first)
    finalize(gpu, made)
    return made


@native
def new_graph(gpu: int, row: int) -> int:
    """The library's graph of the convolution of a row."""
    p, w = convolutions_at(gpu_at(gpu).convolutions), row + _SIZES
    batch, channels, outputs, inputs = (
        load_i64(w + 8 * BATCH), load_i64(w + 8 * CHANNELS), load_i64(w + 8 * OUTPUTS), load_i64(w + 8 * INPUTS),
    )  # fmt: skip
    data = new_tensor(gpu, row, _OF_DATA, batch, channels, SPACE)
    weight = new_tensor(gpu, row, _OF_WEIGHT, outputs, inputs, WINDOW)
    out = new_tensor(gpu, row, _OF_OUT, batch, outputs, OUT_SPACE)
    s, how = convolution_at(plan_row_at(row).convolution), new_convolution(gpu, row)
    in_double = s.compute == _DOUBLES
    to = _TO_TRANSPOSED if s.is_transposed != 0 else 0
    operation = create_for_now(gpu, _TRANSPOSED if s.is_transposed != 0 else _FORWARD)
    put_word(gpu, operation, to + _DATA, _DESCRIPTOR, data)
    put_word(gpu, operation, to + _WEIGHT, _DESCRIPTOR, weight)
    put_word(gpu, operation, to + _OUT, _DESCRIPTOR, out)
    put_word(gpu, operation, to + _HOW, _DESCRIPTOR, how)
    put_word(gpu, operation, to + _ALPHA, _DOUBLE if in_double else _FLOAT, _ONE_DOUBLE if in_double else _ONE_SINGLE)
    put_word(gpu, operation, to + _BETA, _DOUBLE if in_double else _FLOAT, 0)
    finalize(gpu, operation)
    graph = create_for_now(gpu, _GRAPH)
    put_word(gpu, graph, _OPERATIONS, _DESCRIPTOR, operation)
    put_word(gpu, graph, _GRAPH_HANDLE, _HANDLE, p.handle)
    finalize(gpu, graph)
    return graph


# ---- the choice of a configuration ------------------------------------------------------------------------------------------


@native
def has_only(gpu: int, engine: int, attribute: int, kind: int, allowed: int) -> bool:
    """Whether all notes of an engine are among the allowed ones, which are bits."""
    notes = convolutions_at(gpu_at(gpu).convolutions).block + _NOTES_AT
    n = count_of(gpu, engine, attribute, kind, _MOST_NOTES, notes)
    if n > _MOST_NOTES:
        return False
    for i in range(n):
        note = load_i32(notes + 4 * i)
        if note < 0 or note > 62 or (allowed >> note) & 1 == 0:
            return False
    return True


@native
def is_permitted(gpu: int, configuration: int, kind: int) -> bool:
    """Whether the engine of a configuration may compute tensors of this type."""
    p = convolutions_at(gpu_at(gpu).convolutions)
    engine = create_for_now(gpu, _ENGINE)
    store_i64(p.block, engine)
    count_of(gpu, configuration, _OF_ENGINE, _DESCRIPTOR, 1, p.block)
    exact = _EXACT if kind == _SINGLE and p.tf32 == 0 else _EXACT | _TENSOR_CORE
    if not has_only(gpu, engine, _NUMERICAL_NOTES, _NUMERICAL, exact):
        return False
    return has_only(gpu, engine, _BEHAVIOR_NOTES, _BEHAVIOR, _AHEAD) and p.failed == 0


@native
def new_plan(gpu: int, configuration: int) -> int:
    """The plan of a configuration; 0 if the library refuses it, or if it needs more workspace than there is."""
    p = convolutions_at(gpu_at(gpu).convolutions)
    plan = create(gpu, _PLAN)
    put_word(gpu, plan, _PLAN_HANDLE, _HANDLE, p.handle)
    put_word(gpu, plan, _PLAN_CONFIGURATION, _DESCRIPTOR, configuration)
    finalize(gpu, plan)
    if p.failed == 0:
        store_i64(p.block, -1)
        count_of(gpu, plan, _PLAN_WORKSPACE, _INT64, 1, p.block)
        if p.failed == 0 and 0 <= load_i64(p.block) <= p.workspace_bytes:
            return plan
    destroy(gpu, plan)
    return 0


@native
def search(gpu: int, row: int, graph: int, mode: int) -> None:
    """Give the row the plan of the first usable configuration that the heuristics find."""
    p, r = convolutions_at(gpu_at(gpu).convolutions), plan_row_at(row)
    found, heuristics = p.block + _FOUND_AT, create_for_now(gpu, _HEURISTICS)
    put_word(gpu, heuristics, _SEARCH_GRAPH, _DESCRIPTOR, graph)
    put_word(gpu, heuristics, _SEARCH_MODE, _HEURISTICS_MODE, mode)
    finalize(gpu, heuristics)
    at_most = min(count_of(gpu, heuristics, _SEARCH_RESULTS, _DESCRIPTOR, 0, 0), _MOST_FOUND)
    for i in range(at_most):
        store_i64(found + 8 * i, create(gpu, _CONFIGURATION))
    n = min(at_most, count_of(gpu, heuristics, _SEARCH_RESULTS, _DESCRIPTOR, at_most, found)) if at_most > 0 else 0
    if p.failed != 0:
        n = 0
    for i in range(at_most):
        configuration = load_i64(found + 8 * i)
        p.failed = 0
        if i < n and r.plan == 0 and is_permitted(gpu, configuration, convolution_at(r.convolution).type):
            r.plan = new_plan(gpu, configuration)
            if r.plan != 0:
                r.configuration = configuration
        if r.configuration != configuration:
            destroy(gpu, configuration)


@native
def make_plan(gpu: int, row: int) -> None:
    """Give a row with its key the library's plan; 0 if it has none."""
    p, r = convolutions_at(gpu_at(gpu).convolutions), plan_row_at(row)
    r.plan = 0
    r.configuration = 0
    p.failed = 0
    p.n_made = 0
    graph = new_graph(gpu, row)
    if p.failed == 0:
        search(gpu, row, graph, _BY_SPEED)
        if r.plan == 0:
            p.failed = 0
            search(gpu, row, graph, _ANY_ENGINE)
    for i in range(p.n_made):
        destroy(gpu, load_i64(p.block + _MADE_AT + 8 * i))
    p.n_made = 0


@native
def destroy_plan(gpu: int, row: int) -> None:
    r = plan_row_at(row)
    destroy(gpu, r.plan)
    destroy(gpu, r.configuration)
    r.plan = 0
    r.configuration = 0


@native
def new_pack(gpu: int, data: int, weight: int, out: int) -> int:
    """A descriptor of these addresses and the workspace; 0 if it failed, with the status in ``failed``."""
    p = convolutions_at(gpu_at(gpu).convolutions)
    numbers, addresses = p.block + _DIMS_AT, p.block + _STEPS_AT
    store_i64(numbers, _OF_DATA)
    store_i64(numbers + 8, _OF_WEIGHT)
    store_i64(numbers + 16, _OF_OUT)
    store_i64(addresses, data)
    store_i64(addresses + 8, weight)
    store_i64(addresses + 16, out)
    p.failed = 0
    made = create(gpu, _PACK)
    put(gpu, made, _PACK_NUMBERS, _INT64, 3, numbers)
    put(gpu, made, _PACK_ADDRESSES, _POINTER, 3, addresses)
    put_word(gpu, made, _PACK_WORKSPACE, _POINTER, p.workspace)
    finalize(gpu, made)
    if p.failed == 0:
        return made
    destroy(gpu, made)
    return 0
