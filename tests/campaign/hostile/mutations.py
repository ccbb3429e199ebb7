"""Changes of a file: of its bytes or its decoded contents, so that checks read most changes."""

from __future__ import annotations

import random
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

from relayvm.ops.core.tensor_types import DTYPES
from relayvm.vm.bytecode import isa

from .files import CHECKSUM, HEAD, Sections, resealed

WORDS = (0, 1, 2, 3, 4, 7, 8, 9, 16, 63, 64, 1024, 1025, -1, -2, 1 << 16, 1 << 31, (1 << 31) - 1, 1 << 32, 1 << 46, 1 << 62,
         (1 << 63) - 1, -(1 << 63), 1 << 48)  # fmt: skip
_LEAVES = (
    None, True, False, 0, 1, -1, 2, 3, 8, 9, 1 << 31, 1 << 62, (1 << 63) - 1, 1 << 63, 10**30, 0.5, -1.5, 1e308, float("nan"),
    float("inf"), "", "d0", "d1", "d7", "?", "?n", "float32", "int64", "bool", "float64", "cpu", "exp", "add", "sum",
    "concatenate", "nn.dense", "take", "blas", "radix", "\x1b[31m", "\n", "'); import os #", "é\u2028", [], {}, [[]], [0],
    [1, 1], [0, 1], [-1], [1 << 40],
)  # fmt: skip

#: Where a mutation failed because there was nothing to change.
Nothing = (IndexError, KeyError, TypeError, ValueError, AttributeError, OverflowError)


# ---- code ----------------------------------------------------------------------------------------------------------


def _place(p: Sections, r: random.Random) -> int:
    # where there is most, most is changed
    return r.choices(range(len(p.code)), [len(c) for c in p.code])[0]


def word(p: Sections, r: random.Random) -> None:
    """Another word in the code."""
    f = _place(p, r)
    at = r.randrange(len(p.code[f]))
    if r.randrange(3):
        return operand(p, r)
    p.code[f][at] = r.choice([r.choice(WORDS), r.randrange(40), p.code[f][at] + r.choice([-1, 1]), r.choice(p.code[f])])


def operand(p: Sections, r: random.Random) -> None:
    """Another operand of an instruction: mostly one that there is."""
    f = _place(p, r)
    items = p.instructions(f)
    at = r.choice([i for i, item in enumerate(items) if isinstance(item, isa.Instruction) and item.operands])
    items[at] = _other(p, f, items[at], items, r)  # type: ignore[arg-type]
    p.put(f, items)


def _other(p: Sections, f: int, i: isa.Instruction, items: list[Any], r: random.Random) -> isa.Instruction:
    name = r.choice(list(i.operands))
    kind, value = i.operands[name], getattr(i, name)
    if not kind.many:
        return replace(i, **{name: _drawn(p, f, kind, items, r)})  # type: ignore[type-var]
    values = list(value)
    how = r.randrange(4)
    if how == 0 or not values:
        values.insert(r.randint(0, len(values)), _drawn(p, f, kind, items, r))
    elif how == 1:
        values.pop(r.randrange(len(values)))
    elif how == 2 and len(values) > 1:
        a, b = r.sample(range(len(values)), 2)
        values[a], values[b] = values[b], values[a]
    else:
        values[r.randrange(len(values))] = _drawn(p, f, kind, items, r)
    return replace(i, **{name: tuple(values)})  # type: ignore[type-var]


def _drawn(p: Sections, f: int, kind: isa.Kind, items: list[Any], r: random.Random) -> Any:
    """A word for an operand of this kind."""
    sizes = {
        "register": p.header["functions"][f]["registers"],
        "function": len(p.code),
        "packed": len(p.header["packed"]),
        "shape_func": len(p.header["shape_funcs"]),
        "const": len(p.header["constants"]),
        "reason": len(p.header["reasons"]),
        "dtype": len(DTYPES),
        "device": 2,
    }
    if kind.table == "code":
        return r.choice([i for i in items if isinstance(i, isa.Label)])
    if kind.table == "register" and r.random() < 0.8:
        # one that the function uses for the same kind of thing, and so perhaps here
        same = [
            v
            for item in items
            if isinstance(item, isa.Instruction)
            for name, other in item.operands.items()
            if other.table == "register" and other.holds == kind.holds
            for v in (getattr(item, name) if other.many else (getattr(item, name),))
        ]
        if same:
            return r.choice(same)
    if kind.table == "device":
        return r.choice([0, 0, *(i.device for i in items if hasattr(i, "device"))])
    if kind.table in sizes and r.random() < 0.98:
        return r.randrange(max(1, sizes[kind.table]))
    return r.choice([r.choice(WORDS), r.randrange(20), 4 * r.randrange(20), 64])


def instruction(p: Sections, r: random.Random) -> None:
    """An instruction more, less, elsewhere, twice, or of another kind."""
    f = _place(p, r)
    items = p.instructions(f)
    positions = [i for i, item in enumerate(items) if isinstance(item, isa.Instruction)]
    at, to, how = r.choice(positions), r.choice(positions), r.randrange(5)
    if how == 0:
        del items[at]
    elif how == 1:
        items.insert(to, items[at])
    elif how == 2:
        items[at], items[to] = items[to], items[at]
    else:
        cls = r.choice(list(isa.INSTRUCTIONS.values()))
        values = {
            name: tuple(_drawn(p, f, kind, items, r) for _ in range(r.randrange(4)))
            if kind.many
            else _drawn(p, f, kind, items, r)
            for name, kind in cls.operands.items()
        }
        made = cls(**values)
        if how == 3:
            items.insert(at, made)
        else:
            items[at] = made
    p.put(f, items)


