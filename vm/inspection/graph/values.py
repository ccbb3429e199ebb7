"""Values in the registers of a function, and the nodes that make them: what an edge of the graph starts at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field


@dataclass(eq=False)
class Value:
    """An object of the machine at one place of the code.

    ``name``: of the program, or empty.  ``type``: as text.  ``nbytes``: of its elements; None: known at run time.  ``makers``:
    the numbers of the nodes that write it.  ``parts``: the values that it has its elements or fields from, where it has no maker.
    ``wholes``: the values that it is a view of.  ``sizes``: the values whose sizes decide its own.  ``constant``: the text of a
    constant, or empty.
    """

    name: str = ""
    type: str = ""
    nbytes: int | None = None
    makers: list[int] = field(default_factory=list)
    parts: tuple[Value, ...] = ()
    wholes: tuple[Value, ...] = ()
    sizes: tuple[Value, ...] = ()
    constant: str = ""

    def written_by(self, node: int) -> None:
        """Record that ``node`` writes this value: a kernel that writes a view writes a part of the whole, too."""
        waiting, seen = [self], set()
        while waiting:
            value = waiting.pop()
            if id(value) not in seen:
                seen.add(id(value))
                value.makers.append(node)
                waiting += value.wholes


#: The values that a register may have: several where paths meet.
Values = tuple[Value, ...]
Registers = dict[int, Values]


def joined(one: Registers | None, other: Registers | None) -> Registers | None:
    """The registers where two paths meet; None: no path."""
    if one is None or other is None:
        return dict(one) if one is not None else None if other is None else dict(other)
    return {r: unique((*values, *other[r])) for r, values in one.items() if r in other}


def unique(values: Iterable[Value]) -> Values:
    """The values, each once."""
    return tuple({id(v): v for v in values}.values())


@dataclass(frozen=True)
class Read:
    """A value that a node reads, made by ``maker``, or a constant (-1).  ``sizes_only``: whether its elements are not read."""

    maker: int
    value: Value
    sizes_only: bool


def reads(values: Iterable[Value], sizes_only: bool = False) -> Iterator[Read]:
    """The reads of a node that reads these values, with the values that decide their sizes."""
    waiting: list[tuple[Value, bool]] = [(v, sizes_only) for v in values][::-1]
    seen: set[tuple[int, bool]] = set()
    while waiting:
        value, only = waiting.pop()
        if (id(value), only) in seen:
            continue
        seen.add((id(value), only))
        if value.constant:
            yield Read(-1, value, only)
        for maker in value.makers:
            yield Read(maker, value, only)
        if not value.makers:
            waiting += [(v, only) for v in (*value.parts, *value.wholes)][::-1]
            waiting += [(v, True) for v in value.sizes][::-1]
