"""`make gpu`, as far as it can be seen without a GPU: every part runs on the emulated GPU, and errors are recorded."""

from __future__ import annotations

import gc
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..emulator import emulator

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.extensive, pytest.mark.skipif(emulator.available() is not None, reason=str(emulator.available()))]


@pytest.fixture(autouse=True)
def on_path() -> Iterator[None]:
    """The package ``gpu`` is found where the script finds it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        yield


def gpu(out: Path, *more: str, **environment: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, JSON and Markdown of a run on the emulated GPU."""
    # so long that no part of a busy machine is cut off
    command = [sys.executable, "benchmarks/gpu", "--emulated", "--tiny", "--seconds", "5400", "--out", str(out), *more]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=os.environ | environment, timeout=900)
    found = list(out.glob("*.json"))
    assert len(found) == 1, done.stdout + done.stderr
    return done.returncode, json.loads(found[0].read_text()), found[0].with_suffix(".md").read_text()


def part(data: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = [p for p in data["parts"] if p["name"] == name]
    return found


NAMES = (
    "doctor",
    "warm",
    "launches",
    "early",
    "bandwidth",
    "products",
    "attention",
    "models",
    "networks",
    "halves",
    "cold",
    "tests",
    "sanitizer",
)


def test_every_part_runs_the_models_are_compared_and_the_table_is_made_from_the_json(tmp_path: Path) -> None:
    """One run of all these parts, with no compute-sanitizer on the path: a run takes minutes."""
    from gpu.document import SCHEMA, markdown

    code, data, page = gpu(tmp_path, "--only", *NAMES, PATH=f"{Path(sys.executable).parent}:/usr/bin:/bin")
    assert {p["name"]: p["status"] for p in data["parts"]} == {n: "not run" if n == "sanitizer" else "done" for n in NAMES}
    assert code == 0 and data["schema"] == SCHEMA and data["emulated"] and data["card"].startswith("emulated")
    assert "compute-sanitizer is not installed" in part(data, "sanitizer")["why"]
    for figure in (f for p in data["parts"] for f in p["figures"]):
        assert figure["verdict"] in ("held", "missed", "information", "not run")
        assert (figure["samples"] == 0) == (figure["verdict"] == "not run") == bool(figure["why"])
        assert figure["samples"] == 0 or figure["min"] <= figure["median"] <= figure["max"]
    goals = {f["task"] for p in data["parts"] for f in p["figures"] if f["goal"]}
    assert len(goals) == 20, "launches, a call, bandwidth, products, attention, changed launches, lengths, tokens, cold, tests"
    assert page == markdown(data)
    assert "is emulated" in page and "cuda activities" in page and all(f"## {n}" in page for n in NAMES)
    check_models(data)


def check_models(data: dict[str, Any]) -> None:
    """A side that places more moves less."""
    found = {(f["task"], f["who"]): f["median"] for f in part(data, "models")["figures"]}
    for name in ("detection_tail", "mask_rcnn_tail"):
        copies = [found[f"{name}: dtoh_copies", side] for side in ("op", "input", "input_place")]
        nbytes = [found[f"{name}: dtoh_bytes", side] for side in ("op", "input", "input_place")]
        assert copies == sorted(copies, reverse=True) and copies[0] > copies[-1] > 0
        assert nbytes == sorted(nbytes, reverse=True) and nbytes[0] > nbytes[-1] > 0
        assert part(data, "models")["facts"][f"{name}, input_place: waits by reason"]["fetch"] == 1


def test_a_part_that_fails_is_recorded_and_the_others_go_on(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "sitecustomize.py").write_text(
        "import sys\nclass Refuse:\n    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'gpu.measures.launches':\n            raise OSError('the disk is on fire')\n"
        "sys.meta_path.insert(0, Refuse())\n"
    )
    code, data, page = gpu(tmp_path / "out", "--only", "doctor", "launches", PYTHONPATH=str(broken))
    assert code == 1
    assert (part(data, "launches")["status"], part(data, "doctor")["status"]) == ("failed", "done")
    assert part(data, "launches")["why"] == "OSError: the disk is on fire"
    assert "the disk is on fire" in page and "parts that failed: launches" in page


def test_without_a_gpu_every_part_says_why(tmp_path: Path) -> None:
    command = [sys.executable, "benchmarks/gpu", "--out", str(tmp_path), "--only", "doctor", "bandwidth"]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=os.environ | {"CUDA_VISIBLE_DEVICES": ""}, timeout=120
    )
    (found,) = tmp_path.glob("*.json")
    data = json.loads(found.read_text())
    assert done.returncode == 1 and data["card"] == "no GPU"
    assert all(p["status"] == "failed" and p["why"].startswith("NoCuda: no CUDA d") for p in data["parts"])


