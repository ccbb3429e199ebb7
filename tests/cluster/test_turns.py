"""Turns of processes: one at a time, given back by a process that is killed; processes in turns compile each kernel once."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from relayvm.cluster.turns import turn

HOLD = """
import sys
from relayvm.cluster.turns import turn
with turn() as taken:
    print(taken, flush=True)
    sys.stdin.read()
"""
OPEN = """
import relayvm as relay
from relayvm.cluster.turns import turn
exe = relay.compile('#[version = "0.0.5"] def @main(%x: Tensor[(?n), float32]) { exp(%x) * 3f - %x }')
relay.set_num_threads(1)
with turn():
    machine = relay.VirtualMachine(exe)
print(machine.kernel_compiles)
"""


@pytest.fixture
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELAYVM_CACHE_DIR", str(tmp_path / "cache"))


@pytest.mark.usefixtures("_cache")
def test_killed_process_gives_its_turn_back() -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None and holder.stdout.readline() == "True\n"
    taken = threading.Event()

    def wait() -> None:
        with turn() as is_turn:
            assert is_turn
            taken.set()

    waiter = threading.Thread(target=wait, daemon=True)
    waiter.start()
    assert not taken.wait(0.3)
    holder.kill()
    holder.communicate()
    assert taken.wait(60)
    waiter.join()


@pytest.mark.extensive
@pytest.mark.usefixtures("_cache")
def test_processes_in_turns_compile_each_kernel_once() -> None:
    together = [subprocess.Popen([sys.executable, "-c", OPEN], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    counts = sorted(int(process.communicate()[0]) for process in together)
    assert counts[:2] == [0, 0] and counts[2] > 0


def test_no_folder_is_no_turn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RELAYVM_CACHE_DIR", str(tmp_path / "file" / "below"))
    with turn() as taken:
        assert not taken
