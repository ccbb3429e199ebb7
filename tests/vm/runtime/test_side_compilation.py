"""Companions: processes that compile a program's kernels in another order, into the same cache."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.ops.core.group import Group
from relayvm.ops.native.cache import disk_cache
from relayvm.ops.native.compiled import kernel_store
from relayvm.vm.runtime.kernels import side_compilation
from relayvm.vm.runtime.kernels.companion import Companion, Job
from relayvm.vm.runtime.kernels.kernel_addresses import kernel_address
from relayvm.vm.runtime.kernels.side_compilation import COMPILED, LEFT, companions, start_ahead, wait_ahead

from ...programs import HEADER

#: Kernels that are not optimized need no companions.
pytestmark = pytest.mark.optimized

#: More than companions start for, each with a constant of its own.
KERNELS = COMPILED + LEFT + 1


def program(kernels: int, first: float = 0.5, differ: bool = True) -> relay.Executable:
    """A program of so many kernels: products with ``first``, ``first + 1`` and so on.

    ``differ``: whether each adds ``%x`` another number of times, so that no two kernels share code.
    """
    lines = ""
    for n in range(kernels):
        added = n if differ else 0
        call = f"{'add(' * added}multiply(%x, {first + n}f){', %x)' * added}"
        lines += f"  let %y{n} = annotation.stop_fusion({call});\n"
    results = ", ".join(f"%y{n}" for n in range(kernels))
    return relay.compile(f"{HEADER}def @main(%x: Tensor[(?n), float32]) {{\n{lines}  ({results},)\n}}")


def groups_of(exe: relay.Executable) -> list[Group]:
    return [packed.group for packed in exe.packed]


class Started:
    """Stands for companions; counts those that were started, with the jobs they were told, and those that were ended."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.told: list[list[Job]] = []
        self.waits = self.ended = self.number = 0
        monkeypatch.setattr(side_compilation, "Companion", self.start)
        monkeypatch.setattr(side_compilation, "_ahead", [])
        # a compiled program would start a companion for the machine's own code where no test before needed that code
        monkeypatch.setattr(side_compilation, "start_ahead", lambda jobs, then=(): None)
        monkeypatch.setattr(kernel_store, "is_stored", lambda key: False)  # by another test

    def start(self) -> Started:
        self.number += 1
        return self

    def tell(self, jobs: list[Job]) -> bool:
        self.told.append(jobs)
        return True

    def wait(self) -> None:
        self.waits += 1

    def end(self) -> None:
        self.ended += 1


def kernels_of(jobs: list[Job]) -> list[Any]:
    """The literals of the kernels that a companion was told, in order."""
    assert {function for function, _ in jobs} == {kernel_address}
    return [group.literals for _, (group,) in jobs]


def compile_all(number: int) -> None:
    for _ in range(number):
        for listener in tuple(kernel_store.on_object):
            listener()


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_each_companion_has_all_kernels_and_another_begin(monkeypatch: pytest.MonkeyPatch, processes: int) -> None:
    started, groups = Started(monkeypatch), groups_of(program(KERNELS))
    listeners = list(kernel_store.on_object)
    assert len(groups) == KERNELS
    with companions(groups, processes):
        for n in range(KERNELS):
            assert started.number == (processes - 1 if n >= COMPILED else 0)
            compile_all(1)
    literals = [g.literals for g in groups]
    orders = [kernels_of(jobs) for jobs in started.told]
    assert all(sorted(order, key=repr) == sorted(literals, key=repr) for order in orders)
    assert len({repr(order[0]) for order in orders}) == started.ended == processes - 1
    assert kernel_store.on_object == listeners


def test_few_kernels_and_a_cache_that_is_not_written_need_no_companions(monkeypatch: pytest.MonkeyPatch) -> None:
    started, groups = Started(monkeypatch), groups_of(program(KERNELS))
    listeners = list(kernel_store.on_object)
    with companions(groups[: COMPILED + LEFT - 1], 2):
        assert kernel_store.on_object == listeners
    monkeypatch.setenv(disk_cache.CAP_VARIABLE, "0")
    with companions(groups, 2):
        assert kernel_store.on_object == listeners
    start_ahead([])
    assert started.number == 0


def test_kernels_that_share_their_code_need_no_companions(monkeypatch: pytest.MonkeyPatch) -> None:
    started, groups = Started(monkeypatch), groups_of(program(KERNELS, 0.3, differ=False))
    with companions(groups, 2):
        compile_all(COMPILED)
    assert started.number == 0


def test_companions_end_with_an_error_of_their_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    started, groups = Started(monkeypatch), groups_of(program(KERNELS))
    listeners = list(kernel_store.on_object)
    with pytest.raises(KeyboardInterrupt), companions(groups, 2):
        compile_all(COMPILED)
        raise KeyboardInterrupt
    assert (started.number, started.ended, kernel_store.on_object) == (1, 1, listeners)