def test_results_of_the_emulated_gpu_go_where_somebody_says() -> None:
    done = subprocess.run([sys.executable, "benchmarks/gpu", "--emulated"], capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert done.returncode == 2 and "--emulated needs --out" in done.stderr


def test_what_a_killed_part_had_found_stays(tmp_path: Path) -> None:
    from gpu.command import _record
    from gpu.figures import Recorder, Spread
    from gpu.parts import PARTS
    from gpu.processes import run

    path, log = tmp_path / "part.json", tmp_path / "log"
    Recorder(path, "launches").figure("a", "b", "ns", Spread.of([1.0, 2.0, 4.0]))
    ended = run([sys.executable, "-c", "import time; print('begun', flush=True); time.sleep(60)"], 2.0, log)
    launches = next(p for p in PARTS if p.name == "launches")
    data = _record(launches, path, ended, 2.0)
    assert (data["status"], data["why"], len(data["figures"])) == ("unfinished", "not done after 2 s", 1)
    assert "begun" in data["texts"][0]["text"]
    killed = run([sys.executable, "-c", "import os; os.abort()"], 30.0, log)
    Recorder(path, "launches")
    assert _record(launches, path, killed, 30.0)["status"] == "failed"


def test_the_group_of_a_process_goes_with_it(tmp_path: Path) -> None:
    from gpu.processes import run

    child = f"import time, pathlib; time.sleep(2); pathlib.Path({str(tmp_path / 'alive')!r}).touch()"
    parent = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {child!r}])"
    assert run([sys.executable, "-c", parent], 20.0, tmp_path / "log").code == 0
    subprocess.run([sys.executable, "-c", "import time; time.sleep(3)"], check=True)
    assert not (tmp_path / "alive").exists()


def test_what_was_not_reached_in_time_is_unfinished_and_no_failure(tmp_path: Path) -> None:
    from gpu.figures import Recorder, Unfinished
    from gpu.measures.sanitizer import NONE, _judge
    from gpu.measures.suite import Outcomes, judge
    from gpu.processes import Ended

    def judged(outcome: str, stopped: bool, code: int | None) -> tuple[str, str]:
        record = Recorder(tmp_path / "part.json", "tests")
        try:
            judge(record, Outcomes([{"test": "a", "outcome": outcome, "why": ""}], 7, stopped), Ended(code, ""))
        except (RuntimeError, Unfinished) as error:
            held = [f["verdict"] for f in record.data["figures"] if f["goal"]]
            return f"{type(error).__name__}: {error}", held[0]
        return "", next(f["verdict"] for f in record.data["figures"] if f["goal"])

    late = "1 of 7 tests ran in the time that there was, 0 failed"
    assert judged("passed", True, 2) == judged("passed", False, None) == (f"Unfinished: {late}", "not run")
    assert judged("failed", True, 2) == ("RuntimeError: 1 of 7 tests ran in the time that there was, 1 failed", "missed")
    assert judged("failed", False, 1) == ("RuntimeError: pytest ended with 1: 1 of 1 failed", "missed")
    assert judged("passed", False, 0) == ("", "held")
    record = Recorder(tmp_path / "part.json", "sanitizer")
    with record.task("memcheck", "relayvm", "errors", NONE):
        _judge(record, "memcheck", Ended(None, ""), Counter(passed=2))
    record.end("done")
    assert (record.data["status"], record.data["figures"][-1]["verdict"]) == ("unfinished", "unfinished")
    assert record.data["why"].endswith("the time was over before it counted its errors, after 2 tests")


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_tests_stop_when_their_time_is_over_and_those_that_ran_are_counted(tmp_path: Path, workers: str) -> None:
    from gpu import recorded
    from gpu.measures.suite import environment, outcomes

    (tmp_path / "test_slow.py").write_text(
        "import time, pytest\n@pytest.mark.parametrize('k', range(40))\ndef test_slow(k):\n    time.sleep(0.2)\n"
    )
    path = tmp_path / "outcomes"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "gpu.recorded", "-p", "no:cacheprovider", workers, "test_slow.py"]
    limited = environment(path) | {recorded.SECONDS: "2"}
    done = subprocess.run(command, cwd=tmp_path, env=limited, capture_output=True, text=True, timeout=120)
    found = outcomes(path)
    assert done.returncode == 2, done.stdout + done.stderr
    assert found.stopped and found.collected == 40 and 0 < found.counts["passed"] < 40


