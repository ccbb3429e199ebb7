"""Random modules for properties of parser and printer: shared nodes, blocks in blocks, functions, every literal."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from relayvm.compiler.ir.expr import (
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    IRModule,
    Let,
    Tuple,
    TupleGetItem,
    Var,
)
from relayvm.ops.core import op
from relayvm.ops.core.tensor_types import DTYPES, FuncType, TensorType, TupleType, numpy_dtype, scalar
from relayvm.shape_funcs.symbolic.dim import ANY, dim, sym

dims = st.one_of(st.integers(0, 9).map(dim), st.just(ANY), st.sampled_from(["n", "m", "batch_1"]).map(sym))
tensor_types = st.builds(TensorType, st.lists(dims, max_size=3).map(tuple), st.sampled_from(DTYPES))
types = st.recursive(
    tensor_types,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda fields: TupleType(tuple(fields))),
        st.builds(lambda params, result: FuncType(tuple(params), result), st.lists(inner, max_size=2), inner),
    ),
    max_leaves=4,
)
names = st.sampled_from(["x", "x", "y", "x1", "_", "conv1.weight", "tf/layer", "0", "layer.0.w", "a b", ""])


@st.composite
def constants(draw: st.DrawFn) -> Constant:
    """Any dtype, ranks 0 to 2, any bits: infinities and NaNs too."""
    dtype = draw(st.sampled_from(DTYPES))
    shape = draw(st.sampled_from([(), (), (0,), (1,), (3,), (2, 1)]))
    n = int(np.prod(shape)) * numpy_dtype(dtype).itemsize
    raw = draw(st.binary(min_size=n, max_size=n))
    if dtype == "bool":
        raw = bytes(b & 1 for b in raw)
    return Constant(np.frombuffer(raw, numpy_dtype(dtype)).reshape(shape))


def _attribute_calls(draw: st.DrawFn, arg: Expr) -> Call:
    name, values = draw(
        st.sampled_from(
            [
                ("sum", {}),
                ("sum", {"axis": (0, -1), "keepdims": True}),
                ("cast", {"dtype": "int8"}),
                ("reshape", {"newshape": ()}),
                ("reshape", {"newshape": (2, -1)}),
                ("clip", {"a_min": -1.5, "a_max": float("inf")}),
                ("clip", {"a_min": 1e-30, "a_max": 3.0}),
            ]
        )
    )
    return Call(op.get(name), (arg,), op.get(name).attrs(**values))


@st.composite
def expressions(draw: st.DrawFn, scope: tuple[Expr, ...], size: int) -> Expr:
    """An expression over ``scope``; expressions made on the way join it, so that they may be shared."""
    pool = list(scope)
    for _ in range(draw(st.integers(0, size))):
        one = lambda: draw(st.one_of(st.sampled_from(pool), constants())) if pool else draw(constants())  # noqa: E731
        inner = tuple(pool)
        match draw(st.integers(0, 8)):
            case 0:
                pool.append(Tuple(tuple(one() for _ in range(draw(st.integers(0, 3))))))
            case 1:
                pool.append(TupleGetItem(one(), draw(st.integers(0, 12))))
            case 2:
                pool.append(Call(op.get("add"), (one(), one()), op.get("add").attrs()))
            case 3:
                pool.append(_attribute_calls(draw, one()))
            case 4:
                pool.append(Call(draw(st.sampled_from([GlobalVar("main"), *pool])), (one(),)))
            case 5:
                branch = expressions(inner, size // 2)
                pool.append(If(one(), draw(branch), draw(branch)))
            case 6:
                params = tuple(draw(st.lists(variables(), max_size=2)))
                attrs = draw(st.sampled_from([{}, {}, {"Primitive": 1}, {"name": 'a "b" \\ c\n', "axes": (1, (2,))}]))
                body = draw(expressions((*inner, *params), size // 2))
                pool.append(Function(params, body, draw(st.none() | types), attrs))
            case _:
                var = draw(variables())
                pool.append(Let(var, one(), draw(expressions((*inner, var), size // 2))))
    return draw(st.sampled_from(pool)) if pool else draw(constants())


def variables() -> st.SearchStrategy[Var]:
    """A new variable each time."""
    return st.builds(Var, names, st.none() | types)


@st.composite
def modules(draw: st.DrawFn) -> IRModule:
    """One to three functions, ``main`` among them."""
    functions = {}
    for name in draw(st.sampled_from([["main"], ["main", "other"], ["a", "main", "b.c"]])):
        params = tuple(draw(st.lists(variables(), max_size=3)))
        body = draw(expressions(params, 6))
        functions[name] = Function(params, body, draw(st.none() | st.just(scalar("int8")) | types))
    return IRModule(functions)
