"""Variables of a native function: one type at each point of the program, and slots on the stack for each type."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from llvmlite import ir

from .values.machine_types import Tuple, Type, Value, items, joined_type, llvm_parts, tuple_of
from .values.scalars import Outside, cast

#: The types of the variables at a point of the program.
Types = dict[str, Type]


def convert(b: Any, value: Value, to: Type) -> Value:
    """Convert a number, or each item of a tuple."""
    if value.type == to or not isinstance(to, Tuple):
        return cast(b, value, to)
    given = [convert(b, item, kind) for item, kind in zip(items(value), to.items, strict=True)]
    return tuple_of(given, to.names, to.is_list)


class Kept(NamedTuple):
    """The parts of a variable that code which comes later on the same way needs not load; None for a part in its slot.

    ``is_whole``: whether none is; ``is_stored``: whether the slots have all.
    """

    parts: tuple[Any, ...]
    is_whole: bool
    is_stored: bool


class Variables:
    """The variables of a function: values that were assigned on the way to a point, else slots, allocated in the entry block.

    A value is stored where ways meet on which a variable has other values, at the head of a loop that assigns it, and at the end
    of its body.  Lists are in their slots at all times, for functions that are called may assign their items.
    """

    def __init__(self, allocate: Any) -> None:
        self.allocate = allocate  # the builder of the entry block
        self.types: Types = {}
        self.kept: dict[str, Kept] = {}
        self._slots: dict[tuple[str, Type], list[Any]] = {}
        #: The parts of lists that were assigned in a block, and the block: later code of the block needs no load.
        self._here: dict[str, tuple[Any, list[Any]]] = {}
        #: Lists of the caller.
        self._lent: set[str] = set()
        self._last: dict[str, tuple[Type, list[Any]]] = {}  # found without the hash of a type

    def _slots_of(self, name: str, kind: Type) -> list[Any]:
        """The slots of the parts; None for those that are not allocated yet."""
        last, slots = self._last.get(name, (None, []))
        if last is not kind:
            slots = self._slots.setdefault((name, kind), [None] * len(llvm_parts(kind)))
            self._last[name] = kind, slots
        return slots

    def _allocated(self, name: str, kind: Type, start: int, end: int) -> list[Any]:
        """The slots of some of the parts."""
        slots = self._slots_of(name, kind)
        wanted = slots[start:end]
        if None in wanted:
            for at in range(start, end):
                if slots[at] is None:
                    slots[at] = self.allocate.alloca(kind.parts[at])
            wanted = slots[start:end]
        return wanted

    def lend(self, name: str) -> list[Any]:
        """The places of the items of a list, for a function that may assign them."""
        self._here.pop(name, None)
        kind = self.types[name]
        return self._allocated(name, kind, 0, len(llvm_parts(kind)))

    def borrow(self, name: str, kind: Tuple, positions: list[Any]) -> None:
        """Let a variable be a list of the caller."""
        self.types[name] = kind
        self._slots[name, kind], self._last[name] = positions, (kind, positions)
        self._lent.add(name)

    def get(self, b: Any, name: str) -> Value:
        """The value of a variable that has one."""
        kind = self.types[name]
        return Value(kind, self._parts(b, name, kind, 0, len(kind.parts)))

    def _parts(self, b: Any, name: str, kind: Type, start: int, end: int) -> tuple[Any, ...]:
        """Some parts of the value of a variable."""
        kept = self.kept.get(name)
        if kept is not None:
            parts = kept.parts[start:end]
            if kept.is_whole:
                return parts
            return tuple(
                b.load(*self._allocated(name, kind, at, at + 1)) if part is None else part for at, part in enumerate(parts, start)
            )
        block, here = self._here.get(name, (None, []))
        if block is b.block:
            return tuple(here[start:end])
        return tuple([b.load(slot) for slot in self._allocated(name, kind, start, end)])

    def set(self, b: Any, name: str, value: Value) -> None:
        """Assign a value; the variable has its type from here on."""
        if name in self._lent:
            raise Outside(f"a new value or other types for {name}, a list of the caller")
        kind, parts = value
        self.types[name] = kind
        self.forget(name)
        # a constant is read from its slot: that a variable has one is no property of the program
        if not parts:
            return
        constants = [at for at, part in enumerate(parts) if isinstance(part, ir.Constant)]
        is_list = isinstance(kind, Tuple) and kind.is_list
        for at in range(len(parts)) if is_list else constants:
            b.store(parts[at], *self._allocated(name, kind, at, at + 1))
        if is_list and not constants:
            self._here[name] = b.block, list(parts)
        elif not is_list and len(constants) < len(parts):
            mine = tuple([None if at in constants else part for at, part in enumerate(parts)]) if constants else parts
            self.kept[name] = Kept(mine, not constants, False)

    def forget(self, name: str) -> None:
        """Know the value of a variable no longer."""
        self.kept.pop(name, None)
        self._here.pop(name, None)

    def settle(self, b: Any, names: Iterable[str]) -> None:
        """Let the slots of variables have their values."""
        for name in names:
            kept = self.kept.get(name)
            if kept is not None and not kept.is_stored:
                for at, part in enumerate(kept.parts):
                    if part is not None:
                        b.store(part, *self._allocated(name, self.types[name], at, at + 1))
                self.kept[name] = kept._replace(is_stored=True)

    def get_item(self, b: Any, name: str, at: int) -> Value:
        """An item of a variable that is a tuple."""
        whole = self.types[name]
        kind, start, end = _item(whole, at)
        return Value(kind, self._parts(b, name, whole, start, end) if end > start else ())

    def set_item(self, b: Any, name: str, at: int, value: Value) -> None:
        """Assign an item of a variable that is a list; the item may get another type."""
        whole = self.types[name]
        kind, start, end = _item(whole, at)
        if kind == value.type:
            for part, slot in zip(value.parts, self._allocated(name, whole, start, end), strict=True):
                b.store(part, slot)
            block, parts = self._here.get(name, (None, []))
            if block is b.block and not any(isinstance(part, ir.Constant) for part in value.parts):
                parts[start:end] = value.parts
            else:
                self._here.pop(name, None)
        else:
            assert isinstance(whole, Tuple)
            each = items(self.get(b, name))
            self.set(b, name, tuple_of([*each[:at], value, *each[at + 1 :]], whole.names, whole.is_list))

    def retype(self, b: Any, types: Types) -> None:
        """Convert the variables to the types that they have after a join; other variables are no longer usable."""
        for name, kind in types.items():
            if name in self.types and self.types[name] != kind:
                self.set(b, name, convert(b, self.get(b, name), kind))
        self.types = dict(types)
        self.kept = {name: kept for name, kept in self.kept.items() if name in types}

    def edge(self, block: ir.Block) -> Edge:
        """The end of the way so far."""
        return Edge(block, self.types, self.kept)

    def follow(self, way: Edge) -> None:
        """Continue a way."""
        self.types, self.kept = dict(way.types), dict(way.kept)


def _item(whole: Type, at: int) -> tuple[Type, int, int]:
    """The type of an item of a tuple, and its parts."""
    assert isinstance(whole, Tuple)
    start = whole.starts[at]
    return whole.items[at], start, start + len(llvm_parts(whole.items[at]))


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


class Edge(NamedTuple):
    """The end of a way to a join: its last block, still without a branch, and the variables there."""

    block: ir.Block
    types: Types
    kept: dict[str, Kept]


def unusable(name: str) -> Outside:
    """The error of a variable without a value."""
    return Outside(f"the variable {name} has no value here")
