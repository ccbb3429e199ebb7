"""Nodes of networks: products, convolutions, pools, norms, softmaxes, quantised tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from .drawing import Drawing
from .elementwise import Maker

_FLOATS = ("float32", "float32", "float64")


def product(d: Drawing) -> None:
    """A matrix product with a stored matrix, or with a value."""
    x = d.pick(("float32", "float64", "int32"), least=1)
    v = d.values[x]
    inner = v.array.shape[-1]
    if d.r.random() < 0.3 and v.rank >= 2 and "float" in v.dtype:
        (y,) = d.node("Transpose", [x], perm=[*range(v.rank - 2), v.rank - 1, v.rank - 2])
    else:
        y = d.constant(d.numbers(v.dtype, d.r.choice(((inner,), (inner, 3), (inner, 1), (1, inner, 2)))), v.dtype)
    d.node("MatMul", [x, y])


def gemm(d: Drawing) -> None:
    """A product of matrices, and what is added."""
    x = d.pick(_FLOATS, rank=2)
    dtype, shape = d.values[x].dtype, d.values[x].array.shape
    a, b = d.r.randrange(2), d.r.randrange(2)
    inner, columns = shape[0 if a else 1], d.r.choice((1, 2, 3))
    weight = d.constant(d.numbers(dtype, (columns, inner) if b else (inner, columns)), dtype)
    more = [d.constant(d.numbers(dtype, d.r.choice(((columns,), (1,), (1, columns), ()))), dtype)] if d.r.random() < 0.7 else []
    d.node(
        "Gemm",
        [x, weight, *more],
        transA=a,
        transB=b,
        **({"alpha": 0.5} if d.r.random() < 0.3 else {}),
        **({"beta": 2.0} if d.r.random() < 0.3 else {}),
    )


def _image(d: Drawing, channels: int, axes: int) -> str:
    """A value with ``channels`` channels and that many spatial axes, which are open or known."""
    found = [
        n
        for n, v in d.values.items()
        if n[0] != "c" and v.dtype == "float32" and v.rank == axes + 2 and v.array.shape[1] == channels
    ]
    if found and d.r.random() < 0.5:
        return d.r.choice(found)
    return d.input("float32", (d.r.choice(("n", 1)), channels, *(d.r.choice(("m", "k", 5, 4)) for _ in range(axes))))


def _window(d: Drawing, axes: int) -> dict[str, Any]:
    attrs: dict[str, Any] = {}
    if d.r.random() < 0.5:
        attrs["pads"] = [d.r.choice((0, 1)) for _ in range(2 * axes)]
    elif d.r.random() < 0.3:
        attrs["auto_pad"] = d.r.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
    if d.r.random() < 0.4:
        attrs["strides"] = [d.r.choice((1, 2)) for _ in range(axes)]
    if d.r.random() < 0.2 and "auto_pad" not in attrs:
        attrs["dilations"] = [d.r.choice((1, 2)) for _ in range(axes)]
    return attrs


def convolution(d: Drawing) -> None:
    """A convolution, of groups or not, or its transpose."""
    axes, channels = d.r.choice((1, 2, 2)), d.r.choice((1, 2, 4))
    x = _image(d, channels, axes)
    groups = d.r.choice((1, 1, channels))
    kernel = [d.r.choice((1, 2, 3)) for _ in range(axes)]
    attrs = _window(d, axes)
    if d.r.random() < 0.2:
        attrs.pop("auto_pad", None)
        weight = d.constant(d.numbers("float32", (channels, 2, *kernel)), "float32")
        d.node("ConvTranspose", [x, weight], **attrs)
        return
    out = groups * d.r.choice((1, 2))
    listed = [x, d.constant(d.numbers("float32", (out, channels // groups, *kernel)), "float32")]
    if d.r.random() < 0.5:
        listed.append(d.constant(d.numbers("float32", (out,)), "float32"))
    d.node("Conv", listed, group=groups, **({"kernel_shape": kernel} if d.r.random() < 0.5 else {}), **attrs)


def pool(d: Drawing) -> None:
    """A pool of windows, or of whole pictures."""
    axes, channels = d.r.choice((1, 2, 2)), d.r.choice((1, 2, 4))
    x = _image(d, channels, axes)
    form = d.r.random()
    if form < 0.2:
        d.node(d.r.choice(("GlobalAveragePool", "GlobalMaxPool")), [x], exact=False)
        return
    kernel = [d.r.choice((1, 2, 3)) for _ in range(axes)]
    attrs = _window(d, axes)
    if not attrs.get("auto_pad", "").startswith("SAME") and not all(isinstance(n, int) for n in d.inputs.get(x, ("?",))[2:]):
        attrs.pop("strides", None)  # onnxruntime has a result for a window that is longer than its axis by less than a stride
    if all(k > 1 for k in kernel) and d.r.random() < 0.2 and "auto_pad" not in attrs:
        attrs["ceil_mode"] = 1
    if min(kernel) < 2:
        attrs.pop("pads", None)  # a padding is smaller than its window
    if form < 0.6:
        d.node("MaxPool", [x], kernel_shape=kernel, **attrs)
    else:
        if d.opset < 19:
            attrs.pop("dilations", None)
        d.node(
            "AveragePool",
            [x],
            exact=False,
            kernel_shape=kernel,
            **({"count_include_pad": 1} if d.r.random() < 0.4 else {}),
            **attrs,
        )


def norm(d: Drawing) -> None:
    """A norm, or a softmax."""
    form = d.r.random()
    if form < 0.45:
        x = d.pick(_FLOATS, least=1)
        d.node(d.r.choice(("Softmax", "LogSoftmax")), [x], exact=False, axis=d.axis(x))
    elif form < 0.5:
        x = d.pick(_FLOATS, least=1, exact=True)
        d.node("Hardmax", [x], axis=d.axis(x))
    elif form < 0.75 and d.opset >= 17:
        x = d.pick(("float32",), least=1, full=True)
        shape = d.values[x].array.shape
        scale = d.constant(d.numbers("float32", shape[-1:]), "float32")
        more = [d.constant(d.numbers("float32", shape[-1:]), "float32")] if d.r.random() < 0.6 else []
        d.node("LayerNormalization", [x, scale, *more], exact=False, axis=-1, epsilon=0.5)
    elif form < 0.9:
        channels = d.r.choice((1, 2, 4))
        x = _image(d, channels, d.r.choice((1, 2)))
        rows = [d.constant(d.numbers("float32", (channels,)), "float32") for _ in range(3)]
        d.node(
            "BatchNormalization", [x, *rows, d.constant(np.abs(d.numbers("float32", (channels,))) + 1, "float32")], exact=False
        )
    else:
        x = d.pick(("float32",), least=1, full=True)
        d.node("LpNormalization", [x], exact=False, axis=d.axis(x), p=d.r.choice((1, 2)))


def quantised(d: Drawing) -> None:
    """Quantised tensors: there, back, and a product."""
    x = d.pick(("float32",), least=2, exact=True)
    dtype = d.r.choice(("uint8", "int8"))
    scale, zero = d.constant(d.r.choice((0.5, 0.25, 1.0)), "float32"), d.constant(d.r.choice((0, 3)), dtype)
    (q,) = d.node("QuantizeLinear", [x, scale, zero])
    if d.r.random() < 0.5:
        d.node("DequantizeLinear", [q, scale, zero])
    elif inner := d.values[q].array.shape[-1]:  # onnxruntime leaves the sums of nothing as they were in memory
        d.node("MatMulInteger", [q, d.constant(d.numbers(dtype, (inner, 2)), dtype), zero])


MAKERS: dict[Maker, float] = {product: 1.2, gemm: 0.8, convolution: 1, pool: 0.8, norm: 1.2, quantised: 0.5}
