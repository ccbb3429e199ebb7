"""Results in Python: operators, indexing, numpy's functions; and machines that are called and closed."""

from __future__ import annotations

import inspect
import operator
from typing import Any

import numpy as np
import pytest

import relayvm as relay

from ...programs import HEADER, machine

X = np.array([[1.5, -2.0], [0.25, 4.0]], np.float32)


def same(a: Any, b: Any) -> None:
    assert type(a) is type(b)
    if isinstance(a, (tuple, list)):
        for x, y in zip(a, b, strict=True):
            same(x, y)
    elif isinstance(a, np.ndarray):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    else:
        assert a == b or (a != a and b != b)


@pytest.mark.parametrize("target", ["cpu", "sim"])
def test_a_result_computes_as_its_array_does(target: str) -> None:
    vm = machine("def @main(%x: Tensor[(?, ?), float32], %k: Tensor[(?), int32]) { (%x * 1f, %k + 1) }", target)
    t, k = vm.run(X, np.array([0, 1], np.int32))
    a, ka = t.numpy(), k.numpy()
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "lt", "le", "gt", "ge", "eq", "ne"):
        apply = getattr(operator, name)
        for left, right, there, here in ((t, a, a, a), (a, t, a, a), (t, t, a, a), (t, 2, a, 2), (2, t, 2, a), (t, k, a, ka)):
            if name == "matmul" and 2 in (there if isinstance(there, int) else 0, here if isinstance(here, int) else 0):
                continue
            same(apply(left, right), apply(there, here))
    for name in ("and_", "or_", "xor", "lshift", "rshift"):
        same(getattr(operator, name)(k, 3), getattr(operator, name)(ka, 3))
        same(getattr(operator, name)(3, k), getattr(operator, name)(3, ka))
    same(divmod(t, 2), divmod(a, 2))
    for one in (operator.neg, operator.pos, operator.abs, np.cbrt, np.sum, np.mean, np.transpose, np.ravel, list):
        same(one(t), one(a))
    same(~k, ~ka)
    for index in (0, (0, 1), slice(1, None), ..., None, k - 1, a > 0, (slice(None), [1, 0])):
        same(t[index], a[index])
    same(t[t > 0], a[a > 0])
    same(a[k - 1], a[ka - 1])
    same(np.add(t, 1), np.add(a, 1))
    same(np.add.reduce(t, axis=1), np.add.reduce(a, axis=1))
    same(np.multiply(t, t, out=np.empty_like(a)), a * a)
    same(np.concatenate([t, t]), np.concatenate([a, a]))
    same(np.add(t, 1, where=t > 0, out=np.zeros_like(a)), np.add(a, 1, where=a > 0, out=np.zeros_like(a)))
    assert (t.tolist(), 4.0 in t, 7 in t, t[1, 1] == 4) == (a.tolist(), True, False, True)
    total = t
    total += t
    same(total, a + a)
    with pytest.raises(TypeError, match="does not write into a Tensor"):
        np.add(a, 1, out=t)
    with pytest.raises(TypeError, match="unhashable"):
        hash(t)
    with pytest.raises(TypeError):
        t[0] = 1
    with pytest.raises(ValueError, match="ambiguous"):
        bool(t)
    scalar = machine("def @main(%n: int64) { %n + 1i64 }", target).run(2)
    assert (list(range(scalar)), float(scalar), bool(scalar), scalar == 3) == ([0, 1, 2], 3.0, True, True)
    with pytest.raises(TypeError):
        iter(scalar).__next__()


@pytest.mark.parametrize("target", ["cpu", "sim"])
def test_a_closed_machine_runs_no_more_and_its_results_stay(target: str) -> None:
    with machine("def @main(%x: Tensor[(?, ?), float32]) { exp(%x) + 1f }", target) as vm:
        result, other = vm(X), vm(X)
        same(vm(x=X).numpy(), result.numpy())
    vm.close()
    want = np.exp(X) + np.float32(1)
    for attempt in (lambda: vm(X), lambda: vm.run(X.tolist()), lambda: vm["main"](X), lambda: vm.profile(X)):
        with pytest.raises(relay.VMError, match="this VirtualMachine is closed"):
            attempt()
    np.testing.assert_allclose(result, want, rtol=1e-6)
    np.testing.assert_allclose(other.numpy(), want, rtol=1e-6)
    assert "closed" in repr(vm) and vm.counters["launches"] > 0
    view = vm._runtime.view
    del result, other
    vm.trim()
    assert (view["live_bytes"], view["pool_bytes"]) == (0, 0)


def test_a_machine_is_closed_also_where_its_queued_work_fails() -> None:
    text = 'def @main(%x: Tensor[(?), float32], %i: Tensor[(?), int32]) { take(%x, %i, axis=0, mode="fast") + 1f }'
    vm = machine(text, "sim")
    lost = vm.run(X[0], np.array([7], np.int32))
    with pytest.raises(relay.VMError, match="an index is out of range"):
        vm.close()
    vm.close()
    with pytest.raises(relay.VMError, match="was dropped"):
        lost.numpy()


def test_what_prints_itself_is_short() -> None:
    vm = machine("def @main(%x: Tensor[(?, ?), float32]) { exp(%x) + 1f }", "sim")
    profile = vm.profile(X, repeat=2)
    assert repr(vm.exe).startswith("<Executable for sim: @main; 1 kernel, ")
    assert repr(vm).startswith("<VirtualMachine on sim: @main; ")
    assert repr(profile).startswith("<Profile of @main on sim: 2 runs, median ")
    comparison = relay.compare(HEADER + "def @main(%x: Tensor[(?), float32]) { exp(%x) }", {}, {"fuse": "off"}, [X[0]], repeat=2)
    assert repr(comparison).startswith("<Comparison of ")
    for page in (profile._repr_html_(), comparison._repr_html_()):
        assert page.startswith("<pre") and "<script" not in page and "exp" in page


def test_a_notebook_shows_modules_and_tensors() -> None:
    text = "def @main(%x: Tensor[(?n, 2), float32]) { exp(%x) < 1f }"
    assert "Tensor[(?n, 2), float32]" in relay.parse(HEADER + text)._repr_html_()
    for target, has_elements in (("cpu", True), ("sim", False)):
        vm = machine(text, target)
        page = vm.run(np.zeros((1, 2), "float32"))._repr_html_()
        assert page.startswith("<pre") and f"Tensor(shape=(1, 2), dtype=bool, device={target})" in page
        assert ("False" in page) == has_elements and vm.counters["dtoh_copies"] == 0


def test_a_machine_has_the_signature_of_its_program() -> None:
    vm = machine("def @main(%x: Tensor[(?n), float32], %k: int32) { (%x, %k) } def @f(%donate: int32) { %donate }")
    assert str(inspect.signature(vm.run)) == (
        "(x: 'Tensor[(?n), float32]', k: 'int32', *, outputs=(), donate=()) -> '(Tensor[(?n), float32], int32)'"
    )
    assert list(inspect.signature(vm["f"]).parameters) == ["donate", "outputs"]
    dotted = machine("def @main(%x.weight: int32) { %x.weight }")
    assert str(inspect.signature(dotted.run)) == "(*args, **named)"
    assert list(inspect.signature(type(vm.run)).parameters) == ["machine", "index"]
