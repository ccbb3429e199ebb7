"""Results of a machine as its arguments: machine code takes them, with the checks and the errors of the general path."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
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
SIZES = st.sampled_from(["?", "?n", "?m", "0", "2", "3"])
#: A type: of a tensor its dtype and sizes, of a tuple a list of types.
Ty = tuple[str, list[str]] | list[Any]
types = st.recursive(
    st.tuples(st.sampled_from(DTYPES), st.lists(SIZES, max_size=2)), lambda inner: st.lists(inner, max_size=3), max_leaves=4
)


def text_of(ty: Ty) -> str:
    if isinstance(ty, list):
        return f"({''.join(text_of(t) + ', ' for t in ty)})" if ty else "()"
    return f"Tensor[({', '.join(ty[1])}), {ty[0]}]"


def machine(params: list[Any], device: str) -> relay.VirtualMachine:
    """A machine whose ``main`` gives its arguments back, as a tuple."""
    listed = ", ".join(f"%x{i}: {text_of(ty)}" for i, ty in enumerate(params))
    names = "".join(f"%x{i}, " for i in range(len(params)))
    return relay.VirtualMachine(relay.compile(f"{HEADER}{PUTS}def @main({listed}) {{ ({names}) }}", device))


def put(vm: relay.VirtualMachine, array: np.ndarray) -> Any:
    return vm[f"{array.dtype.name}_{array.ndim}"](array)


def leaves(value: Any) -> list[Any]:
    return [leaf for v in value for leaf in leaves(v)] if isinstance(value, tuple) else [value]


def with_leaves(value: Any, found: Iterator[Any]) -> Any:
    return tuple(with_leaves(v, found) for v in value) if isinstance(value, tuple) else next(found)


@st.composite
def calls(draw: Any) -> tuple[list[Any], tuple[Any, ...], list[bool]]:
    """Parameters, arrays of which most fit, and which of the arrays are to be tensors."""
    params = draw(st.lists(types, min_size=1, max_size=3))
    sizes = {"?n": draw(st.integers(0, 3)), "?m": draw(st.integers(0, 3)), "?": 1, "0": 0, "2": 2, "3": 3}

    def array_of(ty: Any) -> Any:
        if isinstance(ty, list):
            return tuple(map(array_of, ty))
        return np.full([sizes[d] for d in ty[1]], next(numbers), ty[0])

    numbers = itertools.count()
    arrays = [array_of(ty) for ty in params]
    if draw(st.booleans()):
        k = draw(st.integers(0, len(arrays) - 1))
        wrong = np.ones(draw(st.lists(st.integers(0, 3), max_size=2)), draw(st.sampled_from(DTYPES)))
        # a tuple in place of a tensor would be a list of numbers
        arrays[k] = draw(st.sampled_from([wrong, (wrong,), (wrong, wrong)])) if isinstance(params[k], list) else wrong
    return params, tuple(arrays), draw(st.lists(st.booleans(), min_size=1, max_size=4))


@pytest.mark.parametrize("device", DEVICES)
@settings(max_examples=100)
@given(calls())
def test_a_tensor_is_checked_as_its_array_is(device: str, call: Any) -> None:
    """Alone, among arrays, and in tuples; all objects of a refused call are released."""
    params, arrays, are_tensors = call
    vm = machine(params, device)
    given = [put(vm, a) if is_one else a for a, is_one in zip(leaves(arrays), itertools.cycle(are_tensors), strict=False)]
    held = [live_after(vm, with_leaves(arrays, iter(given)), arrays) for _ in range(3)]
    assert held[1] == held[2], "a pooled storage is an object, too"


def live_after(vm: relay.VirtualMachine, given: tuple[Any, ...], arrays: tuple[Any, ...]) -> dict[str, int]:
    """The machine's memory after a call whose arguments, and errors, are those of the arrays on the general path."""
    entry = vm["main"]
    try:
        entry._call_general(arrays)
    except relay.RelayError as error:
        assert entry._enter(*given) is None
        with pytest.raises(type(error)) as refused:
            vm.run(*given)
        assert str(refused.value).replace("not Tensor", "not ndarray") == str(error)
    else:
        results = entry._enter(*given)
        assert with_leaves(results, itertools.repeat(0)) == with_leaves(arrays, itertools.repeat(0))
        for result, array in zip(leaves(results), leaves(arrays), strict=True):
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


def test_a_tuple_without_memory_for_all_its_tensors_is_no_result() -> None:
    """Each is a copy of the argument, and the first is freed."""
    text = (
        f"{HEADER}def @main(%x: Tensor[(?), float32], %n: bool) {{ if (%n) {{ (%x, (%x,)) }} else {{ (exp(%x), (exp(%x),)) }} }}"
    )
    vm = relay.VirtualMachine(relay.compile(text), memory_limit_bytes=6000)
    x = np.zeros(1000, "f")
    with pytest.raises(relay.VMError, match="no room for the result"):
        vm.run(x, True)
    assert vm.memory["live_bytes"] == 0
    first, (second,) = vm.run(x[:500], True)
    assert first.numpy().tolist() == second.numpy().tolist() == [0] * 500
