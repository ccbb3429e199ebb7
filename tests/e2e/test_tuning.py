"""Tuning for users: times of measurements, reuse by another process, and no measurement without a request."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.tuning import remember, trials
from relayvm.ops.core.op import REGISTRY
from relayvm.ops.native.cache import disk_cache
from relayvm.ops.native.cache.disk_cache import CacheWarning
from relayvm.ops.native.cache.installed_version import installed_version
from relayvm.ops.native.tuning import tuning_records

from .. import two_ways as op
from ..devices import DEVICES
from ..ops.native.fresh import fresh_cache

#: The cache of all tests, which keeps compiled code between runs.
SHARED = Path(os.environ[disk_cache.FOLDER_VARIABLE])
SIZES = {"n": (1, 100, 5000)}
STEPS = 200


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A cache without records, and counters at 0; it has the kernels of all tests, because compiling takes long."""
    folder, part = fresh_cache(monkeypatch, tmp_path), disk_cache._subfolder
    (SHARED / "entries").mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.mkdir(mode=0o700)
    monkeypatch.setattr(disk_cache, "_subfolder", lambda name: SHARED / name if name == "entries" else part(name))
    monkeypatch.setattr(remember, "counters", Counter())
    with op.two_ways():
        yield folder


def text(size: str = "?n") -> str:
    return op.program(size, steps=STEPS)


def implementations(exe: relay.Executable) -> list[str]:
    return [c.implementation for c in exe.explain().calls if op.NAME in c.ops]


def reasons(exe: relay.Executable) -> set[str]:
    return {c.because for c in exe.explain().calls if op.NAME in c.ops}


def run_at(exe: relay.Executable, n: int) -> None:
    x = np.linspace(0, 1, n, dtype="float32")
    np.testing.assert_allclose(relay.VirtualMachine(exe).run(x).numpy(), 2 * np.exp(2 * x), rtol=1e-6)


def test_nothing_is_measured_unasked(monkeypatch: pytest.MonkeyPatch, cache: Path, recwarn: pytest.WarningsRecorder) -> None:
    monkeypatch.setattr(trials, "trial", lambda call, target: pytest.fail("a trial"))
    for config in ({}, {"tune": "off"}, {"tune": "cached"}, {"optimize": False}):
        exe = relay.compile(text(), **config)
        assert implementations(exe) == [op.SLOW] * 2
        for n in (0, 1, 7, 3000):
            run_at(exe, n)
    assert not (cache / "tuning.jsonl").exists() and not recwarn.list


def test_trials_change_what_is_chosen_from_then_on() -> None:
    exe = relay.compile(text(), tune="full", tune_sizes=SIZES)
    assert (remember.counters["trials"], remember.counters["confirmations"] > 0) == (3, True), (
        "both calls are one: it depends on types, attributes and sizes only"
    )
    assert exe.config["tune"] == "full"
    cached = relay.compile(text())
    for found in (exe, cached):
        assert {*implementations(found)} == {op.FAST, op.SLOW}
        for n in (0, 1, 2, 100, 128, 129, 5000, 9000):
            run_at(found, n)
    static = relay.compile(text("4100"))
    assert implementations(static) == [op.FAST] * 2 and reasons(static) == {"tuned"}
    for config in ({"tune": "off"}, {"optimize": False}):
        assert implementations(relay.compile(text("4100"), **config)) == [op.SLOW] * 2


def test_what_was_measured_is_not_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    relay.compile(text("5000"), tune="full")
    assert remember.counters == {"trials": 1, "confirmations": 1}
    monkeypatch.setattr(trials, "trial", lambda call, target: pytest.fail("a trial"))
    for mode in ("full", "budgeted"):
        assert implementations(relay.compile(text("5000"), tune=mode)) == [op.FAST] * 2
    assert remember.counters == {"trials": 1, "confirmations": 1, "found": 2}


