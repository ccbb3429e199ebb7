"""The command line: what each command prints, and how it ends."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from relayvm.compiler import cli
from relayvm.compiler.cli import main
from relayvm.compiler.docs import FOLDER as PAGES_FOLDER
from relayvm.compiler.docs import PAGES
from relayvm.compiler.operator_pages import operators
from relayvm.compiler.profile_terminal import draw
from relayvm.compiler.progress import compile_progress
from relayvm.ops.native import store
from relayvm.vm.executable import DEVICES as ALL_DEVICES
from relayvm.vm.isa import INSTRUCTIONS
from relayvm.vm.report.profile_data import Profile

from ..devices import DEVICES, HOST

ROOT = Path(__file__).resolve().parents[2]

ROWS = """#[version = "0.0.5"]
def @main(%x: Tensor[(?n, 4), float32], %wanted: float32) {
  let %rows = squeeze(argwhere(greater(sum(%x, axis=[1]), %wanted)), axis=[1]);
  (take(%x, %rows, axis=0), sum(%x))
}
def @double(%k: Tensor[(?), int32]) { %k + %k }
"""
SLICE = """#[version = "0.0.5"]
def @main(%x: Tensor[(?, 4), float32], %end: Tensor[(1), int64]) {
  dyn.strided_slice(exp(%x), zeros(shape=[1], dtype="int64"), %end, ones(shape=[1], dtype="int64"))
}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.relay").write_text(ROWS)
    (tmp_path / "slice.relay").write_text(SLICE)
    return tmp_path


def answer(capsys: pytest.CaptureFixture[str], *args: str, code: int = 0) -> str:
    """What a command prints on standard output; nothing may be on standard error."""
    capsys.readouterr()
    ended = main(args)
    out, err = capsys.readouterr()
    assert (ended, err) == (code, "")
    return out


def data(capsys: pytest.CaptureFixture[str], *args: str) -> Any:
    return json.loads(answer(capsys, *args, "--json"))


# ---- run ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("n", [0, 1, 7])
def test_run(folder: Path, capsys: pytest.CaptureFixture[str], device: str, n: int) -> None:
    x = np.random.default_rng(1).normal(size=(n, 4)).astype("float32")
    np.savez("in.npz", x=x, other=x[:0])
    got = data(
        capsys, "run", "rows.relay", "--input", "x=@in.npz:x", "--input", "wanted=0.5", "--device", device, "-o", "out.npz"
    )
    want = x[x.sum(axis=1) > np.float32(0.5)]
    assert (got["entry"], got["device"]) == ("main", device)
    assert [r["path"] for r in got["results"]] == ["0", "1"]
    first = got["results"][0]
    assert (first["shape"], first["dtype"], first["device"]) == (list(want.shape), "float32", device)
    np.testing.assert_array_equal(np.array(first["values"], "float32").reshape(want.shape), want)
    assert got["counters"]["launches"] > 0 and isinstance(got["kernel_compiles"], int)
    # only the number of rows comes to the host; that the results are read afterwards is no part of the run
    assert got["counters"]["dtoh_bytes"] == (0 if device == HOST else 8)
    assert set(got["seconds"]) == {"prepare", "run"} and all(s >= 0 for s in got["seconds"].values())
    with np.load("out.npz") as saved:
        np.testing.assert_array_equal(saved["result_0"], want)
        assert saved["result_1"].shape == ()


