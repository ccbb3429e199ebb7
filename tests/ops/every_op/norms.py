"""Recipes of norms and losses, and of reductions that take more than the data."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .drawing import Draw, wide
from .elements import folded_axes
from .recipe import Call, call, recipe


def _along(vector: np.ndarray, rank: int, axis: int) -> np.ndarray:
    return wide(vector).reshape([-1 if k == axis % rank else 1 for k in range(rank)])


def _normal(x: np.ndarray, axes: tuple[int, ...], epsilon: float) -> np.ndarray:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


@recipe("nn.layer_norm", "nn.instance_norm", "nn.group_norm", by_width=True)
def norm(d: Draw, name: str) -> Call:
    groups = d.pick(2, 1)
    shape = list(d.dims(3))
    axis = d.pick(-1, 1, 2) if name == "nn.layer_norm" else 1
    shape[1] = shape[1] * groups if name == "nn.group_norm" else shape[1]
    x = d.array(shape)
    gamma, beta = d.array((shape[axis],), low=1), d.array((shape[axis],))
    epsilon, center, scale = d.pick(1e-3, 1e-1), d.pick(True, False), d.pick(True, False)
    attrs: dict[str, Any] = {"axis": axis, "epsilon": epsilon, "center": center, "scale": scale}

    def wanted() -> np.ndarray:
        w = wide(x)
        if name == "nn.layer_norm":
            out = _normal(w, (axis,), epsilon)
        elif name == "nn.instance_norm":
            out = _normal(w, (2,), epsilon)
        else:
            split = w.reshape(w.shape[0], groups, w.shape[1] // groups, w.shape[2])
            out = _normal(split, (2, 3), epsilon).reshape(w.shape)
        out = out * (_along(gamma, 3, axis) if scale else 1)
        return out + (_along(beta, 3, axis) if center else 0)

    attrs |= {"num_groups": groups} if name == "nn.group_norm" else {}
    return call([x, gamma, beta], wanted, tolerance=20, **attrs)


@recipe("nn.batch_norm", by_width=True)
def batch_norm(d: Draw, name: str) -> Call:
    x = d.array(d.shape(2))
    axis, scale, center = d.pick(1, 0, -1), d.pick(True, False), d.pick(True, False)
    gamma, beta, mean, var = (d.array((x.shape[axis],), low=low, high=3) for low in (1, -3, -3, 1))

    def wanted() -> list[np.ndarray]:
        rows = [_along(v, x.ndim, axis) for v in (gamma, beta, mean, var)]
        out = (wide(x) - rows[2]) / np.sqrt(rows[3] + 1e-3)
        return [out * (rows[0] if scale else 1) + (rows[1] if center else 0), wide(mean), wide(var)]

    return call([x, gamma, beta, mean, var], wanted, axis=axis, epsilon=1e-3, scale=scale, center=center, tolerance=20)


@recipe("nn.l2_normalize", by_width=True)
def l2_normalize(d: Draw, name: str) -> Call:
    x = d.array(d.shape(1))
    axis = d.pick((-1,), None, (0,))
    attrs: dict[str, Any] = {"eps": 1e-6, "axis": axis}
    return call([x], lambda: wide(x) / np.sqrt(np.maximum((wide(x) ** 2).sum(axis, keepdims=True), 1e-6)), tolerance=5, **attrs)


@recipe("nn.lrn", by_width=True)
def lrn(d: Draw, name: str) -> Call:
    x = d.array(d.dims(4, least=1))
    axis, size = d.pick(1, 3, -3), d.pick(5, 4, 1)

    def wanted() -> np.ndarray:
        w = np.moveaxis(wide(x), axis, 0)
        half = size // 2
        sums = [(w[max(k - half, 0) : k - half + size] ** 2).sum(0) for k in range(len(w))]
        out = w / (2.0 + 0.1 / size * np.array(sums).reshape(w.shape)) ** 0.75
        return np.moveaxis(out, 0, axis)

    return call([x], wanted, axis=axis, size=size, alpha=0.1, tolerance=5)


@recipe("nn.dropout", by_width=True)
def dropout(d: Draw, name: str) -> Call:
    x = d.array(d.shape())
    return call([x], [x, np.ones_like(x)], rate=d.pick(0.5, 0.0))


@recipe("nn.prelu", by_width=True)
def prelu(d: Draw, name: str) -> Call:
    x = d.array(d.shape(2))
    axis = d.pick(1, 0, -1)
    alpha = d.array((x.shape[axis],))
    return call([x, alpha], lambda: np.where(wide(x) < 0, wide(x) * _along(alpha, x.ndim, axis), wide(x)), axis=axis)


# ---- losses ------------------------------------------------------------------------------------------------------------


@recipe("nn.cross_entropy", "nn.cross_entropy_with_logits", by_width=True)
def cross_entropy(d: Draw, name: str) -> Call:
    shape = d.dims(2)
    low = 1 if name == "nn.cross_entropy" else -4
    predictions, targets = d.array(shape, low=low), d.array(shape, low=0, high=1)

    def wanted() -> np.ndarray:
        logs = np.log(wide(predictions)) if low == 1 else wide(predictions)
        return -(logs * wide(targets)).sum(1).mean()

    return call([predictions, targets], wanted, tolerance=20)


@recipe("nn.nll_loss", by_width=True)
def nll_loss(d: Draw, name: str) -> Call:
    batch, *rest = d.dims(d.pick(1, 2))
    classes = 4
    predictions, weights = d.array((batch, classes, *rest)), d.array((classes,), low=1)
    reduction, ignored = d.pick("mean", "sum", "none"), d.pick(-100, 2)
    targets = d.rng.integers(0, classes, (batch, *rest)).astype(d.pick("int32", "int64"))

    def wanted() -> np.ndarray:
        at = np.expand_dims(targets, 1).astype("int64")
        weight = np.where(targets == ignored, 0, wide(weights)[targets])
        losses = -np.take_along_axis(wide(predictions), at, 1)[:, 0] * weight
        return {"mean": losses.sum() / weight.sum(), "sum": losses.sum(), "none": losses}[reduction]

    return call([predictions, targets, weights], wanted, reduction=reduction, ignore_index=ignored, tolerance=20)


# ---- reductions ----------------------------------------------------------------------------------------------------------


@recipe("variance_with_mean")
def variance_with_mean(d: Draw, name: str) -> Call:
    x = d.array(d.shape(1, 3))
    attrs, axes = folded_axes(d, x.ndim)
    kept = [1 if k in axes else n for k, n in enumerate(x.shape)]
    mean = d.array(kept, low=-1, high=1)
    return call([x, mean], lambda: ((wide(x) - wide(mean)) ** 2).mean(axes, keepdims=attrs["keepdims"]), tolerance=10, **attrs)


@recipe("unbiased_variance")
def unbiased_variance(d: Draw, name: str) -> Call:
    x = d.array(d.shape(1, 3))
    attrs, axes = folded_axes(d, x.ndim)
    count = math.prod(x.shape[k] for k in axes)

    def wanted() -> np.ndarray:
        # of one element 0 / 0, as numpy says; of none, too
        squares = ((wide(x) - wide(x).mean(axes, keepdims=True)) ** 2).sum(axes, keepdims=attrs["keepdims"])
        return squares / np.float64(count - 1) if count else squares * np.nan

    return call([x], wanted, tolerance=10, **attrs)
