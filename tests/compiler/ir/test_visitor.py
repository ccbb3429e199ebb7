"""Walking keeps sharing, visits each node once, and needs no Python stack."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from relayvm.compiler.ir.expr import Call, Constant, Expr, Function, IRModule, Let, Tuple, TupleGetItem, Var
from relayvm.compiler.ir.structural_equal import structural_equal
from relayvm.compiler.ir.visitor import Steps, children, free_vars, post_order, rewrite, run, uses, with_children
from relayvm.ops.core import op

from .random_modules import modules


@given(modules())
@settings(max_examples=50)
def test_order_and_rebuilding(module: IRModule) -> None:
    for function in module.functions.values():
        order = post_order(function)
        at = {id(node): i for i, node in enumerate(order)}
        assert len(at) == len(order) and order[-1] is function
        for node in order:
            assert all(at[id(child)] < at[id(node)] for child in children(node))
            assert with_children(node, children(node)) is node
        assert rewrite(function, lambda node: node) is function
        copy = rewrite(function, lambda node: with_children(node, children(node)) if children(node) else node)
        assert structural_equal(copy, function)


def test_rewrite_keeps_sharing() -> None:
    x, y = Var("x"), Var("y")
    shared = Tuple((x,))
    new = rewrite(Tuple((shared, shared)), lambda node: y if node is x else node)
    assert isinstance(new, Tuple) and new.fields[0] is new.fields[1] and children(new.fields[0]) == (y,)


def test_free_variables_and_uses() -> None:
    a, b, c = Var("a"), Var("b"), Var("c")
    expr = Let(c, Tuple((b, a)), Function((a,), Tuple((a, b, c))))
    assert free_vars(expr) == [b]
    assert free_vars(Tuple((c, a)), b) == [c, a, b]
    assert uses(post_order(expr))[id(b)] == 2


@pytest.mark.lengthy
def test_depth() -> None:
    expr: Expr = Constant(np.zeros(()))
    for _ in range(20_000):
        expr = TupleGetItem(expr, 0)
    assert len(post_order(expr)) == 20_001
    renumbered = rewrite(expr, lambda n: TupleGetItem(n.tuple_value, 1) if isinstance(n, TupleGetItem) else n)
    assert isinstance(renumbered, TupleGetItem) and renumbered.index == 1
    exp = op.get("exp")
    assert isinstance(rewrite(expr, lambda n: Call(exp, (n,))), Call)


def test_run_is_recursion_without_a_stack() -> None:
    def depth(n: int) -> Steps[int]:
        return 0 if n == 0 else 1 + (yield depth(n - 1))

    assert run(depth(50_000)) == 50_000
