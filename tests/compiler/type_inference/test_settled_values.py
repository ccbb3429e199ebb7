"""Inference that keeps the types of values that a pass has not changed gives the types of inference from the start."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

import relayvm as relay
from relayvm.compiler.ir.anf import nested_bindings
from relayvm.compiler.ir.expr import Call, Constant, Expr, IRModule, Var, let_chain, make_lets, replace
from relayvm.compiler.passes.expand_composites import expand_composites
from relayvm.compiler.passes.infer_type import infer_sizes, retyped
from relayvm.compiler.passes.to_a_normal_form import to_a_normal_form

from ..passes.generated_programs import programs

HEADER = '#[version = "0.0.5"]\n'


def _typed(text: str) -> IRModule:
    return infer_sizes(to_a_normal_form(relay.parse(HEADER + text)))


def _types(mod: IRModule) -> list[str]:
    return [f"{value.ty} {var.ty}" for var, value in nested_bindings(mod["main"].body)]


def _with_value(mod: IRModule, name: str, value: Expr, as_operand: bool = False) -> IRModule:
    """The module with a value in the place of that of ``%name``, or a variable bound to it as the operand of that."""
    bindings, result = let_chain(mod["main"].body)
    out: list[tuple[Var, Expr]] = []
    for var, old in bindings:
        new = value if var.name == name else old
        if var.name == name and as_operand:
            assert isinstance(old, Call)
            out.append((Var("operand"), value))
            new = replace(old, args=(out[-1][0],))
        out.append((var, new))
    return replace(mod, functions={"main": replace(mod["main"], body=make_lets(out, result))})


@settings(max_examples=60)
@given(programs(20))
def test_types_are_those_of_inference_from_the_start(text: str) -> None:
    expanded = expand_composites(_typed(text))
    assert _types(expanded) == _types(infer_sizes(expanded))


def test_other_values_are_the_same_objects() -> None:
    mod = _typed("def @main(%x: Tensor[(?n, 4), float32]) { let %a = exp(%x); let %b = nn.softmax(%a); tanh(%b) }")
    first, *_, last = (value for _, value in nested_bindings(expand_composites(mod)["main"].body))
    before = [value for _, value in nested_bindings(mod["main"].body)]
    assert first is before[0] and last is before[-1] and len(before) == 3


def test_a_call_with_another_operand_is_typed_anew() -> None:
    mod = _typed("def @main(%x: Tensor[(?n, 4), float32]) { let %a = exp(%x); let %b = tanh(%a); tanh(%b) }")
    cast = relay.cast(mod["main"].params[0], "float16")
    found = retyped(_with_value(mod, "a", cast, as_operand=True), mod)
    assert {str(value.ty) for _, value in nested_bindings(found["main"].body)} == {"Tensor[(?n, 4), float16]"}


def test_a_call_whose_shape_depends_on_elements_is_typed_anew() -> None:
    mod = _typed("def @main(%x: Tensor[(6), float32], %s: Tensor[(2), int64]) { let %t = add(%s, %s); dyn.reshape(%x, %t) }")
    found = retyped(_with_value(mod, "t", Constant(np.array([2, 3]))), mod)
    assert "2, 3" not in str(mod["main"].body.ty) and str(found["main"].body.ty) == "Tensor[(2, 3), float32]"
