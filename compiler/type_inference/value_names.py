"""Names of values in messages."""

from __future__ import annotations

from ...vm.diagnostics.python_source import PythonSource
from ..ir.expr import Expr, GlobalVar, Var


def shown_name(atom: Expr) -> str:
    """The name of an atom in messages; a name that A-normal form generated is not shown."""
    match atom:
        case Var():
            return "this value" if is_generated(atom) else f"%{atom.name}"
        case GlobalVar():
            return f"@{atom.name}"
    return "the constant"


def is_generated(var: Var) -> bool:
    """Whether the place of a variable is that of its value: in a Python file, a line that creates no variable."""
    if var.span is None:
        return False
    source, start = var.span.source, var.span.start
    if isinstance(source, PythonSource):
        line = source.line(source.position(start)[0])
        return bool(line) and "var(" not in line.lower()
    return not source.text.startswith(f"%{var.name}", start)
