"""Triangles and diagonals of matrices against numpy, with unknown and with known sizes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relayvm.ops.defs.movement.matrix import MatrixSetDiagAttrs, TriluAttrs
from relayvm.shape_funcs.symbolic.registry import ShapeError

from ..arrays import counted, same
from .fused.run_group import call, compiled, evaluate, one_call
from .refusals import INTEGER, refused

SHAPES = st.lists(st.integers(0, 5), min_size=2, max_size=3)


@settings(max_examples=60, deadline=None)
@given(SHAPES, st.integers(-7, 7), st.booleans(), st.booleans())
def test_trilu(shape, k, upper, static):
    x = counted(*shape)
    same(call("trilu", [x, np.array(k)], TriluAttrs(upper), static), (np.triu if upper else np.tril)(x, k))


def test_trilu_of_other_dtypes_and_far_diagonals():
    for dtype in ("bool", "uint8", "float16"):
        x = counted(3, 4, dtype=dtype)
        same(call("trilu", [x, np.array(1, "int32")], TriluAttrs(), run=compiled), np.triu(x, 1))
    for k in (-(2**63), 2**63 - 1):
        same(call("trilu", [counted(2, 2), np.array(k)], TriluAttrs(), run=compiled), np.triu(counted(2, 2), max(min(k, 9), -9)))


def with_diagonals(x, diagonal, k1, k2, align):
    """As TensorFlow documents ``matrix_set_diag``."""
    out, (rows, columns) = x.copy(), x.shape[-2:]
    bands = diagonal if k1 != k2 else diagonal[..., None, :]
    for k in range(k1, k2 + 1):
        length = min(rows + min(k, 0), columns - max(k, 0))
        side = align[0] if k >= 0 else align[1]
        start = bands.shape[-1] - length if side == "RIGHT" else 0
        for i in range(length):
            out[..., i - min(k, 0), i + max(k, 0)] = bands[..., k2 - k, start + i]
    return out


@settings(max_examples=60, deadline=None)
@given(st.data(), st.booleans())
def test_matrix_set_diag(draw, static):
    *batch, rows, columns = shape = draw.draw(st.lists(st.integers(1, 5), min_size=2, max_size=3))
    k1 = draw.draw(st.integers(1 - rows, columns - 1))
    k2 = draw.draw(st.integers(k1, columns - 1))
    longest = min(rows + min(k2, 0), columns - max(k1, 0))
    x, diagonal = counted(*shape), -counted(*batch, *([k2 - k1 + 1] if k1 != k2 else []), longest)
    align = draw.draw(st.sampled_from([(a, b) for a in ("LEFT", "RIGHT") for b in ("LEFT", "RIGHT")]))
    attrs = MatrixSetDiagAttrs(k1, k2, align[0] == "RIGHT", align[1] == "RIGHT")
    same(call("matrix_set_diag", [x, diagonal], attrs, static), with_diagonals(x, diagonal, k1, k2, align))


def test_an_empty_matrix_has_a_main_diagonal():
    same(call("matrix_set_diag", [counted(0, 3), counted(0)], MatrixSetDiagAttrs()), counted(0, 3))
    same(call("matrix_set_diag", [counted(2, 0, 0), counted(2, 0)], MatrixSetDiagAttrs(), True), counted(2, 0, 0))


def test_wrong_calls():
    matrix, F = ((2, 3), "float32"), "float32"
    assert refused("trilu", [((2,), F), ((), "int64")], TriluAttrs()) == "trilu: the data must have at least 2 dimensions, not 1"
    assert refused("trilu", [matrix, ((1,), "int64")], TriluAttrs()) == "trilu: k must have 0 dimensions, not 1"
    assert refused("trilu", [matrix, ((), F)], TriluAttrs()) == f"trilu: k is float32; {INTEGER}"
    diag = "matrix_set_diag"
    assert refused(diag, [matrix, ((2,), F)], MatrixSetDiagAttrs(1, 0)) == f"{diag}: k1 is 1, more than k2, which is 0"
    assert refused(diag, [matrix, ((2,), F)], MatrixSetDiagAttrs(3, 3)) == (
        f"{diag}: a matrix of 2 rows and 3 columns has no diagonal 3"
    )
    assert refused(diag, [matrix, ((2,), F)], MatrixSetDiagAttrs(-2, -2)) == (
        f"{diag}: a matrix of 2 rows and 3 columns has no diagonal -2"
    )
    assert refused(diag, [matrix, ((3,), F)], MatrixSetDiagAttrs()) == f"{diag}: the longest diagonal has 2 elements, 3 are given"
    assert refused(diag, [matrix, ((3, 2), F)], MatrixSetDiagAttrs(0, 1)) == (
        f"{diag}: there are 2 diagonals, from k1 to k2, but 3 are given"
    )
    assert refused(diag, [matrix, ((2, 2), F)], MatrixSetDiagAttrs()) == f"{diag}: the diagonal must have 1 dimension, not 2"


def test_a_wrong_diagonal_at_run_time():
    arrays = [counted(2, 3), counted(3)]
    with pytest.raises(ShapeError, match="the longest diagonal has 2 elements, 3 are given"):
        evaluate(one_call("matrix_set_diag", arrays, MatrixSetDiagAttrs()), arrays)
