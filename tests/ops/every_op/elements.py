"""Recipes of operators that map elements, one by one or several under broadcasting, and of reductions."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special

from relayvm.ops.core.tensor_types import is_float, numpy_dtype

from .drawing import Draw, wide
from .recipe import Call, call, recipe

Function = Callable[..., Any]


def _leaky(x: Any) -> Any:
    return np.where(x < 0, x * 0.05, x)


#: Name: numpy's function, least and greatest element.
ONE: dict[str, tuple[Function, int, int]] = {
    "abs": (np.abs, -4, 4),
    "sign": (np.sign, -4, 4),
    "negative": (np.negative, -4, 4),
    "exp": (np.exp, -4, 4),
    "log": (np.log, 1, 6),
    "log2": (np.log2, 1, 6),
    "log10": (np.log10, 1, 6),
    "sqrt": (np.sqrt, 0, 9),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 1, 9),
    "sin": (np.sin, -4, 4),
    "cos": (np.cos, -4, 4),
    "tan": (np.tan, -1, 1),
    "sinh": (np.sinh, -4, 4),
    "cosh": (np.cosh, -4, 4),
    "tanh": (np.tanh, -4, 4),
    "asin": (np.arcsin, -1, 1),
    "acos": (np.arccos, -1, 1),
    "atan": (np.arctan, -4, 4),
    "asinh": (np.arcsinh, -4, 4),
    "acosh": (np.arccosh, 1, 6),
    "atanh": (np.arctanh, 0, 0),
    "erf": (scipy.special.erf, -4, 4),
    "sigmoid": (scipy.special.expit, -4, 4),
    "fast_exp": (np.exp, -4, 4),
    "fast_tanh": (np.tanh, -4, 4),
    "fast_erf": (scipy.special.erf, -4, 4),
    "floor": (np.floor, -4, 4),
    "ceil": (np.ceil, -4, 4),
    "trunc": (np.trunc, -4, 4),
    "round": (lambda x: np.trunc(x + np.copysign(0.5, x)), -4, 4),
    "rint": (np.rint, -4, 4),
    "logical_not": (np.logical_not, 0, 1),
    "bitwise_not": (np.invert, -4, 4),
    "isnan": (np.isnan, -4, 4),
    "isinf": (np.isinf, -4, 4),
    "isfinite": (np.isfinite, -4, 4),
    "nn.relu": (lambda x: np.maximum(x, 0), -4, 4),
    "nn.leaky_relu": (_leaky, -4, 4),
    "copy": (lambda x: x, -4, 4),
    "zeros_like": (np.zeros_like, -4, 4),
    "ones_like": (np.ones_like, -4, 4),
}


@recipe(*ONE)
def one(d: Draw, name: str) -> Call:
    function, low, high = ONE[name]
    x = d.array(d.shape(), low=low, high=high)
    return call([x], lambda: function(wide(x)))


@recipe("cast")
def cast(d: Draw, name: str) -> Call:
    x = d.array(d.shape())
    # a negative number has no defined unsigned form
    to = d.pick("float32", "int64", "bool", "float16", "bfloat16", "float64")
    values = wide(x)
    if not is_float(to) and to != "bool":
        values = np.trunc(values) if is_float(d.dtype) else values
    return call([x], values.astype(numpy_dtype(to)), dtype=to)


@recipe("clip")
def clip(d: Draw, name: str) -> Call:
    x = d.array(d.shape())
    low, high = d.pick((-2.0, 3.0), (0.0, 2.0), (1.0, 1.0))
    least = max(low, 0) if d.dtype.startswith("u") else low
    return call([x], lambda: np.clip(wide(x), least, high), a_min=low, a_max=high)


@recipe("cast_like")
def cast_like(d: Draw, name: str) -> Call:
    x = d.array(d.shape())
    like = d.array(x.shape, "float32")
    return call([x, like], wide(x).astype(np.float32))


@recipe("reinterpret")
def reinterpret(d: Draw, name: str) -> Call:
    size = numpy_dtype(d.dtype).itemsize
    to = {1: "uint8", 2: "uint16", 4: "int32", 8: "int64"}[size]
    x = d.array(d.shape())
    return call([x], x.view(to) if x.ndim else x.reshape(1).view(to).reshape(()), dtype=to)


# ---- broadcasting ----------------------------------------------------------------------------------------------------


def _divide(x: Any, y: Any) -> Any:
    return np.trunc(x / y).astype(x.dtype) if x.dtype.kind in "iu" else x / y


#: Name: numpy's function, and the range of the right side.
TWO: dict[str, tuple[Function, int, int]] = {
    "add": (np.add, -4, 4),
    "subtract": (np.subtract, -4, 4),
    "multiply": (np.multiply, -4, 4),
    "divide": (_divide, 1, 4),
    "trunc_divide": (lambda x, y: np.trunc(x / y), 1, 4),
    "floor_divide": (lambda x, y: np.floor(x / y), 1, 4),
    "mod": (np.fmod, 1, 4),
    "trunc_mod": (np.fmod, 1, 4),
    "floor_mod": (np.mod, 1, 4),
    "power": (lambda x, y: np.power(np.abs(x), y), -2, 2),
    "maximum": (np.maximum, -4, 4),
    "minimum": (np.minimum, -4, 4),
    "equal": (np.equal, -1, 1),
    "not_equal": (np.not_equal, -1, 1),
    "less": (np.less, -4, 4),
    "less_equal": (np.less_equal, -4, 4),
    "greater": (np.greater, -4, 4),
    "greater_equal": (np.greater_equal, -4, 4),
    "logical_and": (np.logical_and, 0, 1),
    "logical_or": (np.logical_or, 0, 1),
    "logical_xor": (np.logical_xor, 0, 1),
    "bitwise_and": (np.bitwise_and, -4, 4),
    "bitwise_or": (np.bitwise_or, -4, 4),
    "bitwise_xor": (np.bitwise_xor, -4, 4),
    "left_shift": (np.left_shift, 0, 3),
    "right_shift": (np.right_shift, 0, 3),
}


def near(d: Draw, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts with ``shape``: the same, or shorter, or with ones."""
    kept = shape[d.pick(0, 1) if shape else 0 :]
    return tuple(d.pick(n, 1) for n in kept)


