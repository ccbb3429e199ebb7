"""Scales, zero points, blocks and axes that do not fit the data: the node, the fact and the remedy."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import relayvm as relay

_AGAIN = "quantise the model again, with data that reach every tensor; a tensor of zeros has the scale 1"
_AXIS = "correct the attribute axis, or quantise the model again: a number for each index of the axis, or for each block"


def ones(*shape: int, but: float = 1.0) -> np.ndarray:
    array = np.ones(shape, "float32")
    array[(-1,) * len(shape)] = but
    return array


def message(model: Any) -> str:
    with pytest.raises(relay.RelayError) as caught:
        relay.frontend.from_onnx(model)
    return str(caught.value)


@pytest.mark.parametrize(("scale", "attributes", "text", "help"), [
    (ones(but=0), {}, "the scale is 0; a scale is positive and finite", _AGAIN),
    (ones(but=-2), {}, "the scale is -2; a scale is positive and finite", _AGAIN),
    (ones(3, but=np.nan), {"axis": 0}, "element 2 of the scale is nan; a scale is positive and finite", _AGAIN),
    (ones(3, 4, but=np.inf), {"block_size": 16}, "element [2, 3] of the scale is inf; a scale is finite", _AGAIN),
    (ones(5), {}, "the scale has the shape [5]; the data ask for [64]", _AXIS),
    (ones(3, 3), {"block_size": 16}, "the scale has the shape [3, 3]; the data and block_size 16 ask for [3, 4]", _AXIS),
    (ones(3, 5), {"block_size": 16}, "the scale has the shape [3, 5]; the data and block_size 16 ask for [3, 4]", _AXIS),
    (ones(3, 3), {"block_size": -16}, "block_size is -16", "a block has one number or more along the axis"),
    (ones(3), {"axis": 2}, "the data of rank 2 have no axis 2", "correct the attribute axis: -2 to 1"),
    (ones(3), {"axis": -3}, "the data of rank 2 have no axis -3", "correct the attribute axis: -2 to 1"),
])  # fmt: skip
def test_scales(scale: np.ndarray, attributes: dict[str, Any], text: str, help: str) -> None:
    for op, dtype in (("DequantizeLinear", TensorProto.INT8), ("QuantizeLinear", TensorProto.FLOAT)):
        found = message(model_of(op, {"s": scale}, dtype, **attributes))
        assert f"error: {op} 'node': {text}" in found
        assert f"help: {help}" in found


def model_of(op: str, stored: dict[str, np.ndarray], dtype: int, domain: str = "", **attributes: Any) -> Any:
    """A model of one node ``node``, whose first input ``x`` is given."""
    node = helper.make_node(op, ["x", *stored], ["y"], "node", domain=domain, **attributes)
    infos = [helper.make_tensor_value_info("x", dtype, (3, 64))], [onnx.ValueInfoProto(name="y")]
    graph = helper.make_graph([node], "g", *infos, [numpy_helper.from_array(a, n) for n, a in stored.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)])


@pytest.mark.parametrize(("scale", "zero", "attributes", "text", "help"), [
    (ones(), np.int32(1000), {}, "the zero point is int32, the data are int8", "store the zero point in the dtype of the data"),
    (ones(3), np.zeros(4, "int8"), {"axis": 0}, "the zero point has the shape [4]; the data ask for [3]", _AXIS),
    (ones(3, 4), np.zeros((3, 3), "int8"), {"block_size": 16},
     "the zero point has the shape [3, 3]; the data and block_size 16 ask for [3, 4]", _AXIS),
])  # fmt: skip
def test_zero_points(scale: np.ndarray, zero: np.ndarray, attributes: dict[str, Any], text: str, help: str) -> None:
    found = message(model_of("DequantizeLinear", {"s": scale, "z": np.asarray(zero)}, TensorProto.INT8, **attributes))
    assert f"error: DequantizeLinear 'node': {text}" in found
    assert f"help: {help}" in found


def test_scales_of_blocks_that_stand_for_a_sign_or_nothing() -> None:
    scale = ones(3, 4, but=-0.5)
    scale[0] = 0
    mod, params = relay.frontend.from_onnx(model_of("DequantizeLinear", {"s": scale}, TensorProto.INT8, block_size=16))
    x = np.arange(192, dtype="uint8").view("int8").reshape(3, 64)
    found = relay.VirtualMachine(relay.compile(mod, params=params)).run(x).numpy()
    np.testing.assert_array_equal(found, x * np.repeat(scale, 16, 1))
