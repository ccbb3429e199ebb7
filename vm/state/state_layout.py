"""Memory layout of the machine's state: one STATE block per virtual machine, and the rows of its tables."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...ops.core.tensor_types import MAX_FIELDS
from ...ops.native.memory import record
from ...ops.native.object_layout import Record
from ..device_table import DEVICES

_WORD = np.int64

#: Size classes of storage: multiples of 64 bytes up to 1 KiB, then 8 per power of two: at most an eighth is wasted.
SMALL_CLASSES, FIRST_POWER, CLASSES_PER_POWER = 16, 10, 8
N_CLASSES = SMALL_CLASSES + CLASSES_PER_POWER * 37
#: Number of sizes of objects: one, two or three lines of the cache.
OBJECT_SIZES = 3
#: The pools of storage: one for each device, by its number, and memory of the host for copies from a device that needs memory of
#: a special kind, such as page-locked memory.
N_DEVICES = len(DEVICES)
HOST_COPIES = N_DEVICES
N_POOLS = N_DEVICES + 1
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
        ("functions", _WORD),  # rows of FUNCTION
        ("packed", _WORD),  # rows of PACKED
        ("shape_programs", _WORD),  # rows of SHAPE_PROGRAM
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
        # the device: the address of its handler of requests (``device_requests``) and of its record; 0: the CPU alone
        ("device", _WORD),
        ("device_record", _WORD),
        ("host_pool", _WORD),  # the pool of the host's tensors that the device copies to
        ("first_users", _WORD),  # ``users`` of a new storage of the device
        ("is_host_memory", _WORD),  # whether the host can read the device's memory by address
        ("takes_arrays", _WORD),  # whether arguments may be memory of another library
        ("handed_out", _WORD),  # number of allocations of storage on the device
        # waiting for a device
        ("outstanding", _WORD),  # whether a device has work that the host has not waited for
        ("wait_each", _WORD),  # wait after each launch
        ("reason_kinds", _WORD),  # for each reason of a copy, the number of its sync reason
        ("sync_counts", _WORD),  # number of waits of the host, for each sync reason
        ("first_pc", _WORD),  # launches since the host's last wait: the first one and the last
        ("last_pc", _WORD),
        ("n_launched", _WORD),
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

#: A row of the function table.  ``start``: first word of its code.
FUNCTION = np.dtype([("start", _WORD), ("n_registers", _WORD), ("n_parameters", _WORD)])
FUNCTION_BYTES = FUNCTION.itemsize
function_at: Callable[[int], Record] = record(FUNCTION)
#: A shape program's row: addresses of its words and of its slots.
SHAPE_PROGRAM = np.dtype([("words", _WORD), ("slots", _WORD)])
SHAPE_PROGRAM_BYTES = SHAPE_PROGRAM.itemsize
shape_program_at: Callable[[int], Record] = record(SHAPE_PROGRAM)
#: A row of the packed table.  ``function``: kernel address (0: a kernel in Python; on a GPU: 1).  ``types``: address of the
#: argument check (``arguments_match``).  ``launches``: on a GPU the address of its launches (see ``cuda.launch_table``).
#: ``workspaces``: number of workspaces among its last arguments, which no trace shows.  ``demands``: address of its
#: preconditions (``launch_check``; 0: the executable is trusted).  ``updated``, ``result``: positions of a parameter and of the
#: result written over it, of which only some elements are accessed (-1: none).
PACKED = np.dtype(
    [
        ("function", _WORD), ("device", _WORD), ("types", _WORD), ("launches", _WORD), ("workspaces", _WORD),
        ("demands", _WORD), ("updated", _WORD), ("result", _WORD),
    ]
)  # fmt: skip
PACKED_BYTES = PACKED.itemsize
#: The type of an argument that a kernel was compiled for; device -1: any device.
TYPE = np.dtype([("ndim", _WORD), ("dtype", _WORD), ("device", _WORD)])
TYPE_BYTES = TYPE.itemsize
type_at: Callable[[int], Record] = record(TYPE)
PACKED_WORDS = PACKED_BYTES // 8
packed_at: Callable[[int], Record] = record(PACKED)
#: A frame's header, before its registers.  ``base``, ``n_registers``: the caller's.  ``dst``: distance in bytes of the result's
#: register from the caller's first one.
HEADER = np.dtype([("return_pc", _WORD), ("base", _WORD), ("n_registers", _WORD), ("dst", _WORD)])
FRAME_WORDS = HEADER.itemsize // 8
header_at: Callable[[int], Record] = record(HEADER)
#: The begin of a kernel's preconditions.  ``check``: address of the check of its launches.  ``program``: address of the words of
#: the shape program, 0 without one.
DEMANDS = np.dtype([("check", _WORD), ("n_outputs", _WORD), ("n_equal", _WORD), ("program", _WORD), ("n_tensors", _WORD)])
demands_at: Callable[[int], Record] = record(DEMANDS)

# Reasons for which the loop returns; and further requests to Python: the error of a machine that is not free, of arguments
# without memory, of a missing result.
DONE, FAILED, HOST_CALL, OUT_OF_FUEL, BUSY, ARGUMENTS, NO_RESULT = range(7)
#: Users of a machine.
FREE, RUNNING, CLOSED = range(3)

#: Trace levels: nothing, events, events with the types of arguments of kernels and shape functions.
TRACE_OFF, TRACE_EVENTS, TRACE_TYPES = range(3)
#: An event of the trace.  ``words``: words in all.  ``subject``: packed, reason, shape function or device number.  ``start``,
#: ``end``: in ns.  ``asked_start``, ``asked_end``: start and end of its enqueueing by the host.  ``live_bytes``: bytes in use
#: after it.  Then for each argument, if traced: dtype, number of axes, sizes.
EVENT = np.dtype(
    [
        ("words", _WORD), ("kind", _WORD), ("pc", _WORD), ("subject", _WORD), ("start", _WORD), ("end", _WORD),
        ("nbytes", _WORD), ("asked_start", _WORD), ("asked_end", _WORD), ("live_bytes", _WORD),
    ]
)  # fmt: skip
EVENT_WORDS = EVENT.itemsize // 8
event_at: Callable[[int], Record] = record(EVENT)
#: The type of an argument in the trace, before its sizes.
EVENT_TYPE = np.dtype([("dtype", _WORD), ("ndim", _WORD)])
EVENT_TYPE_BYTES = EVENT_TYPE.itemsize
event_type_at: Callable[[int], Record] = record(EVENT_TYPE)
EVENT_KERNEL, EVENT_SHAPE_FUNC, EVENT_DTOH, EVENT_HTOD, EVENT_SYNC, EVENT_ALLOC, EVENT_HOST_CALL = range(7)

#: Byte that fills the sim device's memory, and the host's on request (see ``poison``), in blocks that no finished kernel has
#: written and in dead ones.
POISON = 0xA5
