"""Types, where a before/after pair cannot show them."""

from __future__ import annotations

import pytest

import relayvm.ops  # noqa: F401  declares the operators
from relayvm.compiler.ir.expr import IRModule
from relayvm.compiler.ir.well_formed import MAX_NESTING, check
from relayvm.compiler.passes.infer_type import infer_type
from relayvm.compiler.passes.lambda_lift import lambda_lift
from relayvm.compiler.passes.to_a_normal_form import to_a_normal_form
from relayvm.compiler.text.parser import parse
from relayvm.compiler.text.printer import astext
from relayvm.ops.core.tensor_types import FuncType, TensorType, TupleType
from relayvm.vm.diagnostics.source import TypeCheckError

from ...programs import HEADER


def _typed(text: str) -> IRModule:
    mod = infer_type(to_a_normal_form(parse(HEADER + text)))
    check(mod, "infer_type", typed=True)
    return mod


def _result(text: str) -> str:
    return str(_typed(text)["main"].body.ty)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        # a named size stays, through functions too
        (
            "def @main(%x: Tensor[(?n, 4), float32]) { @f(%x) } def @f(%y: Tensor[(?m, ?), float32]) { transpose(%y) }",
            "Tensor[(4, ?n), float32]",
        ),
        # dims that the callee makes are not those of another call
        (
            "def @main(%x: Tensor[(?n), float32]) { (@f(%x), @f(%x)) } def @f(%y: Tensor[(?), float32]) { argwhere(%y) }",
            "(Tensor[(?, 1), int32], Tensor[(?, 1), int32])",
        ),
        # constants
        ("def @main(%x: Tensor[(6), float32]) { reshape(%x, newshape=[2, -1]) }", "Tensor[(2, 3), float32]"),
        ('def @main() { arange(0, 5, 2, dtype="int32") }', "Tensor[(3), int32]"),
        ('def @main() { let %n: int32 = 5; arange(0, %n, 2, dtype="int32") }', "Tensor[(3), int32]"),
        ('def @main() { let %t = (5, 1); arange(0, %t.0, %t.1, dtype="int32") }', "Tensor[(5), int32]"),
        # an if keeps what is equal
        (
            "def @main(%c: bool, %x: Tensor[(?n, 4), float32], %y: Tensor[(3, 4), float32]) { if (%c) { %x } else { %y } }",
            "Tensor[(?, 4), float32]",
        ),
        # recursion without ->: the rows are not known, the columns are
        (
            "def @main(%i: int32, %x: Tensor[(?, 4), float32]) "
            "{ if (%i < 3) { concatenate((%x, @main(%i + 1, %x)), axis=0) } else { %x } }",
            "Tensor[(?, 4), float32]",
        ),
        ("def @main(%i: int32) { if (%i < 3) { @g(%i) } else { 1f } } def @g(%i: int32) { @main(%i + 1) }", "float32"),
        # closures
        (
            "def @main(%x: Tensor[(?n), float32]) { let %f = fn (%y: Tensor[(?n), float32]) { (%y, %x) }; %f(exp(%x)) }",
            "(Tensor[(?n), float32], Tensor[(?n), float32])",
        ),
        (
            "def @main(%x: Tensor[(?n, 4), float32]) { @id(fn (%y: Tensor[(?, 4), float32]) { add(%y, 1f) })(%x) } "
            "def @id(%f: fn (Tensor[(?k, 4), float32]) -> Tensor[(?k, 4), float32]) { %f }",
            "Tensor[(?n, 4), float32]",
        ),
    ],
)
def test_result(text: str, result: str) -> None:
    assert _result(text) == result


def test_equal_sizes_are_one_dim_and_others_are_not() -> None:
    mod = _typed("def @main(%x: Tensor[(?, 4), float32], %y: Tensor[(?, 4), float32]) { (exp(%x), tanh(%x), exp(%y)) }")
    ty = mod["main"].body.ty
    assert isinstance(ty, TupleType)
    a, b, c = (t.shape[0] for t in ty.fields if isinstance(t, TensorType))
    assert a is b and a is not c


def test_the_size_name_of_a_closure_is_its_own() -> None:
    """``?n`` of the closure is not ``?n`` of the function around it: its argument may have any length."""
    text = """
    def @main(%x: Tensor[(?n), float32], %z: Tensor[(?), float32]) {
      let %f = fn (%y: Tensor[(?n), float32]) { add(%y, %x) };
      %f(%z)
    }"""
    mod = _typed(text)
    assert str(mod["main"].body.ty) == "Tensor[(?), float32]"
    lifted = infer_type(parse(astext(lambda_lift(mod))))
    params = lifted["main_f"].ty
    assert isinstance(params, FuncType)
    x, y = params.params
    assert isinstance(x, TensorType) and isinstance(y, TensorType) and x.shape[0] is not y.shape[0]


def _nested(depth: int) -> str:
    return f"def @main(%x: float32, %c: bool) {{ {'if (%c) { %x } else { ' * depth} exp(%x) {'}' * depth} }}"


def test_nesting_has_a_limit_that_is_said() -> None:
    assert _result(_nested(MAX_NESTING)) == "float32"
    with pytest.raises(TypeCheckError, match=f"nested {MAX_NESTING + 1} deep in @main; at most {MAX_NESTING} is supported"):
        _typed(_nested(MAX_NESTING + 1))


def test_a_value_of_the_result_checks_the_callers_sizes_only_once() -> None:
    """A checked size is known afterwards: typing again adds no check."""
    mod = _typed(
        "def @main(%x: Tensor[(?, ?), float32], %y: Tensor[(?), float32]) { @f(%x, %y) }"
        "def @f(%a: Tensor[(?n, 4), float32], %b: Tensor[(?n), float32]) { %a }"
    )
    text = astext(mod)
    assert astext(infer_type(mod)) == text
    assert astext(infer_type(parse(text))) == text
