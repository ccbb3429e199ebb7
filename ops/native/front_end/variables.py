"""Variables of a native function: a slot on the stack for each type of a variable, and one type at each point of the program."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from .machine_types import Tuple, Type, Value, items, joined_type, llvm_parts, tuple_of
from .scalars import Outside, cast

#: The types of the variables at a point of the program.
Types = dict[str, Type]


def convert(b: Any, value: Value, to: Type) -> Value:
    """Convert a number, or each item of a tuple."""
    if value.type == to or not isinstance(to, Tuple):
        return cast(b, value, to)
    given = [convert(b, item, kind) for item, kind in zip(items(value), to.items, strict=True)]
    return tuple_of(given, to.names, to.is_list)


class Variables:
    """The slots of the variables of a function, allocated in its entry block; LLVM turns them into registers."""

    def __init__(self, allocate: Any) -> None:
        self.allocate = allocate  # the builder of the entry block
        self.types: Types = {}
        self._slots: dict[tuple[str, Type], list[Any]] = {}
        #: The parts of variables that were assigned in a block, and the block: later code of the block needs no load.
        self._here: dict[str, tuple[Any, list[Any]]] = {}
        #: Lists of the caller.
        self._lent: set[str] = set()
        self._last: dict[str, tuple[Type, list[Any]]] = {}  # found without the hash of a type

    def _slot(self, name: str, kind: Type) -> list[Any]:
        last, slots = self._last.get(name, (None, []))
        if last is not kind:
            found = self._slots.get((name, kind))
            slots = [self.allocate.alloca(part) for part in llvm_parts(kind)] if found is None else found
            self._slots[name, kind], self._last[name] = slots, (kind, slots)
        return slots

    def lend(self, name: str) -> list[Any]:
        """The places of the items of a list, for a function that may assign them."""
        self._here.pop(name, None)
        return self._slot(name, self.types[name])

    def borrow(self, name: str, kind: Tuple, positions: list[Any]) -> None:
        """Let a variable be a list of the caller."""
        self.types[name] = kind
        self._slots[name, kind], self._last[name] = positions, (kind, positions)
        self._lent.add(name)

    def get(self, b: Any, name: str) -> Value:
        """The value of a variable that has one."""
        kind = self.types[name]
        block, parts = self._here.get(name, (None, ()))
        if block is not b.block or len(parts) != len(self._slot(name, kind)):
            parts = [b.load(slot) for slot in self._slot(name, kind)]
        return Value(kind, tuple(parts))

    def set(self, b: Any, name: str, value: Value) -> None:
        """Assign a value; the variable has its type from here on."""
        if name in self._lent:
            raise Outside(f"a new value or other types for {name}, a list of the caller")
        self.types[name] = value.type
        for part, slot in zip(value.parts, self._slot(name, value.type), strict=True):
            b.store(part, slot)
        # a constant is read from its slot: that a variable has one is no property of the program
        self._here.pop(name, None)
        if not any(isinstance(part, ir.Constant) for part in value.parts):
            self._here[name] = b.block, list(value.parts)

    def get_item(self, b: Any, name: str, at: int) -> Value:
        """An item of a variable that is a tuple."""
        kind, first, slots = self._item(name, at)
        block, parts = self._here.get(name, (None, []))
        if block is b.block:
            return Value(kind, tuple(parts[first : first + len(slots)]))
        return Value(kind, tuple(b.load(slot) for slot in slots))

    def set_item(self, b: Any, name: str, at: int, value: Value) -> None:
        """Assign an item of a variable that is a list; the item may get another type."""
        whole, (kind, first, slots) = self.types[name], self._item(name, at)
        if kind == value.type:
            for part, slot in zip(value.parts, slots, strict=True):
                b.store(part, slot)
            block, parts = self._here.get(name, (None, []))
            if block is b.block and not any(isinstance(part, ir.Constant) for part in value.parts):
                parts[first : first + len(slots)] = value.parts
            else:
                self._here.pop(name, None)
        else:
            assert isinstance(whole, Tuple)
            each = items(self.get(b, name))
            self.set(b, name, tuple_of([*each[:at], value, *each[at + 1 :]], whole.names, whole.is_list))

    def _item(self, name: str, at: int) -> tuple[Type, int, list[Any]]:
        """The type of an item, the number of its first part, and its slots."""
        whole = self.types[name]
        assert isinstance(whole, Tuple)
        first = sum(len(llvm_parts(kind)) for kind in whole.items[:at])
        kind = whole.items[at]
        return kind, first, self._slot(name, whole)[first : first + len(llvm_parts(kind))]

    def retype(self, b: Any, types: Types) -> None:
        """Convert the variables to the types that they have after a join; other variables are no longer usable."""
        for name, kind in types.items():
            if name in self.types and self.types[name] != kind:
                self.set(b, name, convert(b, self.get(b, name), kind))
        self.types = dict(types)


def joined(ways: list[Types]) -> Types:
    """The types of the variables after ways meet.

    A variable that only some ways assign has their type.  A variable without a common type cannot be used after the join.
    """
    out: Types = {}
    apart: set[str] = set()
    for types in ways:
        for name, kind in types.items():
            both = joined_type(out[name], kind) if name in out else kind
            if both is None:
                apart.add(name)
            else:
                out[name] = both
    return {name: kind for name, kind in out.items() if name not in apart}


class Edge:
    """The end of a way to a join: its last block, still without a branch, and the types there."""

    def __init__(self, block: ir.Block, types: Types) -> None:
        self.block, self.types = block, types


def unusable(name: str) -> Outside:
    """The error of a variable without a value."""
    return Outside(f"the variable {name} has no value here")
