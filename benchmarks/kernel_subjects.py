"""Subjects of benchmarks/kernels.py: equal work as a program here, in numpy, as an ONNX graph, in torch; and the goals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

#: 64 MiB of float32, as rows for the norms and as a square.
ROWS, SQUARE = (16384, 1024), (4096, 4096)
MIB_64 = 4 * math.prod(SQUARE)

Arrays = tuple[np.ndarray, ...]


@dataclass(frozen=True)
class TimesBound:
    """At most ``times`` as long as the sum of two 64 MiB arrays takes."""

    times: float


@dataclass(frozen=True)
class ShareOfBound:
    """``nbytes`` are moved at this share of the bandwidth of that sum."""

    nbytes: int
    share: float = 0.6


@dataclass(frozen=True)
class TimesPeer:
    """At most ``times`` as long as a peer takes."""

    peer: str
    times: float


@dataclass(frozen=True)
class Subject:
    """One kernel: ``call`` of %x0, %x1, ... here; the ONNX nodes from x0, x1, ... to ``y``; numpy and torch as functions.

    A peer without a counterpart has None.  ``parameters``: the inputs that an ONNX graph holds as constants, like weights.
    """

    name: str
    inputs: Arrays
    call: str
    onnx: str | None
    numpy: Callable[..., np.ndarray] | None
    torch: Callable[[Any], Callable[..., Any]] | None
    goal: TimesBound | ShareOfBound | TimesPeer
    parameters: tuple[int, ...] = ()


def normal(*shape: int) -> np.ndarray:
    """Numbers that are the same in every run."""
    return np.random.default_rng(math.prod(shape)).standard_normal(shape, np.float32)


# ---- norms, reductions, rearranging: bandwidth ---------------------------------------------------------------------

_GELU = "multiply(multiply({0}, 0.5f), add(erf(multiply({0}, 0.70710678f)), 1f))"
_ONNX_GELU = """
    half = Constant<value = float {0.5}>() one = Constant<value = float {1.0}>() root = Constant<value = float {1.4142135}>()
    v = Add(x0, x1) d = Div(v, root) e = Erf(d) f = Add(e, one) g = Mul(v, f) h = Mul(g, half) s = Add(h, x2)
    y = LayerNormalization<axis = -1, epsilon = 1e-5>(s, x3, x4)"""


def _layer_norm(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> np.ndarray:
    away = x - x.mean(-1, keepdims=True)
    return away / np.sqrt((away * away).mean(-1, keepdims=True) + np.float32(1e-5)) * gamma + beta


def _gelu_norm(x: np.ndarray, b: np.ndarray, r: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> np.ndarray:
    from scipy.special import erf

    v = x + b
    return _layer_norm(np.float32(0.5) * v * (1 + erf(v * np.float32(0.70710678))) + r, gamma, beta)


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def norms() -> Iterator[Subject]:
    """Rows of 1024: a transformer's operators besides its products."""
    x, r, b, gamma, beta = normal(*ROWS), normal(*ROWS)[::-1].copy(), normal(ROWS[1]), normal(ROWS[1]), normal(ROWS[1])
    yield Subject(
        "layernorm(gelu(x + b) + r)", (x, b, r, gamma, beta),
        f"let %v = add(%x0, %x1); nn.layer_norm(add({_GELU.format('%v')}, %x2), %x3, %x4)", _ONNX_GELU, _gelu_norm,
        lambda t: lambda x, b, r, g, o: t.layer_norm(t.nn.functional.gelu(x + b) + r, (ROWS[1],), g, o), TimesBound(1.2),
        parameters=(1, 3, 4),
    )  # fmt: skip
    moved = ShareOfBound(2 * MIB_64)
    yield Subject(
        "layer norm", (x, gamma, beta), "nn.layer_norm(%x0, %x1, %x2)",
        "y = LayerNormalization<axis = -1, epsilon = 1e-5>(x0, x1, x2)", _layer_norm,
        lambda t: lambda x, g, o: t.layer_norm(x, (ROWS[1],), g, o), moved, parameters=(1, 2),
    )  # fmt: skip
    yield Subject(
        "softmax", (x,), "nn.softmax(%x0, axis=-1)", "y = Softmax<axis = -1>(x0)", _softmax,
        lambda t: lambda x: t.softmax(x, -1), moved,
    )  # fmt: skip


_REDUCTIONS = (("sum", "ReduceSum", "sum"), ("max", "ReduceMax", "amax"), ("mean", "ReduceMean", "mean"))


