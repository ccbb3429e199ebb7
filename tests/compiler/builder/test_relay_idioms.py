"""Idioms of programs that were written for Relay: sizes as numbers, texts, executors and operators."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.dataflow_pattern import is_op

from ...programs import HEADER

X = np.arange(6, dtype="float32").reshape(2, 3)
LISTS = f"{HEADER}type List[A] {{ Cons(A, List[A]), Nil }}\n"


def evaluated(expr: Any, *args: Any, kind: str = "debug") -> Any:
    """The value of a function in numpy."""
    mod = relay.IRModule.from_expr(expr)
    return relay.create_executor(kind, mod, device="cpu", target="cpu").evaluate()(*args).numpy()


def test_a_known_size_is_a_number() -> None:
    ty = relay.TensorType((2, 3, relay.Any()), "float32")
    sizes: Any = ty.shape
    known, other, unknown = sizes
    assert known == 2 == int(known) == known.value and known == 2 and known != other and hash(known) == hash(2)
    assert list(range(known)) == [0, 1] and np.zeros(ty.shape[:2]).shape == (2, 3) and [7, 8, 9][known] == 9
    assert known * other == 6 and known + 1 == 3 and isinstance(unknown, relay.Any) and not isinstance(known, relay.Any)
    with pytest.raises(TypeError):
        range(unknown)


@pytest.mark.parametrize("matched", ["%a", "(%a)"])
def test_a_match_without_parentheses(matched: str) -> None:
    mod = relay.parse(f"{LISTS}def @f(%a: List[int32]) {{ match {matched} {{ Cons(%x, _) => %x, Nil => 0 }} }}")
    assert relay.structural_equal(relay.parse(mod.astext()), mod) and isinstance(mod["f"].body, relay.Match)


def test_a_match_of_several_values() -> None:
    text = "def @f(%a: List[int32], %b: List[int32]) { match (%a, %b) { (Cons(%x, _), Nil) => %x, _ => 0 } }"
    mod = relay.parse(LISTS + text)
    assert relay.structural_equal(relay.parse(mod.astext()), mod) and isinstance(mod["f"].body.data, relay.Tuple)


def test_constants_are_arguments() -> None:
    x = relay.var("x", shape=(2, 3))
    for kind in ("debug", "vm", "graph"):
        np.testing.assert_array_equal(evaluated(relay.Function([x], relay.add(x, x)), relay.const(X), kind=kind), X + X)


def test_the_least_bool_in_a_fused_function() -> None:
    x = relay.var("x", shape=(4,), dtype="bool")
    mod = relay.IRModule.from_expr(relay.Function([x], relay.min(relay.logical_not(x), axis=[0])))
    fused = relay.transform.FuseOps()(mod)
    assert any("Primitive" in function.attrs for function in fused.functions.values())
    for value in ([True] * 4, [False] * 4, [True, False, True, False]):
        run = relay.create_executor("debug", fused, device="cpu", target="cpu").evaluate()
        assert bool(run(np.array(value)).numpy()) == (not any(value))


def test_operators_with_fewer_arguments() -> None:
    x = relay.var("x", shape=(2, 3))
    new, begin, end = relay.const(np.zeros((1, 3), "float32")), relay.const([1, 0]), relay.const([2, 3])
    wanted = X.copy()
    wanted[1] = 0
    np.testing.assert_array_equal(evaluated(relay.Function([x], relay.strided_set(x, new, begin, end)), X), wanted)
    cut = relay.nn.pad(x, ((-1, 0), (0, -1)))
    np.testing.assert_array_equal(evaluated(relay.Function([x], cut), X), X[1:, :2])
    np.testing.assert_array_equal(evaluated(relay.Function([x], relay.nn.dropout(x) + x), X), 2 * X)


def test_attributes_of_a_call_by_name() -> None:
    x, w = relay.var("x", shape=(1, 4, 8, 8)), relay.var("w", shape=(4, 4, 3, 3))
    call = relay.nn.conv2d(x, w, strides=(2, 1), padding=1)
    attrs = call.attrs
    assert attrs["strides"] == attrs.strides == (2, 1) and attrs.get_int_tuple("strides") == (2, 1)
    assert attrs.get_int("groups") == 1 and attrs.get_str("data_layout") == "NCHW" and attrs.get_int_tuple("padding") == (1,)
    again = relay.nn.conv2d(w, x, **{**{key: attrs[key] for key in attrs.keys()}, "groups": 2})  # noqa: SIM118  Relay's idiom
    assert dict(again.attrs) == {**dict(attrs.items()), "groups": 2} and list(attrs) == attrs.keys()
    with pytest.raises(KeyError, match="the call has no attribute stride; did you mean strides") as caught:
        attrs["stride"]
    assert isinstance(caught.value, relay.ArgumentError) and "test_relay_idioms" in str(caught.value)
    # no operator's attribute has the name of a look-up
    assert not {"keys", "items", "get_int"} & {
        name for op in map(relay.op.get, relay.op.Op.list_op_names()) for name in fields(op)
    }


def fields(op: relay.op.Op) -> list[str]:
    return [field.name for field in dataclasses.fields(op.attrs)]


def test_attributes_of_an_operator() -> None:
    op = relay.add(relay.var("x"), relay.var("y")).op
    assert op.get_attr("TOpPattern") == relay.op.OpPattern.BROADCAST and op.num_inputs == 2 and not op.has_attr("mine")
    op.set_attr("mine", 3)
    op.set_attr("mine", 4, plevel=5)  # a lower level
    assert op.get_attr("mine") == 3 and op.has_attr("mine")
    op.reset_attr("mine")
    assert op.get_attr("mine") is None and "nn.dense" in relay.op.Op.list_op_names()


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("op.nn", "dense"), ("op.annotation", "stop_fusion"), ("op.op", "get"), ("op.vision", "non_max_suppression"),
        ("testing.resnet", "get_workload"), ("backend.vm", "VMCompiler"), ("backend.interpreter", "RefValue"),
    ],
)  # fmt: skip
def test_import_paths(path: str, name: str) -> None:
    """A process that has imported nothing yet finds what the attributes of the modules are."""
    program = f"from relayvm.{path} import {name}\nimport relayvm as relay\nassert relay.{path}.{name} is {name}, {name}"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_values_of_the_interpreter() -> None:
    from relayvm.backend.interpreter import ConstructorValue, Interpreter, RefValue

    mod = relay.parse(f"{LISTS}def @main(%x: ref(float32), %y) {{ ref_write(%x, ref_read(%x) + 1f); (%x, ref_read(%y)) }}")
    given = RefValue(1.0)
    result, other = Interpreter(mod, "cpu", "llvm").evaluate()(given, RefValue(2))
    assert isinstance(result, RefValue) and result.value.numpy() == 2 and given.value == 1.0 and other.numpy() == 2
    with pytest.raises(relay.InputError, match=r"takes a reference as %x, not float") as caught:
        Interpreter(mod).evaluate()(1.0, RefValue(2))
    assert "relay.backend.interpreter.RefValue(x)" in str(caught.value)
    mod = relay.parse(f"{LISTS}def @main(%l: List[float32]) {{ Cons(1f, %l) }}")
    _, cons, nil = mod.get_type("List")
    value = Interpreter(mod).evaluate()(ConstructorValue(cons.tag, [2.0, ConstructorValue(nil.tag, [], nil)], cons))
    assert isinstance(value, ConstructorValue) and value.tag == cons.tag and value[1][0].numpy() == 2
    with pytest.raises(relay.ArgumentError, match=r"the constructor must be a relay\.Constructor, not the str 'Nil'"):
        ConstructorValue(0, [], "Nil")


def test_names_and_identity_of_nodes() -> None:
    x = relay.var("x", shape=(2, relay.Any()))
    assert isinstance(x, relay.expr.RelayExpr)
    other = relay.Var("x", x.type_annotation)
    assert x.same_as(x) and not x.same_as(other) and x.vid == x.vid != other.vid and x.vid.name_hint == "x"
    span = relay.Span(relay.SourceName("model.py"), 1, 1, 2, 3)
    assert relay.const(1, span=span).span == relay.const(1, "int8", span).span == span
    assert relay.ty.is_dynamic(relay.TupleType([relay.scalar_type("int32"), x.type_annotation]))
    assert not relay.ty.is_dynamic(relay.FuncType([], relay.TensorType((2, 3))))
    with pytest.raises(relay.ArgumentError, match="the type must be a type, not the int 3"):
        relay.ty.is_dynamic(3)


def test_attributes_of_a_function() -> None:
    x = relay.var("x")
    function = relay.Function([x], x).with_attr("a", 1).with_attr({"b": 2, "c": 3})
    assert dict(function.without_attr("b").attrs) == {"a": 1, "c": 3} and len(function.without_attr("d").attrs) == 3


def test_a_functor_without_a_method() -> None:
    class Calls(relay.ExprFunctor):
        def visit_call(self, call):
            return 1 + sum(map(self.visit, call.args))

    assert Calls().visit(relay.Call(relay.GlobalVar("f"), [])) == 1
    with pytest.raises(NotImplementedError, match="Calls has no method visit_var"):
        Calls().visit(relay.exp(relay.var("x")))


def test_a_pattern_matches_an_operator() -> None:
    pattern = is_op("add") | is_op("exp")
    assert pattern.match(relay.op.get("exp")) and not pattern.match(relay.op.get("tanh")) and not pattern.match(relay.var("x"))


def test_modules_that_are_not_here() -> None:
    with pytest.raises(AttributeError, match=r"no relay\.qnn\.transform: the compiler expands quantised operators"):
        _ = relay.qnn.transform
    with pytest.raises(AttributeError, match=r"no relay\.op\.register_schedule: an operator's implementations are its kernels"):
        _ = relay.op.register_schedule
