"""Fusion and values that are read several times: expensive elements are computed about once, cheap ones stay in the kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relayvm.ops  # noqa: F401  declares the operators
from relayvm.compiler.ir.expr import Call, Constant, GlobalVar, IRModule, let_chain
from relayvm.compiler.ir.lowering_context import LoweringContext
from relayvm.compiler.ir.primitive import group_of
from relayvm.compiler.passes.fuse_ops import fuse_ops
from relayvm.compiler.passes.infer_type import infer_type
from relayvm.compiler.passes.to_a_normal_form import to_a_normal_form
from relayvm.compiler.text.parser import parse

from ...programs import HEADER
from .run_group import evaluate
from .test_evaluations import Counter

#: The most computations of an element in the mean, before another kernel is worth it.
MOST = 2


def fused(text: str, target: str = "cpu", enabled: bool = True) -> IRModule:
    """The program with its kernels."""
    return fuse_ops(infer_type(to_a_normal_form(parse(HEADER + text))), LoweringContext(target=target), enabled)


def kernels(mod: IRModule) -> list[str]:
    """The names of the kernels in the order of their calls."""
    return [v.op.name for _, v in let_chain(mod["main"].body)[0] if isinstance(v, Call) and isinstance(v.op, GlobalVar)]


def sigmoids(mod: IRModule, *arrays: np.ndarray) -> int:
    """The number of sigmoids that a run computes."""
    values: dict[Any, np.ndarray] = dict(zip(mod["main"].params, arrays, strict=True))
    counter = Counter()
    for var, call in let_chain(mod["main"].body)[0]:
        given = [a.data if isinstance(a, Constant) else values[a] for a in call.args]
        status, (values[var],) = evaluate(group_of(mod[call.op.name]), given, counter.run)
        assert status == 0
    return counter.calls


MAIN = """
    def @main(%x: Tensor[(?n, 8, ?h, ?w), float32], %i: Tensor[(?k), int64], %y: Tensor[(?j, ?n, 8, ?h, ?w), float32]) {{
      let %s = {}; {}
    }}"""
SILU = "multiply(%x, sigmoid(%x))"
#: Uses that read an element of %s several times.
USES = {
    "repeat": "repeat(repeat(%s, repeats=2, axis=2), repeats=2, axis=3)",
    "resize": 'image.resize2d(%s, size=[9, 9], method="linear")',
    "tile": "tile(%s, reps=[8, 1, 1, 1])",
    "window": "sliding_window(%s, axis=3, window_shape=[3], strides=[1])",
    "take": "take(%s, %i, axis=0)",
    "broadcast": "broadcast_to(%s, shape=[7, 5, 8, 4, 6])",
    "operand": "add(%s, %y)",
    "two places": "concatenate((%s, %s), axis=2)",
    "neighbours": "multiply(strided_slice(%s, begin=[1], end=[9], axes=[0]), strided_slice(%s, begin=[0], end=[-1], axes=[0]))",
    "row": "sum(multiply(%s, %y), axis=[4])",
}


@pytest.mark.parametrize("use", USES)
def test_an_expensive_element_is_computed_once(use: str) -> None:
    x = np.random.default_rng(0).normal(size=(5, 8, 4, 6)).astype("float32")
    text = MAIN.format(SILU, USES[use])
    arrays = x, np.repeat(np.arange(5), 7), np.stack([x] * 3)
    assert sigmoids(fused(text), *arrays) == x.size
    assert sigmoids(fused(text, enabled=False), *arrays) == x.size


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize("use", USES)
def test_a_cheap_element_is_computed_again(use: str, target: str) -> None:
    assert len(kernels(fused(MAIN.format("nn.relu(%x)", USES[use]), target))) == len(
        kernels(fused(MAIN.format("%x", USES[use]), target))
    )


def test_the_activation_stays_with_its_convolution() -> None:
    text = """
        def @main(%x: Tensor[(?n, 8, ?h, ?w), float32], %f: Tensor[(8, 8, 3, 3), float32]) {
          let %c = nn.conv2d(%x, %f, padding=[1, 1, 1, 1]);
          let %r = nn.relu(%c);
          repeat(%r, repeats=2, axis=3)
        }"""
    assert kernels(fused(text)) == ["fused_nn_conv2d_nn_relu", "repeat"]
    assert kernels(fused(text.replace("nn.relu", "sigmoid"))) == ["fused_nn_conv2d_sigmoid", "repeat"]
    # each element is read once: the convolution's loops are longer than rows that are moved
    joined = text.replace("repeat(%r, repeats=2, axis=3)", "concatenate((%r, %x), axis=1)")
    assert kernels(fused(joined)) == ["fused_nn_conv2d_nn_relu", "concatenate"]


def test_one_expensive_value_among_cheap_ones_is_stored_where_the_reads_begin() -> None:
    text = MAIN.format("add(multiply(%x, sigmoid(%x)), 1f)", "tile(negative(%s), reps=[8, 1, 1, 1])")
    assert kernels(fused(text)) == ["fused_sigmoid_multiply_add_negative", "tile"]


def test_rows_that_several_passes_read_stay_one_kernel() -> None:
    text = MAIN.format(SILU, "divide(subtract(%s, mean(%s, axis=[3], keepdims=True)), sum(abs(%s), axis=[3], keepdims=True))")
    assert len(kernels(fused(text))) == 1
    assert len(kernels(fused(text, "cuda"))) == 1


FORMS = [
    "sigmoid({})", "add({}, 1f)", "transpose({})", "reverse({}, axis=0)", "repeat({}, repeats=3, axis=0)",
    "tile({}, reps=[1, 4])", "strided_slice({}, begin=[0], end=[3], axes=[1])",
    "add({0}, strided_slice({0}, begin=[0], end=[1], axes=[0]))", "concatenate(({0}, {0}), axis=0)",
    "subtract({0}, max({0}, axis=[1], keepdims=True))", "add({0}, sum({0}, axis=[0], keepdims=True))",
]  # fmt: skip


@st.composite
def programs(draw: st.DrawFn) -> str:
    """A chain of calls on a matrix."""
    lines, last = [], "%x"
    for number in range(draw(st.integers(2, 7))):
        form = draw(st.sampled_from(FORMS))
        lines.append(f"let %v{number} = {form.format(last)};")
        last = f"%v{number}"
    return f"def @main(%x: Tensor[(?n, ?m), float32]) {{ {' '.join(lines)} {last} }}"


@settings(max_examples=30, deadline=None)
@given(programs())
def test_chains_compute_expensive_elements_about_once(text: str) -> None:
    x = np.random.default_rng(0).normal(size=(3, 4)).astype("float32")
    assert sigmoids(fused(text), x) <= MOST * sigmoids(fused(text, enabled=False), x)
