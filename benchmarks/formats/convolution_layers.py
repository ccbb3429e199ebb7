"""Layers of convolutions of bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import onnx
from convolutions import Convolution, convolution
from onnx_graph import Graph

from .case import Case

LAYERS = (
    Convolution("resnet", 64, 64, 56, 3),
    Convolution("resnet", 256, 256, 14, 3),
    Convolution("resnet", 512, 512, 7, 3),
    Convolution("resnet", 64, 256, 56),
    Convolution("resnet", 256, 64, 14),
    Convolution("resnet", 3, 64, 224, 7, 2),
    Convolution("mobilenet", 96, 96, 56, 3, 1, 96),
    Convolution("mobilenet", 384, 384, 14, 3, 1, 384),
    Convolution("mobilenet", 960, 960, 7, 3, 1, 960),
    Convolution("mobilenet", 96, 96, 112, 3, 2, 96),
)


def quantised_layer(given: Convolution) -> bytes:
    """A QLinearConv of the sizes of a convolution, with a bias and scales for each channel."""
    g, rng = Graph(), np.random.default_rng(0)
    shape = given.outputs, given.inputs // given.groups, given.kernel, given.kernel
    weight, bias = rng.integers(-127, 128, shape).astype(np.int8), rng.integers(-999, 999, given.outputs).astype(np.int32)
    scales = rng.uniform(0.001, 0.003, given.outputs).astype(np.float32)
    scale, zero_point = np.float32(0.02), np.uint8(120)
    zeros = np.zeros(given.outputs, np.int8)
    inputs = scale, zero_point, weight, scales, zeros, np.float32(0.1), np.uint8(3), bias
    given_inputs = ["x", *(g.weight(np.asarray(v)) for v in inputs)]
    attributes: dict[str, object] = {"group": given.groups, "strides": [given.stride] * 2, "pads": [given.kernel // 2] * 4}
    result = g.node("QLinearConv", *given_inputs, **attributes)
    model = onnx.load_from_string(g.model(onnx.TensorProto.UINT8, shape_of(given), result))
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.UINT8
    return model.SerializeToString()


def shape_of(given: Convolution) -> tuple[int, ...]:
    """The shape of the data of a convolution."""
    return 1, given.inputs, given.rows, given.rows


def layers(rows: Sequence[int]) -> Iterator[Case]:
    """Each layer as a QLinearConv; ``rows`` is not read."""
    rng = np.random.default_rng(2)
    for layer in LAYERS:
        shape = shape_of(layer)
        given, real = rng.integers(0, 256, shape).astype(np.uint8), rng.standard_normal(shape).astype(np.float32)
        yield Case(layer.name, quantised_layer(layer), convolution(layer), {"x": given}, {"x": real}, 1 / 255)
