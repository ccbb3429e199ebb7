"""Passes give a module back in the form that it has, with types."""

from __future__ import annotations

import pytest

import relayvm as relay
from relayvm.compiler.ir.visitor import post_order

from ...programs import HEADER

transform = relay.transform
LISTS = """type List[A] { Cons(A, List[A]), Nil }
def @map[A, B](%f: fn (A) -> B, %l: List[A]) {
  match (%l) { Cons(%h, %t) => { Cons(%f(%h), @map(%f, %t)) }, Nil => { Nil } }
}
"""


def parsed(text: str) -> relay.IRModule:
    return relay.parse(HEADER + text)


def function_types(mod: relay.IRModule) -> dict[str, str]:
    return {name: str(function.checked_type) for name, function in mod.functions.items()}


def test_a_shared_expression_stays_shared() -> None:
    x = relay.var("x", shape=(relay.Any(), 4))
    y = relay.exp(x)
    typed = transform.InferType()(relay.IRModule.from_expr(relay.Function([x], relay.add(y, y))))
    body = typed["main"].body
    assert body.args[0] is body.args[1] and body.args[0].op is relay.op.get("exp")
    assert str(typed["main"].ret_type) == str(body.checked_type) == str(body.args[0].checked_type)
    assert y.ty is None, "the given expressions are unchanged"


def test_types_over_type_variables() -> None:
    rows = "Tensor[(?n, 2), float32]"
    typed = transform.InferType()(
        parsed(
            LISTS
            + """
            def @first[A, B](%p: (A, B)) { %p.0 }
            def @main(%x: Tensor[(?n, 2), float32]) {
              let %pair = fn [A](%y: A) { (%y, @first((%y, 1))) };
              (@map(fn (%z: int32) { cast(%z, dtype="float32") }, Cons(1, Nil)), %pair(%x), %pair(True))
            }"""
        )
    )
    assert function_types(typed) == {
        "map": "fn [A, B](fn (A) -> B, List[A]) -> List[B]",
        "first": "fn [A, B]((A, B)) -> A",
        "main": f"fn ({rows}) -> (List[float32], ({rows}, {rows}), (bool, bool))",
    }
    nodes = post_order(*typed.functions.values())
    assert all(node.ty is not None for node in nodes) and any(isinstance(node, relay.Match) for node in nodes)
    pair = next(node.var for node in nodes if isinstance(node, relay.Let))
    assert str(pair.ty).startswith("fn (") or str(pair.ty).startswith("fn [A]")
    instances = {
        node.op.name: list(map(str, node.type_args)) for node in post_order(typed["main"]) if getattr(node, "type_args", ())
    }
    assert instances == {"map": ["int32", "float32"], "first": ["A", "int32"]}
    assert relay.structural_equal(parsed(typed.astext().removeprefix(HEADER)), typed)


def test_a_function_whose_operators_need_instances() -> None:
    mod = parsed("def @twice[A](%x: A) { add(%x, %x) }\ndef @main(%x: float32) { (@twice(%x), @twice(1)) }")
    typed = transform.InferType()(mod)
    assert typed["twice"].type_params and typed["twice"].ty is None
    assert str(typed["main"].ret_type) == "(float32, int32)"
    # other passes get types of every expression
    assert len(transform.FoldConstant()(mod).functions) == 3
    with pytest.raises(relay.TypeCheckError, match="only a tuple has fields"):
        transform.InferType()(parsed("def @wrong[A](%x: A) { %x }\ndef @main(%x: float32) { @wrong(%x).0 }"))


FORMS = {
    "tuples": ("FoldConstant", "(add(1f, 2f), %x).0", "3f"),
    "a dead tuple of lets": ("FoldConstant", "let %t = (add(1f, 2f), %x); %t.0", "3f"),
    "a let": ("FoldConstant", "let %t = add(%x, add(1f, 2f)); %t", "let %t = add(%x, 3f); %t"),
    "a composite operator": ("FoldConstant", "nn.l2_normalize(%r, eps=0f, axis=[0])", "nn.l2_normalize(%r, eps=0f, axis=[0])"),
    "a branch": (
        "EliminateCommonSubexpr",
        "if (%c) { (exp(%x), exp(%x)) } else { (%x, %x) }",
        "if (%c) { %0 = exp(%x); (%0, %0) } else { (%x, %x) }",
    ),
    "an unused call that may not end": ("DeadCodeElimination", "let %u = @loop(%x); %x", "let %u = @loop(%x); %x"),
    "an unused operator": ("DeadCodeElimination", "let %u = exp(%x); %x", "%x"),
    "a lost call that may not end": ("FoldConstant", "(@loop(%x), 1f).1", "let %u = @loop(%x); 1f"),
    "a static form": ("DynamicToStatic", "dyn.reshape(%r, meta[relay.Constant][0])", "reshape(%r, newshape=[2, 1])"),
}


@pytest.mark.parametrize("name", FORMS)
def test_form_after_a_pass(name: str) -> None:
    run, before, after = FORMS[name]
    head = "def @loop(%x: float32) -> float32 { @loop(%x) }\ndef @main(%x: float32, %r: Tensor[(2), float32], %c: bool) {"
    constants = {"relay.Constant": [relay.const([2, 1], "int64")]}

    def module(body: str) -> relay.IRModule:
        return relay.parse(f"{HEADER}{head} {body} }}", init_meta_table=constants)

    out, wanted = getattr(transform, run)()(module(before)), module(after)
    assert relay.structural_equal(transform.InferType()(out), transform.InferType()(wanted)), out.astext()


def test_a_function_pass_gives_types() -> None:
    @transform.function_pass(opt_level=0)
    def twice(function, mod, context):
        return relay.Function(function.params, relay.add(function.body, function.body))

    x = relay.var("x", shape=(3,))
    out = twice(relay.IRModule.from_expr(relay.Function([x], relay.exp(x))))
    assert str(out["main"].ret_type) == str(out["main"].body.args[0].checked_type) == "Tensor[(3), float32]"
