"""Nodes and edges of the graph of a program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ....declarations.frozen_dataclass import frozen
from ....ops.core.group import Group
from ...diagnostics.source import Span

#: Kinds of nodes: arguments and result of a function, and what its instructions do.
ARGUMENT, KERNEL, COPY, CALL, BRANCH, RESULT = "argument", "kernel", "copy", "call", "branch", "result"


@dataclass(eq=False)
class Node:
    """A node of the graph.

    ``function``, ``pc``: its instruction; -1: none.  ``device``: its own, of a copy the destination's.  ``detail``: facts by
    their titles, in the order of display: the reason of a copy, the implementation of a kernel.  ``formats``: the dtypes of
    inputs and results.  ``constants``: the types of the constants that it reads.  ``group``: the operators of a kernel.
    ``callee``: the called function, or empty.
    """

    kind: str
    name: str
    function: str
    pc: int
    device: str
    span: Span | None = None
    detail: dict[str, str] = field(default_factory=dict)
    formats: str = ""
    constants: tuple[str, ...] = ()
    group: Group | None = None
    callee: str = ""


@frozen
class Edge:
    """A value from the node with the number ``source`` to the node ``target``.

    ``name``, ``type``: of the value.  ``nbytes``: of its elements; None: known at run time.  ``sizes_only``: whether the target
    reads no elements.
    """

    source: int
    target: int
    name: str
    type: str
    nbytes: int | None
    sizes_only: bool


@frozen(eq=False)
class ProgramGraph:
    """The functions that a function reaches, the function itself first, as one graph.  Nodes are in the order of the code."""

    entry: str
    device: str
    functions: tuple[str, ...]
    nodes: Sequence[Node]
    edges: Sequence[Edge]
