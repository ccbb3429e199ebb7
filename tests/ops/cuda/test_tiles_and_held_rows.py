"""Rows in registers, batches of folds and tiles of transposes on the emulated GPU: all widths, unaligned tensors, halves."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.ops.core.group import Group
from relayvm.ops.core.op import get
from relayvm.ops.core.tensor_types import numpy_dtype

from .groups_on_gpu import call, evaluate
from .on_gpu import run

#: Widths around those of warps, packs and registers.
WIDTHS = (0, 1, 3, 4, 31, 33, 128, 1000, 1023, 1024, 1028, 8191, 8192, 8193)
HALVES = {"float16": 2e-3, "bfloat16": 2e-2}


@functools.cache
def group(body: str, *types: str) -> Group:
    """The one group of a program over ``%a``, ``%b``, ..."""
    params = ", ".join(f"%{'abcd'[k]}: Tensor[{t}]" for k, t in enumerate(types))
    (packed,) = relay.compile(relay.parse(f'#[version = "0.0.5"]\ndef @main({params}) {{ {body} }}'), target="cuda").packed
    return packed.group


def on_gpu(made: Group, *arrays: Any, aligned: bool = True) -> np.ndarray:
    status, (result,) = evaluate(made, arrays, aligned=aligned)
    assert status == 0
    return result


def drawn(shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(numpy_dtype(dtype))


def normed(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    x, w = x.astype(np.float64), w.astype(np.float64)
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * w + w


@pytest.mark.parametrize("width", WIDTHS[1:])
def test_rows_in_registers(width: int) -> None:
    made = group("nn.layer_norm(%a, %b, %b)", "(?, ?n), float32", "(?n,), float32")
    x, w = drawn((3, width)), drawn((width,))
    found = on_gpu(made, x, w)
    np.testing.assert_allclose(found, normed(x, w), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(on_gpu(made, x, w, aligned=False), found)
    assert on_gpu(made, x[:0], w).shape == (0, width)


@pytest.mark.parametrize("width", [4, 1000, 1024, 4100, 8192])
def test_rows_of_equal_elements_have_their_mean_and_no_variance(width: int) -> None:
    made = group("nn.layer_norm(%a, %b, %b)", "(?, ?n), float32", "(?n,), float32")
    each = np.random.default_rng(0).uniform(-1e6, 1e6, (16, 1)).astype("float32")
    w = drawn((width,))
    np.testing.assert_array_equal(on_gpu(made, np.repeat(each, width, 1), w), np.broadcast_to(w, (16, width)))


@pytest.mark.parametrize("dtype", HALVES)
def test_rows_of_halves_in_registers(dtype: str) -> None:
    made = group("nn.layer_norm(%a, %b, %b)", f"(?, ?n), {dtype}", f"(?n,), {dtype}")
    for width in (8, 33, 1000, 8192):
        x, w = drawn((2, width), dtype), drawn((width,), dtype)
        np.testing.assert_allclose(
            on_gpu(made, x, w).astype(np.float64), normed(x, w), rtol=4 * HALVES[dtype], atol=8 * HALVES[dtype]
        )


@pytest.mark.parametrize("width", WIDTHS[1:])
def test_softmax_of_all_widths(width: int) -> None:
    for dtype, tolerance in [("float32", 1e-5), *HALVES.items()] if width in (33, 1000) else [("float32", 1e-5)]:
        x = drawn((2, width), dtype)
        (found,) = run("nn.softmax", [x], axis=-1).outputs
        e = np.exp(x.astype(np.float64) - x.astype(np.float64).max(1, keepdims=True))
        np.testing.assert_allclose(found.astype(np.float64), e / e.sum(1, keepdims=True), rtol=tolerance, atol=tolerance / 10)


#: Columns in registers and columns that are read twice; widths around those of packs, sectors and tiles.
COLUMNS = [(n, m) for n in (1, 3, 8, 9, 65, 513) for m in (2, 3, 4, 16, 33, 128)] + [(2049, 4), (2048, 4), (7, 1200), (40, 1031)]


@pytest.mark.split(2)
@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("float64", 1e-12), *HALVES.items()])
def test_softmax_of_columns_of_all_shapes(dtype: str, tolerance: float, aligned: bool) -> None:
    for length, inner in COLUMNS if dtype == "float32" else COLUMNS[::5]:
        x = drawn((2, length, inner), dtype)
        found = call("nn.softmax", [x], get("nn.softmax").attrs(axis=1), aligned=aligned)
        e = np.exp(x.astype(np.float64) - x.astype(np.float64).max(1, keepdims=True))
        np.testing.assert_allclose(found.astype(np.float64), e / e.sum(1, keepdims=True), rtol=tolerance, atol=tolerance / 10)


def test_softmax_of_rows_without_elements() -> None:
    assert run("nn.softmax", [np.zeros((3, 0), np.float32)], axis=-1).outputs[0].shape == (3, 0)


@pytest.mark.parametrize("axis", [0, 1])
def test_sums_of_all_widths(axis: int) -> None:
    made = group(f"sum(%a, axis=[{axis}])", "(?, ?), float32")
    for width in WIDTHS:
        shape = (width, 3) if axis == 0 else (3, width)
        x = drawn(shape)
        found = on_gpu(made, x)
        np.testing.assert_allclose(found, x.astype(np.float64).sum(axis), rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(on_gpu(made, x, aligned=False), found)


@pytest.mark.split(2)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int8"])
def test_packs_of_columns_and_columns_agree(dtype: str) -> None:
    """Sums over outer axes: widths that are whole packs and widths that are not, rows in one block and rows in several."""
    columns = group("sum(%a, axis=[0])", f"(?, ?), {dtype}")
    planes = group("sum(%a, axis=[0])", f"(?, ?, ?), {dtype}")
    tolerance = {"rtol": 1e-5, "atol": 1e-5} if dtype not in HALVES else {"rtol": HALVES[dtype], "atol": 10 * HALVES[dtype]}
    for made, shape in [
        *((columns, (rows, width)) for rows in (0, 1, 33, 700) for width in (1, 3, 4, 33, 128, 1000, 1023)),
        *((columns, (3, width)) for width in (8191, 8192, 8193)),
        *((planes, (300, *plane)) for plane in ((14, 14), (7, 7), (2, 64), (16, 3))),
    ]:
        x = (drawn(shape) * 8).astype(numpy_dtype(dtype))
        found = on_gpu(made, x)
        wide = x.astype(np.int64).sum(0).astype(np.int8) if dtype == "int8" else x.astype(np.float64).sum(0)
        np.testing.assert_allclose(found.astype(wide.dtype), wide, **tolerance, err_msg=str(shape))
        np.testing.assert_array_equal(on_gpu(made, x, aligned=False), found, err_msg=str(shape))


@pytest.mark.parametrize("op", ["argmax", "variance", "max"])
def test_folds_of_columns_in_packs(op: str) -> None:
    made = group(f"{op}(%a, axis=[0, 1])", "(?, ?, ?), float32")
    for shape in [(1, 1, 8), (9, 70, 36), (9, 70, 37)]:
        x = np.round(drawn(shape) * 4)
        rows = x.reshape(-1, shape[-1]).astype(np.float64)
        found = on_gpu(made, x)
        np.testing.assert_allclose(found, getattr(rows, {"variance": "var"}.get(op, op))(0), rtol=1e-5, err_msg=str(shape))
        np.testing.assert_array_equal(on_gpu(made, x, aligned=False), found)


def test_columns_of_a_part_of_an_operand() -> None:
    """The width of the loop is whole packs, the operand's is not, and the other way round."""
    for width, begin, end in [(37, 0, 36), (37, 1, 37), (36, 0, 35), (40, 4, 40)]:
        part = f"strided_slice(%a, begin=[0, {begin}], end=[50, {end}], strides=[1, 1])"
        x = drawn((50, width))
        found = on_gpu(group(f"sum({part}, axis=[0])", f"(50, {width}), float32"), x)
        np.testing.assert_allclose(found, x[:, begin:end].astype(np.float64).sum(0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "uint8", "int64"])
