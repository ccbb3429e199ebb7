"""Random programs on which a pass has an effect, with numpy reference implementations of each operator."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from relayvm.compiler.ir.expr import Call, Constant, Expr, If, IRModule, Tuple, TupleGetItem, let_chain
from relayvm.compiler.passes.expand_composites import expand_composites
from relayvm.compiler.passes.infer_type import infer_type
from relayvm.compiler.passes.to_a_normal_form import to_a_normal_form
from relayvm.compiler.text.parser import parse
from relayvm.ops.core.op import Op
from relayvm.ops.core.tensor_types import numpy_dtype

# ---- semantics of a program ---------------------------------------------------------------------------------------


def _larger(x: Any, y: Any) -> Any:
    return np.where((x > y) | (x != x), x, y).astype(x.dtype)


def _smaller(x: Any, y: Any) -> Any:
    return np.where((x < y) | (x != x), x, y).astype(x.dtype)


def _clip(x: Any, attrs: Any) -> Any:
    low, high = attrs.a_min, attrs.a_max
    if x.dtype.kind in "iu":
        low, high = np.ceil(low), np.floor(high)
    return _smaller(_larger(x, np.array(low, x.dtype)), np.array(high, x.dtype))


def _slice(x: Any, attrs: Any) -> Any:
    axes = range(len(attrs.begin)) if attrs.axes is None else attrs.axes
    strides = attrs.strides * len(attrs.begin) if len(attrs.strides) == 1 else attrs.strides
    at = [slice(None)] * x.ndim
    for axis, b, e, s in zip(axes, attrs.begin, attrs.end, strides, strict=True):
        at[axis] = slice(b, e, s)
    return x[tuple(at)]


def _viewed(x: Any, newshape: Any) -> Any:
    """A reshape: 0 keeps a size, -1 is the rest; numpy cannot infer the rest of an empty tensor."""
    kept = [k for k, n in enumerate(newshape) if n == 0]
    rest = math.prod(d for k, d in enumerate(x.shape) if k not in kept) // math.prod(n for n in newshape if n > 0)
    return x.reshape([x.shape[k] if n == 0 else rest if n == -1 else n for k, n in enumerate(newshape)])


def _reshape(x: Any, attrs: Any) -> Any:
    """A reshape whose ``newshape`` may have -3, the product of two axes, and -4, a size that two sizes behind it split."""
    newshape, sizes, axes, codes = list[int](), list[int](), list(x.shape), iter(attrs.newshape)
    for n in codes:
        size = axes.pop(0) if axes else 1
        if n == -4:
            one, other = next(codes), next(codes)
            sizes += [size // other if one == -1 else one, size // one if other == -1 else other]
            newshape += [0, 0]
        else:
            sizes.append(size * axes.pop(0) if n == -3 else size)
            newshape.append(0 if n == -3 else n)
    return _viewed(x.reshape([*sizes, *axes]), newshape)


def _split(x: Any, attrs: Any) -> Any:
    how = attrs.indices_or_sections
    return tuple(np.split(x, how if isinstance(how, int) else list(how), attrs.axis))


def _topk(x: Any, attrs: Any) -> Any:
    order = np.argsort(-x, axis=-1, kind="stable")[..., : attrs.k]
    values, positions = np.take_along_axis(x, order, -1), order.astype(attrs.dtype)
    return {"both": (values, positions), "values": values, "indices": positions}[attrs.ret_type]


def _bias_add(x: Any, bias: Any, attrs: Any) -> Any:
    return x + bias.reshape([-1 if k == attrs.axis % x.ndim else 1 for k in range(x.ndim)])


def _dyn_reshape(x: Any, shape: Any, attrs: Any) -> Any:
    return _viewed(x, shape.tolist())


#: By the operator's name: ``(*arguments, attrs) -> result``.
MEANING: dict[str, Callable[..., Any]] = {
    "add": lambda x, y, a: x + y,
    "subtract": lambda x, y, a: x - y,
    "multiply": lambda x, y, a: x * y,
    "divide": lambda x, y, a: x / y,
    "negative": lambda x, a: -x,
    "abs": lambda x, a: np.abs(x),
    "floor": lambda x, a: np.floor(x),
    "ceil": lambda x, a: np.ceil(x),
    "exp": lambda x, a: np.exp(x),
    "copy": lambda x, a: x,
    "nn.relu": lambda x, a: _larger(x, np.zeros((), x.dtype)),
    "maximum": lambda x, y, a: _larger(x, y),
    "minimum": lambda x, y, a: _smaller(x, y),
    "left_shift": lambda x, y, a: x << y,
    "bitwise_and": lambda x, y, a: x & y,
    "bitwise_or": lambda x, y, a: x | y,
    "bitwise_xor": lambda x, y, a: x ^ y,
    "bitwise_not": lambda x, a: ~x,
    "logical_not": lambda x, a: ~x,
    "logical_and": lambda x, y, a: x & y,
    "logical_or": lambda x, y, a: x | y,
    "less": lambda x, y, a: x < y,
    "where": lambda c, x, y, a: np.where(c, x, y),
    "zeros_like": lambda x, a: np.zeros_like(x),
    "clip": _clip,
    "cast": lambda x, a: x.astype(numpy_dtype(a.dtype)),
    "transpose": lambda x, a: np.transpose(x, a.axes),
    "reshape": _reshape,
    "reshape_like": lambda x, y, a: x.reshape(y.shape),
    "nn.batch_flatten": lambda x, a: x.reshape(x.shape[0], int(np.prod(x.shape[1:]))),
    "squeeze": lambda x, a: np.squeeze(x, a.axis),
    "expand_dims": lambda x, a: np.expand_dims(x, a.axis),
    "tile": lambda x, a: np.tile(x, a.reps),
    "repeat": lambda x, a: np.repeat(x, a.repeats, a.axis),
    "broadcast_to_like": lambda x, y, a: np.broadcast_to(x, y.shape),
    "strided_slice": _slice,
    "concatenate": lambda parts, a: np.concatenate(parts, a.axis),
    "split": _split,
    "topk": _topk,
    "shape_of": lambda x, a: np.array(x.shape, a.dtype),
    "take": lambda x, i, a: np.take(x, i, a.axis, mode="clip"),
    "prod": lambda x, a: np.prod(x, dtype=x.dtype),
    "ones": lambda a: np.ones(a.shape, a.dtype),
    "dyn.reshape": _dyn_reshape,
    "nn.dense": lambda x, w, a: (x @ w.T).astype(numpy_dtype(a.out_dtype) if a.out_dtype else x.dtype),
    "nn.bias_add": _bias_add,
}


def run(mod: IRModule, *arguments: Any) -> Any:
    """The result of ``main`` on numpy arrays."""
    main = mod["main"]
    with np.errstate(all="ignore"):
        return _chain(main.body, dict(zip(main.params, arguments, strict=True)))


def _chain(chain: Expr, known: dict[Expr, Any]) -> Any:
    bindings, result = let_chain(chain)
    for var, value in bindings:
        known[var] = _value(value, known)
    return _atom(result, known)


def _atom(atom: Expr, known: dict[Expr, Any]) -> Any:
    return atom.data if isinstance(atom, Constant) else known[atom]


def _value(value: Expr, known: dict[Expr, Any]) -> Any:
    match value:
        case Tuple():
            return tuple(_atom(f, known) for f in value.fields)
        case TupleGetItem():
            return _atom(value.tuple_value, known)[value.index]
        case If():
            return _chain(value.true_branch if _atom(value.cond, known) else value.false_branch, known)
        case Call(op=Op() as op):
            result = MEANING[op.name](*(_atom(a, known) for a in value.args), value.attrs)
            return result if isinstance(result, tuple) else np.asarray(result)
    return _atom(value, known)


def same(a: Any, b: Any) -> bool:
    """Bitwise equality, except for the payload of NaNs."""
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(map(same, a, b))
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind != "f":
        return bool(np.array_equal(a, b))
    return bool(np.array_equal(a, b, equal_nan=True)) and bool(np.all((np.signbit(a) == np.signbit(b)) | np.isnan(a)))


# ---- programs --------------------------------------------------------------------------------------------------------

#: The type of each kind of value; ``{}`` are values of the kinds named.
KINDS = {
    "m": "Tensor[(?n, 4), float32]",
    "i": "Tensor[(?n), int32]",
    "b": "Tensor[(?n), bool]",
    "t": "Tensor[(4, ?n), float32]",
    "c": "Tensor[(?n, 2, 2), float32]",
    "s": "Tensor[(2), int64]",
    "k": "int64",
}
#: ``(kind of the result, text, kinds of the arguments)``.
FORMS = [
    *[("m", text, "m") for text in (
        "add({}, 0f)", "add(-0f, {})", "multiply({}, 1f)", "subtract({}, 0f)", "divide({}, 1f)", "negative({})", "abs({})",
        "floor({})", "ceil({})", "nn.relu({})", "copy({})", "clip({}, a_min=-1, a_max=2)", "clip({}, a_min=0, a_max=5)",
        "clip({}, a_min=3, a_max=4)", "cast(cast({}, dtype=\"float64\"), dtype=\"float32\")", "tile({}, reps=[1, 1])",
        "squeeze(expand_dims({}, axis=1), axis=[1])", "concatenate(({},), axis=1)", "repeat({}, repeats=1, axis=0)",
        "strided_slice({}, begin=[0], end=[9223372036854775807])",
        "strided_slice({}, begin=[-1, 3], end=[-99, -99], strides=[-1])",
        "reshape(reshape({}, newshape=[-1, 2]), newshape=[-1, 4])", "multiply({}, 0f)", "reshape({}, newshape=[0, -1])",
    )],
    *[("m", text, "mm") for text in (
        "add({}, {})", "maximum({}, {})", "subtract({}, {})", "multiply({}, {})", "broadcast_to_like({}, {})",
        "minimum({}, {})",
    )],
    ("m", "transpose({})", "t"), ("t", "transpose({})", "m"), ("t", "transpose({}, axes=[0, 1])", "t"),
    ("t", "add(transpose({}), {})", "mt"), ("m", "nn.batch_flatten({})", "c"), ("m", "reshape_like({}, {})", "cm"),
    ("c", "reshape({}, newshape=[0, 2, 2])", "m"), ("c", "transpose({}, axes=[0, 2, 1])", "c"),
    ("c", "transpose(transpose({}, axes=[2, 0, 1]), axes=[1, 2, 0])", "c"),
    *[("i", text, "i") for text in (
        "add({}, 0i32)", "multiply(1i32, {})", "multiply({}, 0i32)", "negative({})", "abs({})", "bitwise_not({})",
        "left_shift({}, 0i32)", "bitwise_and({}, -1i32)", "bitwise_or(0i32, {})", "floor({})", "clip({}, a_min=0.5, a_max=9)",
        "cast(cast({}, dtype=\"int64\"), dtype=\"int32\")", "cast(cast({}, dtype=\"int8\"), dtype=\"int32\")",
        "cast(cast({}, dtype=\"float64\"), dtype=\"int32\")",
    )],
    ("i", "subtract({}, {})", "ii"), ("i", "bitwise_xor({}, {})", "ii"), ("i", "where({}, {}, {})", "bii"),
    ("b", "less({}, {})", "ii"), ("b", "logical_not({})", "b"), ("b", "logical_and({}, True)", "b"),
    ("b", "logical_or({}, {})", "bb"), ("b", "logical_and({}, {})", "bb"),
    ("s", "shape_of({}, dtype=\"int64\")", "m"), ("s", "shape_of({}, dtype=\"int64\")", "t"),
    ("s", "strided_slice(shape_of({}, dtype=\"int64\"), begin=[1], end=[3])", "c"),
    ("s", "concatenate((strided_slice({}, begin=[0], end=[1]), strided_slice({}, begin=[1], end=[2])), axis=0)", "ss"),
    ("s", "multiply({}, {})", "ss"), ("s", "subtract({}, {})", "ss"), ("s", "add({}, {})", "sk"),
    ("k", "take({}, 1i64)", "s"), ("k", "take({}, 0i64)", "s"), ("k", "prod({})", "s"), ("k", "maximum({}, {})", "kk"),
    ("k", "ndarray_size({}, dtype=\"int64\")", "c"),
    ("m", 'dyn.reshape({}, concatenate((strided_slice(shape_of({}, dtype="int64"), begin=[0], end=[1]), '
     'expand_dims(4i64, axis=0)), axis=0))', "mm"),
]  # fmt: skip
#: Values of which a part is used.
TUPLES = [
    ("m", 'if (less({}, 3i64)) {{ ({}, exp({})) }} else {{ ({}, {}) }}', "kmmmm", 2),
    ("t", "split(concatenate(({}, {}), axis=0), indices_or_sections=2)", "tt", 2),
    ("t", "split(concatenate(({}, {}), axis=0), indices_or_sections=[4])", "tt", 2),
]  # fmt: skip


@st.composite
def programs(draw: st.DrawFn, most: int = 12) -> str:
    """A program over values of all kinds, whose result holds the last of each."""
    pool = {kind: [f"%{kind}"] for kind in KINDS}
    lines = []
    for n in range(draw(st.integers(1, most))):
        if draw(st.integers(0, 6)) == 0:
            kind, text, kinds, count = draw(st.sampled_from(TUPLES))
            name = f"%v{n}.{draw(st.integers(0, count - 1))}"
        else:
            kind, text, kinds = draw(st.sampled_from(FORMS))
            name = f"%v{n}"
        # the newest values more often: chains are what a pass looks for
        args = [pool[k][-1] if draw(st.integers(0, 2)) else draw(st.sampled_from(pool[k])) for k in kinds]
        lines.append(f"let %v{n} = {text.format(*args)};")
        pool[kind].append(name)
    params = ", ".join(f"%{kind}: {ty}" for kind, ty in KINDS.items())
    return f"def @main({params}) {{ {' '.join(lines)} ({', '.join(names[-1] for names in pool.values())}) }}"


def typed(text: str) -> IRModule:
    """The program in typed A-normal form, without composite operators."""
    return expand_composites(infer_type(to_a_normal_form(parse('#[version = "0.0.5"]\n' + text))))


def arguments(rows: int, seed: int) -> list[np.ndarray]:
    """An argument of each kind, including numbers that are special in arithmetic."""
    rng = np.random.default_rng(seed)

    def floats(*shape: int) -> np.ndarray:
        special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.5, 2.5, 1e30, 1e-42], np.float32)
        return rng.choice(special, shape)

    ints = rng.choice(np.array([0, 1, -1, 7, 200, 2**31 - 1, -(2**31)], np.int32), rows)
    return [
        floats(rows, 4), ints, rng.integers(0, 2, rows).astype(bool), floats(4, rows), floats(rows, 2, 2),
        rng.integers(-3, 9, 2), np.array(rng.integers(0, 6)),
    ]  # fmt: skip
