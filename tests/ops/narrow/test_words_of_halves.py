"""Loops over words of two bfloat16s, and over all elements of a channel: each element is that of numpy."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm.ops  # noqa: F401  declares the operators
from relayvm.ops.codegen import kernel_source
from relayvm.ops.core.tensor_types import numpy_dtype
from relayvm.ops.native.front_end import vector_hints
from relayvm.ops.native.front_end.vector_hints import RANGES, filled_range, filled_short_range, short_range

from ..fused.run_group import compiled, evaluate, group_of, one_call, plain
from ..fused.test_loops import node, params

HALF = numpy_dtype("bfloat16")
#: Infinities, zeros, the least and the largest numbers, quiet NaNs with all bits and with the fewest.
EDGES = np.uint16([0x7F80, 0xFF80, 0, 0x8000, 1, 0x7F7F, 0x7FC0, 0xFFFF, 0x7FFF, 0x3F80]).view(HALF)


def halves(*shape):
    random = np.random.default_rng(5).integers(0x3000, 0x4FFF, shape) | np.random.default_rng(6).integers(0, 2, shape) << 15
    return random.astype(np.uint16).view(HALF)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_any_number_of_elements_at_any_place():
    group = group_of(params(("n",), ("n",), dtype="bfloat16"), [node("multiply", 0, 1)])
    for n in range(70):
        x, y = halves(n), np.resize(np.concatenate([EDGES, halves(7)]), n)
        status, (ours,) = evaluate(group, [x, y], compiled)
        assert status == 0
        want = (x.astype(np.float32) * y.astype(np.float32)).astype(HALF)
        is_nan = np.isnan(want.astype(np.float32))
        np.testing.assert_array_equal(ours.view(np.uint16)[~is_nan], want.view(np.uint16)[~is_nan])
        assert np.isnan(ours.astype(np.float32)[is_nan]).all()


def test_words_are_of_loops_over_many_halves_in_registers_of_avx2(monkeypatch):
    for nbytes in (16, 32, 64):
        monkeypatch.setattr(vector_hints, "vector_bytes", lambda nbytes=nbytes: nbytes)
        assert [vector_hints.has_words(RANGES[f]()) for f in (filled_range, filled_short_range, short_range)] == [
            nbytes == 32,
            False,
            False,
        ]
    assert not vector_hints.has_words(())


#: Shapes, and whether a kernel has one loop for a whole channel: there are enough channels, and rows are short.
SHAPES = {
    (2, 16, 3, 5): True,
    (1, 64, 7, 1): True,
    (2, 16, 0, 5): True,
    (1, 3, 9, 9): False,
    (1, 16, 2, 600): False,
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("run", [plain, compiled])
def test_a_channel_is_one_loop(shape, dtype, run):
    x, scale = halves(*shape).astype(numpy_dtype(dtype)), halves(shape[1], 1, 1).astype(numpy_dtype(dtype))
    group = one_call("multiply", [x, scale], static=True)
    assert ("for i3 in" not in kernel_source(group).text) == SHAPES[shape]
    status, (ours,) = evaluate(group, [x, scale], run)
    assert status == 0
    np.testing.assert_array_equal(ours, (x.astype(np.float32) * scale.astype(np.float32)).astype(numpy_dtype(dtype)))