def reductions() -> Iterator[Subject]:
    """Along the first axis, the last, and all."""
    x = normal(*SQUARE)
    for axis in (0, 1, None):
        where = "all" if axis is None else f"axis {axis}"
        ours = "[0, 1]" if axis is None else f"[{axis}]"
        axes = (0, 1) if axis is None else axis
        for name, onnx, torch in _REDUCTIONS:
            listed = f"a = Constant<value_ints = {ours}>() y = {onnx}<keepdims = 0>(x0, a)"
            yield Subject(
                f"{name}, {where}", (x,), f"{name}(%x0, axis={ours})", listed,
                lambda x, f=name, a=axis: getattr(np, f)(x, axis=a),
                lambda t, f=torch, a=axes: lambda x: getattr(t, f)(x, dim=a), ShareOfBound(MIB_64),
            )  # fmt: skip
        yield Subject(
            f"argmax, {where}", (x,), f"argmax(%x0, axis={ours})",
            None if axis is None else f"y = ArgMax<axis = {axis}, keepdims = 0>(x0)", lambda x, a=axis: np.argmax(x, axis=a),
            lambda t, a=axis: lambda x: t.argmax(x, dim=a), ShareOfBound(MIB_64),
        )  # fmt: skip


def rearranging() -> Iterator[Subject]:
    """Transposes and concatenations: each byte read once, written once."""
    moved = ShareOfBound(2 * MIB_64)
    for axes, shape in (
        ((1, 0), SQUARE),
        ((0, 2, 1), (64, 512, 512)),
        ((0, 3, 1, 2), (64,) * 4),
        ((0, 2, 1, 3), (64, 128, 32, 64)),
    ):
        yield Subject(
            f"transpose {axes}", (normal(*shape),), f"transpose(%x0, axes={list(axes)})",
            f"y = Transpose<perm = {list(axes)}>(x0)", lambda x, a=axes: np.ascontiguousarray(x.transpose(a)),
            lambda t, a=axes: lambda x: x.permute(a).contiguous(), moved,
        )  # fmt: skip
    for axis, shape in ((0, (2048, 4096)), (1, (4096, 2048))):
        x = normal(*shape)
        yield Subject(
            f"concatenate, {'first' if axis == 0 else 'last'} axis", (x, -x), f"concatenate((%x0, %x1), axis={axis})",
            f"y = Concat<axis = {axis}>(x0, x1)", lambda *xs, a=axis: np.concatenate(xs, a),
            lambda t, a=axis: lambda *xs: t.cat(xs, a), moved,
        )  # fmt: skip


# ---- products, convolutions ----------------------------------------------------------------------------------------

#: ResNet-50 at batch 1: input channels, height and width of the input, output channels, kernel, stride.
RESNET_50 = (
    (3, 224, 64, 7, 2),
    (64, 56, 64, 1, 1), (64, 56, 64, 3, 1), (64, 56, 256, 1, 1), (256, 56, 64, 1, 1),
    (256, 56, 128, 1, 1), (128, 56, 128, 3, 2), (128, 28, 512, 1, 1), (256, 56, 512, 1, 2), (512, 28, 128, 1, 1),
    (128, 28, 128, 3, 1),
    (512, 28, 256, 1, 1), (256, 28, 256, 3, 2), (256, 14, 1024, 1, 1), (512, 28, 1024, 1, 2), (1024, 14, 256, 1, 1),
    (256, 14, 256, 3, 1),
    (1024, 14, 512, 1, 1), (512, 14, 512, 3, 2), (512, 7, 2048, 1, 1), (1024, 14, 2048, 1, 2), (2048, 7, 512, 1, 1),
    (512, 7, 512, 3, 1),
)  # fmt: skip


def products() -> Iterator[Subject]:
    """A square matrix product, and the convolutions of ResNet-50."""
    x = normal(1024, 1024)
    yield Subject(
        "matmul 1024^3", (x, x.T.copy()), "nn.matmul(%x0, %x1)", "y = MatMul(x0, x1)", np.matmul, lambda t: t.matmul,
        TimesPeer("numpy", 1 / 0.95), parameters=(1,),
    )  # fmt: skip
    for inputs, size, outputs, kernel, stride in RESNET_50:
        pad, weight = kernel // 2, normal(outputs, inputs, kernel, kernel)
        yield Subject(
            f"conv2d {kernel}x{kernel}{'/2' if stride == 2 else ''} {inputs}->{outputs} @{size}",
            (normal(1, inputs, size, size), weight), f"nn.conv2d(%x0, %x1, strides={[stride] * 2}, padding={[pad] * 2})",
            f"y = Conv<kernel_shape = {[kernel] * 2}, strides = {[stride] * 2}, pads = {[pad] * 4}>(x0, x1)", None,
            lambda t, s=stride, p=pad: lambda x, w: t.conv2d(x, w, stride=s, padding=p), TimesPeer("onnxruntime", 3),
            parameters=(1,),
        )  # fmt: skip


# ---- order ---------------------------------------------------------------------------------------------------------


def _top(x: np.ndarray, k: int) -> np.ndarray:
    return np.sort(np.partition(x, len(x) - k)[len(x) - k :])[::-1]


