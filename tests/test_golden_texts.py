"""``pytest --update`` writes the files of expected texts; without it a file that differs fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .golden_texts import SEPARATOR, Golden, read_case

CONFTEST = f"""
import sys

sys.path.insert(0, {str(Path(__file__).parent)!r})
from golden_texts import add_option, golden


def pytest_addoption(parser):
    add_option(parser)
"""
TEST = """
from pathlib import Path


def test_text(golden):
    golden.check(Path(__file__).with_name("text.txt"), "found\\n")


def test_case(golden):
    golden.check_case(Path(__file__).with_name("case.relay"), "after\\n")
"""


def test_the_option_writes_and_without_it_a_wrong_file_fails(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_texts.py").write_text(TEST)
    text, case = tmp_path / "text.txt", tmp_path / "case.relay"
    text.write_text("wrong\n")
    case.write_text(f"before\n{SEPARATOR}wrong\n")

    def run(*options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), *options, "."]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    failed = run()
    assert failed.returncode == pytest.ExitCode.TESTS_FAILED and "2 failed" in failed.stdout
    assert "`pytest --update` writes it" in failed.stdout and text.read_text() == "wrong\n"
    assert "2 passed" in run("--update").stdout
    assert (text.read_text(), case.read_text()) == ("found\n", f"before\n{SEPARATOR}after\n")
    assert "2 passed" in run().stdout


def test_a_file_is_written_only_where_it_differs(tmp_path: Path) -> None:
    file = tmp_path / "a.relay"
    file.write_text("before\n")
    Golden(update=True).check_case(file, "after\n")
    assert file.read_text() == f"before\n{SEPARATOR}after\n"
    Golden(update=True).check_case(file, "equal\n", is_equal=lambda expected: expected == "after\n")
    assert file.read_text() == f"before\n{SEPARATOR}after\n"
    with pytest.raises(AssertionError, match=r"a\.relay differs"):
        Golden(update=False).check_case(file, "equal\n")
    Golden(update=True).check(tmp_path / "new.txt", "text")
    assert (tmp_path / "new.txt").read_text() == "text"


def test_options_of_a_case(tmp_path: Path) -> None:
    file = tmp_path / "a.relay"
    file.write_text(f"// target: sim, fuse: off\nprogram\n{SEPARATOR}after\n")
    case = read_case(file)
    assert (case.options, case.program, case.expected) == ({"target": "sim", "fuse": "off"}, "program\n", "after\n")
    file.write_text("// a comment, and no options\nprogram\n")
    assert read_case(file).program == "// a comment, and no options\nprogram\n" and read_case(file).options == {}
