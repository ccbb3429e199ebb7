"""``relayvm tune`` and ``relayvm cache miss``: their output and exit codes."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from relayvm.compiler.commands.cli import main
from relayvm.compiler.commands.terminal.exit_codes import ExitCode
from relayvm.compiler.tuning import remember, trials
from relayvm.ops.native.tuning import tuning_records
from relayvm.ops.strategy.measured import Finding, Quartiles

from ... import two_ways as op
from ...ops.native.fresh import fresh_cache

FASTER = Finding.of({op.SLOW: Quartiles(90e3, 100e3, 110e3), op.FAST: Quartiles(40e3, 50e3, 60e3)}, op.SLOW)
EQUAL = Finding.of({op.SLOW: Quartiles(90, 100, 110), op.FAST: Quartiles(90, 100, 110)}, op.SLOW)


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A program, an empty cache, and trials whose results are known."""
    fresh_cache(monkeypatch, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(remember, "counters", Counter())
    monkeypatch.setattr(trials, "trial", lambda call, target: EQUAL if str(call.inputs[0].shape[0]) == "1" else FASTER)
    Path("twice.relay").write_text(op.program())
    with op.two_ways():
        yield tmp_path


def answer(capsys: pytest.CaptureFixture[str], *args: str, code: int = 0) -> str:
    capsys.readouterr()
    assert main(args) == code
    out, err = capsys.readouterr()
    assert code or err == ""
    return out if not code else err


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(capsys, "tune", "twice.relay", "--shapes", "n=1,100").splitlines() == [
        "Operator       Types            Bucket  Implementation    Median  Chosen",
        "test.two_ways  float32 float32  (1,)    slow               100ns  yes",
        "                                        fast               100ns",
        "test.two_ways  float32 float32  (128,)  slow            100.00us",
        "                                        fast            50.000us  yes, instead of slow",
        "2 measured, 0 known before, 0 left",
    ]
    assert answer(capsys, "tune", "twice.relay", "--shapes", "n=128").splitlines()[-1] == "0 measured, 1 known before, 0 left"
    assert len(tuning_records.load()) == 2


def test_json_and_default_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(answer(capsys, "tune", "twice.relay", "--json"))
    assert (found["trials"], found["known"], found["left"], found["unsized"]) == (3, 0, 0, [])
    assert [c["bucket"] for c in found["calls"]] == [[[1]], [[16]], [[256]]]
    assert found["calls"][1] == {
        "operator": op.NAME, "dtypes": ["float32"] * 2, "bucket": [[16]], "median_ns": {op.SLOW: 100e3, op.FAST: 50e3},
        "untuned": op.SLOW, "chosen": op.FAST, "new": True,
    }  # fmt: skip


def test_the_budget(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(remember.time, "monotonic", lambda: now[0])

    def trial(call: Any, target: str) -> Finding:
        now[0] += 50
        return FASTER

    monkeypatch.setattr(trials, "trial", trial)
    command = ("tune", "twice.relay", "--shapes", "n=1,10,100,1000", "--budget", "1.5m")
    assert answer(capsys, *command).splitlines()[-1] == "2 measured, 0 known before, 2 left"
    assert answer(capsys, *command).splitlines()[-1] == "2 measured, 2 known before, 0 left"


def test_ctrl_c_keeps_what_is_found(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def trial(call: Any, target: str) -> Finding:
        if str(call.inputs[0].shape[0]) == "100":
            raise KeyboardInterrupt
        return FASTER

    monkeypatch.setattr(trials, "trial", trial)
    assert main(["tune", "twice.relay", "--shapes", "n=1,100,1000"]) == ExitCode.INTERRUPTED
    out, err = capsys.readouterr()
    assert err.strip() == "interrupted" and out.splitlines()[-1] == "1 measured, 0 known before, 2 left"
    assert len(tuning_records.load()) == 1


def test_nothing_to_tune(capsys: pytest.CaptureFixture[str]) -> None:
    Path("none.relay").write_text('#[version = "0.0.5"]\ndef @main(%x: Tensor[(?n), float32]) { exp(%x) }')
    assert answer(capsys, "tune", "none.relay") == "no call of the program can be computed by several implementations\n"


def test_sizes_that_only_a_run_knows(capsys: pytest.CaptureFixture[str]) -> None:
    body = f"{op.NAME}(take(%x, squeeze(argwhere(greater(%x, 0f)), axis=[1]), axis=0), steps=1)"
    Path("late.relay").write_text(f'#[version = "0.0.5"]\ndef @main(%x: Tensor[(?n), float32]) {{ {body} }}')
    reported = ["0 measured, 0 known before, 0 left", f"not measured, because sizes are known only in a run: {op.NAME}"]
    assert answer(capsys, "tune", "late.relay").splitlines() == reported


def test_dims_without_a_name_and_branches(capsys: pytest.CaptureFixture[str]) -> None:
    body = f"if (%c) {{ {op.NAME}(%x, steps=1) }} else {{ exp({op.NAME}(concatenate((%x, %x), axis=0), steps=2)) }}"
    body = body.replace("exp(", "nn.relu(")
    text = f'#[version = "0.0.5"]\ndef @main(%c: bool, %x: Tensor[(?), float32]) {{ let %y = {body}; %y }}'
    text = text.replace("{ test.two_ways(%x", "{ test.two_ways(concatenate((%x, %x), axis=0)")
    Path("branch.relay").write_text(text)
    found = json.loads(answer(capsys, "tune", "branch.relay", "--shapes", "x.shape[0]=3", "--json"))
    assert [c["bucket"] for c in found["calls"]] == [[[8]], [[8]]], "twice 3, rounded up; two calls: their attributes differ"


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--shapes", "n"], 2, "'n' is not of the form NAME=1,16,256"),
        (["--shapes", "n=a"], 2, "'a' is not a shape such as 5,4"),
        (["--shapes", "n=-1"], 2, "a size cannot be negative: '-1'"),
        (["--shapes", "n=1", "--shapes", "n=2"], 2, "n is given twice"),
        (["--shapes", "m=1"], 5, "error: no call that can be tuned depends on the size m\nhelp: of such calls there are n"),
        (["--budget", "soon"], 2, "'soon' is not a time above 0 such as 60s or 2m"),
        (["--budget", "0"], 2, "'0' is not a time above 0 such as 60s or 2m"),
        (["--device", "tpu"], 2, "unknown target 'tpu'"),
        (["--config", "tune=on"], 2, "configuration key 'tune' cannot be 'on'"),
    ],
)
def test_mistakes(capsys: pytest.CaptureFixture[str], options: list[str], code: int, words: str) -> None:
    assert words in answer(capsys, "tune", "twice.relay", *options, code=code)
    assert tuning_records.load() == {}


def test_cache_miss(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    command = ("cache", "miss", "twice.relay", "--shapes", "n=100")
    assert answer(capsys, *command).splitlines() == [
        "the program: there is no module record",
        f"{op.NAME} (128,): there is no tuning record",
    ]
    answer(capsys, "tune", "twice.relay", "--shapes", "n=1")
    assert answer(capsys, *command).splitlines()[1:] == [
        f"{op.NAME} (128,): the nearest tuning record differs in bucket:",
        "  bucket: [[128]] is wanted, [[1]] was found",
    ]
    answer(capsys, "tune", "twice.relay", "--shapes", "n=100")
    assert main(["run", "twice.relay", "--dim", "n=3"]) == 0
    assert answer(capsys, *command).splitlines() == ["the program: found", f"{op.NAME} (128,): found"]
    monkeypatch.setenv("RELAYVM_NUM_THREADS", "77")
    found = json.loads(answer(capsys, *command, "--json"))
    assert [row["found"] for row in found] == [False, False]
    assert all(re.search(r"differs in threads:\n  threads: 77 is wanted, \d+ was found$", row["why"]) for row in found)


def test_dump_shows_what_is_tuned(capsys: pytest.CaptureFixture[str]) -> None:
    answer(capsys, "tune", "twice.relay", "--shapes", "n=100")
    shown = answer(capsys, "dump", "twice.relay", "--stage", "fused")
    assert 'implementation="fast if d0 > 64 and d0 <= 128 else slow", because="tuned"' in shown
    assert "tuned" not in answer(capsys, "dump", "twice.relay", "--stage", "fused", "--config", "tune=off")


def test_cache_info_and_clear(capsys: pytest.CaptureFixture[str]) -> None:
    answer(capsys, "tune", "twice.relay", "--shapes", "n=1,100")
    size = tuning_records.path().stat().st_size
    assert answer(capsys, "cache", "info").splitlines()[-1] == "tuning     2 tuning records"
    assert answer(capsys, "cache", "clear").startswith("deleted 0 entries")
    assert len(tuning_records.load()) == 2
    assert answer(capsys, "cache", "clear", "--tuning").startswith(f"deleted 2 tuning records, {size} bytes")
    assert answer(capsys, "cache", "info").splitlines()[-1].startswith("all ")
