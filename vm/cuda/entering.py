"""A thread comes to a card and goes, as machine code: it gets back what it came with."""

from __future__ import annotations

from ...ops.native.memory import load_i64, native, store_i64
from ...ops.native.status import OK
from .calls import CTX_GET_CURRENT, CTX_SET_CURRENT, EXCHANGE_CAPTURE_MODE, checked, drive_1
from .layout import card_at

#: How much a thread minds captures of streams: not at all.
_RELAXED = 2


@native
def enter(card):
    """Make the card's context this thread's, and let no capture of another library be spoilt by what is done here; a status.

    The thread may have another card's context, and captures may be under way, the thread's own too: a call that could conflict
    with a capture is refused, and ends it, unless the thread says that it knows.  Nothing here touches what is captured.
    """
    c = card_at(card)
    c.entered += 1
    if c.entered > 1:
        return OK
    c.caller_context = load_i64(c.out) if drive_1(card, CTX_GET_CURRENT, c.out) == 0 else 0
    status = OK
    if c.caller_context != c.context:
        status = checked(card, drive_1(card, CTX_SET_CURRENT, c.context)) + 0
    store_i64(c.out, _RELAXED)
    c.caller_mode = load_i64(c.out) & 0xFFFFFFFF if drive_1(card, EXCHANGE_CAPTURE_MODE, c.out) == 0 else 0
    return status


@native
def leave(card):
    """Give the thread back what it came with."""
    c = card_at(card)
    c.entered -= 1
    if c.entered > 0:
        return
    store_i64(c.out, c.caller_mode)
    drive_1(card, EXCHANGE_CAPTURE_MODE, c.out)
    if c.caller_context != c.context:
        drive_1(card, CTX_SET_CURRENT, c.caller_context)
