"""A user's operator whose kernel is ordinary Python, with a tuple of scalars whose values are the shape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.ops.core.implementation import Kernel
from relayvm.ops.core.op import REGISTRY, NoAttrs, Op, OpPattern
from relayvm.shape_funcs.symbolic.registry import SHAPE_FUNCS, Operand, register_shape_func

from ..devices import DEVICES
from ..programs import HEADER


def grid_shape(inputs: tuple[Operand, tuple[Operand, ...]], attrs: NoAttrs) -> tuple[Any, ...]:
    _, sizes = inputs
    return tuple(s.values[0] for s in sizes)


def grid(value: np.ndarray, *rest: np.ndarray) -> int:
    out = rest[-1]
    if value < 0:
        raise ValueError("the value is negative")
    out[...] = value
    return 0


@pytest.fixture(autouse=True, scope="module")
def declared() -> Iterator[None]:
    """The operator exists while these tests run: others look at the whole registry."""
    register_shape_func("test.grid", data_dependent=[False, True])(grid_shape)
    Op(
        name="test.grid",
        doc="A tensor full of ``value``; its sizes are scalars in a tuple.",
        inputs=("value", "sizes*"),
        pattern=OpPattern.OPAQUE,
        dtype=lambda dtypes, attrs: dtypes[0],
        kernels=(Kernel("python", grid, attrs=lambda attrs: {}, in_python=True),),
    )
    yield
    del REGISTRY["test.grid"], SHAPE_FUNCS["test.grid"]


TEXT = "def @main(%v: float32, %a: int64, %b: int64) { test.grid(%v, (%a, %b)) + 1f }"


@pytest.mark.parametrize("target", DEVICES)
@pytest.mark.parametrize("mode", ["op", "input"])
def test_a_kernel_in_python_and_a_flagged_tuple(target: str, mode: str) -> None:
    vm = relay.VirtualMachine(relay.compile(HEADER + TEXT, target=target, data_dependence=mode))
    for a, b in ((2, 3), (0, 4), (1, 1)):
        result = vm.run(np.array(0.5, np.float32), np.array(a), np.array(b))
        np.testing.assert_array_equal(result.numpy(), np.full((a, b), 1.5, np.float32))
    assert vm.counters["host_calls"] == 3


@pytest.mark.parametrize("target", DEVICES)
def test_its_exception_names_the_place_and_the_machine_goes_on(target: str) -> None:
    vm = relay.VirtualMachine(relay.compile(relay.parse(HEADER + TEXT, source_name="grid.relay"), target=target))
    with pytest.raises(relay.VMError, match="its kernel in Python failed: ValueError: the value is negative") as error:
        vm.run(np.array(-1, np.float32), np.array(1), np.array(1))
    assert "grid.relay:2:" in str(error.value)
    assert vm.run(np.array(1, np.float32), np.array(1), np.array(2)).numpy().tolist() == [[2, 2]]
    assert vm.memory["live_bytes"] == 0


@pytest.mark.parametrize("target", DEVICES)
def test_its_calls_are_in_the_profile(target: str) -> None:
    vm = relay.VirtualMachine(relay.compile(HEADER + TEXT, target=target))
    found = vm.profile(np.array(0.5, np.float32), np.array(2), np.array(3), repeat=2)
    (call,) = [s for s in found.sites if s.kind == "host_call"]
    assert (call.name, call.op, call.calls, call.line) == ("python:test_grid", "test.grid", 2, 2)
    assert call.types == "float32, int64, int64, float32[2, 3]" and call.nbytes == 2 * (4 + 8 + 8 + 24)
    assert found.per_run("host_calls") == 1
    assert [found.sites[m.site].kind for m in found.timeline].count("host_call") == 1
    assert [m.end_ns for m in found.timeline] == sorted(m.end_ns for m in found.timeline)
    assert "test.grid" in found.view("operators")


def test_a_kernel_in_python_after_queued_work_that_fails() -> None:
    text = "def @main(%v: int64, %w: int64, %a: int64) { test.grid(%v / %w, (%a, %a)) + 1i64 }"
    vm = relay.VirtualMachine(relay.compile(HEADER + text, target="sim", place=False))
    two, zero, six = np.array(2), np.array(0), np.array(6)
    for _ in range(2):
        np.testing.assert_array_equal(vm.run(six, two, two).numpy(), np.full((2, 2), 4))
        with pytest.raises(relay.VMError, match="divide: integer division by zero"):
            vm.run(six, zero, two)
