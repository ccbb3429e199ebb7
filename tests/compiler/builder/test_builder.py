"""The Python constructors: calls become the IR, and mistakes become clear errors."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any as AnyValue

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.builder.operator_functions import operators
from relayvm.compiler.ir import expr as ir
from relayvm.compiler.ir.structural_equal import structural_equal
from relayvm.compiler.text.attributes import attribute_names
from relayvm.compiler.text.infix import SIGNS
from relayvm.compiler.text.parser import parse_expr
from relayvm.compiler.text.printer import astext
from relayvm.ops.core import op
from relayvm.ops.core.tensor_types import TensorType, scalar
from relayvm.shape_funcs.symbolic.dim import ANY

FREE = "free_var %x: Tensor[(?, 4), float32]; "


def x() -> ir.Var:
    return relay.var("x", shape=(relay.Any(), 4))


def same(expr: ir.Expr, text: str) -> bool:
    return structural_equal(expr, parse_expr(text), map_free_vars=True)


# ---- nodes -------------------------------------------------------------------------------------------------------


def test_var() -> None:
    assert x().annotation == TensorType((ANY, TensorType.of((4,)).shape[0]))
    assert relay.var("%y").annotation is None and relay.var("%y").name == "y"
    assert relay.var("c", type_annotation=scalar("bool")).annotation == scalar("bool")
    assert relay.var("s", ()).annotation == scalar("float32")


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (1, None, "int32"), (2**40, None, "int64"), (1.5, None, "float32"), (True, None, "bool"), ([1, 2], None, "int32"),
        (np.float64(1), None, "float64"), (np.arange(3, dtype="uint8"), None, "uint8"),
        (1, "float64", "float64"), ([], "int64", "int64"),
    ],
)  # fmt: skip
def test_const(value: AnyValue, dtype: str | None, expected: str) -> None:
    constant = relay.const(value, dtype)
    assert constant.data.dtype.name == expected and np.array_equal(constant.data, np.asarray(value))
    assert not constant.data.flags.writeable and constant.data.flags.c_contiguous


def test_a_constant_is_a_copy() -> None:
    data = np.arange(6.0).reshape(2, 3).T
    constant = relay.const(data)
    data[:] = 0
    assert constant.data[2, 1] == 5 and constant.data.flags.c_contiguous


def test_nodes_take_lists() -> None:
    a, b = x(), relay.var("b")
    pair = relay.Tuple([a, b])
    function = relay.Function([a, b], relay.Let(b, pair, relay.TupleGetItem(b, 0)))
    assert pair.fields == (a, b) and function.params == (a, b) and function.attrs == {}
    assert isinstance(pair, relay.Tuple) and isinstance(function, relay.Function) and not isinstance(a, relay.Call)
    call = relay.Call(relay.GlobalVar("f"), [a])
    assert isinstance(call, relay.Call) and call.args == (a,)
    assert isinstance(relay.Call(op.get("exp"), [a]).attrs, op.get("exp").attrs)


def test_from_expr_takes_free_variables_in_order() -> None:
    a, b, c = (relay.var(n, (), "bool") for n in "abc")
    module = relay.IRModule.from_expr(relay.If(b, relay.Let(c, a, c), a))
    assert module["main"].params == (b, a)
    function = relay.Function([a], a)
    assert relay.IRModule.from_expr(function)["main"] is function
    assert list(relay.IRModule({relay.GlobalVar("f"): function, "@g": function}).functions) == ["f", "g"]


# ---- signs -------------------------------------------------------------------------------------------------------


def test_every_sign_builds_its_operator() -> None:
    for sign in SIGNS.values():
        if sign.method is not None:
            call = getattr(x(), f"__{sign.method}__")(x())
            assert call.op is sign.op and len(call.args) == 2


def test_equality_stays_identity() -> None:
    a = x()
    assert (a == a) is True and (a == x()) is False and len({a, x()}) == 2


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda v: v + 1, "%x + 1f"),
        (lambda v: 1 - v * 2.5, "1f - %x * 2.5f"),
        (lambda v: -v / 2, "(-%x) / 2f"),
        (lambda v: (v + v) * 2 < 3, "(%x + %x) * 2f < 3f"),
        (lambda v: 2 >= v, "%x <= 2f"),  # noqa: SIM300
        (lambda v: v + np.float32(1), "%x + 1f"),
        (lambda v: v + np.int64(1), "%x + 1i64"),
    ],
)
def test_numbers_take_the_dtype_beside_them(build: Callable[[ir.Var], ir.Expr], text: str) -> None:
    assert same(build(x()), FREE + text)


def test_a_number_beside_an_unknown_dtype() -> None:
    unknown = relay.Call(relay.GlobalVar("f"), [])
    assert same(unknown + 1, "@f() + 1") and same(unknown + 1.0, "@f() + 1f")
    doubles = relay.var("d", (2,), "float64")
    assert same(operators.exp(doubles) * 0.1, "free_var %d: Tensor[(2), float64]; exp(%d) * 0.1f64")


# ---- operators ---------------------------------------------------------------------------------------------------


def test_operators_are_found_at_their_paths() -> None:
    assert "nn" in dir(operators) and "dense" in dir(operators.nn) and "sum" in dir(operators)
    assert "vm" not in dir(operators) and not any(name.startswith("vm.") for name in dir(operators))
    for name, declared in op.REGISTRY.items():
        if declared.pattern is op.OpPattern.MACHINE:
            continue
        function: AnyValue = operators
        for part in name.split("."):
            function = getattr(function, part)
        parameters = list(inspect.signature(function).parameters)
        if declared.python is None:
            assert parameters == [*(n.rstrip("*") for n in declared.inputs), *attribute_names(declared)]
        elif declared.python.call is None:
            assert sorted(parameters) == sorted([*(n.rstrip("*") for n in declared.inputs), *attribute_names(declared)])
        assert function.__doc__ == declared.doc and function.__qualname__ == name


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda v: operators.sum(v, 0, True), "sum(%x, axis=[0], keepdims=True)"),
        (lambda v: operators.sum(v, axis=[0, -1]), "sum(%x, axis=[0, -1])"),
        (lambda v: operators.sum(v, axis=np.int64(1)), "sum(%x, axis=[1])"),
        (lambda v: operators.sum(data=v), "sum(%x)"),
        (lambda v: operators.concatenate([v, v], axis=1), "concatenate((%x, %x), axis=1)"),
        (lambda v: operators.maximum(v, 0), "maximum(%x, 0f)"),
        (lambda v: operators.nn.dense(v, v), "nn.dense(%x, %x)"),
        (lambda v: operators.reshape(v, (2, -1)), "reshape(%x, newshape=[2, -1])"),
        (lambda v: operators.reshape(v, relay.const([2, -1])), "reshape(%x, newshape=[2, -1])"),
        (lambda v: operators.reshape(v, np.array([2, -1])), "reshape(%x, newshape=[2, -1])"),
        (lambda v: operators.zeros([2], dtype="int8"), "zeros(shape=[2], dtype=\"int8\")"),
    ],
)  # fmt: skip
def test_calls(build: Callable[[ir.Var], ir.Expr], text: str) -> None:
    assert same(build(x()), FREE + text)


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda v, s: operators.reshape(v, s), "dyn.reshape(%x, %s)"),
        (lambda v, s: operators.reshape(v, newshape=s, allowzero=True), "dyn.reshape(%x, %s, allowzero=True)"),
        (lambda v, s: operators.zeros(s, "int8"), 'dyn.zeros(%s, dtype="int8")'),
        (lambda v, s: operators.full(1.0, s), "dyn.full(1f, %s)"),
        (lambda v, s: operators.broadcast_to(v, s), "dyn.broadcast_to(%x, %s)"),
        (lambda v, s: operators.tile(v, s), "dyn.tile(%x, %s)"),
        (lambda v, s: operators.squeeze(v, axis=s), "dyn.squeeze(%x, %s)"),
        (lambda v, s: operators.strided_slice(v, s, s, s), "dyn.strided_slice(%x, %s, %s, %s)"),
    ],
)
def test_an_expression_for_an_attribute_makes_the_dynamic_form(build: Callable[[ir.Var, ir.Var], ir.Expr], text: str) -> None:
    free = "free_var %x: Tensor[(?, 4), float32]; free_var %s: Tensor[(2), int64]; "
    assert same(build(x(), relay.var("s", (2,), "int64")), free + text)


def test_what_is_known_beside_a_run_time_attribute_becomes_a_constant() -> None:
    end = relay.var("end", (2,), "int64")
    call = operators.strided_slice(x(), [0, 1], end)
    assert isinstance(call, ir.Call) and call.op is op.get("dyn.strided_slice")
    _, begin, third, strides = call.args
    assert isinstance(begin, ir.Constant) and begin.data.tolist() == [0, 1] and begin.data.dtype == np.int64
    assert third is end and isinstance(strides, ir.Constant) and strides.data.tolist() == [1, 1]


# ---- mistakes ----------------------------------------------------------------------------------------------------

S = relay.var("s", (2,), "int64")


@pytest.mark.parametrize(
    ("build", "error", "text"),
    [
        (lambda: operators.summ, AttributeError, "there is no operator summ; did you mean sum?"),
        (lambda: operators.nn.sigmiod, AttributeError, "there is no operator nn.sigmiod"),
        (lambda: operators.nn._sigmoid, AttributeError, "there is no relay.nn._sigmoid"),
        (lambda: operators.sum(x(), axs=1), TypeError, "sum: got an unexpected keyword argument 'axs'; it takes data, axis"),
        (lambda: operators.sum(x(), axis="a"), TypeError, "sum: attribute axis takes an integer or a list of integers or None"),
        (lambda: operators.add(x()), TypeError, "add: missing a required argument: 'rhs'"),
        (lambda: operators.reshape(x()), TypeError, "reshape: attribute newshape is missing (newshape takes a list of integers)"),
        (lambda: operators.sum(x(), axis=S), TypeError, "sum: axis must be known at compile time"),
        (lambda: operators.strided_slice(x(), S, S, axes=[0]), TypeError, "axes cannot be given when begin, end is known at run"),
        (lambda: operators.strided_slice(x(), -S, -S), TypeError, "strides must be given"),
        (lambda: relay.var("i", (), "int32") * 1.5, TypeError, "1.5 is no int32"),
        (lambda: x() + "a", TypeError, "unsupported operand"),
        (lambda: relay.var("v", (2,), "float8"), TypeError, "there is no float of 8 bits"),
        (lambda: relay.TensorType((2,), "float32x4"), TypeError, "float32x4 is a vector of 4 lanes; an element is one number"),
        (lambda: relay.var("v", (2,), "flot32"), TypeError, "unknown dtype flot32; did you mean float32"),
        (lambda: relay.var("v", (2,), type_annotation=scalar("bool")), TypeError, "not both"),
        (lambda: relay.const("text"), TypeError, "no constant can be made of 'text'"),
        (lambda: relay.const([[1], [1, 2]]), TypeError, "inhomogeneous"),
        (lambda: relay.const(300, "int8"), TypeError, "no constant can be made of 300"),
        (lambda: relay.Tuple([x(), "a"]), TypeError, "an expression is wanted, not str 'a'"),
        (lambda: relay.Function([relay.const(1)], x()), TypeError, "a parameter is a relay.var, not Constant"),
        (lambda: relay.Function([S, S], S), TypeError, "one variable twice"),
        (lambda: relay.IRModule({"main": x()}), TypeError, "@main must be a relay.Function, not Var"),
    ],
)
def test_mistakes(build: Callable[[], object], error: type[Exception], text: str) -> None:
    with pytest.raises(error) as raised:
        build()
    assert text in str(raised.value)


def test_str_is_the_text() -> None:
    call = operators.exp(x())
    assert str(call) == astext(call, show_meta_data=False) and call.astext() == astext(call)
