"""Texts as the output of a notebook."""

from __future__ import annotations


def notebook_html(text: str) -> str:
    """Aligned text as HTML for the output of a notebook; long lines scroll instead of wrapping."""
    import html  # costs start-up time

    style = "overflow-x:auto;white-space:pre;line-height:1.25;font-family:monospace"
    return f'<pre style="{style}">{html.escape(text)}</pre>'
