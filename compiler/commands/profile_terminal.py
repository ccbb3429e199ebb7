"""A profile's text on a terminal: lines cut to its width, with colours; elsewhere the text unchanged."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

#: Patterns of lines and their styles: the heading, the head of a table, copies and waits, comments of a program.
_STYLES = (
    (re.compile(r"^\S+: @"), "bold"),
    (re.compile(r"^\s*(Type|Time\(%\)|Calls) "), "bold dim"),
    (re.compile(r"\[memcpy DtoH\]|^\s*DtoH|\^ DtoH"), "red"),
    (re.compile(r"\[memcpy HtoD\]|^\s*HtoD|\^ HtoD"), "cyan"),
    (re.compile(r"\| +//"), "dim"),
)


def show(text: str) -> None:
    """Write the text to standard output."""
    if sys.stdout.isatty():
        from rich.console import Console

        draw(text, Console(highlight=False))
    else:
        sys.stdout.write(text + "\n")


def draw(text: str, console: Console) -> None:
    """Draw the text on a console of any width; the console handles colours and ``NO_COLOR``."""
    for line in text.splitlines():
        style = next((style for pattern, style in _STYLES if pattern.search(line)), "")
        console.print(line, style=style, markup=False, no_wrap=True, overflow="ellipsis")
