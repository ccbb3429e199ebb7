"""A profile's text on a person's screen: lines cut to its width, with colours; elsewhere the text as it is."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

#: Lines by how they look, and their style: the heading, the head of a table, copies and waits, comments of a program.
_STYLES = (
    (re.compile(r"^\S+: @"), "bold"),
    (re.compile(r"^\s*(Type|Time\(%\)|Calls) "), "bold dim"),
    (re.compile(r"\[memcpy DtoH\]|^\s*DtoH|\^ DtoH"), "red"),
    (re.compile(r"\[memcpy HtoD\]|^\s*HtoD|\^ HtoD"), "cyan"),
    (re.compile(r"\| +//"), "dim"),
)


def show(text: str) -> None:
    """Write it to standard output."""
    if sys.stdout.isatty():
        from rich.console import Console

        draw(text, Console(highlight=False))
    else:
        sys.stdout.write(text + "\n")


def draw(text: str, console: Console) -> None:
    """Draw it on a console of any width; the console knows about colours and ``NO_COLOR``."""
    for line in text.splitlines():
        style = next((style for pattern, style in _STYLES if pattern.search(line)), "")
        console.print(line, style=style, markup=False, no_wrap=True, overflow="ellipsis")
