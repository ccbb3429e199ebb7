"""Operators that turn, cut and lay out anew, against numpy, with unknown and with known sizes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relayvm
from relayvm.ops.core.op import get
from relayvm.ops.core.tensor_types import TensorType
from relayvm.ops.core.type_relation import relate
from relayvm.ops.defs.movement.blocks import BatchToSpaceAttrs, DepthToSpaceAttrs, SpaceToBatchAttrs, SpaceToDepthAttrs
from relayvm.ops.defs.movement.layout_transform import LayoutTransformAttrs
from relayvm.ops.defs.movement.rearrange import (
    MeshgridAttrs,
    ReverseSequenceAttrs,
    SequenceMaskAttrs,
    SliceLikeAttrs,
    SlidingWindowAttrs,
)
from relayvm.ops.defs.movement.size import NdarraySizeAttrs
from relayvm.ops.defs.movement.transform import AxisAttrs
from relayvm.shape_funcs.symbolic.dim import sym
from relayvm.vm.inspection.transfers import RESULT, transfers

from ..arrays import counted, same
from .fused.run_group import call, compiled
from .refusals import refused

BOTH = pytest.mark.parametrize("static", [False, True])


F = "float32"


@BOTH
def test_reverse(static):
    for shape in [(0,), (1,), (5,), (2, 3), (0, 2)]:
        for axis in range(-len(shape), len(shape)):
            same(call("reverse", [counted(*shape)], AxisAttrs(axis), static), np.flip(counted(*shape), axis))
    assert "axis 1 is out of range" in refused("reverse", [((3,), F)], AxisAttrs(1))


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_sequences(draw):
    shape = draw.draw(st.lists(st.integers(0, 4), min_size=2, max_size=4))
    axes = draw.draw(st.permutations(range(len(shape))))
    sequence, batch = axes[:2]
    lengths = np.array(
        draw.draw(st.lists(st.integers(0, shape[sequence]), min_size=shape[batch], max_size=shape[batch])), "int64"
    )
    x = counted(*shape)
    wanted = np.moveaxis(x.copy(), (batch, sequence), (0, 1))
    for b, n in enumerate(lengths):
        wanted[b, :n] = wanted[b, :n][::-1]
    attrs = ReverseSequenceAttrs(sequence - len(shape), batch)
    same(call("reverse_sequence", [x, lengths], attrs), np.moveaxis(wanted, (0, 1), (batch, sequence)))
    axis = draw.draw(st.integers(0, 1))
    valid = np.array(draw.draw(st.lists(st.integers(-1, 9), min_size=shape[1 - axis], max_size=shape[1 - axis])), "int32")
    at = np.arange(shape[axis])
    kept = at[:, None] < valid if axis == 0 else at < valid[:, None]
    wanted = np.where(kept.reshape(*kept.shape, *[1] * (len(shape) - 2)), x, np.float32(-2))
    same(call("sequence_mask", [x, valid], SequenceMaskAttrs(-2.0, axis)), wanted)


def test_a_length_beyond_the_sequence_is_its_nearest():
    for length, wanted in ((-1, [0, 1, 2]), (4, [2, 1, 0]), (-(2**63), [0, 1, 2]), (2**63 - 1, [2, 1, 0])):
        same(call("reverse_sequence", [counted(1, 3), np.array([length])], ReverseSequenceAttrs()), counted(1, 3)[:, wanted])
    two, one = ((2, 3), F), ((2,), "int64")
    assert (
        refused("reverse_sequence", [two, one], ReverseSequenceAttrs(0, 0))
        == "reverse_sequence: seq_axis and batch_axis are both 0"
    )
    assert refused("reverse_sequence", [two, ((3,), "int64")], ReverseSequenceAttrs()) == (
        "reverse_sequence: axis 0 of the data has size 2, seq_lengths has 3 elements"
    )
    assert refused("sequence_mask", [two, one], SequenceMaskAttrs(axis=2)) == "sequence_mask: axis is 2; it must be 0 or 1"
    assert refused("sequence_mask", [((2, 3), "int8"), one], SequenceMaskAttrs(300, 1)) == (
        "sequence_mask: mask_value=300 is no int8"
    )


@BOTH
def test_slice_like(static):
    x = counted(4, 5, 3)
    same(call("slice_like", [x, counted(2, 5, 0)], SliceLikeAttrs(), static), x[:2, :5, :0])
    same(call("slice_like", [x, counted(9, 2)], SliceLikeAttrs((1,)), static), x[:, :2])
    same(call("slice_like", [x, counted(9, 9, 1)], SliceLikeAttrs((-1,)), static), x[:, :, :1])
    assert refused("slice_like", [((2, 3), F), ((2, 4), F)], SliceLikeAttrs()) == (
        "slice_like: axis 1 of the data has size 3, less than the 4 of shape_like"
    )
    assert refused("slice_like", [((2, 3), F), ((2,), F)], SliceLikeAttrs()) == (
        "slice_like: without axes both must have the same rank; data has 2, shape_like 1"
    )


@BOTH
@pytest.mark.parametrize("indexing", ["ij", "xy"])
def test_meshgrid(static, indexing):
    for sizes in [(3,), (2, 3), (2, 0, 4), (1, 2, 3)]:
        fields = tuple(counted(n) for n in sizes)
        ours = call("meshgrid", [fields], MeshgridAttrs(indexing), static)
        for a, b in zip(ours if isinstance(ours, list) else [ours], np.meshgrid(*fields, indexing=indexing), strict=True):
            same(a, b)
    ours = call("meshgrid", [(np.float32(5), counted(2, dtype="int8"))], MeshgridAttrs(indexing), static)
    for a, b in zip(ours, np.meshgrid(np.float32(5), counted(2, dtype="int8"), indexing=indexing), strict=True):
        same(a, b)
    assert "a grid is made of vectors" in refused("meshgrid", [[((2, 2), F)]], MeshgridAttrs())
    assert refused("meshgrid", [[]], MeshgridAttrs()) == "meshgrid: the tuple is empty; it needs at least one tensor"


@BOTH
def test_sliding_window(static):
    for shape, axis, window, strides in [((7,), 0, (3,), (2,)), ((2, 5, 4), 1, (2, 4), (1, 3)), ((3, 3), -1, (3,), (1,))]:
        x, n = counted(*shape), len(window)
        wanted = np.lib.stride_tricks.sliding_window_view(x, window, range(x.ndim - n, x.ndim))
        wanted = wanted[(..., *(slice(None, None, s) for s in strides), *[slice(None)] * n)]
        same(call("sliding_window", [x], SlidingWindowAttrs(axis, window, strides), static), wanted)
    assert refused("sliding_window", [((2,), F)], SlidingWindowAttrs(0, (3,), (1,))) == (
        "sliding_window: a window of 3 does not fit axis 0 of size 2"
    )
    assert "strides (0,) must be at least 1" in refused("sliding_window", [((2,), F)], SlidingWindowAttrs(0, (1,), (0,)))
    assert "from axis 0 on the data has 2 axes" in refused("sliding_window", [((2, 2), F)], SlidingWindowAttrs(0, (1,), (1,)))


@BOTH
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_depth_and_space(layout, static):
    for n, c, h, w, b in [(2, 8, 3, 2, 2), (1, 9, 1, 2, 3), (1, 3, 2, 2, 1), (0, 4, 2, 2, 2), (1, 4, 0, 1, 2)]:
        x = counted(n, c, h, w)
        deep = x.reshape(n, b, b, c // b**2, h, w).transpose(0, 3, 4, 1, 5, 2).reshape(n, c // b**2, h * b, w * b)
        crossed = x.reshape(n, c // b**2, b, b, h, w).transpose(0, 1, 4, 2, 5, 3).reshape(n, c // b**2, h * b, w * b)

        def laid(a):
            return a if layout == "NCHW" else np.ascontiguousarray(a.transpose(0, 2, 3, 1))

        same(call("nn.depth_to_space", [laid(x)], DepthToSpaceAttrs(b, layout), static), laid(deep))
        same(call("nn.depth_to_space", [laid(x)], DepthToSpaceAttrs(b, layout, "CDR"), static), laid(crossed))
        same(call("nn.space_to_depth", [laid(deep)], SpaceToDepthAttrs(b, layout), static), laid(x))


def test_wrong_blocks():
    four = ((1, 4, 3, 2), F)
    assert refused("nn.depth_to_space", [((1, 3, 2, 2), F)], DepthToSpaceAttrs(2)) == (
        "nn.depth_to_space: cannot make blocks of 2 * 2 of 3 channels"
    )
    assert refused("nn.space_to_depth", [four], SpaceToDepthAttrs(2)) == (
        "nn.space_to_depth: axis 2 has size 3, which is not a multiple of 2"
    )
    assert (
        refused("nn.space_to_depth", [four], SpaceToDepthAttrs(0)) == "nn.space_to_depth: block_size is 0; it must be at least 1"
    )
    assert "must have 4 dimensions" in refused("nn.depth_to_space", [((4,), F)], DepthToSpaceAttrs(2))
    attrs = SpaceToBatchAttrs((2, 2), ((0, 0), (0, 0)))
    assert refused("nn.space_to_batch_nd", [((1, 3, 2), F)], attrs) == (
        "nn.space_to_batch_nd: axis 1 has size 3 with its paddings, which is not a multiple of 2"
    )
    assert "for a batch and 2 dimensions, the data has 2" in refused("nn.space_to_batch_nd", [((1, 3), F)], attrs)
    assert refused("nn.batch_to_space_nd", [((3, 3), F)], BatchToSpaceAttrs((2,), ((0, 0),))) == (
        "nn.batch_to_space_nd: the batch has size 3, which is not a multiple of 2"
    )
    assert refused("nn.batch_to_space_nd", [((4, 1), F)], BatchToSpaceAttrs((2,), ((2, 1),))) == (
        "nn.batch_to_space_nd: what crops leave of axis 1 is negative: -1"
    )
    assert "crops has [-2, 1]; no number may be negative" in refused(
        "nn.batch_to_space_nd", [((4, 1), F)], BatchToSpaceAttrs((2,), ((-2, 1),))
    )


def to_batch(x, block, paddings, value):
    """As TensorFlow documents it."""
    x = np.pad(x, [(0, 0), *paddings, *[(0, 0)] * (x.ndim - 1 - len(block))], constant_values=value)
    n, rest = len(block), x.shape[1 + len(block) :]
    split = [v for size, b in zip(x.shape[1 : 1 + n], block, strict=True) for v in (size // b, b)]
    x = x.reshape(x.shape[0], *split, *rest)
    order = [*range(2, 2 * n + 1, 2), 0, *range(1, 2 * n, 2), *range(2 * n + 1, x.ndim)]
    x = x.transpose(order)
    return np.ascontiguousarray(x).reshape(int(np.prod(x.shape[: n + 1])), *x.shape[n + 1 :])


@BOTH
def test_batch_and_space(static):
    for shape, block, paddings in [
        ((2, 4), (2,), ((0, 0),)),
        ((1, 3, 4, 2), (2, 2), ((1, 0), (1, 3))),
        ((3, 2, 1), (1, 3), ((0, 0), (0, 2))),
        ((2, 0), (2,), ((1, 1),)),
    ]:
        x = counted(*shape)
        batch = to_batch(x, block, paddings, 7)
        same(call("nn.space_to_batch_nd", [x], SpaceToBatchAttrs(block, paddings, 7.0), static), batch)
        same(call("nn.batch_to_space_nd", [batch], BatchToSpaceAttrs(block, paddings), static), x)


@BOTH
def test_layouts(static):
    x = counted(2, 6, 3, 4)
    for source, result, wanted in [
        ("NCHW", "NHWC", x.transpose(0, 2, 3, 1)),
        ("NCHW", "NCHW3c", x.reshape(2, 2, 3, 3, 4).transpose(0, 1, 3, 4, 2)),
        ("NCHW", "NHWC2c", x.reshape(2, 3, 2, 3, 4).transpose(0, 3, 4, 1, 2)),
        ("NCHW", "WHCN", x.transpose(3, 2, 1, 0)),
        ("NCHW", "NCHW", x),
    ]:
        wanted = np.ascontiguousarray(wanted)
        same(call("layout_transform", [x], LayoutTransformAttrs(source, result), static), wanted)
        same(call("layout_transform", [wanted], LayoutTransformAttrs(result, source), static), x)
    packed = np.ascontiguousarray(x.reshape(2, 2, 3, 3, 4).transpose(0, 1, 3, 4, 2))
    other = np.ascontiguousarray(x.reshape(2, 3, 2, 3, 4).transpose(0, 1, 3, 4, 2))
    same(call("layout_transform", [packed], LayoutTransformAttrs("NCHW3c", "NCHW2c"), static), other)
    kernel = counted(4, 6)
    cut = kernel.reshape(2, 2, 2, 3).transpose(0, 2, 3, 1)
    same(call("layout_transform", [kernel], LayoutTransformAttrs("OI", "OI3i2o"), static), np.ascontiguousarray(cut))
    twice = kernel.reshape(4, 1, 3, 2)
    same(call("layout_transform", [kernel], LayoutTransformAttrs("OI", "OI3i2i"), static), np.ascontiguousarray(twice))
    same(call("layout_transform", [counted(0, 4)], LayoutTransformAttrs("NC", "CN"), static), counted(4, 0))


@pytest.mark.parametrize(
    ("source", "result", "message"),
    [
        ("NC", "NC4c", "C has size 6, which is not a multiple of 4"),
        ("NC4c", "NC", "src_layout 'NC4c' has 3 dimensions, the data 2"),
        ("N5n", "N", "axis 1 (5n) has size 6, not 5"),
        ("NC", "NCH", "src_layout 'NC' and dst_layout 'NCH' must have the same capital letters"),
        ("NC", "N4C", "dst_layout 'N4C' gives C a size; only small letters have one"),
        ("NC", "NCc", "dst_layout 'NCc' gives c no size; write 4c for parts of 4"),
        ("NN", "NC", "src_layout 'NN' has N twice"),
        ("N4c", "NC", "src_layout 'N4c' has c but no C"),
        ("N?", "NC", "src_layout 'N?' is no layout: it has '?' where a letter must be"),
    ],
)
def test_wrong_layouts(source, result, message):
    assert refused("layout_transform", [((2, 6), F)], LayoutTransformAttrs(source, result)) == f"layout_transform: {message}"


@pytest.mark.parametrize("shape", ["", "(0, 3)", "(2, 3, 4)", "(?, ?)"])
def test_ndarray_size(shape):
    text = '#[version = "0.0.5"]\ndef @main(%x: T) { (ndarray_size(%x), ndarray_size(%x, dtype="int64")) }'
    exe = relayvm.compile(text.replace("T", f"Tensor[{shape}, float32]" if shape else "float32"), target="sim")
    x = counted(*(5 if d == "?" else int(d) for d in shape.strip("()").split(", ") if d))
    machine = relayvm.VirtualMachine(exe)
    for ours, dtype in zip(machine.run(x), ("int32", "int64"), strict=True):
        same(np.asarray(ours), np.array(x.size, dtype))
    assert "dtype='float32' is not a dtype it gives" in refused("ndarray_size", [((2,), F)], NdarraySizeAttrs("float32"))


def test_a_number_of_elements_is_known_on_the_host():
    text = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(?, ?), float32]) { dyn.zeros(reshape(ndarray_size(%x), newshape=[1])) }'
    exe = relayvm.compile(text, target="sim")
    assert [t.what for t in transfers(exe)] == [RESULT]
    assert np.asarray(relayvm.VirtualMachine(exe).run(counted(2, 3))).shape == (6,)


def test_sizes_that_are_named_stay_named():
    n = sym("n")
    for name, types, attrs, shape in [
        ("reverse", [(n, 3)], AxisAttrs(0), (n, 3)),
        ("layout_transform", [(n, n, 4)], LayoutTransformAttrs("NC4c", "NC"), (n, n * 4)),
        ("nn.space_to_depth", [(n, 3, 4, 6)], SpaceToDepthAttrs(2), (n, 12, 2, 3)),
        ("nn.space_to_batch_nd", [(n, 4)], SpaceToBatchAttrs((2,), ((0, 0),)), (n * 2, 2)),
        ("sliding_window", [(n, 5)], SlidingWindowAttrs(1, (2,), (1,)), (n, 4, 2)),
    ]:
        ty, checks = relate(get(name), [TensorType.of(t) for t in types], attrs)
        assert ty == TensorType.of(shape) and not checks


@pytest.mark.parametrize("name", ["reverse_sequence", "layout_transform", "nn.batch_to_space_nd", "sliding_window", "meshgrid"])
def test_machine_code(name):
    x = counted(4, 6)
    arrays, attrs, wanted = {
        "reverse_sequence": (
            [x, np.array([0, 6, 3, 1])],
            ReverseSequenceAttrs(),
            np.stack([np.concatenate([r[:n][::-1], r[n:]]) for r, n in zip(x, (0, 6, 3, 1), strict=True)]),
        ),
        "layout_transform": ([x], LayoutTransformAttrs("NC", "CN2n"), x.reshape(2, 2, 6).transpose(2, 0, 1)),
        "nn.batch_to_space_nd": (
            [x],
            BatchToSpaceAttrs((2,), ((1, 2),)),
            np.stack([x[:2], x[2:]], -1).reshape(2, 12)[:, 1:-2],
        ),
        "sliding_window": (
            [x],
            SlidingWindowAttrs(1, (3,), (2,)),
            np.lib.stride_tricks.sliding_window_view(x, 3, 1)[:, ::2],
        ),
        "meshgrid": ([(x[0], x[:, 0])], MeshgridAttrs("xy"), np.meshgrid(x[0], x[:, 0])),
    }[name]
    ours = call(name, arrays, attrs, run=compiled)
    for a, b in zip(ours, wanted, strict=True) if isinstance(ours, list) else [(ours, wanted)]:
        same(a, b)
