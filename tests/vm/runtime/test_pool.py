"""Blocks of the pool: freed ones serve tensors of their size and down to half of it, unless memory is limited."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relayvm as relay

from ...programs import HEADER, machine

#: Two values that live together, of the size of the argument.
TEXT = HEADER + "def @main(%x: Tensor[(?n), float32]) { let %y = cumsum(%x); let %z = cumsum(%y); sum(add(%y, %z)) }"


def pool_after(vm: relay.VirtualMachine, *sizes: int) -> int:
    """The bytes of the pool after runs of these sizes."""
    for n in sizes:
        vm.run(np.ones(n, np.float32))
    assert vm.memory["live_bytes"] == 0
    return int(vm.memory["pool_bytes"])


@pytest.mark.parametrize(("n", "is_served"), [(10_000, True), (9_000, True), (5_200, True), (4_000, False)])
def test_free_blocks_serve_tensors_of_half_their_size(n: int, is_served: bool) -> None:
    vm = machine(TEXT)
    held = pool_after(vm, 10_000)
    assert (pool_after(vm, n) == held) == is_served


def test_limited_memory_has_blocks_for_each_size() -> None:
    vm = relay.VirtualMachine(relay.compile(relay.parse(TEXT)), memory_limit_bytes=1 << 20)
    assert pool_after(vm, 10_000, 9_000) > pool_after(machine(TEXT), 10_000, 9_000)


@settings(max_examples=20)
@given(st.lists(st.integers(300, 60_000), min_size=2, max_size=40))
def test_pool_does_not_grow_with_the_number_of_sizes(sizes: list[int]) -> None:
    """In falling order each halving of the size needs at most the blocks of the largest; a repetition needs no more."""
    vm = machine(TEXT)
    first = pool_after(vm, max(sizes))
    powers = (max(sizes) // min(sizes)).bit_length() + 1
    assert pool_after(vm, *sorted(sizes, reverse=True)) <= first * powers
    held = pool_after(vm, *sizes)
    assert pool_after(vm, *sizes) == held
