"""Every mistake has one text, kept in a file beside the program that has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from relayvm.compiler.text.parser import parse, parse_expr, read_source
from relayvm.vm.diagnostics.source import FileError, ParseError, SourceText

from ...golden_texts import Golden

FOLDER = Path(__file__).with_name("errors")
PROGRAMS = sorted(FOLDER.glob("*.relay"))


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.stem)
def test_mistake(path: Path, golden: Golden) -> None:
    with pytest.raises(ParseError) as raised:
        parse(SourceText(path.name, path.read_text()))
    golden.check(path.with_suffix(".txt"), f"{raised.value}\n")


def test_every_text_has_its_program() -> None:
    assert len(PROGRAMS) >= 20
    assert {p.stem for p in FOLDER.glob("*.txt")} == {p.stem for p in PROGRAMS}


def test_places_are_in_order() -> None:
    with pytest.raises(ParseError) as raised:
        parse((FOLDER / "several.relay").read_text())
    starts = [d.span.start for d in raised.value.diagnostics if d.span is not None]
    assert len(starts) == 7 and starts == sorted(starts)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x7fELF\0\0", "is a binary file: it has a zero byte at offset 4"),
        (b"def \xff\xfe", "is no text: byte 0xff at offset 4 is not UTF-8"),
    ],
)
def test_files_that_are_no_text(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "x.relay"
    path.write_bytes(data)
    with pytest.raises(ParseError, match=message):
        read_source(path)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"cannot read .*No such file"):
        read_source(tmp_path / "none.relay")
    with pytest.raises(FileError, match=r"cannot read .*directory"):
        read_source(tmp_path)


def test_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    path = tmp_path / "x.relay"
    path.write_bytes(b'\xef\xbb\xbf#[version = "0.0.5"]\r\ndef @main(%x: int32) {\r\n  %x\r\n}\r\n')
    assert list(parse(read_source(path)).functions) == ["main"]


def test_expression_with_a_mistake() -> None:
    with pytest.raises(ParseError, match=r"unbound variable %x"):
        parse_expr("%x + 1f")
    with pytest.raises(ParseError, match=r"expected an expression, found the end of the text"):
        parse_expr("1 +")


@pytest.mark.parametrize("cut", range(0, 120, 7))
def test_a_cut_text_is_one_error(cut: int) -> None:
    text = (
        '#[version = "0.0.5"]\ndef @main(%x: Tensor[(?n, 4), float32]) -> (int32, float32) '
        "{ let %y = if (True) { sum(%x, axis=[0]) } else { 1f }; (1, %y) }"
    )
    with pytest.raises(ParseError):
        parse(text[:cut])


def test_a_text_that_is_too_long_for_the_name_of_a_file() -> None:
    with pytest.raises(ParseError):
        parse("(" * 500)
