"""Mutual exclusion of calls in a machine, for all entries and exits: interrupts, threads, nested calls."""

from __future__ import annotations

import gc
import random
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import relayvm as relay

from ...programs import machine

TEXT = "def @main(%x: Tensor[(?n), float32], %p: (Tensor[(?n), float32], int64)) { (exp(%x) + %p.0, (%p.1, %x)) }"
PLAIN = "def @main(%x: Tensor[(?n), float32]) { exp(%x) + %x }"
X = np.linspace(0, 1, 48, dtype=np.float32)


FORMS: dict[str, tuple[str, Callable[[], tuple[Any, ...]]]] = {
    "array": (PLAIN, lambda: (X,)),
    "list": (PLAIN, lambda: (X.tolist(),)),
    "strided": (PLAIN, lambda: (np.repeat(X, 2)[::2],)),
    "tuple": (TEXT, lambda: (X, (X, 3))),
}


@pytest.fixture
def no_collections() -> Iterator[None]:
    """Python ignores an exception in a callback of the garbage collector, and the test tools have such callbacks."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collections")
@pytest.mark.parametrize("target", ["cpu", "sim"])
@pytest.mark.parametrize("form", FORMS)
def test_an_interrupt_at_any_moment_leaves_a_machine_that_runs_and_holds_nothing(form: str, target: str) -> None:
    text, make = FORMS[form]
    vm = machine(text, target)
    fetch = (lambda r: r.numpy()) if text is PLAIN else (lambda r: r[0].numpy())
    fetch(vm.run(*make()))
    held = vm.memory["live_objects"]
    r, came = random.Random(form + target), 0

    def handler(number: int, frame: Any) -> None:
        nonlocal came
        came += 1
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, handler)
    try:
        for _ in range(60):
            args = make()
            try:
                signal.setitimer(signal.ITIMER_REAL, r.uniform(2e-6, 150e-6))
                for _ in range(10_000):
                    fetch(vm.run(*args))
                raise AssertionError("an interrupt was swallowed")
            except KeyboardInterrupt:
                pass
    finally:
        signal.signal(signal.SIGALRM, before)
    assert came == 60
    fetch(vm.run(*make()))
    assert vm.memory["live_objects"] == held


class Meddling:
    """An argument whose conversion runs arbitrary code."""

    def __init__(self, act: Callable[[], Any]) -> None:
        self.act = act

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        self.act()
        return X


@pytest.mark.parametrize("target", ["cpu", "sim"])
def test_an_argument_whose_conversion_calls_the_same_machine(target: str) -> None:
    vm = machine(PLAIN, target)
    inner: list[Any] = []
    result = vm.run(Meddling(lambda: inner.append(vm.run(X))))
    for got in (result, *inner):
        np.testing.assert_allclose(got.numpy(), np.exp(X) + X, rtol=1e-6)
    assert len(inner) == 1


def test_two_threads_at_one_machine_are_right_or_refused_whatever_the_arguments() -> None:
    vm = machine(PLAIN)
    forms: list[Callable[[], Any]] = [lambda: X, X.tolist, lambda: np.repeat(X, 2)[::2], lambda: Meddling(lambda: None)]
    wrong: list[str] = []
    refused = [0]
    want = np.exp(X) + X

    def work(seed: int) -> None:
        r = random.Random(seed)
        for _ in range(400):
            try:
                got = vm.run(r.choice(forms)())
                if not np.allclose(got.numpy(), want):
                    wrong.append("a wrong result")
                if r.random() < 0.05:
                    vm.trim()
            except relay.VMError as error:
                refused[0] += 1
                if "is running in another thread" not in str(error):
                    wrong.append(str(error))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    held = vm.memory["live_objects"]
    vm.run(X)
    assert vm.memory["live_objects"] <= held
    assert vm.memory["live_bytes"] == 0


def test_everything_that_enters_a_machine_is_refused_while_it_runs() -> None:
    text = """def @f(%i: int64) -> int64 { if (%i <= 0i64) { 0i64 } else { @f(%i - 1i64) } }
    def @main(%i: int64) -> int64 { @f(%i) }"""
    vm = machine(text, "sim")
    kept = vm.run(np.array(1))
    tries: list[Callable[[], Any]] = [
        lambda: vm.run(np.array(1)), lambda: vm.run(1), vm.trim, vm.start_trace, vm.stop_trace, vm.reset_counters,
        lambda: vm.profile(1), lambda: kept.numpy(),
    ]  # fmt: skip
    messages: list[str] = []

    def handler(number: int, frame: Any) -> None:
        for attempt in tries:
            with pytest.raises(relay.VMError, match="is running") as caught:
                attempt()
            messages.append(str(caught.value))
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with pytest.raises(KeyboardInterrupt):
            vm.run(np.array(10**12))
    finally:
        signal.signal(signal.SIGALRM, before)
    assert len(messages) == len(tries)
    assert vm.run(np.array(3)).item() == 0
