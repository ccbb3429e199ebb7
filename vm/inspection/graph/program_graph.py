"""The graph of a program, from its bytecode: a node for each kernel, copy, call and branch, an edge for each value."""

from __future__ import annotations

from collections.abc import Sequence

from ...bytecode.executable import ExecutableData
from ..transfers import reachable
from .function_nodes import FunctionNodes
from .nodes import Edge, Node, ProgramGraph
from .values import Read


def program_graph(exe: ExecutableData, entry: str = "main") -> ProgramGraph:
    """The graph of ``entry`` and of the functions that it reaches.  Raises UnknownName, a KeyError, for an unknown function."""
    nodes: list[Node] = []
    edges: list[Edge] = []
    functions = reachable(exe, entry)
    for function in functions:
        made = FunctionNodes(exe, function, len(nodes))
        nodes += made.nodes
        edges += [edge for target, found in made.reads for edge in _edges(target, found)]
    return ProgramGraph(entry, exe.target, tuple(f.name for f in functions), nodes, edges)


def _edges(target: int, found: Sequence[Read]) -> list[Edge]:
    """An edge for each value; a value whose elements are read has no edge of its sizes beside."""
    best: dict[tuple[int, str], Read] = {}
    data = {read.maker for read in found if not read.sizes_only}
    for read in found:
        if read.maker >= 0 and not (read.sizes_only and read.maker in data):
            best.setdefault((read.maker, read.value.name), read)
    return [
        Edge(read.maker, target, read.value.name, read.value.type, read.value.nbytes, read.sizes_only) for read in best.values()
    ]
