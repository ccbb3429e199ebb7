"""Calls that end without a result: out of memory at any point, Ctrl-C at any moment, a failed queue; and closed machines."""

from __future__ import annotations

import functools
import gc
import signal
from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.ops.native.memory import array_int64, free
from relayvm.vm.bytecode import isa
from relayvm.vm.fast_path import guard
from relayvm.vm.state import growable
from relayvm.vm.state.state_layout import RUNNING, STATE

from ...arrays import leaves
from ...devices import DEVICES
from ...programs import HEADER
from ..bytecode.executables import executable, function

X, K = np.ones(30, np.float32), np.array(3)
VECTOR = "Tensor[(?), float32]"
PROGRAMS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "identity": ("def @main(%x: Tensor[(?), float32]) { %x }", (X,)),
    "results": ("def @main(%x: Tensor[(?), float32], %k: int64) { (%x, argwhere(%x), %x + 1f, (%k, exp(%x)), %x) }", (X, K)),
    "tuple": (f"def @main(%t: ({VECTOR}, ({VECTOR}, int64))) {{ (%t, %t.0 + %t.1.0) }}", ((X, (X, K)),)),
    "recursion": (
        f"""def @loop(%i: int64, %x: {VECTOR}) -> {VECTOR} {{
          if (%i <= 0i64) {{ %x }} else {{ @loop(%i - 1i64, concatenate((%x, %x), axis=0)) }} }}
        def @main(%k: int64, %x: {VECTOR}) {{ @loop(%k, %x) }}""",
        (K, X),
    ),
}


@functools.cache
def compiled(name: str, target: str) -> relay.Executable:
    return relay.compile(HEADER + PROGRAMS[name][0], target=target)


@pytest.mark.split(2)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("target", DEVICES)
def test_out_of_memory_anywhere_holds_nothing_back(name: str, target: str) -> None:
    exe, args = compiled(name, target), PROGRAMS[name][1]
    vm = relay.VirtualMachine(exe)
    want, rest = leaves(vm.run(*args)), vm.memory["live_bytes"]
    failed = ran = 0
    for limit in range(0, 3 << 10, 64):
        vm = relay.VirtualMachine(exe, memory_limit_bytes=limit)
        for _ in range(2):
            try:
                got = leaves(vm.run(*args))
                ran += 1
                assert all(map(np.array_equal, got, want))
            except relay.VMError as error:
                failed += 1
                assert str(error).startswith("error: out of memory")
            assert vm.memory["live_bytes"] <= rest
        vm._runtime.view["limit_bytes"] = 1 << 40
        assert all(map(np.array_equal, leaves(vm.run(*args)), want))
    assert failed and ran


@pytest.mark.parametrize("argument", [np.array(10**12), 10**12], ids=["array", "int"])
def test_ctrl_c_in_the_first_moments_leaves_the_machine_usable(argument: Any) -> None:
    text = """def @f(%i: int64) -> int64 { if (%i <= 0i64) { 0i64 } else { @f(%i - 1i64) } }
    def @main(%i: int64) -> int64 { @f(%i) }"""
    vm = relay.VirtualMachine(relay.compile(HEADER + text))
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for seconds in (0.005, 0.02):
            with pytest.raises(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, seconds)
                vm.run(argument)
            assert vm.memory["live_bytes"] == 0
    finally:
        signal.signal(signal.SIGALRM, before)
    assert vm.run(np.array(3)).item() == 0


def test_a_first_frame_of_any_size() -> None:
    vm = relay.VirtualMachine(executable(function([isa.Ret(0)], 1, 100_000)))
    np.testing.assert_array_equal(vm.run(np.ones((2, 4), np.float32)).numpy(), np.ones((2, 4)))


@pytest.mark.parametrize("target", DEVICES)
def test_a_machine_and_its_results_are_garbage_together(target: str) -> None:
    vm = relay.VirtualMachine(compiled("identity", target))
    vm.last = [vm.run(X) for _ in range(300)]  # type: ignore[attr-defined]
    view, open_after = vm._runtime.view, []

    class Noted:
        def __init__(self, result: relay.Tensor) -> None:
            self.result = result

        def __del__(self) -> None:
            open_after.append(int(view["object_chunks"]) != 0)

    vm.noted = [Noted(r) for r in vm.last]  # type: ignore[attr-defined]
    del vm
    gc.collect()
    # the machine stays open until all its results are freed
    assert len(open_after) == 300 and all(open_after)
    assert (view["live_objects"], view["object_chunks"]) == (0, 0)


@pytest.mark.parametrize("memory", [0, 1, 2])
def test_what_is_given_up_while_a_machine_runs_is_noted_as_far_as_there_is_memory(
    memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = np.zeros(1, STATE)
    state["busy"] = RUNNING
    real, blocks = growable.alloc, iter(range(memory))
    monkeypatch.setattr(growable, "alloc", lambda nbytes: 0 if next(blocks, None) is None else real(nbytes))
    for address in range(1, 301):
        guard.give_up(state.ctypes.data, 0, address)
    noted, at = int(state["n_deferred"][0]), int(state["deferred"][0])
    assert noted == (0, 64, 192)[memory]
    np.testing.assert_array_equal(array_int64(at, noted), np.arange(1, noted + 1))
    free(at)
