"""Tensors of other libraries as arguments: arrays that share their memory, on the path of arrays where they fit."""

from __future__ import annotations

import ctypes
import gc
import weakref
from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.ops.core.tensor_types import numpy_dtype
from relayvm.vm.machine import arguments
from relayvm.vm.values import dlpack

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

    monkeypatch.setattr("relayvm.vm.machine.machine_core.prepare", recorded)
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


# ---- devices of DLPack -------------------------------------------------------------------------------------------------------


class Placed(Foreign):
    """A tensor whose capsule says that it is on a device.  ``moves``: whether the producer copies it to the host."""

    def __init__(self, array: np.ndarray, device: int, moves: bool = False) -> None:
        super().__init__(array, (device, 2))
        self.moves = moves

    def __dlpack__(self, *, dl_device: Any = None, **named: Any) -> Any:
        if dl_device in (None, self.place):
            made = dlpack.capsule(self.array, (1, 0))
            ctypes.c_int32.from_address(ctypes.addressof(dlpack._kind(made)) - BEFORE_DTYPE).value = self.place[0]
            return made
        if not self.moves:
            raise BufferError("it stays")
        return dlpack.capsule(self.array.copy(), (1, 0))


#: Bytes from the device's type to the dtype in a capsule's structure.
BEFORE_DTYPE = 12


class Old(Foreign):
    """A producer of the time before ``dl_device``."""

    def __dlpack__(self, stream: Any = None) -> Any:  # type: ignore[override]
        raise AssertionError("not read")


PINNED_AND_MANAGED = [1, 3, 11, 13]
ELSEWHERE = {2: "CUDA:2", 4: "OPENCL:2", 8: "METAL:2", 10: "ROCM:2", 14: "ONEAPI:2", 99: "of type 99:2", -1: "of type -1:2"}
SAME = HEADER + "def @main(%x: Tensor[(?n, 2), {}]) {{ (%x, 1f) }}"


@pytest.mark.parametrize("device", PINNED_AND_MANAGED)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_memory_that_the_cpu_reads_is_read_and_written_in_place(device: int, dtype: str) -> None:
    vm = relay.VirtualMachine(relay.compile(SAME.format(dtype)))
    x = np.arange(12).astype(numpy_dtype(dtype)).reshape(6, 2)
    assert vm.run(Placed(x, device))[0].numpy().tolist() == x.tolist()
    assert vm.run(Placed(x[::2], device))[0].numpy().tolist() == x[::2].tolist()
    out = np.zeros_like(x)
    vm.invoke_with_outputs("main", {"x": x}, [Placed(out, device), np.zeros((), "float32")])
    assert out.tolist() == x.tolist()


@pytest.mark.parametrize(("device", "name"), ELSEWHERE.items())
def test_memory_that_the_cpu_does_not_read_is_copied_by_its_producer_or_refused(device: int, name: str) -> None:
    vm = relay.VirtualMachine(relay.compile(SAME.format("float32")))
    x = np.ones((2, 2), "float32")
    assert vm.run(Placed(x, device, moves=True))[0].tolist() == x.tolist()
    help = "help: copy it to the host before, as by .cpu(), .get() or numpy.asarray"
    text = f"error: %x: {{}} is on the DLPack device {name}, and does not copy itself to the host{{}}\n{help}"
    for value, reason in ((Placed(x, device), ": it stays"), (Old(x, (device, 2)), "")):
        with pytest.raises(relay.InputError) as error:
            vm.run(value)
        assert str(error.value) == text.format(type(value).__name__, reason)
        assert error.value.code == "input/type"
    out = Placed(np.zeros_like(x), device, moves=True)
    with pytest.raises(
        relay.InputError, match=f"output 0 is on the DLPack device {name}: results are copied to outputs on the host"
    ):
        vm.invoke_with_outputs("main", {"x": x}, [out, np.zeros((), "float32")])


@pytest.mark.parametrize("place", [None, (), (1,), "xy", ("a", "b")])
def test_a_producer_that_does_not_say_where_it_is(place: Any) -> None:
    class Lost(Foreign):
        def __dlpack__(self, **named: Any) -> Any:
            raise BufferError("no")

    vm = relay.VirtualMachine(relay.compile(SAME.format("float32")))
    with pytest.raises(relay.InputError, match="Lost is no tensor: its __dlpack_device__ returns"):
        vm.run(Lost(np.ones((2, 2), "float32"), place))
