"""Tensor arrays of the prelude: every function, against lists of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.std import tensor_array


def arrays(value: Any) -> list[np.ndarray | None]:
    """A list of elements of a tensor array; None for an element that was never written."""
    found = []
    while value.constructor == "Cons":
        found.append(value[0][0].numpy() if len(value[0]) else None)
        value = value[1]
    return found


def same(found: Any, wanted: list[Any]) -> None:
    got = arrays(found) if isinstance(found, relay.ADT) and found.constructor in ("Cons", "Nil") else [found[0].numpy()]
    assert len(got) == len(wanted)
    for a, b in zip(got, wanted, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_array_equal(a, b)


X = np.arange(12, dtype="float32").reshape(4, 3)


def dynamic(dtype: str = "float32") -> tuple[relay.IRModule, Any, Any]:
    """A module with the functions of a dtype, and functions that give their variables and constructors."""
    p = relay.Prelude()

    def function(name: str) -> Any:
        return p.get_global_var(name, dtype)

    def make(rank: int) -> Any:
        return p.get_tensor_ctor(f"tensor{rank}", dtype)

    return p.mod, function, make


def test_every_function_of_any_rank() -> None:
    mod, f, make = dynamic()
    x, i = relay.var("x", shape=(relay.Any(), 3)), relay.var("i", shape=(relay.Any(),), dtype="int32")
    rows = f("tensor_array_unstack_tensor2")(x)
    parts = {
        "unstack": rows,
        "array": f("tensor_array")(relay.const(2)),
        "read": f("tensor_array_read")(rows, relay.const(1)),
        "write": f("tensor_array_write")(rows, relay.const(2), make(1)(relay.const(np.zeros(5, "float32")))),
        "scatter": f("tensor_array_scatter")(f("tensor_array")(relay.const(4)), i, rows),
        "stack": f("tensor_array_stack")(rows),
        "concat": f("tensor_array_concat")(rows),
        "gather": f("tensor_array_gather")(rows, i),
        "split": f("tensor_array_split")(f("tensor_array")(relay.const(3)), make(2)(x), relay.const(np.array([1, 3], "int32"))),
        "take": f("tensor_take")(make(2)(x), relay.const(1), relay.const(3)),
        "expand": f("tensor_expand_dims")(make(2)(x)),
        "concatenate": f("tensor_concatenate")(make(2)(x), make(2)(x)),
    }
    mod["main"] = relay.Function([x, i], relay.Tuple(list(parts.values())))
    assert relay.structural_equal(relay.parse(mod.astext()), mod)
    indices = np.array([3, 0, 1, 2], "int32")
    found = dict(zip(parts, relay.VirtualMachine(relay.compile(mod)).run(X, indices), strict=True))
    wanted = {
        "unstack": list(X),
        "array": [None, None],
        "read": [X[1]],
        "write": [X[0], X[1], np.zeros(5), X[3]],
        "scatter": [X[1], X[2], X[3], X[0]],
        "stack": [X],
        "concat": [X.ravel()],
        "gather": [X[indices]],
        "split": [X[:1], X[1:], None],
        "take": [X[1:3]],
        "expand": [X[None]],
        "concatenate": [np.concatenate([X, X])],
    }
    for name, value in wanted.items():
        same(found[name], value)


def test_every_function_is_tested() -> None:
    names = {n.removeprefix("tensor_array_").removeprefix("tensor_") for n in tensor_array.FUNCTIONS}
    assert {n for n in names if "unstack" not in n} == {
        "array", "read", "write", "scatter", "stack", "concat", "gather", "split", "take", "expand_dims", "concatenate",
    }  # fmt: skip


@pytest.mark.parametrize("rank", [1, 3, 6])
@pytest.mark.extensive(rank=[1])
def test_unstack_of_other_ranks(rank: int) -> None:
    mod, f, _ = dynamic("int64")
    value = np.arange(2**rank).reshape((2,) * rank)
    mod["main"] = relay.Function([], f(f"tensor_array_unstack_tensor{rank}")(relay.const(value)))
    same(relay.VirtualMachine(relay.compile(mod)).run(), list(value))


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (relay.Any(), 2)])
@pytest.mark.extensive(shape=[(2, 3)])
def test_every_function_of_one_shape(shape: tuple[Any, ...]) -> None:
    p = relay.Prelude()
    sizes = tuple(d if isinstance(d, int) else 5 for d in shape)
    data = np.arange(2 * int(np.prod(sizes)), dtype="float32").reshape(2, *sizes)

    def f(name: str, of: tuple[Any, ...] = shape) -> Any:
        return p.get_global_var_static(name, "float32", of)

    def make(value: Any, of: tuple[Any, ...] = shape) -> Any:
        return p.get_tensor_ctor_static("tensor_constructor", "float32", of)(value)

    x, y = relay.var("x", shape=shape), relay.var("y", shape=shape)
    both = f("tensor_array_write")(f("tensor_array")(relay.const(3)), relay.const(0), make(x))
    both = f("tensor_array_write")(both, relay.const(2), make(y))
    i = relay.const(np.array([2, 0], "int32"))
    pair = f("tensor_array_scatter")(f("tensor_array")(relay.const(2)), relay.const(np.array([1, 0], "int32")), both)
    parts: dict[str, tuple[Any, list[Any]]] = {
        "write": (both, [data[0], None, data[1]]),
        "read": (f("tensor_array_read")(both, relay.const(2)), [data[1]]),
        "gather": (f("tensor_array_gather")(both, i), [data[::-1]]),
        "stack": (f("tensor_array_stack")(f("tensor_array_unstack", (2, *shape))(relay.const(data))), [data]),
        "expand_dims": (f("tensor_expand_dims")(make(x)), [data[:1]]),
    }
    if shape:
        several = (relay.Any(), *shape[1:])
        lengths = relay.const(np.array([1, sizes[0] - 1], "int32"))
        split = f("tensor_array_split")(f("tensor_array", several)(relay.const(3)), make(x), lengths)
        parts |= {
            "take": (f("tensor_take")(make(x), relay.const(1), relay.const(2)), [data[0][1:2]]),
            "concatenate": (f("tensor_concatenate")(make(x), make(y)), [np.concatenate([data[0], data[1]])]),
            "split": (split, [data[0][:1], data[0][1:], None]),
            "concat": (f("tensor_array_concat")(p.rev(p.tl(p.rev(split)))), [data[0]]),
            "concat of none": (f("tensor_array_concat")(p.nil()), [None]),
            "unstack": (f("tensor_array_unstack")(x), list(data[0])),
        }
    tensors = {
        "data": (f("tensor_array_get_data")(both, relay.const(2)), data[1]),
        "own": (f("tensor_get_data")(f("tensor_array_read")(pair, relay.const(1))), data[0]),
    }
    results = [expr for expr, _ in (*parts.values(), *tensors.values())]
    p.mod["main"] = relay.Function([x, y], relay.Tuple(results))
    assert relay.structural_equal(relay.parse(p.mod.astext()), p.mod)
    found = dict(zip([*parts, *tensors], relay.VirtualMachine(relay.compile(p.mod)).run(*data), strict=True))
    for name, (_, wanted) in parts.items():
        if name == "concat of none":
            assert found[name].constructor.startswith("tensor_nil_float32_any")
        else:
            same(found[name], wanted)
    for name, (_, array) in tensors.items():
        np.testing.assert_array_equal(found[name].numpy(), array)
    tested = {n.removeprefix("tensor_array_").removeprefix("tensor_") for n in tensor_array.STATIC_FUNCTIONS}
    assert tested <= parts.keys() | {"array", "scatter", "get_data", "array_get_data"} or not shape


def test_a_split_of_values_of_another_shape() -> None:
    mod = relay.IRModule()
    ops = relay.prelude.StaticTensorArrayOps(relay.prelude.Prelude(mod), "float32", (relay.Any(), 3))
    ops.define_tensor_array()
    ops.define_tensor_array_scatter((2,), True)
    ops.define_tensor_array_split((4, 3), (2,), True)
    ops.define_tensor_get_data()
    x = relay.var("x", shape=(4, 3))
    value = ops.prelude.get_ctor_static("tensor_t", "tensor_constructor", "float32", (4, 3))(x)
    array = ops.get_global_var("tensor_array")(relay.const(2))
    split = ops.get_global_var("tensor_array_split")(array, value, relay.const(np.array([1, 3], "int32")))
    mod["main"] = relay.Function([x], split)
    same(relay.create_executor("vm", mod).evaluate()(X), [X[:1], X[1:]])


def test_types_and_functions_of_a_dtype_are_there_without_use() -> None:
    mod = relay.IRModule()
    relay.Prelude(mod)
    header, nil, *_ = mod.get_type("tensor_float32_t")
    assert header.name == "tensor_float32_t" and nil.name_hint == "tensor_nil_float32"
    assert (
        mod.get_global_var("tensor_array_read_int64").name == "tensor_array_read_int64"
        and "tensor_int64_t" in mod.type_definitions
    )
    for fails in (lambda: mod.get_type("tensor_float31_t"), lambda: relay.IRModule().get_type("tensor_float32_t")):
        with pytest.raises(relay.RelayError, match="the module has no type tensor_float3"):
            fails()


def test_functions_that_are_not_used_are_not_compiled() -> None:
    mod, f, _ = dynamic()
    mod["main"] = relay.Function([], f("tensor_array")(relay.const(1)))
    exe = relay.compile(mod)
    assert {fn.name for fn in exe.functions} == {"main", "tensor_array_float32"}


def test_unknown_names() -> None:
    p = relay.Prelude()
    for wrong in (
        lambda: p.get_global_var("tensor_array_red", "float32"),
        lambda: p.get_tensor_ctor("tensor7", "float32"),
        lambda: p.get_type("tensor", "float32"),
        lambda: p.get_name("tensor_t", "float31"),
    ):
        with pytest.raises(relay.RelayError):
            wrong()


@pytest.mark.parametrize("shape", [None, (2, 3), (relay.Any(), 3)])
def test_operations_of_one_dtype_or_shape(shape: tuple[object, ...] | None) -> None:
    mod = relay.IRModule()
    given = () if shape is None else (shape,)
    ops = (relay.prelude.StaticTensorArrayOps if given else relay.prelude.TensorArrayOps)(
        relay.prelude.Prelude(mod), "float32", *given
    )
    ops.register()
    x = relay.var("x", shape=(2, 3))
    element = ops.get_ctor("tensor_constructor" if given else "tensor2")
    array = ops.get_global_var("tensor_array")(relay.const(1))
    array = ops.get_global_var("tensor_array_write")(array, relay.const(0), element(x))
    found = relay.var("found", shape=shape or (2, 3))
    read = ops.get_global_var("tensor_array_read")(array, relay.const(0))
    clause = relay.Clause(relay.PatternConstructor(element, [relay.PatternVar(found)]), found)
    mod["main"] = relay.Function([x], relay.Match(read, [clause], complete=False))
    assert ops.get_type("tensor_t").name == ops.get_name("tensor_t")
    data = np.arange(6, dtype="float32").reshape(2, 3)
    assert np.array_equal(relay.create_executor("debug", mod).evaluate()(data).numpy(), data)
    assert np.array_equal(relay.create_executor("vm", mod).evaluate()(data).numpy(), data)


def test_operations_need_a_prelude() -> None:
    for fails in (
        lambda: relay.prelude.TensorArrayOps(3, "float32"),
        lambda: relay.prelude.StaticTensorArrayOps(relay.prelude.Prelude(relay.IRModule()), "float32", 3.5),
        lambda: relay.prelude.TensorArrayOps(relay.prelude.Prelude(relay.IRModule()), "float99"),
    ):
        with pytest.raises(relay.ArgumentError):
            fails()