def order() -> Iterator[Subject]:
    """Sorting, the 100 best, and boxes that suppress each other."""
    goal = TimesPeer("onnxruntime", 3)
    for n in (1_000, 10_000, 100_000, 1_000_000):
        data = normal(n)
        yield Subject(
            f"sort {n}", (data,), "sort(%x0)",
            f"k = Constant<value_ints = [{n}]>() y, at = TopK<axis = 0, largest = 0, sorted = 1>(x0, k)", np.sort,
            lambda t: lambda x: t.sort(x, stable=True)[0], goal,
        )  # fmt: skip
        yield Subject(
            f"argsort {n}", (data,), 'argsort(%x0, dtype="int64")',
            f"k = Constant<value_ints = [{n}]>() v, y = TopK<axis = 0, largest = 0, sorted = 1>(x0, k)",
            lambda x: np.argsort(x, stable=True), lambda t: lambda x: t.sort(x, stable=True)[1], goal,
        )  # fmt: skip
        yield Subject(
            f"topk {n}, k = 100", (data,), 'topk(%x0, k=100, ret_type="values")',
            "k = Constant<value_ints = [100]>() y, at = TopK<axis = 0, largest = 1, sorted = 1>(x0, k)",
            lambda x: _top(x, 100), lambda t: lambda x: t.topk(x, 100)[0], goal,
        )  # fmt: skip
    for n in (1000, 3000, 10_000):
        yield _suppression(n)


def _suppression(n: int) -> Subject:
    """Boxes of an image of 1000 by 1000 pixels, as a detector gives them: many about the same object."""
    rng = np.random.default_rng(n)
    objects = rng.uniform(0, 900, (max(n // 20, 1), 2))
    corner = objects[rng.integers(0, len(objects), n)] + rng.normal(0, 8, (n, 2))
    boxes = np.concatenate([corner, corner + rng.uniform(40, 100, (n, 2))], 1).astype(np.float32)[None]
    scores = rng.random((1, 1, n), dtype=np.float32)
    return Subject(
        f"non-maximum suppression {n}", (boxes, scores),
        f"let %kept = vision.all_class_non_max_suppression(%x0, %x1, {n}i64, 0.5f, 0f); %kept.0",
        f"m = Constant<value_ints = [{n}]>() i = Constant<value_floats = [0.5]>() s = Constant<value_floats = [0.0]>() "
        "y = NonMaxSuppression(x0, x1, m, i, s)", None, None, TimesPeer("onnxruntime", 3),
    )  # fmt: skip


# ---- elements ------------------------------------------------------------------------------------------------------

#: Mode here and in ONNX, and size of the result per size of the data.
RESIZES = (
    ("linear", "linear", 2.0), ("linear", "linear", 0.5), ("cubic", "cubic", 2.0),
    ("nearest_neighbor", "nearest", 2.0), ("nearest_neighbor", "nearest", 1.5),
)  # fmt: skip


def elements() -> Iterator[Subject]:
    """Powers of a constant exponent, softmax of masked rows, pictures of another size: at sizes of networks."""
    goal, x = TimesPeer("onnxruntime", 1.0), np.abs(normal(96, 512)) + np.float32(0.1)
    for exponent in (3.0, 2.0, -1.0, 0.5, 1.5, 2.2):
        yield Subject(
            f"power {exponent:g}", (x,), f"power(%x0, {exponent}f)",
            f"e = Constant<value = float {{{exponent}}}>() y = Pow(x0, e)", lambda x, e=exponent: np.power(x, np.float32(e)),
            lambda t, e=exponent: lambda x: t.pow(x, e), goal,
        )  # fmt: skip
    for mask in (-np.inf, -3.4e38, -100.0):
        scores = normal(8, 48, 48)
        scores[:, np.triu(np.ones((48, 48), bool), 1)] = mask
        for axis in (-1, 1):
            yield Subject(
                f"softmax, axis {axis}, half of it {mask:g}", (scores,), f"nn.softmax(%x0, axis={axis})",
                f"y = Softmax<axis = {axis}>(x0)", None, lambda t, a=axis: lambda x: t.softmax(x, a), goal,
            )  # fmt: skip
    for ours, theirs, scale in RESIZES:
        image = normal(1, 64, 40, 40)
        size = int(40 * scale)
        more = ', rounding_method="round_prefer_floor"' if theirs == "nearest" else ""
        coefficient = ", cubic_coeff_a = -0.5" if theirs == "cubic" else ""
        yield Subject(
            f"resize {theirs} x{scale:g}", (image,), f'image.resize2d(%x0, size=[{size}, {size}], method="{ours}"{more})',
            f"s = Constant<value_floats = [1.0, 1.0, {scale}, {scale}]>() "
            f'y = Resize<mode = "{theirs}"{coefficient}>(x0, , s)', None, None, goal,
        )  # fmt: skip


GROUPS: dict[str, Callable[[], Iterator[Subject]]] = {
    "norms": norms,
    "reductions": reductions,
    "rearranging": rearranging,
    "products": products,
    "order": order,
    "elements": elements,
}
