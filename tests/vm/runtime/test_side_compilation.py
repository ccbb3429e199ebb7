"""Companions: processes that compile a program's kernels in another order, into the same cache."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import relayvm as relay
from relayvm.ops.core.group import Group
from relayvm.ops.native.cache import disk_cache, kernel_store
from relayvm.vm.runtime.kernels import side_compilation
from relayvm.vm.runtime.kernels.side_compilation import COMPILED, LEFT, companions, compile_for

from ...programs import HEADER

#: Kernels that are not optimized need no companions.
pytestmark = pytest.mark.optimized

#: More than companions start for, each with a constant of its own.
KERNELS = COMPILED + LEFT + 1


def program(kernels: int, first: float = 0.5) -> relay.Executable:
    """A program of so many kernels that differ: products with ``first``, ``first + 1`` and so on."""
    lines = "".join(f"  let %y{n} = annotation.stop_fusion(multiply(%x, {first + n}f));\n" for n in range(kernels))
    results = ", ".join(f"%y{n}" for n in range(kernels))
    return relay.compile(f"{HEADER}def @main(%x: Tensor[(?n), float32]) {{\n{lines}  ({results},)\n}}")


def groups_of(exe: relay.Executable) -> list[Group]:
    return [packed.group for packed in exe.packed]


class Started:
    """Stands for processes; counts those that were started, with what they were told, and those that were ended."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.told: list[Any] = []
        self.ended = 0
        monkeypatch.setattr(subprocess, "Popen", self.start)

    def start(self, command: list[str], stdin: Any, **others: Any) -> Started:
        assert command[0] == sys.executable
        assert pickle.load(stdin) == sys.path
        self.told.append(pickle.load(stdin))
        return self

    def kill(self) -> None:
        self.ended += 1

    def wait(self) -> None:
        pass


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_each_companion_has_all_kernels_and_another_begin(monkeypatch: pytest.MonkeyPatch, processes: int) -> None:
    started, groups = Started(monkeypatch), groups_of(program(KERNELS))
    assert len(groups) == KERNELS
    with companions(groups, processes):
        for n in range(KERNELS):
            assert len(started.told) == (processes - 1 if n >= COMPILED else 0)
            for listener in tuple(kernel_store.on_compile):
                listener("a kernel")
    literals = [g.literals for g in groups]
    assert [owner for owner, _ in started.told] == [os.getpid()] * (processes - 1)
    orders = [[g.literals for g in order] for _, order in started.told]
    assert all(sorted(order, key=repr) == sorted(literals, key=repr) for order in orders)
    assert len({repr(order[0]) for order in orders}) == started.ended == processes - 1
    assert kernel_store.on_compile == []


def test_few_kernels_and_a_cache_that_is_not_written_need_no_companions(monkeypatch: pytest.MonkeyPatch) -> None:
    started, groups = Started(monkeypatch), groups_of(program(KERNELS))
    listeners = list(kernel_store.on_compile)
    with companions(groups[: COMPILED + LEFT - 1], 2):
        assert kernel_store.on_compile == listeners
    monkeypatch.setenv(disk_cache.CAP_VARIABLE, "0")
    with companions(groups, 2):
        assert kernel_store.on_compile == listeners
    assert started.told == []


def test_companions_end_with_an_error_of_their_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    started, groups = Started(monkeypatch), groups_of(program(KERNELS))
    listeners = list(kernel_store.on_compile)
    with pytest.raises(KeyboardInterrupt), companions(groups, 2):
        for _ in range(COMPILED):
            kernel_store.on_compile[-1]("a kernel")
        raise KeyboardInterrupt
    assert (len(started.told), started.ended, kernel_store.on_compile) == (1, 1, listeners)


def test_a_companion_compiles_what_it_is_told_and_ends_with_its_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []

    def compile_one(group: Group) -> int:
        compiled.append(group.name)
        if len(compiled) == 1:
            raise ValueError("a kernel that does not compile")
        return 1

    monkeypatch.setattr(side_compilation, "kernel_address", compile_one)
    groups = groups_of(program(3))
    compile_for(io.BytesIO(pickle.dumps((os.getppid(), groups))))
    assert compiled == [g.name for g in groups]
    compile_for(io.BytesIO(pickle.dumps((-1, groups))))
    assert len(compiled) == 3


_RUN = """
import sys, time, numpy as np, relayvm as relay
from relayvm.ops.native.cache import kernel_store
from relayvm.vm.runtime.kernels import side_compilation
side_compilation.COMPILED, side_compilation.LEFT = 1, 1
# this process is slow, so that its companion is first with some kernels
kernel_store.on_compile.append(lambda name: time.sleep(2))
machine = relay.VirtualMachine(relay.Executable.load(sys.argv[1]))
from_others = sum(use.how == "disk_hits" and "multiply" in use.name for use in machine.prepared)
print([float(r.numpy()[1]) for r in machine.run(np.arange(3, dtype="float32"))], from_others > 0)
"""


@pytest.mark.extensive
def test_kernels_of_a_companion_are_used(tmp_path: Path) -> None:
    factor = time.time_ns() % 10**6 + 0.5  # no kernel of an earlier run
    program(6, factor).save(tmp_path / "program.rvm")
    command = [sys.executable, "-c", _RUN, str(tmp_path / "program.rvm")]
    environment = os.environ | {"RELAYVM_NUM_THREADS": "2"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=Path(relay.__file__).parents[1])
    assert (done.stdout.strip(), done.stderr) == (f"{[factor + n for n in range(6)]} True", "")
