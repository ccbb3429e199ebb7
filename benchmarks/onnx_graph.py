"""ONNX graphs of benchmarks, with random weights."""

from __future__ import annotations

import math

import numpy as np
import onnx
from onnx import helper


class Graph:
    """An ONNX graph in the making: nodes and weights."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.random = np.random.default_rng(0)

    def weight(self, array: np.ndarray) -> str:
        """The name of a constant."""
        name = f"w{len(self.weights)}"
        self.weights.append(onnx.numpy_helper.from_array(array, name))
        return name

    def parameters(self, *shape: int) -> str:
        """The name of random weights, whose products keep the size of numbers."""
        return self.weight((self.random.standard_normal(shape) / math.sqrt(shape[0])).astype(np.float32))

    def node(self, operator: str, *inputs: str, **attributes: object) -> str:
        """The name of the result of a node."""
        name = f"y{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def model(self, dtype: int, shape: tuple[int | str, ...], result: str) -> bytes:
        """The model of one input ``x``."""
        given = helper.make_tensor_value_info("x", dtype, shape)
        out = helper.make_tensor_value_info(result, onnx.TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "g", [given], [out], self.weights)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        return made.SerializeToString()
