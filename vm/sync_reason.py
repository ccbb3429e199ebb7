"""Why the host waited for a device: a number in the trace and in the counters of the machine, with one meaning each."""

from __future__ import annotations

import enum

from .copy_reason import CopyKind, CopyReason


class SyncReason(enum.Enum):
    """What the host waits for, besides the value of a copy that the program has (see CopyKind).

    ``key`` is its name in counters and files, ``meaning`` a sentence.
    """

    FETCH = "fetch", "the caller reads a result"
    PASSED_ON = "passed_on", "a result is passed to a parameter that is taken on the host"
    PYTHON_KERNEL = "python_kernel", "a kernel in Python reads and writes the device's memory"
    QUEUE_FULL = "queue_full", "as much work is queued as may be"
    MEMORY = "memory", "memory of work that has not run yet is needed"
    EACH_LAUNCH = "each_launch", "bulk=off or debug_sync=on: the machine waits after each launch"

    def __init__(self, key: str, meaning: str) -> None:
        self.key, self.meaning = key, meaning


#: Every reason's key with its meaning, in the order of their numbers: the kinds of copies, then the others.
SYNC_REASONS: dict[str, str] = {
    **{kind.key: kind.meaning for kind in CopyKind},
    **{reason.key: reason.meaning for reason in SyncReason},
}
_NUMBERS = {key: number for number, key in enumerate(SYNC_REASONS)}


def number_of(reason: SyncReason | CopyReason) -> int:
    """The number of a reason, as the trace and the counters have it."""
    return _NUMBERS[reason.key if isinstance(reason, SyncReason) else reason.kind.key]
