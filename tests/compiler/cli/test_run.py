"""`relayvm run`: results, and inputs that are given, drawn or follow."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from relayvm.compiler.commands.cli import main
from relayvm.compiler.commands.terminal.exit_codes import ExitCode

from ...devices import DEVICES, HOST
from .answers import answer, data


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


def test_results_are_written_as_the_suffix_says(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ("run", "rows.relay", "--entry", "double", "--input", "k=int32[3]=1,2,3", "-o")
    answer(capsys, *args, "out.npy")
    np.testing.assert_array_equal(np.load("out.npy"), np.array([2, 4, 6], "int32"))
    answer(capsys, *args, "out.npz")
    with np.load("out.npz") as saved:
        np.testing.assert_array_equal(saved["result"], [2, 4, 6])


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


def test_a_program_from_standard_input(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    answer(capsys, "compile", "rows.relay", "-o", "rows.rvm")
    inputs = ("--dim", "n=3", "--repeat", "1")
    for name, ways in {
        "rows.relay": [
            ("run", *inputs[:2]), ("compile", "-o", "x.rvm"), ("dump", "--stage", "typed"), ("profile", *inputs), ("explain",),
            ("tune",), ("cache", "miss"), ("compare", "rows.rvm", *inputs),
        ],
        "rows.rvm": [("run", *inputs[:2]), ("dump", "--stage", "bytecode"), ("compare", "rows.relay", *inputs)],
    }.items():  # fmt: skip
        for way in ways:
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(Path(name).read_bytes())))
            assert answer(capsys, *way, "-")
    for given, code, words in [
        (b"\x89RVM\r\n\x1a\n", ExitCode.PROGRAM, "<stdin>: the file is truncated"),
        (b"def", ExitCode.PROGRAM, "--> <stdin>:1:1"),
        (None, ExitCode.FILE, "cannot read standard input: it is closed"),
    ]:
        monkeypatch.setattr("sys.stdin", given and io.TextIOWrapper(io.BytesIO(given)))
        assert main(["run", "-"]) == code
        assert words in capsys.readouterr().err
    assert main(["compare", "-", "-"]) == ExitCode.USAGE


def test_ranges(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("four.relay").write_text(
        '#[version = "0.0.5"]\ndef @main(%x: Tensor[(?n), float32], %h: Tensor[(?n), float16], %k: Tensor[(?n), int8], '
        "%b: Tensor[(?n), bool], %u: uint64) { (%x, %h, %k, %u) }\n"
    )

    def drawn(*ranges: str, n: int = 50) -> Any:
        args = [word for text in ranges for word in ("--range", text)]
        return [r["values"] for r in data(capsys, "run", "four.relay", "--dim", f"n={n}", *args)["results"]]

    x, h, k, u = drawn("x=0..640", "h=-2..-1.5", "k=-2..1", f"u={2**64 - 2}..{2**64 - 1}")
    assert (0 <= min(x) < 50) and (590 < max(x) <= 640) and all(-2 <= v <= -1.5 for v in h)
    assert set(k) == {-2, -1, 0, 1} and u in (2**64 - 2, 2**64 - 1)
    assert (x, h) == tuple(drawn("x=0..640", "h=-2..-1.5")[:2]) and drawn("x=5..5")[0] == [5.0] * 50
    assert drawn("x=0..640")[1:] == drawn()[1:], "a range leaves the other inputs as they were"
    for text, code, words in [
        ("x=1..0", 2, "is empty: its low end comes first"),
        ("x=0..1e999", 2, "is not finite"),
        ("x=0:1", 2, "is not a range such as 0..640"),
        ("k=0..128", 5, "int8 holds -128 to 127"),
        ("k=0..1.5", 5, "the ends must be integers"),
        ("h=0..1e6", 5, "float16 cannot hold it"),
        ("b=0..1", 5, "%b is bool, of which no range can be drawn"),
        ("y=0..1", 5, "has no parameter %y"),
    ]:
        assert main(["run", "four.relay", "--dim", "n=3", "--range", text]) == code
        assert words in capsys.readouterr().err
    assert main(["run", "four.relay", "--input", "x=float32[3]=1", "--range", "x=0..1"]) == ExitCode.INPUT


@pytest.mark.parametrize(
    "text", ["k=int8[1]=" + "(" * 100_000, "k=int8[1]=" + "9" * 5000, "x=float32[1]=1e39", "x=float32[1]=1e999"]
)
def test_numbers_that_cannot_be(folder: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    Path("two.relay").write_text('#[version = "0.0.5"]\ndef @main(%x: Tensor[(?n), float32], %k: Tensor[(?n), int8]) { %x }\n')
    assert main(["run", "two.relay", "--input", text]) in (ExitCode.USAGE, ExitCode.INPUT)
    assert main(["run", "two.relay", "--dim", f"n={'9' * 5000}"]) in (ExitCode.USAGE, ExitCode.INPUT)
    assert main(["run", "two.relay", "--dim", f"n={2**63}"]) == ExitCode.INPUT
    assert "internal" not in capsys.readouterr().err


def test_expected(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ("run", "rows.relay", "--input", "x=float32[2,4]=1", "--input", "wanted=0")
    answer(capsys, *args, "-o", "want.npz")
    found = data(capsys, *args, "--expected", "want.npz")
    assert found["expected"] == {
        "file": "want.npz", "agree": True, "within": "rtol 1e-05, atol 1e-06 of the largest value", "differences": [],
    }  # fmt: skip
    want = np.ones((2, 4))
    want[1, 2:] = 1.01
    np.savez("want.npz", result_0=want, result_1=np.float64(8))  # floats of another precision are rounded to the result's
    assert main([*args, "--expected", "want.npz", "--json"]) == ExitCode.UNEXPECTED
    out, err = capsys.readouterr()
    (difference,) = json.loads(out)["expected"]["differences"]
    assert (difference["path"], difference["count"], difference["size"]) == ("0", 2, 8)
    assert difference["elements"][1] == {"index": [1, 3], "expected": "1.01", "got": "1.0"}
    assert "result.0, float32[2, 4]: 2 of 8 elements, the first at [1, 2]: 1.0" in err
    assert "note: also at [1, 3]: 1.0" in err and "the largest difference is 0.00999999; allowed: rtol 1e-05" in err
    for near in (("--rtol", "0.02"), ("--atol", "0.02"), ("--rtol", "0=0.02"), ("--rtol", "0", "--atol", "0=0.02")):
        assert "The results are those of want.npz: " in answer(capsys, *args, "--expected", "want.npz", *near)
    for apart in (("--rtol", "1=0.02"), ("--rtol", "0.02", "--rtol", "0=0", "--atol", "0")):
        assert main([*args, "--expected", "want.npz", *apart]) == ExitCode.UNEXPECTED
    np.save("one.npy", want)
    np.savez("other.npz", result_0=want)
    for more, code, words in [
        (["--expected", "no.npz"], ExitCode.FILE, "--expected: cannot read no.npz"),
        (["--expected", "one.npy"], ExitCode.INPUT, "one.npy holds one array, but the result is ("),
        (["--expected", "other.npz"], ExitCode.INPUT, "the outputs are result_0, result_1"),
        (["--expected", "want.npz", "--rtol", "2=1"], ExitCode.INPUT, "rtol for the output 2, which there is not"),
        (["--expected", "want.npz", "--atol", "-1"], ExitCode.USAGE, "is not of the form 1e-3"),
        (["--rtol", "1"], ExitCode.USAGE, "how near the results must be to --expected"),
    ]:
        assert main([*args, *more]) == code
        assert words in capsys.readouterr().err


def test_results_have_the_names_of_the_program(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also a name that is a parameter of ``numpy.savez``, and names of the paths of tuples."""
    names = 'output_names=["boxes", "file"], defaults=["00004040"]'
    head = f'#[version = "0.0.5"]\ndef @main(%x: Tensor[(2), float32], %k: float32, {names})'
    Path("named.relay").write_text(f"{head} {{ (%x * %k, (%x, negative(%x))) }}\n")
    args = ["run", "named.relay", "--input", "x=float32[2]=1,2"]
    text = answer(capsys, *args, "-o", "named.npz")
    assert "boxes: float32[2] on cpu\n[3., 6.]" in text and "file.1: float32[2] on cpu\n[-1., -2.]" in text
    with np.load("named.npz") as saved:
        assert {name: saved[name].tolist() for name in saved.files} == {"boxes": [3, 6], "file.0": [1, 2], "file.1": [-1, -2]}
        by_place = dict(zip(("result_0", "result_1_0", "result_1_1"), saved.values(), strict=True))
    np.savez("by_place.npz", **by_place)
    for file in ("named.npz", "by_place.npz"):
        assert f"The results are those of {file}: " in answer(capsys, *args, "--expected", file)
    other = [*args, "--input", "k=3.001", "--expected", "named.npz"]
    assert main(other) == ExitCode.UNEXPECTED
    assert "boxes, float32[2]: 2 of 2 elements" in capsys.readouterr().err
    found = data(capsys, *other, "--rtol", "boxes=1e-2")
    assert found["expected"]["agree"] and [r["name"] for r in found["results"]] == ["boxes", "file.0", "file.1"]


def test_an_option_of_names_takes_several_with_commas(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("two.relay").write_text(
        '#[version = "0.0.5"]\ndef @main(%x: Tensor[(?n, ?h), float32], %k: Tensor[(?h), int8]) { (%x, %k) }\n'
    )
    apart = (
        "--dim",
        "n=2",
        "--dim",
        "h=3",
        "--range",
        "x=0..1",
        "--range",
        "k=1..2",
        "--config",
        "fuse=off",
        "--config",
        "opt_level=1",
    )
    together = ("--dim", "n=2,?h=3", "--range", "x=0..1,k=1..2", "--config", "fuse=off,opt_level=1")
    first, second = (data(capsys, "run", "two.relay", *options) for options in (together, apart))
    assert first["results"] == second["results"] and first["results"][0]["shape"] == [2, 3]
    for given, words in (
        ("n=1,h", "'h' is not of the form NAME=SIZE"),
        ("n=1,,h=2", "'' is not of"),
        ("n=1,n=2", "n is given twice"),
    ):
        assert main(["run", "two.relay", "--dim", given]) == ExitCode.USAGE
        assert words in capsys.readouterr().err
