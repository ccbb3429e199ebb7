"""Profiles with views, exports and a reader of their JSON form."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from ...ops.native.compiled.kernel_store import Use
from ..bytecode.executable import FloatProduct
from ..diagnostics.argument_errors import a_text
from ..diagnostics.source import InputError, SourceText
from ..inspection.figures import time_text
from ..values.notebook import notebook_html
from .export_html import html_page
from .export_text import csv_text, markdown
from .export_trace import chrome_trace
from .profile_data import SCHEMA, CopyRow, Moment, ProfileData, Row, Site
from .profile_views import view
from .series import Series


class Profile(ProfileData):
    """Measurements of the runs of one program on one device: the fields of ``ProfileData``, and texts.

    ``str`` gives a text in the format of nvprof.
    """

    # ---- showing -------------------------------------------------------------------------------------------------------

    def view(self, name: str = "nvprof") -> str:
        """The profile as text, in a view of ``profile_views.VIEWS``.  Raises InputError, which lists the views, for another."""
        return view(self, name)

    def __str__(self) -> str:
        return self.view()

    def __repr__(self) -> str:
        return f"<Profile of @{self.entry} on {self.device}: {self.runs} runs, median {time_text(self.median_ns)}>"

    def _repr_html_(self) -> str:
        return notebook_html(str(self))

    def to_csv(self) -> str:
        """CSV with a line per site and all figures."""
        return csv_text(self)

    def to_markdown(self) -> str:
        """The tables as Markdown."""
        return markdown(self)

    def to_chrome_trace(self) -> str:
        """The timeline for Perfetto and chrome://tracing, as JSON text."""
        return json.dumps(chrome_trace([("", self)]))

    def to_html(self) -> str:
        """A self-contained HTML page."""
        return html_page([("", self)])

    @staticmethod
    def from_json(text: str) -> Profile:
        """The inverse of ``to_json``.  Raises InputError for any other text."""
        try:
            return Profile.from_data(json.loads(a_text(text, "from_json: the profile", "Path(file).read_text()")))
        except RecursionError as error:
            raise InputError("this is no profile: it is nested too deep") from error
        except json.JSONDecodeError as error:
            raise InputError(f"this is no profile: {error}") from error

    @staticmethod
    def from_data(data: Any) -> Profile:
        """The inverse of ``as_data``.  Raises InputError for other data."""
        if not isinstance(data, dict) or "schema" not in data:
            raise InputError("this is no profile: it has no schema")
        if data["schema"] != SCHEMA:
            raise InputError(f"this profile has the schema {data['schema']!r}; this version reads {SCHEMA}")
        try:
            return Profile(**{f.name: _read(f.name, data[f.name]) for f in dataclasses.fields(Profile)})
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(f"this profile is damaged: {error}") from error


#: Constructors of the items of fields, for reading; the items of other lists are plain values.
_ITEMS: dict[str, Any] = {
    "activities": lambda d: Row(**d),
    "host": lambda d: Row(**d),
    "copies": lambda d: CopyRow(**d),
    "series": Series.from_data,
    "sites": lambda d: Site(**d),
    "timeline": lambda d: Moment(*d),
    "prepared": lambda d: Use(*d),
    "sources": lambda d: SourceText(**d),
    "float_products": lambda d: FloatProduct(**d),
}


def _read(name: str, value: Any) -> Any:
    if not isinstance(value, list):
        return value
    item = _ITEMS.get(name)
    return tuple(value if item is None else map(item, value))
