"""The meaning of a text."""

from __future__ import annotations

import numpy as np
import pytest

from relayvm.compiler.ir.expr import Call, Constant, Function, GlobalVar, If, Let, Tuple, TupleGetItem, Var, let_chain
from relayvm.compiler.ir.structural_equal import structural_equal
from relayvm.compiler.text.infix import MINUS, SIGNS
from relayvm.compiler.text.parser import parse, parse_expr
from relayvm.compiler.text.printer import astext
from relayvm.ops.core import op
from relayvm.ops.core.tensor_types import DTYPES, FuncType, TensorType, TupleType, is_float, numpy_dtype, scalar
from relayvm.shape_funcs.symbolic.dim import ANY, sym
from relayvm.vm.diagnostics.source import ParseError

from ...programs import HEADER


def test_a_program() -> None:
    module = parse(
        HEADER
        + """
        /* a comment /* in a comment */ "and a quote */
        def @main(%x: Tensor[(?n, 4), float32], %c: bool) -> Tensor[(?, 4), float32] {
          let %y: Tensor[(?, 4), float32] = %x + 1f;  // a let
          %0 = exp(%y);
          if (%c) { %0 * %0 } else { @main(%y, True) }
        }
        """
    )
    main = module["main"]
    assert [p.name for p in main.params] == ["x", "c"]
    assert main.params[0].annotation == TensorType.of((sym("n"), 4)) and main.ret_type == TensorType.of((ANY, 4))
    (((var, value),), result) = let_chain(main.body)
    assert var.annotation == TensorType.of((ANY, 4)) and isinstance(value, Call) and value.op is op.get("add")
    assert isinstance(result, If) and isinstance(result.true_branch, Call) and isinstance(result.false_branch, Call)
    first, second = result.true_branch.args
    assert first is second and isinstance(first, Call) and first.args == (var,)
    assert isinstance(result.false_branch.op, GlobalVar) and result.false_branch.op.name == "main"


@pytest.mark.parametrize(
    ("text", "dtype", "value"),
    [
        ("5", "int32", 5), ("-5", "int32", -5), ("- 5", "int32", -5), ("--5", "int32", 5), ("---5f", "float32", -5),
        ("- --5", "int32", -5), ("42i", "int32", 42), ("3bf", "bfloat16", 3), ("7u", "uint32", 7), ("7u32", "uint32", 7),
        ("2147483648", "int64", 2**31),
        ("-2147483648", "int32", -(2**31)), ("2i64", "int64", 2), ("255u8", "uint8", 255), ("-128i8", "int8", -128),
        ("1f", "float32", 1), ("1.5f", "float32", 1.5), ("1e-3f64", "float64", 1e-3), ("2.f", "float32", 2),
        ("1f32", "float32", 1),
        ("inff", "float32", np.inf), ("-inff64", "float64", -np.inf), ("True", "bool", True), ("False", "bool", False),
    ],
)  # fmt: skip
def test_literals(text: str, dtype: str, value: float) -> None:
    expr = parse_expr(text)
    assert isinstance(expr, Constant) and expr.data.shape == ()
    assert expr.data.dtype.name == dtype and expr.data[()] == np.array(value, numpy_dtype(dtype))


def test_an_operators_name_alone_is_the_operator() -> None:
    for name in ("add", "nn.dense", "one_hot"):
        assert parse_expr(name) is op.get(name) and parse_expr(astext(op.get(name))) is op.get(name)
        assert structural_equal(parse_expr(f"/* {name} */ {name}"), op.get(name))
    assert not structural_equal(op.get("add"), op.get("subtract"))


@pytest.mark.parametrize("text", ["65505f16", "-65520f16", "3.40282347e39f", "3.5e38bf", "1.8e308f64"])
def test_a_number_beyond_the_largest_is_refused(text: str) -> None:
    with pytest.raises(ParseError, match="is out of range"):
        parse_expr(text)


@pytest.mark.parametrize("dtype", [d for d in DTYPES if is_float(d)])
def test_the_largest_number_is_read(dtype: str) -> None:
    largest = np.nextafter(numpy_dtype(dtype).type(np.inf), numpy_dtype(dtype).type(0))
    for value in (largest, -largest, np.nextafter(largest, largest / 2)):
        expr = Constant(np.array(value))
        assert structural_equal(parse_expr(astext(expr)), expr) and "meta" not in astext(expr)


def test_minus_before_a_value() -> None:
    expr = parse_expr("free_var %x; --%x")
    assert isinstance(expr, Call) and expr.op is MINUS.op and isinstance(expr.args[0], Call) and expr.args[0].op is MINUS.op


