"""Recipes of operators on quantised tensors, each of one dtype: what is quantised is computed in int64 or in floats."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .drawing import Draw
from .recipe import Call, call, recipe

INT8 = (-128, 127)


def clipped(x: Any, dtype: str = "int8") -> np.ndarray:
    info = np.iinfo(dtype)
    return np.clip(x, info.min, info.max).astype(dtype)


def away(x: np.ndarray) -> np.ndarray:
    return np.copysign(np.floor(np.abs(x) + np.where(np.abs(x) == np.nextafter(np.float32(0.5), 0), 0, 0.5)), x)


def fixed(ratio: float) -> tuple[int, int]:
    """The significand of 31 bits and the shift to the right, by Python's own numbers."""
    fraction, exponent = math.frexp(ratio)
    return math.floor(fraction * 2**31 + 0.5), 31 - exponent


def rescaled(x: Any, ratio: Any, nearest: bool = False) -> np.ndarray:
    """Whole numbers times ``ratio``, by Python's whole numbers of any size."""

    def one(value: int, ratio: float) -> int:
        significand, shift = fixed(float(ratio))
        product = int(value) * significand + (1 << (shift - 1)) - (1 if nearest and value < 0 else 0)
        return product >> shift

    x, ratio = np.broadcast_arrays(np.asarray(x, "int64"), np.asarray(ratio, "float64"))
    return np.array([one(v, r) for v, r in zip(x.ravel().tolist(), ratio.ravel().tolist(), strict=True)], "int64").reshape(
        x.shape
    )


def f64(*scales: Any) -> list[np.ndarray]:
    return [np.asarray(s, "float32").astype("float64") for s in scales]


def whole(x: Any) -> np.ndarray:
    return np.asarray(x).astype("int64")


def _scale(d: Draw, shape: tuple[int, ...] = ()) -> np.ndarray:
    return d.rng.uniform(0.02, 1.5, shape).astype("float32")


def _zero(d: Draw, shape: tuple[int, ...] = ()) -> np.ndarray:
    return np.asarray(d.rng.integers(-9, 9, shape), "int32")


def _one_or_each(d: Draw, x: np.ndarray) -> tuple[dict[str, Any], tuple[int, ...], tuple[int, ...]]:
    """``(attrs, shape of a scale, shape in which it broadcasts)``: one scale, or one per index of an axis."""
    axis = d.pick(None, -1, 0)
    if axis is None or not x.ndim:
        return {}, (), ()
    return {"axis": axis}, (x.shape[axis],), tuple(n if k == axis % x.ndim else 1 for k, n in enumerate(x.shape))


@recipe("qnn.quantize", "qnn.simulated_quantize")
def quantize(d: Draw, name: str) -> Call:
    x = d.array(d.shape(1), "float32", low=-90, high=90)
    attrs, own, wide = _one_or_each(d, x)
    scale, zero = _scale(d, own), _zero(d, own)
    dtype = d.pick("int8", "uint8", "int32")
    if name == "qnn.quantize":
        attrs["ties"] = d.pick("away", "even")
    elif d.pick(False, True):
        return call([x, scale, zero], x, out_dtype="disable", **attrs)

    def wanted() -> np.ndarray:
        nearest = np.rint if attrs.get("ties") == "even" else away
        found = clipped(nearest(x / scale.reshape(wide)).astype("float64") + zero.reshape(wide), dtype)
        return found.astype("float32") if name == "qnn.simulated_quantize" else found

    return call([x, scale, zero], wanted, out_dtype=dtype, **attrs)


@recipe("qnn.dequantize", "qnn.simulated_dequantize")
def dequantize(d: Draw, name: str) -> Call:
    x = d.array(d.shape(1), "int8", low=-128, high=127)
    x = x.astype("float32") if name == "qnn.simulated_dequantize" else x
    attrs, own, wide = _one_or_each(d, x)
    scale, zero = _scale(d, own), _zero(d, own)
    if name == "qnn.simulated_dequantize":
        attrs["in_dtype"] = d.pick("int8", "uint8", "int32", "disable")
        if attrs["in_dtype"] == "disable":
            return call([x, scale, zero], x, **attrs)
    return call([x, scale, zero], lambda: (whole(x) - zero.reshape(wide)) * scale.reshape(wide), **attrs)


