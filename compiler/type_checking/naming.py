"""Names of values in messages."""

from __future__ import annotations

from ...vm.python_place import PythonSource
from ..ir import Expr, GlobalVar, Var


def said(atom: Expr) -> str:
    """The name of an atom; a name that A-normal form made up is no name of the program's."""
    match atom:
        case Var():
            return "this value" if is_made_up(atom) else f"%{atom.name}"
        case GlobalVar():
            return f"@{atom.name}"
    return "the constant"


def is_made_up(var: Var) -> bool:
    """Whether the place of a variable is that of its value: in a Python file a line that makes no variable."""
    if var.span is None:
        return False
    source, start = var.span.source, var.span.start
    if isinstance(source, PythonSource):
        line = source.line(source.position(start)[0])
        return bool(line) and "var(" not in line.lower()
    return not source.text.startswith(f"%{var.name}", start)
