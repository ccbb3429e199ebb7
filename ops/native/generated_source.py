"""Functions from generated source text: the text stays at hand for the compiler, for debuggers and for tracebacks."""

from __future__ import annotations

import hashlib
import linecache
from typing import Any

#: The label of the texts of kernels.
KERNEL = "kernel"
#: The file names of generated texts.
_defined: set[str] = set()


def is_generated(filename: str) -> bool:
    """Whether ``define`` made the file name.  The text of such a file never changes: its name has the text's hash."""
    return filename in _defined


def define(label: str, text: str, names: dict[str, Any]) -> dict[str, Any]:
    """Execute ``text`` over the globals ``names``; the globals after it.  ``label`` is for tracebacks."""
    filename = f"<{label} {hashlib.sha256(text.encode()).hexdigest()[:16]}>"
    linecache.cache[filename] = len(text), None, text.splitlines(keepends=True), filename
    _defined.add(filename)
    exec(compile(text, filename, "exec", dont_inherit=True), names)
    return names
