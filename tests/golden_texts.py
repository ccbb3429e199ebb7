"""Golden texts: expected texts in files.  ``pytest --update`` writes the files anew; read the difference before you commit it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

#: Line between a program and the expected text in one file.
SEPARATOR = "// -----\n"


@dataclass(frozen=True)
class Case:
    """A file of a program, SEPARATOR, and the expected text.  ``options``: the items of a first line ``// name: value, ...``."""

    options: dict[str, str]
    program: str
    expected: str


def read_case(file: Path) -> Case:
    """The case in a file.  A new file may end before the separator: ``pytest --update`` writes the rest."""
    before, _, expected = file.read_text(encoding="utf-8").partition(SEPARATOR)
    first, _, program = before.partition("\n")
    if not first.startswith("// ") or ": " not in first.split(",")[0]:
        return Case({}, before, expected)
    return Case(dict(item.strip().split(": ") for item in first.removeprefix("//").split(",")), program, expected)


class Golden:
    """The check of texts against files.  ``update``: whether files that differ are written instead."""

    def __init__(self, update: bool) -> None:
        self.update = update

    def check(self, file: Path, text: str) -> None:
        """The text must be the file's.  Raises AssertionError."""
        self._check(file, "", file.read_text(encoding="utf-8") if file.exists() else "", text)

    def check_case(self, file: Path, text: str, is_equal: Callable[[str], bool] | None = None) -> None:
        """The text must be the expected text of a file's case, or ``is_equal(expected)`` hold.  Raises AssertionError."""
        before, _, expected = file.read_text(encoding="utf-8").partition(SEPARATOR)
        if is_equal is None or not expected or not is_equal(expected):
            self._check(file, before + SEPARATOR, expected, text)

    def _check(self, file: Path, before: str, expected: str, text: str) -> None:
        if text == expected:
            return
        if not self.update:
            assert text == expected, f"{file} differs; `pytest --update` writes it"
        file.write_text(before + text, encoding="utf-8")


def add_option(parser: pytest.Parser) -> None:
    """``--update``; called by ``conftest``."""
    parser.addoption("--update", action="store_true", help="write the files of expected texts anew (see tests/golden_texts.py)")


@pytest.fixture(scope="session")
def golden(request: pytest.FixtureRequest) -> Golden:
    """The golden texts of this run."""
    return Golden(request.config.getoption("--update"))
