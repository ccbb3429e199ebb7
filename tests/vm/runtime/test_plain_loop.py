"""The interpreter loop, run un-jitted: equal results, and every load and store inside registered memory."""

from __future__ import annotations

import ctypes
import dataclasses

import numpy as np
import pytest

import relayvm as relay
from relayvm.ops.native import memory
from relayvm.ops.native.threads import team
from relayvm.vm.api.machine import VirtualMachine
from relayvm.vm.bytecode import isa
from relayvm.vm.options import POISON_VARIABLE
from relayvm.vm.runtime import requests, stream
from relayvm.vm.runtime.objects import heap

from ...arrays import leaves
from ...programs import HEADER
from .plain import plain_machine

PROGRAMS = {
    "elementwise": (
        "def @main(%x: Tensor[(?n, 3), float32], %y: Tensor[(?n, 3), float32]) { nn.relu(%x - %y) * 2f }",
        lambda n, rng: (rng.standard_normal((n, 3)).astype("f"), rng.standard_normal((n, 3)).astype("f")),
    ),
    "data_dependent": (
        'def @main(%x: Tensor[(?, 4), float32], %s: Tensor[(2), int64]) { (dyn.reshape(%x, %s), shape_of(%x, dtype="int64")) }',
        lambda n, rng: (rng.standard_normal((n, 4)).astype("f"), np.array([4, -1], np.int64)),
    ),
    "upper_bound": (
        "def @main(%x: Tensor[(?), float32]) { argwhere(greater(%x, 0f)) }",
        lambda n, rng: (rng.standard_normal(n).astype("f"),),
    ),
    "upper_bound_given_back": (
        "def @main(%x: Tensor[(?), float32]) { let %i = argwhere(greater(%x, 2f)); (%i, negative(squeeze(%i, axis=[1]))) }",
        lambda n, rng: (rng.standard_normal(1000 * n).astype("f"),),
    ),
    "workspaces": (
        "def @main(%x: Tensor[(?), float32]) { (sort(sort(%x), is_ascend=False), unique(%x)) }",
        lambda n, rng: (rng.standard_normal(n).astype("f"),),
    ),
    "recursion": (
        """def @sum_to(%i: int64) -> int64 { if (%i <= 0i64) { 0i64 } else { %i + @sum_to(%i - 1i64) } }
        def @main(%n: int64) -> int64 { @sum_to(%n) }""",
        lambda n, rng: (np.array(n, np.int64),),
    ),
    "tail_recursion_of_tuples": (
        """def @loop(%i: int64, %p: (float32, Tensor[(?), float32])) -> (float32, Tensor[(?), float32]) {
          if (%i <= 0i64) { %p } else { @loop(%i - 1i64, (%p.0 + 1f, %p.1 * 2f)) }
        }
        def @main(%n: int64, %x: Tensor[(?), float32]) { @loop(%n, (0f, %x)) }""",
        lambda n, rng: (np.array(n, np.int64), rng.standard_normal(n).astype("f")),
    ),
    "list": (
        """type List { Cons(int32, List), Nil }
        type Wide { Wide(int32, int32, int32, int32), Wider(int32, int32, int32, int32, int32, int32, int32, int32, int32,
          int32, int32, int32) }
        def @build(%n: int32, %l: List) -> List { if (%n == 0) { %l } else { @build(%n - 1, Cons(%n, %l)) } }
        def @total(%l: List, %a: int32) -> int32 { match (%l) { Cons(%x, %t) => @total(%t, %a + %x), Nil => %a } }
        def @first(%w: Wide) -> int32 { match (%w) { Wide(%a, _, _, _) => %a, Wider(%a, _, _, _, _, _, _, _, _, _, _, _) => %a } }
        def @main(%n: int32) -> (int32, int32, int32) {
          let %wide = Wide(%n, %n, %n, %n); let %wider = Wider(%n, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
          (@total(@build(%n, Nil), 0), @first(%wide), @first(%wider))
        }""",
        lambda n, rng: (np.array(300 if n == 5 else n, np.int32),),
    ),
    "closure": (
        """def @main(%n: int64, %x: Tensor[(?), float32]) {
          let %step = fn (%y: Tensor[(?), float32]) -> Tensor[(?), float32] { %y + %x };
          let %twice = fn (
            %f: fn (Tensor[(?), float32]) -> Tensor[(?), float32], %y: Tensor[(?), float32]
          ) -> Tensor[(?), float32] { %f(%f(%y)) };
          %twice(%step, %x)
        }""",
        lambda n, rng: (np.array(n, np.int64), rng.standard_normal(n).astype("f")),
    ),
}