@recipe(*TWO)
def two(d: Draw, name: str) -> Call:
    function, low, high = TWO[name]
    shape = d.shape()
    x, y = d.array(shape, low=1 if name == "power" else -4), d.array(near(d, shape), low=low, high=high)
    if name in ("floor_divide", "floor_mod", "mod", "trunc_mod", "trunc_divide") and is_float(d.dtype):
        # whole numbers and a half: a rounding before the floor would be a difference of 1
        x, y = (np.round(wide(v)).astype(v.dtype) for v in (x, y))
    return call([x, y], lambda: function(wide(x), wide(y)))


@recipe("where")
def where(d: Draw, name: str) -> Call:
    shape = d.shape()
    c, x, y = d.array(shape, "bool"), d.array(near(d, shape)), d.array(near(d, shape))
    return call([c, x, y], np.where(c, wide(x), wide(y)))


@recipe("broadcast_to", "broadcast_to_like", "dyn.broadcast_to", by_width=True)
def broadcast_to(d: Draw, name: str) -> Call:
    target = d.shape()
    x = d.array(near(d, target))
    wanted = np.broadcast_to(x, target)
    if name == "broadcast_to":
        return call([x], wanted, shape=target)
    return call([x, np.array(target, "int64") if name.startswith("dyn.") else d.array(target)], wanted)


@recipe("nn.bias_add")
def bias_add(d: Draw, name: str) -> Call:
    x = d.array(d.shape(1))
    axis = d.axis(x.ndim)
    bias = d.array((x.shape[axis],))
    spread = bias.reshape([-1 if k == axis % x.ndim else 1 for k in range(x.ndim)])
    return call([x, bias], lambda: wide(x) + wide(spread), axis=axis)


@recipe("full_like", by_width=True)
def full_like(d: Draw, name: str) -> Call:
    x, value = d.array(d.shape()), d.array((), high=9)
    return call([x, value], np.full(x.shape, wide(value)))


