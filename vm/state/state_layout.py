"""Memory layout of the machine's state: one STATE block per virtual machine, and the rows of its tables."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...ops.core.tensor_types import MAX_FIELDS
from ...ops.native.memory import record
from ...ops.native.object_layout import Record

_WORD = np.int64

#: Size classes of storage: multiples of 64 bytes up to 1 KiB, then 8 per power of two: at most an eighth is wasted.
SMALL_CLASSES, FIRST_POWER, CLASSES_PER_POWER = 16, 10, 8
N_CLASSES = SMALL_CLASSES + CLASSES_PER_POWER * 37
#: Number of sizes of objects: one, two or three lines of the cache.
OBJECT_SIZES = 3
#: Devices by number (``executable.DEVICES``), and the pools of storage: one for each device, and page-locked host memory, for
#: copies between a GPU and the host.
N_DEVICES = 3
CPU, SIM, CUDA, PINNED = range(4)
N_POOLS = 4
#: Most arguments of one kernel, call, or tuple; and the words of ``argv``: two such lists and a few more.
MAX_ARGS = MAX_FIELDS
ARGV_WORDS = 2 * MAX_ARGS + 8

COUNTERS = (
    "dtoh_copies", "dtoh_bytes", "htod_copies", "htod_bytes", "syncs", "launches", "instructions",
    "allocs", "alloc_bytes", "peak_bytes", "shape_func_calls", "host_calls",
    "captures", "replays", "updates", "evictions", "graph_failures",
)  # fmt: skip
#: Counters of launches that are combined to graphs, which launches of a trace are not.
GRAPH_COUNTERS = COUNTERS[COUNTERS.index("captures") :]

STATE = np.dtype(
    [
        # program: addresses of tables
        ("code", _WORD),
        ("functions", _WORD),  # rows of FUNCTION_WORDS
        ("packed", _WORD),  # rows of PACKED_WORDS
        ("shape_programs", _WORD),  # rows of SHAPE_PROGRAM_WORDS
        ("constants", _WORD),  # N_DEVICES object addresses for each constant; 0: not there yet
        ("libraries", _WORD),  # addresses of library functions
        ("team", _WORD),  # the thread team of kernels (``ops.native.threads.team``)
        ("slots", _WORD),  # scratch of shape programs, behind a word (see ``shape_eval``)
        ("argv", _WORD),  # scratch of calls: arguments, results of shape functions, the library table, a SHARE
        # frames
        ("stack", _WORD),
        ("stack_words", _WORD),
        ("stack_limit", _WORD),
        ("base", _WORD),  # first register of the current frame, in words from the start of the stack
        ("n_registers", _WORD),
        ("pc", _WORD),
        # result of the loop
        ("reason", _WORD),
        ("status", _WORD),
        ("detail", _WORD),  # of a failed shape program: the number of the check
        ("error_pc", _WORD),  # the instruction that failed; of a queued kernel: the one that launched it
        ("result", _WORD),
        ("deadline_ns", _WORD),
        # memory
        ("free_objects", _WORD, (OBJECT_SIZES,)),  # for each size (see ``objects.chunks``)
        ("open_chunks", _WORD, (OBJECT_SIZES,)),  # the last chunk of each size
        ("object_chunks", _WORD),
        ("free_storage", _WORD, (N_POOLS * N_CLASSES,)),
        ("live_bytes", _WORD),
        ("pool_bytes", _WORD),
        ("limit_bytes", _WORD),
        ("live_objects", _WORD),
        ("search_at", _WORD),  # the number of live objects that a search for cycles waits for; 0: no reference was written
        ("poison", _WORD),  # whether dead host memory is filled with POISON
        # the user of the machine (see ``api.guard``), and releases deferred meanwhile
        ("busy", _WORD),  # FREE, RUNNING or CLOSED
        ("closed", _WORD),  # the value of ``busy`` without a user: FREE or CLOSED
        ("owner", _WORD),  # the last thread that used it
        ("deferred", _WORD),
        ("deferred_words", _WORD),
        ("n_deferred", _WORD),
        # the queue of the sim device: variable-length entries
        ("queue", _WORD),
        ("queue_words", _WORD),
        ("staged_bytes", _WORD),  # of queued copies
        ("queue_head", _WORD),  # words already run
        ("queue_used", _WORD),
        ("queue_base", _WORD),  # words that ran before the contents of the buffer
        ("handed_out", _WORD),  # number of allocations of storage on the device
        ("link_bytes_per_s", _WORD),  # 0: as fast as memory
        ("link_latency_ns", _WORD),  # of each copy over the link
        # waiting for a device
        ("outstanding", _WORD),  # whether a device has work that the host has not waited for
        ("wait_each", _WORD),  # wait after each launch
        ("reason_kinds", _WORD),  # for each reason of a copy, the number of its sync reason
        ("sync_counts", _WORD),  # number of waits of the host, for each sync reason
        ("first_pc", _WORD),  # launches since the host's last wait: the first one and the last
        ("last_pc", _WORD),
        ("n_launched", _WORD),
        # a cuda device: the address of its services and of its record; 0: there is none
        ("gpu", _WORD),
        ("gpu_record", _WORD),
        # the trace: rows as described at EVENT_WORDS; ``tracing`` is one of the levels below
        ("tracing", _WORD),
        # 0: all is recorded; else the address of a word for each kernel: whether it is, and nothing but such kernels
        ("traced_kernels", _WORD),
        ("trace", _WORD),
        ("trace_words", _WORD),
        ("trace_used", _WORD),
    ]
    + [(name, _WORD) for name in COUNTERS]
)

state_at: Callable[[int], Record] = record(STATE)

#: A row of the function table: first word of its code, number of registers, number of parameters.
FUNCTION_WORDS = 3
#: Words of a shape program's row: addresses of its words and of its slots.
SHAPE_PROGRAM_WORDS = 2
#: A row of the packed table: kernel address (0: a kernel in Python; on a GPU: 1), device, address of the argument check
#: (``arguments_match``), on a GPU the address of its launches (see ``cuda.launch_table``), number of workspaces among its last
#: arguments, which no trace shows, address of its preconditions (``launch_check``; 0: the executable is trusted), positions of a
#: parameter and of the result written over it, of which only some elements are accessed (-1: none).
PACKED_WORDS = 8
#: A frame's header, before its registers: return address, caller's base, caller's registers, destination register.
FRAME_WORDS = 4

# Reasons for which the loop returns; and further requests to Python: the error of a machine that is not free, of arguments
# without memory, of a missing result.
DONE, FAILED, HOST_CALL, OUT_OF_FUEL, BUSY, ARGUMENTS, NO_RESULT = range(7)
#: Users of a machine.
FREE, RUNNING, CLOSED = range(3)

#: Trace levels: nothing, events, events with the types of arguments of kernels and shape functions.
TRACE_OFF, TRACE_EVENTS, TRACE_TYPES = range(3)
#: An event of the trace: words in all, kind, pc, subject (packed, reason, shape function or device number), start and end in ns,
#: bytes, start and end of its enqueueing by the host, bytes in use after it.  Then for each argument, if traced: dtype, number of
#: axes, sizes.
EVENT_WORDS = 10
EVENT_KERNEL, EVENT_SHAPE_FUNC, EVENT_DTOH, EVENT_HTOD, EVENT_SYNC, EVENT_ALLOC, EVENT_HOST_CALL = range(7)

#: Byte that fills the sim device's memory, and the host's on request (see ``poison``), in blocks that no finished kernel has
#: written and in dead ones.
POISON = 0xA5

#: Requests to a GPU, ``gpu(state, request, a, b, c, d)`` (see ``cuda.gpu``): the device operations of this folder, in machine
#: code of their own, which only machines on a GPU compile.
(
    GPU_ENTER,  # this thread is about to use it: a status
    GPU_LEAVE,  # as often as GPU_ENTER: restores the thread's context and capture mode
    GPU_AWAIT,  # (address of a list of users: see ``cuda.interop``): later launches wait for them; frees the list
    GPU_ALLOC,  # (pool, bytes): address of a block, 0: no memory
    GPU_FREE,  # (pool, address)
    GPU_LAUNCH,  # (packed, argv, number of tensors << 32 | of results, pc): a status
    GPU_TO_DEVICE,  # (to, from, bytes, row of the trace): copy from the host, whose memory may change afterwards; a status
    GPU_COPY_BEGIN,  # (to, from, bytes, row of the trace): copy to the host after earlier launches; a ticket, < 0: failed
    GPU_COPY_WAIT,  # (ticket): a status
    GPU_COPY_ON_DEVICE,  # (to, from, bytes): in stream order; a status
    GPU_SYNC,  # wait for everything; a status
    GPU_FLUSH,  # launch queued entries; a status
    GPU_TRIM,  # return the driver's free memory
    GPU_TRACE,  # begin a trace; all earlier work has run; a status
    GPU_CLOSE,
) = range(15)
