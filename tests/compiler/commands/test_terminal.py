"""A comparison on a screen: it fits, it has colours where they are wanted, and a pipe gets plain text."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from relayvm.compiler.commands.compare_terminal import draw, show
from relayvm.compiler.comparison.compare import Case, Comparison, Method
from relayvm.vm.report.profile_report import Profile
from relayvm.vm.report.series import Key, Series
from relayvm.vm.runtime.tracing.trace_events import DTOH, KERNEL


def profile(exp_ns: int, copies: int) -> Profile:
    def times(ns: int) -> tuple[int, ...]:
        return tuple(ns + i for i in range(12))

    series = [Series(Key(KERNEL, "exp [fused]", "some_program.relay:12"), (1,) * 12, times(exp_ns), (0,) * 12)]
    if copies:
        reason = "[memcpy DtoH] dyn.strided_slice: input 'data' is copied because another input is data-dependent"
        series.append(Series(Key(DTOH, reason, "some_program.relay:345"), (1,) * 12, times(70), (8000,) * 12))
    config = {"data_dependence": "op" if copies else "input"}
    return Profile("sim", "main", config, times(2 * exp_ns), ({"dtoh_copies": copies},) * 12, (), (), (), tuple(series))


FOUND = Comparison(("a", "b"), (Case("", (profile(1000, 1), profile(900, 0))),), Method(12))


def drawn(width: int, found: Comparison = FOUND, **options: Any) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False, **options)
    draw(found, console, profiles=False)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [60, 80, 100, 140, 200])
def test_it_fits(width: int) -> None:
    text = drawn(width)
    assert max(map(len, text.splitlines())) <= width
    assert "The results of A and B agree." in text and "wall time" in text and "exp [fused]" in text
    assert (("95 % interval" in text), ("B - A" in text)) == (width >= 80, width >= 100)
    assert "[memcpy DtoH] calls" in text, "names of figures are whole"
    assert ("is data-dependent" in text) == (width >= 200), "a long reason is cut"


def test_four_sides_fit_in_eighty_columns() -> None:
    four = Comparison(
        ("op", "relay", "input", "input_place"), (Case("", tuple(profile(1000 + i, i % 2) for i in range(4))),), Method(12)
    )
    text = drawn(80, four)
    assert max(map(len, text.splitlines())) <= 80
    assert "input_place" in text and "[memcpy DtoH] calls" in text and text.count("vs op") == 2, "once in each table"


def test_colours_only_where_they_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[1;32m" in drawn(140, force_terminal=True, color_system="standard"), "green: faster"
    monkeypatch.setenv("NO_COLOR", "1")
    assert "32m" not in drawn(140, force_terminal=True, color_system="standard")


def test_a_pipe_gets_plain_text(capsys: pytest.CaptureFixture[str]) -> None:
    show(FOUND)
    out = capsys.readouterr().out
    assert out == str(FOUND) + "\n" and "\x1b" not in out and "is data-dependent" in out
