"""The elements that the compiler follows are those that the operators' own kernels give: every integer dtype, and bool."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relayvm.compiler.ir.expr import Call, Constant, Expr, Tuple, Var
from relayvm.compiler.rules.elements import ElementTable
from relayvm.compiler.rules.scalar_values import _apply
from relayvm.ops.core.compute import Apply
from relayvm.ops.core.op import Op, OpPattern, TypeRelError, get
from relayvm.ops.core.tensor_types import DTYPES, TensorType, TupleType, int_range, is_float, numpy_dtype
from relayvm.ops.core.type_relation import relate
from relayvm.ops.native.status import DIVISION_BY_ZERO
from relayvm.shape_funcs.symbolic import dim as d
from relayvm.shape_funcs.symbolic import dim_operations as ops

from ... import tiers
from ...ops.every_op import all_recipes  # noqa: F401  (declares)
from ...ops.every_op.drawing import Draw
from ...ops.every_op.recipe import attrs_of, dtypes_of, operators, recipe_of
from ...ops.fused.run_group import evaluate, one_call

WHOLE = tuple(x for x in DTYPES if not is_float(x))
#: Operators that say one element of their result as an expression.
COMPUTED = [op for op in operators() if op.compute is not None or op.pattern is OpPattern.RESHAPE]
#: Operators of one or two tensors of one dtype, without other inputs.
PLAIN = [
    op
    for op in COMPUTED
    if not dataclasses.fields(op.attrs) and len(op.inputs) <= 2 and op.pattern <= OpPattern.BROADCAST and op.name != "full_like"
]


def _constant(value: Any) -> Expr:
    if isinstance(value, tuple):
        fields = tuple(map(_constant, value))
        return Tuple(fields, ty=TupleType(tuple(f.ty for f in fields)))  # type: ignore[misc]
    return Constant(value, ty=TensorType.of(value.shape, value.dtype.name))


def _followed(op: Op, inputs: tuple[Any, ...], attrs: Any) -> list[list[int | None]] | None:
    """The elements of each result, as far as they are known."""
    table, args = ElementTable(), []
    for value in inputs:
        atom = _constant(value)
        if isinstance(atom, Tuple):
            var = Var("t", ty=atom.ty)
            table.bind(var, atom)
            atom = var
        args.append(atom)
    ty, _ = relate(op, [a.ty for a in args], attrs, [None if isinstance(i, tuple) else i for i in inputs])  # type: ignore[misc]
    known = table.bind(Var("y"), Call(op, tuple(args), attrs, ty=ty))
    if known is None:
        return None
    each = known if isinstance(ty, TupleType) else (known,)
    return [[None if e is None else d.const(e) for e in elements] for elements in each]


def _check(op: Op, inputs: tuple[Any, ...], attrs: Any) -> int:
    """Hold the elements that are known against the kernel's; their number."""
    known = _followed(op, inputs, attrs)
    if known is None:
        return 0
    flat = [x for i in inputs for x in (i if isinstance(i, tuple) else (i,))]
    dtypes = tuple(tuple(x.dtype.name for x in i) if isinstance(i, tuple) else i.dtype.name for i in inputs)
    if not op.is_legal(dtypes, attrs):
        return 0  # another call takes its place before there is a kernel
    group = one_call(op.name, inputs, attrs, static=True)
    if op.pattern is OpPattern.RESHAPE:
        status, wanted = 0, [flat[0]]
    else:
        status, wanted = evaluate(group, flat)
    if status:
        assert any(None in elements for elements in known), f"{op.name} fails, but all of its elements are known"
        return 0
    for elements, array in zip(known, wanted, strict=True):
        assert len(elements) == array.size
        for at, (element, number) in enumerate(zip(elements, array.reshape(-1).tolist(), strict=True)):
            assert element in (None, int(number)), f"{op.name}{attrs}: element {at} of {inputs}: {element}, the kernel {number}"
    return sum(e is not None for elements in known for e in elements)


def _edges(dtype: str) -> list[int]:
    if dtype == "bool":
        return [0, 1]
    low, high = int_range(dtype)
    return [0, high, high - 1, 1, 2, 5, 6, 7] if low == 0 else [low, high, -7, -1, 0, 2, 5, 6]


