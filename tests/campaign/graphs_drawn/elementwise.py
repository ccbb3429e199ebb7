"""Nodes that compute element by element, reductions and products."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import helper

from .drawing import FLOATS, INTEGERS, Drawing

Maker = Callable[[Drawing], object]
NUMBERS = tuple(dict.fromkeys((*FLOATS, *INTEGERS)))
WIDE = ("float32", "float64", "int32", "int64")
_EXACT = ("Abs", "Neg", "Relu", "Identity", "Sign")
_STEPS = ("Floor", "Ceil", "Round")
_SMOOTH = (
    "Sigmoid", "Tanh", "Exp", "Erf", "Softplus", "Softsign", "Elu", "Selu", "LeakyRelu", "HardSigmoid", "HardSwish", "Celu",
    "Sin", "Cos", "Atan", "Asinh", "Mish", "Gelu", "ThresholdedRelu", "Shrink",
)  # fmt: skip
_SINCE = {"Mish": 18, "Gelu": 20}


def unary(d: Drawing) -> None:
    """A function of one value."""
    form = d.r.random()
    if form < 0.35:
        op = d.r.choice(_EXACT)
        x = d.pick(("float32", "float64", "float16", "int32", "int64", "int8") if op != "Identity" else ())
        if op == "Relu":
            x = d.pick(FLOATS)
        d.node(op, [x])
    elif form < 0.5:
        d.node(d.r.choice(_STEPS), [d.pick(FLOATS, exact=True)])
    else:
        op = d.r.choice(_SMOOTH)
        attrs = {"Elu": ("alpha",), "LeakyRelu": ("alpha",), "Celu": ("alpha",), "HardSigmoid": ("alpha", "beta")}.get(op, ())
        if d.opset >= _SINCE.get(op, 0):
            exact = op in ("Shrink", "ThresholdedRelu")
            d.node(
                op,
                [d.pick(FLOATS, exact=exact)],
                exact=exact,
                **{a: d.r.choice((0.25, 0.5, 1.0)) for a in attrs if d.r.random() < 0.6},
            )


def guarded(d: Drawing) -> None:
    """A function of positive numbers: of 1 plus a magnitude."""
    x = d.pick(FLOATS)
    (a,) = d.node("Abs", [x])
    (b,) = d.node("Add", [a, d.constant(1, d.values[x].dtype)])
    d.node(d.r.choice(("Sqrt", "Log", "Reciprocal")), [b], exact=False)


def binary(d: Drawing) -> None:
    """Arithmetic of two values that broadcast."""
    op = d.r.choice(("Add", "Sub", "Mul", "Add", "Mul", "Min", "Max", "Div", "Mod", "Sum", "Mean", "PRelu", "Pow"))
    x = d.pick(FLOATS if op in ("Mean", "Sum", "PRelu", "Pow") else NUMBERS if op not in ("Div", "Mod") else WIDE)
    dtype = d.values[x].dtype
    if op == "Div":
        d.node(op, [x, d.constant(d.r.choice((2, 4, 1)) if "int" not in dtype else d.r.choice((1, 2, 3)), dtype)], exact=False)
    elif op == "Mod":
        floats = "float" in dtype
        if floats:
            x = d.pick((dtype,), exact=True)
        d.node(op, [x, d.constant(d.r.choice((2, 3, 5)), dtype)], fmod=int(floats or d.r.random() < 0.3))
    elif op == "Pow":
        d.node(op, [x, d.constant(d.r.choice((2, 3, 1)), d.r.choice((dtype, "int64")))], exact=False)
    elif op in ("Sum", "Min", "Max", "Mean"):
        listed = [x, *(d.like(x) for _ in range(d.r.choice((0, 1, 1, 2))))]
        d.node(op, listed, exact=False if op == "Mean" else None)
    else:
        y = d.like(x)
        d.node(op, [x, y] if op == "PRelu" or d.r.random() < 0.5 else [y, x])


def comparison(d: Drawing) -> None:
    """Comparisons of exact values, and logic."""
    form = d.r.random()
    if form < 0.5:
        x = d.pick(("float32", "float64", "int32", "int64"), exact=True)
        y = d.like(x)
        if d.values[y].exact:
            d.node(d.r.choice(("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")), [x, y])
    elif form < 0.7:
        x = d.pick(("bool",))
        d.node(d.r.choice(("And", "Or", "Xor")), [x, d.like(x)])
    elif form < 0.8:
        d.node("Not", [d.pick(("bool",))])
    elif form < 0.9:
        x = d.pick(("int32", "int64", "uint8"))
        op = d.r.choice(("BitwiseAnd", "BitwiseOr", "BitwiseXor"))
        if d.opset >= 18:
            d.node(op, [x, d.like(x)])
    else:
        d.node(d.r.choice(("IsNaN", "IsInf")), [d.pick(("float32", "float64"))])


def where(d: Drawing) -> None:
    """A selection by a mask."""
    x = d.pick(("float32", "float64", "int64", "int32"))
    shape = d.values[x].array.shape
    mask = d.constant(d.numbers("bool", shape), "bool")
    if d.r.random() < 0.6 and d.values[x].exact:
        (mask,) = d.node("Greater", [x, d.constant(0, d.values[x].dtype)])
    d.node("Where", [mask, x, d.like(x)])


def clip(d: Drawing) -> None:
    """Bounds, each of which may be left out."""
    x = d.pick(("float32", "float64", "int32", "int64"))
    dtype = d.values[x].dtype
    low = d.constant(-2, dtype) if d.r.random() < 0.7 else ""
    d.node("Clip", [x, low, *([d.constant(d.r.choice((3, -3)), dtype)] if d.r.random() < 0.7 else [])])


def cast(d: Drawing) -> None:
    """Another dtype, of exact values where it rounds."""
    x = d.pick(exact=True)
    v = d.values[x]
    small = not v.array.size or (v.array.astype("float64").max() < 120 and v.array.astype("float64").min() > -120)
    kinds = ["float32", "float64", "int64", "int32", "bool"] + (["float16", "int8"] if small else [])
    to = d.r.choice(kinds)
    if d.r.random() < 0.2:
        other = d.pick()
        if d.values[other].dtype in kinds:
            d.node("CastLike", [x, other])
        return
    d.node("Cast", [x], to=helper.np_dtype_to_tensor_dtype(np.dtype(to)))


_SUMS = (
    "ReduceSum", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceProd",
    "ReduceLogSumExp", "ReduceLogSum",
)  # fmt: skip


def reduction(d: Drawing) -> None:
    """A reduction over some axes, all, or none."""
    op = d.r.choice(_SUMS)
    exact = op in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceSumSquare", "ReduceProd")
    kinds = ("float32", "float64", "int32", "int64") if exact or op == "ReduceMean" else ("float32", "float64")
    x = d.pick(kinds, full=op in ("ReduceMax", "ReduceMin", "ReduceMean", "ReduceLogSumExp", "ReduceLogSum"))
    if op == "ReduceLogSum":
        (x,) = d.node("Abs", [x])
        (x,) = d.node("Add", [x, d.constant(1, d.values[x].dtype)])
    rank = d.values[x].rank
    axes = d.r.sample(range(rank), d.r.randrange(rank + 1))
    axes = [a if d.r.random() < 0.7 else a - rank for a in axes]
    attrs = {"keepdims": d.r.randrange(2)} if d.r.random() < 0.7 else {}
    if d.opset >= 18 or op == "ReduceSum":
        if d.r.random() < 0.2:
            attrs["noop_with_empty_axes"] = d.r.randrange(2)
        d.node(op, [x, *([d.constant(axes)] if axes or d.r.random() < 0.3 else [])], exact=None if exact else False, **attrs)
    else:
        d.node(op, [x], exact=None if exact else False, **attrs, **({"axes": axes} if axes else {}))


def search(d: Drawing) -> None:
    """Places of extremes, sorted values, places of what is not 0."""
    form = d.r.random()
    x = d.pick(("float32", "int64", "float64", "int32"), exact=True, least=1)
    if form < 0.4:
        d.node(
            d.r.choice(("ArgMax", "ArgMin")), [x], axis=d.axis(x), keepdims=d.r.randrange(2), select_last_index=d.r.randrange(2)
        )
    elif form < 0.6:
        axis = d.axis(x)
        size = d.values[x].array.shape[axis]
        k = d.constant([d.r.randint(0, min(size, 3))])
        d.node("TopK", [x, k], 2, axis=axis, largest=d.r.randrange(2), sorted=1)
    elif form < 0.8:
        d.node("NonZero", [d.pick(("float32", "int64", "bool", "int32"), exact=True, least=1)])
    elif form < 0.9:
        d.node("Unique", [d.pick(("float32", "int64"), exact=True, rank=1)], d.r.choice((1, 2, 3, 4)), sorted=1)
    else:
        d.node("CumSum", [x, d.constant(d.axis(x))], exclusive=d.r.randrange(2), reverse=d.r.randrange(2))


MAKERS: dict[Maker, float] = {
    unary: 3, guarded: 0.6, binary: 4, comparison: 1.6, where: 1, clip: 0.7, cast: 1.3, reduction: 2.2, search: 1.4,
}  # fmt: skip
