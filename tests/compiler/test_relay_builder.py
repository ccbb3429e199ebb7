"""Programs written as for Relay's Python API run unchanged."""

from __future__ import annotations

import copy
from typing import Any as AnyValue

import numpy as np
import pytest

import relayvm as relay

X = np.array([[1, -2, 3, -4], [-5, 6, -7, 8]], "float32")


def x(name: str = "x") -> relay.Var:
    return relay.var(name, shape=(relay.Any(), 4))


def run(module: relay.IRModule, *args: np.ndarray, device: str = "cpu") -> relay.Tensor:
    with relay.VirtualMachine(relay.compile(module, target=device)) as vm:
        return vm.run(*args)


# ---- modules -----------------------------------------------------------------------------------------------------


def test_a_module_grows() -> None:
    module, a = relay.IRModule(), x()
    assert len(module) == 0 and "main" not in module
    double = relay.GlobalVar("double")
    module[double] = relay.Function([a], a + a)
    module["main"] = relay.nn.relu(relay.Call(double, [b := x("b")]))
    assert len(module) == 2 and list(module) == ["double", "main"]
    assert double in module and "main" in module and "other" not in module and 3 not in module
    assert module["main"].params == (b,) and module[double] is module["double"]
    assert [v.name for v in module.get_global_vars()] == ["double", "main"]
    assert module.get_global_var("main").name == "main"
    assert np.array_equal(run(module, X).numpy(), np.maximum(2 * X, 0))


def test_a_module_takes_the_functions_of_another() -> None:
    a, b = x("a"), x("b")
    module = relay.IRModule.from_expr(relay.Function([a], a))
    other = relay.IRModule({"main": relay.Function([b], -b), "f": relay.Function([c := x("c")], c)})
    module.update(other)
    assert module["main"] is other["main"] and list(module) == ["main", "f"]
    module.update({relay.GlobalVar("g"): other["f"], "@h": other["f"]})
    assert list(module) == ["main", "f", "g", "h"] and list(other) == ["main", "f"]
    module["main"] = relay.GlobalVar("f")
    assert module["main"] is other["f"]
    assert relay.structural_equal(relay.IRModule(dict(other.functions)), other)


def test_nobody_else_sees_a_change() -> None:
    a = x()
    functions = {"main": relay.Function([a], a + a)}
    module = relay.IRModule(functions)
    held, copies = module.functions, [copy.copy(module), copy.deepcopy(module), relay.IRModule(module.functions)]
    compiled, text = relay.compile(module), module.astext()
    module["main"] = relay.Function([b := x("b")], -b)
    assert list(functions) == ["main"] and held["main"] is functions["main"]
    assert all(other.astext() == text for other in copies) and module.astext() != text
    with relay.VirtualMachine(compiled) as vm:
        assert np.array_equal(vm.run(X).numpy(), X + X)
    assert np.array_equal(run(module, X).numpy(), -X)


def test_a_parsed_module_can_be_changed() -> None:
    module = relay.parse(
        '#[version = "0.0.5"] def @main(%x: Tensor[(2), float32]) { @f(%x) } def @f(%x: Tensor[(2), float32]) { %x }'
    )
    module["f"] = relay.Function([a := relay.var("a", (2,))], a * 3)
    assert run(module, np.ones(2, "float32")).tolist() == [3, 3]


def test_wrong_changes_of_a_module() -> None:
    module = relay.IRModule()
    number: AnyValue = 3
    nothing: AnyValue = None
    with pytest.raises(relay.ArgumentError, match="the module has no function @f"):
        module["main"] = relay.GlobalVar("f")
    with pytest.raises(KeyError, match="the module has no function @f"):
        module.get_global_var("f")
    with pytest.raises(relay.ArgumentError, match="a function's name must be a str, not the int 3"):
        module[number] = relay.const(1)
    with pytest.raises(relay.ArgumentError, match=r"@f must be a relay\.Function, not int"):
        module.update({"f": number})
    with pytest.raises(relay.ArgumentError, match="must be a module or a dict of functions by name, not None"):
        module.update(nothing)
    assert len(module) == 0
