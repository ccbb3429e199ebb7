"""Which side each piece of work should be on, so that as little as possible crosses between host and target.

*Items* (an operator's call, a parameter, the result of a function) are on one of the two sides; some are bound to one.  A
*value* is produced by an item and used by items, each use in a *region*.  Where a value is produced on one side and used on
the other, it is copied: in that region, or in one around it that uses it too, whichever is cheaper; a copy serves the regions
inside.  What is sought is the sides with

1. the fewest bytes copied, then
2. the fewest copies, then
3. the fewest copies to the host, since the host waits for each.

Regions have a *rank*, and what a region costs counts for more than anything in the regions of lower rank: a copy that always
runs is dearer than one in a branch, a copy in a loop dearer than one before it.

The answer is a minimum cut: host = source, target = sink.  For a value of producer p with uses u, v in one region::

          w                                                  w
    p ─────▶ a ══▶ u, v      to the target       u, v ══▶ b ─────▶ p      to the host          ══ never cut

Several uses cost ``w`` once: ``a`` is on the target's side as soon as one of them is.  An inner region's ``a`` hangs on the
outer region's, so that it is free once that one is paid.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .min_cut import Network

#: The items that everything bound to the host, and to the target, is.
ON_HOST, ON_TARGET = 0, 1
#: Ranks further below the highest than this count as one: the numbers would only grow.
MAX_RANKS = 8


@dataclass(frozen=True, eq=False)
class Region:
    """A stretch of code that runs as a whole or not at all, inside the region ``outer``."""

    rank: int = 0
    outer: Region | None = None


@dataclass(eq=False)
class Value:
    """A tensor that may have to be copied: what it is produced by, and the ``(region, item)`` of each use."""

    producer: int
    nbytes: int
    uses: list[tuple[Region, int]] = field(default_factory=list)

    def use(self, region: Region, item: int) -> None:
        """Note that ``item`` uses it in ``region``."""
        self.uses.append((region, item))

    def regions(self) -> dict[Region, list[int]]:
        """The regions that use it, each after those around it, with the items there."""
        out: dict[Region, list[int]] = {}
        for region, item in self.uses:
            out.setdefault(region, []).append(item)
        return {r: out[r] for r in sorted(out, key=_depth)}


def _depth(region: Region) -> int:
    depth = 0
    while region.outer is not None:
        region, depth = region.outer, depth + 1
    return depth


class Crossings:
    """The items and values of a program."""

    def __init__(self) -> None:
        self.n_items = 2
        self.values: list[Value] = []
        self._same: list[tuple[int, int]] = []

    def item(self) -> int:
        """A new item, whose side is to be found."""
        self.n_items += 1
        return self.n_items - 1

    def value(self, producer: int, nbytes: int) -> Value:
        """A new value."""
        self.values.append(Value(producer, nbytes))
        return self.values[-1]

    def tie(self, a: int, b: int) -> None:
        """Both items must be on one side."""
        if a != b:
            self._same.append((a, b))

    def solve(self) -> list[bool]:
        """Per item: is it on the host?  Of equally good answers the one with the fewest items on the host."""
        network = _Builder(self).build()
        return network.source_side(ON_HOST, ON_TARGET)[: self.n_items]

    @property
    def ties(self) -> list[tuple[int, int]]:
        """The pairs that must be on one side."""
        return list(self._same)


class _Builder:
    """Turns items and values into a network."""

    def __init__(self, crossings: Crossings) -> None:
        self.crossings = crossings
        live = [v for v in crossings.values if any(item != v.producer for _, item in v.uses)]
        self.edges: list[tuple[int, int, int]] = []
        self.forever: list[tuple[int, int]] = [(x, y) for a, b in crossings.ties for x, y in ((a, b), (b, a))]
        self.n_nodes = crossings.n_items
        self.live = live
        # an aim counts for more than all copies together can change the next
        self.many = 2 * sum(len(v.uses) for v in live) + 1
        self.highest = max((r.rank for v in live for r, _ in v.uses), default=0)
        self.lowest = max(self.highest - MAX_RANKS, min((r.rank for v in live for r, _ in v.uses), default=0))
        self.total = sum(self._price(v, to_host=True) * len(v.uses) for v in live) + 1

    def _price(self, value: Value, *, to_host: bool) -> int:
        return (value.nbytes * self.many + 1) * self.many + to_host

    def _capacity(self, value: Value, region: Region, *, to_host: bool) -> int:
        rank = max(region.rank, self.lowest) - self.lowest
        weight: int = self.total**rank
        return self._price(value, to_host=to_host) * weight

    def build(self) -> Network:
        """The network."""
        for value in self.live:
            if value.producer != ON_TARGET:
                self._copies(value, to_host=False)
            if value.producer != ON_HOST:
                self._copies(value, to_host=True)
        network = Network(self.n_nodes)
        never = sum(c for _, _, c in self.edges) + 1
        for a, b, capacity in self.edges:
            network.edge(a, b, capacity)
        for a, b in self.forever:
            network.edge(a, b, never)
        return network

    def _copies(self, value: Value, *, to_host: bool) -> None:
        """The nodes and edges of a value's copies to one side."""
        there = ON_TARGET if to_host else ON_HOST
        copy_of: dict[Region, int] = {}
        for region, items in value.regions().items():
            users = {i for i in items if i not in (there, value.producer)}
            copy, self.n_nodes = self.n_nodes, self.n_nodes + 1
            copy_of[region] = copy
            around = region.outer
            while around is not None and around not in copy_of:
                around = around.outer
            origin = value.producer if around is None else copy_of[around]
            capacity = self._capacity(value, region, to_host=to_host)
            self.edges.append((copy, origin, capacity) if to_host else (origin, copy, capacity))
            self.forever += [(u, copy) if to_host else (copy, u) for u in users]