@pytest.mark.parametrize("sign", SIGNS.values(), ids=lambda s: s.op_name)
def test_signs(sign: object) -> None:
    expr = parse_expr(f"1 {sign.text} 2")  # type: ignore[attr-defined]
    assert isinstance(expr, Call) and expr.op is sign.op  # type: ignore[attr-defined]
    close = "1%(2)" if sign.text == "%" else f"1{sign.text}2"  # type: ignore[attr-defined]
    assert structural_equal(expr, parse_expr(close))


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("1 + 2 * 3", "add(1, multiply(2, 3))"),
        ("1 - 2 - 3", "subtract(subtract(1, 2), 3)"),
        ("1 / 2 * 3", "multiply(divide(1, 2), 3)"),
        ("1 + 2 < 3 * 4", "less(add(1, 2), multiply(3, 4))"),
        ("1 < 2 == True", "equal(less(1, 2), True)"),
        ("(1 + 2) * 3", "multiply(add(1, 2), 3)"),
        ("1 -1", "subtract(1, 1)"),
        ("-(1 + 2)", "negative(add(1, 2))"),
        ("fn (%x) { -%x.0 }", "fn (%x) { negative((%x).0) }"),
        ("fn (%a, %b) { %a/%b }", "fn (%a, %b) { divide(%a, %b) }"),
        ("(1, (2, 3),).1.0", "(((1, (2, 3))).1).0"),
        ("@f(1)(2)", "(@f(1))(2)"),
        ("1; 2", "let %_ = 1; 2"),
        ("sum(1f, axis=(0, 1))", "sum(1f, axis=[0, 1],)"),
        ("cast(1, dtype=float32)", 'cast(1, dtype="float32")'),
        ("sum(1f, axis=None)", "sum(1f)"),
        ("clip(1f, a_min=-1, a_max=1e3f)", "clip(1f, a_min=-1.0, a_max=1000)"),
        ("clip(1f, a_min=--1, a_max=---3)", "clip(1f, a_min=1.0, a_max=-3.0)"),
        ("sum(1f, axis=nullptr)", "sum(1f)"),
        ("cast(1, dtype=float)", 'cast(1, dtype="float32")'),
        ('cast(1, dtype="uint")', 'cast(1, dtype="uint32")'),
        ("1 % 2 * 3", "multiply(floor_mod(1, 2), 3)"),
        ("fn (%a, %b) { %a%%b }", "fn (%a, %b) { floor_mod(%a, %b) }"),
        ("(add, exp)", "(fn (%lhs, %rhs) { add(%lhs, %rhs) }, fn (%data) { exp(%data) })"),
        ("(let %a = 1; 3) + 2", "add({ let %a = 1; 3 }, 2)"),
        ("(1; ((%0 = 2; 3; %0), 4))", "{ 1; ({ %0 = 2; 3; %0 }, 4) }"),
        ("match 1 { %a => %a }", "match (1) { %a => %a }"),
        ("match (1, 2).0 { %a => %a }", "match ((1, 2).0) { %a => %a }"),
        ("match? (1, 2) { (%a, _) => %a }", "match? ((1, 2)) { (%a, _) => %a }"),
        ("let %f = concatenate; %f((1, 2))", "let %f = fn (%data) { concatenate(%data) }; %f((1, 2))"),
        ("@map(exp, 1f)", "@map(fn (%data) { exp(%data) }, 1f)"),
        ("@f(1, b.c=[2], a=3)", "@f(1, a=3, b.c=[2])"),
    ],
)
def test_meaning(text: str, meaning: str) -> None:
    assert structural_equal(parse_expr(text), parse_expr(meaning))


@pytest.mark.parametrize(
    ("text", "ty"),
    [
        ("Tensor[(), float32]", scalar("float32")),
        ("int8", scalar("int8")),
        ("Tensor[(5), float32]", TensorType.of((5,))),
        ("Tensor[(0, 1,), uint64]", TensorType.of((0, 1), "uint64")),
        ("()", TupleType(())),
        ("(bool,)", TupleType((scalar("bool"),))),
        ("(bool)", scalar("bool")),
        ("(int8, (int8, bool))", TupleType((scalar("int8"), TupleType((scalar("int8"), scalar("bool")))))),
        ("fn (int8, bool) -> int8", FuncType((scalar("int8"), scalar("bool")), scalar("int8"))),
        ("fn () -> ()", FuncType((), TupleType(()))),
        ("_", None),
        ("int", scalar("int32")),
        ("uint", scalar("uint32")),
        ("float", scalar("float32")),
        ("bool", scalar("bool")),
        ("bfloat", scalar("bfloat16")),
        ("Tensor[(2), float]", TensorType.of((2,), "float32")),
    ],
)
def test_types(text: str, ty: object) -> None:
    function = parse_expr(f"fn (%x: {text}) {{ %x }}")
    assert isinstance(function, Function) and function.params[0].annotation == ty


