"""One executable over a long life: any size, interruptions, deep recursion, threads."""

from __future__ import annotations

import os
import resource
import signal
import threading
import time

import numpy as np
import pytest

import relayvm as relay
from relayvm.ops.native.compiled import kernel_store

from ..devices import DEVICES
from ..programs import HEADER

MIXED = """
def @main(%x: Tensor[(?n, ?m), float32], %y: Tensor[(?m), float32], %k: int64) {
  let %a = nn.relu(%x + %y);
  let %b = sum(%a * 0.5f, axis=[1]);
  let %where = argwhere(greater(%b, 0.2f));
  (%a, %b, %where, dyn.tile(%y, reshape(%k, newshape=[1])))
}
"""


def expected(x: np.ndarray, y: np.ndarray, k: int) -> list[np.ndarray]:
    a = np.maximum(x + y, 0)
    b = (a * np.float32(0.5)).sum(1)
    return [a, b, np.argwhere(b > np.float32(0.2)), np.tile(y, k)]


def check(vm: relay.VirtualMachine, rng: np.random.Generator, n: int, m: int) -> None:
    x, y = rng.standard_normal((n, m)).astype(np.float32), rng.standard_normal(m).astype(np.float32)
    for got, want in zip(vm.run(x, y, np.array(2)), expected(x, y, 2), strict=True):
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("target", DEVICES)
def test_a_thousand_sizes_one_compile_flat_memory(target: str) -> None:
    vm = relay.VirtualMachine(relay.compile(HEADER + MIXED, target=target))
    rng = np.random.default_rng(3)
    sizes = [(0, 0), (0, 1), (1, 0), (1, 1), (64, 64), *((int(n), int(m)) for n, m in rng.integers(0, 65, (995, 2)))]
    compiles = None
    for i, (n, m) in enumerate(sizes):
        check(vm, rng, n, m)
        if i == 99:
            before = dict(vm.counters), dict(vm.memory), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            compiles = kernel_store.counters["compiles"]
    counters, memory, resident_kib = before
    assert kernel_store.counters["compiles"] == compiles
    assert vm.counters["peak_bytes"] <= 1.5 * counters["peak_bytes"]
    assert vm.memory["live_bytes"] == memory["live_bytes"]
    assert vm.memory["pool_bytes"] <= memory["pool_bytes"] + (64 << 10)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - resident_kib < 16 << 10


ENDLESS = "def @f(%i: int64) -> int64 { @f(%i + 1i64) } def @main(%i: int64) -> int64 { @f(%i) }"


def test_ctrl_c_stops_an_endless_recursion() -> None:
    vm = relay.VirtualMachine(relay.compile(HEADER + ENDLESS))
    for _ in range(2):
        sent = []

        def interrupt(sent: list[float] = sent) -> None:
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        threading.Timer(0.2, interrupt).start()
        with pytest.raises(KeyboardInterrupt):
            vm.run(np.array(0))
        assert time.monotonic() - sent[0] < 0.5
        assert vm.memory["live_bytes"] == 0
    count = (
        "def @f(%i: int64) -> int64 { if (%i >= 9i64) { %i } else { @f(%i + 1i64) } } def @main(%i: int64) -> int64 { @f(%i) }"
    )
    assert relay.VirtualMachine(relay.compile(HEADER + count)).run(np.array(0)).item() == 9


DEEP = (
    "def @f(%i: int64) -> int64 { if (%i <= 0i64) { 0i64 } else { %i + @f(%i - 1i64) } } def @main(%n: int64) -> int64 { @f(%n) }"
)


def test_ten_million_frames_are_an_error() -> None:
    vm = relay.VirtualMachine(relay.compile(HEADER + DEEP))
    for _ in range(2):
        with pytest.raises(relay.VMError, match="the stack is full: recursion is too deep"):
            vm.run(np.array(10_000_000))
        assert vm.memory["live_bytes"] == 0
        assert vm.run(np.array(1000)).item() == 500500


def test_memory_limit_is_an_error_and_the_machine_goes_on() -> None:
    exe = relay.compile(HEADER + "def @main(%x: Tensor[(?), float32]) { exp(%x) }")
    vm = relay.VirtualMachine(exe, memory_limit_bytes=1 << 20)
    with pytest.raises(relay.VMError, match="out of memory"):
        vm.run(np.zeros(1 << 20, np.float32))
    np.testing.assert_array_equal(vm.run(np.zeros(3, np.float32)).numpy(), np.ones(3, np.float32))


def test_four_threads_with_a_machine_each() -> None:
    exe = relay.compile(HEADER + MIXED, target="sim")
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            rng, vm = np.random.default_rng(seed), relay.VirtualMachine(exe)
            for n, m in rng.integers(0, 40, (100, 2)):
                check(vm, rng, int(n), int(m))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert errors == []


def test_results_outlive_the_machine_and_are_released_by_any_thread() -> None:
    vm = relay.VirtualMachine(relay.compile(HEADER + "def @main(%x: Tensor[(?), float32]) { %x + 1f }"))
    x = np.arange(1000, dtype=np.float32)
    results = [vm.run(x) for _ in range(50)]
    arrays = [r.numpy() for r in results]
    arrays[0][0] = 7  # writable, and nobody else's
    del vm, results
    thread = threading.Thread(target=arrays.clear)
    kept = arrays[-1]
    thread.start()
    thread.join()
    np.testing.assert_array_equal(kept, x + 1)


def test_an_input_that_is_the_result_is_copied() -> None:
    vm = relay.VirtualMachine(
        relay.compile(HEADER + "def @main(%x: Tensor[(?), float32]) { (%x, reshape(%x, newshape=[-1, 1])) }")
    )
    x = np.arange(4, dtype=np.float32)
    first, second = vm.run(x)
    first.numpy()[0] = 9
    second.numpy()[1] = 9
    assert x.tolist() == [0, 1, 2, 3]


def test_one_machine_in_two_threads_is_an_error() -> None:
    vm = relay.VirtualMachine(relay.compile(HEADER + ENDLESS))
    seen: list[str] = []

    def second() -> None:
        time.sleep(0.2)
        try:
            vm.run(np.array(0))
        except relay.VMError as error:
            seen.append(str(error))
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=second)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        vm.run(np.array(0))
    thread.join()
    assert "running in another thread" in seen[0]
