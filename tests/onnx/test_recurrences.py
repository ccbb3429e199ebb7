"""Recurrent layers and quantised products of models with open sizes, beside ONNX's reference; wrong attributes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import relayvm as relay

KINDS = {"float32": TensorProto.FLOAT, "uint8": TensorProto.UINT8, "int8": TensorProto.INT8, "int32": TensorProto.INT32}


def model_of(node: Any, inputs: dict[str, tuple[str, list[Any]]], outputs: list[str], stored: dict[str, np.ndarray]) -> Any:
    infos = [helper.make_tensor_value_info(n, KINDS[dtype], shape) for n, (dtype, shape) in inputs.items()]
    tensors = [numpy_helper.from_array(np.asarray(a), n) for n, a in stored.items()]
    graph = helper.make_graph([node], "g", infos, [onnx.ValueInfoProto(name=o) for o in outputs], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def machine(model: Any) -> Any:
    mod, params = relay.frontend.from_onnx(model)
    return relay.VirtualMachine(relay.compile(mod, params=params))


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(5).uniform(-1, 1, shape).astype("float32")


def test_an_lstm_with_open_sizes() -> None:
    stored = {"w": numbers(2, 20, 3), "r": numbers(2, 20, 5), "b": numbers(2, 40), "p": numbers(2, 15)}
    node = helper.make_node(
        "LSTM", ["x", "w", "r", "b", "", "", "", "p"], ["y", "h", "c"], hidden_size=5, direction="bidirectional"
    )
    model = model_of(node, {"x": ("float32", ["steps", "batch", 3])}, ["y", "h", "c"], stored)
    vm, reference = machine(model), ReferenceEvaluator(model)
    for steps, batch in ((4, 3), (1, 1), (7, 0)):
        x = numbers(steps, batch, 3)
        for ours, wanted in zip(vm.run(x), reference.run(None, {"x": x}), strict=True):
            np.testing.assert_allclose(ours.numpy(), wanted, rtol=1e-5, atol=1e-5)
    y, h, c = vm.run(numbers(0, 2, 3))
    assert y.shape == (0, 2, 2, 5) and not h.numpy().any() and not c.numpy().any()


@pytest.mark.parametrize(
    ("attributes", "text"),
    [
        ({"activations": ["Tanh", "Sine"]}, "GRU 'y': there is no activation Sine; the activations are Sigmoid, Tanh"),
        ({"activations": ["Tanh"]}, "activations has 1 elements; forward has 2 activations"),
        ({"direction": "backward"}, "attribute direction takes"),
        ({"clip": -1.0}, "clip=-1.0 is no finite bound of at least 0"),
    ],
)
def test_attributes_that_do_not_fit(attributes: dict[str, Any], text: str) -> None:
    node = helper.make_node("GRU", ["x", "w", "r"], ["y"], hidden_size=5, **attributes)
    model = model_of(node, {"x": ("float32", ["steps", 2, 3])}, ["y"], {"w": numbers(1, 15, 3), "r": numbers(1, 15, 5)})
    with pytest.raises(relay.RelayError) as caught:
        relay.frontend.from_onnx(model)
    assert text in str(caught.value)


@pytest.mark.extensive
def test_a_quantised_product_with_open_sizes() -> None:
    weight = np.random.default_rng(5).integers(-128, 127, (6, 4)).astype("int8")
    stored = {
        "sa": np.float32(0.03), "za": np.uint8(120), "b": weight, "sb": numbers(4) + 2, "zb": np.arange(4, dtype="int8"),
        "s": np.float32(0.7), "z": np.uint8(9),
    }  # fmt: skip
    node = helper.make_node("QLinearMatMul", ["a", "sa", "za", "b", "sb", "zb", "s", "z"], ["y"])
    vm = machine(model_of(node, {"a": ("uint8", ["n", 6])}, ["y"], stored))
    for rows in (5, 1, 0):
        a = np.random.default_rng(rows).integers(0, 255, (rows, 6)).astype("uint8")
        product = (a.astype("int64") - 120) @ (weight.astype("int64") - np.arange(4))
        factor = np.float32(0.03) * (numbers(4) + 2) / np.float32(0.7)
        wanted = np.clip(np.rint(product.astype("float32") * factor) + 9, 0, 255).astype("uint8")
        np.testing.assert_array_equal(vm.run(a).numpy(), wanted)


def test_blocks_of_scales_need_their_size() -> None:
    node = helper.make_node("DequantizeLinear", ["x", "s"], ["y"])
    model = model_of(node, {"x": ("int8", ["n", 4])}, ["y"], {"s": numbers(2, 2)})
    with pytest.raises(relay.RelayError, match="the scale has rank 2, the data 2, and block_size is 0"):
        relay.frontend.from_onnx(model)


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        (np.float32(0.0), "the scale is 0; a scale is positive and finite"),
        (np.array([0.5, np.nan], "float32"), "element 1 of the scale is nan; a scale is positive and finite"),
        (np.array([-2.0], "float32"), "element 0 of the scale is -2; a scale is positive and finite"),
    ],
)
def test_a_scale_that_is_no_distance_is_refused(scale: np.ndarray, message: str) -> None:
    for name, dtype in (("DequantizeLinear", "uint8"), ("QuantizeLinear", "float32")):
        node = helper.make_node(name, ["x", "s"], ["y"], axis=0)
        model = model_of(node, {"x": (dtype, [2, 4])}, ["y"], {"s": scale})
        with pytest.raises(relay.RelayError) as caught:
            relay.frontend.from_onnx(model)
        assert message in str(caught.value)
        assert name in str(caught.value) and "quantise the model again" in str(caught.value)
