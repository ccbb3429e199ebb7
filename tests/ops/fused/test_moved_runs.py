"""Runs of elements that a kernel only moves: numpy's elements, whole cache lines past the caches, no run where it computes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relayvm as relay
from relayvm.ops.codegen import kernel_source
from relayvm.ops.core.group import Node
from relayvm.ops.core.op import NoAttrs
from relayvm.ops.core.tensor_types import Tensor
from relayvm.ops.defs.movement.transform import AxisAttrs
from relayvm.ops.native.jit import non_temporal
from relayvm.ops.native.jit.non_temporal import LINE_BYTES, NON_TEMPORAL_BYTES, move_run
from relayvm.shape_funcs.symbolic.dim import dim, sym

from .run_group import group_of

MOVES = [
    ("strided_slice(%x, begin=[1, 3], end=[9, 1000])", lambda x: x[1:9, 3:]),
    ("strided_slice(%x, begin=[0, 3], end=[100, 1000], strides=[2, 1])", lambda x: x[::2, 3:]),
    ("concatenate((%x, %x), axis=0)", lambda x: np.concatenate([x, x])),
    ("concatenate((%x, %x), axis=1)", lambda x: np.concatenate([x, x], 1)),
    ("reshape(concatenate((%x, %x), axis=1), newshape=[-1])", lambda x: np.concatenate([x, x], 1).reshape(-1)),
    ("reverse(%x, axis=0)", lambda x: x[::-1]),
]
STILL = [
    ("reverse(%x, axis=1)", lambda x: x[:, ::-1]),
    ("strided_slice(%x, begin=[0, 0], end=[100, 1000], strides=[1, 2])", lambda x: x[:, ::2]),
    ("repeat(%x, repeats=2, axis=1)", lambda x: x.repeat(2, 1)),
]


def run(call, x):
    program = f'#[version = "0.0.5"]\ndef @main(%x: Tensor[(?, ?), {x.dtype}]) {{ {call} }}'
    return relay.VirtualMachine(relay.compile(program, target="cpu")).run(x).numpy()


@pytest.mark.parametrize(("call", "expected"), [*MOVES, *STILL])
@pytest.mark.parametrize("past_caches", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8"])
@pytest.mark.extensive(dtype=["float32"])
def test_every_move(call, expected, past_caches, dtype, monkeypatch):
    """Past the caches, results count as large, and runs as long, whatever their size."""
    if past_caches:
        monkeypatch.setattr(non_temporal, "NON_TEMPORAL_BYTES", 0)
        monkeypatch.setattr(non_temporal, "SHORTEST_RUN_BYTES", 0)
    for shape in [(9, 331), (3, 4), (1, 1), (0, 9), (2, 0), (5, 64)]:
        x = np.random.default_rng(0).integers(-100, 100, shape).astype(dtype)
        np.testing.assert_array_equal(run(call, x), expected(x), strict=True)


def test_a_computation_moves_no_run():
    tensors = [Tensor("float32", (sym("n"), sym("m")))] * 2
    nodes = [Node("concatenate", AxisAttrs(1), ((0, 1),), ()), Node("exp", NoAttrs(), (2,), ())]
    assert "move_run" in kernel_source(group_of(tensors, nodes[:1])).text
    assert "move_run" not in kernel_source(group_of(tensors, nodes)).text


@pytest.mark.parametrize("rows", [4, NON_TEMPORAL_BYTES // 4096])
def test_a_result_known_to_be_small_has_plain_loops_alone(rows):
    tensors = [Tensor("float32", (dim(rows), dim(512)))] * 2
    text = kernel_source(group_of(tensors, [Node("concatenate", AxisAttrs(0), ((0, 1),), ())])).text
    assert ("move_run" in text) == (2 * rows * 512 * 4 >= NON_TEMPORAL_BYTES)


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from([np.uint8, np.uint16, np.uint32, np.uint64]), st.integers(0, 200), st.integers(0, 300), st.integers(0, 300),
)  # fmt: skip
def test_only_the_run_is_written_and_lines_are_whole(word, at, to, count):
    lines, item = [], np.dtype(word).itemsize
    source = np.arange(200 + 300 + 1).astype(word)
    target, want = (np.full(700, 7, word) for _ in range(2))
    want[to : to + count] = source[at : at + count]

    def move_line(*args):
        lines.append((target.ctypes.data + args[3] * item) % LINE_BYTES)
        plain(*args)

    plain = non_temporal.move_line
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(non_temporal, "move_line", move_line)
        move_run(source, at, target, to, count)
    np.testing.assert_array_equal(target, want)
    assert not any(lines)
    longest = count * item // LINE_BYTES
    assert longest - 1 <= len(lines) <= longest