@pytest.mark.parametrize(
    "name,poison",
    # objects are smaller if dead memory is not poisoned
    [*((name, "1") for name in PROGRAMS), *((name, "0") for name in ("recursion", "tail_recursion_of_tuples", "list"))],
)
# the devices with memory on the host, where accesses can be observed
@pytest.mark.parametrize("target", ["cpu", "sim"])
def test_the_loop_gives_the_same_un_jitted_and_range_checked(
    name: str, poison: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(POISON_VARIABLE, poison)
    text, make = PROGRAMS[name]
    exe = relay.compile(relay.parse(HEADER + text), target=target)
    native = VirtualMachine(exe)
    rng = np.random.default_rng(0)
    cases = [make(n, rng) for n in (0, 1, 5)]
    expected = [leaves(native.run(*args)) for args in cases]
    with memory.watch() as announce:
        vm = plain_machine(exe, monkeypatch)
        tables = vm._runtime.tables
        for block in (
            vm._runtime.block, tables.code, tables.functions, tables.packed, tables.shape_programs, tables.slots, tables.argv,
            team._block, tables.libraries, tables.constants, tables.reason_kinds, tables.sync_counts, tables._objects,
            *tables._rows, *tables._programs, *tables._held,
        ):  # fmt: skip
            announce(block.ctypes.data, block.nbytes)
        if vm._runtime.session is not None:
            announce(vm._runtime.session.address, vm._runtime.session._block.nbytes)
        for args, want in zip(cases, expected, strict=True):
            for a in args:
                announce(a.ctypes.data, a.nbytes)
            got = leaves(vm.run(*args))
            for g, w in zip(got, want, strict=True):
                np.testing.assert_array_equal(g, w)
        assert vm.counters == {**native.counters, "peak_bytes": vm.counters["peak_bytes"]}
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(vm._closer))  # never closed: its memory was allocated by the observed twin


def test_a_wild_address_is_caught() -> None:
    cell = np.zeros(2, np.int64)
    with memory.watch() as announce:
        announce(cell.ctypes.data, 8)
        assert memory.load_i64(cell.ctypes.data) == 0
        with pytest.raises(memory.WildAddress):
            memory.load_i64(cell.ctypes.data + 8)
        with pytest.raises(memory.WildAddress):
            memory.store_i64(cell.ctypes.data + 4, 1)


def test_on_sim_a_missing_wait_is_a_wrong_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    text, make = PROGRAMS["elementwise"]
    exe = relay.compile(relay.parse(HEADER + text), target="sim")
    args = make(5, np.random.default_rng(0))
    vm = plain_machine(exe, monkeypatch)
    right = vm.run(*args).numpy().copy()
    monkeypatch.setattr(stream, "wait_for", lambda state, pc, why, ticket: 0)
    # twice: stale memory of the first run must not pass for the second run's result
    for _ in range(2):
        assert not np.array_equal(vm.run(*args).numpy(), right)


@pytest.mark.parametrize("target", ["cpu", "sim"])
def test_a_copy_on_a_device_comes_after_the_work_asked_for_before(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, make = PROGRAMS["elementwise"]
    args = make(5, np.random.default_rng(0))
    vm = plain_machine(relay.compile(relay.parse(HEADER + text), target=target), monkeypatch)
    result = vm.run(*args)  # on sim the work runs at a synchronisation
    made = heap.like(vm._runtime.address, result._address, memory.tensor(result._address).device)
    copy = vm._runtime.guard.obtain(requests.OWN, made, 0)
    heap.release(vm._runtime.address, made)
    assert stream.copy_on_device(vm._runtime.address, copy._address, result._address) == 0
    del result  # the next allocation; its memory is poisoned, too
    np.testing.assert_array_equal(copy.numpy(), np.maximum(args[0] - args[1], 0) * 2)


def test_on_sim_a_missing_copy_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    text, make = PROGRAMS["data_dependent"]
    exe = relay.compile(relay.parse(HEADER + text), target="sim", place=False)
    code = exe.functions[0].code.copy()
    pcs = [pc for pc, i in isa.disassemble(code) if isinstance(i, isa.DeviceCopy)]
    assert pcs
    for pc in pcs:  # replace the copy by a move: the register then holds a tensor on the device
        move = isa.Move(int(code[pc + 1]), int(code[pc + 2])).words()
        code[pc : pc + 6] = [*move, *isa.Move(move[1], move[1]).words()]
    broken = dataclasses.replace(exe, functions=(dataclasses.replace(exe.functions[0], code=code),))
    with pytest.raises(relay.VMError, match="the host was asked to read a tensor that is on the device"):
        VirtualMachine(broken).run(*make(3, np.random.default_rng(0)))
