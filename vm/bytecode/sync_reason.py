"""Reasons for host synchronisation: numbers in the trace and in the counters of the machine."""

from __future__ import annotations

import enum

from ...ops.core.copy_reason import CopyKind, CopyReason


class SyncReason(enum.Enum):
    """Reason for which the host waits for the device, other than a copy in the program (see CopyKind).

    ``key`` is the name of the reason in counters and files, ``meaning`` a sentence.
    """

    FETCH = "fetch", "the caller reads a result"
    PASSED_ON = "passed_on", "a result is passed to a parameter that is taken on the host"
    PYTHON_KERNEL = "python_kernel", "a kernel in Python reads and writes the device's memory"
    QUEUE_FULL = "queue_full", "as much work is queued as may be"
    MEMORY = "memory", "memory of work that has not run yet is needed"
    EACH_LAUNCH = "each_launch", "bulk=off or debug_sync=on: the machine waits after each launch"

    def __init__(self, key: str, meaning: str) -> None:
        self.key, self.meaning = key, meaning


#: Meaning of every reason by key, in the order of their numbers: first the kinds of copies, then the others.
SYNC_REASONS: dict[str, str] = {
    **{kind.key: kind.meaning for kind in CopyKind},
    **{reason.key: reason.meaning for reason in SyncReason},
}
_NUMBERS = {key: number for number, key in enumerate(SYNC_REASONS)}


def number_of(reason: SyncReason | CopyReason) -> int:
    """The number of a reason in the trace and in the counters."""
    return _NUMBERS[reason.key if isinstance(reason, SyncReason) else reason.kind.key]