def test_the_tests_and_the_sanitizer_have_time_when_all_before_them_take_theirs() -> None:
    from gpu.parts import PARTS, WHOLE_S, seconds_of

    for whole in (WHOLE_S, 2 * WHOLE_S):
        left, given = whole, {}
        for i, part in enumerate(PARTS):
            given[part.name] = seconds_of(part, PARTS[i + 1 :], left, whole)
            left -= given[part.name]
        assert all(given[p.name] >= p.least * whole / WHOLE_S - 1e-6 for p in PARTS) and abs(left) < 1e-6, given
    early = [p for p in PARTS if p.name in ("tests", "sanitizer")]
    assert seconds_of(early[0], early[1:], WHOLE_S, WHOLE_S) == WHOLE_S - 120


@pytest.mark.parametrize(
    ("says", "status", "why"),
    [
        ("========= ERROR SUMMARY: 0 errors", "information", ""),
        ("========= ERROR SUMMARY: 3 errors", "failed", "3 errors"),
        ("========= Error: Device not supported.", "not run", "compute-sanitizer cannot work here: Device not supported"),
        ("Segmentation fault", "failed", "it ended with 1 before it counted its errors, after 2 tests"),
    ],
)
def test_what_the_sanitizer_says_is_judged(tmp_path: Path, says: str, status: str, why: str) -> None:
    from gpu.figures import Recorder
    from gpu.measures.sanitizer import NONE, _judge
    from gpu.processes import Ended

    record = Recorder(tmp_path / "part.json", "sanitizer")
    with record.task("memcheck", "relayvm", "errors", NONE):
        _judge(record, "memcheck", Ended(1, says), Counter(passed=2))
    last = record.data["figures"][-1]
    if status == "information":
        assert (last["median"], last["verdict"]) == (0, "held")
    else:
        assert last["verdict"] == status and why in last["why"]
    assert all(f["verdict"] != "held" for f in record.data["figures"]) or status == "information"


def test_processes_after_the_first_must_compile_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gpu.figures import Recorder
    from gpu.measures import cold
    from gpu.scale import TINY

    def measured(*compiles: int) -> dict[str, str]:
        record, left = Recorder(tmp_path / "part.json", "cold"), iter(compiles)
        starts = lambda cache, scale: {"wall_s": 1.0, "compiles": (n := next(left)), "nvrtc_compiles": n}  # noqa: E731
        monkeypatch.setattr(cold, "_start", starts)
        cold.measure(record, TINY)
        return {f["task"]: f["verdict"] for f in record.data["figures"] if f["goal"]}

    assert set(measured(12, 0).values()) == {"held"}
    assert set(measured(12, 1).values()) == {"missed"}
    with pytest.raises(RuntimeError, match="its cache was not empty"):
        measured(0, 0)


def test_a_call_that_copies_is_no_contestant() -> None:
    import numpy as np
    from gpu.machines import Placed, placed

    from ..emulator.platform import plugged_in

    with plugged_in():
        ready = placed("def @main(%x: Tensor[(?), float32]) { %x + 1f }", [np.ones(3, "f")])
        ready.contestant().run()
        with pytest.raises(RuntimeError, match="htod_copies in a call"):
            Placed(ready.vm, (np.ones(3, "f"),)).contestant()
        del ready


def test_the_tests_of_kernels_call_a_real_gpu_the_same_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """The way to a real GPU, with the emulated driver: a session frees its resources."""
    import numpy as np

    from ..emulator import real
    from ..ops.cuda.groups_on_gpu import call
    from ..ops.cuda.on_gpu import run

    class Stand(real.RealGpu):
        _libraries = (emulator._emulated(),)

        def compile(self, text: str) -> bytes:
            return emulator._image(text, "sm_90", False)

    gc.collect()  # a machine of an earlier test would destroy its pool meanwhile
    emulator.reset()
    monkeypatch.setattr(real, "gpu", Stand())
    x = np.linspace(-1, 1, 2000, dtype="f")[::-1].copy()
    np.testing.assert_array_equal(run("sort", [x]).outputs[0], x[::-1])
    np.testing.assert_array_equal(call("add", [x, x]), x + x)
    a = np.ones((3, 4), "f")
    np.testing.assert_array_equal(run("nn.matmul", [a, a.T.copy()]).outputs[0], np.full((3, 3), 4, "f"))
    monkeypatch.undo()
    assert emulator.get("blocks") == 0 and emulator.get("cuMemPoolDestroy") == emulator.get("cuMemPoolCreate") == 3
    assert emulator.get("cuModuleUnload") == emulator.get("cuModuleLoadData") > 0


def test_the_page_has_the_time_of_every_part() -> None:
    from gpu.parts import PARTS

    page = (ROOT / "docs" / "gpu.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (the rest|\d+ s) \| (\d+) s \|", page, re.M)
    assert rows == [(p.name, f"{p.seconds} s" if p.seconds else "the rest", str(p.least)) for p in PARTS]
