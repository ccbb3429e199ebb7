"""Requests of the machine to its device: what the machine code asks, and what a device answers.

The machine calls ``handler(state, request, a, b, c, d)`` at the address ``state.device``, machine code of its own, which only
machines on that device compile.  A device fills a table of functions, one for each request that it does work for
(``vm.devices.request_table``).
"""

from __future__ import annotations

from ...ops.native.c_functions import call_6
from ...ops.native.memory import native
from .state_layout import state_at

#: The words of a request, besides the state and its number.
WORDS = ("a", "b", "c", "d")
#: Each request with its words and its answer.  A status is 0 or an error's (``ops.native.status``).
_MEANINGS = {
    "LAUNCH": "(packed, argv, number of tensors << 32 | of results, pc): a status",
    "ENTER": "this thread is about to use the device: a status",
    "LEAVE": "as often as ENTER",
    "ALLOC": "(pool, bytes): address of a block, 0: no memory; the pool is the device's number, or HOST_COPIES",
    "FREE": "(pool, address)",
    "END_USE": "(address, bytes, users): nobody refers to these bytes any more; the next ``users`` of the storage",
    "TO_DEVICE": "(to, from, bytes, row << 1 | lasts): copy from the host; a status.  ``row`` of the trace, -1: none; ``lasts``: "
    "the source does not change until the copy is made",
    "FETCH_BEGIN": "(pending): begin a copy to the host after earlier launches; a ticket, < 0: a negated status",
    "FETCH_WAIT": "(ticket): wait for the copy, and release the ticket; a status",
    "FETCH_END": "(pending): the copy was waited for; a status",
    "FETCH_DROP": "(ticket): release the ticket, for which nobody waits; a status",
    "COPY_ON_DEVICE": "(to, from, bytes): after earlier launches; a status",
    "SYNC": "wait for everything; a status",
    "FLUSH": "the host goes on with other work: hold nothing back; a status",
    "TRIM_BEGIN": "whether queued work may use free blocks, which must stay",
    "TRIM": "the machine has freed its free blocks",
    "TRACE": "begin a trace; all earlier work has run; a status",
    "CLOSE": "free all that the record owns; no other request follows",
}
#: The number of each request.
REQUESTS = {name: number for number, name in enumerate(_MEANINGS)}
(
    LAUNCH, ENTER, LEAVE, ALLOC, FREE, END_USE, TO_DEVICE, FETCH_BEGIN, FETCH_WAIT, FETCH_END, FETCH_DROP, COPY_ON_DEVICE,
    SYNC, FLUSH, TRIM_BEGIN, TRIM, TRACE, CLOSE,
) = REQUESTS.values()  # fmt: skip
#: A ticket that stands for all work.
ALL = 1 << 62


@native
def ask(state: int, request: int, a: int, b: int, c: int, d: int) -> int:
    """The answer of the machine's device to a request; the machine has a device besides the CPU."""
    return call_6(state_at(state).device, state, request, a, b, c, d)