# ---- tables --------------------------------------------------------------------------------------------------------


def _paths(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    out = [path] if path else []
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in pairs:
        out += _paths(value, (*path, key))
    return out


def _change(tree: Any, r: random.Random) -> None:
    """Another leaf or branch somewhere in plain data."""
    *path, last = r.choice(_paths(tree))
    for key in path:
        tree = tree[key]
    how = r.randrange(8)
    if how == 0:
        del tree[last]
    elif how == 1 and isinstance(tree, list):
        tree.insert(last, deepcopy(tree[r.randrange(len(tree))]))  # a copy: a later change alters one place
    elif how == 2 and isinstance(tree, list) and len(tree) > 1:
        other = r.randrange(len(tree))
        tree[last], tree[other] = tree[other], tree[last]
    elif how == 3 and isinstance(tree[last], (int, float)):
        tree[last] = tree[last] + r.choice([-1, 1, 2, 64])
    elif how == 4 and isinstance(tree[last], int):
        tree[last] = r.choice(WORDS)
    else:
        tree[last] = deepcopy(r.choice(_LEAVES))


def _in_table(name: str) -> Callable[[Sections, random.Random], None]:
    def change(p: Sections, r: random.Random) -> None:
        _change(p.header[name], r)

    change.__name__ = name
    return change


def anywhere(p: Sections, r: random.Random) -> None:
    """Another leaf in the header."""
    _change(p.header, r)


def signature(p: Sections, r: random.Random) -> None:
    """Another type, number of registers or device of a function."""
    f = r.choice(p.header["functions"])
    name = r.choice(["params", "result", "registers", "devices"])
    if isinstance(f[name], list) and f[name]:
        _change(f[name], r)
    else:
        f[name] = deepcopy(r.choice(_LEAVES))


def shape_program(p: Sections, r: random.Random) -> None:
    """Another number in a shape program."""
    _, program = r.choice(p.header["shape_funcs"])
    rows = r.choice([program["loads"], program["rows"], program["outputs"], program["checks"]])
    row = r.choice(rows)
    at = r.randrange(len(row))
    row[at] = r.choice([r.randrange(12), r.choice(WORDS)]) if type(row[at]) is int else row[at]


def elements(p: Sections, r: random.Random) -> None:
    """Other elements of a constant, or another shape for them."""
    if r.randrange(3):
        at = r.randrange(len(p.constants))
        p.constants = p.constants[:at] + r.randbytes(r.choice([1, 4, 8])) + p.constants[at:]
        p.constants = p.constants[: max(0, len(p.constants) - r.choice([0, 1, 4, 8]))]
    else:
        shape = r.choice(p.header["constants"])[1]
        a, b = r.randrange(len(shape)), r.randrange(len(shape))
        shape[a], shape[b] = shape[b], shape[a]


def two_shapes(p: Sections, r: random.Random) -> None:
    """A static tensor in a place that is too small, too large, or another's."""
    f = _place(p, r)
    items = p.instructions(f)
    at = r.choice([i for i, item in enumerate(items) if isinstance(item, isa.AllocTensor | isa.AllocStorage)])
    i = items[at]
    if isinstance(i, isa.AllocStorage):
        items[at] = replace(i, nbytes=r.choice([0, 1, 64, 4096, i.nbytes // 2, i.nbytes + 4]))
    elif i.dims:
        dims = list(i.dims)
        dims[r.randrange(len(dims))] = r.choice([0, 1, 2, 3, 5, 1 << 20, 1 << 62])
        items[at] = replace(i, dims=tuple(dims), offset=r.choice([i.offset, 4, 64]))
    p.put(f, items)


CODE = (word, operand, operand, operand, instruction, instruction, two_shapes)
TABLES = (_in_table("packed"), _in_table("shape_funcs"), _in_table("constants"), shape_program, elements, signature, anywhere)


def mutated(data: bytes, seed: int) -> bytes:
    """The file with one to four changes; one in twelve has other bytes instead."""
    r = random.Random(seed)
    if r.randrange(12) == 0:
        return _other_bytes(data, r)
    p = Sections.of(data).copy()
    if r.randrange(4):
        for row in p.header["functions"]:
            # notes and places in the source would be of other instructions
            row["spans"], row["notes"] = [], []
    kinds: tuple[Any, ...] = CODE if r.randrange(3) else TABLES
    for _ in range(r.choice([1, 1, 1, 2, 3])):
        try:
            r.choice(kinds)(p, r)
        except Nothing:
            continue
    try:
        return p.file()
    except Exception:
        return data


def _other_bytes(data: bytes, r: random.Random) -> bytes:
    body = bytearray(data[:-CHECKSUM])
    for _ in range(r.choice([1, 1, 2, 8])):
        at = r.randrange(HEAD.size, len(body)) if r.randrange(10) else r.randrange(len(body))
        how = r.randrange(3)
        if how == 0:
            body[at] = r.randrange(256)
        elif how == 1:
            body[at] ^= 1 << r.randrange(8)
        else:
            del body[at : at + r.choice([1, 8])]
    return resealed(bytes(body))
