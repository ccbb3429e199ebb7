"""The text of errors: printable and bounded for any program, with carets under the source span."""

from __future__ import annotations

import pickle
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relayvm.compiler.text.parser import parse
from relayvm.vm.diagnostics.printable import LINE, MESSAGE, printable, shortened
from relayvm.vm.diagnostics.source import Diagnostic, ParseError, RelayError, SourceText, Span, VMError

from ...programs import HEADER

MOST = 64 << 10
#: Control characters of terminals, and invisible characters.
BAD = "\x1b\x07\x00\x7f\x9b\r\u202e\u2066\u200f\u2028\u2029\ufeff\u200b\xad\ud800\U000e0041\xa0"


def is_fit(text: str) -> bool:
    """Whether a terminal shows the text unchanged."""
    return len(text) <= MOST and all(c.isprintable() or c == "\n" for c in text)


@pytest.mark.parametrize("bad", BAD)
def test_no_character_that_a_terminal_obeys(bad: str) -> None:
    source = SourceText(f"a{bad}b.relay", f"{bad} {bad}x")
    note = (f"note{bad}", Span(source, 0, 1))
    text = str(RelayError(Diagnostic(f"is {bad}", Span(source, 3, 4), (note,), f"help {bad}")))
    assert is_fit(text)
    wanted = repr(bad)[1:-1]
    assert text.splitlines()[0] == f"error: is {wanted}"
    line, carets = text.splitlines()[3:5]
    assert carets.index("^") == line.rindex("x"), "the caret stands under the character"


def test_a_program_with_an_escape_sequence() -> None:
    with pytest.raises(ParseError) as raised:
        parse(HEADER + "def @main() { \x1b[31m }")
    assert str(raised.value) == (
        "error: unexpected character '\\x1b'\n --> <string>:2:15\n  |\n2 | def @main() { \\x1b[31m }\n  |               ^^^^"
    )


def test_wide_characters_and_combining_marks() -> None:
    for word in ("漢字", "e\N{COMBINING ACUTE ACCENT}", "\N{GRINNING FACE}"):
        source = SourceText("x", f"{word} y")
        line, carets = Span(source, len(word) + 1, len(word) + 2).render().splitlines()[2:]
        columns = sum(2 if unicodedata.east_asian_width(c) == "W" else not unicodedata.combining(c) for c in word)
        assert carets == "  | " + " " * (columns + 1) + "^" and line.endswith(" y")


def test_of_a_long_line_the_surroundings() -> None:
    source = SourceText("x", "a" * 40_000 + "!" + "b" * 30_000)
    line, carets = Span(source, 40_000, 40_001).render().splitlines()[2:]
    assert len(line) == len("1 | ") + LINE + 2 and line[4] == line[-1] == "…"
    assert carets.index("^") == line.index("!") and carets.count("^") == 1
    whole = Span(source, 0, 70_001).render()
    assert whole.count("^") == LINE


def test_a_thousand_mistakes_on_one_line() -> None:
    with pytest.raises(ParseError) as raised:
        parse(HEADER + "def @main() { (" + ", ".join(f"%x{i}" for i in range(1000)) + ") }")
    assert len(raised.value.diagnostics) == 1000
    text = str(raised.value)
    assert len(text) < 16_000 and text.endswith("\n\nerror: 980 more mistakes are not shown")


def test_a_long_message() -> None:
    text = shortened("x" * 10_000)
    assert len(text) < MESSAGE + 50 and "[8000 characters left out]" in text
    error = RelayError("\x1b" * 10**6, help="h" * 10**6)
    assert is_fit(str(error))


anything = st.text(max_size=300) | st.sampled_from(BAD).map(lambda c: c * 5000)


@given(anything, anything, st.integers(0, 400), st.integers(0, 400), st.integers(1, 60))
def test_every_text_is_fit(text: str, message: str, start: int, width: int, count: int) -> None:
    span = Span(SourceText(message, text), min(start, len(text)), min(start + width, len(text)))
    error = RelayError([Diagnostic(message, span, ((message, span),) * count, message)] * count)
    assert is_fit(str(error))


@given(st.text())
def test_printable_says_all(text: str) -> None:
    assert is_fit(printable(text))
    assert (printable(text) == text) == all(c.isprintable() or c == "\n" for c in text)


def test_an_error_of_another_process() -> None:
    error = VMError(Diagnostic("m", Span(SourceText("f", "text"), 1, 2), help="h"))
    error.status = 7
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.diagnostics, again.status) == (VMError, str(error), error.diagnostics, 7)
