"""Programs that are built may give one variable to two binders, or use one where nothing binds it: each is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import relayvm as relay


def _scalar(name: str) -> Any:
    return relay.var(name, shape=())


def _two_lets() -> Any:
    x, v = _scalar("x"), relay.var("v")
    return relay.Function([x], relay.Let(v, x + 1.0, relay.Let(v, v + 1.0, v)))


def _two_lets_side_by_side() -> Any:
    x, v = _scalar("x"), relay.var("v")
    return relay.Function([x], relay.Tuple([relay.Let(v, x + 1.0, v), relay.Let(v, x + 2.0, v)]))


def _nested_functions() -> Any:
    x = _scalar("x")
    return relay.Function([x], relay.Call(relay.Function([x], x + 1.0), [x]))


def _functions_side_by_side() -> Any:
    x, y = _scalar("x"), _scalar("y")
    each = [relay.Call(relay.Function([x], x + k), [y]) for k in (1.0, 2.0)]
    return relay.Function([y], each[0] + each[1])


def _parameter_and_let() -> Any:
    x = _scalar("x")
    return relay.Function([x], relay.Let(x, x + 1.0, x))


TWICE: dict[Callable[[], Any], str] = {
    _two_lets: "%v is bound twice in @main: by two lets",
    _two_lets_side_by_side: "%v is bound twice in @main: by two lets",
    _nested_functions: "%x is bound twice in @main: as a parameter of two functions",
    _functions_side_by_side: "%x is bound twice in @main: as a parameter of two functions",
    _parameter_and_let: "%x is bound twice in @main: by a let and as a parameter of a function",
}


@pytest.mark.parametrize("build", TWICE, ids=lambda b: b.__name__[1:])
def test_a_variable_is_bound_once(build: Callable[[], Any]) -> None:
    with pytest.raises(relay.TypeCheckError) as caught:
        relay.compile(build())
    (found,) = caught.value.diagnostics
    name = found.message[1]
    assert found.message == TWICE[build]
    assert found.help == f"a variable is bound once: make a relay.var('{name}') for each let and each function"


def test_what_is_shared_is_bound_once() -> None:
    """One let in both branches, one function called twice, one variable in two functions of a module."""
    x, y, v, c = _scalar("x"), _scalar("y"), relay.var("v"), relay.var("c", shape=(), dtype="bool")
    let, plus = relay.Let(v, x + 1.0, v + 2.0), relay.Function([y], y + 1.0)
    body = relay.Call(plus, [relay.Call(plus, [relay.If(c, let, let)])]) + relay.Call(relay.GlobalVar("g"), [x])
    mod = relay.IRModule({"main": relay.Function([c, x], body), "g": relay.Function([x], x * 2.0)})
    assert float(relay.VirtualMachine(relay.compile(mod)).run(True, 1.0).numpy()) == 8.0


def _of_a_branch() -> Any:
    x, v, c = _scalar("x"), relay.var("v"), relay.var("c", shape=(), dtype="bool")
    return relay.Function([c, x], relay.Tuple([relay.If(c, relay.Let(v, x + 1.0, v * v), x), v]))


def _of_a_closure() -> Any:
    x, v, y = _scalar("x"), relay.var("v"), _scalar("y")
    return relay.Function([x], relay.Tuple([relay.Call(relay.Function([y], relay.Let(v, y + 1.0, v * v)), [x]), v]))


def _a_parameter_of_a_closure() -> Any:
    x, v = _scalar("x"), _scalar("v")
    return relay.Function([x], relay.Tuple([relay.Call(relay.Function([v], v + 1.0), [x]), v]))


@pytest.mark.parametrize("build", [_of_a_branch, _of_a_closure, _a_parameter_of_a_closure], ids=lambda b: b.__name__[1:])
def test_a_variable_outside_of_its_scope(build: Callable[[], Any]) -> None:
    with pytest.raises(relay.TypeCheckError, match="there is no variable %v here"):
        relay.compile(build())
