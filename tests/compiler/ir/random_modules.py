"""Random modules for properties of parser and printer: shared nodes, blocks in blocks, functions, every literal, matches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from relayvm.compiler.ir.expr import (
    Call,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    IRModule,
    Let,
    Tuple,
    TupleGetItem,
    TypeData,
    Var,
)
from relayvm.compiler.ir.match_expr import (
    Clause,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    RefCreate,
    RefRead,
    RefWrite,
    pattern_vars,
)
from relayvm.ops.core import op
from relayvm.ops.core.adt_types import GlobalTypeVar, RefType, TypeCall, TypeVar
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


A, B = TypeVar("A"), TypeVar("B")
_LIST, _PAIR, _BIT = map(GlobalTypeVar, ("List", "tf.Pair", "Bit"))
#: Type definitions: recursive, with several type parameters, with constructors without fields, without constructors.
DEFINITIONS = {
    "List": TypeData(_LIST, (A,), (Constructor("Cons", (A, TypeCall(_LIST, (A,))), _LIST, 0), Constructor("Nil", (), _LIST, 1))),
    "tf.Pair": TypeData(_PAIR, (A, B), (Constructor("Both", (A, B, RefType(TupleType((A, B)))), _PAIR, 0),)),
    "Bit": TypeData(_BIT, (), (Constructor("Off", (), _BIT, 0), Constructor("On", (), _BIT, 1))),
    "Storage": TypeData(GlobalTypeVar("Storage")),
}
CONSTRUCTORS = tuple(c for data in DEFINITIONS.values() for c in data.constructors)
#: Types of a module with these definitions, in a function with the type parameters ``A`` and ``B``.
module_types = st.recursive(
    st.one_of(tensor_types, st.sampled_from([A, B, TypeCall(_BIT, ()), TypeCall(GlobalTypeVar("Storage"), ())])),
    lambda inner: st.one_of(
        inner.map(lambda item: TypeCall(_LIST, (item,))),
        st.tuples(inner, inner).map(lambda items: TypeCall(_PAIR, items)),
        inner.map(RefType),
        st.lists(inner, max_size=2).map(lambda fields: TupleType(tuple(fields))),
    ),
    max_leaves=4,
)


@st.composite
def patterns(draw: st.DrawFn, depth: int = 2) -> Pattern:
    """A pattern over the constructors."""
    inner = patterns(depth - 1) if depth else st.builds(PatternWildcard)
    match draw(st.integers(0, 4)):
        case 0:
            return PatternTuple(tuple(draw(st.lists(inner, max_size=3))))
        case 1 | 2:
            constructor = draw(st.sampled_from(CONSTRUCTORS))
            return PatternConstructor(constructor, tuple(draw(inner) for _ in constructor.inputs))
        case 3:
            return PatternVar(draw(variables()))
    return PatternWildcard()


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


def _matches_and_references(
    draw: st.DrawFn, one: Callable[[], Expr], scope: tuple[Expr, ...], size: int, in_module: bool
) -> Expr:
    """A match or reference, and in a module a value of a constructor or a call with types."""
    match draw(st.integers(0, 5 if in_module else 2)):
        case 0:
            return RefCreate(one())
        case 1:
            return RefRead(one())
        case 2:
            return RefWrite(one(), one())
        case 3:
            made = draw(st.sampled_from(CONSTRUCTORS))
            return Call(made, tuple(one() for _ in made.inputs))
        case 4:
            types = tuple(draw(st.lists(module_types, min_size=1, max_size=2)))
            return Call(GlobalVar("main"), (one(),), type_args=types)
    clauses = []
    for pattern in draw(st.lists(patterns(), min_size=1, max_size=3)):
        body = draw(expressions((*scope, *pattern_vars(pattern)), size // 2, in_module))
        clauses.append(Clause(pattern, body))
    return Match(one(), tuple(clauses), draw(st.booleans()))


@st.composite
def expressions(draw: st.DrawFn, scope: tuple[Expr, ...], size: int, in_module: bool = False) -> Expr:
    """An expression over ``scope``; expressions made on the way join it, so that they may be shared.

    ``in_module``: it may use the constructors of ``DEFINITIONS``.
    """
    pool = list(scope)
    for _ in range(draw(st.integers(0, size))):
        one = lambda: draw(st.one_of(st.sampled_from(pool), constants())) if pool else draw(constants())  # noqa: E731
        inner = tuple(pool)
        match draw(st.integers(0, 10)):
            case 0:
                pool.append(Tuple(tuple(one() for _ in range(draw(st.integers(0, 3))))))
            case 1:
                pool.append(TupleGetItem(one(), draw(st.integers(0, 12))))
            case 2:
                pool.append(Call(op.get("add"), (one(), one()), op.get("add").attrs()))
            case 3:
                pool.append(_attribute_calls(draw, one()))
            case 4:
                attrs = draw(st.sampled_from([None, None, {"a": 1, "b.c": ("q", 2.5)}, {"tf/x": None}]))
                pool.append(Call(draw(st.sampled_from([GlobalVar("main"), *pool])), (one(),), attrs))
            case 5:
                branch = expressions(inner, size // 2, in_module)
                pool.append(If(one(), draw(branch), draw(branch)))
            case 6:
                params = tuple(draw(st.lists(variables(), max_size=2)))
                attrs = draw(st.sampled_from([{}, {}, {"Primitive": 1}, {"name": 'a "b" \\ c\n', "axes": (1, (2,))}]))
                body = draw(expressions((*inner, *params), size // 2, in_module))
                pool.append(Function(params, body, draw(st.none() | types), attrs))
            case 7 | 8:
                pool.append(_matches_and_references(draw, one, inner, size, in_module))
            case _:
                var = draw(variables())
                pool.append(Let(var, one(), draw(expressions((*inner, var), size // 2, in_module))))
    return draw(st.sampled_from(pool)) if pool else draw(constants())


def variables(annotations: st.SearchStrategy[Any] = types) -> st.SearchStrategy[Var]:
    """A new variable each time."""
    return st.builds(Var, names, st.none() | annotations)


@st.composite
def modules(draw: st.DrawFn) -> IRModule:
    """One to three functions, ``main`` among them, and the type definitions."""
    functions = {}
    for name in draw(st.sampled_from([["main"], ["main", "other"], ["a", "main", "b.c"]])):
        params = tuple(draw(st.lists(variables(module_types), max_size=3)))
        body = draw(expressions(params, 6, in_module=True))
        result = draw(st.none() | st.just(scalar("int8")) | module_types)
        functions[name] = Function(params, body, result, type_params=(A, B))
    return IRModule(functions, type_definitions=DEFINITIONS)
