"""Memory of what groups determine: equal groups, of one program or of several, are analysed once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

from .group import Group

T = TypeVar("T")
Others = TypeVarTuple("Others")

#: The number of groups that a function remembers.
KEPT = 1024


class _Known:
    """A group that is equal to another one if nothing tells them apart: 0.0 and -0.0, or equal texts of other sizes, do."""

    def __init__(self, group: Group) -> None:
        self.group = group
        # a Dim is equal to no other Dim, and the group keeps its Dims
        shapes = tuple(tuple(map(id, shape)) for shape in group.shapes)
        self.key = (group.key(), shapes, tuple(n.operator for n in group.nodes))
        self.hash = hash(self.key)

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Known) and self.key == other.key


def per_group(function: Callable[[Group, *Others], T]) -> Callable[[Group, *Others], T]:
    """The function, which computes its result once for equal groups and further arguments; the result must not be changed.

    The further arguments can be hashed.
    """

    @functools.lru_cache(maxsize=KEPT)
    def computed(known: _Known, others: tuple[*Others]) -> T:
        return function(known.group, *others)

    @functools.wraps(function)
    def remembered(group: Group, /, *others: *Others) -> T:
        return computed(_Known(group), others)

    return remembered
