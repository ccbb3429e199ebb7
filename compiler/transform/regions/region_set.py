"""The regions of an expression: the calls between ``annotation.compiler_begin`` and ``annotation.compiler_end``.

%0 = annotation.compiler_begin(%x, compiler="npu");
%1 = tanh(%0);                                          one region of "npu": begins %0, ends %2
%2 = annotation.compiler_end(%1, compiler="npu");
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ....declarations.frozen_dataclass import frozen
from ....ops.core.op import Op
from ....ops.defs.machine.machine_ops import COMPILER_BEGIN, COMPILER_END
from ....vm.diagnostics.argument_errors import wrong
from ....vm.diagnostics.python_source import here
from ....vm.diagnostics.source import ArgumentError
from ...ir.expr import Call, Expr, Function, If, Let
from ...ir.match_expr import Match
from ...ir.visitor import LEAVES, children, post_order


@dataclass(eq=False)
class AnnotatedRegion:
    """A region for the compiler ``target``: ``args`` are its begins, ``rets`` its ends, ``nodes`` all its expressions."""

    id: int
    target: str
    args: list[Expr] = field(default_factory=list)
    nodes: list[Expr] = field(default_factory=list)
    rets: list[Expr] = field(default_factory=list)

    @property
    def inner(self) -> list[Expr]:
        """The expressions without the begins and ends."""
        marks = {id(node) for node in (*self.args, *self.rets)}
        return [node for node in self.nodes if id(node) not in marks]


class AnnotatedRegionSet:
    """The regions of an expression: what lies between a call of ``region_begin_op`` and one of ``region_end_op``.

    Raises ArgumentError, also for a region with several compilers.
    """

    def __init__(self, expr: Expr, region_begin_op: Op, region_end_op: Op) -> None:
        if not isinstance(expr, Expr):
            raise wrong("AnnotatedRegionSet: the expression", "an expression", expr)
        for op in (region_begin_op, region_end_op):
            if not isinstance(op, Op):
                raise wrong("AnnotatedRegionSet: the mark", "an operator", op, f'relay.op.get("{COMPILER_BEGIN.name}") is one')
        self._begin, self._end = region_begin_op, region_end_op
        order = post_order(expr)
        self._leader: dict[int, Expr] = {}
        for node in self._inside(order):
            self._join(node)
        self.regions = self._collected(order)
        self._of = {id(node): region for region in self.regions for node in region.nodes}

    def __len__(self) -> int:
        return len(self.regions)

    def get_region(self, expr: Expr) -> AnnotatedRegion | None:
        """The region that the expression belongs to, or None."""
        return self._of.get(id(expr))

    # ---- construction --------------------------------------------------------------------------------------------------

    def _is(self, node: Expr, op: Op) -> bool:
        return isinstance(node, Call) and node.op is op

    def _inside(self, order: list[Expr]) -> list[Expr]:
        """The ends, and the expressions between marks: after a begin, or needed by such an expression or by an end."""
        inside: set[int] = set()
        for node in order:
            parts = children(node)
            after = any(self._is(p, self._begin) or (id(p) in inside and not self._is(p, self._end)) for p in parts)
            if self._is(node, self._end) or (after and not self._is(node, self._begin) and not _holds_code(node)):
                inside.add(id(node))
        for node in reversed(order):
            if id(node) in inside:
                inside.update(id(p) for p in children(node) if not self._is_border(p))
        return [node for node in order if id(node) in inside]

    def _is_border(self, node: Expr) -> bool:
        return isinstance(node, LEAVES) or self._is(node, self._begin) or self._is(node, self._end) or _holds_code(node)

    def _join(self, node: Expr) -> None:
        """Join an expression with its parts of the same region."""
        self._leader.setdefault(id(node), node)
        for part in children(node):
            if self._is(part, self._begin) or not self._is_border(part):
                self._leader[id(self._root(part))] = self._root(node)

    def _root(self, node: Expr) -> Expr:
        while (above := self._leader.setdefault(id(node), node)) is not node:
            self._leader[id(node)] = self._leader.get(id(above), above)
            node = above
        return node

    def _collected(self, order: list[Expr]) -> list[AnnotatedRegion]:
        regions: dict[int, AnnotatedRegion] = {}
        for node in order:
            if id(node) not in self._leader:
                continue
            region = regions.setdefault(id(self._root(node)), AnnotatedRegion(len(regions), ""))
            region.nodes.append(node)
            for op, listed in ((self._begin, region.args), (self._end, region.rets)):
                if self._is(node, op):
                    listed.append(node)
                    self._name(region, node)
        return list(regions.values())

    def _name(self, region: AnnotatedRegion, mark: Expr) -> None:
        target = str(getattr(getattr(mark, "attrs", None), "compiler", ""))
        if region.target and region.target != target:
            message = f"a region has marks of the compilers {region.target} and {target}"
            raise ArgumentError(
                message, mark.span or here(), help="each region ends by annotation.compiler_end before the next begins"
            )
        region.target = target


def _holds_code(node: Expr) -> bool:
    """Whether the expression decides when its parts run; it belongs to no region."""
    return isinstance(node, (If, Match, Let, Function))


def region_set(expr: Expr) -> AnnotatedRegionSet:
    """The regions between the marks of ``AnnotateTarget``.  Raises ArgumentError."""
    return AnnotatedRegionSet(expr, COMPILER_BEGIN, COMPILER_END)


# ---- scopes --------------------------------------------------------------------------------------------------------------


@frozen(eq=False)
class EvaluationScope:
    """A function body, a branch, or the value or rest of a let: expressions of one scope are evaluated together."""

    outer: EvaluationScope | None
    depth: int


def scopes(function: Function) -> dict[int, EvaluationScope]:
    """The innermost scope that contains all uses of each expression, by ``id``."""
    places = {id(function): EvaluationScope(None, 0)}
    for node in reversed(post_order(function)):
        here_ = places[id(node)]
        plain = 1 if isinstance(node, (If, Match)) else 0  # the condition, or the data
        for number, child in enumerate(children(node)):
            inner = EvaluationScope(here_, here_.depth + 1) if _holds_code(node) and number >= plain else here_
            places[id(child)] = _meet(places[id(child)], inner) if id(child) in places else inner
    return places


def _meet(a: EvaluationScope, b: EvaluationScope) -> EvaluationScope:
    while a is not b:
        if a.depth >= b.depth:
            assert a.outer is not None
            a = a.outer
        else:
            assert b.outer is not None
            b = b.outer
    return a
