"""Passes give a module back in the form that it has, with types."""

from __future__ import annotations

import numpy as np
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


GENERIC = """
type List[A] { Cons(A, List[A]), Nil }
def @first[A](%l: List[A], %d: A) -> A { match (%l) { Cons(%x, _) => %x, Nil => %d } }
def @apply[A, B](%f: fn (A) -> B, %x: A) -> B { %f(%x) }
def @main(%x: Tensor[(2, 3), float32], %s: Tensor[(3, 2), float32]) {
  let %f = fn (%y: Tensor[(2, 3), float32]) { nn.layer_norm(%y, ones(shape=[3]), zeros(shape=[3])) };
  dyn.reshape(@first(Cons(@apply(%f, %x), Nil), %x), shape_of(%s))
}
"""


@pytest.mark.parametrize(("name", "gone"), [("SimplifyInference", "layer_norm"), ("DynamicToStatic", "dyn.reshape")])
def test_generic_functions_stay_where_operators_change(name: str, gone: str) -> None:
    mod = relay.parse(HEADER + GENERIC)
    out = getattr(relay.transform, name)()(mod)
    assert gone in str(mod) and gone not in str(out) and len(out["apply"].type_params) == 2 and "match" in str(out["first"])
    x = np.array([[1, 2, 4], [0, 1, 5]], "float32")
    one, other = (relay.create_executor("debug", m).evaluate()(x, np.zeros((3, 2), "float32")).numpy() for m in (mod, out))
    np.testing.assert_allclose(one, other, rtol=1e-6)


def test_sizes_that_a_program_computes_are_known_to_a_pass() -> None:
    x, y = relay.var("x", shape=(), dtype="int32"), relay.var("y", shape=(1, 2), dtype="int64")
    shape = relay.shape_of(y)
    whole = relay.strided_slice(shape, [0], relay.shape_of(shape))
    mod = relay.IRModule.from_expr(relay.Function([x, y], relay.full(x, whole, "int32")))
    body = transform.DynamicToStatic()(mod)["main"].body
    assert body.op.name == "full" and list(body.attrs.shape) == [1, 2]
