"""Fields of fingerprints: properties of the machine, and hashes of executables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import relayvm as relay
from relayvm.vm import thread_count
from relayvm.vm.devices.cuda.driver_api import device
from relayvm.vm.devices.cuda.driver_api.driver import NoCuda
from relayvm.vm.loading.executable_fingerprint import NONE, code_fields, machine_fields, program_hash

TEXT = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(?n, 4), float32], %w: Tensor[(3, 4), float32]) { nn.dense(%x, %w) }'


@pytest.mark.optimized
def test_the_host() -> None:
    assert list(machine_fields("cpu")) == ["device", "threads", "processor", "features", "llvmlite", "numpy"]
    assert [*machine_fields("cpu", ["sgemm"])][-1] == "blas"
    assert all(machine_fields("cpu").values()) and machine_fields("sim") == machine_fields("cpu") | {"device": "sim"}
    relay.set_num_threads(7)
    try:
        assert machine_fields("cpu")["threads"] == "7"
    finally:
        relay.set_num_threads(None)
    assert set(code_fields("cpu")) >= {"device", "processor", "features", "python", "toolchain"}


def test_a_gpu_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(ordinal: int = 0) -> None:
        raise NoCuda("there is no GPU")

    monkeypatch.setattr(device, "device", none)
    found = machine_fields("cuda")
    assert list(found) == ["device", "card", "architecture", "driver", "cuda"]
    assert [found[name] for name in ("card", "architecture", "driver")] == [NONE] * 3


def test_what_a_program_computes(tmp_path: Path) -> None:
    exe = relay.compile(TEXT)
    exe.save(tmp_path / "model.rvm")
    same = [
        relay.Executable.load(tmp_path / "model.rvm"),
        relay.compile(TEXT.replace("{ nn", "{\n  // another text\n  nn")),
        relay.compile(TEXT, **{"impl.nn.dense": "loops"}),
        relay.compile(TEXT, tune="off"),
    ]
    assert {program_hash(e) for e in same} == {program_hash(exe)}
    weights = [relay.compile(TEXT, params={"w": np.full((3, 4), value, "float32")}) for value in (1, 2)]
    others = [relay.compile(TEXT.replace("?n", "7")), relay.compile(TEXT.replace("float32", "float64")), *weights]
    others += [replace(exe, constants=(np.zeros(0, "float32"),)), replace(exe, constants=(np.zeros((0, 3), "float32"),))]
    assert len({program_hash(e) for e in [exe, *others]}) == 1 + len(others)


def test_kernels_that_are_not_optimized_have_times_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELAYVM_OPTIMIZE", "1")
    optimized = machine_fields("cpu")
    monkeypatch.setenv("RELAYVM_OPTIMIZE", "0")
    assert machine_fields("cpu") == optimized | {"kernels": "unoptimized"}


@pytest.mark.parametrize("turn", range(2))
def test_no_test_leaves_its_number_of_threads_to_the_next(turn: int) -> None:
    """``set_num_threads`` outranks the environment variable, which the next test may set."""
    assert thread_count.number_and_source()[1] != "set_num_threads"
    relay.set_num_threads(3)
