"""Times of the nodes of a graph, from a profile of its program."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from ...diagnostics.source import InputError
from ...runtime.tracing.trace_events import DTOH, HOST_CALL, HTOD, KERNEL
from .nodes import ProgramGraph


class Measured(Protocol):
    """The sums of one instruction over all traced runs (``report.profile_data.Site``)."""

    @property
    def kind(self) -> str: ...
    @property
    def function(self) -> str: ...
    @property
    def pc(self) -> int: ...
    @property
    def calls(self) -> int: ...
    @property
    def total_ns(self) -> int: ...


class NodeTime(NamedTuple):
    """The time of a node in a run, in ns, and its calls in a run."""

    ns: float
    calls: float


def node_times(graph: ProgramGraph, sites: tuple[Measured, ...], runs: int) -> Mapping[int, NodeTime]:
    """The times of nodes by number.  Raises InputError for sites of another program."""
    sums: dict[tuple[str, int], list[int]] = defaultdict(lambda: [0, 0])
    for site in sites:
        if site.kind in (KERNEL, HOST_CALL, DTOH, HTOD) and site.pc >= 0:
            found = sums[site.function, site.pc]
            found[0] += site.total_ns
            found[1] += site.calls
    numbers = {(node.function, node.pc): number for number, node in enumerate(graph.nodes) if node.pc >= 0}
    kernels = {(site.function, site.pc) for site in sites if site.kind in (KERNEL, HOST_CALL)}
    if not kernels <= set(numbers):
        function, pc = min(kernels - set(numbers))
        message = f"the profile is of another program: it has a kernel at @{function} {pc}"
        raise InputError(message, help="profile the same file, with the same --device and --config")
    return {numbers[key]: NodeTime(ns / runs, calls / runs) for key, (ns, calls) in sums.items() if key in numbers}
