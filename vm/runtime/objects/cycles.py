"""Collection of reference cycles, as machine code.

Reference counts free everything but cycles, and only a write to a reference (``isa.SetField``) makes a cycle.  Such a write
begins a search if the heap has doubled since the last one: a program without such writes is never searched, and a write costs a
constant time on average.  A search is right between any two instructions: registers, results and arguments in use are counted.

The search considers tuples, constructors and closures, in short records:

1. the references to a record from outside are its reference count less the fields that refer to it;
2. a record with references from outside is reachable, and so is every record behind it;
3. every other record is unreachable: its fields are emptied, which frees it.
"""

from __future__ import annotations

from ....ops.native.inlining import keep_out_of_line
from ....ops.native.memory import alloc, free, load_i64, native, store_i64, tensor
from ....ops.native.object_layout import TAG_ADT, TAG_CLOSURE
from ....ops.native.objects import adt_at
from ...state.state_layout import state_at
from .chunks import chunk_at, object_in
from .heap import release, retain

#: The least number of new objects between two searches.
LEAST_NEW = 4096
#: During a search, a record has the number of references from outside above its tag, or the mark of a reachable one.
_ONE, _TAG = 1 << 8, (1 << 8) - 1
_REACHABLE = 1 << 40


@native
def collect_cycles(state: int) -> int:
    """Free the unreachable records; their number, 0 without memory for the search too."""
    keep_out_of_line()
    n = list_records(state, 0)
    found = 0
    records = alloc(16 * n)
    if records != 0:
        list_records(state, records)
        count_outside(records, n)
        mark_reachable(records, n, records + 8 * n)
        found = keep_unreachable(records, n)
        free_cycles(state, records, found)
        free(records)
    s = state_at(state)
    s.search_at = s.live_objects + max(s.live_objects, LEAST_NEW)
    return found


@native
def is_record(at: int) -> bool:
    """Whether the object, if there is one, is a record."""
    if at == 0:
        return False
    tag: int = tensor(at).tag & _TAG
    return tag == TAG_ADT or tag == TAG_CLOSURE


@native
def list_records(state: int, to: int) -> int:
    """Store the addresses of all records at ``to`` (0: do not); their number."""
    n = 0
    chunk: int = state_at(state).object_chunks
    while chunk != 0:
        for i in range(chunk_at(chunk).used):
            at = object_in(chunk, i)
            if is_record(at):
                if to != 0:
                    store_i64(to + 8 * n, at)
                n += 1
        chunk = chunk_at(chunk).next
    return n


@native
def count_outside(records: int, n: int) -> None:
    """Note the number of references from outside in each record."""
    for i in range(n):
        o = tensor(load_i64(records + 8 * i))
        o.tag += _ONE * o.refcount
    for i in range(n):
        held = adt_at(load_i64(records + 8 * i))
        for k in range(held.n_fields):
            field = load_i64(held.fields + 8 * k)
            if is_record(field):
                tensor(field).tag -= _ONE


@native
def mark_reachable(records: int, n: int, stack: int) -> None:
    """Mark the records with references from outside and those behind them.  ``stack``: a block of ``n`` words."""
    for i in range(n):
        top = push_unmarked(load_i64(records + 8 * i), _ONE, stack, 0)
        while top > 0:
            top -= 1
            held = adt_at(load_i64(stack + 8 * top))
            for k in range(held.n_fields):
                field = load_i64(held.fields + 8 * k)
                if is_record(field):
                    top = push_unmarked(field, 0, stack, top)


@native
def push_unmarked(at: int, least: int, stack: int, top: int) -> int:
    """Mark and push a record without a mark, if the number above its tag is at least ``least``; the new top of the stack."""
    o = tensor(at)
    if o.tag < least or o.tag >= _REACHABLE:
        return top
    o.tag = (o.tag & _TAG) + _REACHABLE
    store_i64(stack + 8 * top, at)
    return top + 1


@native
def keep_unreachable(records: int, n: int) -> int:
    """Restore all tags, and keep the unreachable records only, each with a reference more; their number."""
    found = 0
    for i in range(n):
        at = load_i64(records + 8 * i)
        o = tensor(at)
        if o.tag < _REACHABLE:
            store_i64(records + 8 * found, retain(at))
            found += 1
        o.tag &= _TAG
    return found


@native
def free_cycles(state: int, records: int, n: int) -> None:
    """Empty the fields of records, then give up the last reference to each."""
    for i in range(n):
        held = adt_at(load_i64(records + 8 * i))
        for k in range(held.n_fields):
            field = load_i64(held.fields + 8 * k)
            store_i64(held.fields + 8 * k, 0)
            release(state, field)
    for i in range(n):
        release(state, load_i64(records + 8 * i))
