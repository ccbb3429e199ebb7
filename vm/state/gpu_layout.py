"""Memory layout of a GPU's record and tables, shared by machine code and Python."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...ops.core.implementation import GPU as ON_GPU
from ...ops.native.memory import record
from ...ops.native.object_layout import Record
from ..device_table import DEVICES

_WORD = np.int64

#: The number of the device.
CUDA = DEVICES.index(ON_GPU)


def view_of(**numbers: int) -> Callable[[int], Record]:
    """A view of the words with these numbers."""
    names = sorted(numbers, key=numbers.__getitem__)
    offsets = [np.dtype(_WORD).itemsize * numbers[name] for name in names]
    end = offsets[-1] + np.dtype(_WORD).itemsize
    return record(np.dtype({"names": names, "formats": [_WORD] * len(names), "offsets": offsets, "itemsize": end}))


#: Words of the scratch block for results of driver calls.
OUT_WORDS = 32
#: Words of a library's call, or of a driver's answer.
WORDS = np.dtype([("word", _WORD, (OUT_WORDS,))])
words_at: Callable[[int], Record] = record(WORDS)
#: A foreign stream's use of a storage (see ``cuda.interop``): the event at its end, and the use before it; 0: none.
USER = np.dtype([("event", _WORD), ("next", _WORD)])
user_at: Callable[[int], Record] = record(USER)
#: Two events around work, and the row of the trace that gets its times.
TIMED = np.dtype([("start", _WORD), ("end", _WORD), ("row", _WORD)])
TIMED_WORDS = TIMED.itemsize // 8
timed_at: Callable[[int], Record] = record(TIMED)
#: A word of a step's entry that a launch stores: its place in the entry, and what decides its value.
PATCH = np.dtype([("place", _WORD), ("value", _WORD)])
PATCH_BYTES = PATCH.itemsize
patch_at: Callable[[int], Record] = record(PATCH)
#: The ring through which arguments are copied: parts, bytes of each, alignment of each copy.
RING_PARTS, RING_PART_BYTES, RING_ALIGNMENT = 8, 1 << 19, 64
#: CU_MEMHOSTALLOC_PORTABLE: page-locked memory for every context.
PORTABLE = 1

GPU = np.dtype(
    [
        ("state", _WORD),  # address of the machine's STATE
        ("driver", _WORD),  # the driver table: addresses of functions (see ``driver``)
        ("context", _WORD),
        ("compute", _WORD),  # the stream of launches
        ("copies", _WORD),  # the stream of copies to the host
        ("pool", _WORD),  # the driver's memory pool
        ("fault", _WORD),  # a word in page-locked memory: instruction and status of the first failed kernel
        ("out", _WORD),  # results of driver calls; page-locked memory is not needed
        ("slots", _WORD),  # of the program of the current launch
        ("first_item", _WORD),  # of the turn of the current launch (see ``cuda_program.Turns``)
        ("workspaces", _WORD),  # addresses of the storages of one launch's workspaces
        ("launch_config", _WORD),  # the record LAUNCH_CONFIG; 0: no kernel may start before the kernel in front of it has ended
        ("starts_early", _WORD),  # whether the next kernel may: the last work on the stream is a kernel of this machine
        ("captures_early", _WORD),  # whether a graph may have such kernels
        ("error", _WORD),  # the first error that the driver reported; all later calls fail with it
        ("good_serial", _WORD),  # launches before this one have completed
        ("serial", _WORD),  # number of the last launch
        # nesting depth of ``enter``, and the context and capture mode to restore
        ("entered", _WORD),
        ("caller_context", _WORD),
        ("caller_mode", _WORD),
        # free events without times
        ("events", _WORD),
        ("n_events", _WORD),
        ("events_words", _WORD),
        # launches held back, to be replayed as a graph
        ("queue", _WORD),
        ("queue_words", _WORD),
        ("queue_used", _WORD),
        ("n_queued", _WORD),
        # while they equal the first entries of a captured region: the entry that is to come, and the end of the region; 0: the
        # entries are in the queue
        ("expected", _WORD),
        ("expected_end", _WORD),
        ("is_issued", _WORD),  # whether the entries were launched at once, and are kept only to be recognised
        # graphs
        ("graphs", _WORD),  # GRAPHS_OFF, GRAPHS_ON or GRAPHS_AUTO
        ("graph_rows", _WORD),
        ("variants", _WORD),  # MAX_VARIANTS records for each row
        ("n_graphs", _WORD),
        ("graph_limit", _WORD),
        ("graph_clock", _WORD),
        ("last_variant", _WORD),  # the graph launched last; 0: none, or the region behind it was launched without a graph
        ("change_ns", _WORD),  # time of the host to change a region's nearest graph
        # the ring of page-locked memory (0: none yet), the part that is being filled, its bytes in use, and of each part an event
        # after the last copies from it (0: none yet)
        ("ring", _WORD),
        ("ring_part", _WORD),
        ("ring_used", _WORD),
        ("ring_events", _WORD, (RING_PARTS,)),
        ("products", _WORD),  # the record PRODUCTS; 0 until a program multiplies
        ("convolutions", _WORD),  # the record CONVOLUTIONS (see ``cudnn.layout``); 0 until a program convolves
        # times of a trace: pairs of events still to be read
        ("timed", _WORD),
        ("timed_words", _WORD),
        ("timed_used", _WORD),
        ("timed_events", _WORD),  # free events with times
        ("n_timed_events", _WORD),
        ("timed_events_words", _WORD),
        ("base_event", _WORD),
        ("base_ns", _WORD),  # the host's clock at the base event
    ]
)

gpu_at: Callable[[int], Record] = record(GPU)

GRAPHS_OFF, GRAPHS_ON, GRAPHS_AUTO = range(3)
#: Modes by their names in the configuration.
GRAPHS = {"off": GRAPHS_OFF, "on": GRAPHS_ON, "auto": GRAPHS_AUTO}

#: The graph of a region for the words that it was launched with last: address and number of these words, the executable graph,
#: the graph that it was made of, addresses of each entry's node (0: its parameters are not changed), the row of the region, the
#: graph that was launched after it the last time (0: none).  ``exec`` 0: no graph.
VARIANT = np.dtype([(name, _WORD) for name in ("entries", "words", "exec", "graph", "nodes", "region", "next")])
variant_at: Callable[[int], Record] = record(VARIANT)
#: Most graphs of one region: calls often alternate between the addresses of a few results.
MAX_VARIANTS = 4
#: Times of the host in ns, measured on an H200 with a driver of CUDA 13.0 for graphs of 20 to 200 kernels: of a launch; of the
#: launch of a graph; of a change of a node's arguments (450, and 70 at the next launch of the graph); of a change of its grid, or
#: of a node that may start early (850 and 1050: the driver prepares the node again).
LAUNCH_NS, GRAPH_LAUNCH_NS, CHANGE_NS, REGRID_NS = 4000, 2400, 520, 1900
#: A graph is far from a region if its changes take as long as changes of the arguments of one in FAR nodes.  After MAX_FAR
#: changes of far graphs the region is captured once more.
FAR, MAX_FAR = 4, 2

#: A region: its key (see ``regions.store_key``), as hash, address of the words (0: the row is new) and their number; last use,
#: state, hash of the first entry's key, number of regions held back because the region might be this one, address of its
#: records VARIANT, number of its graphs, number of changes of far graphs since the last capture.
GRAPH = np.dtype(
    [
        (name, _WORD)
        for name in (
            "hash",
            "key",
            "key_words",
            "met",
            "state",
            "first",
            "trials",
            "variants",
            "n_variants",
            "far",
        )
    ]
)
graph_at: Callable[[int], Record] = record(GRAPH)
#: State of a region of launches: seen once, never to be captured (capture failed, or the region did not come), captured, seen
#: twice and to be captured when it comes again (mode ``auto``).
MET, NEVER, CAPTURED, AWAITED = range(4)
#: Most regions that are held back to capture one.
MAX_TRIALS = 16

#: A queue entry of a launch: words in all, kind, function, grid, block, shared bytes, number of arguments, arguments.
(ENTRY_WORDS, ENTRY_KIND, ENTRY_FUNCTION, ENTRY_GRID, ENTRY_BLOCK, ENTRY_SHARED, ENTRY_N_ARGS, ENTRY_ARGS) = (
    0, 1, 2, 3, 6, 9, 10, 11,
)  # fmt: skip
entry_at = view_of(
    function=ENTRY_FUNCTION, grid=ENTRY_GRID, kind=ENTRY_KIND, n_args=ENTRY_N_ARGS, shared=ENTRY_SHARED,
    words=ENTRY_WORDS,
)  # fmt: skip
#: A library call has the value of ``unless`` as its grid; a product, or a convolution, the serial number of its row in its table.
KERNEL_ENTRY, LIBRARY_ENTRY, PRODUCT_ENTRY, TURNS_ENTRY, CONVOLUTION_ENTRY = range(5)
#: Turns are no launch: their step has the number of all items and that of a turn in place of an entry's grid.
TURNS_ITEMS, TURNS_PER = ENTRY_GRID, ENTRY_GRID + 1
turns_at = view_of(items=TURNS_ITEMS, per=TURNS_PER)
#: The arguments of a product's entry: those of ``cublasLtMatmul``, whose first matrix is b, and the bias (0: none).
PRODUCT_HANDLE, PRODUCT_DESCRIPTION, PRODUCT_ALPHA, PRODUCT_B, PRODUCT_LAYOUT_B, PRODUCT_A = range(ENTRY_ARGS, ENTRY_ARGS + 6)
PRODUCT_LAYOUT_A, PRODUCT_BETA, PRODUCT_ADDED, PRODUCT_LAYOUT_ADDED, PRODUCT_OUT = range(ENTRY_ARGS + 6, ENTRY_ARGS + 11)
PRODUCT_LAYOUT_OUT, PRODUCT_ALGORITHM, PRODUCT_WORKSPACE, PRODUCT_WORKSPACE_BYTES = range(ENTRY_ARGS + 11, ENTRY_ARGS + 15)
PRODUCT_STREAM, PRODUCT_BIAS, PRODUCT_WORDS = range(ENTRY_ARGS + 15, ENTRY_ARGS + 18)
#: Behind a product's entry in a plan: ``unless``, the record PRODUCT, the sizes (see ``cuda_program.MatrixProduct``), and of the
#: last launch with these sizes the row (0: none) and the alignment.
PRODUCT_UNLESS, PRODUCT_RECORD, PRODUCT_SIZES, PRODUCT_ROW_AT, PRODUCT_ALIGNMENT, PRODUCT_ALL = (
    PRODUCT_WORDS + k for k in (0, 1, 2, 8, 9, 10)
)
product_entry_at = view_of(
    a=PRODUCT_A, added=PRODUCT_ADDED, algorithm=PRODUCT_ALGORITHM, alignment=PRODUCT_ALIGNMENT, alpha=PRODUCT_ALPHA,
    b=PRODUCT_B, beta=PRODUCT_BETA, bias=PRODUCT_BIAS, description=PRODUCT_DESCRIPTION, handle=PRODUCT_HANDLE,
    layout_a=PRODUCT_LAYOUT_A, layout_added=PRODUCT_LAYOUT_ADDED, layout_b=PRODUCT_LAYOUT_B,
    layout_out=PRODUCT_LAYOUT_OUT, out=PRODUCT_OUT, record=PRODUCT_RECORD, row_at=PRODUCT_ROW_AT, stream=PRODUCT_STREAM,
    workspace=PRODUCT_WORKSPACE, workspace_bytes=PRODUCT_WORKSPACE_BYTES,
)  # fmt: skip

#: The launches of a packed function: address of the integer program over the tensors' sizes, address of its slots (see
#: ``shape_eval``: the word before them is about the steps, too), address of the first step with work for these sizes (0: none),
#: number of workspaces, number of steps; then the slot of each workspace's bytes; then the steps.
(PLAN_PROGRAM, PLAN_SLOTS, PLAN_FIRST, PLAN_N_SCRATCH, PLAN_N_STEPS, PLAN_BODY) = range(6)
plan_at = view_of(first=PLAN_FIRST, n_scratch=PLAN_N_SCRATCH, n_steps=PLAN_N_STEPS, program=PLAN_PROGRAM, slots=PLAN_SLOTS)
#: A step: words in all; of the next step with work the address (0: none), and of the next behind those that a product or a
#: convolution replaces or that turns repeat; number of these steps; place and number of the entry's words that are positive if
#: the step has work; place of the entry; number of the entry's words of each kind that launches and sizes decide; then for each
#: its place in the entry and its value.  The entry has all other words already.
(STEP_WORDS, STEP_NEXT, STEP_AFTER, STEP_INSTEAD, STEP_GATE, STEP_N_GATES, STEP_ENTRY) = range(7)
(STEP_N_SIZES, STEP_N_DATA, STEP_N_SCRATCH, STEP_N_SITES, STEP_N_ITEMS, STEP_PATCHES) = range(7, 13)
step_at = view_of(
    after=STEP_AFTER, entry=STEP_ENTRY, gate=STEP_GATE, instead=STEP_INSTEAD, next=STEP_NEXT, n_data=STEP_N_DATA,
    n_gates=STEP_N_GATES, n_items=STEP_N_ITEMS, n_scratch=STEP_N_SCRATCH, n_sites=STEP_N_SITES, n_sizes=STEP_N_SIZES,
    words=STEP_WORDS,
)  # fmt: skip

#: The constant part of a product: its description in the library, the library's numbers of the types of a, b and result, whether
#: a and b are transposed, addresses of the factors.
PRODUCT = np.dtype(
    [
        (name, _WORD)
        for name in ("description", "type_a", "type_b", "type_out", "transpose_a", "transpose_b", "alpha", "beta", "has_bias")
    ]
)
product_at: Callable[[int], Record] = record(PRODUCT)
#: cuBLASLt for machine code: addresses of functions, handle, preference, workspace; the table of products.
PRODUCTS = np.dtype(
    [
        (name, _WORD)
        for name in (
            *("new_layout", "set_layout", "free_layout", "set_preference", "choose", "set_description", "multiply"),
            *("handle", "preference", "workspace", "workspace_bytes", "rows", "n_rows", "used", "serial"),
        )
    ]
)
products_at: Callable[[int], Record] = record(PRODUCTS)
#: A row of the table of products.  Key (see ``size_table``): record PRODUCT, alignment, sizes.  Then whether the
#: library has an algorithm; layouts; the library's answer: algorithm, bytes of workspace, and more.
PRODUCT_ROW = np.dtype(
    [
        ("serial", _WORD),  # 0: the row is empty
        ("product", _WORD),
        ("alignment", _WORD),
        ("sizes", _WORD, (6,)),
        ("is_usable", _WORD),
        ("layout_a", _WORD),
        ("layout_b", _WORD),
        ("layout_out", _WORD),
        ("algorithm", _WORD, (8,)),
        ("workspace_bytes", _WORD),
        ("answer", _WORD, (3,)),
    ]
)
product_row_at: Callable[[int], Record] = record(PRODUCT_ROW)
#: Rows of the table, a power of two; half of them are used before the table is emptied.  A replay needs the row of its capture:
#: 5 products of an encoder at 512 lengths are 2560 rows.
PRODUCT_ROWS = 8192

#: CUlaunchConfig, and its only attribute, a CUlaunchAttribute.  Two numbers of 32 bits are a word: grid and block, then the bytes
#: of shared memory.
LAUNCH_CONFIG = np.dtype(
    [
        ("sizes", _WORD, (3,)),
        ("shared_bytes", _WORD),
        ("stream", _WORD),
        ("attributes", _WORD),
        ("n_attributes", _WORD),
        ("attribute", _WORD),
        ("is_allowed", _WORD, (8,)),
    ]
)
launch_config_at: Callable[[int], Record] = record(LAUNCH_CONFIG)
#: CUDA_KERNEL_NODE_PARAMS of version 2, with the numbers of 32 bits as above.
NODE_PARAMS = np.dtype(
    [
        ("function", _WORD),
        ("sizes", _WORD, (3,)),
        ("shared_bytes", _WORD),
        ("params", _WORD),
        ("extra", _WORD),
        ("kernel", _WORD),
        ("context", _WORD),
    ]
)
node_params_at: Callable[[int], Record] = record(NODE_PARAMS)
#: CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION.
PROGRAMMATIC_SERIALIZATION = 6

#: Most words of arguments of one launch.
MAX_LAUNCH_WORDS = 4000
#: Most launches held back for a graph.
MAX_QUEUED = 2048
