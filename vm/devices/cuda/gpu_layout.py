"""Memory layout of a GPU's record and tables, shared by machine code and Python."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....ops.native.memory import record
from ....ops.native.object_layout import Record

_WORD = np.int64

#: Words of the scratch block for results of driver calls.
OUT_WORDS = 32

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
        ("slots", _WORD),  # scratch of launch programs
        ("workspaces", _WORD),  # addresses of the storages of one launch's workspaces
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
        ("queued_ns", _WORD),  # time of the first of them
        # graphs
        ("graphs", _WORD),  # GRAPHS_OFF, GRAPHS_ON or GRAPHS_AUTO
        ("graph_rows", _WORD),
        ("n_graphs", _WORD),
        ("graph_limit", _WORD),
        ("graph_clock", _WORD),
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

#: A graph: hash of its launches, their words and address of a copy of them (0: not captured), the executable graph, last use,
#: host and GPU time of separate launches, events around these (0: times are read).
GRAPH = np.dtype(
    [
        (name, _WORD)
        for name in ("hash", "words", "entries", "exec", "met", "host_ns", "device_ns", "start_event", "end_event", "state")
    ]
)
GRAPH_BYTES = GRAPH.itemsize
graph_at: Callable[[int], Record] = record(GRAPH)
#: State of a region of launches: seen once, never to be captured (it is not faster, or capture failed), captured.
MET, NEVER, CAPTURED = range(3)

#: A queue entry of a launch: words in all, kind, function, grid, block, shared bytes, number of arguments, arguments.
(ENTRY_WORDS, ENTRY_KIND, ENTRY_FUNCTION, ENTRY_GRID, ENTRY_BLOCK, ENTRY_SHARED, ENTRY_N_ARGS, ENTRY_ARGS) = (
    0, 1, 2, 3, 6, 9, 10, 11,
)  # fmt: skip
KERNEL_ENTRY, LIBRARY_ENTRY = 0, 1

#: The launches of a packed function: address of the integer program over the tensors' sizes, number of workspaces,
#: number of steps; then the slot of each workspace's bytes; then the steps.
(PLAN_PROGRAM, PLAN_N_SCRATCH, PLAN_N_STEPS, PLAN_BODY) = range(4)
#: A step: kind, function, slots of the grid (a library call: three times the slot of ``unless``), block, slot of the shared
#: bytes, number of arguments; then two words for each: its kind and its value.
(STEP_KIND, STEP_FUNCTION, STEP_GRID, STEP_BLOCK, STEP_SHARED, STEP_N_ARGS, STEP_ARGS) = (0, 1, 2, 5, 8, 9, 10)
#: Kinds of arguments: data of a tensor, slot of the program, constant word, workspace, fault words, instruction.
ARG_DATA, ARG_SLOT, ARG_WORD, ARG_SCRATCH, ARG_FAULT, ARG_SITE = range(6)

#: Most words of arguments of one launch.
MAX_LAUNCH_WORDS = 4000
#: Most launches held back for a graph.
MAX_QUEUED = 2048
