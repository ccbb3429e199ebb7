"""Self-contained HTML pages: a template with inlined style, scripts and data."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

#: Style and script that every page has.
_STYLE, _ELEMENTS = "report.css", "report_elements.js"


def filled_page(template: str, title: str, data: Mapping[str, Any], scripts: Sequence[str], styles: Sequence[str] = ()) -> str:
    """The page of a template with its title and data.  ``scripts``, ``styles``: names of files beside those of every page.

    Files are named by their paths in the folder of this module.
    """
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")  # no "</script>" inside the script element
    page = _file(template)
    for name, value in (
        ("TITLE", title.replace("&", "&amp;").replace("<", "&lt;")),
        ("STYLE", "".join(map(_file, (_STYLE, *styles)))),
        ("DATA", text),
        ("SCRIPT", "".join(map(_file, (_ELEMENTS, *scripts)))),
    ):
        page = page.replace(f"<!--{name}-->", value)
    return page


def _file(name: str) -> str:
    from importlib import resources  # costs start-up time

    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