def test_run_text(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = answer(capsys, "run", "rows.relay", "--entry", "double", "--input", "k=int32[3]=1,2,3")
    assert text.startswith("result: int32[3] on cpu\n[2, 4, 6]\n@double on cpu: ")
    assert re.search(r"\d+ kernels compiled\nlaunches 1, ", text)


def test_large_results_are_abbreviated(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ("run", "rows.relay", "--entry", "double", "--shape", "k=1000")
    assert data(capsys, *args)["results"][0]["values"] is None
    assert "..." in answer(capsys, *args)


def test_what_is_no_number_is_still_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("log.relay").write_text('#[version = "0.0.5"]\ndef @main(%x: Tensor[(2), float32]) { log(%x) }\n')
    text = answer(capsys, "run", "log.relay", "--input", "x=float32[2]=0,-1", "--json")
    assert json.loads(text, parse_constant=pytest.fail)["results"][0]["values"] == ["-inf", "nan"]


def test_drawn_inputs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def values(*args: str) -> Any:
        return [r["values"] for r in data(capsys, "run", "rows.relay", "--dim", "n=5", *args)["results"]]

    assert values() == values("--seed", "0") != values("--seed", "1")
    low, high = values("--input", "wanted=-100"), values("--input", "wanted=100")
    assert np.shape(low[0]) == (5, 4) and np.size(high[0]) == 0
    assert low[1] == values()[1], "an input that is given leaves the others as they were"
    assert values("--shape", "x=5,4") == values()


def test_sizes_follow_from_values(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("two.relay").write_text(
        '#[version = "0.0.5"]\ndef @main(%x: Tensor[(?n), int32], %y: Tensor[(?n), int32]) { %x + %y }\n'
    )
    got = data(capsys, "run", "two.relay", "--input", "y=int32[6]=100")
    assert got["results"][0]["shape"] == [6] and all(100 <= v <= 109 for v in got["results"][0]["values"])


@pytest.mark.parametrize(
    ("dtype", "given", "value"),
    [("float32", "1.5", 1.5), ("int8", "-3", -3), ("bool", "true", True), ("uint64", "18446744073709551615", 2**64 - 1)],
)
def test_inputs_of_any_dtype(folder: Path, capsys: pytest.CaptureFixture[str], dtype: str, given: str, value: Any) -> None:
    program = f'#[version = "0.0.5"]\ndef @main(%x: {dtype}, %pair: (Tensor[(?), {dtype}], bool)) {{ (%x, %pair.0) }}\n'
    Path("any.relay").write_text(program)
    np.save("pair.npy", np.array([value, value], np.dtype(dtype).newbyteorder(">")))
    got = data(capsys, "run", "any.relay", "--input", f"x={given}", "--input", "pair.0=@pair.npy")
    assert [r["values"] for r in got["results"]] == [value, [value, value]]
    assert {r["dtype"] for r in got["results"]} == {dtype}


# ---- compile, dump ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
def test_an_executable_runs_as_its_text(folder: Path, capsys: pytest.CaptureFixture[str], device: str) -> None:
    made = data(capsys, "compile", "rows.relay", "-o", "rows.rvm", "--device", device, "--config", "fuse=off")
    assert made["bytes"] == (folder / "rows.rvm").stat().st_size and made["config"]["fuse"] == "off"
    stored = data(capsys, "run", "rows.rvm", "--dim", "n=5", "--config", "fuse=off", "--device", device)
    text = data(capsys, "run", "rows.relay", "--dim", "n=5", "--config", "fuse=off", "--device", device)
    for key in ("results", "device", "config"):
        assert stored[key] == text[key]
    assert "rows.rvm: " in answer(capsys, "compile", "rows.relay", "-o", "rows.rvm")


@pytest.mark.parametrize(
    ("stage", "parts"),
    [
        ("parsed", ["def @main(%x: Tensor[(?n, 4), float32]", "argwhere("]),
        ("typed", ["/* ty=Tensor[(?n", "bool] */"]),
        ("fused", ["Primitive=1"]),
        ("alloc", ["memory.alloc_storage", "vm.invoke_op(@"]),
        ("bytecode", ["InvokePacked", "Ret"]),
        ("kernels", ["# argwhere", "def kernel(argv, n):"]),
    ],
)
def test_dump(folder: Path, capsys: pytest.CaptureFixture[str], stage: str, parts: list[str]) -> None:
    text = answer(capsys, "dump", "rows.relay", "--stage", stage)
    assert all(part in text for part in parts)
    found = data(capsys, "dump", "rows.relay", "--stage", stage)
    assert (found["stage"], found["text"].rstrip("\n")) == (stage, text.rstrip("\n"))
    if stage in ("bytecode", "kernels"):
        answer(capsys, "compile", "rows.relay", "-o", "rows.rvm")
        assert answer(capsys, "dump", "rows.rvm", "--stage", stage) == text


def test_what_does_not_type_can_still_be_shown_as_parsed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.relay").write_text('#[version = "0.0.5"]\ndef @main(%x: float32, %y: int32) { add(%x, %y) }\n')
    assert "add(%x, %y)" in answer(capsys, "dump", "bad.relay", "--stage", "parsed")
    assert main(["dump", "bad.relay", "--stage", "typed"]) == 1


# ---- profile, compare -------------------------------------------------------------------------------------------------------


def test_explain(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = answer(capsys, "explain", "rows.relay", "--device", "sim", "--dim", "n=5")
    assert "%x, float32[?n, 4]; 16·?n = 80 bytes" in text
    assert "because: argwhere: the kernel reports the size of its result" in text
    assert "nothing: the kernel's count is data" in text
    options = ("--device", "sim", "--shape", "x=5,4", "--config", "strict_copies=on")
    found = data(capsys, "explain", "rows.relay", *options)
    assert found["sizes"] == {"n": 5} and found["config"]["strict_copies"] == "on"
    (count,) = [c for c in found["copies"] if c["kind"] == "count"]
    assert (count["exact_bytes"], count["op"], count["host_waits"]) == (8, "argwhere", True)
    answer(capsys, "compile", "rows.relay", "--device", "sim", "-o", "rows.rvm")
    assert data(capsys, "explain", "rows.rvm", "--shape", "x=5,4")["copies"] == found["copies"]
    assert data(capsys, "explain", "rows.relay", "--entry", "double")["copies"] == []


def test_profile(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ("profile", "rows.relay", "--dim", "n=9", "--device", "sim", "--repeat", "3")
    found = Profile.from_data(data(capsys, *args))
    assert (found.runs, found.device, found.total("dtoh").nbytes) == (3, "sim", 3 * 8)
    text = answer(capsys, *args)
    assert "sim activities:" in text and "argwhere: the kernel reports the size of its result" in text


@pytest.mark.parametrize("view", ["nvprof", "operators", "source", "memory", "copies"])
def test_profile_views(view: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = answer(capsys, "profile", "rows.relay", "--dim", "n=9", "--device", "sim", "--repeat", "1", "--view", view)
    assert text.startswith("Profile: @main on sim, ") and len(text.splitlines()) > 3


def test_profile_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = {"--json-out": "p.json", "--csv": "p.csv", "--markdown": "p.md", "--trace": "t.json", "--html": "p.html"}
    options = [word for pair in names.items() for word in pair]
    answer(capsys, "profile", "rows.relay", "--dim", "n=9", "--device", "sim", "--repeat", "2", "--warmup", "1", *options)
    written = {name: Path(name).read_text(encoding="utf-8") for name in names.values()}
    found = Profile.from_json(written["p.json"])
    assert (found.runs, found.warmup) == (2, 1)
    assert (written["p.csv"], written["p.md"]) == (found.to_csv(), found.to_markdown())
    assert (written["t.json"], written["p.html"]) == (found.to_chrome_trace(), found.to_html())
    assert main(["profile", "rows.relay", "--dim", "n=9", "--repeat", "1", "--html", "no/such/folder.html"]) == 1
    assert "cannot write no/such/folder.html: No such file or directory" in capsys.readouterr().err


def test_a_profile_on_a_terminal_is_cut_to_its_width() -> None:
    console = Console(width=40, force_terminal=True, color_system="standard", file=io.StringIO(), highlight=False)
    draw("Profile: @main on sim\n  5  " + "x" * 60 + "\n DtoH  [red]", console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert "\x1b[31m" in text and "[red]" in plain and all(len(line) <= 40 for line in plain.splitlines())


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


def test_compare_on_the_host_has_copy_rows_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = answer(
        capsys, "compare", "rows.relay", "--a", "fuse=on,opt_level=2", "--b", "fuse=off", "--dim", "n=3", "--repeat", "1"
    )
    assert text.count("[memcpy DtoH]  0 bytes") == text.count("[memcpy HtoD]  0 bytes") == 2


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


def test_compare_saved_profiles(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for n in (2, 500):
        text = answer(capsys, "profile", "rows.relay", "--dim", f"n={n}", "--device", "sim", "--repeat", "5", "--json")
        Path(f"{n}.json").write_text(text)
    found = data(capsys, "compare", "2.json", "500.json")
    rows = {d["name"]: d["values"] for d in found["cases"][0]["differences"]}
    assert rows["[memcpy HtoD] bytes"] == [2 * 16 + 4, 500 * 16 + 4] and found["results_agree"] is None
    assert main(["compare", "2.json", "500.json", "--fail-if", "b.htod_bytes > a.htod_bytes"]) == 1
    assert "holds (8004 > 36)" in capsys.readouterr().err
    Path("bad.json").write_text("{}")
    for args, words, code in [
        (["2.json"], "two saved profiles", 2),
        (["2.json", "rows.relay"], "saved profiles are compared with each other", 2),
        (["2.json", "500.json", "--a", "fuse=off"], "saved profiles are compared with each other", 2),
        (["2.json", "bad.json"], "this is no profile", 1),
        (["2.json", "missing.json"], "cannot read missing.json", 1),
    ]:
        assert main(["compare", *args]) == code
        assert words in capsys.readouterr().err


def test_fail_if(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ["compare", *SLICED, *SIDES, "--fail-if"]
    assert main([*args, "b.dtoh_bytes > 8", "--fail-if", "b.dtoh_copies > a.dtoh_copies"]) == 0
    assert capsys.readouterr().err == ""
    assert main([*args, "b.dtoh_bytes > 0", "--fail-if", "a.dtoh_copies >= 2 * b.dtoh_copies"]) == 1
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
    assert main([*args, "--html", "no/such/folder.html"]) == 1
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
    assert main(["compare", "a.relay", "b.relay", "--input", "x=float32[3]=0,1,2", "--json"]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    want = "error: the results of A and B differ: result.1, float32[3]: 2 of 3 elements, the first at [1]: 2.0 in A, 2.00"
    assert err.startswith(want)


# ---- ops, isa, env, docs ----------------------------------------------------------------------------------------------------


def test_ops(capsys: pytest.CaptureFixture[str]) -> None:
    found = {op["name"]: op for op in data(capsys, "ops")}
    assert {"name", "inputs", "data_dependent", "pattern", "implementations"} <= set(found["add"])
    one = found["dyn.strided_slice"]
    assert (one["inputs"], one["data_dependent"]) == (["data", "begin", "end", "strides"], [False, True, True, True])
    assert found["argwhere"]["upper_bound"] and "shape_of" in found
    assert not [name for name in found if name.startswith(("vm.", "memory."))], "what no program can call is not listed"
    assert all(len(op["inputs"]) == len(op["data_dependent"]) and op["implementations"] for op in found.values())
    assert data(capsys, "ops", "dyn.tile") == [found["dyn.tile"]]
    assert "dyn.tile(data, reps*)" in answer(capsys, "ops", "dyn.tile")
    assert len(answer(capsys, "ops").splitlines()) == len(found) == len(operators())


def test_isa(capsys: pytest.CaptureFixture[str]) -> None:
    found = data(capsys, "isa")
    assert [i["opcode"] for i in found] == sorted(INSTRUCTIONS)
    assert data(capsys, "isa", "movE") == found[:1]
    assert answer(capsys, "isa", "Move").startswith("  0  Move              dst src\n\n``dst := src``")


def test_env(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RELAYVM_CACHE_DIR", str(tmp_path / "nothing"))
    found = data(capsys, "env")
    assert found["versions"]["numpy"] == np.__version__ and found["devices"] == list(ALL_DEVICES)
    assert found["cache"] == {"folder": str(tmp_path / "nothing"), "entries": 0, "bytes": 0}
    assert found["blas"]["package"].partition(" ")[0] in ("numpy", "scipy")
    text = answer(capsys, "env")
    assert f"RELAYVM_CACHE_DIR={tmp_path / 'nothing'}" in text and f"blas       {found['blas']['package']}" in text


@pytest.mark.parametrize("name", sorted(PAGES))
def test_the_pages_are_fresh(name: str) -> None:
    page = PAGES_FOLDER / name
    assert page.read_text(encoding="utf-8") == PAGES[name](), "run `python -m relayvm.compiler.docs`"


# ---- how it ends --------------------------------------------------------------------------------------------------------------


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("run", "compile", "dump", "explain", "profile", "compare", "ops", "isa", "env"):
        assert command in answer(capsys, "--help")
        assert "--json" in answer(capsys, command, "--help")
    assert answer(capsys, "--version").startswith("relayvm")
    assert main([]) == 2


def test_an_internal_error_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("boom\nand more")

    monkeypatch.setattr(cli, "read_module", broken)
    monkeypatch.delenv("RELAYVM_TRACEBACK", raising=False)
    args = ["dump", "rows.relay", "--stage", "parsed"]
    assert main(args) == 70
    line = "internal error: RuntimeError: boom; please report it, with what RELAYVM_TRACEBACK=1 shows\n"
    assert capsys.readouterr().err == line
    monkeypatch.setenv("RELAYVM_TRACEBACK", "1")
    assert main(args) == 70
    err = capsys.readouterr().err
    assert err.startswith("Traceback") and err.endswith(line)


def test_ctrl_c_ends_an_endless_recursion(capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        code = main(["run", str(ROOT / "tests" / "bad_input" / "endless.relay"), "--input", "n=1"])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert code == 130
    assert capsys.readouterr().err.strip() == "interrupted"


def test_a_reader_that_had_enough_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run([sys.executable, "-m", "relayvm", "isa"], stdout=writer, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writer)
    assert (done.stderr, done.returncode) == (b"", 0)


def test_a_full_disk_is_no_internal_error() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([sys.executable, "-m", "relayvm", "isa"], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.stderr == b"error: cannot write to standard output: No space left on device\n"
    assert done.returncode == 1


def test_closed_streams_take_anything(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert main(["run", "rows.relay", "--dim", "n=3"]) == 0
    assert main(["run", "nothing.relay"]) == 1


def test_an_unwritable_cache_is_said_once(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "file").write_text("no folder")
    monkeypatch.setenv("RELAYVM_CACHE_DIR", str(folder / "file"))
    monkeypatch.setattr(store, "_addresses", store.SingleFlight())
    code = main(["run", "rows.relay", "--entry", "@double", "--shape", "k=3"])
    lines = capsys.readouterr().err.splitlines()
    words = f"the cache folder {folder / 'file'} cannot be written (Not a directory); kernels are compiled in every process"
    assert (code, lines) == (0, [f"warning: {words}"])


def test_a_second_process_imports_no_compiler_backend(folder: Path) -> None:
    args = ["run", "rows.relay", "--dim", "n=3", "--json"]
    program = f"import sys; from relayvm.compiler.cli import main; main({args}); print(*sys.modules, file=sys.stderr)"
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=os.environ, check=True)
    assert json.loads(done.stdout)["kernel_compiles"] == 0
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert "lark" in loaded and not loaded & {"numba", "scipy", "rich"}


# ---- progress ------------------------------------------------------------------------------------------------------------------


def test_a_terminal_sees_that_kernels_are_compiled(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with compile_progress():
        for name in ("exp", "add"):
            for listener in store.on_compile:
                listener(name)
    err = capsys.readouterr().err
    assert re.search(r"compiled 2 kernels in \d+\.\d s; the next run finds them compiled", err)
    assert store.on_compile == []
    with compile_progress():
        pass
    assert capsys.readouterr().err == "", "nothing compiled, nothing said"


def test_a_pipe_sees_nothing() -> None:
    assert not sys.stderr.isatty()
    with compile_progress():
        assert store.on_compile == []


def test_warnings_are_one_line(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import warnings

    real = cli.read_module

    def warning(path: Path) -> Any:
        warnings.warn("the cache cannot be written", store.CacheWarning, stacklevel=1)
        return real(path)

    monkeypatch.setattr(cli, "read_module", warning)
    assert main(["dump", "rows.relay", "--stage", "parsed"]) == 0
    assert capsys.readouterr().err == "warning: the cache cannot be written\n"
