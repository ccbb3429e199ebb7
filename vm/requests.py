"""The machine's one entry point, as machine code: run, and the few services that Python needs on objects."""

from __future__ import annotations

from ..ops.native.memory import native
from ..ops.native.status import INTERNAL
from .heap import new_object, release, trim, view
from .loop import run_loop, unwind
from .stream import device_to_host, drain, host_to_device

#: What may be asked for.
RUN, RELEASE, UNWIND, TRIM, NEW_OBJECT, TO_HOST, TO_DEVICE, DRAIN, VIEW = range(9)


@native
def machine(state, request, a, b):
    """Do what is asked; what comes back depends on it.

    RUN: the reason.  RELEASE(object).  UNWIND().  TRIM(): bytes given back.  NEW_OBJECT(tag): its address.
    TO_HOST(tensor): address of a copy, counted.  TO_DEVICE(tensor, device): likewise.  DRAIN(): a status.
    """
    if request == RUN:
        return run_loop(state)
    if request == RELEASE:
        release(state, a)
        return 0
    if request == UNWIND:
        unwind(state)
        return 0
    if request == TRIM:
        return trim(state)
    if request == NEW_OBJECT:
        return new_object(state, a)
    if request == TO_HOST:
        return device_to_host(state, a, -1, b)
    if request == TO_DEVICE:
        return host_to_device(state, a, b, -1, -1, False)
    if request == DRAIN:
        return drain(state) + 0
    if request == VIEW:
        return view(state, a, b)
    return INTERNAL
