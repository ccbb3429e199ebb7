"""Operators that move elements on the emulated GPU: GPU and CPU results are equal."""

from __future__ import annotations

import numpy as np
import pytest

from relayvm.ops.defs.movement.blocks import SpaceToBatchAttrs
from relayvm.ops.defs.movement.layout_transform import LayoutTransformAttrs
from relayvm.ops.defs.movement.matrix import MatrixSetDiagAttrs
from relayvm.ops.defs.movement.pad import DynPadAttrs, PadAttrs
from relayvm.ops.defs.movement.rearrange import ReverseSequenceAttrs
from relayvm.ops.native.status import BAD_VALUE, INDEX_OUT_OF_RANGE, SHAPE_CHECK

from ..fused import run_group
from . import groups_on_gpu

X = np.arange(24, dtype="float32").reshape(4, 6)


def vectors(*rows):
    return [np.array(row) for row in rows]


#: Inputs, attributes, and whether sizes are known.
CALLS = {
    "nn.pad": ([X, np.float32(9)], PadAttrs(((1, 2), (0, 3)), "reflect"), False),
    "dyn.nn.pad": ([X, np.array([[1, 0], [2, 7]]), np.float32(9)], DynPadAttrs(), False),
    "reverse_sequence": ([X, np.array([0, 7, 3, -1])], ReverseSequenceAttrs(), False),
    "nn.space_to_batch_nd": ([X], SpaceToBatchAttrs((2,), ((1, 3),), 7.0), False),
    "layout_transform": ([X], LayoutTransformAttrs("NC", "CN2n"), False),
    "matrix_set_diag": ([X, -np.ones((3, 4), "float32")], MatrixSetDiagAttrs(-1, 1), False),
    "adv_index": ([(X, np.array([[0], [-1]]), np.array([5, 0, 2], "int32"))], None, False),
    "unravel_index": ([np.array([0, 5, 23], "int32"), np.array([2, 3, 4])], None, True),
    "strided_set": ([X, -np.ones((2, 6), "float32"), *vectors([3], [-9], [-2])], None, True),
}


@pytest.mark.parametrize("name", CALLS)
def test_on_the_gpu(name):
    inputs, attrs, static = CALLS[name]
    wanted = run_group.call(name, inputs, attrs, static)
    np.testing.assert_array_equal(groups_on_gpu.call(name, inputs, attrs, static), wanted, strict=True)


@pytest.mark.parametrize(
    ("name", "inputs", "attrs", "status"),
    [
        ("adv_index", [(X, np.array([0, 4]))], None, INDEX_OUT_OF_RANGE),
        ("unravel_index", [np.array([6]), np.array([2, 3])], None, INDEX_OUT_OF_RANGE),
        ("strided_set", [X, X, *vectors([0], [2], [1])], None, SHAPE_CHECK),
        ("strided_set", [X, X, *vectors([0], [4], [0])], None, BAD_VALUE),
    ],
)
def test_what_is_wrong_is_reported(name, inputs, attrs, status):
    flat = [x for a in inputs for x in (a if isinstance(a, tuple) else (a,))]
    group = run_group.one_call(name, inputs, attrs, static=name in ("unravel_index", "strided_set"))
    assert groups_on_gpu.evaluate(group, flat)[0] == status
