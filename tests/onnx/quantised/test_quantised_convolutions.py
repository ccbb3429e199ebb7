"""ConvInteger and QLinearConv of bytes: over one axis and two, padded with the zero point, also where sizes are not known."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import relayvm as relay
from relayvm.compiler.ir.anf import values as chain_values
from relayvm.compiler.ir.expr import Call, Constant
from relayvm.ops.defs.weight_forms.byte_convolution import NAME

from ...ops.images.test_conv import convolution

RNG = np.random.default_rng(3)


def compiled(op: str, x: np.ndarray, constants: list[Any], **attrs: Any) -> Any:
    """An executable of one node whose inputs, but the first, are constants; spatial sizes are not known."""
    names = [f"c{k}" for k in range(len(constants))]
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in zip(names, constants, strict=True)]
    kind = TensorProto.UINT8 if x.dtype == np.uint8 else TensorProto.INT8
    info = helper.make_tensor_value_info("x", kind, ["n", x.shape[1], *"hw"[: x.ndim - 2]])
    node = helper.make_node(op, ["x", *names], ["y"], **attrs)
    graph = helper.make_graph([node], "g", [info], [onnx.ValueInfoProto(name="y")], tensors)
    mod, params = relay.frontend.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)]))
    exe = relay.compile(mod, params=params)
    assert NAME in {node.op for packed in exe.packed for node in packed.group.nodes}
    return relay.VirtualMachine(exe)


def wanted_sums(x: np.ndarray, zero: int, weight: np.ndarray, zeros: np.ndarray, pads: list[int], stride: int) -> np.ndarray:
    own = weight.astype(np.float64) - zeros.reshape(-1, *[1] * (weight.ndim - 1))
    data = x.astype(np.float64) - zero
    data = np.pad(data, [(0, 0), (0, 0), *zip(pads[: len(pads) // 2], pads[len(pads) // 2 :], strict=True)])
    if x.ndim == 3:
        data, own = data[:, :, None], own[:, :, None]
    sums = convolution(data, own, {"strides": (1, stride) if x.ndim == 3 else stride})
    return sums[:, :, 0] if x.ndim == 3 else sums


@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_conv_integer(dtype: str, rank: int) -> None:
    bounds = np.iinfo(dtype)
    weight = RNG.integers(0, 256, (5, 3, *[3] * rank)).astype(np.uint8)
    zero, pads = bounds.max - 9, [1, 0, 2, 1][: 2 * rank]
    x = RNG.integers(bounds.min, bounds.max + 1, (2, 3, *[9, 12][:rank])).astype(dtype)
    machine = compiled(
        "ConvInteger", x, [weight, np.array(zero, dtype), np.array([128], np.uint8)], pads=pads, strides=[2] * rank
    )
    found = machine.run(x).numpy()
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, wanted_sums(x, zero, weight, np.array([128]), pads, 2))


def test_padding_of_a_size_that_is_not_known() -> None:
    weight, zero = RNG.integers(-128, 128, (4, 3, 3, 3)).astype(np.int8), 201
    x = RNG.integers(0, 256, (1, 3, 8, 11)).astype(np.uint8)
    machine = compiled("ConvInteger", x, [weight, np.array(zero, np.uint8)], auto_pad="SAME_UPPER")
    np.testing.assert_array_equal(machine.run(x).numpy(), wanted_sums(x, zero, weight, np.zeros(1), [1] * 4, 1))


@pytest.mark.parametrize("rank", [1, 2])
def test_qlinear_conv(rank: int) -> None:
    """Scales and zero points for each channel; sums are rounded once, halves to the even number."""
    weight = RNG.integers(-127, 128, (5, 3, *[3] * rank)).astype(np.int8)
    scales, bias = RNG.uniform(0.001, 0.01, 5).astype(np.float32), RNG.integers(-500, 500, 5).astype(np.int32)
    x = RNG.integers(0, 256, (2, 3, *[9, 12][:rank])).astype(np.uint8)
    scale, out = np.float32(0.5), np.float32(0.25)
    given = [scale, np.uint8(7), weight, scales, np.zeros(5, np.int8), out, np.uint8(100), bias]
    found = compiled("QLinearConv", x, given, pads=[1] * (2 * rank)).run(x).numpy()
    each = (-1, *[1] * rank)
    sums = wanted_sums(x, 7, weight, np.zeros(5), [1] * (2 * rank), 1) + bias.reshape(each)
    factor = (scale * scales / out).reshape(each)
    np.testing.assert_array_equal(found, np.clip(np.rint(sums.astype(np.float32) * factor) + 100, 0, 255))


def test_the_factor_of_constant_scales_is_a_constant() -> None:
    scales, weight = np.array([0.013, 0.017], np.float32), np.ones((2, 3, 1, 1), np.int8)
    zero, x = np.array(3, np.uint8), np.zeros((1, 3, 4, 4), np.uint8)
    values = [np.float32(0.3), zero, weight, scales, np.zeros(2, np.int8), np.float32(0.7), zero]
    names = ["x", *(f"c{k}" for k in range(len(values)))]
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in zip(names[1:], values, strict=True)]
    info = helper.make_tensor_value_info("x", TensorProto.UINT8, x.shape)
    node = helper.make_node("QLinearConv", names, ["y"])
    graph = helper.make_graph([node], "g", [info], [onnx.ValueInfoProto(name="y")], tensors)
    mod, _ = relay.frontend.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)]), freeze_params=True)
    calls = [value for value in chain_values(mod["main"].body) if isinstance(value, Call)]
    assert [call.op.name for call in calls] == ["qnn.conv2d", "cast", "multiply", "qnn.quantize"]
    factor = calls[2].args[1]
    assert isinstance(factor, Constant)
    np.testing.assert_array_equal(factor.data, (np.float32(0.3) * scales / np.float32(0.7)).reshape(2, 1, 1), strict=True)
