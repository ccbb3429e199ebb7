"""A-normal form of large and of random graphs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relayvm.ops  # noqa: F401  declares the operators
from relayvm.compiler.ir.anf import values
from relayvm.compiler.ir.expr import Call, Expr, Function, If, IRModule, Tuple, Var, let_chain
from relayvm.compiler.ir.well_formed import check
from relayvm.compiler.passes.infer_type import infer_type
from relayvm.compiler.passes.to_a_normal_form import to_a_normal_form
from relayvm.ops.core.op import NoAttrs, get
from relayvm.ops.core.tensor_types import TensorType, scalar

EXP, ADD = get("exp"), get("add")


def _main(params: list[Var], body: Expr) -> IRModule:
    return IRModule({"main": Function(tuple(params), body)})


@pytest.mark.lengthy
def test_a_deep_graph_with_sharing() -> None:
    x = Var("x", TensorType.of((3,)))
    body: Expr = x
    for i in range(20_000):
        body = Call(ADD, (body, body), NoAttrs()) if i % 2 else Call(EXP, (body,), NoAttrs())
    mod = to_a_normal_form(_main([x], body))
    bindings, result = let_chain(mod["main"].body)
    assert len(bindings) == 20_000 and result is bindings[-1][0]
    assert len({v.name for v, _ in bindings}) == 20_000
    check(mod, "to_a_normal_form", typed=False)


def test_types_of_a_long_chain() -> None:
    x = Var("x", TensorType.of((3,)))
    body: Expr = x
    for _ in range(3000):
        body = Call(EXP, (body,), NoAttrs())
    mod = infer_type(to_a_normal_form(_main([x], body)))
    assert mod["main"].body.ty == TensorType.of((3,))
    check(mod, "infer_type", typed=True)


@st.composite
def _graphs(draw: st.DrawFn) -> tuple[list[Var], Expr, int]:
    """Parameters, a random graph with sharing and branches, and how many distinct calls it has."""
    c, x = Var("c", scalar("bool")), Var("x", scalar("float32"))
    nodes: list[Expr] = [x]
    calls = draw(st.integers(1, 25))
    for _ in range(calls):
        pick = st.sampled_from(nodes)
        kind = draw(st.sampled_from(["exp", "add", "if"]))
        if kind == "exp":
            nodes.append(Call(EXP, (draw(pick),), NoAttrs()))
        elif kind == "add":
            nodes.append(Call(ADD, (draw(pick), draw(pick)), NoAttrs()))
        else:
            nodes.append(If(c, draw(pick), draw(pick)))
    return [c, x], Tuple((nodes[-1], draw(st.sampled_from(nodes)))), calls


def _distinct(root: Expr) -> int:
    seen: set[Expr] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if node in seen or isinstance(node, Var):
            continue
        seen.add(node)
        parts = {Call: lambda n: n.args, Tuple: lambda n: n.fields, If: lambda n: (n.cond, n.true_branch, n.false_branch)}
        stack.extend(parts[type(node)](node))
    return len(seen)


@settings(max_examples=60)
@given(_graphs())
def test_every_shared_node_is_bound_once_where_all_uses_see_it(graph: tuple[list[Var], Expr, int]) -> None:
    params, root, _ = graph
    mod = to_a_normal_form(_main(params, root))
    # the check says that every variable is bound before its use, in a scope around it
    check(mod, "to_a_normal_form", typed=False)
    assert sum(1 for _ in values(mod["main"].body)) == _distinct(root)
    check(infer_type(mod), "infer_type", typed=True)
