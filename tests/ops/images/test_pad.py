"""Padding and dilation against numpy, with unknown and with known sizes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relayvm.ops.core.op import get
from relayvm.ops.core.tensor_types import TensorType
from relayvm.ops.core.type_relation import relate
from relayvm.ops.defs.movement.pad import DilateAttrs, DynPadAttrs, MirrorPadAttrs, PadAttrs
from relayvm.shape_funcs.symbolic.dim import sym
from relayvm.shape_funcs.symbolic.registry import ShapeError

from ...arrays import counted, same
from ...tiers import drawing
from ..fused.run_group import call, compiled, evaluate, one_call
from ..refusals import refused

BOTH = pytest.mark.parametrize("static", [False, True])
#: Relay's names and numpy's.
MODES = {"constant": "constant", "edge": "edge", "reflect": "reflect"}


def padded(x, width, mode, value):
    more = {"constant_values": value} if mode == "constant" else {}
    return np.pad(x, width, mode, **more)


@st.composite
def paddings(draw, least):
    shape = draw(st.lists(st.integers(least, 4), min_size=1, max_size=3))
    width = [(draw(st.integers(0, max(0, n - 1))), draw(st.integers(0, max(0, n - 1)))) for n in shape]
    return counted(*shape), tuple(width)


@pytest.mark.drawn
@pytest.mark.parametrize("mode", MODES)
def test_pad_is_numpys(mode):
    @drawing(40, deadline=None)
    @given(paddings(1), st.booleans())
    def example(case, static):
        x, width = case
        value = np.float32(7)
        wanted = padded(x, width, mode, 7)
        same(call("nn.pad", [x, value], PadAttrs(width, mode), static), wanted)
        widths = np.array(width, "int32").reshape(x.ndim, 2)
        same(call("dyn.nn.pad", [x, widths, value], DynPadAttrs(mode), static), wanted)

    example()


@BOTH
def test_more_may_be_added_than_there_is(static):
    x, width = counted(0, 2), ((1, 2), (0, 5))
    same(call("nn.pad", [x, np.float32(3)], PadAttrs(width), static), np.full((3, 7), 3, "float32"))
    same(call("nn.pad", [counted(1), np.float32(0)], PadAttrs(((3, 2),), "edge"), static), np.full(6, 1, "float32"))
    # a scalar has nothing to put elements at
    same(call("dyn.nn.pad", [np.float32(4), np.zeros((0, 2), int), np.float32(3)], DynPadAttrs(), static), np.array(4, "float32"))


@BOTH
@pytest.mark.parametrize(("mode", "numpys"), [("SYMMETRIC", "symmetric"), ("REFLECT", "reflect")])
def test_mirror_pad(mode, numpys, static):
    for shape, width in [((3,), ((2, 2),)), ((2, 4), ((1, 0), (3, 2))), ((1, 3), ((0, 0), (2, 1)))]:
        x = counted(*shape)
        same(call("nn.mirror_pad", [x], MirrorPadAttrs(width, mode), static), np.pad(x, width, numpys))
    # the whole axis once more
    if mode == "SYMMETRIC":
        same(call("nn.mirror_pad", [counted(3)], MirrorPadAttrs(((3, 3),)), static), np.pad(counted(3), 3, "symmetric"))


@pytest.mark.parametrize("dtype", ["int8", "uint64", "bool", "float16", ml_dtypes.bfloat16])
def test_every_dtype_is_padded_as_machine_code(dtype):
    x = counted(2, 3, dtype=dtype)
    wanted = np.pad(x, ((1, 0), (0, 2)), constant_values=np.asarray(1, dtype))
    same(call("nn.pad", [x, np.asarray(1, dtype)], PadAttrs(((1, 0), (0, 2))), run=compiled), wanted)
    same(call("nn.dilate", [x], DilateAttrs((1, 2), 1.0), run=compiled)[:, ::2], x)


@BOTH
def test_dilate(static):
    for shape, strides in [((3,), (2,)), ((2, 3), (1, 3)), ((0, 2), (2, 2)), ((1,), (5,)), ((), ())]:
        x = counted(*shape)
        wanted = np.full([max(0, (n - 1) * s + 1) for n, s in zip(shape, strides, strict=True)], 9, "float32")
        wanted[tuple(slice(None, None, s) for s in strides)] = x
        same(call("nn.dilate", [x], DilateAttrs(strides, 9.0), static), wanted)


def test_the_static_form():
    width = np.array([[1, 0], [2, 3]])
    assert get("dyn.nn.pad").static(DynPadAttrs("edge"), [None, width, None]) == ("nn.pad", PadAttrs(((1, 0), (2, 3)), "edge"))
    assert get("dyn.nn.pad").static(DynPadAttrs(), [None, None, None]) is None
    assert get("dyn.nn.pad").data_dependent == (False, True, False)


N = sym("n")


def test_wrong_calls():
    one, scalar = ((3,), "float32"), ((), "float32")
    assert refused("nn.pad", [one, scalar], PadAttrs(((0, 1), (0, 1)))) == "nn.pad: pad_width is for 2 dimensions, the data has 1"
    message = "nn.pad: axis 0 has size 3, pad_width adds -5 elements"
    assert refused("nn.pad", [one, scalar], PadAttrs(((-5, 1),))) == message
    assert refused("nn.pad", [one, scalar], PadAttrs(((-1, 1),), "edge")) == "nn.pad: pad_width of axis 0 is negative: -1"
    assert refused("nn.pad", [one, one], PadAttrs(((1, 1),))) == "nn.pad: the pad value must have 0 dimensions, not 1"
    message = "nn.pad: axis 0 of size 3 is too short to be mirrored 3 far"
    assert refused("nn.pad", [one, scalar], PadAttrs(((3, 0),), "reflect")) == message
    assert refused("nn.pad", [((0,), "float32"), scalar], PadAttrs(((3, 0),), "edge")) == (
        "nn.pad: axis 0 is empty: it has no edge to repeat"
    )
    assert refused("nn.mirror_pad", [one], MirrorPadAttrs(((0, 4),))) == (
        "nn.mirror_pad: axis 0 of size 3 is too short to be mirrored 4 far"
    )
    assert refused("nn.pad", [one, scalar], PadAttrs(((1, 2, 3),))) == (
        "nn.pad: attribute pad_width must be a tuple of (int, int), not ((1, 2, 3),)"
    )
    assert "attribute pad_mode must be" in refused("nn.pad", [one, scalar], PadAttrs(((1, 1),), "wrap"))
    assert refused("nn.dilate", [one], DilateAttrs((0,))) == "nn.dilate: strides (0,) must be at least 1"
    assert refused("nn.dilate", [one], DilateAttrs((1, 1))) == "nn.dilate: strides has 2 numbers, the data has 1 dimension"
    assert refused("nn.dilate", [((3,), "uint8")], DilateAttrs((2,), 0.5)) == "nn.dilate: dilation_value=0.5 is no uint8"
    assert refused("dyn.nn.pad", [one, ((3,), "int64"), scalar], DynPadAttrs()) == (
        "dyn.nn.pad: pad_width must have 2 dimensions, not 1"
    )
    assert refused("dyn.nn.pad", [one, ((1, N), "int64"), scalar], DynPadAttrs()).startswith("dyn.nn.pad: argument 2 (pad_width)")
    assert refused("dyn.nn.pad", [one, ((2, 2), "int64"), scalar], DynPadAttrs()) == (
        "dyn.nn.pad: pad_width has 4 numbers; data with 1 dimension needs 2"
    )


@pytest.mark.parametrize(
    ("shape", "width", "mode", "message"),
    [
        ((3,), [[-4, 0]], "constant", "dyn.nn.pad: axis 0 has size 3, pad_width adds -4 elements"),
        ((3,), [[-1, 0]], "edge", "dyn.nn.pad: pad_width of axis 0 is negative: -1"),
        ((3,), [[0, 3]], "reflect", "dyn.nn.pad: axis 0 of size 3 is too short to be mirrored 3 far"),
        ((0,), [[0, 1]], "edge", "dyn.nn.pad: axis 0 is empty: it has no edge to repeat"),
    ],
)
def test_wrong_widths_at_run_time(shape, width, mode, message):
    arrays = [counted(*shape), np.array(width), np.float32(0)]
    with pytest.raises(ShapeError) as error:
        evaluate(one_call("dyn.nn.pad", arrays, DynPadAttrs(mode)), arrays)
    assert error.value.message == message


def test_names_of_sizes_stay():
    (ty, checks) = relate(get("nn.pad"), [TensorType((N, N)), TensorType(())], PadAttrs(((0, 0), (1, 1))))
    assert ty.shape == (N, N + 2) and not checks