def test_transposes_are_tiles(dtype: str) -> None:
    made = group("transpose(%a, axes=[1, 0])", f"(?, ?), {dtype}")
    for shape in [(0, 3), (1, 1), (3, 33), (31, 65), (1000, 2), (1, 8193)]:
        x = (drawn(shape) * 50).astype(numpy_dtype(dtype))
        for aligned in (True, False):
            np.testing.assert_array_equal(on_gpu(made, x, aligned=aligned), x.T)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "uint8", "float64"])
def test_tiles_of_packs_and_of_elements_agree(dtype: str) -> None:
    """Sides that are whole packs and sides that are not, from the least with packs to several tiles."""
    made = group("transpose(%a, axes=[1, 0])", f"(?, ?), {dtype}")
    planes = group("transpose(%a, axes=[0, 2, 3, 1])", f"(?, ?, ?, ?), {dtype}")
    for shape in [(32, 32), (36, 64), (80, 144), (144, 80), (33, 64), (64, 33), (31, 64), (130, 66)]:
        x = (drawn(shape) * 50).astype(numpy_dtype(dtype))
        for aligned in (True, False):
            np.testing.assert_array_equal(on_gpu(made, x, aligned=aligned), x.T)
    for shape in [(2, 48, 4, 12), (3, 32, 14, 14), (1, 80, 7, 7), (2, 64, 8, 33)]:
        x = (drawn(shape) * 50).astype(numpy_dtype(dtype))
        for aligned in (True, False):
            np.testing.assert_array_equal(on_gpu(planes, x, aligned=aligned), x.transpose(0, 2, 3, 1))