@pytest.mark.parametrize("kernels", [2, KERNELS])
def test_the_companion_started_ahead_goes_on_with_the_kernels(monkeypatch: pytest.MonkeyPatch, kernels: int) -> None:
    started, groups = Started(monkeypatch), groups_of(program(kernels))
    machine: list[Job] = [(print, ())]
    start_ahead(machine)
    start_ahead(machine)
    assert (started.number, started.told) == (1, [machine])
    with companions(groups, 2):
        assert len(started.told) == 1  # nothing may be missing
        compile_all(kernels)
    assert (started.number, started.ended, len(started.told)) == (1, 0, 2)
    assert kernels_of(started.told[1]) == [g.literals for g in reversed(groups)]
    wait_ahead()
    wait_ahead()
    assert (started.waits, started.ended) == (1, 1)


def test_a_forked_process_does_not_wait_for_the_companion_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    started = Started(monkeypatch)
    start_ahead([])
    child = os.fork()
    if child == 0:
        wait_ahead()
        os._exit(started.waits)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    wait_ahead()
    assert (started.waits, started.ended) == (1, 1)


def test_a_program_that_misses_no_kernel_tells_the_companion_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    started = Started(monkeypatch)
    start_ahead([])
    with companions(groups_of(program(KERNELS)), 2):
        pass
    assert (started.number, len(started.told), started.ended) == (1, 1, 0)


def test_a_companion_does_the_jobs_that_it_is_told(tmp_path: Path) -> None:
    companion = Companion()
    try:
        first, second = tmp_path / "first", tmp_path / "second"
        assert companion.tell([(os.mkdir, (first,)), (os.mkdir, (first,)), (os.mkdir, (second,))])  # the second job fails
        companion.wait()
        assert first.is_dir() and second.is_dir()
        assert not companion.tell([(lambda: None, ())])  # exists in this process only
        assert companion.tell([(os._exit, (1,))])
        companion.wait()  # ends, although nothing was done
    finally:
        companion.end()


_OWNER = """
import os, sys, time
from relayvm.vm.runtime.kernels.companion import Companion
companion = Companion()
companion.tell([(os.mkdir, (sys.argv[1],)), (time.sleep, (600,))])
while not os.path.isdir(sys.argv[1]):
    time.sleep(0.01)
print(companion.pid, flush=True)
os._exit(0)
"""


def test_a_companion_ends_when_its_owner_is_gone(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _OWNER, str(tmp_path / "made")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(relay.__file__).parents[1], check=True)
    deadline = time.monotonic() + 60
    while Path(f"/proc/{done.stdout.strip()}").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not Path(f"/proc/{done.stdout.strip()}").exists()


_COLD = """
import relayvm as relay, numpy as np
from relayvm.ops.native.compiled import kernel_store
compiled = []
kernel_store.on_compile.append(compiled.append)
exe = relay.compile("def @main(%x: Tensor[(?n), float32]) { add(%x, 1f) }".join(('#[version = "0.0.5"]', "")))
print(relay.VirtualMachine(exe).run(np.zeros(2, "float32")).numpy(), "add" in compiled, "the virtual machine" in compiled)
"""


@pytest.mark.extensive
def test_a_companion_compiles_the_machine_of_an_empty_cache(tmp_path: Path) -> None:
    environment = os.environ | {"RELAYVM_NUM_THREADS": "2", "RELAYVM_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-c", _COLD]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=Path(relay.__file__).parents[1])
    assert (done.stdout.strip(), done.stderr) == ("[1. 1.] True False", "")


_RUN = """
import sys, time, numpy as np, relayvm as relay
from relayvm.ops.native.compiled import kernel_store
from relayvm.vm.runtime.kernels import side_compilation
side_compilation.COMPILED, side_compilation.LEFT = 1, 1
# this process is slow with kernels, so that its companion is first with some
kernel_store.on_compile.append(lambda name: time.sleep(2 if "multiply" in name else 0))
machine = relay.VirtualMachine(relay.Executable.load(sys.argv[1]))
from_others = sum(use.how == "disk_hits" and "multiply" in use.name for use in machine.prepared)
print([float(r.numpy()[1]) for r in machine.run(np.arange(3, dtype="float32"))], from_others > 0)
"""


@pytest.mark.extensive
def test_kernels_of_a_companion_are_used(tmp_path: Path) -> None:
    factor = 7.5
    program(6, factor).save(tmp_path / "program.rvm")
    command = [sys.executable, "-c", _RUN, str(tmp_path / "program.rvm")]
    # no code of an earlier run, which kernels share whatever their literals are
    environment = os.environ | {"RELAYVM_NUM_THREADS": "2", "RELAYVM_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=Path(relay.__file__).parents[1])
    results = [float(np.float32(factor + n)) + n for n in range(6)]
    assert (done.stdout.strip(), done.stderr) == (f"{results} True", "")
