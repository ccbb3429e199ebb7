"""Entries of keys and positions, which sorts on CUDA put in order, and the order of keys, in CUDA C.

The sorted items are *entries*: a key, which is an unsigned integer in the requested order, and the position in the row.  No two
entries of a row are equal, so every sorting algorithm gives the order of a stable sort.
"""

from __future__ import annotations

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import Dim
from ...codegen.cuda.assembly import Parameter, in_memory
from ...core.tensor_types import HALVES, ITEMSIZE, is_float


@frozen
class Elements:
    """The elements of the rows in memory.  An order without ``LAST`` may have them: a radix sort loads them faster.

    ``first``: the body of ``first(row)``, the address of a row's first element.  ``step``: the text of the distance to the next.
    ``put_value``: the body of ``put_value(row, at, value)`` if the elements themselves are results; then ``put_position``, the
    body of ``put_position(row, at, position)``, stores their positions, if they are wanted.
    """

    first: str
    step: str
    put_value: str = ""
    put_position: str = ""


@frozen
class Order:
    """The input and output of a sort.

    ``fields``: parameters of every kernel, which the bodies may read.  ``entry``: the body of ``entry(row, at)``, which
    returns ``make_entry(key_of(value), at)``, or ``LAST`` for an element that sorts after all others and has no position; then no
    other key has all bits set.  ``put``: the body of ``put(row, at, entry)``, called for the first ``kept`` of a row: the element
    at sorted index ``at`` has the position ``position_of(entry)``.
    """

    dtype: str
    is_ascend: bool
    fields: tuple[Parameter, ...]
    entry: str
    put: str
    rows: Dim
    length: Dim
    kept: Dim
    elements: Elements | None = None


def entry_bytes(dtype: str) -> int:
    """The size of an entry."""
    return 16 if ITEMSIZE[dtype] == 8 else 8


_NARROW = r"""
typedef uint32 Key;
typedef uint64 Entry;
#define LAST (~0ull)
DEVICE Entry make_entry(Key key, int64 at) { return uint64(key) << 32 | uint32(at); }
DEVICE int64 position_of(Entry entry) { return uint32(entry); }
DEVICE Key key_in(Entry entry) { return entry >> 32; }
DEVICE bool before(Entry a, Entry b) { return a < b; }
"""

_WIDE = r"""
typedef uint64 Key;
struct Entry { uint64 key, at; };
#define LAST (Entry{~0ull, ~0ull})
DEVICE Entry make_entry(Key key, int64 at) { return Entry{key, uint64(at)}; }
DEVICE int64 position_of(Entry entry) { return entry.at; }
DEVICE Key key_in(Entry entry) { return entry.key; }
DEVICE bool before(Entry a, Entry b) { return a.key < b.key || (a.key == b.key && a.at < b.at); }
"""


def keys(dtype: str, is_ascend: bool) -> str:
    """The text of entries and of ``key_of(value)``: keys are in the order of the values.  NaN is the largest value, all NaN
    are equal, and so are the two zeros.  The key of a narrow dtype is decided by as many of its top bits as the dtype has."""
    wide = ITEMSIZE[dtype] == 8
    top = "0x8000000000000000ull" if wide else "0x80000000u"
    unused = max(0, 32 - 8 * ITEMSIZE[dtype])
    lines = []
    if is_float(dtype):
        value = "to_float32(value)" if dtype in HALVES else "value"
        bits = f"Key(value.bits) << {unused}" if dtype in HALVES else "same_bits<Key>(number)"
        lines = [
            f"{'float64' if wide else 'float32'} number = {value};",
            "if (number != number) return FIRST_OR_LAST(~Key(0));",
            f"Key bits = number == 0 ? Key(0) : {bits};",
            f"bits = bits & {top} ? ~bits : bits | {top};",
        ]
    elif dtype.startswith("int"):
        lines = [f"Key bits = Key(value) << {unused} ^ {top};"]
    else:
        lines = [f"Key bits = Key(value) << {unused};"]
    body = "\n  ".join([*lines, "return FIRST_OR_LAST(bits);"])
    turn = "(key)" if is_ascend else "(Key(~(key)))"
    head = _WIDE if wide else _NARROW
    return f"{head}#define FIRST_OR_LAST(key) {turn}\nDEVICE Key key_of({dtype} value) {{\n  {body}\n}}\n"


def in_braces(body: str) -> str:
    """A kernel's body as a block, whose names may be those of an order's fields: these are parameters of the kernel."""
    return f"  {{\n{body.strip(chr(10))}\n  }}\n"


def members(order: Order) -> str:
    """The text of the struct ``Order``: the fields, and the bodies as functions."""
    bodies = {
        "Entry entry(int64 row, int64 at)": order.entry,
        "void put(int64 row, int64 at, Entry entry)": order.put,
    }
    if (elements := order.elements) is not None:
        bodies[f"const {in_memory(order.dtype)}* first(int64 row)"] = elements.first
        bodies["int64 step()"] = f"    return {elements.step};"
        if elements.put_value:
            bodies[f"void put_value(int64 row, int64 at, {order.dtype} value)"] = elements.put_value
        if elements.put_position:
            bodies["void put_position(int64 row, int64 at, int64 position)"] = elements.put_position
    fields = "".join(f"  {p.kind} {p.name};\n" for p in order.fields)
    functions = "".join(f"  DEVICE {head} const {{\n{body.strip(chr(10))}\n  }}\n" for head, body in bodies.items())
    return f"struct Order {{\n{fields}{functions}}};\n"
