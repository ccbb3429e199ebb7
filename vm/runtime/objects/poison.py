"""Poisoning of dead bytes, as machine code: a read of dead memory then gives a wrong answer.

``heap`` fills freed storages.  This module handles storages that stay in use: each has a list of its live tensors, linked through
words of their payload, and bytes that only a dead tensor covered are filled, too.
"""

from __future__ import annotations

from ....ops.native.memory import fill_bytes, native, tensor
from ....ops.native.objects import storage_at
from ...device_table import CPU
from ...state.device_requests import END_USE, ask
from ...state.state_layout import POISON, state_at

#: Words of a tensor's payload: the next and the previous tensor in its storage (0: none), and the maximum number of bytes it
#: covers.
NEXT, PREVIOUS, NBYTES = range(3)


@native
def link_tensor(at: int, nbytes: int) -> None:
    """Add a tensor to its storage's list."""
    t = tensor(at)
    storage = storage_at(t.storage)
    following = storage.first_tensor
    t.payload[NEXT] = following
    t.payload[PREVIOUS] = 0
    t.payload[NBYTES] = nbytes
    if following != 0:
        tensor(following).payload[PREVIOUS] = at
    storage.first_tensor = at


@native
def unlink_tensor(state: int, at: int) -> None:
    """Remove a dead tensor from its storage's list, and poison bytes that no other tensor covers, unless the storage dies too."""
    t = tensor(at)
    storage = storage_at(t.storage)
    following, before = t.payload[NEXT], t.payload[PREVIOUS]
    if before != 0:
        tensor(before).payload[NEXT] = following
    else:
        storage.first_tensor = following
    if following != 0:
        tensor(following).payload[PREVIOUS] = before
    if storage.refcount > 1:
        poison_uncovered(state, t.storage, t.data, t.data + t.payload[NBYTES])


@native
def poison_uncovered(state: int, storage: int, low: int, high: int) -> None:
    """Poison the bytes from ``low`` to ``high`` that no tensor of the storage covers."""
    at = low
    while at < high:
        end, covered = high, at
        other = storage_at(storage).first_tensor
        while other != 0:
            o = tensor(other)
            start = o.data
            if start <= at:
                covered = max(covered, start + o.payload[NBYTES])
            else:
                end = min(end, start)
            other = o.payload[NEXT]
        if covered > at:
            at = covered
        else:
            poison_bytes(state, storage_at(storage).device, at, end - at)
            at = end


@native
def poison_bytes(state: int, device: int, data: int, nbytes: int) -> None:
    """Poison dead bytes; those of a device once the work enqueued so far has run, which may still read them."""
    if device != CPU:
        ask(state, END_USE, data, nbytes, 0, 0)
    elif state_at(state).poison != 0:
        fill_bytes(data, POISON, nbytes)
