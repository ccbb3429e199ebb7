"""vm.run(..., donate=[...]): an argument's memory is written over, if it is given away, and never else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import relayvm as relay

from ...devices import DEVICES
from ...programs import HEADER, machine

EXP = HEADER + "def @main(%x: Tensor[(?n), float32]) { exp(%x) }"
ADD = HEADER + "def @main(%x: Tensor[(?n), float32], %y: Tensor[(?n), float32]) { add(exp(%x), %y) }"
LOOP = HEADER + (
    "def @loop(%i: int64, %x: Tensor[(?n), float32]) -> Tensor[(?n), float32] "
    "{ if (less(%i, 1i64)) { %x } else { @loop(subtract(%i, 1i64), reverse(exp(negative(%x)), axis=0)) } }\n"
    "def @step(%i: int64, %x: Tensor[(?n), float32]) -> Tensor[(?n), float32] "
    "{ if (less(%i, 1i64)) { %x } else { @step(subtract(%i, 1i64), exp(negative(%x))) } }\n"
    "def @main(%i: int64, %x: Tensor[(?n), float32]) { @step(%i, %x) }"
)


def numbers(n: int = 1000, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(n).astype(np.float32)


@pytest.mark.parametrize("target", DEVICES)
def test_the_result_is_right_and_nothing_is_kept(target: str) -> None:
    vm, y = machine(ADD, target), numbers(seed=1)
    for _ in range(3):
        x = numbers()
        want = np.exp(x) + y
        result = vm.run(x, y, donate=["x"])
        np.testing.assert_allclose(result.numpy(), want, rtol=1e-5, atol=1e-6)
        x[:] = 7
        np.testing.assert_allclose(result.numpy(), want, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(y, numbers(seed=1))
    del result
    assert vm.memory["live_bytes"] == 0


def test_the_memory_of_a_donated_array_is_used() -> None:
    text = HEADER + "def @main(%x: Tensor[(?n), float32]) { sum(exp(%x)) }"
    vm = relay.VirtualMachine(relay.compile(text, fuse="off"))
    kept, given = numbers(), numbers()
    vm.run(kept)
    allocated = vm.counters["allocs"]
    assert allocated == 2
    vm.reset_counters()
    assert vm.run(given, donate=["x"]).item() == vm.run(kept).item()
    assert vm.counters["allocs"] == 1 + allocated
    np.testing.assert_array_equal(kept, numbers())
    assert not np.array_equal(given, kept)


def test_an_argument_that_is_the_result_is_copied_out() -> None:
    vm = machine(HEADER + "def @main(%x: Tensor[(?n), float32]) { (%x, reshape(%x, newshape=[-1, 1])) }")
    x = numbers()
    first, second = vm.run(x, donate=["x"])
    x[:] = 0
    np.testing.assert_array_equal(first.numpy(), numbers())
    np.testing.assert_array_equal(second.numpy(), numbers()[:, None])


@pytest.mark.parametrize("target", DEVICES)
def test_a_loop_takes_over_what_it_passes_on(target: str) -> None:
    vm, want = machine(LOOP, target), numbers()
    for _ in range(10):
        want = np.exp(-want)
    counts = []
    for donate in ([], ["x"]):
        vm.reset_counters()
        got = vm.run(np.array(10), numbers(), donate=donate)
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-5)
        counts.append(vm.counters["alloc_bytes"])
    vm.reset_counters()
    vm.run(np.array(20), numbers())
    # ten more turns allocate nothing of this size
    assert vm.counters["alloc_bytes"] - counts[0] < numbers().nbytes


def test_a_tensor_that_the_caller_holds_is_not_written() -> None:
    vm = machine(EXP)
    held = vm.run(numbers())
    before = held.numpy().copy()
    vm.run(held)
    np.testing.assert_array_equal(held.numpy(), before)


def test_a_failure_leaves_nothing_behind() -> None:
    vm = machine(HEADER + "def @main(%x: Tensor[(?n), float32], %s: Tensor[(1), int64]) { dyn.reshape(exp(%x), %s) }")
    with pytest.raises(relay.VMError, match="cannot view"):
        vm.run(numbers(), np.array([7]), donate=["x"])
    assert vm.memory["live_bytes"] == 0 and vm.run(numbers(), np.array([1000])).shape == (1000,)


def read_only() -> np.ndarray:
    x = numbers()
    x.flags.writeable = False
    return x


REFUSED: dict[str, tuple[Any, Any, str, str | None]] = {
    "unknown": (["z"], numbers(), "@main has no parameter 'z' to donate", "its parameters: %x, %y"),
    "near": (["yy"], numbers(), "@main has no parameter 'yy' to donate; did you mean 'y'?", "its parameters: %x, %y"),
    "twice": (["x", "x"], numbers(), "@main: %x is donated twice", None),
    "text": ("x", numbers(), "@main: donate takes the names of parameters, not 'x'", 'a list of them: donate=["x"]'),
    "list": (["x"], [1.0, 2.0], "@main: %x cannot be donated: it is a list", "numpy arrays can be donated"),
    "strided": (
        ["x"], numbers(2000)[::2], "@main: %x cannot be donated: it has to be converted first",
        "donate a C-contiguous, aligned array in native byte order",
    ),
    "read_only": (["x"], read_only(), "@main: %x cannot be donated: its array is read-only", None),
    "view": (
        ["x"], numbers(2000)[:1000], "@main: %x cannot be donated: its array is a view of another one's memory",
        "donate the array that owns the memory",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_donated(case: str) -> None:
    donate, x, message, help_ = REFUSED[case]
    with pytest.raises(relay.InputError) as caught:
        machine(ADD).run(x, numbers(len(x), 1), donate=donate)
    (found,) = caught.value.diagnostics
    assert (found.message, found.help) == (message, help_)


def test_memory_of_two_arguments_cannot_be_donated() -> None:
    x = numbers()
    with pytest.raises(relay.InputError, match="@main: %x cannot be donated: %y lies in the same memory"):
        machine(ADD).run(x, x, donate=["x"])


def test_a_parameter_may_be_called_donate() -> None:
    vm = machine(HEADER + "def @main(%donate: Tensor[(?n), float32]) { exp(%donate) }")
    np.testing.assert_allclose(vm.run(donate=numbers()).numpy(), np.exp(numbers()), rtol=1e-5, atol=1e-6)
