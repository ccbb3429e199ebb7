"""A comparison on a terminal: tables that fit its width, with colours; elsewhere plain text."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ..comparison.compare import Comparison
from ..comparison.compare_text import (
    TextTable,
    comparison_text,
    heading,
    legend,
    profile_blocks,
    shows_profiles,
    tables,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_STYLES = {"better": "bold green", "worse": "bold red", "other": "bold", "": ""}
#: Blanks between columns, and the least width of a name: a table omits columns to make room for the name.
_GAP, _NAME_WIDTH = 2, 30


def show(comparison: Comparison, profiles: bool | None = None, everything: bool = False) -> None:
    """Write the comparison to standard output.  ``everything``: also small rows without a difference."""
    if sys.stdout.isatty():
        from rich.console import Console

        draw(comparison, Console(highlight=False), profiles, everything)
    else:
        sys.stdout.write(comparison_text(comparison, profiles, everything) + "\n")


def draw(comparison: Comparison, console: Console, profiles: bool | None = None, everything: bool = False) -> None:
    """Draw the comparison on a console of any width; the console handles colours and ``NO_COLOR``."""
    if shows_profiles(comparison, profiles):
        console.print(profile_blocks(comparison) + "\n", markup=False, no_wrap=True, overflow="ellipsis")
    console.print(heading(comparison), markup=False)
    for table in tables(comparison, everything):
        console.print()
        console.print(_rich(table, console.width))
    console.print()
    console.print(" ".join(legend(comparison).split()), markup=False, style="dim")


def _rich(table: TextTable, width: int) -> Table:
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text

    widths = [max(len(line[i]) for line in (table.header, *table.rows)) for i in range(len(table.header))]
    *kept, name = range(len(widths))
    for i in table.droppable:
        if width - sum(widths[k] + _GAP for k in kept) < _NAME_WIDTH:
            kept.remove(i)
    left = width - sum(widths[k] + _GAP for k in kept)
    title = escape(table.title)
    out = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    for i in kept:
        out.add_column(escape(table.header[i]), justify="right", width=widths[i], no_wrap=True, header_style="bold")
    out.add_column("", width=max(1, min(left, widths[name])), no_wrap=True, overflow="ellipsis")
    by_cell = table.by_cell or [(tone,) * len(table.header) for tone in table.tones]
    for row, tones in zip(table.rows, by_cell, strict=True):
        out.add_row(*(Text(row[i], _STYLES[tones[i]]) for i in (*kept, name)))
    return out
