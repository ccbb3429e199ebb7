"""`relayvm run`: results, and inputs that are given, drawn or follow."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

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