def test_the_budget_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(remember.time, "monotonic", lambda: now[0])

    def trial(call: Any, target: str) -> Any:
        now[0] += 10
        return real(call, target)

    real = trials.trial
    monkeypatch.setattr(trials, "trial", trial)
    relay.compile(text(), tune="budgeted", tune_seconds=15, tune_sizes={"n": [1, 10, 100, 1000]})
    assert remember.counters["trials"] == 2, "the second one began in time"
    relay.compile(text(), tune="budgeted", tune_seconds=15, tune_sizes={"n": [1, 10, 100, 1000]})
    assert remember.counters["trials"] == 4 and remember.counters["found"] == 2, "it goes on where it was"


def test_the_program_is_remembered_once(cache: Path) -> None:
    relay.compile(text("5000"), tune="full")
    of_programs = [r for r in tuning_records.load().values() if r.key.kind == remember.MODULE]
    assert len(of_programs) == 1 and of_programs[0].data["changed"] == [[op.NAME, op.FAST, ""]]
    size = tuning_records.path().stat().st_size
    relay.compile(text("5000"))
    relay.compile(text("5000").replace("%y", "%other"))
    assert tuning_records.path().stat().st_size == size, "nothing new is known"


def test_a_forced_implementation_wins_over_records() -> None:
    relay.compile(text("5000"), tune="full")
    exe = relay.compile(text("5000"), **{f"impl.{op.NAME}": op.SLOW})
    assert implementations(exe) == [op.SLOW] * 2 and reasons(exe) == {"forced"}


@pytest.mark.parametrize("device", [d for d in DEVICES if d != "cuda"])
def test_every_device_of_the_host_has_the_same_records(device: str) -> None:
    relay.compile(text("5000"), tune="full")
    exe = relay.compile(text("5000"), target=device)
    kernels = [p for p in exe.packed if p.group.nodes[0].op == op.NAME]
    assert [p.group.implementation for p in kernels] == [op.FAST]
    run_at(exe, 5000)


def test_a_call_that_cannot_run_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    real = trials.draw

    def draw(name: str, dtype: str, shape: tuple[int, ...], seed: int) -> Any:
        if shape == (100,):
            raise relay.InputError("%x0: there is no memory for it")
        return real(name, dtype, shape, seed)

    monkeypatch.setattr(trials, "draw", draw)
    with pytest.warns(CacheWarning) as warned:
        relay.compile(text(), tune="full", tune_sizes=SIZES)
    assert [str(w.message) for w in warned] == [f"{op.NAME} (128,) was not measured: %x0: there is no memory for it"]
    assert remember.counters["trials"] == 2


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"tune": "on"}, "configuration key 'tune' cannot be 'on'\nhelp: valid: off, cached, budgeted, full"),
        (
            {"tune": "ful"},
            "configuration key 'tune' cannot be 'ful'\nhelp: did you mean 'full'? valid: off, cached, budgeted, full",
        ),
        ({"optimize": 1}, "optimize cannot be 1\nhelp: valid: True, False"),
        ({"optimize": False, "tune": "full"}, "tune='full' does not go with optimize=False\nhelp: leave one of them out"),
        ({"tune_seconds": 3}, "tune_seconds does not go with tune='cached'\nhelp: it goes with tune='budgeted'"),
        ({"tune": "full", "tune_seconds": 3}, "tune_seconds does not go with tune='full'\nhelp: it goes with tune='budgeted'"),
        ({"tune": "budgeted", "tune_seconds": 0}, "tune_seconds cannot be 0\nhelp: give a number of seconds above 0"),
        ({"tune": "budgeted", "tune_seconds": "9"}, "tune_seconds cannot be '9'\nhelp: give a number of seconds above 0"),
        ({"tune_sizes": {"n": 1}}, "tune_sizes does not go with tune='cached'\nhelp: it goes with 'budgeted' and 'full'"),
        (
            {"tune": "full", "tune_sizes": 3},
            'tune_sizes cannot be 3\nhelp: give sizes by the names of dimensions: {"n": [1, 16, 256]}',
        ),
        (
            {"tune": "full", "tune_sizes": {"n": [-1]}},
            "tune_sizes cannot be {'n': [-1]}\nhelp: the sizes of n are whole numbers of at least 0",
        ),
    ],
)
def test_mistakes(config: dict[str, Any], words: str) -> None:
    with pytest.raises(relay.ConfigError) as error:
        relay.compile(text(), **config)
    assert str(error.value) == f"error: {words}"


