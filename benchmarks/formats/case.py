"""A subject of the benchmark: a model in a narrow format, and the same model in float32."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper


@dataclass(frozen=True)
class Case:
    """A model in a narrow format, the same in float32, and the inputs of a run of each.

    ``error``: the most that a result may differ from onnxruntime's, in parts of the largest magnitude of onnxruntime's result.
    ``goal``, ``own_goal``: the most that a run takes of onnxruntime's time and of the time in float32.  ``peer``: whether
    onnxruntime runs the model.
    """

    name: str
    narrow: bytes
    real: bytes
    inputs: Mapping[str, np.ndarray]
    real_inputs: Mapping[str, np.ndarray]
    error: float = 0.0
    goal: float = 0.9
    own_goal: float = 0.5
    peer: bool = True
    config: Mapping[str, Any] = field(default_factory=dict)


def model(
    nodes: Sequence[onnx.NodeProto], inputs: Mapping[str, tuple[int, list[Any]]], weights: Mapping[str, Any], dtype: int
) -> bytes:
    """The model whose result, of ``dtype``, is the first of the last node; inputs by name, with type and shape."""
    given = [helper.make_tensor_value_info(name, *declared) for name, declared in inputs.items()]
    result = helper.make_tensor_value_info(nodes[-1].output[0], dtype, None)
    stored = [numpy_helper.from_array(np.ascontiguousarray(value), name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "g", given, [result], stored)
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString())
