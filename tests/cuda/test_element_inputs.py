"""Kernels that compute the elements of their inputs: one primitive for both, and the results of the CPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.ops.core.tensor_types import numpy_dtype

from ..emulator import emulator
from ..programs import HEADER
from .machines import gpu, machine  # noqa: F401  the fixture is used by every test

pytestmark = pytest.mark.skipif(emulator.available() is not None, reason=str(emulator.available()))


def program(params: str, body: str) -> str:
    return f"def @main({params}) {{ {body} }}"


_VECTOR, _MATRIX = "%x: Tensor[(?), {}]", "%x: Tensor[(?, ?), {}]"
#: By name: a program that is one primitive, numpy's twin of its predicate, the shapes of arguments of several calls.
CASES: dict[str, tuple[str, Callable[..., Any], list[list[tuple[int, ...]]]]] = {
    "vector": (
        program(_VECTOR.format("float32"), "argwhere(%x > 0.5f)"),
        lambda x: x > 0.5,
        [[(0,)], [(1,)], [(4099,)], [(12_288,)]],
    ),
    "halves": (program(_MATRIX.format("float16"), "argwhere(%x * %x)"), lambda x: x * x, [[(33, 67)], [(0, 3)]]),
    "integers": (program(_VECTOR.format("int8"), "argwhere(%x == 1i8)"), lambda x: x == 1, [[(9000,)], [(15,)]]),
    "broadcast": (
        program(f"{_MATRIX.format('float32')}, %y: Tensor[(?), float32]", "argwhere(%x > %y)"),
        lambda x, y: x > y,
        [[(37, 65), (65,)], [(37, 65), (1,)], [(2, 1), (700,)], [(3, 0), (1,)]],
    ),
    "broadcast planes": (
        program("%x: Tensor[(?, ?, ?), float32], %y: Tensor[(?, 1, ?), float32]", "argwhere(%x > %y)"),
        lambda x, y: x > y,
        [[(3, 5, 64), (3, 1, 64)], [(3, 5, 64), (1, 1, 1)]],
    ),
    "transposed": (program(_MATRIX.format("float32"), "argwhere(transpose(%x, axes=[1, 0]))"), np.transpose, [[(40, 67)]]),
    "every second": (
        program(_VECTOR.format("float32"), "argwhere(strided_slice(%x, begin=[1], end=[100000], strides=[2]))"),
        lambda x: x[1::2],
        [[(1,)], [(5001,)]],
    ),
    "two values": (
        program("%x: Tensor[(?n), float32], %y: Tensor[(?n), float32]", "argwhere(logical_and(%x > 0f, %y < %x))"),
        lambda x, y: (x > 0) & (y < x),
        [[(5000,), (5000,)]],
    ),
}


def drawn(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-1, 2, shape).astype(numpy_dtype(dtype))


@pytest.mark.parametrize("name", CASES)
def test_one_primitive_computes_the_elements_and_selects(name: str) -> None:
    text, wanted, calls = CASES[name]
    exe, of_host = relay.compile(HEADER + text, target="cuda"), relay.compile(HEADER + text)
    (packed,) = exe.packed
    assert packed.group.nodes[-1].op == "argwhere" and len(packed.group.nodes) > 1
    assert all(len(p.group.nodes) == 1 for p in of_host.packed if p.group.nodes[-1].op == "argwhere")
    dtypes = [t.dtype for t in packed.group.params]
    vm, host = relay.VirtualMachine(exe), relay.VirtualMachine(of_host)
    for shapes in calls:
        arrays = [drawn(s, d, k) for k, (s, d) in enumerate(zip(shapes, dtypes, strict=True))]
        result = vm.run(*arrays).numpy()
        np.testing.assert_array_equal(result, np.argwhere(wanted(*arrays)))
        np.testing.assert_array_equal(result, host.run(*arrays).numpy())


def test_an_executable_with_such_a_primitive_is_saved_and_loaded(tmp_path: Path) -> None:
    text, wanted, _ = CASES["vector"]
    relay.compile(HEADER + text, target="cuda").save(tmp_path / "chosen.rvm")
    loaded = relay.Executable.load(tmp_path / "chosen.rvm")
    x = drawn((5000,), "float32", 3)
    np.testing.assert_array_equal(relay.VirtualMachine(loaded).run(x).numpy(), np.argwhere(wanted(x)))


@pytest.mark.parametrize(
    "body",
    [
        "let %p = %x > 0f; (argwhere(%p), %p)",  # the values have another use
        "argwhere(annotation.stop_fusion(%x > 0f))",
    ],
)
def test_values_that_must_be_stored_are_stored(body: str) -> None:
    exe = relay.compile(HEADER + program(_MATRIX.format("float32"), body), target="cuda")
    assert [p.group.nodes[0].op for p in exe.packed if p.group.nodes[-1].op == "argwhere"] == ["argwhere"]


_COUNT = "%n: int32"
#: By name: a program whose values have a size that no argument and no result has; the arguments, and the result.
COMPUTED: dict[str, tuple[str, list[tuple[Any, ...]], Callable[..., Any]]] = {
    "arange": (
        program(_COUNT, 'argwhere(arange(0, %n, 1, dtype="int32"))'),
        [(np.int32(n),) for n in (0, 1, 2, 5000)],
        lambda n: np.argwhere(np.arange(n)),
    ),
    "arange of floats": (
        program("%x: float32, %s: Tensor[(?n), float32]", 'argwhere(arange(0f, %x, 0.5f, dtype="float32") > 1f)'),
        [(np.float32(n), np.zeros(3, "f")) for n in (0, 7.3)],
        lambda x, s: np.argwhere(np.arange(0, x, 0.5) > 1),
    ),
    "full": (
        program("%x: float32, %shape: Tensor[(2), int64]", 'argwhere(dyn.full(%x, %shape, dtype="float32"))'),
        [(np.float32(v), np.array(s)) for v in (0, 2) for s in ([3, 4], [0, 4], [1, 700])],
        lambda x, s: np.argwhere(np.full(s, x)),
    ),
    "broadcast_to": (
        program("%x: Tensor[(?n), float32], %shape: Tensor[(2), int64]", "argwhere(dyn.broadcast_to(%x, %shape))"),
        [(np.array([0, 1, 2], "f"), np.array(s)) for s in ([4, 3], [0, 3])],
        lambda x, s: np.argwhere(np.broadcast_to(x, s)),
    ),
    "strided_slice": (
        program("%x: Tensor[(?n), float32], %end: Tensor[(1), int64]", "argwhere(dyn.strided_slice(%x, [1], %end, [1]))"),
        [(np.array([1, 0, 3, 4, 0], "f"), np.array([e])) for e in (0, 1, 3, -1, 9)],
        lambda x, e: np.argwhere(x[1 : e[0]]),
    ),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_values_are_stored_whose_size_the_host_knows_from_no_other_tensor(name: str) -> None:
    text, calls, wanted = COMPUTED[name]
    vm, host = machine(text), relay.VirtualMachine(relay.compile(HEADER + text))
    for arrays in calls:
        result = vm.run(*arrays).numpy()
        np.testing.assert_array_equal(result, wanted(*arrays))
        np.testing.assert_array_equal(result, host.run(*arrays).numpy())


def test_a_reduction_is_not_computed_for_each_element() -> None:
    text = program(_MATRIX.format("float32"), "argwhere(sum(%x, axis=[1]) > 0f)")
    exe = relay.compile(HEADER + text, target="cuda")
    assert [[n.op for n in p.group.nodes] for p in exe.packed] == [["sum"], ["greater", "argwhere"]]
    x = drawn((31, 9), "float32", 4)
    np.testing.assert_array_equal(relay.VirtualMachine(exe).run(x).numpy(), np.argwhere(x.sum(1) > 0))


def test_a_refused_element_is_the_error_of_the_cpu() -> None:
    text = program("%x: Tensor[(?n), int32], %y: Tensor[(?n), int32]", "argwhere(floor_divide(%x, %y))")
    x = np.array([0, 4, 2], "i")
    messages = set()
    for vm in (machine(text), relay.VirtualMachine(relay.compile(HEADER + text))):
        np.testing.assert_array_equal(vm.run(x, np.array([2, 3, 1], "i")).numpy(), [[1], [2]])
        with pytest.raises(relay.RelayError, match="zero") as error:
            vm.run(x, np.array([2, 0, 1], "i")).numpy()
        messages.add(str(error.value).partition("\n")[0].rpartition(": ")[2])
    assert len(messages) == 1
