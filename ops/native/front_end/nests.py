"""Loop nests of generated texts, so that LLVM takes little time for them.

* A loop around other loops is not unrolled.  LLVM copies the nest for each value of a counter with few values: a transpose of
  windows of 7 by 7 had 14 copies of its rows, six times the code and the time to compile.
* The two innermost loops know the indices at which their rows begin as numbers only.  LLVM writes each index as a sum over all
  counters around, and its strength reduction searches the ways to divide such sums: half of all time for some nests.  The loop
  around the innermost one is seen, since LLVM moves the comparison of addresses out of it.

Short loops over few values, such as the taps of a window, are no loops here: they are unrolled first.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator
from typing import Any

from llvmlite import ir

from ..generated_source import KERNEL, is_generated
from .values.machine_types import WORD

#: The most iterations of a short loop, the loops inside included.
_SHORT = 16
#: The first letter of variables in generated texts that are elements or indices, and no sizes.
_COMPUTED = "v"
#: The fields of a statement with statements, or with what has some.
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


def is_nest(code: types.CodeType) -> bool:
    """Whether code is that of a generated kernel."""
    return is_generated(code.co_filename) and code.co_filename.startswith(f"<{KERNEL} ")


def _iterations(node: ast.For) -> int | None:
    """The iterations of a loop and of the loops inside; None if a bound is no literal."""
    if not isinstance(node.iter, ast.Call) or not all(isinstance(a, ast.Constant) for a in node.iter.args):
        return None
    inside = [_iterations(each) for each in _loops(node) if isinstance(each, ast.For)]
    if len(inside) < sum(1 for _ in _loops(node)) or None in inside:
        return None
    bounds = [a.value for a in node.iter.args if isinstance(a, ast.Constant) and isinstance(a.value, int)]
    return len(range(*bounds)) * max([n or 0 for n in inside] or [1])


def _loops(node: ast.For) -> Iterator[ast.For | ast.While]:
    """All loops inside a loop."""
    for statement in node.body:
        yield from (each for each in statements_of(statement) if isinstance(each, (ast.For, ast.While)))


def statements_of(node: ast.AST) -> Iterator[ast.AST]:
    """A statement and all statements inside it, without their expressions, which are most of a text."""
    pending = [node]
    while pending:
        found = pending.pop()
        yield found
        pending += [each for block in _BLOCKS for each in getattr(found, block, ())]


def is_short(node: ast.For) -> bool:
    """Whether a loop is short."""
    count = _iterations(node)
    return count is not None and count <= _SHORT


def has_loops(node: ast.For) -> bool:
    """Whether a loop has loops inside that are not short."""
    return any(isinstance(each, ast.While) or not is_short(each) for each in _loops(node))


def has_rows(node: ast.For) -> bool:
    """Whether a loop has loops inside that are not short, and these have none."""
    return has_loops(node) and not any(isinstance(each, ast.While) or has_loops(each) for each in _loops(node))


def indices_read(node: ast.For) -> list[str]:
    """The computed variables that the body of a loop reads, in order."""
    names = {each.id for s in node.body for each in ast.walk(s) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}
    return sorted(name for name in names if name.startswith(_COMPUTED))


def hidden(builder: Any, word: Any) -> Any:
    """The same word, as a number that LLVM knows nothing about: an empty instruction in machine code."""
    return builder.asm(ir.FunctionType(WORD, [WORD]), "", "=r,0", [word], side_effect=False)
