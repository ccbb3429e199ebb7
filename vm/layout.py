"""The machine's own records: one STATE block per virtual machine, and the rows of its tables."""

from __future__ import annotations

import numpy as np

from ..ops.native.memory import record

_WORD = np.int64

#: Size classes of storage: multiples of 64 bytes up to 1 KiB, then four to each doubling.
SMALL_CLASSES, FIRST_POWER = 16, 10
N_CLASSES = SMALL_CLASSES + 4 * 37
N_DEVICES = 2
#: Most arguments of one kernel, call, or tuple; and the words of ``argv``, which takes two such lists and a few more.
MAX_ARGS = 1024
ARGV_WORDS = 2 * MAX_ARGS + 8

COUNTERS = (
    "dtoh_copies", "dtoh_bytes", "htod_copies", "htod_bytes", "syncs", "launches", "instructions",
    "allocs", "alloc_bytes", "peak_bytes", "shape_func_calls", "host_calls",
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
        ("slots", _WORD),  # scratch of shape programs
        ("argv", _WORD),  # scratch of calls: arguments, results of shape functions, the library table
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
        ("free_storage", _WORD, (N_DEVICES * N_CLASSES,)),
        ("live_bytes", _WORD),
        ("pool_bytes", _WORD),
        ("limit_bytes", _WORD),
        ("live_objects", _WORD),
        # releases that came while the loop ran in another thread
        ("busy", _WORD),
        ("owner", _WORD),  # the thread that made the last call
        ("deferred", _WORD),
        ("deferred_words", _WORD),
        ("n_deferred", _WORD),
        # the queue of the sim device: variable-length entries
        ("queue", _WORD),
        ("queue_words", _WORD),
        ("staged_bytes", _WORD),  # held by queued copies until they run
        ("queue_used", _WORD),
        ("link_bytes_per_s", _WORD),  # 0: as fast as memory
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
#: A row of the packed table: kernel address (0: a kernel in Python), device, address of the argument check (``argument_row``).
PACKED_WORDS = 3
#: A frame's header, before its registers: where to return to, caller's base, caller's registers, where the result goes.
FRAME_WORDS = 4

# Why the loop returned.
DONE, FAILED, HOST_CALL, OUT_OF_FUEL, BUSY, ARGUMENTS = range(6)

#: How much is traced: nothing, events, events with the types of what kernels and shape functions were given.
TRACE_OFF, TRACE_EVENTS, TRACE_TYPES = range(3)
#: An event of the trace: words in all, kind, pc, subject (packed, reason, shape function or device number), start and end
#: in ns, bytes, when the host began and ended to ask for it, bytes in use after it.  Then for each argument, if traced:
#: dtype, number of axes, sizes.
EVENT_WORDS = 10
EVENT_KERNEL, EVENT_SHAPE_FUNC, EVENT_DTOH, EVENT_HTOD, EVENT_SYNC, EVENT_ALLOC, EVENT_HOST_CALL = range(7)

#: Byte that fills the sim device's memory wherever no finished kernel has written.
POISON = 0xA5