def test_a_tile_of_packs_computes_with_all_operands() -> None:
    """An operand along the rows of a tile, and an operand of which only a part is read, by packs and by elements."""
    kind = "(?n, ?m), float32"
    both = group("multiply(tanh(transpose(%a, axes=[1, 0])), reshape(%b, newshape=[-1, 1]))", kind, "(?m,), float32")
    part = group("transpose(strided_slice(%a, begin=[0, 1], end=[64, 49], strides=[1, 1]), axes=[1, 0])", "(64, 52), float32")
    for n, m in [(64, 48), (36, 100), (50, 49)]:
        x, y = drawn((n, m)), drawn((m,))
        found = on_gpu(both, x, y)
        np.testing.assert_allclose(found, np.tanh(x.T) * y[:, None], rtol=1e-6, atol=1e-7)
        np.testing.assert_array_equal(on_gpu(both, x, y, aligned=False), found)
    x = drawn((64, 52))
    np.testing.assert_array_equal(on_gpu(part, x), x[:, 1:49].T)


@pytest.mark.parametrize("axes", [(0, 2, 3, 1), (0, 3, 1, 2), (3, 2, 1, 0), (1, 0, 2, 3), (0, 1, 3, 2), (2, 3, 0, 1)])
def test_transposes_of_four_axes(axes: tuple[int, ...]) -> None:
    kind = "(?, ?, ?, ?), float32"
    moved = group(f"transpose(%a, axes={list(axes)})", kind)
    with_bias = group(f"add(tanh(transpose(%a, axes={list(axes)})), %b)", kind, "(?c,), float32")
    for shape in [(2, 3, 5, 7), (1, 33, 4, 31), (2, 0, 3, 1), (1, 1, 40, 1)]:
        x = drawn(shape)
        np.testing.assert_array_equal(on_gpu(moved, x), x.transpose(axes))
        transposed = np.tanh(x.transpose(axes))
        bias = drawn((transposed.shape[-1],))
        np.testing.assert_allclose(on_gpu(with_bias, x, bias), transposed + bias, rtol=1e-5, atol=1e-6)
