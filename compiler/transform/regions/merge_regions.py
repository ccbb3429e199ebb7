"""``MergeCompilerRegions``: regions of one compiler that follow each other as one region.

    %1 = annotation.compiler_end(tanh(%0), compiler="npu");
    %2 = annotation.compiler_begin(%1, compiler="npu");           ->    exp(tanh(%0))
    exp(%2)

Two regions stay apart if a value goes from one to the other through an expression outside both: that expression would need the
new region's results before the region has all its inputs.  So do regions of different branches.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.expr import Call, Expr, Function, IRModule, Let, replace
from ...ir.visitor import children, post_order, with_children
from ..inlining import graph_of, is_for_compiler
from .region_set import AnnotatedRegion, region_set, scopes


def merge_compiler_regions(mod: IRModule) -> IRModule:
    """The module with merged regions.  Raises ArgumentError for marks that do not fit each other."""
    kept = {name for name, f in mod.functions.items() if f.is_primitive or is_for_compiler(f)}
    return replace(mod, functions={n: f if n in kept else _merged(graph_of(f, mod)) for n, f in mod.functions.items()})


def _merged(function: Function) -> Function:
    inner = _Merger(function).inner_begins()
    new: dict[int, Expr] = {}
    for node in post_order(function):
        if id(node) in inner:
            new[id(node)] = new[id(inner[id(node)])]
        else:
            new[id(node)] = with_children(node, tuple(new[id(child)] for child in children(node)))
    out = new[id(function)]
    assert isinstance(out, Function)
    return out


class _Merger:
    """The groups of regions of a function, and the values between the groups and the other expressions."""

    def __init__(self, function: Function) -> None:
        self.regions = region_set(function)
        places, self.order = scopes(function), post_order(function)
        self.scope = {region: {id(places[id(node)]) for node in region.inner} for region in self.regions.regions}
        self.leader = {region: region for region in self.regions.regions}
        bound = {id(node.var): node.value for node in self.order if isinstance(node, Let)}
        #: The users of each expression, or of its region.
        self.after: dict[object, set[object]] = {}
        for node in self.order:
            for part in (*children(node), *([bound[id(node)]] if id(node) in bound else [])):
                self.after.setdefault(self._unit(part), set()).add(self._unit(node))

    def inner_begins(self) -> dict[int, Expr]:
        """The begins that vanish, by ``id``, each with the expression that takes its place."""
        joints = list(self._joints())
        for begin, end in joints:
            first, then = self._group(end), self._group(begin)
            if first is not then and self._may_join(first, then):
                self._join(first, then)
        return {id(begin): end.args[0] for begin, end in joints if self._group(begin) is self._group(end)}

    def _joints(self) -> Iterator[tuple[Call, Call]]:
        """The begins whose argument is an end, with that end."""
        ends = {id(end) for region in self.regions.regions for end in region.rets}
        for region in self.regions.regions:
            for begin in region.args:
                end = begin.args[0] if isinstance(begin, Call) else begin
                if id(end) in ends and isinstance(begin, Call) and isinstance(end, Call):
                    yield begin, end

    def _unit(self, node: Expr) -> object:
        """The region of an expression, or the expression."""
        return self.regions.get_region(node) or node

    def _group(self, node: Expr) -> AnnotatedRegion:
        region = self.regions.get_region(node)
        assert region is not None
        return self._root(region)

    def _root(self, region: AnnotatedRegion) -> AnnotatedRegion:
        while self.leader[region] is not region:
            region = self.leader[region]
        return region

    def _may_join(self, first: AnnotatedRegion, then: AnnotatedRegion) -> bool:
        if first.target != then.target or self.scope[first] != self.scope[then] or len(self.scope[first]) != 1:
            return False
        return not self._reaches(self._users(first) - {then}, then)

    def _users(self, unit: object) -> set[object]:
        """The users of an expression or group, groups by their leaders."""
        found = {self._root(u) if isinstance(u, AnnotatedRegion) else u for u in self.after.get(unit, ())}
        return found - {unit}

    def _reaches(self, start: set[object], goal: object) -> bool:
        pending, seen = list(start), set(start)
        while pending:
            unit = pending.pop()
            if unit is goal:
                return True
            new = self._users(unit) - seen
            seen |= new
            pending += new
        return False

    def _join(self, first: AnnotatedRegion, then: AnnotatedRegion) -> None:
        self.leader[then] = first
        self.after[first] = self.after.get(first, set()) | self.after.get(then, set())