def test_scopes_and_recursion() -> None:
    expr = parse_expr("let %f = fn (%x) { %f(%x) }; let %f = %f(1); %f")
    assert isinstance(expr, Let) and isinstance(expr.value, Function) and isinstance(expr.body, Let)
    inner = expr.value.body
    assert isinstance(inner, Call) and inner.op is expr.var
    assert isinstance(expr.body.value, Call) and expr.body.value.op is expr.var and expr.body.body is expr.body.var


def test_spans() -> None:
    module = parse(HEADER + "def @main(%x: int32) {\n  %x + 12\n}")
    body = module["main"].body
    assert body.span is not None and body.span.place == "<string>:3:3"
    assert module.source is not None and module.source.text[body.span.start : body.span.end] == "%x + 12"


def test_constants_of_the_metadata() -> None:
    text = (
        HEADER + "def @main() { (meta[relay.Constant][0], meta[relay.Constant][1], meta[relay.Constant][0]) }\n"
        '#[metadata]\n{"relay.Constant": [{"dtype": "uint8", "shape": [2, 1], "data": "//8="},'
        ' {"dtype": "float32", "shape": [0], "data": ""}]}'
    )
    fields = parse(text)["main"].body
    assert isinstance(fields, Tuple) and fields.fields[0] is fields.fields[2]
    data = [c.data for c in fields.fields if isinstance(c, Constant)]
    assert data[0].tolist() == [[255], [255]] and data[0].dtype == np.uint8 and data[1].shape == (0,)


def test_projection_and_names_with_dots_and_slashes() -> None:
    function = parse_expr("fn (%layer.weight, %tf/x) { (%layer.weight.0, %tf/x) }")
    assert isinstance(function, Function) and isinstance(function.body, Tuple)
    first, second = function.body.fields
    assert isinstance(first, TupleGetItem) and isinstance(first.tuple_value, Var) and first.tuple_value.name == "layer.weight"
    assert second is function.params[1]


@pytest.mark.parametrize("name", ["encoder.layer.0.weight", "0.weight", "12.0.bias", "a.1.2.b", "a/0.1.b"])
def test_numbers_are_parts_of_the_names_of_weights(name: str) -> None:
    function = parse_expr(f"fn (%{name}, %y) {{ (%{name}.0, %{name}.1.2, %y.3.4, %{name}) }}")
    assert isinstance(function, Function) and [param.name for param in function.params] == [name, "y"]
    assert isinstance(function.body, Tuple)
    first, second, third, last = function.body.fields
    assert isinstance(first, TupleGetItem) and first.tuple_value is last is function.params[0] and first.index == 0
    for field, param, indices in ((second, function.params[0], (1, 2)), (third, function.params[1], (3, 4))):
        assert isinstance(field, TupleGetItem) and isinstance(field.tuple_value, TupleGetItem)
        assert (field.tuple_value.index, field.index) == indices and field.tuple_value.tuple_value is param
    assert structural_equal(parse_expr(str(function)), function) and str(function).count(f"%{name}") == 4


@pytest.mark.parametrize("name", ["/x", "a/0/b.c/1", "conv2d/2", "a.b/c", "_0"])
def test_slashes_in_names(name: str) -> None:
    function = parse_expr(f"fn (%{name}, {name.lstrip('/')}=1) {{ @{name}(%{name}) }}")
    assert isinstance(function, Function) and function.params[0].name == name and function.attrs == {name.lstrip("/"): 1}
    assert isinstance(function.body, Call) and isinstance(function.body.op, GlobalVar) and function.body.op.name == name
    assert str(function).count(f"%{name}") == 2


def test_attributes_of_calls_of_functions() -> None:
    call = parse_expr('@f(1, a=1, b.c="q", d=[1, [2f]])')
    assert isinstance(call, Call) and call.attrs == {"a": 1, "b.c": "q", "d": (1, (2.0,))}
    assert not structural_equal(call, parse_expr("@f(1, a=1)"))


def test_metadata_in_attributes_and_dims() -> None:
    text = (
        HEADER + "def @main(%x: Tensor[(meta[relay.Constant][1], 4), float32]) {\n"
        "  reshape(%x, newshape=meta[relay.Constant][0])\n}\n"
        '#[metadata]\n{"relay.Constant": [{"dtype": "int32", "shape": [2], "data": "BAAAAAIAAAA="},'
        ' {"dtype": "int64", "shape": [], "data": "AgAAAAAAAAA="}]}'
    )
    main = parse(text)["main"]
    assert main.params[0].annotation == TensorType.of((2, 4))
    assert isinstance(main.body, Call) and main.body.attrs.newshape == (4, 2)
