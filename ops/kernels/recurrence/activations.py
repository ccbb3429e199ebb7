"""Activations of recurrences, over a range of elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from ...codegen.loop_nest.vector_math import exp_float32, tanh_float32
from ...native.memory import Array, Axes, Element, generic

#: ONNX's names, in the order of their codes, each with its parameters alpha and beta where none are given.
ACTIVATIONS: dict[str, tuple[float, float]] = {
    "Sigmoid": (0.0, 0.0),
    "Tanh": (0.0, 0.0),
    "Relu": (0.0, 0.0),
    "Affine": (1.0, 0.0),
    "LeakyRelu": (0.01, 0.0),
    "ThresholdedRelu": (1.0, 0.0),
    "ScaledTanh": (1.0, 1.0),
    "HardSigmoid": (0.2, 0.5),
    "Elu": (1.0, 0.0),
    "Softsign": (0.0, 0.0),
    "Softplus": (0.0, 0.0),
}
SIGMOID, TANH, RELU, AFFINE, LEAKY, THRESHOLDED, SCALED_TANH, HARD_SIGMOID, ELU, SOFTSIGN, SOFTPLUS = range(len(ACTIVATIONS))


@generic
def exp_float64(x: Element) -> float:
    """``e ** x``."""
    return math.exp(x)


@generic
def tanh_float64(x: Element) -> float:
    """The hyperbolic tangent."""
    return math.tanh(x)


class RealFunctions(NamedTuple):
    """The exponential and the hyperbolic tangent of a dtype."""

    exponential: Callable[..., Any]
    tangent: Callable[..., Any]


class Activations(NamedTuple):
    """Activations by number: their codes and parameters, and the bound of their arguments, 0 for none."""

    codes: Axes
    alphas: tuple[float, ...]
    betas: tuple[float, ...]
    clip: float


REAL_FUNCTIONS: dict[str, RealFunctions] = {
    "float32": RealFunctions(exp_float32, tanh_float32),
    "float64": RealFunctions(exp_float64, tanh_float64),
}


@generic
def limit(x: Array, at: int, count: int, clip: float) -> None:
    """Clip ``count`` elements from ``at`` on to ``[-clip, clip]``, unless ``clip`` is 0."""
    if clip > 0.0:
        top = x.dtype.type(clip)
        for k in range(at, at + count):
            x[k] = min(max(x[k], -top), top)


@generic
def activate(x: Array, at: int, count: int, code: int, alpha: float, beta: float, real: RealFunctions) -> None:
    """Apply the activation ``code`` to ``count`` elements from ``at`` on."""
    exponential, tangent = real
    one, a, b = x.dtype.type(1), x.dtype.type(alpha), x.dtype.type(beta)
    zero = x.dtype.type(0)
    if code == SIGMOID:
        for k in range(at, at + count):
            x[k] = one / (one + exponential(-x[k]))
    elif code == TANH:
        for k in range(at, at + count):
            x[k] = tangent(x[k])
    elif code == RELU:
        for k in range(at, at + count):
            x[k] = x[k] if x[k] > zero or x[k] != x[k] else zero
    else:
        for k in range(at, at + count):
            x[k] = rarely(x[k], code, a, b, zero, one, exponential, tangent)


@generic
def rarely(
    v: Element, code: int, a: Element, b: Element, zero: Element, one: Element, exponential: Callable[..., Any],
    tangent: Callable[..., Any],
) -> Element:  # fmt: skip
    """The activations that few models use."""
    if code == AFFINE:
        return a * v + b
    if code == LEAKY:
        return v if v >= zero else a * v
    if code == THRESHOLDED:
        return v if v > a else zero
    if code == SCALED_TANH:
        return a * tangent(b * v)
    if code == HARD_SIGMOID:
        return min(max(a * v + b, zero), one)
    if code == ELU:
        return v if v >= zero else a * (exponential(v) - one)
    if code == SOFTSIGN:
        return v / (one + abs(v))
    # log(1 + e ** v), without an overflow
    return max(v, zero) + math.log1p(exponential(-abs(v)))
