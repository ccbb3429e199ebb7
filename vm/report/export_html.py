"""Export of profiles to one self-contained HTML page: ``report.html`` with inlined style, scripts and data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .page_file import filled_page
from .profile_data import ProfileData
from .tables import heading


def html_page(profiles: Sequence[tuple[str, ProfileData]], comparison: Mapping[str, Any] | None = None) -> str:
    """The HTML page of named profiles, with their timelines one above the other; a name may be empty.

    ``comparison``: a table at the top of the page, with ``title``, ``header`` (list of texts), ``rows`` and ``notes`` (list of
    texts).  A row is a list of texts, or ``{"cells": [...], "mark": "new" | "gone" | ""}`` with optional lists by cell:
    ``tones`` (``better``, ``worse`` or empty), ``titles`` (tooltips) and ``values`` (numbers to sort by).
    """
    data = {"profiles": [_data(name, p) for name, p in profiles], "comparison": dict(comparison) if comparison else None}
    first = profiles[0][1]
    title = f"@{first.entry} on {' and '.join(dict.fromkeys(p.device for _, p in profiles))}: relayvm profile"
    return filled_page("report.html", title, data, ("report_timeline.js", "report.js"))


def _data(name: str, profile: ProfileData) -> dict[str, Any]:
    """The data of a profile for the page: its plain data without the samples."""
    data = profile.as_data()
    del data["series"], data["activities"], data["host"], data["copies"]
    counters = {key: profile.per_run(key) for key in profile.counters[0]}
    return {**data, "name": name, "heading": heading(profile), "counters": counters, "median_ns": profile.median_ns}