# ---- reductions ------------------------------------------------------------------------------------------------------


def _reduce(function: Function) -> Function:
    return lambda x, axes, keepdims: function(x, axis=axes, keepdims=keepdims)


def _position(function: Function) -> Function:
    """Counted over the folded axes, in order."""

    def apply(x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
        kept = [k for k in range(x.ndim) if k not in axes]
        count = math.prod(x.shape[k] for k in axes)
        moved = x.transpose([*kept, *sorted(axes)]).reshape([*(x.shape[k] for k in kept), count])
        found = function(moved, axis=-1)
        return np.expand_dims(found, tuple(sorted(axes))) if keepdims else found

    return apply


def _logsumexp(x: np.ndarray, axis: Any, keepdims: bool) -> np.ndarray:
    return np.log(np.sum(np.exp(x), axis=axis, keepdims=keepdims))


REDUCE: dict[str, Function] = {
    "sum": _reduce(np.sum),
    "prod": _reduce(np.prod),
    "max": _reduce(np.max),
    "min": _reduce(np.min),
    "all": _reduce(np.all),
    "any": _reduce(np.any),
    "mean": _reduce(np.mean),
    "variance": _reduce(np.var),
    "std": _reduce(np.std),
    "logsumexp": _reduce(_logsumexp),
    "argmax": _position(np.argmax),
    "argmin": _position(np.argmin),
}
#: An empty axis has none of these.
_OF_SOMETHING = ("max", "min", "argmax", "argmin")


def folded_axes(d: Draw, rank: int) -> tuple[dict[str, Any], tuple[int, ...]]:
    """The attributes of a reduction, and the axes that it folds."""
    kind = d.pick("last", "all", "some", "others") if rank else "all"
    keepdims = d.pick(False, True)
    if kind == "all":
        return {"keepdims": keepdims}, tuple(range(rank))
    given = {"last": (rank - 1,), "some": (0, -1) if rank > 1 else (0,), "others": (0,)}[kind]
    exclude = kind == "others"
    axes = sorted({a % rank for a in given})
    return {"axis": given, "keepdims": keepdims, "exclude": exclude}, tuple(k for k in range(rank) if (k in axes) is not exclude)


@recipe(*REDUCE)
def reduction(d: Draw, name: str) -> Call:
    shape = d.shape(high=3)
    x = d.array(shape, low=-2, high=2)
    if name == "prod":
        # signs and a few twos: the product stays in every dtype's range
        x = np.where(d.rng.random(shape) < 0.5, 1, 1 if d.dtype.startswith("u") else -1).astype(x.dtype)
    if name.startswith("arg") or name in ("max", "min"):
        x = d.distinct(shape) if d.dtype in ("float32", "float64", "int32", "int64") else x
    attrs, axes = folded_axes(d, len(shape))
    if name == "std" and d.pick(False, True):
        unbiased = functools.partial(np.std, wide(x), axis=axes, keepdims=attrs["keepdims"], ddof=1)
        return call([x], unbiased, tolerance=10, unbiased=True, **attrs)
    return call([x], lambda: folded(name, x, axes, attrs["keepdims"]), tolerance=10, **attrs)


def folded(name: str, x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> Any:
    """The reduction, or that an empty axis has none."""
    if name in ("sum", "prod") and x.dtype.kind in "iu":
        return getattr(np, name)(x, axis=axes, keepdims=keepdims, dtype=x.dtype)
    if name == "sum" and x.dtype == bool:
        return np.any(x, axis=axes, keepdims=keepdims)
    whole = name == "mean" and x.dtype.kind in "iu"
    if not (name in _OF_SOMETHING or whole) or 0 not in [x.shape[k] for k in axes]:
        found = REDUCE[name](wide(x), axes, keepdims)
        return np.trunc(found).astype(x.dtype) if whole else found
    kept = [1 if k in axes else n for k, n in enumerate(x.shape) if keepdims or k not in axes]
    if 0 in kept:
        return np.zeros(kept, x.dtype)
    return "integer division by zero" if whole else "empty axis"
