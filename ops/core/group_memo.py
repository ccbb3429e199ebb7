"""Memory of what groups determine: equal groups, of one program or of several, are analysed once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

from .group import Group

T = TypeVar("T")

#: The number of groups that a function remembers.
KEPT = 1024


class _Known:
    """A group that is equal to another one if nothing tells them apart: 0.0 and -0.0, or equal texts of other sizes, do."""

    def __init__(self, group: Group) -> None:
        self.group = group
        shapes = tuple(t.shape for t in group.values())
        self.key = (group.key(), shapes, tuple(n.operator for n in group.nodes))
        self.hash = hash(self.key)

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Known) and self.key == other.key


def per_group(function: Callable[[Group], T]) -> Callable[[Group], T]:
    """The function, which computes its result once for equal groups; the result must not be changed."""

    @functools.lru_cache(maxsize=KEPT)
    def computed(known: _Known) -> T:
        return function(known.group)

    @functools.wraps(function)
    def remembered(group: Group) -> T:
        return computed(_Known(group))

    return remembered
