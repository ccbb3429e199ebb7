"""Strings and comments are those that Python's own tokenizer finds."""

from __future__ import annotations

import io
import sys
import tokenize
from pathlib import Path

import pytest

from .python_tokens import names_of, strings_and_comments

HERE = Path(__file__).parent
#: A source with each kind of string, and quotes and number signs where they mean nothing.
EDGES = '''"""A 'b' # "c"."""
x = r"\\d" + rb'\\'' + f"{x!r}#" + u'' + "" + """a\\"""""" # d "e"
y = 'it\\'s' "#" \\
    "\\\\" + x["#"] + """
# no comment
"""  #: last'''


def by_python(text: str) -> list[tuple[int, str]]:
    """Line and text of each string and comment."""
    wanted = (tokenize.STRING, tokenize.COMMENT)
    return [(t.start[0], t.string) for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type in wanted]


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="f-strings are several tokens there")
@pytest.mark.parametrize("text", [EDGES, *(path.read_text() for path in sorted(HERE.glob("*.py")))])
def test_those_of_the_tokenizer(text: str) -> None:
    assert list(strings_and_comments(text)) == by_python(text)


def test_edges() -> None:
    assert [token for _, token in strings_and_comments(EDGES)][-3:] == ['"#"', '"""\n# no comment\n"""', "#: last"]


@pytest.mark.parametrize("text", [EDGES, *(path.read_text() for path in sorted(HERE.glob("*.py")))])
def test_names_are_those_of_the_tokenizer_and_of_fields(text: str) -> None:
    names = {t.string for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type == tokenize.NAME}
    assert names <= names_of(text)


def test_names_of_fields() -> None:
    assert names_of("x = f'{a[\"b\"].c} {{d}} {e!r}' + 'f'  # g") == {"x", "a", "c", "e", "r"}
