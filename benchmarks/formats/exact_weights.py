"""Signed weights of a model as unsigned bytes, 128 above: onnxruntime's sums of unsigned by unsigned bytes never saturate.

On processors without VNNI its products of unsigned by signed bytes add pairs at 16 bits, with saturation.  The session's entry
``session.x64quantprecision`` makes products of matrices exact; convolutions have no such entry.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import numpy_helper

#: The inputs of weights and of their zero points, by operator.
_WEIGHTS = {"DequantizeLinear": (0, 2), "QLinearConv": (3, 5), "ConvInteger": (1, 3)}
#: The difference of an unsigned and a signed byte of one weight.
_MIDDLE = 128


def with_unsigned_weights(source: bytes) -> bytes:
    """The model of ``source`` with unsigned weights; the same function."""
    model = onnx.load_model_from_string(source)
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        names = [node.input[at] if at < len(node.input) else "" for at in _WEIGHTS.get(node.op_type, ())]
        if names and all(name in stored and stored[name].data_type == onnx.TensorProto.INT8 for name in names):
            for at, name in zip(_WEIGHTS[node.op_type], names, strict=True):
                node.input[at] = _unsigned(stored, name)
    del model.graph.initializer[:]
    model.graph.initializer.extend(stored.values())
    return bytes(model.SerializeToString())


def _unsigned(stored: dict[str, onnx.TensorProto], name: str) -> str:
    """The name of the unsigned form of a stored tensor, which is added to ``stored`` once."""
    other = f"{name}.unsigned"
    if other not in stored:
        value = (numpy_helper.to_array(stored[name]).astype(np.int16) + _MIDDLE).astype(np.uint8)
        stored[other] = numpy_helper.from_array(value, other)
    return other
