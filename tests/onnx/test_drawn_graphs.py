"""Small graphs of the campaign's findings (``python -m tests.campaign onnx_graphs``)."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import relayvm as relay


def prepared(node: onnx.NodeProto, **inputs: tuple[str, list[Any]]) -> Any:
    """The node alone as a model; per input its dtype and sizes."""
    declared = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), sizes)
        for n, (dtype, sizes) in inputs.items()
    ]
    graph = helper.make_graph([node], "g", declared, [onnx.ValueInfoProto(name=n) for n in node.output])
    return relay.frontend.OnnxBackend.prepare(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]))


@pytest.mark.parametrize("sizes", [["n", "m"], [3, 7]], ids=["open", "known"])
def test_indices_may_be_fewer_than_the_elements_along_other_axes(sizes: list[Any]) -> None:
    x, indices = np.arange(21, dtype="float32").reshape(3, 7), np.array([[0, 2, -1, 1, 0]] * 2)
    run = prepared(
        helper.make_node("GatherElements", ["x", "i"], ["y"], axis=0), x=("float32", sizes), i=("int64", ["k", "l"])
    ).run
    np.testing.assert_array_equal(run([x, indices])[0], np.take_along_axis(x[:, :5], indices, 0))
    np.testing.assert_array_equal(run([x, indices[:0]])[0], x[:0, :5])
    with pytest.raises(relay.VMError, match="axis 1 of the data has size 7, less than the 10 of shape_like"):
        run([x, np.tile(indices, 2)])


def test_a_transposed_convolution_of_data_without_elements_is_its_bias() -> None:
    node = helper.make_node("ConvTranspose", ["x", "k", "b"], ["y"])
    run = prepared(node, x=("float32", ["n", 2, "w"]), k=("float32", [2, 3, 3]), b=("float32", [3])).run
    bias = np.array([1, 2, 3], "float32")
    found = run([np.ones((2, 2, 0), "float32"), np.ones((2, 3, 3), "float32"), bias])[0]
    np.testing.assert_array_equal(found, np.broadcast_to(bias.reshape(1, 3, 1), (2, 3, 2)))
