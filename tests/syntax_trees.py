"""Walks over syntax trees of the repository's files."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


def statements(tree: ast.Module) -> Iterator[ast.AST]:
    """The module, its statements at any depth, and their handlers and cases, but no expression: a tenth of the nodes."""
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        yield node
        for block in _BLOCKS:
            todo += getattr(node, block, ())
