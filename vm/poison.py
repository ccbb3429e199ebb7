"""Dead bytes, as machine code: a machine that poisons them gives wrong answers where somebody reads them.

Storages that are given back are filled (``heap``).  Here it is about those that stay because they are used again: each knows the
tensors that lie in it, linked through words of their payload, and what only a dead one covered is filled, too.
"""

from __future__ import annotations

from ..ops.native.memory import fill_bytes, native, tensor
from .device_queue import queue_poison
from .layout import CPU, POISON, SIM, state_at

#: The environment variable that has machines do so.
VARIABLE = "RELAYVM_POISON"
#: Words of a tensor's payload: the next and the last tensor in its storage (0: none), and how many bytes it covers at most.  The
#: first word of a storage's payload is its first tensor.
NEXT, PREVIOUS, NBYTES = range(3)


@native
def remember(at, nbytes):
    """A tensor lies in its storage from now on."""
    t = tensor(at)
    storage = tensor(t.storage)
    following = storage.payload[NEXT]
    t.payload[NEXT] = following
    t.payload[PREVIOUS] = 0
    t.payload[NBYTES] = nbytes
    if following != 0:
        tensor(following).payload[PREVIOUS] = at
    storage.payload[NEXT] = at


@native
def forget(state, at):
    """A tensor is dead: what no other one covers is poisoned, unless its storage goes with it."""
    t = tensor(at)
    storage = tensor(t.storage)
    following, before = t.payload[NEXT], t.payload[PREVIOUS]
    if before != 0:
        tensor(before).payload[NEXT] = following
    else:
        storage.payload[NEXT] = following
    if following != 0:
        tensor(following).payload[PREVIOUS] = before
    if storage.refcount > 1:
        spoil_uncovered(state, t.storage, t.data, t.data + t.payload[NBYTES])


@native
def spoil_uncovered(state, storage, low, high):
    """Poison what lies from ``low`` to ``high`` and in no tensor of the storage."""
    at = low
    while at < high:
        end, covered = high, at
        other = tensor(storage).payload[NEXT]
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
            spoil(state, tensor(storage).device, at, end - at)
            at = end


@native
def spoil(state, device, data, nbytes):
    """Fill bytes that nobody may read any more: on ``sim`` when the work before, which may, has run."""
    if device == CPU and state_at(state).poison != 0:
        fill_bytes(data, POISON, nbytes)
    elif device == SIM:
        queue_poison(state, data, nbytes)
