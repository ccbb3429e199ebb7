"""Networks for pictures as ONNX graphs with random weights, batch, height and width open, for ``models.py``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import onnx
from convolutions import classes, conv
from onnx_graph import Graph

#: Name and attributes of ONNX's operators.
_POOL_BY_2 = {"kernel_shape": [2, 2], "strides": [2, 2]}
_HARD_SIGMOID = {"alpha": 1 / 6, "beta": 0.5}
_MODES = {
    "nearest": {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    "bilinear": {"mode": "linear", "coordinate_transformation_mode": "half_pixel"},
}


@dataclass(frozen=True)
class Subject:
    """A network, the shapes of pictures over which it is timed, and a smaller shape."""

    build: Callable[[], bytes]
    shapes: tuple[tuple[int, int, int, int], ...]
    small: tuple[int, int, int, int]


# ---- parts -------------------------------------------------------------------------------------------------------------------


def _activated(g: Graph, kind: str, x: str) -> str:
    """``x`` after an activation: SiLU as exporters write it, or the node of this name."""
    return g.node("Mul", x, g.node("Sigmoid", x)) if kind == "SiLU" else g.node(kind, x) if kind else x


def _resized(g: Graph, x: str, mode: str) -> str:
    """``x`` with twice the rows and columns."""
    return g.node("Resize", x, "", g.weight(np.array([1, 1, 2, 2], np.float32)), **_MODES[mode])


def _resized_as(g: Graph, x: str, other: str, channels: int) -> str:
    """``x``, bilinear, with the rows and columns of ``other``."""
    shape = g.node("Shape", other)
    batch, sizes = g.node("Shape", other, start=0, end=1), g.node("Slice", shape, *(g.weight(np.array([k])) for k in (2, 4)))
    whole = g.node("Concat", batch, g.weight(np.array([channels])), sizes, axis=0)
    return g.node("Resize", x, "", "", whole, **_MODES["bilinear"])


def _excited(g: Graph, x: str, channels: int, squeezed: int, inner: str, gate: str) -> str:
    """``x`` times a factor for each channel, from the means of all channels (squeeze and excitation, Hu et al., 2017)."""
    factor = _activated(g, inner, conv(g, g.node("GlobalAveragePool", x), channels, squeezed))
    factor = conv(g, factor, squeezed, channels)
    return g.node("Mul", x, g.node(gate, factor, **(_HARD_SIGMOID if gate == "HardSigmoid" else {})))


def _floats(g: Graph, channels: int | str, result: str) -> bytes:
    return g.model(onnx.TensorProto.FLOAT, ("batch", channels, "height", "width"), result)


# ---- detection and segmentation ------------------------------------------------------------------------------------------------


def _stages(g: Graph, x: str, inputs: int, outputs: int, count: int, shortcut: bool) -> str:
    """Half of the channels through ``count`` bottlenecks, beside the other half (a C3 of YOLOv5)."""
    inner = outputs // 2
    y, beside = (_activated(g, "SiLU", conv(g, x, inputs, inner)) for _ in range(2))
    for _ in range(count):
        z = _activated(g, "SiLU", conv(g, _activated(g, "SiLU", conv(g, y, inner, inner)), inner, inner, 3))
        y = g.node("Add", y, z) if shortcut else z
    return _activated(g, "SiLU", conv(g, g.node("Concat", y, beside, axis=1), outputs, outputs))


def yolo() -> bytes:
    """The smallest YOLOv5: backbone, neck and the convolutions of three heads, whose results are joined."""
    g = Graph()
    x = _activated(g, "SiLU", conv(g, "x", 3, 16, 6, 2))
    kept = []
    for number, (outputs, count) in enumerate(((32, 1), (64, 2), (128, 3), (256, 1))):
        x = _stages(g, _activated(g, "SiLU", conv(g, x, outputs // 2, outputs, 3, 2)), outputs, outputs, count, True)
        kept += [x] if number in (1, 2) else []
    pools = [_activated(g, "SiLU", conv(g, x, 256, 128))]
    for _ in range(3):
        pools.append(g.node("MaxPool", pools[-1], kernel_shape=[5, 5], strides=[1, 1], pads=[2, 2, 2, 2]))
    x = _activated(g, "SiLU", conv(g, g.node("Concat", *pools, axis=1), 512, 256))
    beside = []
    for inputs, other in ((256, kept[1]), (128, kept[0])):
        beside.append(_activated(g, "SiLU", conv(g, x, inputs, inputs // 2)))
        joined = g.node("Concat", _resized(g, beside[-1], "nearest"), other, axis=1)
        x = _stages(g, joined, inputs, inputs // 2, 1, False)
    found = [x]
    for inputs, other in ((64, beside[1]), (128, beside[0])):
        smaller = _activated(g, "SiLU", conv(g, found[-1], inputs, inputs, 3, 2))
        found.append(_stages(g, g.node("Concat", smaller, other, axis=1), 2 * inputs, 2 * inputs, 1, False))
    heads = [conv(g, y, channels, 255) for y, channels in zip(found, (64, 128, 256), strict=True)]
    flat = g.weight(np.array([0, 255, -1]))
    return _floats(g, 3, g.node("Concat", *(g.node("Reshape", y, flat) for y in heads), axis=2))


def u_net(activation: str, mode: str) -> bytes:
    """A U-Net (Ronneberger et al., 2015) of 16 to 128 channels; rows and columns are multiples of 8."""
    g = Graph()

    def twice(x: str, inputs: int, outputs: int) -> str:
        x = _activated(g, activation, conv(g, x, inputs, outputs, 3))
        return _activated(g, activation, conv(g, x, outputs, outputs, 3))

    kept, x = [], twice("x", 3, 16)
    for channels in (16, 32, 64):
        kept.append(x)
        x = twice(g.node("MaxPool", x, **_POOL_BY_2), channels, 2 * channels)
    for channels in (64, 32, 16):
        x = twice(g.node("Concat", _resized(g, x, mode), kept.pop(), axis=1), 3 * channels, channels)
    return _floats(g, 3, conv(g, x, 16, 2))


# ---- classification ------------------------------------------------------------------------------------------------------------

#: A block of MobileNetV3: kernel, expanded channels, channels, whether squeezed, activation, stride.
Block = tuple[int, int, int, bool, str, int]
_R, _H = "Relu", "HardSwish"
_SMALL: tuple[Block, ...] = (
    (3, 16, 16, True, _R, 2), (3, 72, 24, False, _R, 2), (3, 88, 24, False, _R, 1), (5, 96, 40, True, _H, 2),
    (5, 240, 40, True, _H, 1), (5, 240, 40, True, _H, 1), (5, 120, 48, True, _H, 1), (5, 144, 48, True, _H, 1),
    (5, 288, 96, True, _H, 2), (5, 576, 96, True, _H, 1), (5, 576, 96, True, _H, 1),
)  # fmt: skip
_LARGE: tuple[Block, ...] = (
    (3, 16, 16, False, _R, 1), (3, 64, 24, False, _R, 2), (3, 72, 24, False, _R, 1), (5, 72, 40, True, _R, 2),
    (5, 120, 40, True, _R, 1), (5, 120, 40, True, _R, 1), (3, 240, 80, False, _H, 2), (3, 200, 80, False, _H, 1),
    (3, 184, 80, False, _H, 1), (3, 184, 80, False, _H, 1), (3, 480, 112, True, _H, 1), (3, 672, 112, True, _H, 1),
    (5, 672, 160, True, _H, 2), (5, 960, 160, True, _H, 1), (5, 960, 160, True, _H, 1),
)  # fmt: skip


def _mobilenet_v3(g: Graph, blocks: Iterable[Block], dilated: int = 0) -> tuple[str, int]:
    """The features of a MobileNetV3 (Howard et al., 2019) and their channels; the last ``dilated`` blocks keep the size."""
    x, inputs, blocks = g.node(_H, conv(g, "x", 3, 16, 3, 2)), 16, tuple(blocks)
    for number, (kernel, inner, outputs, squeezed, activation, stride) in enumerate(blocks):
        dilation = 2 if number >= len(blocks) - dilated else 1
        y = g.node(activation, conv(g, x, inputs, inner)) if inner != inputs else x
        y = g.node(activation, conv(g, y, inner, inner, kernel, 1 if dilation > 1 else stride, inner, dilation))
        if squeezed:
            y = _excited(g, y, inner, (inner // 4 + 4) // 8 * 8, _R, "HardSigmoid")
        y = conv(g, y, inner, outputs)
        x, inputs = (g.node("Add", x, y) if stride == 1 and inputs == outputs else y), outputs
    return g.node(_H, conv(g, x, inputs, 6 * inputs)), 6 * inputs


def mobilenet_v3_small() -> bytes:
    """MobileNetV3-small for inference."""
    g = Graph()
    x, features = _mobilenet_v3(g, _SMALL)
    pooled = g.node("Flatten", g.node("GlobalAveragePool", x), axis=1)
    hidden = g.node(_H, g.node("Gemm", pooled, g.parameters(features, 1024), g.parameters(1024)))
    return _floats(g, 3, g.node("Gemm", hidden, g.parameters(1024, 1000), g.parameters(1000)))


def deeplab_v3() -> bytes:
    """DeepLabV3 (Chen et al., 2017) over MobileNetV3-large: classes of pixels, with the rows and columns of the picture."""
    g = Graph()
    x, features = _mobilenet_v3(g, _LARGE, dilated=3)
    views = [g.node("Relu", conv(g, x, features, 256))]
    views += [g.node("Relu", conv(g, x, features, 256, 3, dilation=rate)) for rate in (12, 24, 36)]
    mean = g.node("Relu", conv(g, g.node("GlobalAveragePool", x), features, 256))
    joined = g.node("Concat", *views, _resized_as(g, mean, x, 256), axis=1)
    y = g.node("Relu", conv(g, g.node("Relu", conv(g, joined, 5 * 256, 256)), 256, 256, 3))
    return _floats(g, 3, _resized_as(g, conv(g, y, 256, 21), "x", 21))


def efficientnet_b0() -> bytes:
    """EfficientNet-B0 for inference (Tan and Le, 2019): expansion, kernel, stride, channels and count of each group of blocks."""
    g, inputs = Graph(), 32
    x = _activated(g, "SiLU", conv(g, "x", 3, 32, 3, 2))
    for expansion, kernel, first, outputs, count in (
        (1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3), (6, 5, 1, 112, 3), (6, 5, 2, 192, 4),
        (6, 3, 1, 320, 1),
    ):  # fmt: skip
        for number in range(count):
            stride, inner = first if not number else 1, expansion * inputs
            y = _activated(g, "SiLU", conv(g, x, inputs, inner)) if expansion > 1 else x
            y = _activated(g, "SiLU", conv(g, y, inner, inner, kernel, stride, inner))
            y = conv(g, _excited(g, y, inner, inputs // 4, "SiLU", "Sigmoid"), inner, outputs)
            x, inputs = (g.node("Add", x, y) if number else y), outputs
    return _floats(g, 3, classes(g, _activated(g, "SiLU", conv(g, x, inputs, 1280)), 1280))


def resnet18() -> bytes:
    """ResNet-18 for inference (He et al., 2015)."""
    g, inputs = Graph(), 64
    x = g.node("Relu", conv(g, "x", 3, 64, 7, 2))
    x = g.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for stage in range(4):
        outputs = 64 << stage
        for number in range(2):
            stride = 2 if stage and not number else 1
            y = conv(g, g.node("Relu", conv(g, x, inputs, outputs, 3, stride)), outputs, outputs, 3)
            x = conv(g, x, inputs, outputs, 1, 2) if stride > 1 else x
            x, inputs = g.node("Relu", g.node("Add", x, y)), outputs
    return _floats(g, 3, classes(g, x, 512))


_IMAGE = ((1, 3, 224, 224),)
VISION = {
    "YOLOv5n": Subject(yolo, ((1, 3, 320, 320),), (1, 3, 128, 128)),
    **{
        f"U-Net, {'ReLU' if activation == 'Relu' else 'GELU' if activation == 'Gelu' else activation}, {mode}": Subject(
            functools.partial(u_net, activation, mode), ((1, 3, 128, 128),), (1, 3, 64, 64)
        )
        for activation in ("SiLU", "Gelu", "Relu")
        for mode in _MODES
    },
    "MobileNetV3-small": Subject(mobilenet_v3_small, _IMAGE, (1, 3, 96, 96)),
    "EfficientNet-B0": Subject(efficientnet_b0, _IMAGE, (1, 3, 96, 96)),
    "ResNet-18": Subject(resnet18, _IMAGE, (1, 3, 96, 96)),
    "DeepLabV3-MobileNetV3": Subject(deeplab_v3, _IMAGE, (1, 3, 96, 96)),
}
