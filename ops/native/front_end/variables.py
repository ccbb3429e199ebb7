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
    return tuple_of([convert(b, item, kind) for item, kind in zip(items(value), to.items, strict=True)])


class Variables:
    """The slots of the variables of a function, allocated in its entry block; LLVM turns them into registers."""

    def __init__(self, allocate: Any) -> None:
        self.allocate = allocate  # the builder of the entry block
        self.types: Types = {}
        self._slots: dict[tuple[str, Type], list[Any]] = {}

    def _slot(self, name: str, kind: Type) -> list[Any]:
        if (name, kind) not in self._slots:
            self._slots[name, kind] = [self.allocate.alloca(part) for part in llvm_parts(kind)]
        return self._slots[name, kind]

    def get(self, b: Any, name: str) -> Value:
        """The value of a variable that has one."""
        kind = self.types[name]
        return Value(kind, tuple(b.load(slot) for slot in self._slot(name, kind)))

    def set(self, b: Any, name: str, value: Value) -> None:
        """Assign a value; the variable has its type from here on."""
        self.types[name] = value.type
        for part, slot in zip(value.parts, self._slot(name, value.type), strict=True):
            b.store(part, slot)

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
