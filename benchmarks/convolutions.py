"""Convolutions of known networks, and networks of them, for ``models.py``."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import onnx
from onnx_graph import Graph


@dataclass(frozen=True)
class Convolution:
    """A convolution of ``inputs`` to ``outputs`` channels with a square kernel; its data has ``rows`` rows and columns."""

    network: str
    inputs: int
    outputs: int
    rows: int
    kernel: int = 1
    stride: int = 1
    groups: int = 1
    dilation: int = 1

    @property
    def name(self) -> str:
        kind = "depthwise" if self.groups > 1 else f"{self.inputs}>{self.outputs}"
        window = f"k{self.kernel} s{self.stride}" + (f" d{self.dilation}" if self.dilation > 1 else "")
        return f"{self.network} {kind if self.groups == 1 else f'{self.inputs} {kind}'} {self.rows} {window}"

    @property
    def gflop(self) -> float:
        """Multiplications and additions, in thousand millions."""
        positions = (self.rows // self.stride) ** 2
        return 2e-9 * positions * self.outputs * (self.inputs // self.groups) * self.kernel**2


def _depthwise(
    channels: int, rows: int, kernel: int = 3, stride: int = 1, network: str = "mobilenet", dilation: int = 1
) -> Convolution:
    return Convolution(network, channels, channels, rows, kernel, stride, channels, dilation)


CONVOLUTIONS = (
    Convolution("resnet", 3, 64, 224, 7, 2),
    Convolution("resnet", 64, 64, 56),
    Convolution("resnet", 64, 64, 56, 3),
    Convolution("resnet", 64, 256, 56),
    Convolution("resnet", 256, 64, 56),
    Convolution("resnet", 256, 128, 56),
    Convolution("resnet", 128, 128, 56, 3, 2),
    Convolution("resnet", 256, 512, 56, 1, 2),
    Convolution("resnet", 128, 512, 28),
    Convolution("resnet", 512, 128, 28),
    Convolution("resnet", 128, 128, 28, 3),
    Convolution("resnet", 256, 256, 14, 3),
    Convolution("resnet", 256, 1024, 14),
    Convolution("resnet", 1024, 256, 14),
    Convolution("resnet", 512, 512, 7, 3),
    Convolution("resnet", 512, 2048, 7),
    Convolution("resnet", 2048, 512, 7),
    Convolution("mobilenet", 3, 32, 224, 3, 2),
    Convolution("mobilenet", 16, 96, 112),
    Convolution("mobilenet", 24, 144, 56),
    Convolution("mobilenet", 144, 32, 28),
    Convolution("mobilenet", 64, 384, 14),
    Convolution("mobilenet", 384, 64, 14),
    Convolution("mobilenet", 960, 160, 7),
    Convolution("mobilenet", 320, 1280, 7),
    _depthwise(32, 112),
    _depthwise(96, 112, 3, 2),
    _depthwise(144, 56),
    _depthwise(192, 28),
    _depthwise(384, 14),
    _depthwise(960, 7),
    Convolution("ocr", 3, 16, 320, 3, 2),
    Convolution("ocr", 96, 24, 80, 3),
    Convolution("ocr", 24, 24, 160, 3),
    Convolution("ocr", 96, 96, 80),
    _depthwise(120, 40, 5, network="ocr"),
    # pictures of 96 x 96 and 192 x 192
    Convolution("efficientnet", 112, 672, 6),
    Convolution("efficientnet", 672, 112, 6),
    Convolution("efficientnet", 192, 1152, 3),
    Convolution("efficientnet", 1152, 320, 3),
    Convolution("efficientnet", 320, 1280, 3),
    Convolution("efficientnet", 48, 1152, 1),
    _depthwise(672, 6, 5, network="efficientnet"),
    _depthwise(672, 6, 5, 2, network="efficientnet"),
    _depthwise(1152, 3, 5, network="efficientnet"),
    _depthwise(144, 24, 5, 2, network="efficientnet"),
    _depthwise(960, 6, 5, network="deeplab", dilation=2),
    _depthwise(960, 14, 5, network="deeplab", dilation=2),
)


def conv(
    g: Graph, x: str, inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1, dilation: int = 1
) -> str:
    """A convolution with bias; the result has the size of the data over ``stride``."""
    shape = (outputs, inputs // groups, kernel, kernel)
    weight = g.weight((g.random.standard_normal(shape) / math.sqrt(math.prod(shape[1:]))).astype(np.float32))
    around = dilation * (kernel - 1)
    pads = [around // 2] * 2 + [around // 2 if stride > 1 else (around + 1) // 2] * 2
    apart = {"dilations": [dilation] * 2} if dilation > 1 else {}
    return g.node("Conv", x, weight, g.parameters(outputs), strides=[stride] * 2, pads=pads, group=groups, **apart)


def convolution(given: Convolution) -> bytes:
    """A convolution with bias and ReLU; the data has H and W rows and columns."""
    g = Graph()
    result = g.node("Relu", conv(g, "x", given.inputs, given.outputs, given.kernel, given.stride, given.groups, given.dilation))
    return g.model(onnx.TensorProto.FLOAT, (1, given.inputs, "h", "w"), result)


def classes(g: Graph, x: str, features: int) -> str:
    """The scores of 1,000 classes."""
    pooled = g.node("Flatten", g.node("GlobalAveragePool", x), axis=1)
    return g.node("Gemm", pooled, g.parameters(features, 1000), g.parameters(1000))


def resnet50() -> bytes:
    """ResNet-50 for inference (He et al., 2015): convolutions have the batch norms, those of 3x3 the stride."""
    g, inputs = Graph(), 64
    x = g.node("Relu", conv(g, "x", 3, 64, 7, 2))
    x = g.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for stage, count in enumerate((3, 4, 6, 3)):
        inner = 64 << stage
        for number in range(count):
            stride = 2 if stage and not number else 1
            y = g.node("Relu", conv(g, x, inputs, inner))
            y = g.node("Relu", conv(g, y, inner, inner, 3, stride))
            y = conv(g, y, inner, 4 * inner)
            x = conv(g, x, inputs, 4 * inner, 1, stride) if not number else x
            x, inputs = g.node("Relu", g.node("Add", x, y)), 4 * inner
    return g.model(onnx.TensorProto.FLOAT, ("batch", 3, 224, 224), classes(g, x, inputs))


def mobilenet_v2() -> bytes:
    """MobileNetV2 for inference (Sandler et al., 2018): expansion, channels, count and stride of each group of blocks."""
    g, inputs = Graph(), 32

    def activated(x: str) -> str:
        return g.node("Clip", x, g.weight(np.float32(0)), g.weight(np.float32(6)))

    x = activated(conv(g, "x", 3, 32, 3, 2))
    for expansion, outputs, count, first in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
    ):  # fmt: skip
        for number in range(count):
            stride, inner = first if not number else 1, expansion * inputs
            y = activated(conv(g, x, inputs, inner)) if expansion > 1 else x
            y = activated(conv(g, y, inner, inner, 3, stride, inner))
            y = conv(g, y, inner, outputs)
            x, inputs = (g.node("Add", x, y) if stride == 1 and inputs == outputs else y), outputs
    x = activated(conv(g, x, inputs, 1280))
    return g.model(onnx.TensorProto.FLOAT, ("batch", 3, 224, 224), classes(g, x, 1280))


NETWORKS = {"ResNet-50": resnet50, "MobileNetV2": mobilenet_v2}
