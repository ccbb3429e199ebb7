"""A card's record, and the words of its tables: what machine code and Python share about a CUDA device."""

from __future__ import annotations

import numpy as np

from ...ops.native.memory import record

_WORD = np.int64

#: Words of the scratch block that driver calls write their results into.
OUT_WORDS = 32

CARD = np.dtype(
    [
        ("state", _WORD),  # of the machine
        ("driver", _WORD),  # the driver table: addresses of functions (see ``driver``)
        ("context", _WORD),
        ("compute", _WORD),  # the stream of launches
        ("copies", _WORD),  # the stream of copies to the host
        ("pool", _WORD),  # the driver's memory pool
        ("fault", _WORD),  # a word in page-locked memory: instruction and status of the first kernel that failed
        ("out", _WORD),  # results of driver calls; page-locked memory is not needed
        ("slots", _WORD),  # scratch of launch programs
        ("workspaces", _WORD),  # addresses of the storages of one launch's workspaces
        ("error", _WORD),  # the first error that the driver reported; every later call is refused with it
        ("good_serial", _WORD),  # launches before this one are known to have run
        ("serial", _WORD),  # of the last launch
        # a thread is in here: how many calls deep, and what it came with, which it gets back
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
        ("queued_ns", _WORD),  # when the first of them was asked for
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

card_at = record(CARD)

GRAPHS_OFF, GRAPHS_ON, GRAPHS_AUTO = range(3)
#: By what the configuration calls them.
GRAPHS = {"off": GRAPHS_OFF, "on": GRAPHS_ON, "auto": GRAPHS_AUTO}

#: A graph: hash of its launches, their words and address of a copy of them (0: not captured), the executable graph, when it was
#: last met, how long the host and the card took when they were launched one by one, events around that (0: read).
GRAPH = np.dtype(
    [
        (name, _WORD)
        for name in ("hash", "words", "entries", "exec", "met", "host_ns", "device_ns", "start_event", "end_event", "state")
    ]
)
GRAPH_BYTES = GRAPH.itemsize
graph_at = record(GRAPH)
#: Of a region of launches: met once, never to be captured (it does not pay, or it failed), captured.
MET, NEVER, CAPTURED = range(3)

#: A launch that is ready: words in all, kind, function, grid, block, shared bytes, then the number of arguments and these.
(ENTRY_WORDS, ENTRY_KIND, ENTRY_FUNCTION, ENTRY_GRID, ENTRY_BLOCK, ENTRY_SHARED, ENTRY_N_ARGS, ENTRY_ARGS) = (
    0, 1, 2, 3, 6, 9, 10, 11,
)  # fmt: skip
KERNEL_ENTRY, LIBRARY_ENTRY = 0, 1

#: The launches of a packed function: address of the integer program over the tensors' sizes, may it be captured, number of
#: workspaces, number of steps; then the slot of each workspace's bytes; then the steps.
(PLAN_PROGRAM, PLAN_SAFE, PLAN_N_SCRATCH, PLAN_N_STEPS, PLAN_BODY) = range(5)
#: A step: kind, function, slots of the grid (a library call: three times that of ``unless``), block, slot of the shared bytes,
#: number of arguments; then two words for each: its kind and what it says.
(STEP_KIND, STEP_FUNCTION, STEP_GRID, STEP_BLOCK, STEP_SHARED, STEP_N_ARGS, STEP_ARGS) = (0, 1, 2, 5, 8, 9, 10)
#: Arguments: the data of a tensor, a slot of the program, a constant word, a workspace, the fault words, the instruction.
ARG_DATA, ARG_SLOT, ARG_WORD, ARG_SCRATCH, ARG_FAULT, ARG_SITE = range(6)

#: Most words of one launch's arguments.
MAX_LAUNCH_WORDS = 4000
#: Most launches that are held back for a graph.
MAX_QUEUED = 2048