def _pairs(op: Op, dtype: str) -> Iterator[tuple[np.ndarray, ...]]:
    """The edges of a dtype, each with each; those at which the kernel fails apart."""
    x, y = (a.reshape(-1) for a in np.meshgrid(*(np.array(_edges(dtype), numpy_dtype(dtype)),) * 2))
    if len(op.inputs) == 1:
        yield (x,)
        return
    group = one_call(op.name, (x, y), op.attrs(), static=True)
    if evaluate(group, (x, y))[0] != DIVISION_BY_ZERO:
        yield x, y
        return
    yield x[y != 0], y[y != 0]
    yield x[y == 0], y[y == 0]


@pytest.mark.lengthy(dtype=["bool", "uint8", "int32"])
@pytest.mark.parametrize("dtype", WHOLE)
def test_edges(dtype: str) -> None:
    """Operators of one and two tensors at the least, the greatest and other telling numbers."""
    followed = []
    for op in PLAIN:
        try:
            op.dtype((dtype,) * len(op.inputs), op.attrs())
        except TypeRelError:
            continue
        if sum(_check(op, inputs, op.attrs()) for inputs in _pairs(op, dtype)):
            followed.append(op.name)
    wanted = {"bitwise_and", "bitwise_or", "bitwise_xor", "equal", "less", "where"} & {op.name for op in PLAIN}
    if dtype != "bool":
        wanted |= {"add", "subtract", "multiply", "floor_divide", "floor_mod", "trunc_divide", "maximum", "minimum"}
    assert wanted <= set(followed), "these are followed"


@pytest.mark.parametrize("source", WHOLE)
def test_conversions(source: str) -> None:
    op, values = get("cast"), np.array(_edges(source), numpy_dtype(source))
    for wanted in WHOLE:
        assert _check(op, (values,), op.attrs(wanted)) == len(values)


@pytest.mark.lengthy
def test_every_operator_as_its_recipe_calls_it() -> None:
    """Guards, selects, loads at computed places, reductions, several results."""
    followed = set()
    for op in COMPUTED:
        for dtype in tiers.some(dtypes_of(op.name), op.name, 3):
            for size, variant in (("odd", ()), ("one", ()), ("odd", np.random.default_rng(1).integers(0, 256, 64).tolist())):
                made = recipe_of(op.name).make(Draw(dtype, size, variant), op.name)
                if any(is_float(x.dtype.name) for x in made.flat) or isinstance(made.wanted, str):
                    continue
                if _check(op, made.inputs, attrs_of(op, made)):
                    followed.add(op.name)
    assert {"take", "strided_slice", "concatenate", "sum", "prod", "where", "split", "full", "tile"} <= followed


#: Relations and arithmetic as int64 has them.
_INT64: dict[str, Any] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "minimum": np.minimum, "maximum": np.maximum,
    "equal": np.equal, "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal, "greater": np.greater,
    "greater_equal": np.greater_equal, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip
_SIZES = st.sampled_from([0, 1, 3, 2**31, 2**32 + 1, 2**62, 2**63 - 1])


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_expressions_of_sizes_that_wrap(data: Any) -> None:
    """Facts about sums, products and comparisons of sizes hold for every size, also where int64 wraps."""
    sizes = {name: data.draw(_SIZES) for name in "nm"}
    pool = [(d.sym(name), np.int64(size)) for name, size in sizes.items()]
    pool += [(d.dim(v), np.int64(v)) for v in data.draw(st.lists(st.sampled_from([-1, 0, 2, 2**32, -(2**63)]), max_size=3))]
    for _ in range(data.draw(st.integers(1, 8))):
        function = data.draw(st.sampled_from(sorted(_INT64)))
        (a, x), (b, y) = (data.draw(st.sampled_from(pool)) for _ in range(2))
        with np.errstate(all="ignore"):
            wanted = _INT64[function](x, y)
        found = _apply(Apply(function, (), "int64" if wanted.dtype == np.int64 else "bool"), [a, b])
        if found is not None:
            assert (ops.evaluate(d.dim(found), sizes) - int(wanted)) % 2**64 == 0, (function, a, b)
            pool.append((d.dim(found), np.int64(wanted)))
