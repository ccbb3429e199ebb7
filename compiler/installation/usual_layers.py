"""The usual layers of networks: a program whose kernels have the parts of object code that most networks need, in float32 and
in bytes.

The parts depend on neither the number of channels nor the sizes of pictures, but the choice of an implementation does: each layer
has sizes for which its implementation pays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...vm.api.executable import Executable
from ..compile import compile


class _Convolution(NamedTuple):
    """A convolution of any number of square pictures, with a bias and an activation.

    ``channels``: of the data and of the result; ``side``: rows of the data; ``is_depthwise``: whether each channel is a group.
    """

    channels: tuple[int, int]
    side: int
    taps: int
    stride: int = 1
    padding: int = 0
    activation: str = "nn.relu({})"
    is_depthwise: bool = False

    @property
    def weight(self) -> tuple[int, ...]:
        """The shape of the weight."""
        inputs, outputs = self.channels
        return outputs, 1 if self.is_depthwise else inputs, self.taps, self.taps

    def text(self, data: str, weight: str, bias: str) -> str:
        """The call."""
        groups = self.channels[0] if self.is_depthwise else 1
        attributes = f"strides=[{self.stride}, {self.stride}], padding=[{self.padding}, {self.padding}], groups={groups}"
        return self.activation.format(f"nn.bias_add(nn.conv2d({data}, {weight}, {attributes}), {bias})")


_CLIPPED, _SMOOTH = "clip({}, a_min=0f, a_max=6f)", "sigmoid({})"
#: Layers, each of one or more convolutions in a row.
_LAYERS = (
    # windows: of long rows, of short rows, by Winograd's algorithm where rows are long enough
    (_Convolution((3, 32), 224, taps=3, stride=2, padding=1),),
    (_Convolution((64, 64), 56, taps=3, padding=1),),
    (_Convolution((64, 128), 56, taps=3, stride=2, padding=1),),
    # one tap: of large pictures, of small ones, of single positions
    (_Convolution((64, 256), 56, taps=1),),
    (_Convolution((512, 128), 14, taps=1),),
    (_Convolution((512, 128), 1, taps=1),),
    # a window of each channel; behind an expansion
    (_Convolution((96, 96), 56, taps=3, padding=1, activation=_CLIPPED, is_depthwise=True),),
    *((_Convolution((96, 96), 56, 5, stride, 2, _SMOOTH, is_depthwise=True),) for stride in (1, 2)),
    *(
        (_Convolution((24, 144), 56, taps=1, activation=_CLIPPED), _Convolution((144, 144), 56, 3, stride, 1, _CLIPPED, True))
        for stride in (1, 2)
    ),
)  # fmt: skip


#: Layers of bytes, whose weights are packed: calls, and the types of their operands.
_BYTE_LAYERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        'nn.byte_conv2d({}, kernel_size=[1, 1], form="blocks")',
        ("(?n, 64, 56, 56), uint8", "(1, 4, 16, 16), int32", "(64,), int32", "(1,), uint8"),
    ),
)
#: Products of bytes, by packed weights and of matrices as they are, and a transposition.
_BYTE_PRODUCTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    *(
        ("nn.dense_byte_panels({})", (f"({rows}, 512), {dtype}", "(32, 128, 16, 4), int8", "(512,), int32"))
        for rows, dtype in (("?n", "uint8"), ("?n", "int8"), ("?n, ?m", "uint8"))
    ),
    ('nn.dense({}, out_dtype="int32")', ("(?n, 512), uint8", "(320, 512), int8")),
    ('nn.batch_matmul({}, out_dtype="int32")', ("(?n, ?m, 64), uint8", "(?n, ?k, 64), int8")),
    ("transpose({}, axes=[0, 2, 1])", ("(?n, ?m, ?k), uint8",)),
)


def usual_layers() -> Executable:
    """The program, compiled."""
    weights = dict[str, np.ndarray]()
    parameters, results = _written(_BYTE_LAYERS)
    for k, layer in enumerate(_LAYERS):
        result, side = f"%x{k}", layer[0].side
        parameters.append(f"{result}: Tensor[(?n, {layer[0].channels[0]}, {side}, {side}), float32]")
        for i, convolution in enumerate(layer):
            weight, bias = f"w{k}_{i}", f"b{k}_{i}"
            weights |= {weight: np.ones(convolution.weight, "float32"), bias: np.ones(convolution.channels[1:], "float32")}
            result = convolution.text(result, f"%{weight}", f"%{bias}")
        results.append(result)
    parameters += [f"%{name}: Tensor[({', '.join(map(str, value.shape))},), float32]" for name, value in weights.items()]
    text = f'#[version = "0.0.5"]\ndef @main({", ".join(parameters)}) {{ ({", ".join(results)}) }}'
    return compile(text, params=weights, optimize=False)


def byte_products() -> Executable:
    """The program of products of bytes, compiled: their parts are the tiles of bytes."""
    parameters, results = _written(_BYTE_PRODUCTS)
    return compile(f'#[version = "0.0.5"]\ndef @main({", ".join(parameters)}) {{ ({", ".join(results)}) }}', optimize=False)


def _written(calls: Sequence[tuple[str, tuple[str, ...]]]) -> tuple[list[str], list[str]]:
    """The parameters of calls, and the calls."""
    parameters, results = list[str](), list[str]()
    for k, (call, types) in enumerate(calls):
        names = [f"%y{k}_{i}" for i in range(len(types))]
        parameters += [f"{name}: Tensor[{type}]" for name, type in zip(names, types, strict=True)]
        results.append(call.format(", ".join(names)))
    return parameters, results
