"""Results of a machine as its arguments: machine code takes them, with the checks and the errors of the general path."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relayvm as relay

from ...devices import DEVICES, HOST, TARGETS
from ...programs import HEADER

DTYPES = "float32", "int8"
#: Functions that give their argument back, for the dtypes and ranks of the tests.
PUTS = "".join(
    f"def @{d}_{r}(%x: Tensor[({', '.join('?' * r)}), {d}]) {{ %x }}\n" for d, r in itertools.product(DTYPES, range(3))
)
dims = st.sampled_from(["?", "?n", "?m", "0", "2", "3"])
types = st.tuples(st.sampled_from(DTYPES), st.lists(dims, max_size=2))


def machine(params: list[tuple[str, list[str]]], device: str) -> relay.VirtualMachine:
    """A machine whose ``main`` gives its arguments back, as a tuple."""
    listed = ", ".join(f"%x{i}: Tensor[({', '.join(sizes)}), {dtype}]" for i, (dtype, sizes) in enumerate(params))
    names = "".join(f"%x{i}, " for i in range(len(params)))
    return relay.VirtualMachine(relay.compile(f"{HEADER}{PUTS}def @main({listed}) {{ ({names}) }}", device))


def put(vm: relay.VirtualMachine, array: np.ndarray) -> Any:
    return vm[f"{array.dtype.name}_{array.ndim}"](array)


@st.composite
def calls(draw: Any) -> tuple[list[tuple[str, list[str]]], list[np.ndarray]]:
    """Parameters, and arrays of which most fit."""
    params = draw(st.lists(types, min_size=1, max_size=3))
    sizes = {"?n": draw(st.integers(0, 3)), "?m": draw(st.integers(0, 3)), "?": 1, "0": 0, "2": 2, "3": 3}
    arrays = [np.ones([sizes[d] for d in dims], dtype) for dtype, dims in params]
    if draw(st.booleans()):
        k = draw(st.integers(0, len(arrays) - 1))
        shape = draw(st.lists(st.integers(0, 3), max_size=2))
        arrays[k] = np.ones(shape, draw(st.sampled_from(DTYPES)))
    return params, arrays


@pytest.mark.parametrize("device", DEVICES)
@settings(max_examples=60)
@given(call=calls(), are_tensors=st.lists(st.booleans(), min_size=3, max_size=3))
def test_a_tensor_is_checked_as_its_array_is(device: str, call: Any, are_tensors: list[bool]) -> None:
    """Alone and among arrays; all objects of a refused call are released."""
    params, arrays = call
    vm = machine(params, device)
    given = [put(vm, a) if is_tensor else a for a, is_tensor in zip(arrays, are_tensors, strict=False)]
    held = [live_after(vm, given, arrays) for _ in range(3)]
    assert held[1] == held[2], "a pooled storage is an object, too"


def live_after(vm: relay.VirtualMachine, given: list[Any], arrays: list[np.ndarray]) -> dict[str, int]:
    """The machine's memory after a call whose arguments, and errors, are those of the arrays on the general path."""
    entry = vm["main"]
    try:
        entry._call_general(tuple(arrays))
    except relay.InputError as error:
        assert entry._enter(*given) is None
        with pytest.raises(relay.InputError) as refused:
            vm.run(*given)
        assert str(refused.value) == str(error)
    else:
        for result, array in zip(entry._enter(*given), arrays, strict=True):
            np.testing.assert_array_equal(result.numpy(), array)
    return vm.memory


@pytest.mark.parametrize("device", TARGETS)
def test_a_tensor_on_the_device_stays_there(device: str) -> None:
    text = f"{HEADER}{PUTS}def @main(%x: Tensor[(?n), float32], %y: Tensor[(?n), float32]) {{ add(%x, %y) }}"
    vm = relay.VirtualMachine(relay.compile(text, device))
    x = put(vm, np.ones(3, "f"))
    vm.reset_counters()
    result = vm.run(x, x)
    assert {vm.counters[name] for name in ("htod_copies", "dtoh_copies", "syncs")} == {0}
    assert result.device == device and result.numpy().tolist() == [2, 2, 2]


@pytest.mark.parametrize("device", DEVICES)
def test_a_tensor_of_another_machine_is_copied(device: str) -> None:
    vm, other = (machine([("float32", ["?"])], d) for d in (device, HOST))
    x = put(other, np.ones(3, "f"))
    assert vm["main"]._enter(x) is None and vm.run(x)[0].numpy().tolist() == [1, 1, 1]
    other.close()
    del other
    assert vm.run(x)[0].numpy().tolist() == [1, 1, 1]


@pytest.mark.parametrize("device", TARGETS)
def test_a_tensor_for_a_parameter_on_the_host_is_read_there(device: str) -> None:
    text = HEADER + 'def @main(%x: Tensor[(?), int64], %k: int64) { dyn.topk(%x, %k, ret_type="values") }\n'
    vm = relay.VirtualMachine(
        relay.compile(text + "def @put(%x: Tensor[(?), int64]) { abs(%x) }\ndef @less(%k: int64) { %k - 1i64 }", device)
    )
    x, k = vm["put"](np.array([3, -1, 2])), vm["less"](3)
    assert vm.run(x, k).numpy().tolist() == [3, 2]


@pytest.mark.parametrize("device", DEVICES)
def test_an_argument_is_as_it_was_after_the_run(device: str) -> None:
    """Also if the program could write its result over the argument, and gives the argument back."""
    text = f"{HEADER}def @main(%x: Tensor[(?), float32]) {{ let %y = exp(%x); (add(%y, 1f), %x) }}"
    vm = relay.VirtualMachine(relay.compile(text, device))
    x = vm.run(np.zeros(3, "f"))[0]
    for _ in range(3):
        y, same = vm.run(x)
        np.testing.assert_allclose(y.numpy(), np.exp(2) + 1, rtol=1e-6)
        assert x.numpy().tolist() == same.numpy().tolist() == [2, 2, 2]
    del x
    assert same.numpy().tolist() == [2, 2, 2]


def test_a_tensor_that_is_no_result_is_refused() -> None:
    vm = machine([("float32", ["?"])], HOST)
    with pytest.raises(relay.VMError, match="this Tensor is no result"):
        vm.run(object.__new__(relay.Tensor))
    x = put(vm, np.ones(2, "f"))
    assert vm["main"]._enter(copy.copy(x))[0].numpy().tolist() == [1, 1]
    vm.close()
    with pytest.raises(relay.VMError, match="closed"):
        vm.run(x)


def test_what_was_dropped_is_refused() -> None:
    text = f"{HEADER}def @main(%x: Tensor[(?), int32], %y: Tensor[(?), int32]) {{ floor_divide(%x, %y) }}"
    vm = relay.VirtualMachine(relay.compile(text, "sim"))
    x = np.array([7], "i4")
    bad = vm.run(x, np.array([0], "i4"))
    lost = vm.run(x, x)
    with pytest.raises(relay.VMError, match="division by zero"):
        bad.numpy()
    with pytest.raises(relay.VMError, match="the work that makes this tensor was dropped"):
        vm.run(lost, x)
    assert vm.run(x, x).numpy().tolist() == [1]
