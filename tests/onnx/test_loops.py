"""Loops and scans of no round: the sizes of what the rounds would have collected."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import relayvm as relay


def info(name: str, *sizes: Any) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes)


def model(nodes: list[Any], inputs: list[Any], outputs: list[str]) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "g", inputs, [onnx.ValueInfoProto(name=n) for n in outputs])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_rows_of_a_scan(rounds: int) -> None:
    """Rows of the sizes of the scanned data, of the state, and of both."""
    nodes = [
        helper.make_node("Identity", ["s"], ["next"]),
        helper.make_node("Neg", ["row"], ["of_data"]),
        helper.make_node("Neg", ["s"], ["of_state"]),
        helper.make_node("Concat", ["row", "s"], ["of_both"], axis=0),
    ]
    names = ["next", "of_data", "of_state", "of_both"]
    body = helper.make_graph(nodes, "body", [info("s"), info("row")], [onnx.ValueInfoProto(name=n) for n in names])
    for value in body.input:
        value.type.tensor_type.ClearField("shape")
    scan = helper.make_node("Scan", ["state", "x"], ["last", "a", "b", "c"], body=body, num_scan_inputs=1)
    prepared = relay.frontend.OnnxBackend.prepare(
        model([scan], [info("state", "k"), info("x", "n", "m")], ["last", "a", "b", "c"])
    )
    state, x = np.arange(2, dtype="float32"), np.ones((rounds, 3), "float32")
    last, a, b, c = prepared.run([state, x])
    np.testing.assert_array_equal(last, state)
    np.testing.assert_array_equal(a, -x)
    np.testing.assert_array_equal(b, np.tile(-state, (rounds, 1)))
    np.testing.assert_array_equal(c, np.concatenate([x, np.tile(state, (rounds, 1))], 1))
