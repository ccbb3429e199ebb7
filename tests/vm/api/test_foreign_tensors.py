"""Tensors of other libraries as arguments: arrays that share their memory, on the path of arrays where they fit."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.vm.api import arguments

from ...devices import DEVICES
from ...programs import HEADER

MAIN = HEADER + "def @main(%x: Tensor[(?n, 2), float32], %y: Tensor[(?n,), float32]) { (%x, add(%y, 1f)) }"


class Foreign:
    """A producer that knows only DLPack."""

    def __init__(self, array: np.ndarray, place: tuple[int, int] = (1, 0)) -> None:
        self.array, self.place, self.exports = array, place, 0

    def __dlpack__(self, **named: Any) -> Any:
        self.exports += 1
        return self.array.__dlpack__(**named)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.place


@pytest.fixture
def general(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The arguments that the general path prepared."""
    seen: list[Any] = []
    prepare = arguments.prepare

    def recorded(*args: Any) -> Any:
        seen.append(args[-2])
        return prepare(*args)

    monkeypatch.setattr("relayvm.vm.api.machine_core.prepare", recorded)
    return seen


@pytest.mark.parametrize("rows", [0, 1, 3])
@pytest.mark.parametrize("device", DEVICES)
def test_a_foreign_tensor_gives_the_result_of_its_array(device: str, rows: int, general: list[Any]) -> None:
    vm = relay.VirtualMachine(relay.compile(MAIN, device))
    x, y = np.arange(2 * rows, dtype="float32").reshape(rows, 2), np.arange(rows, dtype="float32")
    for given in ((Foreign(x), y), (x, Foreign(y)), (Foreign(x), Foreign(y))):
        first, second = vm.run(*given)
        assert first.tolist() == x.tolist() and second.tolist() == (y + 1).tolist()
        assert all(v.exports == 1 for v in given if isinstance(v, Foreign))
    if device == "cpu":
        assert not general


def test_a_result_outlives_the_foreign_tensor_that_it_came_from() -> None:
    vm = relay.VirtualMachine(relay.compile(MAIN, "cpu"))
    foreign = Foreign(np.ones((2, 2), "float32"))
    gone = weakref.ref(foreign)
    first, _ = vm.run(foreign, np.zeros(2, "float32"))
    foreign.array[:] = 5
    assert first.tolist() == [[1, 1], [1, 1]]
    del foreign
    gc.collect()
    assert gone() is None


def test_strided_and_other_tensors_take_the_general_path(general: list[Any]) -> None:
    vm = relay.VirtualMachine(relay.compile(MAIN, "cpu"))
    x = np.arange(12, dtype="float32").reshape(3, 4)[:, ::2]
    first, _ = vm.run(Foreign(x), np.zeros(3, "float32"))
    assert first.tolist() == x.tolist() and len(general) == 2


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (Foreign(np.ones((2, 2))), r"%x has dtype float64, not float32"),
        (Foreign(np.ones((2, 3), "float32")), r"%x has size 3 on axis 1"),
    ],
)
def test_a_foreign_tensor_that_does_not_fit_is_an_error(value: Foreign, words: str) -> None:
    vm = relay.VirtualMachine(relay.compile(MAIN, "cpu"))
    with pytest.raises(relay.RelayError, match=words) as plain:
        vm.run(value.array, np.zeros(2, "float32"))
    with pytest.raises(relay.RelayError) as foreign:
        vm.run(value, np.zeros(2, "float32"))
    assert str(foreign.value) == str(plain.value)


def test_errors_of_a_producer_are_reported_once() -> None:
    class Refuses(Foreign):
        def __dlpack__(self, **named: Any) -> Any:
            raise BufferError("it needs a gradient")

    vm = relay.VirtualMachine(relay.compile(MAIN, "cpu"))
    with pytest.raises(relay.InputError, match="%x: Refuses is no tensor: it needs a gradient"):
        vm.run(Refuses(np.ones((2, 2), "float32")), np.zeros(2, "float32"))
