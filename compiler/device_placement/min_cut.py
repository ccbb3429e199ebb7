"""A minimum cut of a directed network, by Dinic's algorithm.

``scipy.sparse.csgraph.maximum_flow`` does not serve: its capacities are int32, while the capacities of ``cut`` combine several
objectives in one number, the most important first, and exceed 64 bits; and it returns a flow, from which the cut would have to be
computed.  The networks are small: fixed items never become nodes.
"""

from __future__ import annotations

from collections import deque


class Network:
    """Nodes ``0 .. n - 1`` and edges with capacities that are integers of any size."""

    def __init__(self, n_nodes: int) -> None:
        self._edges: list[list[int]] = [[] for _ in range(n_nodes)]
        # edge k leads to _to[k]; edge k ^ 1 is its reverse
        self._to: list[int] = []
        self._left: list[int] = []

    def edge(self, a: int, b: int, capacity: int, back: int = 0) -> None:
        """An edge from ``a`` to ``b``, and one from ``b`` to ``a`` of capacity ``back``."""
        for start, end, size in ((a, b, capacity), (b, a, back)):
            self._edges[start].append(len(self._to))
            self._to.append(end)
            self._left.append(size)

    def source_side(self, source: int, sink: int) -> list[bool]:
        """Per node whether it is on the source's side of a minimum cut; of all minimum cuts, the cut with the fewest nodes
        there."""
        while True:
            levels = self._levels(source)
            if levels[sink] < 0:
                return [level >= 0 for level in levels]
            self._block(source, sink, levels)

    def _levels(self, source: int) -> list[int]:
        """Per node its distance from ``source`` along edges with residual capacity, or -1."""
        levels = [-1] * len(self._edges)
        levels[source] = 0
        pending = deque([source])
        while pending:
            node = pending.popleft()
            for e in self._edges[node]:
                end = self._to[e]
                if self._left[e] and levels[end] < 0:
                    levels[end] = levels[node] + 1
                    pending.append(end)
        return levels

    def _block(self, source: int, sink: int, levels: list[int]) -> None:
        """Find a blocking flow along shortest paths."""
        next_edge = [0] * len(self._edges)
        path: list[int] = []
        node = source
        while True:
            if node == sink:
                self._send(path)
                path, node = [], source
                continue
            at, edges = next_edge[node], self._edges[node]
            while at < len(edges) and not (self._left[edges[at]] and levels[self._to[edges[at]]] == levels[node] + 1):
                at += 1
            next_edge[node] = at
            if at < len(edges):
                path.append(edges[at])
                node = self._to[edges[at]]
            elif path:
                # a dead end: discard the edge that leads here
                node = self._to[path.pop() ^ 1]
                next_edge[node] += 1
            else:
                return

    def _send(self, path: list[int]) -> None:
        amount = min(self._left[e] for e in path)
        for e in path:
            self._left[e] -= amount
            self._left[e ^ 1] += amount
