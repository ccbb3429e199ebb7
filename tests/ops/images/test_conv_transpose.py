"""Transposed convolution against plain numpy, in every layout, as plain Python and as machine code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import relayvm as relay
from relayvm.ops.core.op import TypeRelError, get
from relayvm.ops.core.tensor_types import TensorType, numpy_dtype
from relayvm.ops.core.type_relation import relate
from relayvm.ops.native import memory
from relayvm.ops.native.status import OUT_OF_MEMORY
from relayvm.shape_funcs.defs.convolution.conv import data_layouts, per_axis, sides
from relayvm.shape_funcs.defs.convolution.conv_transpose import transposed_layouts
from relayvm.shape_funcs.symbolic.dim import sym

from ..opaque.opaque_kernels import run
from .test_conv import in_layout


def transposed(data: np.ndarray, weight: np.ndarray, attrs: dict[str, Any]) -> np.ndarray:
    """By the definition, in float64: channels before space, input channels first."""
    rank, groups = data.ndim - 2, attrs.get("groups", 1)
    stride, dilation = (per_axis(attrs.get(name, 1), rank, name) for name in ("strides", "dilation"))
    more = per_axis(attrs.get("output_padding", 0), rank, "output_padding", 0)
    before, after = sides(attrs.get("padding", 0), rank)
    window, outputs, inputs = weight.shape[2:], weight.shape[1], len(weight) // groups
    full = [
        (n - 1) * s + (k - 1) * d + 1 + m for n, s, k, d, m in zip(data.shape[2:], stride, window, dilation, more, strict=True)
    ]
    out = np.zeros((len(data), outputs * groups, *full))
    for at in np.ndindex(*window):
        taken = tuple(
            slice(a * d, a * d + max((n - 1) * s + 1, 0), s)
            for a, d, n, s in zip(at, dilation, data.shape[2:], stride, strict=True)
        )
        for g in range(groups):
            own = slice(g * inputs, (g + 1) * inputs)
            part = np.einsum(
                "ni...,io->no...", data[:, own].astype(np.float64), weight[(own, slice(None), *at)].astype(np.float64)
            )
            out[(slice(None), slice(g * outputs, (g + 1) * outputs), *taken)] += part
    return out[(..., *(slice(b, f - a) for b, f, a in zip(before, full, after, strict=True)))]


def check(data: np.ndarray, weight: np.ndarray, jit: bool = False, tolerance: float = 1e-5, **attrs: Any) -> None:
    """Compare the operator with its definition, for every layout."""
    rank = data.ndim - 2
    plain, kernels = data_layouts(rank)[0], transposed_layouts(rank)
    data_layout = attrs.get("data_layout", plain)
    given_data = in_layout(data, data_layout, plain)
    given_weight = in_layout(weight, attrs.get("kernel_layout", kernels[0]), kernels[0])
    (result,), status, _ = run(f"nn.conv{rank}d_transpose", [given_data, given_weight], jit=jit, **attrs)
    assert status == 0
    expected = in_layout(transposed(data, weight, attrs), attrs.get("out_layout") or data_layout, plain)
    assert result.shape == expected.shape and result.dtype == (attrs.get("out_dtype") or data.dtype)
    np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    rank = draw(st.sampled_from([1, 2, 2, 3]))

    def each(low: int, high: int, count: int = rank) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(count))

    groups, inputs = draw(st.sampled_from([1, 1, 2])), draw(st.sampled_from([0, 1, 3, 5]))
    sizes, window, stride, dilation, more = each(0, 4), each(1, 3), each(1, 3), each(1, 2), each(0, 2)
    full = [(n - 1) * s + (k - 1) * d + 1 + m for n, s, k, d, m in zip(sizes, stride, window, dilation, more, strict=True)]
    assume(min(full) >= 0)
    padding = tuple(min(draw(st.integers(0, 2)), full[k % rank] // 2) for k in range(2 * rank))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    dtype = draw(st.sampled_from(["float32", "float64"]))
    weight = (inputs * groups, draw(st.integers(0, 3)), *window)
    return {
        "data": rng.standard_normal((draw(st.integers(0, 2)), inputs * groups, *sizes)).astype(dtype),
        "weight": rng.standard_normal(weight).astype(dtype),
        "groups": groups,
        "strides": stride,
        "padding": padding,
        "output_padding": more,
        "dilation": dilation,
        "data_layout": draw(st.sampled_from(data_layouts(rank))),
        "kernel_layout": draw(st.sampled_from(transposed_layouts(rank))),
        "out_layout": draw(st.sampled_from(["", *data_layouts(rank)])),
        "out_dtype": draw(st.sampled_from(["", "", "float64"])),
    }


@settings(max_examples=80)
@given(cases())
def test_transposed_convolution(case: dict[str, Any]) -> None:
    check(case.pop("data"), case.pop("weight"), **case)


@pytest.mark.parametrize("layout", [0, 1])
def test_one_machine_code_for_every_size(layout: int) -> None:
    """By products, in one tile or several, or directly: the kernel decides at run time."""
    rng = np.random.default_rng(1)
    names = {"data_layout": data_layouts(2)[layout], "kernel_layout": transposed_layouts(2)[layout]}
    attrs = {"strides": 2, "padding": (1, 0, 0, 1), "output_padding": 1, **names}
    for inputs, outputs, shape in [
        (8, 5, (2, 9, 40)),
        (3, 2, (1, 3, 4)),
        (8, 0, (1, 2, 2)),
        (0, 3, (1, 2, 2)),
        (8, 5, (0, 2, 2)),
        (8, 5, (2, 0, 2)),
        (8, 5, (1, 2, 0)),
    ]:
        weight = rng.standard_normal((inputs, outputs, 3, 2)).astype(np.float32)
        batch, *sizes = shape
        check(rng.standard_normal((batch, inputs, *sizes)).astype(np.float32), weight, jit=True, **attrs)
    data, weight = rng.standard_normal((1, 4, 25, 71)).astype(np.float32), rng.standard_normal((4, 30, 5, 5)).astype(np.float32)
    check(data, weight, jit=True, tolerance=1e-4, **attrs)


@pytest.mark.parametrize(("dtype", "jit"), [("float16", True), ("bfloat16", False)])
def test_halves_round_once(dtype: str, jit: bool) -> None:
    rng = np.random.default_rng(5)
    data, weight = (rng.integers(-9, 9, s).astype(numpy_dtype(dtype)) for s in ((1, 4, 5, 5), (4, 4, 3, 3)))
    (result,), status, _ = run("nn.conv2d_transpose", [data, weight], jit=jit, strides=2)
    expected = transposed(data, weight, {"strides": 2})
    assert status == 0 and np.array_equal(result, expected.astype(np.float32).astype(numpy_dtype(dtype)))


def test_it_undoes_the_shape_of_a_convolution() -> None:
    n, h = sym("n"), sym("h")
    op = get("nn.conv2d_transpose")
    out, _ = relate(op, [TensorType.of((n, 4, h, 8)), TensorType.of((4, 6, 3, 3))], op.attrs(padding=1))
    assert out.shape[0] is n and out.shape[2] is h and [str(d) for d in out.shape[1::2]] == ["6", "8"]


def test_data_without_elements_add_nothing_to_the_result() -> None:
    x, w = relay.var("x", shape=(1, 2, relay.Any(), 3), dtype="float32"), relay.var("w", shape=(2, 3, 2, 3), dtype="float32")
    bias = relay.const(np.array([1, 2, 3], "float32"))
    program = relay.Function([x, w], relay.nn.bias_add(relay.nn.conv2d_transpose(x, w, strides=(1, 2)), bias))
    wanted = np.broadcast_to(np.array([1, 2, 3], "float32").reshape(1, 3, 1, 1), (1, 3, 1, 7))
    for device in ("cpu", "sim"):
        vm = relay.VirtualMachine(relay.compile(relay.IRModule.from_expr(program), target=device))
        found = vm.run(np.ones((1, 2, 0, 3), "float32"), np.ones((2, 3, 2, 3), "float32")).numpy()
        np.testing.assert_array_equal(found, wanted)


def test_no_memory_is_a_status(monkeypatch: pytest.MonkeyPatch) -> None:
    data, weight = np.ones((1, 4, 3, 3), np.float32), np.ones((4, 4, 3, 3), np.float32)
    monkeypatch.setattr(memory, "alloc", lambda nbytes: 0)
    assert run("nn.conv2d_transpose", [data, weight]).status == OUT_OF_MEMORY
    assert run("nn.conv2d_transpose", [data, weight], out_dtype="float64").status == OUT_OF_MEMORY


IMAGE, KERNEL = (1, 4, 8, 8), (4, 6, 3, 3)


@pytest.mark.parametrize(
    ("shapes", "attrs", "message"),
    [
        ([(1, 4, 8), KERNEL], {}, "the data must have 4 dimensions, not 3"),
        ([IMAGE, (4, 6, 3)], {}, "the weight must have 4 dimensions, not 3"),
        ([IMAGE, (3, 6, 3, 3)], {}, "the data has 4 channels, the weight takes 3"),
        ([IMAGE, KERNEL], {"groups": 3}, "4 channels of the data do not make 3 groups"),
        ([IMAGE, KERNEL], {"groups": 0}, "groups must be at least 1, not 0"),
        ([IMAGE, KERNEL], {"channels": 5}, "channels says 5, the weight gives 6"),
        ([IMAGE, KERNEL], {"kernel_size": 2}, "kernel_size says 2, the weight has 3"),
        ([IMAGE, KERNEL], {"strides": 0}, "strides must be at least 1, not 0"),
        ([IMAGE, KERNEL], {"output_padding": -1}, "output_padding must be at least 0, not -1"),
        ([IMAGE, KERNEL], {"kernel_layout": "OIHW"}, "kernel_layout must be 'IOHW' or 'HWOI', not 'OIHW'"),
        ([IMAGE, KERNEL], {"padding": 9}, "along H the padding removes 18 of 10 elements"),
        ([(1, 4, 0, 8), KERNEL], {"strides": (5, 1)}, "along H the data is empty, and a stride of 5 is longer than the window"),
        ([IMAGE, (4, 6, 3, 0)], {}, "the window is empty along W"),
        ([IMAGE, KERNEL], {"out_dtype": "int8"}, "out_dtype='int8' is not valid; valid: "),
    ],
)  # fmt: skip
def test_what_is_refused(shapes: list[Any], attrs: dict[str, Any], message: str) -> None:
    op = get("nn.conv2d_transpose")
    with pytest.raises(TypeRelError) as refused:
        relate(op, [TensorType.of(s) for s in shapes], op.attrs(**attrs))
    assert refused.value.message.startswith(f"nn.conv2d_transpose: {message}")
