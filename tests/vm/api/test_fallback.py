"""Fallback to the next implementation for kernels that cannot be compiled, with one warning; an error if forced."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.ops.core.dtype_rules import like_inputs
from relayvm.ops.core.implementation import Kernel
from relayvm.ops.core.op import REGISTRY, Op, OpPattern
from relayvm.ops.native.blas import library_calls
from relayvm.ops.native.blas.blas_sources import Source
from relayvm.ops.native.memory import generic
from relayvm.shape_funcs.symbolic.registry import SHAPE_FUNCS, register_shape_func
from relayvm.vm.api.machine import VirtualMachine
from relayvm.vm.runtime.kernels import fallback

from ...programs import HEADER

DENSE = HEADER + "def @main(%x: Tensor[(20, 6), float32], %w: Tensor[(5, 6), float32]) { nn.dense(%x, %w) }"
X, W = np.arange(120, dtype=np.float32).reshape(20, 6), np.ones((5, 6), np.float32)


@pytest.fixture
def without_blas(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def missing(name: str) -> int:
        raise ImportError("No module named 'scipy'")

    monkeypatch.setattr(library_calls, "SOURCES", (Source("scipy", missing),))
    monkeypatch.setattr(fallback, "_REPORTED", set())
    library_calls.blas.cache_clear()
    yield
    library_calls.blas.cache_clear()


@pytest.mark.usefixtures("without_blas")
def test_a_missing_library_is_said_once_and_done_without() -> None:
    exe = relay.compile(DENSE)
    assert [p.group.implementation for p in exe.packed] == ["blas"]
    why = "ImportError: there is no BLAS (scipy: No module named 'scipy')"
    reported = f"nn.dense: its implementation 'blas' cannot be used: {why}; 'loops' is"
    with pytest.warns(RuntimeWarning) as caught:
        result = VirtualMachine(exe).run(X, W).numpy()
    assert [str(w.message) for w in caught] == [reported]
    np.testing.assert_array_equal(result, X @ W.T)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        VirtualMachine(exe).run(X, W)


@pytest.mark.usefixtures("without_blas")
def test_what_was_forced_is_not_replaced() -> None:
    exe = relay.compile(DENSE, **{"impl.nn.dense": "blas"})
    with pytest.raises(relay.VMError, match=r"nn.dense: its implementation 'blas', which is forced, cannot be used: ImportError"):
        VirtualMachine(exe)


def test_a_kernel_that_does_not_compile_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    real, failing = fallback.kernel_address, "columns"
    monkeypatch.setattr(fallback, "_REPORTED", set())

    def address(group: Any) -> int:
        if group.implementation == failing:
            raise RuntimeError("no machine code")
        return real(group)

    monkeypatch.setattr(fallback, "kernel_address", address)
    text = HEADER + "def @main(%x: Tensor[(2, 3), float32]) { nn.softmax(%x) }"
    failing = "rows"
    with pytest.warns(
        RuntimeWarning, match="nn.softmax: its implementation 'rows' cannot be used: RuntimeError: no machine code"
    ):
        result = VirtualMachine(relay.compile(text)).run(np.zeros((2, 3), np.float32)).numpy()
    np.testing.assert_allclose(result, 1 / 3)
    # the last implementation has no fallback
    failing = "columns"
    with pytest.raises(RuntimeError, match="no machine code"):
        VirtualMachine(relay.compile(text.replace("%x)", "%x, axis=0)")))


# ---- memory that is planned ----------------------------------------------------------------------------------------

NAME = "test.plus_one"


@generic
def plus_one(x: Any, out: Any) -> int:
    for i in range(x.shape[0]):
        out[i] = x[i] + 1
    return 0


@pytest.fixture
def kernels() -> Iterator[list[str]]:
    """An operator with the implementations "first", "apart" and "over"; all except "apart" may run in place.

    The implementations named in the list do not compile.
    """
    register_shape_func(NAME)(lambda inputs, attrs: inputs[0].shape)
    op = Op(
        name=NAME, doc="One more.", inputs=("data",), pattern=OpPattern.OPAQUE, dtype=like_inputs(NAME, ["data"], ["float32"]),
        kernels=tuple(Kernel(k, plus_one, in_place=() if k == "apart" else ((0, 0),)) for k in ("first", "apart", "over")),
    )  # fmt: skip
    real, failing = fallback.kernel_address, ["first"]

    def address(group: Any) -> int:
        if group.implementation in failing:
            raise RuntimeError("no machine code")
        return real(group)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(fallback, "_REPORTED", set())
        patched.setattr(fallback, "kernel_address", address)
        yield failing
    del REGISTRY[op.name], SHAPE_FUNCS[op.name]


def compiled(argument: str) -> relay.Executable:
    """The operator with implementation "first", in place if its argument is not ``%x``, which is returned."""
    exe = relay.compile(f"{HEADER}def @main(%x: Tensor[(?n), float32]) {{ ({NAME}({argument}), %x) }}")
    assert (exe.packed[-1].group.implementation, exe.packed[-1].group.in_place) == ("first", ((0, 0),) * (argument != "%x"))
    return exe


@pytest.mark.parametrize(("argument", "taken", "wanted"), [("%x", "apart", [2, -1]), ("abs(%x)", "over", [2, 3])])
@pytest.mark.usefixtures("kernels")
def test_what_stands_in_does_in_place_what_is_planned_so_and_need_do_no_more(argument: str, taken: str, wanted: Any) -> None:
    reported = f"{NAME}: its implementation 'first' cannot be used: RuntimeError: no machine code; '{taken}' is"
    with pytest.warns(RuntimeWarning, match=reported):
        vm = VirtualMachine(compiled(argument))
    result, given = vm.run(np.array([1, -2], np.float32))
    np.testing.assert_array_equal(result.numpy(), wanted)
    np.testing.assert_array_equal(given.numpy(), [1, -2])


@pytest.mark.filterwarnings("ignore:.*its implementation .* cannot be used:RuntimeWarning")
def test_what_is_not_right_in_place_never_stands_in_for_what_is_planned_so(kernels: list[str]) -> None:
    kernels.append("over")
    VirtualMachine(compiled("%x"))
    with pytest.raises(RuntimeError, match="no machine code"):
        VirtualMachine(compiled("abs(%x)"))


def test_no_fallback_writes_over_an_operand_that_it_reads_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other implementations of the convolution store sums in the result, which is the residual here."""
    sizes = "%x: Tensor[(1, 8, 6, 6), float32], %w: Tensor[(8, 8, 1, 1), float32]"
    exe = relay.compile(HEADER + f"def @main({sizes}) {{ nn.relu(add(nn.conv2d(%x, %w), nn.softmax(%x))) }}")
    (packed,) = (p for p in exe.packed if p.group.has_epilogue)
    tried: list[str] = []

    def failing(group: Any) -> int:
        tried.append(group.implementation)
        raise RuntimeError("no memory")

    monkeypatch.setattr(fallback, "kernel_address", failing)
    assert packed.group.in_place and packed.group.implementation == "tiles"
    with pytest.raises(RuntimeError, match="no memory"):
        fallback.usable(packed)
    assert tried == ["tiles"]
