"""Layered layouts of graphs (Sugiyama's method), by the package fast_sugiyama."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ....declarations.frozen_dataclass import frozen
from ...diagnostics.source import ConfigError

#: Width and height of a box.
Size = tuple[int, int]
Point = tuple[float, float]
Pair = tuple[int, int]

#: Distances between boxes, to the right and down.
_BESIDE, _BELOW = 24, 38
#: The width of an edge that passes a layer, as a part of a box's.
_PASSING = 0.25
#: A column and a layer of the package's places.
_UNIT = 1000
#: The most boxes without edges in a row.
_ROW = 6


@frozen
class Layout:
    """``corners``: the left upper corner of each box.  ``routes``: the points between the boxes of edges that pass layers."""

    width: float
    height: float
    corners: tuple[Point, ...]
    routes: Mapping[Pair, tuple[Point, ...]]


def layered(sizes: Sequence[Size], edges: Sequence[Pair]) -> Layout:
    """A layout of boxes in layers: sources above their targets.  The heights of the boxes are equal.

    An edge to a box of a smaller number is laid out as if it led from it, so that there are no circles.  Raises ConfigError if
    the package is not installed.
    """
    column, row = max(w for w, _ in sizes) + _BESIDE, max(h for _, h in sizes) + _BELOW
    down = dict.fromkeys((min(edge), max(edge)) for edge in edges if edge[0] != edge[1])
    centers: dict[int, Point] = {}
    routes: dict[Pair, tuple[Point, ...]] = {}
    left = 0.0
    for placed, through in _components(list(down), len(sizes)):
        points = _apart({node: (left + x * column, y * row) for node, (x, y) in placed.items()}, sizes)
        centers |= {node: point for node, point in points.items() if node < len(sizes)}
        for pair, passed in _routes(through, len(sizes)):
            routes[pair] = tuple(points[p] for p in passed)
            routes[pair[1], pair[0]] = routes[pair][::-1]
        left = max(x for x, _ in points.values()) + column
    bottom = max((y for _, y in centers.values()), default=-row)
    centers |= _alone([n for n in range(len(sizes)) if n not in centers], column, row, bottom)
    return _framed(sizes, centers, {edge: routes[edge] for edge in dict.fromkeys(edges) if edge in routes})


def _components(edges: Sequence[Pair], count: int) -> Iterator[tuple[dict[int, Point], list[Pair]]]:
    """The components in the order of their first nodes: places in columns and layers, and edges through points.

    Nodes from ``count`` on are points that edges pass.
    """
    try:
        from fast_sugiyama import from_edges
    except ImportError as error:
        raise ConfigError("a page with a graph needs the package fast-sugiyama", help="pip install 'relayvm[show]'") from error
    # the package's points have numbers after those of nodes, if nodes are numbered from 0 on
    nodes = sorted({node for edge in edges for node in edge})
    numbers = {node: number for number, node in enumerate(nodes)}
    numbered = [(numbers[a], numbers[b]) for a, b in edges]
    found = from_edges(numbered, dummy_vertices=True, vertex_spacing=_UNIT, dummy_size=_PASSING) if edges else ()

    def own(number: Any) -> int:
        return nodes[number] if number < len(nodes) else count + int(number)

    for positions, _, height, through in sorted(found, key=lambda component: min(node for node, _ in component[0])):
        placed = {own(number): (x / _UNIT, (height - y) / _UNIT) for number, (x, y) in positions}
        yield placed, [(own(a), own(b)) for a, b in through or numbered]


def _routes(edges: Sequence[Pair], count: int) -> Iterator[tuple[Pair, list[int]]]:
    """The points, nodes from ``count`` on, that edges pass, with the ends of the edges."""
    after = {source: target for source, target in edges if source >= count}
    for source, target in edges:
        if source < count <= target:
            points = [target]
            while after[points[-1]] >= count:
                points.append(after[points[-1]])
            yield (source, after[points[-1]]), points


def _apart(points: Mapping[int, Point], sizes: Sequence[Size]) -> dict[int, Point]:
    """The points with the boxes of each layer moved to the right of those that they overlap, which the package's places do."""
    moved: dict[int, Point] = {}
    ends: dict[float, float] = {}
    for node, (x, y) in sorted(points.items(), key=lambda item: (item[1][0], item[0])):
        half = sizes[node][0] / 2 if node < len(sizes) else 0
        x = max(x, ends.get(y, x - half) + half)
        moved[node], ends[y] = (x, y), x + half + _BESIDE
    return moved


def _alone(nodes: Sequence[int], column: float, row: float, above: float) -> dict[int, Point]:
    """Boxes without edges, in rows below the others."""
    width = min(_ROW, max(1, math.ceil(math.sqrt(len(nodes)))))
    return {node: ((i % width) * column, above + (1 + i // width) * row) for i, node in enumerate(nodes)}


def _framed(sizes: Sequence[Size], centers: Mapping[int, Point], routes: Mapping[Pair, tuple[Point, ...]]) -> Layout:
    """The layout moved to the origin."""
    boxes = [(centers[n][0] - w / 2, centers[n][1] - h / 2, w, h) for n, (w, h) in enumerate(sizes)]
    left, top = min(x for x, *_ in boxes), min(y for _, y, *_ in boxes)
    points = {pair: tuple((x - left, y - top) for x, y in listed) for pair, listed in routes.items()}
    right = max([x + w for x, _, w, _ in boxes] + [left + x for listed in points.values() for x, _ in listed])
    bottom = max(y + h for _, y, _, h in boxes)
    return Layout(right - left, bottom - top, tuple((x - left, y - top) for x, y, *_ in boxes), points)
