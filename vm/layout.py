"""The machine's own records: one STATE block per virtual machine, and the rows of its tables."""

from __future__ import annotations

import numpy as np

from ..ops.native.memory import record
from ..ops.ty import MAX_FIELDS

_WORD = np.int64

#: Size classes of storage: multiples of 64 bytes up to 1 KiB, then so many to each doubling: an eighth is lost at most.
SMALL_CLASSES, FIRST_POWER, CLASSES_PER_POWER = 16, 10, 8
N_CLASSES = SMALL_CLASSES + CLASSES_PER_POWER * 37
#: Devices by number (``executable.DEVICES``), and the pools of storage: one for each device, and page-locked host memory,
#: which copies between a card and the host go through.
N_DEVICES = 3
CPU, SIM, CUDA, PINNED = range(4)
N_POOLS = 4
#: Most arguments of one kernel, call, or tuple; and the words of ``argv``, which takes two such lists and a few more.
MAX_ARGS = MAX_FIELDS
ARGV_WORDS = 2 * MAX_ARGS + 8

COUNTERS = (
    "dtoh_copies", "dtoh_bytes", "htod_copies", "htod_bytes", "syncs", "launches", "instructions",
    "allocs", "alloc_bytes", "peak_bytes", "shape_func_calls", "host_calls",
    "captures", "replays", "evictions", "graph_failures",
)  # fmt: skip

STATE = np.dtype(
    [
        # program: addresses of tables
        ("code", _WORD),
        ("functions", _WORD),  # rows of FUNCTION_WORDS
        ("packed", _WORD),  # rows of PACKED_WORDS
        ("shape_programs", _WORD),  # addresses of their words
        ("constants", _WORD),  # N_DEVICES object addresses for each constant; 0: not there yet
        ("libraries", _WORD),  # addresses of library functions
        ("team", _WORD),  # the threads that kernels run in (``ops.native.threads``)
        ("slots", _WORD),  # scratch of shape programs
        ("argv", _WORD),  # scratch of calls: arguments, results of shape functions, the library table, a share
        # frames
        ("stack", _WORD),
        ("stack_words", _WORD),
        ("stack_limit", _WORD),
        ("base", _WORD),  # first register of the current frame, in words from the start of the stack
        ("n_registers", _WORD),
        ("pc", _WORD),
        # how the loop ended
        ("reason", _WORD),
        ("status", _WORD),
        ("detail", _WORD),  # of a failed shape program: the number of the check
        ("error_pc", _WORD),  # the instruction that failed; of a queued kernel: the one that launched it
        ("result", _WORD),
        ("deadline_ns", _WORD),
        # memory
        ("free_objects", _WORD),
        ("object_chunks", _WORD),
        ("free_storage", _WORD, (N_POOLS * N_CLASSES,)),
        ("live_bytes", _WORD),
        ("pool_bytes", _WORD),
        ("limit_bytes", _WORD),
        ("live_objects", _WORD),
        ("poison", _WORD),  # is what is dead in host memory filled with POISON?
        # who is in the machine (see ``guard``), and releases that came meanwhile
        ("busy", _WORD),  # FREE, RUNNING or CLOSED
        ("closed", _WORD),  # what ``busy`` is when nobody is in it: FREE or CLOSED
        ("owner", _WORD),  # the thread that was the last one in it
        ("deferred", _WORD),
        ("deferred_words", _WORD),
        ("n_deferred", _WORD),
        # the queue of the sim device: variable-length entries
        ("queue", _WORD),
        ("queue_words", _WORD),
        ("staged_bytes", _WORD),  # held by queued copies until they run
        ("queue_head", _WORD),  # words that have run
        ("queue_used", _WORD),
        ("queue_base", _WORD),  # words that ran before those that are in the buffer
        ("handed_out", _WORD),  # how often a storage of the device was handed out
        ("link_bytes_per_s", _WORD),  # 0: as fast as memory
        # waiting for a device
        ("outstanding", _WORD),  # has a device work that the host has not waited for?
        ("wait_each", _WORD),  # wait after each launch
        ("reason_kinds", _WORD),  # for each reason of a copy, the number of its sync reason
        ("sync_counts", _WORD),  # how often the host waited, for each sync reason
        ("first_pc", _WORD),  # launches since the host last waited: the first one and the last
        ("last_pc", _WORD),
        ("n_launched", _WORD),
        # a cuda device: the address of its services and of its record; 0: there is none
        ("card", _WORD),
        ("card_record", _WORD),
        # the trace: rows as described at EVENT_WORDS; ``tracing`` is one of the levels below
        ("tracing", _WORD),
        ("trace", _WORD),
        ("trace_words", _WORD),
        ("trace_used", _WORD),
    ]
    + [(name, _WORD) for name in COUNTERS]
)

