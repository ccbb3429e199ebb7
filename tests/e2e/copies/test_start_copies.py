"""Copies that are begun early change when the host waits, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relayvm as relay
from relayvm.compiler.inputs.given_inputs import Wanted, make_inputs
from relayvm.compiler.load_program import function_of
from relayvm.vm.bytecode import isa

from ...devices import TARGETS
from ...programs import machine_on
from .test_place import outcome, programs

EXAMPLES = [Path(__file__).resolve().parents[3] / "examples" / f"{name}.relay" for name in ("digits", "exporter_shapes")]


def count(exe: relay.Executable, kind: type[isa.Instruction]) -> int:
    """The number of instructions of this kind."""
    return sum(isinstance(i, kind) for f in exe.functions for _, i in isa.disassemble(f.code))


@pytest.mark.parametrize("target", TARGETS)
@settings(max_examples=60)
@given(programs(), st.sampled_from(["on", "off"]), st.sampled_from(["input", "op"]))
def test_nothing_else_changes(target: str, program: str, place: str, dependence: str) -> None:
    found: list[Any] = []
    for bulk in ("off", "on"):
        try:
            vm = machine_on(target, program, place=place, data_dependence=dependence, bulk=bulk)
        except relay.TypeCheckError as error:
            found.append((str(error),))
            continue
        result, *counts = outcome(vm)
        # a run that fails has begun more
        found.append((result,) if isinstance(result, str) else (result.numpy().tolist(), *counts))
    assert found[0] == found[1]


@pytest.mark.thinned(2)
@pytest.mark.split(2)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_a_copy_that_is_begun_is_waited_for_and_counted_once(target: str, path: Path) -> None:
    exes = {bulk: relay.compile(path, target=target, place="off", bulk=bulk) for bulk in ("on", "off")}
    assert count(exes["off"], isa.CopyBegin) == count(exes["off"], isa.CopyWait) == 0
    begun = count(exes["on"], isa.CopyBegin)
    assert begun == count(exes["on"], isa.CopyWait) and begun > 0
    args = make_inputs(function_of(exes["on"], "main"), Wanted(dims={"n": 5}))
    copies = {}
    for bulk, exe in exes.items():
        vm = relay.VirtualMachine(exe)
        vm.run(*args)
        copies[bulk] = {k: v for k, v in vm.counters.items() if k.startswith(("dtoh", "htod"))}
    assert copies["on"] == copies["off"] and copies["on"]["dtoh_copies"] > 0


@pytest.mark.parametrize("target", TARGETS)
def test_the_host_reads_a_value_while_the_device_still_works(target: str) -> None:
    text = (
        "def @main(%x: Tensor[(?, ?), float32]) "
        "{ let %c = sum(%x) < 3f; let %y = nn.softmax(exp(%x)); if (%c) { %y } else { %x } }"
    )
    for bulk, name in (("on", "CopyBegin"), ("off", "DeviceCopy")):
        vm = machine_on(target, text, bulk=bulk)
        for value in (0, 1):
            x = np.full((2, 3), value, np.float32)
            want = np.full((2, 3), 1 / 3, np.float32) if value == 0 else x
            np.testing.assert_allclose(vm.run(x).numpy(), want, rtol=1e-6)
        (edge,) = [e for e in vm.exe.explain().transfers if e.reason is not None]
        code = dict(isa.disassemble(vm.exe.functions[0].code))
        assert type(code[edge.pc]).__name__ == name and edge.reason.kind.key == "condition"
