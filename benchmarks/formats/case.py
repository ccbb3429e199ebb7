"""A subject of the benchmark: a program in a narrow format, and the same program in float32."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

import relayvm as relay

#: A model of ONNX, or a program.
Source = bytes | relay.IRModule
#: The formats of 16 bits.
HALVES = ("float16", "bfloat16")


@dataclass(frozen=True)
class Case:
    """A program in a narrow format, the same in float32, and the inputs of a run of each.

    ``error``: the most that a result may differ from onnxruntime's, or if onnxruntime does not run it from that of float32, in
    parts of the largest magnitude of the other result.
    ``goal``, ``own_goal``: the most that a run takes of onnxruntime's time and of the time in float32.  ``peer``: whether
    onnxruntime runs the model, of ONNX.  ``stored``: the bytes of a weight that a run has to read, or 0.  ``products``: the
    products of float32 that a run has to add up, or 0.
    """

    name: str
    narrow: Source
    real: Source
    inputs: Mapping[str, np.ndarray]
    real_inputs: Mapping[str, np.ndarray]
    error: float = 0.0
    goal: float = 0.9
    own_goal: float = 0.5
    peer: bool = True
    stored: int = 0
    products: int = 0
    config: Mapping[str, Any] = field(default_factory=dict)


def halves_of(array: np.ndarray, dtype: str) -> np.ndarray:
    """An array of floats as halves."""
    import ml_dtypes

    return np.ascontiguousarray(array.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else np.float16))


def unit(dtype: str) -> float:
    """The largest relative error of a rounding to halves."""
    return {"float16": 2.0**-11, "bfloat16": 2.0**-8}[dtype]


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
