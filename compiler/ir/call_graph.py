"""The call graph of global functions: groups of mutually recursive functions, callees first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...declarations.frozen_dataclass import frozen
from .expr import Expr, GlobalVar, IRModule
from .visitor import children


def mentioned(expr: Expr) -> list[str]:
    """The names of the global functions that ``expr`` mentions, in order."""
    found: dict[str, None] = {}
    seen: set[Expr] = set()
    stack = [expr]
    while stack:
        node = stack.pop()
        if isinstance(node, GlobalVar):
            found[node.name] = None
        elif node not in seen:
            seen.add(node)
            stack += children(node)[::-1]
    return list(found)


@frozen
class CallEdges:
    """``callees``: the functions of a module that each of its functions mentions, by name."""

    callees: Mapping[str, Sequence[str]]

    @staticmethod
    def of(mod: IRModule) -> CallEdges:
        """The call graph of a module."""
        return CallEdges({name: [g for g in mentioned(f.body) if g in mod.functions] for name, f in mod.functions.items()})

    def groups(self) -> list[list[str]]:
        """The strongly connected components, callees before their callers (Tarjan's algorithm)."""
        return _components(self.callees)

    def recursive(self) -> set[str]:
        """The functions that may call themselves, directly or through others."""
        directly = {name for name, callees in self.callees.items() if name in callees}
        return directly.union(*(group for group in self.groups() if len(group) > 1))

    def callers(self) -> dict[str, list[str]]:
        """The functions that mention each function, by its name."""
        out: dict[str, list[str]] = {name: [] for name in self.callees}
        for name, callees in self.callees.items():
            for callee in callees:
                out[callee].append(name)
        return out


def recursion_groups(mod: IRModule) -> list[list[str]]:
    """``CallEdges.groups`` of a module."""
    return CallEdges.of(mod).groups()


def reachable(mod: IRModule, roots: Iterable[str]) -> set[str]:
    """The functions reachable from ``roots``, including these."""
    found: set[str] = set()
    pending = [r for r in roots if r in mod.functions]
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += [g for g in mentioned(mod[name].body) if g in mod.functions]
    return found


def _components(edges: Mapping[str, Sequence[str]]) -> list[list[str]]:
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    open_: list[str] = []
    done: list[list[str]] = []
    closed: set[str] = set()
    for root in edges:
        stack = [(root, 0)]
        while stack:
            name, at = stack.pop()
            if at == 0:
                if name in number:
                    continue
                number[name] = low[name] = len(number)
                open_.append(name)
            else:
                low[name] = min(low[name], low[edges[name][at - 1]])
            while at < len(edges[name]) and edges[name][at] in number:
                other = edges[name][at]
                if other not in closed:
                    low[name] = min(low[name], number[other])
                at += 1
            if at < len(edges[name]):
                stack += [(name, at + 1), (edges[name][at], 0)]
            elif low[name] == number[name]:
                group = open_[open_.index(name) :]
                del open_[-len(group) :]
                closed.update(group)
                done.append(group)
    return done