@recipe("qnn.requantize")
def requantize(d: Draw, name: str) -> Call:
    x = d.array(d.shape(1), "int32", low=-9000, high=9000)
    attrs, own, wide = _one_or_each(d, x)
    scale, zero, scale_out, zero_out = _scale(d, own), _zero(d, own), _scale(d), _zero(d)
    rounding, dtype = d.pick("None", "TONEAREST", "UPWARD"), d.pick("int8", "int32", "uint8")
    compute = d.pick("None", "int64", "float32", "int32")

    def wanted() -> np.ndarray:
        first, second = f64(scale.reshape(wide), scale_out)
        if compute == "float32":
            product = (whole(x) - zero.reshape(wide)).astype("float32") * (first / second).astype("float32")
            moved = away(product) if rounding == "TONEAREST" else np.floor(product + np.float32(0.5))
            return clipped(moved.astype("int64") + zero_out, dtype)
        moved = rescaled(whole(x) - zero.reshape(wide), first / second, rounding == "TONEAREST")
        return clipped(moved + zero_out, dtype)

    return call([x, scale, zero, scale_out, zero_out], wanted, rounding=rounding, compute_dtype=compute, out_dtype=dtype, **attrs)


@recipe("fixed_point_multiply")
def fixed_point_multiply(d: Draw, name: str) -> Call:
    x = d.array(d.shape(1), "int32", low=-(10**6), high=10**6)
    multiplier, shift = d.pick(1518500250, -1073741824), d.pick(-3, 4, 0)
    product = whole(x) * multiplier
    return call([x], lambda: (product + (1 << (30 - shift))) >> (31 - shift), multiplier=multiplier, shift=shift)


@recipe("fixed_point_multiply_per_axis")
def fixed_point_multiply_per_axis(d: Draw, name: str) -> Call:
    x = d.array(d.dims(3), "int32", low=-(10**6), high=10**6)
    axes = d.pick((1,), (0, 2), (2,))
    size = [x.shape[a] for a in axes]
    y, left, right = d.array(size, "int32", 2**30, 2**31 - 1), d.array(size, "int32", 0, 3), d.array(size, "int32", 0, 9)
    wide = [n if k in axes else 1 for k, n in enumerate(x.shape)]
    shifts = d.pick(True, False), d.pick(True, False)

    def wanted() -> np.ndarray:
        scale, up, down = (whole(t).reshape(wide) for t in (y, left, right))
        up, down = up * shifts[0], down * shifts[1]
        return ((whole(x) << up) * scale + (np.int64(1) << (30 + down))) >> (31 + down)

    return call([x, y, left, right], wanted, is_lshift_required=shifts[0], is_rshift_required=shifts[1], axes=axes)


@recipe("qnn.add", "qnn.subtract", "qnn.mul")
def binary(d: Draw, name: str) -> Call:
    shape = d.shape(1)
    x, y = (d.array(s, "int8", *INT8) for s in (shape, shape[d.pick(0, 1) :]))
    scales, zeros = [_scale(d) for _ in range(3)], [_zero(d) for _ in range(3)]

    def wanted() -> np.ndarray:
        first, second, out = f64(*scales)
        if name == "qnn.mul":
            product = (whole(x) - zeros[0]) * (whole(y) - zeros[1])
            return clipped(rescaled(product, np.float64(scales[0] * scales[1]) / out) + zeros[2])
        lhs, rhs = rescaled(whole(x) - zeros[0], first / out), rescaled(whole(y) - zeros[1], second / out)
        return clipped((lhs + rhs if name == "qnn.add" else lhs - rhs) + zeros[2])

    return call([x, y, scales[0], zeros[0], scales[1], zeros[1], scales[2], zeros[2]], wanted)


@recipe("qnn.concatenate")
def concatenate(d: Draw, name: str) -> Call:
    shape = d.dims(2)
    fields = [d.array(shape, "int8", *INT8) for _ in range(2)]
    scales, zeros, out, zero = [_scale(d) for _ in fields], [_zero(d) for _ in fields], _scale(d), _zero(d)
    axis = d.axis(2)

    def wanted() -> np.ndarray:
        parts = zip(fields, scales, zeros, strict=True)
        moved = [rescaled(whole(x) - z, f64(s)[0] / f64(out)[0]) + zero for x, s, z in parts]
        return clipped(np.concatenate(moved, axis))

    return call([fields, scales, zeros, out, zero], wanted, axis=axis)


@recipe("qnn.leaky_relu")
def leaky_relu(d: Draw, name: str) -> Call:
    x, alpha = d.array(d.shape(1), "int8", *INT8), d.pick(0.3, 0.5)
    scale, zero, out, zero_out = _scale(d), _zero(d), _scale(d), _zero(d)

    def wanted() -> np.ndarray:
        below = rescaled(whole(x), alpha) + rescaled(whole(zero), 1 - alpha)
        leaky = np.where(whole(x) < zero, below, whole(x))
        return clipped(rescaled(leaky - zero, np.divide(*f64(scale, out))) + zero_out)

    return call([x, scale, zero, out, zero_out], wanted, alpha=alpha)


