"""Memory of what groups determine: equal groups, of one program or of several, are analysed once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

from .attrs import text_of
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
        values = tuple([(t.dtype, *map(id, t.shape)) for t in group.values()])
        literals = tuple([repr(c.value) for c in group.literals])
        nodes = tuple([(n.operator, text_of(n.attrs), n.args) for n in group.nodes])
        self.key = (
            values,
            len(group.params),
            literals,
            nodes,
            group.results,
            group.implementation,
            group.in_place,
            group.workspace,
        )
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