def test_sizes_of_what_is_not_there() -> None:
    for program, known in ((text(), "of such calls there are n"), (text("5"), "of such calls all their sizes are known")):
        with pytest.raises(relay.InputError) as error:
            relay.compile(program, tune="full", tune_sizes={"m": 3})
        assert str(error.value) == f"error: no call that can be tuned depends on the size m\nhelp: {known}"


SCRIPT = """
import json, os, sys
from pathlib import Path
from relayvm.compiler.tuning import remember
from relayvm.ops.native.cache import disk_cache
from relayvm.ops.native.cache.installed_version import installed_version
part = disk_cache._subfolder
disk_cache._subfolder = lambda name: Path(os.environ["SHARED"]) / name if name == "entries" else part(name)
import numpy as np
import relayvm as relay
PROGRAM = '#[version = "0.0.5"]\\ndef @main(%x: Tensor[(?n, 48), float32], %w: Tensor[(40, 48), float32]) { nn.dense(%x, %w) }'
exe = relay.compile(PROGRAM, tune="full", tune_sizes={"n": [1, 64]})
vm = relay.VirtualMachine(exe)
vm.run(np.ones((3, 48), np.float32), np.ones((40, 48), np.float32))
print(json.dumps({"trials": remember.counters["trials"], "chosen": [[c.implementation, c.because] for c in exe.explain().calls]}))
"""


def in_a_process(**env: str) -> dict[str, Any]:
    """The results of the script in a process with the folder of this test and the kernels of all tests."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=os.environ | {"SHARED": str(SHARED)} | env
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout), stderr=done.stderr)


def test_a_second_process_tries_nothing_and_chooses_the_same(cache: Path) -> None:
    first, second = in_a_process(), in_a_process()
    assert len(REGISTRY["nn.dense"].implementations) > 1
    assert first["trials"] == 2 and second["trials"] == 0
    assert first["chosen"] == second["chosen"] and first["chosen"]
    other = in_a_process(RELAYVM_NUM_THREADS=str(relay.get_num_threads() + 1))
    assert other["trials"] == 2, "another number of threads is another machine"


def test_records_of_another_version_are_named(cache: Path, recwarn: pytest.WarningsRecorder) -> None:
    relay.compile(text("5000"), tune="full")
    kept = [
        record._replace(key=type(record.key)(tuple((n, "0.0.9" if n == "relayvm" else v) for n, v in record.key.fields)))
        for record in tuning_records.load().values()
    ]
    tuning_records.clear()
    tuning_records.save(kept)
    exe = relay.compile(text("5000"))
    assert implementations(exe) == [op.SLOW] * 2
    assert [str(w.message) for w in recwarn if w.category is CacheWarning] == [
        f"a call of {op.NAME} was not tuned: the nearest tuning record differs in relayvm:\n"
        f"  relayvm: {installed_version('relayvm')} is wanted, 0.0.9 was found\n"
        "it is run as without tuning"
    ]


def test_damaged_records_are_named_and_the_run_goes_on(cache: Path) -> None:
    relay.compile(text("5000"), tune="full")
    where = tuning_records.path()
    where.write_bytes(where.read_bytes()[:300] + b"\0" + where.read_bytes()[300:])
    tuning_records._record_file.cache_clear()
    with pytest.warns(CacheWarning, match=r"a line of .*tuning.jsonl cannot be used \(line 1: its checksum is wrong\)"):
        exe = relay.compile(text("5000"))
    run_at(exe, 5000)


def test_no_cache_no_records(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(disk_cache.CAP_VARIABLE, "0")
    exe = relay.compile(text("5000"), tune="full")
    assert remember.counters["trials"] == 1 and not (cache / "tuning.jsonl").exists()
    assert implementations(exe) == [op.FAST] * 2, "what was measured holds in this process"
