"""`relayvm compare`: sides, cases, saved profiles, conditions, files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from relayvm.compiler.commands.cli import main
from relayvm.compiler.commands.terminal.exit_codes import ExitCode

from .answers import answer, data

SIDES = ("--a", "data_dependence=op,place=off", "--b", "data_dependence=input,place=off", "--device", "sim", "--repeat", "2")
SLICED = ("slice.relay", "--shape", "x=1000,4", "--input", "end=int64[1]=10")


def test_compare(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ("compare", *SLICED, *SIDES)
    found = data(capsys, *args)
    rows = {d["name"]: d for d in found["cases"][0]["differences"]}
    assert rows["[memcpy DtoH] bytes"]["values"] == [16000 + 8, 8] and rows["[memcpy DtoH] calls"]["values"] == [2, 1]
    assert (found["sides"], found["method"]["rounds"], found["results_agree"]) == (["a", "b"], 2, True)
    text = answer(capsys, *args)
    a, b, *_ = text.split("\n\n")
    assert all("[memcpy DtoH]" in block and "[memcpy HtoD]" in block for block in (a, b))
    assert "dyn.strided_slice: input 'end' is data-dependent" in b
    assert a not in answer(capsys, *args, "--no-profiles")


def test_compare_on_the_host_has_no_rows_of_copies(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = answer(
        capsys, "compare", "rows.relay", "--a", "fuse=on,opt_level=2", "--b", "fuse=off", "--dim", "n=3", "--repeat", "1"
    )
    assert "memcpy" not in text and "syncs" not in text and "launches" in text


def test_compare_devices_and_executables(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def sides(*args: str) -> Any:
        return data(capsys, "compare", *args, "--dim", "n=3", "--repeat", "1")["cases"][0]["profiles"]

    assert [p["device"] for p in sides("rows.relay", "--a", "device=cpu", "--b", "device=sim")] == ["cpu", "sim"]
    for name in ("on", "off"):
        answer(capsys, "compile", "rows.relay", "-o", f"{name}.rvm", "--config", f"fuse={name}")
    assert [p["config"]["fuse"] for p in sides("on.rvm", "off.rvm")] == ["on", "off"]
    assert [p["config"]["fuse"] for p in sides("on.rvm", "off.rvm", "on.rvm")] == ["on", "off", "on"]
    named = ("rows.relay", "--side", "fused:fuse=on", "--side", "apart:fuse=off", "--side", "plain:opt_level=0")
    assert [p["config"]["opt_level"] for p in sides(*named)] == ["2", "2", "0"]


def test_compare_cases_and_preset(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ("slice.relay", "--input", "end=int64[1]=1", "--device", "sim", "--repeat", "1", "--preset", "data-dependence")
    found = data(capsys, "compare", *args, "--shapes", "x=1,4", "--shapes", "x=100,4")
    assert found["sides"] == ["op", "relay", "input", "input_place"]
    assert [c["name"] for c in found["cases"]] == ["x=1,4", "x=100,4"]
    for case, rows in zip(found["cases"], (1, 100), strict=True):
        figures = {d["name"]: d["values"] for d in case["differences"]}
        assert figures["[memcpy DtoH] bytes"] == [16 * rows + 8, 8, 8, 0]
    assert {m["name"] for m in found["geometric_means"]} >= {"wall time", "kernels time"}
    assert "geometric mean over 2 cases" in answer(capsys, "compare", *args, "--shapes", "x=1,4", "--shapes", "x=0,4")


def test_sides_with_files_of_their_own_have_the_names_of_the_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("again.relay").write_text(Path("rows.relay").read_text())
    both = ("compare", "rows.relay", "again.relay", "--dim", "n=3", "--repeat", "1")
    for more in ((), ("--brief",)):
        assert "\n  A: rows.relay, fuse=off\n  B: again.relay, fuse=on\n" in answer(capsys, *both, "--a", "fuse=off", *more)
        assert "\n  A: rows.relay\n  B: again.relay\n" in answer(capsys, *both, *more)
    assert json.loads(answer(capsys, *both, "--json"))["files"] == ["rows.relay", "again.relay"]
    assert "\n  A: as the others\n" in answer(capsys, "compare", "rows.relay", "--dim", "n=3", "--repeat", "1")


def test_the_help_names_the_default_tolerances_of_both_forms(capsys: pytest.CaptureFixture[str]) -> None:
    text = " ".join(answer(capsys, "compare", "--help").split())
    assert "Relative tolerance of floats; default 1e-05, more for 16 bits; with --against 0.001." in text
    assert "default 1e-06 of the output's largest value; with --against 0.001." in text
    assert "--against" not in answer(capsys, "run", "--help")


def test_compare_saved_profiles(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for n in (2, 500):
        text = answer(capsys, "profile", "rows.relay", "--dim", f"n={n}", "--device", "sim", "--repeat", "5", "--json")
        Path(f"{n}.json").write_text(text)
    found = data(capsys, "compare", "2.json", "500.json")
    rows = {d["name"]: d["values"] for d in found["cases"][0]["differences"]}
    assert rows["[memcpy HtoD] bytes"] == [2 * 16 + 4, 500 * 16 + 4] and found["results_agree"] is None
    assert main(["compare", "2.json", "500.json", "--fail-if", "b.htod_bytes > a.htod_bytes"]) == ExitCode.CHECK
    assert "holds (8004 > 36)" in capsys.readouterr().err
    Path("bad.json").write_text("{}")
    for args, words, code in [
        (["2.json"], "two saved profiles", ExitCode.USAGE),
        (["2.json", "rows.relay"], "saved profiles are compared with each other", ExitCode.USAGE),
        (["2.json", "500.json", "--a", "fuse=off"], "saved profiles are compared with each other", ExitCode.USAGE),
        (["2.json", "bad.json"], "this is no profile", ExitCode.INPUT),
        (["2.json", "missing.json"], "cannot read missing.json", ExitCode.FILE),
    ]:
        assert main(["compare", *args]) == code
        assert words in capsys.readouterr().err


def test_fail_if(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ["compare", *SLICED, *SIDES, "--fail-if"]
    assert main([*args, "b.dtoh_bytes > 8", "--fail-if", "b.dtoh_copies > a.dtoh_copies"]) == 0
    assert capsys.readouterr().err == ""
    assert main([*args, "b.dtoh_bytes > 0", "--fail-if", "a.dtoh_copies >= 2 * b.dtoh_copies"]) == ExitCode.CHECK
    out, err = capsys.readouterr()
    assert "wall time" in out, "the table is there to see why"
    assert err.splitlines() == [
        "fail-if: b.dtoh_bytes > 0 holds (8 > 0)",
        "fail-if: a.dtoh_copies >= 2 * b.dtoh_copies holds (2 >= 2)",
    ]
    assert main([*args, "c.time > 0"]) == 2
    assert "there is no side 'c'; the sides are a, b" in capsys.readouterr().err


def test_compare_writes_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ("compare", *SLICED, *SIDES)
    answer(capsys, *args, "--json-out", "c.json", "--html", "c.html", "--trace", "c.trace.json")
    assert json.loads(Path("c.json").read_text())["sides"] == ["a", "b"]
    events = json.loads(Path("c.trace.json").read_text())["traceEvents"]
    names = {e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert {n.partition(":")[0] for n in names} == {"a", "b"}
    assert "wall time" in Path("c.html").read_text(encoding="utf-8")
    assert main([*args, "--html", "no/such/folder.html"]) == ExitCode.FILE
    assert "cannot write no/such/folder.html" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--preset", "data-dependence", "--a", "fuse=off"], "no --a to --d"),
        (["--preset", "data"], "'data' is not"),
        (["--side", "x:fuse=off"], "one side is no comparison"),
        (["--side", "fuse=off"], "is not of the form NAME:KEY=VALUE"),
        (["--side", "not:fuse=off"], "is not of the form"),
        (["--side", "a:fuse=off"], "there are two sides 'a'"),
        (["--side", "x:fuse"], "is not of the form KEY=VALUE"),
        (["--shapes", "x"], "is not of the form NAME=5,4"),
        (["--shapes", "n=1", "--shapes", "?n=1"], "is given twice"),
        (["rows.relay", "--c", "fuse=off"], "2 files for 3 sides"),
        (["rows.relay"] * 4, "5 files are too many"),
        (["--fail-if", "b.time"], "must be a comparison"),
    ],
)
def test_how_compare_is_not_used(folder: Path, capsys: pytest.CaptureFixture[str], args: list[str], words: str) -> None:
    assert main(["compare", "rows.relay", *args]) == 2
    assert words in capsys.readouterr().err


def test_results_that_differ_end_with_3(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.relay").write_text('#[version = "0.0.5"]\ndef @main(%x: Tensor[(3), float32]) { (%x, %x * 2f) }\n')
    Path("b.relay").write_text('#[version = "0.0.5"]\ndef @main(%x: Tensor[(3), float32]) { (%x, %x * 2.001f) }\n')
    assert main(["compare", "a.relay", "b.relay", "--input", "x=float32[3]=0,1,2", "--json"]) == ExitCode.DIFFERENT
    (error,) = json.loads(capsys.readouterr().out)["errors"]
    want = "the results of A and B differ: result.1, float32[3]: 2 of 3 elements, the first at [1]: 2.0 in A, 2.00"
    assert error["code"] == "results/differ" and error["message"].startswith(want)


def test_tolerance_and_expected_results(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.relay").write_text('#[version = "0.0.5"]\ndef @main(%x: Tensor[(3), float32]) { (%x, %x * 2f) }\n')
    Path("b.relay").write_text('#[version = "0.0.5"]\ndef @main(%x: Tensor[(3), float32]) { (%x, %x * 2.001f) }\n')
    args = ["compare", "a.relay", "b.relay", "--input", "x=float32[3]=0,1,2", "--repeat", "1"]
    assert main([*args, "--rtol", "0=1e-2"]) == ExitCode.DIFFERENT
    assert "allowed: rtol 1e-05, atol 1e-06 of the largest value" in capsys.readouterr().err
    text = answer(capsys, *args, "--rtol", "1=1e-3", "--no-profiles")
    assert "agree: 0: rtol 1e-05, atol 1e-06 of the largest value; 1: rtol 0.001, atol" in text
    assert "rtol 0.01" in data(capsys, *args, "--rtol", "1e-2")["method"]["tolerance"]
    answer(capsys, "run", "a.relay", *args[3:5], "-o", "want.npz")
    assert main([*args, "--rtol", "1e-2", "--expected", "want.npz"]) == 0
    assert main([*args, "--expected", "want.npz"]) == ExitCode.UNEXPECTED
    assert "the results of B are not those of want.npz: result.1" in capsys.readouterr().err
    assert main([*args, "--expected", "want.npz", "--shapes", "x=3", "--shapes", "x=2"]) == ExitCode.USAGE
