"""The printed text parses back; it is a fixed point; deep programs need no stack."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relayvm as relay
from relayvm.compiler.ir.expr import (
    Call,
    Constant,
    Expr,
    Function,
    If,
    IRModule,
    Let,
    Tuple,
    TupleGetItem,
    Var,
    make_lets,
)
from relayvm.compiler.ir.structural_equal import structural_equal, structural_hash
from relayvm.compiler.text.literals import literal_text, read_literal
from relayvm.compiler.text.parser import parse, parse_expr
from relayvm.compiler.text.printer import astext
from relayvm.ops.core import op
from relayvm.ops.core.tensor_types import DTYPES, TensorType, numpy_dtype, scalar
from relayvm.vm.diagnostics.source import ArgumentError, ParseError

from ..ir.random_modules import constants, expressions, modules, variables

DEPTH = 4_000


def unary(x: Expr, name: str = "exp") -> Call:
    return Call(op.get(name), (x,), op.get(name).attrs())


@given(modules())
@settings(max_examples=150)
def test_round_trip(module: IRModule) -> None:
    text = astext(module)
    again = parse(text)
    assert structural_equal(again, module)
    assert structural_hash(again) == structural_hash(module)
    assert astext(again) == text


@given(st.lists(variables(), max_size=2).flatmap(lambda free: expressions(tuple(free), 6)))
@settings(max_examples=50)
def test_round_trip_of_expressions(expr: Expr) -> None:
    text = astext(expr)
    assert structural_equal(parse_expr(text), expr, map_free_vars=True)
    assert astext(parse_expr(text)) == text


@given(constants())
def test_literals(constant: Constant) -> None:
    if constant.data.ndim == 0 and constant.data.dtype.name != "bool" and (text := literal_text(constant.data)) is not None:
        again = read_literal(text)
        assert (again.dtype, again.tobytes()) == (constant.data.dtype, constant.data.tobytes())


@pytest.mark.parametrize("dtype", DTYPES)
def test_ordinary_scalars_are_literals(dtype: str) -> None:
    for value in (0, 1):
        assert literal_text(np.array(value, numpy_dtype(dtype))) is not None


def test_the_text() -> None:
    x, c = Var("x", TensorType.of((3, 4))), Var("c", scalar("bool"))
    shared = unary(x)
    body = If(c, Tuple((shared, unary(shared, "log"))), Tuple((x, shared)))
    module = IRModule({"main": Function((x, c), TupleGetItem(body, 1), TensorType.of((3, 4)))})
    assert str(module) == (
        '#[version = "0.0.5"]\n'
        "def @main(%x: Tensor[(3, 4), float32], %c: bool) -> Tensor[(3, 4), float32] {\n"
        "  %0 = exp(%x);\n"
        "  %2 = if (%c) {\n"
        "    %1 = log(%0);\n"
        "    (%0, %1)\n"
        "  } else {\n"
        "    (%x, %0)\n"
        "  };\n"
        "  %2.1\n"
        "}\n"
    )


def test_what_both_branches_of_inner_ifs_share_stands_outside() -> None:
    x, c = Var("x"), Var("c", scalar("bool"))
    shared = unary(unary(x))
    inner = If(c, shared, x)
    module = IRModule({"main": Function((x, c), If(c, inner, shared))})
    lines = str(module).splitlines()
    assert lines[2:4] == ["  %0 = exp(%x);", "  %1 = exp(%0);"]
    assert structural_equal(parse(str(module)), module)


def test_names_are_made_unique_and_valid() -> None:
    first, second, third = Var("x"), Var("x"), Var("0 weird!")
    body = make_lets([(first, unary(second)), (third, unary(first))], Tuple((first, second, third)))
    text = str(IRModule({"main": Function((second,), body)}))
    assert "def @main(%x)" in text and "let %x1 = exp(%x);" in text and "let %v0_weird_ = " in text


@settings(max_examples=300)
@given(st.text("a1_./%", max_size=8))
def test_a_name_that_can_be_read_is_kept(name: str) -> None:
    var = Var(name)
    read = parse_expr(str(Function((var,), var)))
    assert isinstance(read, Function) and read.body is read.params[0]
    try:
        alone = parse_expr(f"fn (%{name}) {{ %{name} }}")
    except ParseError:
        return
    if isinstance(alone, Function) and alone.params[0].name == name:
        assert read.params[0].name == name


def test_metadata_can_be_left_out() -> None:
    constant = Constant(np.arange(3, dtype="float32"))
    assert "#[metadata]" in astext(constant)
    assert "#[metadata]" not in astext(constant, show_meta_data=False)
    assert str(constant).endswith("meta[relay.Constant][0]")


def test_types_as_comments() -> None:
    x = Var("x", TensorType.of((2,)), ty=TensorType.of((2,)))
    call = Call(op.get("exp"), (x,), op.get("exp").attrs(), ty=TensorType.of((2,)))
    text = astext(IRModule({"main": Function((x,), call)}), show_types=True)
    assert "exp(%x) /* ty=Tensor[(2), float32] */\n" in text
    assert structural_equal(parse(text), IRModule({"main": Function((x,), call)}))


def test_places_as_comments() -> None:
    mod = parse("""#[version = "0.0.5"]\ndef @main(%x: float32) {\n  exp(%x)\n}""", "exp.relay")
    text = astext(mod, show_spans=True)
    assert "exp(%x) /* span=exp.relay:3:3 */\n" in text and structural_equal(parse(text), mod)
    odd = parse("""#[version = "0.0.5"]\ndef @main(%x: float32) {\n  exp(%x)\n}""", "*/ a /* b")
    assert structural_equal(parse(astext(odd, show_spans=True, show_types=True)), mod)


