"""Every error has a code: declared once, with an example that has it, and shown to programs by ``--json``."""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import relayvm as relay
from relayvm.compiler.commands import cli
from relayvm.compiler.docs.error_pages import errors_markdown, example_error
from relayvm.ops.native import status
from relayvm.vm.diagnostics.codes import Code, Run, codes, families, of_status
from relayvm.vm.diagnostics.source import Diagnostic, RelayError

from .test_bad_input import FOLDER, make_workspace

ROOT = Path(__file__).resolve().parents[2]


def kinds(base: type[RelayError] = RelayError) -> Iterator[type[RelayError]]:
    yield base
    for kind in base.__subclasses__():
        yield from kinds(kind)


def test_codes_are_unique_and_listed() -> None:
    listed = [str(code) for code in codes()]
    assert len(set(listed)) == len(listed) == sum(len(family.__members__) for family in families()), (
        "no member is another's alias"
    )
    assert set(families()) == set(Code.__subclasses__())
    assert all(f"### {code}\n" in errors_markdown() for code in listed[:3])


def test_every_class_of_error_has_a_code() -> None:
    for kind in kinds():
        assert kind.kind in list(codes()), kind
        assert kind("words").code == str(kind("words").diagnostics[0].code) == str(kind.kind)


def test_every_status_of_the_machine_has_a_code() -> None:
    assert {of_status(n) for n in status.STATUS if n != status.OK} == set(Run) - {Run["FAILED"]}
    assert of_status(12345) is Run["FAILED"]


@pytest.mark.parametrize("code", [c for c in codes() if c.example], ids=str)
def test_the_example_has_the_code(code: Code) -> None:
    assert example_error(code).code == str(code)


def test_every_code_is_used() -> None:
    used: set[str] = set()
    maybe_used = re.compile("|".join({rf"\b{type(c).__name__}\.{c.name}\b" for c in codes()}))
    for layer in ("compiler", "vm", "serving"):
        for path in (ROOT / layer).rglob("*.py"):
            text = path.read_text("utf-8")
            if not maybe_used.search(text):
                continue  # the walk over the tree takes a hundred times as long
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute):
                    used.add(f"{node.value.attr}.{node.attr}")
    unused = [c for c in codes() if type(c) is not Run and f"{type(c).__name__}.{c.name}" not in used]
    assert unused == []


def test_codes_are_written_nowhere_else() -> None:
    """A code in a message, test or table would be typed a second time."""
    texts = {
        path: path.read_text("utf-8") for layer in ("compiler", "vm", "ops", "serving") for path in (ROOT / layer).rglob("*.py")
    }
    allowed = {ROOT / "vm/diagnostics/codes.py", ROOT / "compiler/docs/error_pages.py"}
    assert [(p.name, str(c)) for p, text in texts.items() if p not in allowed for c in codes() if f'"{c}"' in text] == []


def test_a_diagnostic_takes_the_code_of_the_error() -> None:
    error = relay.ParseError([Diagnostic("a"), Diagnostic("b", code=relay.VMError.kind)])
    assert [str(d.code) for d in error.diagnostics] == [str(relay.ParseError.kind), str(relay.VMError.kind)]


# ---- as JSON -------------------------------------------------------------------------------------------------------------

COMMANDS = [p.read_text().splitlines()[0].removeprefix("$ relayvm ") for p in sorted(FOLDER.glob("*.txt"))]
COMMANDS = [c for c in COMMANDS if not c.startswith(">>>") and not c.startswith("compare ")]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("codes")
    make_workspace(folder)
    return folder


def test_every_failure_is_json(workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(workspace)
    seen: Counter[str] = Counter()
    for line in COMMANDS:
        plain = int(cli.main(shlex.split(line)))
        words = capsys.readouterr().err
        exit_code = int(cli.main([*shlex.split(line), "--json"]))
        out, err = capsys.readouterr()
        data = json.loads(out)
        assert err == "" and exit_code == data["exit_code"] == plain != 0, line
        for error in data["errors"]:
            assert set(error) == {"code", "message", "file", "line", "column", "notes", "help"}, line
            assert error["code"] in set(map(str, codes())) and error["message"] in words.replace("\n", " ").replace("  ", " "), (
                line
            )
            if error["line"] is not None:
                assert f"{error['file']}:{error['line']}:{error['column']}" in words, line
            seen[error["code"]] += 1
    assert len(seen) >= 20, seen


def test_mistakes_of_ours_and_interrupts_are_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for error, exit_code in ((ZeroDivisionError("words"), 70), (KeyboardInterrupt(), 130), (MemoryError(), 8)):

        def fails(*_: object, error: BaseException = error, **__: object) -> None:
            raise error

        monkeypatch.setattr(cli.command, "main", fails)
        assert cli.main(["run", "x", "--json"]) == exit_code
        out, err = capsys.readouterr()
        (told,) = json.loads(out)["errors"]
        assert err == "" and told["code"].startswith("process/")
        assert cli.main(["run", "x", "--", "--json"]) == exit_code
        assert told["message"] in capsys.readouterr().err


def test_words_of_the_command_line_are_printable(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "a.relay", "--\x1b[31mno"]) != 0
    assert "\x1b" not in capsys.readouterr().err
    assert cli.main(["run", "\x1b[31m\u202e.relay"]) != 0
    assert "\\x1b[31m\\u202e.relay" in capsys.readouterr().err
