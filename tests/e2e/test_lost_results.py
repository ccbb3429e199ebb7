"""On ``sim`` a kernel fails when the queue runs: what it and the work behind it should have made is never read as a result."""

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
    bad, behind = vm.run(x, wrong), vm.run(x, right)
    with pytest.raises(relay.VMError, match="an index is out of range"):
        bad.numpy()
    for lost in (bad, behind):
        with pytest.raises(relay.VMError, match="the work that makes this tensor was dropped, because work before it failed"):
            lost.numpy()
        with pytest.raises(relay.VMError, match="the work that makes this tensor was dropped"):
            vm.run(lost, right)
    np.testing.assert_allclose(before.numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(vm.run(x, right).numpy(), expected, rtol=1e-6)
