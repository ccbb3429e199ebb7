"""Profiles as one HTML page that needs no network: ``report.html`` with its style, its programs and the data inside."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from .profile_data import Profile
from .tables import heading


def html_page(profiles: Sequence[tuple[str, Profile]], comparison: Mapping[str, Any] | None = None) -> str:
    """The page of named profiles, whose timelines stand over each other; a name may be empty.

    ``comparison``: a table that goes on top: ``title``, ``header`` (list of texts), ``rows`` (each a list of texts, or
    ``{"cells": [...], "mark": "new" | "gone" | ""}``, and by cell ``tones``: ``better``, ``worse`` or empty, ``titles``: shown
    over it, ``values``: numbers to sort by) and ``notes`` (list of texts).
    """
    data = {"profiles": [_data(name, p) for name, p in profiles], "comparison": dict(comparison) if comparison else None}
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")  # so that nothing in it ends the script element
    first = profiles[0][1]
    title = f"@{first.entry} on {' and '.join(dict.fromkeys(p.device for _, p in profiles))}: relayvm profile"
    page = _file("report.html")
    for name, value in (
        ("TITLE", _escaped(title)),
        ("STYLE", _file("report.css")),
        ("DATA", text),
        ("SCRIPT", _file("report_timeline.js") + _file("report.js")),
    ):
        page = page.replace(f"<!--{name}-->", value)
    return page


def _data(name: str, profile: Profile) -> dict[str, Any]:
    """What the page shows of a profile: its plain data without the samples."""
    data = profile.as_data()
    del data["series"], data["activities"], data["host"], data["copies"]
    counters = {key: profile.per_run(key) for key in profile.counters[0]}
    return {**data, "name": name, "heading": heading(profile), "counters": counters, "median_ns": profile.median_ns}


def _file(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


def notebook_html(text: str) -> str:
    """Aligned text for the output of a notebook: it scrolls sideways and breaks no line."""
    style = "overflow-x:auto;white-space:pre;line-height:1.25;font-family:monospace"
    return f'<pre style="{style}">{html.escape(text)}</pre>'
