"""Assign items to host or target so that the transfers between them are minimal.

*Items* (an operator's call, a parameter, the result of a function) are on the host or on the target; some are fixed.  A *value*
is produced by an item and used by items, each use in a *region*.  A value that is produced on one device and used on the other is
copied: in the region of the use, or in an enclosing region that uses the value too, if that is cheaper.  A copy serves the
enclosed regions.  The assignment minimises, in this order,

1. the number of copies to the host, since the host waits for each of them, 2. the bytes copied, 3. the number of copies.

Regions have a *rank*: the cost of a region outweighs all costs in regions of lower rank.  An unconditional copy costs more than a
copy in a branch, and a copy in a loop more than a copy before the loop.

The assignment is a minimum cut: host = source, target = sink.  For a value of producer p with uses u, v in one region::

          w                                                  w
    p ─────▶ a ══▶ u, v      to the target       u, v ══▶ b ─────▶ p      to the host          ══ never cut

Several uses cost ``w`` once: ``a`` is on the target's side if one of them is.  An inner region's ``a`` is a successor of the
outer region's ``a``, so that the inner copy is free if the outer copy is paid for.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...declarations.frozen_dataclass import frozen
from .min_cut import Network

#: The item of everything fixed to the host, and of everything fixed to the target.
ON_HOST, ON_TARGET = 0, 1
#: The number of distinct ranks below the highest; lower ranks count as the lowest, since capacities grow with each rank.
MAX_RANKS = 8


@frozen(eq=False)
class Region:
    """Code that runs as a whole or not at all, inside the region ``outer``."""

    rank: int = 0
    outer: Region | None = None


@dataclass(eq=False)
class Value:
    """A tensor that may have to be copied: its producer, its size in bytes, and the ``(region, item)`` of each use."""

    producer: int
    nbytes: int
    uses: list[tuple[Region, int]] = field(default_factory=list)

    def use(self, region: Region, item: int) -> None:
        """Record a use by ``item`` in ``region``."""
        self.uses.append((region, item))

    def regions(self) -> dict[Region, list[int]]:
        """The regions with uses, each after its enclosing regions, with the items there."""
        out: dict[Region, list[int]] = {}
        for region, item in self.uses:
            out.setdefault(region, []).append(item)
        return {r: out[r] for r in sorted(out, key=_depth)}


def _depth(region: Region) -> int:
    depth = 0
    while region.outer is not None:
        region, depth = region.outer, depth + 1
    return depth


class CutProblem:
    """The items and values of a program."""

    def __init__(self) -> None:
        self.n_items = 2
        self.values: list[Value] = []
        self._same: list[tuple[int, int]] = []
        self.following: list[tuple[int, int]] = []

    def item(self) -> int:
        """A new item, not fixed to a device."""
        self.n_items += 1
        return self.n_items - 1

    def value(self, producer: int, nbytes: int) -> Value:
        """A new value."""
        self.values.append(Value(producer, nbytes))
        return self.values[-1]

    def tie(self, a: int, b: int) -> None:
        """Require both items on one device."""
        if a != b:
            self._same.append((a, b))

    def follow(self, item: int, other: int) -> None:
        """Require ``other`` on the host if ``item`` is there."""
        if item != other:
            self.following.append((item, other))

    def solve(self) -> list[bool]:
        """Per item whether it is on the host.  Of the minimum cuts, the cut with the fewest items on the host."""
        network = _NetworkBuilder(self).build()
        return network.source_side(ON_HOST, ON_TARGET)[: self.n_items]

    @property
    def ties(self) -> list[tuple[int, int]]:
        """The pairs that must be on one device."""
        return list(self._same)


class _NetworkBuilder:
    """The flow network of items and values."""

    def __init__(self, problem: CutProblem) -> None:
        self.problem = problem
        live = [v for v in problem.values if any(item != v.producer for _, item in v.uses)]
        self.edges: list[tuple[int, int, int]] = []
        self.uncuttable: list[tuple[int, int]] = [(x, y) for a, b in problem.ties for x, y in ((a, b), (b, a))]
        self.uncuttable += problem.following
        self.n_nodes = problem.n_items
        self.live = live
        # one unit of an objective outweighs the next objective summed over all copies
        self.many = 2 * sum(len(v.uses) for v in live) + 1
        self.wait = 2 * sum(v.nbytes * len(v.uses) for v in live) + 1
        self.highest = max((r.rank for v in live for r, _ in v.uses), default=0)
        self.lowest = max(self.highest - MAX_RANKS, min((r.rank for v in live for r, _ in v.uses), default=0))
        self.total = sum(self._cost(v, to_host=True) * len(v.uses) for v in live) + 1

    def _cost(self, value: Value, *, to_host: bool) -> int:
        return (to_host * self.wait + value.nbytes) * self.many + 1

    def _capacity(self, value: Value, region: Region, *, to_host: bool) -> int:
        rank = max(region.rank, self.lowest) - self.lowest
        weight: int = self.total**rank
        return self._cost(value, to_host=to_host) * weight

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
        for a, b in self.uncuttable:
            network.edge(a, b, never)
        return network

    def _copies(self, value: Value, *, to_host: bool) -> None:
        """The nodes and edges of a value's copies to one device."""
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
            self.uncuttable += [(u, copy) if to_host else (copy, u) for u in users]
