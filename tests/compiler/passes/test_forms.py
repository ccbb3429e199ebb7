"""Graph normal form, basic block normal form, inlining, places in the module's text: the law is the same result, and text that
parses back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relayvm as relay
from relayvm.compiler.ir.expr import Function, IRModule, Let
from relayvm.compiler.ir.structural_equal import structural_equal
from relayvm.compiler.ir.visitor import post_order
from relayvm.compiler.passes.infer_type import infer_type
from relayvm.compiler.passes.to_a_normal_form import to_a_normal_form

from ...programs import HEADER
from .generated_programs import arguments, programs, run, same, typed

transform = relay.transform
FORMS = ("ToGraphNormalForm", "ToBasicBlockNormalForm", "Inline", "AnnotateSpans")


def lets(mod: IRModule, name: str = "main") -> list[str]:
    return [node.var.name for node in post_order(mod[name]) if isinstance(node, Let)]


def normal(mod: IRModule) -> IRModule:
    return infer_type(to_a_normal_form(mod))


@pytest.mark.parametrize("name", FORMS)
@settings(max_examples=30)
@given(programs(), st.integers(0, 3), st.integers(0, 9))
def test_the_result_is_the_same_and_the_text_parses_back(name: str, text: str, rows: int, seed: int) -> None:
    mod, given_ = typed(text), arguments(rows, seed)
    out = getattr(transform, name)()(mod)
    assert same(run(normal(out), *given_), run(mod, *given_))
    again = relay.parse(out.astext())
    assert structural_equal(again, out) and again.astext() == out.astext()


@settings(max_examples=30)
@given(programs(), st.integers(0, 3), st.integers(0, 9))
def test_an_inlined_program_has_the_result_of_the_program(text: str, rows: int, seed: int) -> None:
    mod, given_ = typed(text), arguments(rows, seed)
    inner = mod["main"]
    params = tuple(relay.Var(p.name, p.type_annotation) for p in inner.params)
    call = relay.Call(relay.GlobalVar("inner"), params)
    both = IRModule({"inner": inner.with_attr("Inline", 1), "main": Function(params, call)})
    out = transform.Sequential([transform.Inline(), transform.RemoveUnusedFunctions()])(both)
    assert list(out.functions) == ["main"]
    assert same(run(out, *given_), run(mod, *given_))


BLOCKS = """def @main(%x: Tensor[(3), float32], %c: bool) {
  let %a = exp(%x);
  let %dead = tanh(%a);
  let %y = if (%c) {
    let %b = add(%a, %a);
    let %f = if (%c) { negative(%b) } else { let %s = abs(%x); add(%s, %s) };
    %f
  } else { %x };
  let %z = add(%y, %y);
  (%z, %a)
}"""


def test_lets_of_the_two_forms() -> None:
    mod = relay.parse(HEADER + BLOCKS)
    assert lets(transform.ToGraphNormalForm()(mod)) == []
    # %a and %b are used in blocks inside of theirs
    assert sorted(lets(transform.ToBasicBlockNormalForm()(mod))) == ["a", "b"]


def test_lets_that_stay() -> None:
    text = """
    def @down(%k: int64) -> int64 { if (less(%k, 1i64)) { %k } else { @down(subtract(%k, 1i64)) } }
    def @main(%k: int64) {
      let %unused = @down(%k);
      let %f = fn (%i: int64) -> int64 { if (less(%i, 1i64)) { %i } else { %f(subtract(%i, 1i64)) } };
      let %g = fn (%i: int64) { negative(%i) };
      negative(%g(%f(%k)))
    }"""
    found = lets(transform.ToBasicBlockNormalForm()(relay.parse(HEADER + text)))
    assert {"unused", "f"} < set(found) and "g" not in found


@pytest.mark.parametrize("name", ["ToBasicBlockNormalForm", "DeadCodeElimination", "ToGraphNormalForm", "DynamicToStatic"])
def test_writes_of_references_stay_in_order(name: str) -> None:
    text = """def @main(%x: Tensor[(?n), float32]) {
      let %r = ref(%x);
      ref_write(%r, add(%x, %x));
      let %a = ref_read(%r);
      ref_write(%r, exp(%x));
      (%a, ref_read(%r), %x)
    }"""
    out = getattr(transform, name)()(relay.parse(HEADER + text))
    x = np.arange(3, dtype=np.float32)
    results = relay.VirtualMachine(relay.compile(out)).run(x)
    for found, expected in zip(results, (x + x, np.exp(x), x), strict=True):
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


@pytest.mark.lengthy
def test_a_chain_of_thousands_of_lets() -> None:
    lines = "".join(f"let %v{n + 1} = add(%v{n}, %v{n});" for n in range(3_000))
    mod = relay.parse(f"{HEADER}def @main(%v0: float32) {{ {lines} %v3000 }}")
    for name in ("ToGraphNormalForm", "ToBasicBlockNormalForm"):
        out = getattr(transform, name)()(mod)
        assert lets(out) == [] and len(post_order(out["main"].body)) == 3_001


@pytest.mark.parametrize("name", FORMS)
def test_closures_and_functions_run(name: str) -> None:
    text = """
    def @scale(%v: Tensor[(?n), float32], %by: float32, Inline=1) -> Tensor[(?n), float32] {
      let %f = fn (%q: Tensor[(?n), float32]) { multiply(%q, %by) };
      add(%f(%v), %v)
    }
    def @main(%x: Tensor[(?n), float32]) { @scale(@scale(%x, 2f), 3f) }"""
    out = getattr(transform, name)()(relay.parse(HEADER + text))
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(relay.VirtualMachine(relay.compile(out)).run(x).numpy(), x * 12)