state_at = record(STATE)

#: A row of the function table: first word of its code, number of registers, number of parameters.
FUNCTION_WORDS = 3
#: A row of the packed table: kernel address (0: a kernel in Python; on a card: 1), device, address of the argument check
#: (``arguments_fit``), on a card the address of its launches (see ``cuda.launches``), how many of its last arguments are
#: workspaces, which no trace shows, address of what it demands of its tensors (``launch_check``; 0: they are trusted).
PACKED_WORDS = 6
#: A frame's header, before its registers: where to return to, caller's base, caller's registers, where the result goes.
FRAME_WORDS = 4

# Why the loop returned; and what else Python is asked for: the error of a machine that is not free, of arguments for which there
# was no memory, of a result that there is not.
DONE, FAILED, HOST_CALL, OUT_OF_FUEL, BUSY, ARGUMENTS, NO_RESULT = range(7)
#: Who is in a machine.
FREE, RUNNING, CLOSED = range(3)

#: How much is traced: nothing, events, events with the types of what kernels and shape functions were given.
TRACE_OFF, TRACE_EVENTS, TRACE_TYPES = range(3)
#: An event of the trace: words in all, kind, pc, subject (packed, reason, shape function or device number), start and end
#: in ns, bytes, when the host began and ended to ask for it, bytes in use after it.  Then for each argument, if traced:
#: dtype, number of axes, sizes.
EVENT_WORDS = 10
EVENT_KERNEL, EVENT_SHAPE_FUNC, EVENT_DTOH, EVENT_HTOD, EVENT_SYNC, EVENT_ALLOC, EVENT_HOST_CALL = range(7)

#: Byte that fills the sim device's memory, and where that is asked for the host's (see ``poison``), wherever no finished
#: kernel has written, or what was written is dead.
POISON = 0xA5

#: What a card is asked for, ``card(state, request, a, b, c, d)`` (see ``cuda.card``): a device's side of everything here, in
#: machine code of its own, which only machines on that device need.
(
    CARD_ENTER,  # this thread is about to use it: a status
    CARD_LEAVE,  # as often as CARD_ENTER: the thread gets back the context and the capture mode that it came with
    CARD_AWAIT,  # (address of a list of users: see ``cuda.lending``): launches from now on wait for them; frees the list
    CARD_ALLOC,  # (pool, bytes): address of a block, 0: no memory
    CARD_FREE,  # (pool, address)
    CARD_LAUNCH,  # (packed, argv, number of tensors << 32 | of results, pc): a status
    CARD_TO_DEVICE,  # (to, from, bytes, row of the trace): copy from the host, whose memory may change afterwards; a status
    CARD_COPY_BEGIN,  # (to, from, bytes, row of the trace): copy to the host once what is launched has run; a ticket, < 0: failed
    CARD_COPY_WAIT,  # (ticket): a status
    CARD_COPY_ON_DEVICE,  # (to, from, bytes): in the order of the launches; a status
    CARD_SYNC,  # wait for everything; a status
    CARD_FLUSH,  # launch what is held back; a status
    CARD_TRIM,  # give the driver's free memory back
    CARD_TRACE,  # a trace begins; everything before has run; a status
    CARD_CLOSE,
) = range(15)
