"""The command line: what each command prints, and how it ends."""

from __future__ import annotations

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

from relayvm.compiler import cli
from relayvm.compiler.cli import main
from relayvm.compiler.docs import FOLDER as PAGES_FOLDER
from relayvm.compiler.docs import PAGES
from relayvm.compiler.operator_pages import operators
from relayvm.compiler.progress import compile_progress
from relayvm.ops.native import store
from relayvm.vm.isa import INSTRUCTIONS
from relayvm.vm.profiling import Profile

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


@pytest.mark.parametrize("device", ["cpu", "sim"])
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
    assert got["counters"]["dtoh_bytes"] == (8 if device == "sim" else 0)
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


@pytest.mark.parametrize("device", ["cpu", "sim"])
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


def test_profile(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ("profile", "rows.relay", "--dim", "n=9", "--device", "sim", "--repeat", "3")
    found = Profile.from_data(data(capsys, *args))
    assert (found.runs, found.device, found.total("dtoh").nbytes) == (3, "sim", 3 * 8)
    text = answer(capsys, *args)
    assert "sim activities:" in text and "argwhere: the kernel reports the size of its result" in text


SIDES = ("--a", "data_dependence=op", "--b", "data_dependence=input")


def test_compare(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = (
        "compare",
        "slice.relay",
        *SIDES,
        "--device",
        "sim",
        "--shape",
        "x=1000,4",
        "--input",
        "end=int64[1]=10",
        "--repeat",
        "2",
    )
    rows = {d["name"]: d for d in data(capsys, *args)["differences"]}
    assert rows["[memcpy DtoH] bytes"]["a"] == 16000 + 8 and rows["[memcpy DtoH] bytes"]["b"] == 8
    assert rows["[memcpy DtoH] calls"]["change"] == -1
    text = answer(capsys, *args)
    blocks = text.split("\n\n")
    assert len(blocks) == 3 and all("[memcpy DtoH]" in b and "[memcpy HtoD]" in b for b in blocks)
    assert "dyn.strided_slice: input 'end' is data-dependent" in blocks[1]


def test_compare_on_the_host_has_copy_rows_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = answer(
        capsys, "compare", "rows.relay", "--a", "fuse=on,opt_level=2", "--b", "fuse=off", "--dim", "n=3", "--repeat", "1"
    )
    assert text.count("[memcpy DtoH]  0 bytes") == text.count("[memcpy HtoD]  0 bytes") == 2


def test_compare_devices_and_executables(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    got = data(capsys, "compare", "rows.relay", "--a", "device=cpu", "--b", "device=sim", "--dim", "n=3", "--repeat", "1")
    assert (got["a"]["device"], got["b"]["device"]) == ("cpu", "sim")
    for name in ("on", "off"):
        answer(capsys, "compile", "rows.relay", "-o", f"{name}.rvm", "--config", f"fuse={name}")
    got = data(capsys, "compare", "on.rvm", "off.rvm", "--dim", "n=3", "--repeat", "1")
    assert (got["a"]["config"]["fuse"], got["b"]["config"]["fuse"]) == ("on", "off")


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
    assert found["versions"]["numpy"] == np.__version__ and found["devices"] == ["cpu", "sim"]
    assert found["cache"] == {"folder": str(tmp_path / "nothing"), "entries": 0, "bytes": 0}
    assert f"RELAYVM_CACHE_DIR={tmp_path / 'nothing'}" in answer(capsys, "env")


@pytest.mark.parametrize("name", sorted(PAGES))
def test_the_pages_are_fresh(name: str) -> None:
    page = PAGES_FOLDER / name
    assert page.read_text(encoding="utf-8") == PAGES[name](), "run `python -m relayvm.compiler.docs`"


# ---- how it ends --------------------------------------------------------------------------------------------------------------


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("run", "compile", "dump", "profile", "compare", "ops", "isa", "env"):
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
    with subprocess.Popen(
        [sys.executable, "-m", "relayvm", "ops", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == b"[\n"
        process.stdout.close()
        assert (process.stderr.read(), process.wait()) == (b"", 0)


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
