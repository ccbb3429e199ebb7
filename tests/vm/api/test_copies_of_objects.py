"""Copies and pickles of results, executables, machines and modules: each copy owns its memory, also in another process."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import pytest

import relayvm as relay

X = np.linspace(0, 1, 9, dtype=np.float32)


def module() -> relay.IRModule:
    x = relay.var("x", shape=(relay.Any(),), dtype="float32")
    weight = relay.const(np.array([[1.5], [-2.25]], np.float32))
    return relay.IRModule.from_expr(relay.Function([x], relay.exp(x) + weight))


def pickled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def wanted() -> np.ndarray:
    return np.exp(X) + np.array([[1.5], [-2.25]], np.float32)


@pytest.mark.parametrize("target", ["cpu", "sim"])
@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, pickled], ids=["copy", "deep", "pickle"])
def test_a_copy_of_a_result_owns_its_memory(way: Any, target: str) -> None:
    vm = relay.VirtualMachine(relay.compile(module(), target=target))
    result = vm.run(X)
    copies = [way(result) for _ in range(5)]
    elements = result.numpy().copy()
    if target == "cpu":
        result.numpy()[:] = 0
    del result
    for _ in range(20):  # may reuse the memory of the freed result
        vm.run(X * 0)
    for c in copies:
        assert type(c) is relay.Tensor
        np.testing.assert_array_equal(c.numpy(), elements)
    del c, copies
    vm.run(X).numpy()
    if target == "cpu":  # on sim constants stay
        assert vm.memory["live_bytes"] == 0


def test_a_tensor_that_nobody_finished_is_harmless() -> None:
    result = relay.VirtualMachine(relay.compile(module())).run(X)
    half = object.__new__(relay.Tensor)
    half.__del__()  # type: ignore[attr-defined]
    with pytest.raises(relay.VMError, match="this Tensor is no result"):
        _ = half.shape
    with pytest.raises(AttributeError, match="no attribute 'shapes'"):
        _ = half.shapes  # type: ignore[attr-defined]
    del half
    result.__del__()
    result.__del__()
    for attempt in (lambda: relay.Tensor(), lambda: relay.Tensor.__new__(relay.Tensor), lambda: type("T", (relay.Tensor,), {})):
        with pytest.raises(TypeError, match="Tensor"):
            attempt()


def test_executables_modules_and_machines_copy_and_pickle() -> None:
    mod = module()
    exe = relay.compile(mod, target="sim", fuse="off")
    assert copy.copy(exe) is exe and copy.deepcopy(exe) is exe
    for other in (copy.copy(mod), copy.deepcopy(mod)):  # a module can be changed
        assert other is not mod and relay.structural_equal(other, mod)
    again = pickle.loads(pickle.dumps(exe))
    assert again.disassembly == exe.disassembly and dict(again.config) == dict(exe.config)
    assert relay.structural_equal(pickle.loads(pickle.dumps(mod)), mod)
    with pytest.raises(TypeError, match="pickle the IRModule"):
        pickle.dumps(mod["main"])
    vm = relay.VirtualMachine(exe, memory_limit_bytes=1 << 20)
    for again_vm in (copy.copy(vm), copy.deepcopy(vm), pickle.loads(pickle.dumps(vm))):
        assert again_vm is not vm and again_vm.memory_limit_bytes == 1 << 20 and again_vm.device == "sim"
        np.testing.assert_allclose(again_vm.run(X).numpy(), wanted(), rtol=1e-5)
    np.testing.assert_allclose(pickle.loads(pickle.dumps(vm.run))(X).numpy(), wanted(), rtol=1e-5)


def _with_executable(exe: relay.Executable) -> relay.Tensor:
    return relay.VirtualMachine(exe).run(X)  # type: ignore[no-any-return]


def _with_module(mod: relay.IRModule) -> tuple[relay.Executable, relay.Tensor]:
    exe = relay.compile(mod)
    return exe, relay.VirtualMachine(exe).run(X)


def test_a_pool_of_processes_takes_and_gives_them() -> None:
    mod = module()
    exe = relay.compile(mod)
    vm = relay.VirtualMachine(exe)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        results = [pool.submit(_with_executable, exe), pool.submit(vm.run, X), pool.submit(_with_module, mod)]
        theirs, tensor = results[2].result(120)
        for found in (results[0].result(120), results[1].result(120), tensor, relay.VirtualMachine(theirs).run(X)):
            np.testing.assert_allclose(found.numpy(), wanted(), rtol=1e-5)
