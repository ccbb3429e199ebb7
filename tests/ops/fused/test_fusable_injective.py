"""Operators that move elements, against numpy, with unknown and with known sizes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from relayvm.ops.core.op import get
from relayvm.ops.defs.arithmetic.creation import ArangeAttrs, FullAttrs, InitAttrs
from relayvm.ops.defs.movement.dynamic import DynFullAttrs, DynInitAttrs, DynOneHotAttrs
from relayvm.ops.defs.movement.indexing import GatherNdAttrs, OneHotAttrs, TakeAttrs
from relayvm.ops.defs.movement.transform import (
    AxisAttrs,
    DynSliceAttrs,
    RepeatAttrs,
    SliceAttrs,
    SplitAttrs,
    TileAttrs,
    TransposeAttrs,
)
from relayvm.ops.native.status import INDEX_OUT_OF_RANGE

from ...arrays import same
from .run_group import call, compiled, evaluate, one_call

BOTH = pytest.mark.parametrize("static", [False, True])


def data(*shape, dtype="float32"):
    return np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)


@BOTH
def test_transpose(static):
    for shape, axes in [((0,), None), ((3, 4), None), ((2, 3, 4), (2, 0, 1)), ((2, 3, 4), (-1, 0, -2)), ((), None)]:
        x = data(*shape)
        same(call("transpose", [x], TransposeAttrs(axes), static), x.transpose(axes))
    x = data(3, 4)
    same(call("transpose", [x], TransposeAttrs(()), static), x.T)  # as Relay: no axes are all of them, reversed


@BOTH
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_concatenate_and_stack(static, dtype):
    for sizes in [(1,), (0, 3), (3, 0), (2, 1, 4), (0, 0)]:
        for axis in (0, 1, -1):
            parts = tuple(data(*((n, 3) if axis == 0 else (3, n)), dtype=dtype) for n in sizes)
            same(call("concatenate", [parts], AxisAttrs(axis), static), np.concatenate(parts, axis))
    for axis in (0, 1, 2, -1):
        parts = tuple(data(2, 3, dtype=dtype) + np.array(k, dtype) for k in range(3))
        same(call("stack", [parts], AxisAttrs(axis), static), np.stack(parts, axis))


@BOTH
def test_split(static):
    x = data(6, 4)
    for at, axis in [(2, 0), (4, 1), ((1, 5), 0), ((0, 2, 2), 1), (1, -1)]:
        ours = call("split", [x], SplitAttrs(at, axis), static)
        for a, b in zip(ours if isinstance(ours, list) else [ours], np.split(x, at, axis), strict=True):
            same(a, b)


bounds = st.integers(-7, 7)


@settings(max_examples=150)
@given(st.integers(0, 5), bounds, bounds, st.integers(-3, 3), st.booleans())
def test_slices(n, begin, end, stride, static):
    assume(stride != 0)
    x = data(n, 2)
    same(call("strided_slice", [x], SliceAttrs((begin,), (end,), (stride,)), static), x[begin:end:stride])
    vectors = [np.array([v]) for v in (begin, end, stride)]
    same(call("dyn.strided_slice", [x, *vectors]), x[begin:end:stride])


def test_slice_attributes():
    x = data(4, 5, 6)
    same(call("strided_slice", [x], SliceAttrs((1, 2), (3, 4))), x[1:3, 2:4])
    same(call("strided_slice", [x], SliceAttrs((1, 2), (3, -1), (1,), (0, -1))), x[1:3, :, 2:-1])
    same(call("strided_slice", [x], SliceAttrs((1, 2), (2, -1), slice_mode="size")), x[1:3, 2:])
    for begin, size, wanted in [((1, 2), (2, -1), x[1:3, 2:]), ((-2, 9), (1, 2), x[-2:-1, 9:]), ((-99, -3), (2, 99), x[:2, -3:])]:
        vectors = [np.array(begin), np.array(size), np.array([7, 0])]
        same(call("dyn.strided_slice", [x, *vectors], DynSliceAttrs("size")), wanted)


@BOTH
def test_tile_and_repeat(static):
    for shape, reps in [((3,), (2,)), ((2, 3), (2,)), ((3,), (2, 2)), ((1, 3), (4, 1)), ((0, 2), (2, 2)), ((2,), (0,))]:
        x = data(*shape)
        same(call("tile", [x], TileAttrs(reps), static), np.tile(x, reps))
        same(call("dyn.tile", [x, np.array(reps)], None, static), np.tile(x, reps))
    for repeats, axis in [(3, 0), (1, 1), (2, -1), (0, 0)]:
        same(call("repeat", [data(2, 3)], RepeatAttrs(repeats, axis), static), np.repeat(data(2, 3), repeats, axis))


@BOTH
@pytest.mark.parametrize("mode", ["clip", "wrap", "fast"])
def test_take(mode, static):
    numpy_mode = "raise" if mode == "fast" else mode
    for index_dtype in ("int32", "int64"):
        for shape in [(), (0,), (4,), (2, 3)]:
            low, high = (0, 3) if mode == "fast" else (-9, 9)
            at = np.random.default_rng(1).integers(low, high, shape).astype(index_dtype)
            for axis in (0, 1, -1, None):
                x = data(3, 4, 5)
                same(call("take", [x, at], TakeAttrs(axis, 0, mode), static), np.take(x, at, axis, mode=numpy_mode))


def test_take_with_batch_dims():
    x, at = data(2, 3, 4), np.array([[2, 0], [1, 1]])
    same(call("take", [x, at], TakeAttrs(1, 1)), np.stack([x[b][at[b]] for b in range(2)]))


@pytest.mark.parametrize("at", [-1, 3, 2**40])
def test_an_index_out_of_range_is_a_status(at):
    x, indices = data(3, 4), np.array([0, at])
    assert evaluate(one_call("take", [x, indices], TakeAttrs(0, 0, "fast")), [x, indices])[0] == INDEX_OUT_OF_RANGE
    columns = np.array([[0, 0, 0, at]] * 3)
    assert evaluate(one_call("gather", [x, columns], AxisAttrs(0)), [x, columns])[0] == INDEX_OUT_OF_RANGE
    tuples = np.array([[0, at]])
    assert evaluate(one_call("gather_nd", [x, tuples], GatherNdAttrs(), True), [x, tuples])[0] == INDEX_OUT_OF_RANGE


@pytest.mark.parametrize("mode", ["clip", "wrap", "fast"])
def test_nothing_is_taken_from_an_empty_axis(mode):
    x, indices = data(0, 4), np.array([0])
    assert evaluate(one_call("take", [x, indices], TakeAttrs(0, 0, mode)), [x, indices])[0] == INDEX_OUT_OF_RANGE
    same(call("take", [x, indices[:0]], TakeAttrs(0, 0, mode)), x)
    # no element is wanted, so there is nothing to complain about
    y = data(0, 0)
    same(call("take", [y, indices], TakeAttrs(0, 0, mode)), data(1, 0))


@BOTH
def test_gather(static):
    x = data(3, 4)
    for axis, at in [(0, np.array([[2, 1, 0, 0]])), (1, np.array([[3], [0], [1]])), (-1, np.zeros((3, 0), int))]:
        same(call("gather", [x, at], AxisAttrs(axis), static), np.take_along_axis(x, at, axis))


@BOTH
def test_gather_nd(static):
    x = data(3, 4, 5)
    at = np.array([[0, 2, 1], [3, 1, 0]])
    # how long an index tuple is must be known at compile time, so that only the static form has both
    same(call("gather_nd", [x, at], GatherNdAttrs(), True), x[at[0], at[1]])
    batched = np.array([[1, 0, 3]])
    expected = np.stack([x[b, batched[0, b]] for b in range(3)])
    same(call("gather_nd", [x, batched], GatherNdAttrs(batch_dims=1), True), expected)


@BOTH
def test_gather_nd_of_no_coordinates(static):
    x, at = data(3), np.zeros((0, 2), np.int64)
    same(call("gather_nd", [x, at], GatherNdAttrs(index_rank=0), static), np.stack([x, x]))


@BOTH
def test_one_hot(static):
    at = np.array([[0, 2, -1], [1, 7, 2]], "int32")
    on, off = np.float32(5), np.float32(-1)
    expected = np.where(at[..., None] == np.arange(3), on, off)
    for axis in (-1, 0, 1, 2):
        moved = np.moveaxis(expected, -1, axis)
        same(call("one_hot", [at, on, off], OneHotAttrs(3, axis), static), moved)
        same(call("dyn.one_hot", [at, on, off, np.int64(3)], DynOneHotAttrs(axis), static), moved)
    same(call("one_hot", [at, on, off], OneHotAttrs(3, -1, "int8"), static), expected.astype("int8"))


def test_creation():
    same(call("full", [np.float32(2.5)], FullAttrs((2, 3))), np.full((2, 3), 2.5, "float32"))
    same(call("full", [np.float32(2.5)], FullAttrs((0,), "int8")), np.full((0,), 2, "int8"))
    same(call("dyn.full", [np.int64(7), np.array([2, 0, 3])], DynFullAttrs()), np.full((2, 0, 3), 7))
    for name, value in [("zeros", 0), ("ones", 1)]:
        for dtype in ("float32", "int64", "bool"):
            same(call(name, [], InitAttrs((2, 3), dtype)), np.full((2, 3), value, dtype))
            same(call(f"dyn.{name}", [np.array([4])], DynInitAttrs(dtype)), np.full((4,), value, dtype))
    same(call("dyn.broadcast_to", [data(3, 1), np.array([2, 3, 4])]), np.broadcast_to(data(3, 1), (2, 3, 4)))


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
def test_arange(dtype):
    for start, stop, step in [(0, 5, 1), (5, 0, -2), (3, 3, 1), (0, 7, 3), (2, 1, 1)]:
        three = [np.array(v, dtype) for v in (start, stop, step)]
        same(call("arange", three, ArangeAttrs(dtype)), np.arange(start, stop, step, dtype))


@pytest.mark.parametrize(
    ("name", "attrs", "constants", "expected"),
    [
        ("dyn.strided_slice", DynSliceAttrs(), [None, [1], [3], [2]], ("strided_slice", SliceAttrs((1,), (3,), (2,)))),
        (
            "dyn.strided_slice",
            DynSliceAttrs("size"),
            [None, [1], [3], [2]],
            ("strided_slice", SliceAttrs((1,), (3,), (2,), None, "size")),
        ),
        ("dyn.strided_slice", DynSliceAttrs(), [None, [1], None, [2]], None),
        ("dyn.tile", None, [None, [2, 3]], ("tile", TileAttrs((2, 3)))),
        ("dyn.zeros", DynInitAttrs("int8"), [[2]], ("zeros", InitAttrs((2,), "int8"))),
        ("dyn.full", DynFullAttrs(), [None, []], ("full", FullAttrs(()))),
        ("dyn.one_hot", DynOneHotAttrs(0), [None, None, None, 4], ("one_hot", OneHotAttrs(4, 0))),
    ],
)
def test_static_forms(name, attrs, constants, expected):
    given = [None if c is None else np.array(c, "int64") for c in constants]
    assert get(name).static(attrs, given) == expected


@pytest.mark.optimized
@pytest.mark.parametrize("name", ["take", "concatenate", "dyn.strided_slice", "gather_nd", "arange"])
def test_machine_code(name):
    x = data(5, 6)
    at = np.array([[0, 2, 1], [3, 1, 0]])
    vectors = [np.array(v) for v in ([4, -1], [-9, 0], [-2, -1])]
    arrays, attrs, expected = {
        "take": ([x, np.array([9, -4, 2])], TakeAttrs(1), x.take([9, -4, 2], 1, mode="clip")),
        "concatenate": ([(x, x[:, :2], x[:, :0])], AxisAttrs(1), np.concatenate([x, x[:, :2]], 1)),
        "dyn.strided_slice": ([x, *vectors], None, x[4:-9:-2, -1:0:-1]),
        "gather_nd": ([x, at], GatherNdAttrs(), x[at[0], at[1]]),
        "arange": ([np.float32(v) for v in (0, 1, 0.25)], ArangeAttrs(), np.arange(0, 1, 0.25, "float32")),
    }[name]
    same(call(name, arrays, attrs, name == "gather_nd", compiled), expected)
