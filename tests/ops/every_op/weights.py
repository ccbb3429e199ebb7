"""Recipes of operators on weights in other forms: packed, in tiles, transformed by Winograd's algorithm, in bits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from relayvm.compiler.passes.constant_weights.pack_weights import filters_of
from relayvm.ops.defs.weight_forms.byte_convolution import words_of
from relayvm.ops.defs.weight_forms.winograd_matrices import Matrix, winograd
from relayvm.ops.kernels.weight_bits import weight_layout
from relayvm.ops.kernels.weight_bits.weight_layout import by_panel
from relayvm.ops.native.jit.products.register_tile import panel_width

from ..images.test_conv import convolution, in_layout
from .drawing import Draw, wide
from .networks import batch_and_channels, blocked, product, spatial
from .quantised import INT8, whole
from .recipe import Call, call, recipe


@recipe("nn.contrib_dense_pack", by_width=True)
def dense_pack(d: Draw, name: str) -> Call:
    rows, inner = d.dims(2)
    group = d.pick(2, 3)
    x, weight = d.array((rows, inner)), d.array((2 * group, inner))
    packed = blocked(weight, (group,), (0,))
    layout = d.pick(f"NC{group}n", "NC")
    given = d.pick(packed, weight) if layout == "NC" else packed
    return call([x, given], lambda: product(x, weight.T), tolerance=10, weight_layout=layout, units=d.pick(None, 2 * group))


@recipe("qnn.contrib_dense_pack")
def quantised_dense_pack(d: Draw, name: str) -> Call:
    rows, inner = d.dims(2)
    x, weight = d.array((rows, inner), "int8", *INT8), d.array((6, inner), "uint8", 0, 255)
    zeros = d.array((), "int32", -9, 9), d.array(d.pick((), (6,)), "int32", -9, 9)
    scales = [np.float32(0.5) * np.ones((), "float32")] * 2

    def wanted() -> np.ndarray:
        return ((whole(x) - zeros[0]) @ (whole(weight) - zeros[1].reshape(-1, 1)).T).astype("int32")

    return call([x, blocked(weight, (3,), (0,)), *zeros, *scales], wanted, weight_layout="NC3n")


def in_panels(weight: np.ndarray, width: int) -> np.ndarray:
    """The rows of ``weight[n, k]`` in panels ``[panels, k, width]``, the last one padded with numbers that no result has."""
    padded = np.pad(weight, [(0, -len(weight) % width), (0, 0)], constant_values=77)
    return np.ascontiguousarray(padded.reshape(len(padded) // width, width, weight.shape[1]).transpose(0, 2, 1))


@recipe("nn.dense_panels", by_width=True)
def dense_panels(d: Draw, name: str) -> Call:
    rows, inner, units = d.dims(3)
    if d.size == "large":
        rows, inner, units = 100, 1030, 2 * 64 + 3  # several blocks along every axis
    lead = d.pick((rows,), (), (2, rows))
    x, weight = d.array((*lead, inner)), d.array((units, inner))
    width, tolerance = d.pick(panel_width(max(x.itemsize, 4)), 3), 10
    if weight.itemsize == 2 and d.pick(True, False):  # data of float32 take panels of halves
        x, width = d.array((*lead, inner), "float32"), d.pick(panel_width(weight.itemsize), 3)
        tolerance = 50  # of float32, for sums of a thousand products
    return call([x, in_panels(weight, width)], lambda: product(x, weight.T), tolerance=tolerance, units=units)


def in_byte_panels(weight: np.ndarray) -> np.ndarray:
    """The rows of ``weight[n, k]`` in panels of 16 rows and steps of 4 columns, the last ones padded with zeros."""
    padded = np.pad(weight, [(0, -size % part) for size, part in zip(weight.shape, (16, 4), strict=True)])
    panels, steps = padded.shape[0] // 16, padded.shape[1] // 4
    return np.ascontiguousarray(padded.reshape(panels, 16, steps, 4).transpose(0, 2, 1, 3))


@recipe("nn.dense_byte_panels")
def dense_byte_panels(d: Draw, name: str) -> Call:
    rows, inner, units = d.dims(3)
    if d.size == "large":
        rows, inner, units = 100, 1030, 256 + 35  # several blocks along every axis
    lead = d.pick((rows,), (), (2, rows))
    x = d.array((*lead, inner), "uint8", 0, 255) if d.pick(True, False) else d.array((*lead, inner), "int8", *INT8)
    weight = d.array((units, inner), "int8", *INT8)
    sums = weight.sum(1, dtype="int32")
    return call([x, in_byte_panels(weight), sums], lambda: (whole(x) @ whole(weight).T).astype("int32"))


# ---- few bits --------------------------------------------------------------------------------------------------------


def few_bits(d: Draw) -> tuple[tuple[int, ...], int, int, int, int, np.ndarray, np.ndarray]:
    """The rows of the data, inner size, units, bits, block; the numbers ``[n, blocks, block]`` and the scales ``[n, blocks]``."""
    rows, inner, units = d.dims(3)
    inner = max(inner, 1)
    if d.size == "large":
        rows, inner, units = 70, 133, 131  # several bands of rows and groups of panels
    bits, block = d.pick(4, 8, 2), d.pick(16, 32, 128)
    blocks = -(-inner // block)
    numbers = d.rng.integers(0, 2**bits, (units, blocks, block))
    lead = d.pick((rows,), (), (2, rows))
    return lead, inner, units, bits, block, numbers, d.array((units, blocks), "float32", 1, 2) / np.float32(2**bits)


def in_bytes(numbers: np.ndarray, bits: int) -> np.ndarray:
    """Numbers along the last axis in bytes, the first in the lowest bits; missing ones are 0."""
    padded = np.pad(numbers, [(0, 0)] * (numbers.ndim - 1) + [(0, -numbers.shape[-1] % (8 // bits))])
    apart = padded.reshape(*numbers.shape[:-1], padded.shape[-1] * bits // 8, 8 // bits)
    return (apart << np.arange(0, 8, bits)).sum(-1).astype("uint8")


def of_bits(x: np.ndarray, numbers: np.ndarray, zeros: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """The product with the weight that numbers, zero points and scales stand for."""
    whole = (numbers - wide(zeros)) * wide(scales)[..., None]
    return product(x, whole.reshape(len(whole), whole.shape[1] * whole.shape[2])[:, : x.shape[-1]].T)


@recipe("nn.dense_bits", by_width=True)
def dense_bits(d: Draw, name: str) -> Call:
    lead, inner, _, bits, block, numbers, scales = few_bits(d)
    x, scales = d.array((*lead, inner)), scales.astype(d.dtype)
    points = d.rng.integers(0, 2**bits, scales.shape)
    zeros, own = d.pick(
        (np.uint8(3) * np.ones((), "uint8"), np.full((1, 1, 1), 3)),
        (in_bytes(points, bits), points[..., None]),
        (points.astype(d.dtype), points[..., None]),
    )
    wanted = lambda: of_bits(x, numbers, own, scales)  # noqa: E731
    inputs = [x, in_bytes(numbers, bits), scales, zeros]
    sizes = [(1, 1), (1, 2), (2, 1), *[(3, 1)] * (zeros.ndim > 0)]
    return call(inputs, wanted, fixed=sizes, tolerance=10, bits=bits, block=block, inner=inner, rounds_data=d.pick(False, True))


@recipe("nn.dense_bit_panels")
def dense_bit_panels(d: Draw, name: str) -> Call:
    lead, inner, units, bits, block, numbers, scales = few_bits(d)
    x, points = d.array((*lead, inner), "float32"), d.rng.integers(0, 2**bits, scales.shape).astype(d.pick("uint8", "float32"))
    zeros, own = d.pick((np.full((1, 1, 16), 3, "uint8"), np.full((1, 1, 1), 3)), (by_panel(points), points[..., None]))
    if not units:
        zeros, own = np.full((1, 1, 16), 3, "uint8"), np.full((1, 1, 1), 3)
    panels = weight_layout.in_panels(in_bytes(numbers, bits), bits)
    wanted = lambda: of_bits(x, numbers, own, scales)  # noqa: E731
    return call([x, panels, by_panel(scales), zeros], wanted, tolerance=10, units=units, bits=bits, block=block)


# ---- tiles -----------------------------------------------------------------------------------------------------------


def tiled(weight: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """``[height, width, inputs, outputs]`` in tiles, by padding and cutting the transposed matrix."""
    matrix = weight.reshape(math.prod(weight.shape[:3]), weight.shape[3]).T
    padded = np.pad(matrix, [(0, -matrix.shape[0] % rows), (0, -matrix.shape[1] % columns)])
    cut = padded.reshape(padded.shape[0] // rows, rows, padded.shape[1] // columns, columns)
    return np.ascontiguousarray(cut.transpose(0, 2, 1, 3))


@recipe("nn.contrib_conv2d_gemm_weight_transform", by_width=True)
def gemm_weight_transform(d: Draw, name: str) -> Call:
    weight = d.array((3, d.pick(3, 2), *d.dims(2)))
    rows, columns = d.pick((4, 16), (2, 3))
    return call([weight], lambda: tiled(weight, rows, columns), tile_rows=rows, tile_cols=columns)


@recipe("nn.contrib_conv2d_gemm_without_weight_transform", by_width=True)
def gemm(d: Draw, name: str) -> Call:
    batch, channels = batch_and_channels(d)
    data = d.array((batch, channels, *spatial(d, 2)), low=-1, high=1)
    weight = d.array((5, channels, 3, 2), low=-1, high=1)
    attrs: dict[str, Any] = {"strides": d.pick(1, 2), "padding": d.pick(0, (1, 0, 2, 1)), "dilation": d.pick(1, (1, 2))}
    layout, out = d.pick("NHWC", "NCHW"), d.pick("", "NCHW", "NHWC")
    tiles = tiled(weight.transpose(2, 3, 1, 0), *d.pick((4, 16), (2, 3)))
    given = [in_layout(data, layout, "NCHW"), tiles]
    stated = {"data_layout": layout, "kernel_layout": "HWIO", "out_layout": out, "channels": 5, "kernel_size": (3, 2)}

    def wanted() -> np.ndarray:
        return in_layout(convolution(data, weight, attrs), out or layout, "NCHW")

    return call(given, wanted, fixed=[(0, layout.index("C"))], tolerance=5, **attrs, **stated)


# ---- Winograd's algorithm --------------------------------------------------------------------------------------------


def reals(matrix: Matrix) -> np.ndarray:
    return np.array([[float(x) for x in row] for row in matrix])


def transformed(weight: np.ndarray, tile: int) -> np.ndarray:
    """The weight ``[o, i, ...]`` in float64: the matrix along each axis, which goes to the front; a small depth stays."""
    out = wide(weight)
    matrix = reals(winograd(tile, weight.shape[-1]).kernel)
    flat = weight.ndim == 5 and weight.shape[2] != weight.shape[3]
    for axis in range(2 + flat, weight.ndim):
        out = np.moveaxis(np.tensordot(out, matrix, (axis, 1)), -1, axis)
    depth = [2] if flat else []
    return np.ascontiguousarray(out.transpose(*range(2 + flat, out.ndim), *depth, 0, 1))


def from_transformed(data: np.ndarray, weight: np.ndarray, tile: int, kernel: tuple[int, ...], pads: int) -> np.ndarray:
    """Winograd's algorithm in float64, tile by tile, one matrix after the other."""
    padded = np.pad(wide(data), [(0, 0), (0, 0), *[(pads, pads)] * len(kernel)])
    flat = len(kernel) == 3 and kernel[0] != kernel[1]
    own, size = winograd(tile, kernel[-1]), tile + kernel[-1] - 1
    sizes = [n - k + 1 for n, k in zip(padded.shape[2:], kernel, strict=True)]
    out = np.zeros((len(data), weight.shape[-2], *(n + tile for n in sizes)))
    steps = [1 if flat and k == 0 else tile for k in range(len(kernel))]
    spans = [kernel[0] if flat and k == 0 else size for k in range(len(kernel))]
    padded = np.pad(padded, [(0, 0), (0, 0), *[(0, tile)] * len(kernel)])
    # the axes of the products after the channels
    matrix = np.moveaxis(wide(weight), (-2, -1), (0, 1))
    matrix = np.moveaxis(matrix, -1, 2) if flat else matrix
    for at in np.ndindex(*(-(-n // s) for n, s in zip(sizes, steps, strict=True))):
        begins = [a * s for a, s in zip(at, steps, strict=True)]
        part = padded[(slice(None), slice(None), *(slice(b, b + n) for b, n in zip(begins, spans, strict=True)))]
        for axis in range(2 + flat, part.ndim):
            part = np.moveaxis(np.tensordot(part, reals(own.data), (axis, 0)), -1, axis)
        found = np.einsum("nc...,oc...->no...", part, matrix)
        found = found.sum(2, keepdims=True) if flat else found
        for axis in range(2 + flat, found.ndim):
            found = np.moveaxis(np.tensordot(found, reals(own.results), (axis, 0)), -1, axis)
        place = tuple(slice(b, b + n) for b, n in zip(begins, found.shape[2:], strict=True))
        out[(slice(None), slice(None), *place)] = found
    return out[(slice(None), slice(None), *(slice(n) for n in sizes))]


@recipe("nn.winograd_conv2d", by_width=True)
def conv_with_filters(d: Draw, name: str) -> Call:
    batch, channels = batch_and_channels(d)
    data, weight = d.array((batch, channels, *spatial(d, 2)), low=-1, high=1), d.array((5, channels, 3, 3), low=-1, high=1)
    attrs: dict[str, Any] = {"strides": d.pick(1, 2), "padding": d.pick(0, 1, (1, 0, 2, 1))}
    # a dtype that the operator refuses may have no subtraction
    given = [data, weight, filters_of(weight.astype("float64"), attrs["strides"]).astype(weight.dtype)]
    return call(given, lambda: convolution(data, weight, attrs), tolerance=20, **attrs)


@recipe("nn.byte_conv2d")
def convolution_of_bytes(d: Draw, name: str) -> Call:
    batch, channels = d.dims(1)[0] % 4, d.pick(3, 8, 5)
    groups = d.pick(1, channels)
    outputs = groups * d.pick(2, 1, 9)
    window, form = d.pick((3, 3), (1, 1), (2, 5)), d.pick("channels", "columns", "blocks")
    # 7 and a padding of 2: the span of the widest window, dilated by 2
    data = d.array((batch, channels, *d.dims(2, least=7)), "uint8", 0, 255)
    weight = d.array((outputs, channels // groups, *window), "int8", -128, 127)
    start, pad = d.array((outputs,), "int32", -9, 9), d.array((1,), "uint8", 0, 255)
    attrs: dict[str, Any] = {"strides": d.pick(1, (2, 1), 3), "padding": d.pick(1, (0, 1, 2, 3)), "groups": groups}
    attrs["dilation"] = d.pick(1, (2, 1)) if form == "columns" else d.pick(1, 2)

    def wanted() -> np.ndarray:
        # data without the byte of the padding is padded with 0
        sums = convolution(data.astype("float64") - float(pad[0]), weight.astype("float64"), attrs)
        of_pad = float(pad[0]) * weight.astype("float64").sum((1, 2, 3)) + start
        return (sums + of_pad[:, None, None]).astype("int32")

    words, fixed = words_of(weight, groups, form), [(1, k) for k in range(4)]
    return call([data, words, start, pad], wanted, fixed=[(0, 1), *fixed, (2, 0)], kernel_size=window, form=form, **attrs)


@recipe("nn.expanded_conv2d", by_width=True)
def expanded_convolution(d: Draw, name: str) -> Call:
    batch, inputs = batch_and_channels(d)
    data, channels = d.array((batch, inputs, *spatial(d, 2)), low=-1, high=1), d.pick(5, 13)
    weight, bias = d.array((channels, inputs, 1, 1), low=-1, high=1), d.array((channels,), low=-1, high=1)
    windows, bounds = d.array((channels, 1, 3, 3), low=-1, high=1), d.pick((0.0, math.inf), (-0.25, 0.5))
    attrs: dict[str, Any] = {"strides": d.pick(1, 2, (2, 2)), "padding": d.pick(1, (1, 0, 2, 1))}

    def wanted() -> np.ndarray:
        expanded = convolution(data, weight, {}) + wide(bias)[:, None, None]
        return convolution(np.clip(expanded, *bounds), wide(windows), {**attrs, "groups": channels})

    fixed = [(1, 0), (2, 0), (3, 0)]
    attrs.update(channels=channels, a_min=bounds[0], a_max=bounds[1])
    return call([data, weight, bias, windows], wanted, fixed=fixed, tolerance=20, **attrs)


_WEIGHTS = [f"nn.contrib_conv{rank}d_winograd_weight_transform" for rank in (2, 3)]
_CONVOLUTIONS = [f"nn.contrib_conv{rank}d_winograd_without_weight_transform" for rank in (2, 3)]


@recipe(*_WEIGHTS, by_width=True)
def winograd_weight(d: Draw, name: str) -> Call:
    rank = 2 if name == _WEIGHTS[0] else 3
    kernel = (3,) * rank if rank == 2 else d.pick((3, 3, 3), (2, 3, 3), (1, 3, 3))
    weight, tile = d.array((*d.dims(2), *kernel)), d.pick(2, 4, 3)
    fixed = [(0, 2 + k) for k in range(rank)]
    return call([weight], lambda: transformed(weight, tile), fixed=fixed, tolerance=5, tile_size=tile)


@recipe(*_CONVOLUTIONS, by_width=True)
def winograd_convolution(d: Draw, name: str) -> Call:
    rank = 2 if name == _CONVOLUTIONS[0] else 3
    kernel = (3,) * rank if rank == 2 else d.pick((3, 3, 3), (2, 3, 3))
    batch, channels = batch_and_channels(d)
    data = d.array((batch, channels, *spatial(d, rank)), low=-1, high=1)
    tile, pads = d.pick(2, 4), d.pick(1, 0)
    weight = d.array((3, channels, *kernel), low=-1, high=1)
    given = transformed(weight, tile).astype(weight.dtype)
    first, last = f"NC{'DHW'[3 - rank :]}", f"N{'DHW'[3 - rank :]}C"
    layout, out = d.pick(first, last), d.pick("", first, last)
    attrs = {"tile_size": tile, "padding": pads, "kernel_size": kernel, "channels": 3, "data_layout": layout, "out_layout": out}

    def wanted() -> np.ndarray:
        return in_layout(from_transformed(data, given, tile, kernel, pads), out or layout, first)

    fixed = [(1, k) for k in range(rank)]
    return call([in_layout(data, layout, first), given], wanted, fixed=fixed, tolerance=20, **attrs)


# ---- bits ------------------------------------------------------------------------------------------------------------


def packed(x: np.ndarray, bits: int, axis: int, bit_axis: int, dtype: str) -> np.ndarray:
    """By ``numpy.packbits``, whose first bit is the highest, and words of bytes in that order."""
    planes = []
    for bit in range(bits):
        octets = np.packbits(np.moveaxis((whole(x) >> bit) & 1, axis, -1).astype("uint8"), axis=-1)
        words = np.ascontiguousarray(octets).view(np.dtype(dtype).newbyteorder(">")).astype(dtype)
        planes.append(np.moveaxis(words, -1, axis))
    return np.stack(planes, bit_axis)


@recipe("nn.bitpack")
def bitpack(d: Draw, name: str) -> Call:
    dtype, bits = d.pick("uint8", "uint32", "uint64", "uint16"), d.pick(2, 1, 8)
    axis = d.pick(1, 0, 2)
    shape = list(d.dims(3))
    shape[axis] = (shape[axis] % 4) * 8 * np.dtype(dtype).itemsize
    x = d.array(shape, low=-128, high=127)
    at = d.pick(2, 0, 3, 1)
    attrs = {"bits": bits, "pack_axis": axis, "bit_axis": at, "pack_type": dtype}
    return call([x], lambda: packed(x, bits, axis, at, dtype), **attrs)


def planes(x: np.ndarray, bits: int) -> list[np.ndarray]:
    return [(whole(x) >> bit) & 1 for bit in range(bits)]


def by_planes(product: Any, data: np.ndarray, weight: np.ndarray, bits: tuple[int, int], unipolar: bool) -> np.ndarray:
    """The sum over pairs of bits: equal ones less, if unipolar, those that only the data has, times a power of 2."""
    total: Any = 0
    for k, own in enumerate(planes(data, bits[0])):
        for n, other in enumerate(planes(weight, bits[1])):
            found = product(own, other) - (product(own, 1 - other) if unipolar else 0)
            total = total + whole(found) * 2 ** (k + n)
    return np.asarray(total).astype("int16")


@recipe("nn.bitserial_dense")
def bitserial_dense(d: Draw, name: str) -> Call:
    rows = d.dims(1)[0] % 60
    bits = d.pick((2, 1), (3, 2), (1, 1))
    data, weight = d.array((rows, 64), low=0, high=7), d.array((5, 64), "int32", 0, 7)
    form, unipolar = d.pick("", "uint32", "uint8"), d.pick(True, False)
    given = packed(weight, bits[1], 1, 1, form) if form else weight
    attrs = {"data_bits": bits[0], "weight_bits": bits[1], "pack_dtype": form or "uint32", "unipolar": unipolar}

    def wanted() -> np.ndarray:
        return by_planes(lambda a, b: a @ b.T, data, weight, bits, unipolar)

    return call([data, given], wanted, fixed=[(1, 1)] if form else [], units=5, **attrs)


@recipe("nn.bitserial_conv2d")
def bitserial_conv2d(d: Draw, name: str) -> Call:
    batch, _ = batch_and_channels(d)
    bits = d.pick((2, 1), (1, 2), (1, 1))
    data = d.array((batch, 32, *spatial(d, 2)), low=0, high=7)
    weight = d.array((4, 32, 3, 3), "int32", 0, 3)
    layout, form, unipolar = d.pick("NCHW", "NHWC"), d.pick("", "uint16", "uint32"), d.pick(True, False)
    kernel = "OIHW" if layout == "NCHW" else "HWIO"
    plain = in_layout(weight, kernel, "OIHW")
    given = packed(plain, bits[1], kernel.index("I"), 4, form) if form else plain
    own = {"strides": d.pick(1, 2), "padding": d.pick(1, 0)}
    attrs = {"activation_bits": bits[0], "weight_bits": bits[1], "pack_dtype": form or "uint32", "unipolar": unipolar}

    def wanted() -> np.ndarray:
        found = by_planes(lambda a, b: np.rint(convolution(a, b, own)), data, weight, bits, unipolar)
        return in_layout(found, layout, "NCHW")

    fixed = [(1, 4)] if form else []
    return call(
        [in_layout(data, layout, "NCHW"), given], wanted, fixed=fixed, data_layout=layout, kernel_layout=kernel, **own, **attrs
    )