@pytest.mark.parametrize("form", ["{}", "/* {} */", "  /*{}*/ "])
def test_comments_of_the_user(form: str) -> None:
    mod = IRModule({"main": chain_of_calls(2)})
    text = mod.astext(annotate=lambda expr: form.format(type(expr).__name__ if isinstance(expr, Call) else ""))
    assert text.count(" /* Call */") == 2 and "/*  */" not in text
    assert structural_equal(parse(text), mod)


def test_comments_of_the_user_that_are_none() -> None:
    mod = IRModule({"main": chain_of_calls(1)})
    with pytest.raises(ArgumentError, match="the result of annotate must be the text of a comment, not the int 1"):
        astext(mod, annotate=lambda expr: 1)  # type: ignore[arg-type, return-value]
    with pytest.raises(ArgumentError, match="annotate must be a function of an expression"):
        astext(mod, annotate="x")  # type: ignore[arg-type]


# ---- depth -------------------------------------------------------------------------------------------------------


def chain_of_lets(n: int) -> Expr:
    variables = [Var(f"x{i}") for i in range(n + 1)]
    return Function((variables[0],), make_lets([(b, unary(a)) for a, b in itertools.pairwise(variables)], variables[-1]))


def chain_of_calls(n: int) -> Expr:
    x = expr = Var("x")
    for _ in range(n):
        expr = unary(expr)  # type: ignore[assignment]
    return Function((x,), expr)


def chain_of_diamonds(n: int) -> Expr:
    x = expr = Var("x")
    for _ in range(n):
        expr = Call(op.get("add"), (expr, expr), op.get("add").attrs())  # type: ignore[assignment]
    return Function((x,), expr)


@pytest.mark.lengthy(make=["chain_of_calls"])
@pytest.mark.parametrize("make", [chain_of_lets, chain_of_calls, chain_of_diamonds])
def test_long_programs(make: object) -> None:
    module = IRModule({"main": make(DEPTH)})  # type: ignore[operator]
    text = astext(module)
    again = parse(text)
    assert structural_equal(again, module)
    assert astext(again) == text


@pytest.mark.lengthy
def test_deep_nesting() -> None:
    n = 1000
    x, c = Var("x"), Var("c", scalar("bool"))
    expr: Expr = x
    for _ in range(n):
        expr = If(c, unary(x), Let(Var("y"), unary(x), expr))
    module = IRModule({"main": Function((x, c), expr)})
    assert structural_equal(parse(astext(module)), module)
    depth = DEPTH // 4  # one quarter shows it as well, and reads in a quarter of the time
    parenthesised = parse_expr("free_var %x; " + "(" * depth + "%x" + ",)" * depth)
    assert structural_equal(parse_expr(astext(parenthesised)), parenthesised, map_free_vars=True)
    added = parse_expr("free_var %x; %x" + " + %x" * depth)
    assert structural_equal(parse_expr(astext(added)), added, map_free_vars=True)


@pytest.mark.parametrize("name, attribute", [("qnn.simulated_quantize", "out_dtype"), ("qnn.simulated_dequantize", "in_dtype")])
def test_a_word_among_dtypes_parses_back(name: str, attribute: str) -> None:
    given = "%x: Tensor[(2,), float32], %scale: float32, %zero_point: int32"
    text = f'#[version = "0.0.5"]\ndef @main({given}) {{ {name}(%x, %scale, %zero_point, {attribute}="disable") }}'
    printed = str(parse(text))
    assert f'{attribute}="disable"' in printed
    assert str(parse(printed)) == printed


def test_a_called_function_is_near_its_call() -> None:
    x, y = relay.var("x"), relay.var("y")
    inner = relay.Call(relay.Function([y], y), [relay.const(1)])
    text = relay.Call(relay.Function([x], x), [inner]).astext()
    assert text.partition("\n")[2] == "%0 = fn (%y) {\n  %y\n};\n%1 = %0(1);\n%2 = fn (%x) {\n  %x\n};\n%2(%1)"
    assert relay.parse_expr(text).astext() == text
