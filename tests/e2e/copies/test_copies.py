"""Copies between the devices: exactly the data of flagged inputs, and with ``data_dependence=op`` whole tensors."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as relay

from ...arrays import ints
from ...devices import TARGETS
from ...programs import machine_on

SIDE = 512  # a float32 square of this side is 1 MiB
BIG = SIDE * SIDE * 4


MATRIX = "%x: Tensor[(?, ?), float32]"
#: Program, arguments besides the large tensor, most bytes that may cross.
CASES = {
    "dyn.strided_slice": (
        f"def @main({MATRIX}, %b: Tensor[(2), int64], %e: Tensor[(2), int64], %s: Tensor[(2), int64]) "
        "{ dyn.strided_slice(%x, %b, %e, %s) }",
        (ints(0, -5), ints(7, SIDE), ints(2, 1)),
        3 * 16,
    ),
    "dyn.tile": (f"def @main({MATRIX}, %r: Tensor[(2), int64]) {{ dyn.tile(%x, %r) }}", (ints(1, 1),), 16),
    "dyn.topk": (f"def @main({MATRIX}, %k: int64) {{ dyn.topk(%x, %k, axis=1, ret_type=\"values\") }}", (np.array(2),), 8),
    "dyn.one_hot": (
        "def @main(%x: Tensor[(?), int32], %depth: int64) { dyn.one_hot(%x, 1f, 0f, %depth, axis=-1, dtype=\"float32\") }",
        (np.array(1),),
        8,
    ),
    "dyn.expand_dims": (f"def @main({MATRIX}, %a: int64) {{ dyn.expand_dims(%x, %a) }}", (np.array(1),), 8),
    "dyn.broadcast_to": (f"def @main({MATRIX}, %s: Tensor[(2), int64]) {{ dyn.broadcast_to(%x, %s) }}", (ints(SIDE, SIDE),), 16),
}  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", CASES)
def test_only_flagged_inputs_cross(target: str, name: str) -> None:
    text, rest, most = CASES[name]
    x = np.zeros(SIDE * SIDE, np.int32) if name == "dyn.one_hot" else np.zeros((SIDE, SIDE), np.float32)
    crossed = {}
    for mode in ("op", "input"):
        vm = machine_on(target, text, data_dependence=mode)
        vm.run(x, *rest)
        crossed[mode] = vm.counters["dtoh_bytes"]
    assert crossed["op"] >= BIG
    assert crossed["input"] <= most


@pytest.mark.parametrize("target", TARGETS)
def test_argwhere_reads_eight_bytes_besides_the_result(target: str) -> None:
    vm = machine_on(target, f"def @main({MATRIX}) {{ argwhere(%x) }}")
    x = np.zeros((SIDE, SIDE), np.float32)
    x[[3, 100, SIDE - 1], [4, 5, 0]] = 1
    result = vm.run(x)
    assert vm.counters["dtoh_bytes"] == 8
    found = result.numpy()
    np.testing.assert_array_equal(found, np.argwhere(x))
    assert vm.counters["dtoh_bytes"] == 8 + found.nbytes


@pytest.mark.parametrize("target", TARGETS)
def test_one_value_as_data_and_as_shape(target: str) -> None:
    text = "def @main(%s: Tensor[(2), int64]) { dyn.reshape(%s, %s) }"
    for mode in ("op", "input"):
        vm = machine_on(target, text, data_dependence=mode)
        assert vm.run(ints(1, 2)).numpy().tolist() == [[1, 2]]
        with pytest.raises(relay.VMError, match="cannot view 2 elements"):
            vm.run(ints(3, 2))
        assert vm.run(ints(2, 1)).numpy().tolist() == [[2], [1]]


def test_a_constant_vector_as_a_flagged_input_costs_no_copy() -> None:
    x = relay.var("x", shape=(relay.Any(), relay.Any()))
    module = relay.IRModule.from_expr(relay.Function([x], relay.dyn.reshape(x, relay.const(ints(-1, 2)))))
    data = np.arange(12, dtype=np.float32).reshape(3, 4)
    for level in (0, 2):  # at level 0 the operator stays dynamic and its shape function reads the constant
        vm = relay.VirtualMachine(relay.compile(module, target="sim", opt_level=level))
        result = vm.run(data)
        assert vm.counters["dtoh_copies"] == 0
        np.testing.assert_array_equal(result.numpy(), data.reshape(-1, 2))


@pytest.mark.parametrize("target", TARGETS)
def test_host_values_that_are_flagged_are_not_copied(target: str) -> None:
    vm = machine_on(
        target,
        'def @main(%x: Tensor[(?, ?), float32], %y: Tensor[(?), float32]) { dyn.reshape(%y, shape_of(%x, dtype="int64")) }',
    )
    result = vm.run(np.zeros((2, 3), np.float32), np.arange(6, dtype=np.float32))
    assert vm.counters["dtoh_copies"] == 0
    assert result.shape == (2, 3)


@pytest.mark.parametrize("target", TARGETS)
def test_a_condition_on_the_device_is_one_byte(target: str) -> None:
    text = "def @main(%c: bool, %x: Tensor[(?), float32]) { if (%c) { %x + 1f } else { %x - 1f } }"
    vm = machine_on(target, text, place="off")
    x = np.arange(3, dtype=np.float32)
    for condition in (True, False):
        np.testing.assert_array_equal(vm.run(np.array(condition), x).numpy(), x + 1 if condition else x - 1)
    assert vm.counters["dtoh_bytes"] == 2 * 1 + 2 * x.nbytes
    assert vm.counters["syncs"] == 4
