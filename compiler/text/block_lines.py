"""The line and block of each expression of a graph in the text.

A graph has no lines: an expression used in both branches of an ``if`` is one object with two users.  It is printed in the
innermost block that encloses all its uses, before the first of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..ir.expr import Call, Expr, Function, If, Let
from ..ir.match_expr import Match
from ..ir.visitor import LEAVES, children


@dataclass(eq=False)
class Block:
    """Lines in order, then a result.  A line is ``(let, True)`` for a binding, ``(expr, False)`` for ``%n = expr``."""

    result: Expr
    outer: Block | None
    depth: int
    lines: list[tuple[Expr, bool]] = field(default_factory=list)

    def common(self, other: Block) -> Block:
        """The innermost block that encloses both."""
        a, b = self, other
        while a is not b:
            if a.depth < b.depth:
                a, b = b, a
            assert a.outer is not None
            a = a.outer
        return a


class Blocks:
    """The blocks of ``root``.  Linear in the size of the graph, except for the depth of nested blocks; no recursion."""

    def __init__(self, root: Expr) -> None:
        self._uses: dict[int, int] = {}
        self._inside: dict[int, tuple[Block, ...]] = {}
        #: The innermost block around the uses of a node so far; its final block once all users are placed.
        self._home: dict[int, Block] = {}
        #: Nodes printed inline at their use: results of blocks, values of lets.
        self._in_place: set[int] = set()
        events = self._walk(root)
        self.root = self._block(root, None)
        for node, is_let in reversed(events):
            if not is_let:
                self._place(node)
        for node, is_let in events:
            if is_let:
                self.inside(node)[0].lines.append((node, True))
            elif id(node) not in self._in_place and not isinstance(node, LEAVES):
                self._home[id(node)].lines.append((node, False))

    def inside(self, expr: Expr) -> tuple[Block, ...]:
        """The blocks of an ``if`` (two), of a ``match`` (one a clause), of a function, or of a ``let`` that begins a chain."""
        return self._inside[id(expr)]

    def _walk(self, root: Expr) -> list[tuple[Expr, bool]]:
        """Nodes in order of completion, each once; a Let occurs twice: as a line (True) when its value is complete."""
        events: list[tuple[Expr, bool]] = []
        stack: list[tuple[Expr, str]] = [(root, "enter")]
        while stack:
            node, step = stack.pop()
            if step != "enter":
                events.append((node, step == "line"))
                continue
            self._uses[id(node)] = self._uses.get(id(node), 0) + 1
            if self._uses[id(node)] > 1 or isinstance(node, LEAVES):
                continue
            stack.append((node, "leave"))
            if isinstance(node, Let):
                stack += [(node.body, "enter"), (node, "line"), (node.value, "enter")]
            else:
                stack += [(child, "enter") for child in reversed(_in_order_of_lines(node))]
        return events

    def _block(self, result: Expr, outer: Block | None) -> Block:
        """A block with the result ``result``, or the result of the chain of lets that ``result`` is."""
        block = Block(result, outer, outer.depth + 1 if outer else 0)
        self._end(block, result)
        return block

    def _end(self, block: Block, result: Expr) -> None:
        block.result = result
        self._use(result, block)
        if self._uses[id(result)] == 1:
            self._in_place.add(id(result))
            if isinstance(result, Let):
                self._inside[id(result)] = (block,)

    def _use(self, node: Expr, block: Block) -> None:
        if isinstance(node, LEAVES):
            return
        known = self._home.get(id(node))
        self._home[id(node)] = block if known is None else known.common(block)

    def _place(self, node: Expr) -> None:
        """Place the children of ``node``, all of whose users are placed."""
        home = self._home[id(node)]
        match node:
            case Let():
                if id(node) not in self._inside:
                    self._inside[id(node)] = (Block(node, home, home.depth + 1),)
                block = self._inside[id(node)][0]
                self._use(node.value, block)
                if self._uses[id(node.value)] == 1:
                    self._in_place.add(id(node.value))
                self._end(block, node.body)
            case If():
                self._use(node.cond, home)
                self._inside[id(node)] = (self._block(node.true_branch, home), self._block(node.false_branch, home))
            case Function():
                self._inside[id(node)] = (self._block(node.body, home),)
            case Match():
                self._use(node.data, home)
                self._inside[id(node)] = tuple(self._block(c.rhs, home) for c in node.clauses)
            case _:
                for child in children(node):
                    self._use(child, home)


def _in_order_of_lines(expr: Expr) -> tuple[Expr, ...]:
    """The direct subexpressions in order of their lines: a called function is near its call, after the arguments, as in Relay."""
    if isinstance(expr, Call) and isinstance(expr.op, Expr):
        return (*expr.args, expr.op)
    return children(expr)
