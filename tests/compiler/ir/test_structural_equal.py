"""Alpha-equivalence: relevant and irrelevant differences."""

from __future__ import annotations

import pytest

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
    c = parse_expr("free_var %x: int32; free_var %y: int32; %x + %y")
    assert not structural_equal(a, c, map_free_vars=True)


def test_order_of_functions_does_not_count() -> None:
    a, b = "def @a() { 1 }\n", "def @b() { @a() }\n"
    assert structural_equal(parse(HEADER + a + b), parse(HEADER + b + a))
    assert not structural_equal(parse(HEADER + a), parse(HEADER + a + b))
