"""On ``sim`` a kernel fails when the queue runs: the results of the kernel and of later work are never read."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as relay

TEXT = """#[version = "0.0.5"]
def @main(%x: Tensor[(?), float32], %i: Tensor[(?), int32]) { take(exp(%x), %i, axis=0, mode="fast") + 1f }
"""


def test_results_behind_a_failure_are_refused_and_those_before_it_are_kept() -> None:
    vm = relay.VirtualMachine(relay.compile(TEXT, target="sim"))
    x = np.arange(4, dtype=np.float32)
    right, wrong = np.array([0, 3], np.int32), np.array([7], np.int32)
    expected = np.exp(x)[right] + 1
    before = vm.run(x, right)
    np.testing.assert_allclose(before.numpy(), expected, rtol=1e-6)
    bad, later = vm.run(x, wrong), vm.run(x, right)
    with pytest.raises(relay.VMError, match="an index is out of range"):
        bad.numpy()
    for lost in (bad, later):
        with pytest.raises(relay.VMError, match="the work that makes this tensor was dropped, because work before it failed"):
            lost.numpy()
        with pytest.raises(relay.VMError, match="the work that makes this tensor was dropped"):
            vm.run(lost, right)
    np.testing.assert_allclose(before.numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(vm.run(x, right).numpy(), expected, rtol=1e-6)


def test_what_takes_the_memory_of_dropped_work_is_not_lost_with_it() -> None:
    text = """#[version = "0.0.5"]
    def @main(%x: Tensor[(?), float32], %b: bool) -> float32 { if (%b) { min(%x) + 1f } else { 5f } }"""
    vm = relay.VirtualMachine(relay.compile(text, target="sim"))
    x, yes, no = np.ones(4, np.float32), np.array(True), np.array(False)
    vm.run(x[:0], yes)  # its result goes back to the pool before its work is dropped, and the constant takes its place
    constant = vm.run(x, no)
    with pytest.raises(relay.VMError, match="an empty axis has no minimum"):
        constant.numpy()
    assert constant.numpy() == 5
    assert vm.run(x, no).numpy() == 5
    bad, later = vm.run(x[:0], yes), vm.run(x, yes)
    with pytest.raises(relay.VMError, match="an empty axis has no minimum"):
        vm.run(x, no).numpy()
    for lost in (bad, later):
        with pytest.raises(relay.VMError, match="was dropped"):
            lost.numpy()
    assert vm.run(x, no).numpy() == 5