@recipe("qnn.avg_pool2d")
def avg_pool2d(d: Draw, name: str) -> Call:
    x = d.array((2, *d.dims(2, least=2), 3), "int8", *INT8)
    scale, zero, out, zero_out = _scale(d), _zero(d), _scale(d), _zero(d)
    with_padding, up = d.pick(True, False), d.pick(False, True)
    edge = d.pick(0, 1)

    def wanted() -> np.ndarray:
        centred = np.pad(whole(x) - zero, [(0, 0), (edge, edge), (edge, edge), (0, 0)])
        counted = np.pad(np.ones(x.shape[1:3]), edge, constant_values=1.0 if with_padding else 0.0)
        last = [n - 1 for n in centred.shape[1:3]]
        parts = [(slice(i, last[0] + i), slice(j, last[1] + j)) for i in range(2) for j in range(2)]
        sums, counts = sum(centred[:, r, c] for r, c in parts), sum(counted[r, c] for r, c in parts)
        means = np.trunc(np.asarray(sums) / np.asarray(counts)[:, :, None]).astype("int64")
        return clipped(rescaled(means, np.divide(*f64(scale, out))) + zero_out)

    # windows at every place: rounding up adds none
    attrs = {"pool_size": (2, 2), "strides": (1, 1), "padding": (edge, edge), "dilation": (1, 1)}
    attrs |= {"ceil_mode": up, "count_include_pad": with_padding}
    return call([x, scale, zero, out, zero_out], wanted, **attrs)


#: Functions of positive numbers.
_POSITIVE = ("qnn.log", "qnn.sqrt", "qnn.rsqrt")
_FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "qnn.abs": np.abs,
    "qnn.erf": np.vectorize(math.erf, otypes=["float64"]),
    "qnn.exp": np.exp,
    "qnn.hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "qnn.log": np.log,
    "qnn.rsqrt": lambda x: 1 / np.sqrt(x),
    "qnn.sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "qnn.softmax": lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True),
    "qnn.sqrt": np.sqrt,
    "qnn.tanh": np.tanh,
}


@recipe(*_FUNCTIONS)
def function(d: Draw, name: str) -> Call:
    x = d.array(d.shape(2), "int8", 11 if name in _POSITIVE else -128, 127)
    scale, zero, out, zero_out = np.float32(0.03125), _zero(d), np.float32(0.0171), _zero(d)

    def wanted() -> np.ndarray:
        return clipped(away(_FUNCTIONS[name]((whole(x) - zero) * 0.03125) / np.float64(out)) + zero_out)

    return call([x, np.asarray(scale), zero, np.asarray(out), zero_out], wanted)


@recipe("qnn.dense", "qnn.batch_matmul")
def product(d: Draw, name: str) -> Call:
    *batch, rows, inner = d.dims(3 if name == "qnn.batch_matmul" else 2)
    x, y = d.array((*batch, rows, inner), "int8", *INT8), d.array((*batch, 6, inner), "uint8", 0, 255)
    zeros, scales = [_zero(d), _zero(d)], [_scale(d), _scale(d)]

    def wanted() -> np.ndarray:
        return ((whole(x) - zeros[0]) @ np.swapaxes(whole(y) - zeros[1], -1, -2)).astype("int32")

    return call([x, y, *zeros, *scales], wanted)


@recipe("qnn.conv2d", "qnn.conv2d_transpose")
def convolution(d: Draw, name: str) -> Call:
    batch = d.dims(1)[0] % 5
    x = d.array((batch, 2, *d.dims(2, least=3)), "uint8", 0, 255)
    kernel = d.array((3, 2, 3, 2) if name == "qnn.conv2d" else (2, 3, 3, 2), "int8", *INT8)
    zeros, scales = [_zero(d), _zero(d, d.pick((), (3,)))], [_scale(d), _scale(d)]
    pads = 1 if name == "qnn.conv2d" else 0

    def wanted() -> np.ndarray:
        own = zeros[1].reshape((-1, 1, 1, 1) if name == "qnn.conv2d" else (1, -1, 1, 1))
        data, weight = whole(x) - zeros[0], whole(kernel) - own
        return convolved(data, weight, pads) if name == "qnn.conv2d" else spread(data, weight)

    return call([x, kernel, *zeros, *scales], wanted, padding=(pads, pads))


def convolved(data: np.ndarray, weight: np.ndarray, pads: int) -> np.ndarray:
    padded = np.pad(data, [(0, 0), (0, 0), (pads, pads), (pads, pads)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, weight.shape[2:], (2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, weight).astype("int32")


def spread(data: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The transposed convolution with steps of 1: a convolution of the padded data with the kernel turned."""
    rows, columns = weight.shape[2:]
    padded = np.pad(data, [(0, 0), (0, 0), (rows - 1,) * 2, (columns - 1,) * 2])
    return convolved(padded, np.swapaxes(weight, 0, 1)[:, :, ::-1, ::-1], 0)
