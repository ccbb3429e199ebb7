"""Functions from generated source text: the text stays at hand for the compiler, for debuggers and for tracebacks."""

from __future__ import annotations

import hashlib
import linecache
from typing import Any


def define(label: str, text: str, names: dict[str, Any]) -> dict[str, Any]:
    """Execute ``text`` over the globals ``names``; the globals after it.  ``label`` is for tracebacks."""
    filename = f"<{label} {hashlib.sha256(text.encode()).hexdigest()[:16]}>"
    linecache.cache[filename] = len(text), None, text.splitlines(keepends=True), filename
    exec(compile(text, filename, "exec", dont_inherit=True), names)
    return names
