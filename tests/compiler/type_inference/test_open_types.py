"""Types that nothing in a program determines, and parameters whose types the calls of their function determine."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as relay

from ...programs import HEADER

TYPES = """
type List[A] { Cons(A, List[A]), Nil }
type Option[A] { Some(A), None }
def @id[A](%x: A) -> A { %x }
def @fold[A, B](%f: fn(A, B) -> A, %z: A, %l: List[B]) -> A {
  match (%l) { Cons(%x, %t) => @fold(%f, %f(%z, %x), %t), Nil => %z }
}
def @head[A](%l: List[A]) -> A { match? (%l) { Cons(%x, _) => %x } }
"""
HELP = "annotate the value that leaves it open: let %v: List[int32] = ..."


def lowered(text: str) -> relay.IRModule:
    return relay.transform.InferType()(relay.parse(HEADER + TYPES + text))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("let %v = Nil; match (%v) { Cons(%x, _) => equal(%x, %x), Nil => True }", "the type of %x is not determined"),
        ("let %v = None; match (%v) { Some((%x, _)) => %x + 1, None => 1 }", "the type of %x is not determined"),
        ("let %v = None; match (%v) { Some(%x) => %x.0, None => 1 }", "the type of %x is not determined"),
        ("let %v = None; match (%v) { Some(%x) => if (%x) { 1 } else { 2 }, None => 1 }", "the type of %x is not determined"),
        ("let %v = ref(Nil); match (ref_read(%v)) { Cons(%x, _) => exp(%x), Nil => 1f }", "the type of %x is not determined"),
        ("exp(@head(Nil))", "the type of this value is not determined"),
    ],
)
def test_a_program_that_computes_with_an_open_type_is_a_mistake(body: str, message: str) -> None:
    with pytest.raises(relay.TypeCheckError) as error:
        lowered(f"def @main() {{ {body} }}")
    (diagnostic,) = error.value.diagnostics
    assert (diagnostic.message, diagnostic.help) == (message, HELP)


@pytest.mark.parametrize(
    "body",
    ["Nil", "match (None) { Some(_) => 1, None => 2 }", 'let %v: List[int32] = Nil; exp(cast(@head(%v), dtype="float32"))'],
)
def test_an_open_type_that_nothing_needs_is_none(body: str) -> None:
    lowered(f"def @main() {{ {body} }}")


@pytest.mark.parametrize("body", ["Some(%z)", "@fold(fn (%a, %x) { %a }, %z, Cons(1, Nil))", "@fold(fn (%a, %x) { %a }, 1, %z)"])
def test_a_parameter_with_an_open_type_is_a_mistake(body: str) -> None:
    with pytest.raises(relay.TypeCheckError, match="parameter %z of @main has no type"):
        lowered(f"def @main(%z) {{ {body} }}")


def test_another_mistake_is_reported_instead() -> None:
    with pytest.raises(relay.TypeCheckError) as error:
        lowered("def @main() { let %x = add(1, 2f); match (Cons(%x, Nil)) { Cons(%y, _) => exp(%y), Nil => 1f } }")
    (diagnostic,) = error.value.diagnostics
    assert "lhs is int32 but rhs is float32" in diagnostic.message


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("def @f(%x) { Some(%x) }\ndef @main(%y: int32) { @f(%y) }", "Option[int32]"),
        ("def @main(%y: int32) { @g(%y) }\ndef @f(%x) { @id(%x) }\ndef @g(%x) { @f(%x) }", "int32"),
        ("def @f(%z) { @fold(fn (%a, %x) { Cons(%x, %a) }, %z, Cons(1, Nil)) }\ndef @main() { @f(Nil) }", "List[int32]"),
        ("def @g[A, B](%f: fn(A, B) -> A, %z, %l: List[B]) -> A {"
         " match (%l) { Cons(%x, %t) => @g(%f, %f(%z, %x), %t), Nil => %z } }\n"
         "def @main() { @g(fn (%a, %x: int32) { Cons(%x, %a) }, Nil, Nil) }", "List[int32]"),
        ("def @f(%x, %y) { (Some(%x), exp(%y)) }\ndef @main(%y: float32) { @f(%y, %y) }", "(Option[float32], float32)"),
        ("def @f(%x) { Cons(%x, Nil) }\ndef @main(%x: Tensor[(2), bool], %y: Tensor[(3), bool]) { (@f(%x), @f(%y)) }",
         "(List[Tensor[(?), bool]], List[Tensor[(?), bool]])"),
    ],
)  # fmt: skip
def test_calls_determine_the_parameters_of_a_function(text: str, wanted: str) -> None:
    result = lowered(text)["main"].checked_type
    assert str(result).partition(" -> ")[2] == wanted


def test_a_function_without_types_runs() -> None:
    text = "def @f(%x) { let %l = Cons(%x, Cons(%x, Nil)); @fold(fn (%a, %y) { %a + %y }, %x, %l) }"
    vm = relay.VirtualMachine(relay.compile(HEADER + TYPES + text + "\ndef @main(%y: int32) { @f(%y) }"))
    assert vm.run(np.int32(5)).numpy() == 15
