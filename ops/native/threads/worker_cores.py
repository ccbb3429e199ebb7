"""The cores of a worker: all that its thread may use, without the core of the thread that it works for.

The system often wakes a worker on the core of the thread that woke it, which computes there: both then share a core while
another is idle.  A worker that finds itself there leaves this core for good, and another when the asking thread moves.

A worker changes its own affinity only, and only while nobody else does: the mask of a worker that was changed from outside is the
mask of all its cores from then on.
"""

from __future__ import annotations

import sys

from ..c_functions import by_name
from ..memory import alloc, copy_bytes, fill_bytes, free, load_i64, load_u8, native, store_u8

#: Whether threads have masks of cores here.
HAS_MASKS = sys.platform == "linux"
#: Bytes of glibc's cpu_set_t: 1,024 cores.
MASK_BYTES = 128
#: Bytes of the state of a worker: its cores, and the mask that it has set last.
STATE_BYTES = 2 * MASK_BYTES

current_core = by_name("sched_getcpu", 0)
_get_affinity, _set_affinity = by_name("sched_getaffinity", 3), by_name("sched_setaffinity", 3)


@native
def leave_core(state: int, core: int) -> None:
    """Move this thread to its cores without ``core``, if it has others.

    ``state``: STATE_BYTES that only this thread uses, zeros at first.
    """
    mask = alloc(MASK_BYTES)
    if mask == 0:
        return
    fill_bytes(mask, 0, MASK_BYTES)
    _get_affinity(0, MASK_BYTES, mask)
    if not is_equal(mask, state + MASK_BYTES):
        copy_bytes(state, mask, MASK_BYTES)
    copy_bytes(mask, state, MASK_BYTES)
    if core < 8 * MASK_BYTES:
        byte = mask + (core >> 3)
        store_u8(byte, load_u8(byte) & ~(1 << (core & 7)) & 255)
    if _set_affinity(0, MASK_BYTES, mask) & 0xFFFFFFFF == 0:  # an empty mask is refused
        copy_bytes(state + MASK_BYTES, mask, MASK_BYTES)
    free(mask)


@native
def is_equal(mask: int, other: int) -> bool:
    """Whether two masks have the same cores."""
    different = 0
    for at in range(0, MASK_BYTES, 8):
        different |= load_i64(mask + at) ^ load_i64(other + at)
    return different == 0
