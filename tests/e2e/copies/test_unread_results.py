"""Results on a device that nobody reads: their queued work is bounded, and does not hold memory."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import relayvm as relay

from ...devices import TARGETS
from ...programs import HEADER

ADD = "def @main(%x: Tensor[(?n), float32]) { %x + 1f }"


def test_work_that_nobody_waits_for_does_not_pile_up() -> None:
    vm = relay.VirtualMachine(relay.compile(HEADER + ADD, target="sim"))
    x = np.zeros(1 << 18, np.float32)  # 1 MiB
    held = []
    for i in range(100):
        result = vm.run(x + np.float32(i))
        held.append(8 * int(vm._runtime.session.record["queue_used"]) + int(vm._runtime.session.record["staged_bytes"]))
    assert max(held) <= 17 << 20
    assert any(later < earlier for earlier, later in itertools.pairwise(held))
    np.testing.assert_array_equal(result.numpy(), np.full(1 << 18, 100, np.float32))


@pytest.mark.parametrize("target", TARGETS)
def test_free_blocks_that_queued_work_may_touch_are_memory_too(target: str) -> None:
    vm = relay.VirtualMachine(relay.compile(HEADER + ADD, target=target), memory_limit_bytes=20 << 10)
    for n in (2000, 1000, 500, 1900):  # none reuses another's block, and none is read
        result = vm.run(np.ones(n, np.float32))
    np.testing.assert_array_equal(result.numpy(), np.full(1900, 2, np.float32))


def test_work_that_fails_when_room_for_an_argument_is_needed_is_reported() -> None:
    """On ``sim`` blocks of queued work are free when it has run; blocks of a GPU are free in the order of its work."""
    text = "def @main(%x: Tensor[(?n), int32]) { floor_divide(7, %x) }"
    vm = relay.VirtualMachine(relay.compile(HEADER + text, target="sim", plan="off"), memory_limit_bytes=16 << 10)
    vm.run(np.ones(2000, np.int32))
    vm.run(np.zeros(500, np.int32))
    with pytest.raises(relay.VMError, match="divi"):
        for n in (1900, 1800):
            vm.run(np.ones(n, np.int32))
    assert vm.run(np.ones(1900, np.int32)).numpy().tolist() == [7] * 1900
    assert vm.memory["live_bytes"] == 0
