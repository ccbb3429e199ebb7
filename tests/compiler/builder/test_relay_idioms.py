"""Idioms of programs that were written for Relay: sizes as numbers, texts, executors and operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import relayvm as relay

from ...programs import HEADER

X = np.arange(6, dtype="float32").reshape(2, 3)
LISTS = f"{HEADER}type List[A] {{ Cons(A, List[A]), Nil }}\n"


def evaluated(expr: Any, *args: Any, kind: str = "debug") -> Any:
    """The value of a function in numpy."""
    mod = relay.IRModule.from_expr(expr)
    return relay.create_executor(kind, mod, device="cpu", target="cpu").evaluate()(*args).numpy()


def test_a_known_size_is_a_number() -> None:
    ty = relay.TensorType((2, 3, relay.Any()), "float32")
    sizes: Any = ty.shape
    known, other, unknown = sizes
    assert known == 2 == int(known) == known.value and known == 2 and known != other and hash(known) == hash(2)
    assert list(range(known)) == [0, 1] and np.zeros(ty.shape[:2]).shape == (2, 3) and [7, 8, 9][known] == 9
    assert known * other == 6 and known + 1 == 3 and isinstance(unknown, relay.Any) and not isinstance(known, relay.Any)
    with pytest.raises(TypeError):
        range(unknown)


@pytest.mark.parametrize("matched", ["%a", "(%a)"])
def test_a_match_without_parentheses(matched: str) -> None:
    mod = relay.parse(f"{LISTS}def @f(%a: List[int32]) {{ match {matched} {{ Cons(%x, _) => %x, Nil => 0 }} }}")
    assert relay.structural_equal(relay.parse(mod.astext()), mod) and isinstance(mod["f"].body, relay.Match)


def test_a_match_of_several_values() -> None:
    text = "def @f(%a: List[int32], %b: List[int32]) { match (%a, %b) { (Cons(%x, _), Nil) => %x, _ => 0 } }"
    mod = relay.parse(LISTS + text)
    assert relay.structural_equal(relay.parse(mod.astext()), mod) and isinstance(mod["f"].body.data, relay.Tuple)


def test_constants_are_arguments() -> None:
    x = relay.var("x", shape=(2, 3))
    for kind in ("debug", "vm", "graph"):
        np.testing.assert_array_equal(evaluated(relay.Function([x], relay.add(x, x)), relay.const(X), kind=kind), X + X)


def test_the_least_bool_in_a_fused_function() -> None:
    x = relay.var("x", shape=(4,), dtype="bool")
    mod = relay.IRModule.from_expr(relay.Function([x], relay.min(relay.logical_not(x), axis=[0])))
    fused = relay.transform.FuseOps()(mod)
    assert any("Primitive" in function.attrs for function in fused.functions.values())
    for value in ([True] * 4, [False] * 4, [True, False, True, False]):
        run = relay.create_executor("debug", fused, device="cpu", target="cpu").evaluate()
        assert bool(run(np.array(value)).numpy()) == (not any(value))


def test_operators_with_fewer_arguments() -> None:
    x = relay.var("x", shape=(2, 3))
    new, begin, end = relay.const(np.zeros((1, 3), "float32")), relay.const([1, 0]), relay.const([2, 3])
    wanted = X.copy()
    wanted[1] = 0
    np.testing.assert_array_equal(evaluated(relay.Function([x], relay.strided_set(x, new, begin, end)), X), wanted)
    cut = relay.nn.pad(x, ((-1, 0), (0, -1)))
    np.testing.assert_array_equal(evaluated(relay.Function([x], cut), X), X[1:, :2])
    np.testing.assert_array_equal(evaluated(relay.Function([x], relay.nn.dropout(x) + x), X), 2 * X)
