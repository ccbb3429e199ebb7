"""Memory of what groups determine: equal groups, of one program or of several, are analysed once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from .group import Group

T = TypeVar("T")
P = ParamSpec("P")

#: The number of groups that a function remembers.
KEPT = 1024


class _Known:
    """A group that is equal to another one if nothing tells them apart: 0.0 and -0.0, or equal texts of other sizes, do."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.key = (group.key(), group.shapes, tuple(n.operator for n in group.nodes))
        self.hash = hash(self.key)

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Known) and self.key == other.key


def per_group(function: Callable[Concatenate[Group, P], T]) -> Callable[Concatenate[Group, P], T]:
    """The function, which computes its result once for equal groups and further arguments; the result must not be changed."""

    @functools.lru_cache(maxsize=KEPT)
    def computed(known: _Known, *others: P.args, **named: P.kwargs) -> T:
        return function(known.group, *others, **named)

    @functools.wraps(function)
    def remembered(group: Group, *others: P.args, **named: P.kwargs) -> T:
        return computed(_Known(group), *others, **named)

    return remembered
