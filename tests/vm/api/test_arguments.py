"""Python numbers and lists as arguments: they are converted to the parameter's dtype if that keeps their values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import relayvm as relay
from relayvm.ops.core.tensor_types import DTYPES, numpy_dtype
from relayvm.vm.values.signature import as_array

from ...devices import DEVICES
from ...programs import HEADER


def machine(ty: str) -> relay.VirtualMachine:
    return relay.VirtualMachine(relay.compile(f"{HEADER}def @main(%x: {ty}) {{ copy(%x) }}"))


@pytest.mark.parametrize(
    ("ty", "value"),
    [
        ("int32", 2), ("int64", -5), ("uint8", 255), ("float32", 2), ("float32", 0.1), ("float64", 0.1), ("bool", True),
        ("Tensor[(?), int32]", [1, 2, 3]), ("Tensor[(?, 2), float32]", [[1, 2.5]]), ("Tensor[(2), int8]", (1, -1)),
    ],
)  # fmt: skip
def test_taken(ty: str, value: Any) -> None:
    result = machine(ty).run(value).numpy()
    np.testing.assert_array_equal(result, np.asarray(value, result.dtype))


@pytest.mark.parametrize(
    ("ty", "value"), [("uint8", 256), ("uint8", -1), ("int32", 0.5), ("int32", 2**40), ("bool", 1), ("float32", 2**60 + 1)]
)
def test_refused_where_the_value_would_change(ty: str, value: Any) -> None:
    with pytest.raises(relay.InputError, match="has dtype"):
        machine(ty).run(value)


@pytest.fixture(scope="module", params=[d for d in DEVICES if d != "cuda"])
def identities(request: pytest.FixtureRequest) -> dict[str, relay.VirtualMachine]:
    """By dtype a machine that gives its argument back."""
    programs = {dtype: f"{HEADER}def @main(%x: {dtype}) {{ %x }}" for dtype in DTYPES}
    return {dtype: relay.VirtualMachine(relay.compile(text, request.param)) for dtype, text in programs.items()}


EDGES = [sign * (n + d) for sign in (1, -1) for n in (0, 2**24, 2**31, 2**53, 2**63, 2**64) for d in (-1, 0, 1)]


@st.composite
def numbers(draw: Any) -> Any:
    """A number of Python's, or one of numpy's with any bits."""
    if draw(st.booleans()):
        return draw(st.sampled_from(EDGES) | st.integers(-(2**65), 2**65) | st.floats() | st.booleans())
    dtype = numpy_dtype(draw(st.sampled_from(DTYPES)))
    bits = draw(st.binary(min_size=dtype.itemsize, max_size=dtype.itemsize))
    return np.frombuffer(bits if dtype.name != "bool" else bytes([bits[0] % 2]), dtype)[0]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(DTYPES), numbers())
@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_a_number_is_the_same_as_its_array(identities: Any, dtype: str, value: Any) -> None:
    """Its memory is not that of the result."""
    try:
        wanted = identities[dtype].run(np.array(as_array("x", value, dtype)))
    except relay.InputError as error:
        with pytest.raises(relay.InputError) as refused:
            identities[dtype].run(value)
        assert str(refused.value) == str(error)
        return
    result = identities[dtype].run(value)
    identities[dtype].run(numpy_dtype(dtype).type(1))
    assert result.numpy().tobytes() == wanted.numpy().tobytes()


@pytest.mark.parametrize(("dtype", "value"), [("float32", 0.5), ("float64", 0.5), ("int32", 3), ("int64", 3), ("float32", 3)])
def test_numbers_are_read_without_python(dtype: str, value: Any) -> None:
    entry = machine(dtype)["main"]
    for number in (value, numpy_dtype(dtype).type(value)):
        assert entry._enter(number).numpy() == value


class InflatedShape(np.ndarray):
    """An array subclass that reports a larger shape than the actual shape."""

    shape = (1 << 20,)  # type: ignore[assignment]
    ndim = 1  # type: ignore[assignment]
    size = 1 << 20  # type: ignore[assignment]
    dtype = np.dtype("float32")  # type: ignore[assignment]

    @property
    def ctypes(self) -> Any:
        raise AssertionError("nobody asks")


class OtherDtype(np.ndarray):
    """An array subclass that reports another dtype than the actual dtype."""

    dtype = np.dtype("float32")  # type: ignore[assignment]


def test_an_array_is_what_it_is_and_not_what_its_class_says() -> None:
    vm = machine("Tensor[(?), float32]")
    x = np.arange(6, dtype=np.float32)
    np.testing.assert_array_equal(vm.run(x.view(InflatedShape)).numpy(), x)
    np.testing.assert_array_equal(vm.run([x.view(InflatedShape)][0]).numpy(), x)
    np.testing.assert_array_equal(vm.run(x.view(np.recarray)).numpy(), x)
    with pytest.raises(relay.InputError, match="has dtype int8"):
        vm.run(np.arange(6, dtype=np.int8).view(OtherDtype))
    for kind in (np.ndarray, relay.Tensor, list, tuple):
        pretender = type("P", (), {"__class__": property(lambda self, kind=kind: kind)})()
        with pytest.raises(relay.InputError, match=r"has dtype object|is no tensor"):
            vm.run(pretender)
    masked = np.ma.masked_array(x, [False, True, False, False, False, False])
    with pytest.raises(relay.InputError, match="elements are masked"):
        vm.run(masked)
    np.testing.assert_array_equal(vm.run(np.ma.masked_array(x)).numpy(), x)


def test_an_argument_whose_own_code_fails_is_refused_with_the_reason() -> None:
    vm = machine("Tensor[(?), float32]")

    class Broken:
        def __init__(self, error: Exception) -> None:
            self.error = error

        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            raise self.error

    for error in (KeyError("k"), OverflowError("o"), ZeroDivisionError("z"), MemoryError("m")):
        with pytest.raises(relay.InputError, match="Broken is no tensor") as caught:
            vm.run(Broken(error))
        assert caught.value.__cause__ is error
    with pytest.raises(relay.RelayError, match="out of memory"):
        vm.run(np.broadcast_to(np.float32(1), (1 << 45,)))


def test_the_fields_of_a_tuple_are_those_it_iterates_over() -> None:
    class Long(tuple):  # type: ignore[type-arg]
        def __len__(self) -> int:
            return 2

    vm = relay.VirtualMachine(relay.compile(f"{HEADER}def @main(%p: (float32, float32)) {{ %p.0 + %p.1 }}"))
    assert vm.run((1.0, 2.0)).item() == 3
    with pytest.raises(relay.VMError, match="takes 2 values in a tuple, not 3 values"):
        vm.run(Long((1.0, 2.0, 3.0)))


@pytest.mark.parametrize("number", [2, np.int64(2), np.array(2), np.arange(4)[::-2][:1].reshape(())])
def test_each_argument_crosses_to_the_device_once(number: Any) -> None:
    """Also if a later argument is no array and sends the call from the fast path to the general path."""
    text = HEADER + 'def @main(%x: Tensor[(?), int64], %k: int64) { dyn.topk(%x, %k, ret_type="values") }'
    vm = relay.VirtualMachine(relay.compile(relay.parse(text), "sim"))
    assert vm.run(np.array([3, 1, 2]), number).numpy().size == int(number)
    assert vm.counters["htod_copies"] == 1
