"""Tensors whose axes are put in another order: every order, dtype and odd size, alone and within an expression."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relayvm as relay
from relayvm.ops.codegen import kernel_source
from relayvm.ops.core.group import Node
from relayvm.ops.core.op import NoAttrs
from relayvm.ops.core.tensor_types import DTYPES, Tensor, numpy_dtype
from relayvm.ops.defs.movement.transform import AxisAttrs, TransposeAttrs
from relayvm.ops.native.jit import block_transpose
from relayvm.ops.native.jit.non_temporal import LINE_BYTES
from relayvm.shape_funcs.symbolic.dim import dim, sym

from .run_group import call, compiled, evaluate, group_of, one_call, plain

NONE = NoAttrs()


def numbers(shape, dtype="float32"):
    return np.random.default_rng(0).integers(0, 100, shape).astype(numpy_dtype(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("run", [plain, compiled])
@pytest.mark.extensive(dtype=["float32"])
def test_every_dtype(dtype, run):
    x = numbers((19, 37), dtype)
    ours = call("transpose", [x], TransposeAttrs(), run=run)
    assert ours.dtype == x.dtype and (ours == x.T).all()
    assert "transpose_into_result" in kernel_source(one_call("transpose", [x], TransposeAttrs())).text


@pytest.mark.parametrize("axes", list(itertools.permutations(range(4))))
@pytest.mark.parametrize("static", [True, False])
def test_every_order(axes, static):
    for shape in [(2, 9, 3, 17), (1, 16, 1, 8), (9, 1, 8, 1), (3, 0, 8, 9)]:
        x = numbers(shape)
        np.testing.assert_array_equal(call("transpose", [x], TransposeAttrs(axes), static), x.transpose(axes), strict=True)


@pytest.mark.parametrize("shape", [(16, 16), (300, 33), (65, 512), (1, 1), (0, 7), (257, 1)])
def test_machine_code_of_whole_and_partial_tiles(shape):
    x = numbers(shape)
    np.testing.assert_array_equal(call("transpose", [x], TransposeAttrs(), run=compiled), x.T, strict=True)


def expression(shape_x, shape_y, *, unknown):
    """``transpose(exp(x)) * y + transpose(exp(x))``, as a group of two parameters."""

    def tensor(shape, letter):
        return Tensor("float32", tuple(sym(f"{letter}{k}") if unknown else dim(d) for k, d in enumerate(shape)))

    nodes = [
        Node("exp", NONE, (0,), ()),
        Node("transpose", TransposeAttrs(), (2,), ()),
        Node("multiply", NONE, (3, 1), ()),
        Node("add", NONE, (4, 3), ()),
    ]
    return group_of([tensor(shape_x, "a"), tensor(shape_y, "b")], nodes)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 70), st.integers(1, 70), st.booleans(), st.booleans(), st.booleans())
def test_within_an_expression(n, m, unknown, repeated, machine_code):
    x, y = numbers((n, m)) / 50, numbers((1, n) if repeated else (m, n))
    status, (ours,) = evaluate(expression(x.shape, y.shape, unknown=unknown), [x, y], compiled if machine_code else plain)
    assert status == 0
    np.testing.assert_allclose(ours, np.exp(x).T * y + np.exp(x).T, rtol=1e-5)


def test_short_axes_are_not_tiled():
    x = numbers((4, 1000))
    assert "transpose_" not in kernel_source(one_call("transpose", [x], TransposeAttrs(), static=True)).text
    np.testing.assert_array_equal(call("transpose", [x], TransposeAttrs(), static=True), x.T)


def test_what_may_not_be_there_is_not_read_ahead():
    # of a concatenation each part is read only where it is
    a, b = numbers((20, 9)), numbers((20, 30))
    group = group_of(
        [Tensor("float32", (dim(20), dim(9))), Tensor("float32", (dim(20), dim(30)))],
        [Node("concatenate", AxisAttrs(1), ((0, 1),), ()), Node("transpose", TransposeAttrs(), (2,), ())],
    )
    assert "transpose_" not in kernel_source(group).text
    status, (ours,) = evaluate(group, [a, b])
    assert status == 0
    np.testing.assert_array_equal(ours, np.concatenate([a, b], 1).T)


# ---- results that are larger than the caches -----------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(64, 48), (48, 64), (33, 80), (16, 16), (7, 64), (0, 16)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8"])
@pytest.mark.extensive(dtype=["float32"])
def test_lines_written_past_the_caches(shape, dtype, monkeypatch):
    """Every result is treated as large; a machine's results are aligned to cache lines."""
    monkeypatch.setattr(block_transpose, "NON_TEMPORAL_BYTES", 0)
    x = numbers(shape, dtype)
    program = f'#[version = "0.0.5"]\ndef @main(%x: Tensor[(?, ?), {dtype}]) {{ transpose(%x) }}'
    result = relay.VirtualMachine(relay.compile(program, target="cpu")).run(x).numpy()
    assert result.ctypes.data % LINE_BYTES == 0 or not result.size
    np.testing.assert_array_equal(result, x.T, strict=True)


@pytest.mark.parametrize("first", [0, 1, 16])
def test_only_whole_lines_are_written_past_the_caches(first, monkeypatch):
    written = []
    monkeypatch.setattr(block_transpose, "NON_TEMPORAL_BYTES", 0)
    monkeypatch.setattr(block_transpose, "transpose_block_non_temporal", lambda *args: written.append(args[4]))
    memory = np.zeros(64 * 64 + 16 + 16, np.uint32)
    aligned = memory[-memory.ctypes.data % LINE_BYTES // 4 :]
    source, target = np.arange(64 * 64, dtype=np.uint32), aligned[first : first + 64 * 64]
    block_transpose.transpose_into_result(source, 0, 64, 64, 64, target, 0, 64, 16)
    assert len(written) == (16 if first % 16 == 0 else 0)
