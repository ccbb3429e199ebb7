"""Recipes of operators that pad, turn, cut into blocks, and write into matrices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .drawing import Draw, ints, wide
from .picking import positions
from .recipe import Call, call, recipe


@recipe("nn.pad", "dyn.nn.pad", "nn.mirror_pad", by_width=True)
def pad(d: Draw, name: str) -> Call:
    mirror = name == "nn.mirror_pad"
    mode = d.pick("SYMMETRIC", "REFLECT") if mirror else d.pick("constant", "edge", "reflect")
    x = d.array(d.dims(2, least=0 if mode == "constant" else 1))
    if d.size is None:
        x = d.array(d.shape(1, 3, least=0 if mode == "constant" else 1))
    width = tuple((d.pick(1, 0, 2), d.pick(2, 0, 1)) for _ in range(x.ndim))
    if mode in ("SYMMETRIC", "REFLECT", "reflect"):
        # no wider than the axis can be mirrored, whatever its size class
        width = tuple((0, 0) if n <= 2 or d.size in ("one", "empty") else w for n, w in zip(x.shape, width, strict=True))
    elif mode == "constant":  # the last axis loses elements
        n = x.shape[-1]
        width = (*width[:-1], d.pick(width[-1], (-min(n, 2), 1), (2, -min(n, 1))))
    value = d.array(())
    kinds = {"SYMMETRIC": "symmetric", "REFLECT": "reflect"}
    more = {"constant_values": wide(value)} if mode == "constant" else {}

    def wanted() -> np.ndarray:
        out = np.pad(wide(x), [(max(a, 0), max(b, 0)) for a, b in width], kinds.get(mode, mode), **more)
        return out[tuple(slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(width, out.shape, strict=True))]

    if mirror:
        return call([x], wanted, pad_width=width, mode=mode)
    if name == "nn.pad":
        return call([x, value], wanted, pad_width=width, pad_mode=mode)
    return call([x, np.array(width, "int64").reshape(-1, 2), value], wanted, pad_mode=mode)


@recipe("nn.dilate", by_width=True)
def dilate(d: Draw, name: str) -> Call:
    x = d.array(d.shape(1, 3))
    strides = tuple(d.pick(2, 1, 3) for _ in x.shape)
    out = np.zeros([max(0, (n - 1) * s + 1) for n, s in zip(x.shape, strides, strict=True)], x.dtype)
    out[tuple(slice(None, None, s) for s in strides)] = x
    return call([x], out, strides=strides)


@recipe("reverse_sequence", by_width=True)
def reverse_sequence(d: Draw, name: str) -> Call:
    x = d.array(d.dims(3))
    sequence, batch = d.pick((1, 0), (0, 1), (2, 0))
    lengths = d.rng.integers(-1, x.shape[sequence] + 3, x.shape[batch]).astype(d.pick("int64", "int32"))
    out = np.moveaxis(x.copy(), (batch, sequence), (0, 1))
    for row, n in zip(out, lengths, strict=True):
        row[: max(n, 1)] = row[: max(n, 1)][::-1].copy()
    return call([x, lengths], np.moveaxis(out, (0, 1), (batch, sequence)), seq_axis=sequence, batch_axis=batch)


@recipe("sequence_mask", by_width=True)
def sequence_mask(d: Draw, name: str) -> Call:
    x = d.array(d.dims(3))
    axis = d.pick(0, 1)
    lengths = d.rng.integers(0, x.shape[axis] + 1, x.shape[1 - axis]).astype(d.pick("int64", "int32"))
    keep = np.arange(x.shape[axis])[:, None] < lengths
    keep = (keep if axis == 0 else keep.T)[:, :, None]
    return call([x, lengths], np.where(keep, wide(x), 1), axis=axis, mask_value=1.0)


@recipe("sliding_window", by_width=True)
def sliding_window(d: Draw, name: str) -> Call:
    x = d.array([n + 3 for n in d.dims(2)])
    window, strides = (d.pick(3, 1, 2), d.pick(2, 1)), (d.pick(1, 2), d.pick(1, 3))
    found = np.lib.stride_tricks.sliding_window_view(x, window)[:: strides[0], :: strides[1]]
    return call([x], found, axis=d.pick(0, -2), window_shape=window, strides=strides)


@recipe("layout_transform", by_width=True)
def layout_transform(d: Draw, name: str) -> Call:
    n, c, h, w = d.dims(4)
    x = d.array((n, 4 * c, h, w))
    to = d.pick("NHWC", "NCHW4c", "NCHW")
    cut = x.reshape(n, c, 4, h, w).transpose(0, 1, 3, 4, 2)
    out = {"NHWC": x.transpose(0, 2, 3, 1), "NCHW4c": cut, "NCHW": x}[to]
    return call([x], out, src_layout="NCHW", dst_layout=to)


@recipe("nn.depth_to_space", "nn.space_to_depth", by_width=True)
def blocks(d: Draw, name: str) -> Call:
    n, c, h, w = d.dims(4)
    b, last = d.pick(2, 1, 3), d.pick(False, True)
    layout = "NHWC" if last else "NCHW"
    if name == "nn.space_to_depth":
        x = d.array((n, c, h * b, w * b))
        out = x.reshape(n, c, h, b, w, b).transpose(0, 3, 5, 1, 2, 4).reshape(n, b * b * c, h, w)
        more: dict[str, Any] = {}
    else:
        x, mode = d.array((n, c * b * b, h, w)), d.pick("DCR", "CDR")
        cut = (n, b, b, c, h, w) if mode == "DCR" else (n, c, b, b, h, w)
        order = (0, 3, 4, 1, 5, 2) if mode == "DCR" else (0, 1, 4, 2, 5, 3)
        out, more = x.reshape(cut).transpose(order).reshape(n, c, h * b, w * b), {"mode": mode}
    given, wanted = (np.moveaxis(v, 1, -1) if last else v for v in (x, out))
    return call([np.ascontiguousarray(given)], wanted, block_size=b, layout=layout, **more)


@recipe("nn.space_to_batch_nd", "nn.batch_to_space_nd", by_width=True)
def batches(d: Draw, name: str) -> Call:
    n, h, w, c = d.dims(4)
    a, b = d.pick(2, 1, 3), d.pick(1, 2)
    before = d.pick(0, 1)
    if name == "nn.space_to_batch_nd":
        # the paddings round the height up to whole blocks
        rows = a * h + (a if before else 0)
        x = d.array((n, a * h, b * w, c))
        width = ((before, rows - a * h - before), (0, 0))
        padded = np.pad(wide(x), ((0, 0), *width, (0, 0))) if before else wide(x)
        out = padded.reshape(n, rows // a, a, w, b, c).transpose(2, 4, 0, 1, 3, 5).reshape(a * b * n, rows // a, w, c)
        return call([x], out, block_shape=(a, b), paddings=width)
    x = d.array((a * b * n, h, w, c))
    out = x.reshape(a, b, n, h, w, c).transpose(2, 3, 0, 4, 1, 5).reshape(n, a * h, b * w, c)
    before = min(before, a * h)
    return call([x], out[:, before:], block_shape=(a, b), crops=((before, 0), (0, 0)))


# ---- matrices ------------------------------------------------------------------------------------------------------------


@recipe("trilu", by_width=True)
def trilu(d: Draw, name: str) -> Call:
    x, k, upper = d.array(d.shape(2)), d.pick(0, 1, -1, 9), d.pick(True, False)
    return call([x, d.scalar(k, "int64")], (np.triu if upper else np.tril)(wide(x), k), upper=upper)


@recipe("matrix_set_diag", by_width=True)
def matrix_set_diag(d: Draw, name: str) -> Call:
    x = d.array(d.shape(2, 3))
    rows, columns = x.shape[-2:]
    k = d.pick(0, 1, -1) if d.size is None and min(rows, columns) > 1 else 0
    length = min(rows + min(k, 0), columns - max(k, 0))
    diagonal = d.array((*x.shape[:-2], length))
    out, at = x.copy(), np.arange(length)
    out[..., at - min(k, 0), at + max(k, 0)] = diagonal
    return call([x, diagonal], out, k1=k, k2=k)


# ---- by index --------------------------------------------------------------------------------------------------------------


@recipe("adv_index", by_width=True)
def adv_index(d: Draw, name: str) -> Call:
    x = d.array(d.dims(3, least=1))
    shape = d.dims(1)
    count = d.pick(2, 1, 3)
    at = [positions(d, shape, x.shape[k]) for k in range(count)]
    return call([(x, *at)], x[tuple(at)])


@recipe("unravel_index")
def unravel_index(d: Draw, name: str) -> Call:
    shape = (4, 3, 5)[: d.pick(3, 2, 1)]
    dtype = d.dtype if d.dtype in ("int32", "int64") else "int64"
    at = d.rng.integers(0, math.prod(shape), d.dims(1)).astype(d.dtype if d.dtype != dtype else dtype)
    wanted = np.array(np.unravel_index(at.astype("int64"), shape)).reshape(len(shape), len(at))
    return call([at, ints(*shape, dtype=dtype)], wanted, fixed=[(1, 0)])
