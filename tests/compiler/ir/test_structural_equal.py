"""Alpha-equivalence: relevant and irrelevant differences."""

from __future__ import annotations

import pytest

import relayvm as relay
from relayvm.compiler.ir.structural_equal import structural_equal, structural_hash
from relayvm.compiler.text.parser import parse, parse_expr

from ...programs import HEADER


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("fn (%x: int32) { let %y = exp(%x); %y }", "fn (%a: int32) { let %b = exp(%a); %b }"),
        ("fn (%x) { let %x = exp(%x); %x }", "fn (%x) { let %y = exp(%x); %y }"),
        ("fn (%x) { exp(exp(%x)) }", "fn (%x) { %0 = exp(%x); exp(%0) }"),
        ("fn (%x) { %x + 1f }", "fn (%x) { add(%x, 1.0f32) }"),
        ("fn (%x) { sum(%x, axis=[0], keepdims=False) }", "fn (%x) { sum(%x, axis=[0]) }"),
        ("(1, 1)", "(/* a */ 1, 1 // b\n)"),
        ("let %e = (); (%e, %e)", "let %f = (); (%f, %f)"),
        ("%0 = (); (%0, %0, (%0,))", "((), (), ((),))"),
        ("add", "add /* alone */"),
        ("fn (%x: Tensor[(), float32]) { %x }", "fn (%x: float32) { %x }"),
    ],
)
def test_equal(a: str, b: str) -> None:
    assert structural_equal(parse_expr(a), parse_expr(b))
    assert structural_hash(parse_expr(a)) == structural_hash(parse_expr(b))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("fn (%x, %y) { %x }", "fn (%x, %y) { %y }"),
        ("fn (%x: int32) { %x }", "fn (%x: int64) { %x }"),
        ("fn (%x: int32) { %x }", "fn (%x) { %x }"),
        ("fn (%x: Tensor[(?n, ?n), int8]) { %x }", "fn (%x: Tensor[(?n, ?m), int8]) { %x }"),
        ("fn (%x: Tensor[(?n), int8]) { %x }", "fn (%x: Tensor[(?), int8]) { %x }"),
        ("fn (%x) { %0 = exp(%x); (%0, %0) }", "fn (%x) { (exp(%x), exp(%x)) }"),
        ("fn (%x) { %0 = exp(%x); (%0, %0, exp(%x)) }", "fn (%x) { %0 = exp(%x); (%0, exp(%x), %0) }"),
        ("fn (%x) { let %y = exp(%x); %y }", "fn (%x) { exp(%x) }"),
        ("1", "1i64"),
        ("0f", "-0f"),
        ("1", "(1,)"),
        ("add", "subtract"),
        ("add", "(add,)"),
        ("(1, 2).0", "(1, 2).1"),
        ("fn (%x, Primitive=1) { %x }", "fn (%x) { %x }"),
        ("fn (%x) -> int32 { %x }", "fn (%x) { %x }"),
        ("@f(1)", "@g(1)"),
        ("exp(1f)", "log(1f)"),
        ("sum(1f, axis=[0])", "sum(1f, axis=[1])"),
        ("if (True) { 1 } else { 2 }", "if (True) { 2 } else { 1 }"),
    ],
)
def test_different(a: str, b: str) -> None:
    assert not structural_equal(parse_expr(a), parse_expr(b))
    assert structural_hash(parse_expr(a)) != structural_hash(parse_expr(b))


def test_free_variables() -> None:
    a, b = (parse_expr(f"free_var %{n}: int32; %{n} + %{n}") for n in "xy")
    assert structural_equal(a, a) and not structural_equal(a, b) and structural_equal(a, b, map_free_vars=True)
    typed = relay.transform.InferType()(relay.IRModule.from_expr(a))["main"].body
    assert typed is not a and structural_equal(a, typed) and not structural_equal(b, typed)
    c = parse_expr("free_var %x: int32; free_var %y: int32; %x + %y")
    assert not structural_equal(a, c, map_free_vars=True)


def test_order_of_functions_does_not_count() -> None:
    a, b = "def @a() { 1 }\n", "def @b() { @a() }\n"
    assert structural_equal(parse(HEADER + a + b), parse(HEADER + b + a))
    assert not structural_equal(parse(HEADER + a), parse(HEADER + a + b))


def test_types() -> None:
    a, b, f = relay.TypeVar("A"), relay.TypeVar("B"), relay.FuncType
    pairs = relay.GlobalTypeVar("Pairs")
    assert relay.structural_equal(relay.TensorType((2, relay.Any())), relay.TensorType((2, relay.Any())))
    assert relay.structural_equal(relay.TupleType([a]), relay.TupleType([a]))
    assert not relay.structural_equal(a, b) and relay.structural_equal(a, b, map_free_vars=True)
    assert not relay.structural_equal(f([a], b), f([b], a)) and relay.structural_equal(f([a], b), f([b], a), True)
    assert not relay.structural_equal(f([a], b), f([a], a), True) and not relay.structural_equal(pairs, pairs())
    assert not relay.structural_equal(relay.scalar_type("float32"), relay.const(1.0))
    for value in (a, f([a], b), pairs(), relay.op.get("add"), relay.const(1)):
        assert relay.structural_hash(value) == relay.structural_hash(value, map_free_vars=True)
    assert relay.structural_hash(f([a], b)) == relay.structural_hash(f([b], a)) != relay.structural_hash(f([a], a))
    with pytest.raises(relay.ArgumentError, match="is `float32` on the left, `int32` on the right"):
        relay.assert_structural_equal(relay.scalar_type("float32"), relay.scalar_type("int32"))


def test_definitions_of_types() -> None:
    """A definition without constructors is that of an extern type."""
    header, a = relay.GlobalTypeVar("T"), relay.TypeVar("A")
    mod = relay.IRModule()
    mod[header] = relay.TypeData(header, [a], [])
    text = HEADER + "extern type T[A]\n"
    assert mod.astext() == text and relay.structural_equal(relay.parse(text), mod)
    assert relay.structural_equal(relay.parse(text)[header], mod[header]) and relay.structural_equal(
        relay.parse(HEADER + "type T[A] {}"), mod
    )
    assert not relay.structural_equal(mod[header], relay.TypeData(header, [a], [relay.Constructor("One", [a], header)]))
