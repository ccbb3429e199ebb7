"""Programs written as for Relay's Python API run unchanged."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any as AnyValue

import numpy as np
import pytest

import relayvm as relay

X = np.array([[1, -2, 3, -4], [-5, 6, -7, 8]], "float32")


def x(name: str = "x") -> relay.Var:
    return relay.var(name, shape=(relay.Any(), 4))


def run(module: relay.IRModule, *args: np.ndarray, device: str = "cpu") -> relay.Tensor:
    with relay.VirtualMachine(relay.compile(module, target=device)) as vm:
        return vm.run(*args)


# ---- modules -----------------------------------------------------------------------------------------------------


def test_a_module_grows() -> None:
    module, a = relay.IRModule(), x()
    assert len(module) == 0 and "main" not in module
    double = relay.GlobalVar("double")
    module[double] = relay.Function([a], a + a)
    module["main"] = relay.nn.relu(relay.Call(double, [b := x("b")]))
    assert len(module) == 2 and list(module) == ["double", "main"]
    assert double in module and "main" in module and "other" not in module and 3 not in module
    assert module["main"].params == (b,) and module[double] is module["double"]
    assert [v.name for v in module.get_global_vars()] == ["double", "main"]
    assert module.get_global_var("main").name == "main"
    assert np.array_equal(run(module, X).numpy(), np.maximum(2 * X, 0))


def test_a_module_takes_the_functions_of_another() -> None:
    a, b = x("a"), x("b")
    module = relay.IRModule.from_expr(relay.Function([a], a))
    other = relay.IRModule({"main": relay.Function([b], -b), "f": relay.Function([c := x("c")], c)})
    module.update(other)
    assert module["main"] is other["main"] and list(module) == ["main", "f"]
    module.update({relay.GlobalVar("g"): other["f"], "@h": other["f"]})
    assert list(module) == ["main", "f", "g", "h"] and list(other) == ["main", "f"]
    module["main"] = relay.GlobalVar("f")
    assert module["main"] is other["f"]
    assert relay.structural_equal(relay.IRModule(dict(other.functions)), other)


def test_nobody_else_sees_a_change() -> None:
    a = x()
    functions = {"main": relay.Function([a], a + a)}
    module = relay.IRModule(functions)
    held, copies = module.functions, [copy.copy(module), copy.deepcopy(module), relay.IRModule(module.functions)]
    compiled, text = relay.compile(module), module.astext()
    module["main"] = relay.Function([b := x("b")], -b)
    assert list(functions) == ["main"] and held["main"] is functions["main"]
    assert all(other.astext() == text for other in copies) and module.astext() != text
    with relay.VirtualMachine(compiled) as vm:
        assert np.array_equal(vm.run(X).numpy(), X + X)
    assert np.array_equal(run(module, X).numpy(), -X)


def test_functions_and_types_are_found_by_their_variables() -> None:
    module = relay.IRModule.from_expr(relay.Function([a := x()], a))
    header = relay.GlobalTypeVar("T")
    module[header] = relay.TypeData(header, [], [])
    main, other = module.get_global_var("main"), relay.GlobalVar("other")
    for functions in (module.functions, relay.transform.ToANormalForm()(module).functions, copy.copy(module).functions):
        by_any: AnyValue = functions
        assert by_any[main] is functions["main"] is by_any.get(main) and main in by_any
        assert other not in by_any and by_any.get(other) is None and list(by_any) == ["main"]
        with pytest.raises(KeyError):
            by_any[other]
        with pytest.raises(KeyError):
            functions["other"]
    types: AnyValue = module.type_definitions
    assert types[header] is module[header] and header in types


def test_a_parsed_module_can_be_changed() -> None:
    module = relay.parse(
        '#[version = "0.0.5"] def @main(%x: Tensor[(2), float32]) { @f(%x) } def @f(%x: Tensor[(2), float32]) { %x }'
    )
    module["f"] = relay.Function([a := relay.var("a", (2,))], a * 3)
    assert run(module, np.ones(2, "float32")).tolist() == [3, 3]


def test_wrong_changes_of_a_module() -> None:
    module = relay.IRModule()
    number: AnyValue = 3
    nothing: AnyValue = None
    with pytest.raises(relay.ArgumentError, match="the module has no function @f"):
        module["main"] = relay.GlobalVar("f")
    with pytest.raises(KeyError, match="the module has no function @f"):
        module.get_global_var("f")
    with pytest.raises(relay.ArgumentError, match="a function's name must be a str, not the int 3"):
        module[number] = relay.const(1)
    with pytest.raises(relay.ArgumentError, match=r"@f must be a relay\.Function, not int"):
        module.update({"f": number})
    with pytest.raises(relay.ArgumentError, match="must be a module or a dict of functions by name, not None"):
        module.update(nothing)
    assert len(module) == 0


# ---- calls -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_functions_are_called(device: str) -> None:
    a, b, c = x("a"), x("b"), x("c")
    double, twice = relay.GlobalVar("double"), relay.var("twice")
    module = relay.IRModule({double: relay.Function([a], a + a)})
    negated = relay.Function([b], -b)
    module["main"] = relay.Function([c], relay.Let(twice, relay.Function([d := x("d")], double(double(d))), twice(negated(c))))
    assert isinstance(double(c), relay.Call) and double(c).args == (c,) and double(c).op is double
    assert np.array_equal(run(module, X, device=device).numpy(), -4 * X)


def test_what_is_no_function_is_not_called() -> None:
    for value in (x(), relay.const(1.0), relay.Tuple([x()]), x() + 1):
        with pytest.raises(relay.ArgumentError, match="is called that is no function"):
            value(x())
    argument = relay.TensorType((2,))
    assert relay.var("f", type_annotation=relay.FuncType([argument], argument))(x()).args


# ---- results that are tuples -------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_the_results_of_a_split(device: str) -> None:
    a = x()
    parts = relay.split(a, 2, axis=1)
    left, right = parts
    assert len(parts) == 2 and isinstance(parts, relay.TupleWrapper) and not isinstance(a, relay.TupleWrapper)
    assert left.tuple_value is parts and right.index == 1 and parts.tuple_value is parts is parts.astuple()
    assert parts[-1].index == 1 and [part.index for part in parts] == [0, 1]
    joined = relay.concatenate(parts, axis=0)
    module = relay.IRModule.from_expr(relay.Function([a], relay.Tuple([left + 1 - right, joined])))
    first, second = run(module, X, device=device)
    assert np.array_equal(first.numpy(), X[:, :2] + 1 - X[:, 2:])
    assert np.array_equal(second.numpy(), np.concatenate([X[:, :2], X[:, 2:]]))


def test_the_number_of_results() -> None:
    a, f = x(), relay.GlobalVar("f")
    assert len(relay.split(f(a), [1, 2], axis=1)) == 3
    assert len(relay.topk(a, k=2)) == 2 and len(relay.Tuple([a, a, a])) == 3
    pair = relay.TupleType([relay.TensorType((2,)), relay.TensorType((3,))])
    assert len(relay.var("p", type_annotation=pair)) == 2
    for scalar in (relay.var("n", "int32"), relay.var("n", type_annotation="int32"), relay.var("n", relay.scalar_type("int32"))):
        assert scalar.type_annotation == relay.scalar_type("int32")
    with pytest.raises(relay.ArgumentError, match="int33"):
        relay.var("n", "int33")
    assert relay.Tuple([a, f])[1] is f and f(a)[3].index == 3
    stated = relay.TupleWrapper(f(a), 2)
    assert len(stated) == 2 and isinstance(stated, relay.Call)


@pytest.mark.parametrize(
    ("fails", "message"),
    [
        (lambda a: relay.split(a, 2)[2], "the tuple has 2 fields, there is none of index 2"),
        (lambda a: a[0], "a tensor has no fields"),
        (lambda a: len(a + 1), "a tensor has no fields"),
        (lambda a: list(a), "a tensor has no fields"),
        (lambda a: (a + 1).astuple(), "a tensor has no fields"),
        (lambda a: list(relay.GlobalVar("f")(a)), "the number of results of this Call is not known"),
        (lambda a: relay.split(a, 2)[0:1], "the index of a field must be a whole number"),
        (lambda a: relay.TupleWrapper(relay.split(a, 2), 3), "the size is 3, the value is a tuple of 2"),
    ],
)
def test_wrong_fields(fails: Callable[[relay.Expr], AnyValue], message: str) -> None:
    with pytest.raises(relay.ArgumentError, match=message):
        fails(x())
    with pytest.raises(IndexError):
        relay.split(x(), 2)[5]


def test_astype() -> None:
    cast = x().astype("float16")
    assert relay.structural_equal(cast, relay.cast(cast.args[0], "float16"))
    assert x().astype(np.int32).attrs.dtype == "int32"


# ---- truth -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fails",
    [
        lambda a, b: 1 if a < b else 2,
        lambda a, b: a < b < a,
        lambda a, b: a and b,
        lambda a, b: not a,
        lambda a, b: bool(relay.split(a, 2)),
    ],
)  # fmt: skip
def test_python_does_not_branch_on_an_expression(fails: Callable[[relay.Expr, relay.Expr], AnyValue]) -> None:
    with pytest.raises(relay.ArgumentError, match="is known only at run time; Python cannot branch") as error:
        fails(x(), x("y"))
    assert "relay.If" in str(error.value)


# ---- names of parts ----------------------------------------------------------------------------------------------


def test_the_names_of_parts() -> None:
    kind = relay.TensorType((2, relay.Any()), "float32")
    place = relay.Span(relay.SourceName("model.py"), 3, 3, 1, 2)
    a = relay.var("a", kind, span=place)
    named = relay.Var("a", type_annotation=kind, span=place)
    assert a.span is place is named.span and named.annotation == kind and relay.GlobalVar(name_hint="f").name == "f"
    assert relay.FuncType([kind], kind, [], []) == relay.FuncType(arg_types=[kind], ret_type=kind)
    with pytest.raises(relay.ArgumentError, match="FuncType: a type has no type constraints"):
        relay.FuncType([kind], kind, [], [relay.TypeVar("A")])
    assert isinstance(kind.shape[1], relay.Any) and not isinstance(kind.shape[0], relay.Any)
    assert a.type_annotation == kind and a.name_hint == "a" and relay.GlobalVar("f").name_hint == "f"
    function = relay.Function([a], a, kind)
    assert function.params == (a,) and function.body is a and function.ret_type == kind
    marked = function.with_attr("Inline", 1)
    assert marked.attrs == {"Inline": 1} and function.attrs == {} and marked.params == function.params


def test_types_of_generic_functions() -> None:
    a, b, c, d = map(relay.TypeVar, "abcd")
    of = relay.FuncType
    one, same = of([of([a], b), a], b, [a, b]), of([of([c], d), c], d, [c, d])
    assert one == same and hash(one) == hash(same) and str(one) == "fn [a, b](fn (a) -> b, a) -> b"
    for other in (of([of([d], c), c], d, [c, d]), of([of([a], b), a], b), of([of([a], b), a], b, [a]), of([a], a, [a])):
        assert one != other
    assert of([a], of([b], b), [a]) == of([c], of([b], b), [c]) != of([c], of([c], c), [c]), "b is free"
    with pytest.raises(relay.ArgumentError, match="Var: the type must be the type of a value, not a FuncType"):
        relay.Var("f", one)


def test_the_declared_type_before_inference() -> None:
    mod = relay.IRModule()
    prelude = relay.Prelude(mod)
    a, b = map(relay.TypeVar, "ab")
    rlist, *_ = mod.get_type("List")
    wanted = relay.FuncType([relay.FuncType([a], b), rlist(a)], rlist(b), [a, b])
    assert mod[prelude.map].checked_type == wanted == relay.transform.InferType()(mod)[prelude.map].checked_type
    assert relay.transform.InferTypeLocal(mod[prelude.map]) == wanted
    v = relay.var("v", relay.scalar_type("int32"))
    assert str(relay.Function([v], v, relay.scalar_type("int32")).checked_type) == "fn (int32) -> int32"
    with pytest.raises(relay.ArgumentError, match="the expression has no type yet"):
        relay.Function([v], v).checked_type  # noqa: B018


def test_the_checked_type() -> None:
    kind = relay.scalar_type("int64")
    assert kind == relay.TensorType((), "int64") and relay.scalar_type(np.int64) == kind
    with pytest.raises(relay.ArgumentError, match="the expression has no type yet"):
        x().checked_type  # noqa: B018
    typed = relay.transform.InferType()(relay.IRModule.from_expr(relay.Function([a := relay.var("a", kind)], a + a)))
    assert typed["main"].body.checked_type == kind


# ---- scopes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_a_program_as_written_for_relay(device: str) -> None:
    mod = relay.IRModule()
    halves = relay.GlobalVar("halves")
    data = relay.var("data", relay.TensorType((relay.Any(), 4), "float32"))
    both = relay.split(data, indices_or_sections=2, axis=1)
    mod[halves] = relay.Function([data], relay.Tuple([both[0], both[1]]))

    a = relay.var("a", shape=(relay.Any(), 4), dtype="float32")
    limit = relay.var("limit", relay.scalar_type("float32"))
    sb = relay.ScopeBuilder()
    both = sb.let("both", halves(a))
    left, right = relay.TupleWrapper(both, 2)
    total = sb.let(("total", relay.scalar_type("float32")), relay.sum(left))
    with sb.if_scope(relay.less(total, limit)):
        scaled = sb.let(relay.var("scaled"), left * relay.const(2.0))
        sb.ret(relay.nn.relu(scaled - right))
    with sb.else_scope():
        with sb.if_scope(limit < 0):
            sb.ret(right)
        with sb.else_scope():
            rounded = sb.let("rounded", relay.floor(left / 2.0).astype("int32"))
            sb.ret(rounded.astype("float32") + right)
    mod["main"] = relay.Function([a, limit], sb.get())
    assert [v.name_hint for v in mod.get_global_vars()] == ["halves", "main"]

    first, second, least = X[:, :2], X[:, 2:], np.float32(first_sum := X[:, :2].sum())
    cases = [
        (least + 1, np.maximum(2 * first - second, 0)),
        (np.float32(min(first_sum, -1) - 1), second),
    ]
    for value, expected in cases:
        assert np.array_equal(run(mod, X, np.float32(value), device=device).numpy(), expected)
    raised = X + 10
    result = run(mod, raised, np.float32(0), device=device).numpy()
    assert np.array_equal(result, np.floor(raised[:, :2] / 2) + raised[:, 2:])


def test_wrong_scopes() -> None:
    def fails(message: str) -> AnyValue:
        return pytest.raises(relay.ArgumentError, match=message)

    number: AnyValue = 3
    sb, condition = relay.ScopeBuilder(), relay.var("c", (), "bool")
    with fails("get: the scope has no result"):
        sb.get()
    with fails("there is no if_scope before it"), sb.else_scope():
        pass
    with fails("if_scope: the scope has no result"), sb.if_scope(condition):
        pass
    with sb.if_scope(condition):
        with fails("get: a branch is still open"):
            sb.get()
        sb.ret(1)
    for attempt in (lambda: sb.let("a", 1), lambda: sb.ret(1)):
        with fails("an if_scope waits for its else_scope"):
            attempt()
    with fails("an if_scope has no else_scope"):
        sb.get()
    with sb.else_scope():
        sb.ret(2)
    with fails("the scope has its result already"):
        sb.ret(3)
    with fails("a name, a pair of name and type, or a relay.var"):
        relay.ScopeBuilder().let(number, 2)
    assert relay.structural_equal(sb.get(), relay.If(condition, relay.const(1), relay.const(2)))


def test_names_of_types() -> None:
    x, w = relay.var("x", shape=(relay.Any(), 4)), relay.var("w", shape=(5, 4))
    mod = relay.transform.InferType()(relay.IRModule.from_expr(relay.Function([x, w], relay.nn.dense(x, w))))
    found = mod["main"].checked_type
    assert str(found.ret_type) == "Tensor[(?, 5), float32]" and str(found.arg_types[0]) == "Tensor[(?, 4), float32]"
    assert relay.TensorType((2, 3)).concrete_shape == (2, 3) and relay.TensorType(()).concrete_shape == ()
    with pytest.raises(relay.ArgumentError, match="has sizes that are known only at run time"):
        _ = found.ret_type.concrete_shape
