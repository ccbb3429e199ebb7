"""The usual layers of quantised networks: a program whose kernels, and whose constants, most of such networks have.

The layers are written as the tools of onnxruntime quantise them, with ``qnn.quantize`` and ``qnn.dequantize`` around each
operator: layers of a transformer of one text of any length, and a convolutional network.  Kernels depend on neither the number of
features nor scales and zero points (see ``ops.codegen.cpu.shared_texts``).
"""

from __future__ import annotations

import numpy as np

from ...vm.api.executable import Executable
from ..compile import compile

#: The features of a word, the heads of the attention, and the features between the products of a layer.
_FEATURES, _HEADS, _INNER = 320, 5, 1280
#: Scales and zero points: no two of a layer are equal, and none makes another text.
_SCALE, _ZERO_POINT, _STEP = 0.0313, 101, 0.00137


class _Layers:
    """Writes calls, each with a variable of its own; ``weights``: the constants, by the names of their parameters."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.weights: dict[str, np.ndarray] = {}
        self.parameters: dict[str, str] = {}
        self.count = 0

    def let(self, call: str) -> str:
        """The variable of a call."""
        self.lines.append(f"  let %v{len(self.lines)} = {call};")
        return f"%v{len(self.lines) - 1}"

    def _parameters(self, least_is_0: bool = False) -> str:
        """A scale and a zero point."""
        self.count += 1
        return f"{_SCALE + _STEP * self.count:.6f}f, {0 if least_is_0 else _ZERO_POINT + self.count % 24}u8"

    def quantised(self, value: str, of: str = "", least_is_0: bool = False) -> str:
        """A value, quantised and dequantised; with the parameters of the value ``of`` where it has the same elements."""
        parameters = self.parameters[of] if of else self._parameters(least_is_0)
        stored = self.let(f'qnn.quantize({value}, {parameters}, out_dtype="uint8", ties="even")')
        dequantised = self.let(f"qnn.dequantize({stored}, {parameters})")
        self.parameters[dequantised] = parameters
        return dequantised

    def bytes_of(self, shape: tuple[int, ...], axis: int) -> str:
        """A weight, with a scale for each index of an axis."""
        name = f"w{len(self.weights)}"
        size = shape[axis]
        self.weights |= {
            name: np.ones(shape, np.int8),
            f"{name}_scales": np.linspace(0.01, 0.02, size, dtype=np.float32),
            f"{name}_zeros": np.zeros(size, np.int8),
        }
        return self.let(f"qnn.dequantize(%{name}, %{name}_scales, %{name}_zeros, axis={axis})")

    def vector(self, size: int) -> str:
        """A vector of bytes with one scale."""
        name = f"w{len(self.weights)}"
        self.weights[name] = np.arange(size).astype(np.uint8)
        return self.let(f"qnn.dequantize(%{name}, {self._parameters()})")

    def product(self, data: str, inputs: int, outputs: int) -> str:
        """A product with a bias."""
        product = self.quantised(self.let(f"nn.matmul({data}, {self.bytes_of((inputs, outputs), 1)})"))
        return self.quantised(self.let(f"add({product}, {self.vector(outputs)})"))

    def norm(self, x: str) -> str:
        """A layer normalisation, quantised."""
        less = self.let(f"subtract({x}, {self.let(f'mean({x}, axis=[2], keepdims=True)')})")
        variance = self.let(f"mean({self.let(f'multiply({less}, {less})')}, axis=[2], keepdims=True)")
        root = self.let(f"rsqrt({self.let(f'add({variance}, 1e-05f)')})")
        scaled = self.let(f"multiply({self.let(f'multiply({less}, {root})')}, {self.vector(_FEATURES)})")
        return self.quantised(self.let(f"add({scaled}, {self.vector(_FEATURES)})"))

    def head(self, x: str, axes: str) -> str:
        """The heads of a product of the words."""
        split = self.quantised(self.let(f"reshape({x}, newshape=[1, -1, {_HEADS}, {_FEATURES // _HEADS}])"), x)
        return self.quantised(self.let(f"transpose({split}, axes={axes})"), split)

    def heads_product(self, x: str, y: str) -> str:
        """A product of matrices of all heads."""
        matrices = (self.let(f"reshape({each}, newshape=[-3, -2])") for each in (x, y))
        product = self.let(f"nn.batch_matmul({', '.join(matrices)}, transpose_b=False)")
        return self.quantised(self.let(f"reshape({product}, newshape=[-4, -1, {_HEADS}, -2])"))

    def attention(self, x: str) -> str:
        """The attention of words."""
        orders = "[0, 2, 1, 3]", "[0, 2, 3, 1]", "[0, 2, 1, 3]"
        query, keys, values = (self.head(self.product(x, _FEATURES, _FEATURES), order) for order in orders)
        scores = self.heads_product(query, keys)
        # by 0.125, after which an eighth of the scale has the same range
        scaled = self.let(f"multiply({scores}, {self.let('qnn.dequantize(255u8, 0.0004901961f, 0u8)')})")
        scale, zero_point = self.parameters[scores].split("f, ")
        self.parameters[scaled] = f"{float(scale) / 8}f, {zero_point}"
        softmax = self.quantised(self.let(f"nn.softmax({self.quantised(scaled, scaled)}, axis=3)"), least_is_0=True)
        mixed = self.heads_product(softmax, values)
        in_order = self.quantised(self.let(f"transpose({mixed}, axes=[0, 2, 1, 3])"), mixed)
        return self.quantised(self.let(f"reshape({in_order}, newshape=[1, -1, {_FEATURES}])"), mixed)

    def transformer(self, x: str) -> str:
        """A layer of a transformer."""
        x = self.norm(self.quantised(self.let(f"add({x}, {self.product(self.attention(x), _FEATURES, _FEATURES)})")))
        inner = self.product(x, _FEATURES, _INNER)
        erf = self.let(f"erf({self.let(f'multiply({inner}, 0.70710677f)')})")
        gelu = self.let(f"multiply({self.let(f'multiply(0.5f, {inner})')}, {self.let(f'add(1f, {erf})')})")
        outer = self.product(self.quantised(gelu), _INNER, _FEATURES)
        return self.norm(self.quantised(self.let(f"add({x}, {outer})")))

    def convolution(self, x: str, shape: tuple[int, int, int], stride: int = 1, least_is_0: bool = True) -> str:
        """A convolution by a weight ``[outputs, inputs, taps, taps]``, or one of each channel, with a bias.

        ``least_is_0``: whether an activation is part of the quantisation, as that of a ReLU is.
        """
        outputs, inputs, taps = shape
        weight = self.bytes_of((outputs, inputs, taps, taps), 0)
        groups = outputs if inputs == 1 else 1
        attributes = f"strides=[{stride}, {stride}], padding=[{taps // 2}, {taps // 2}], groups={groups}"
        sums = self.let(f"nn.conv2d({x}, {weight}, {attributes})")
        name = f"w{len(self.weights)}"
        self.weights |= {name: np.arange(outputs, dtype=np.int32), f"{name}_scales": np.linspace(1e-4, 2e-4, outputs, dtype="f4")}
        bias = self.let(f"qnn.dequantize(%{name}, %{name}_scales, 0, axis=0)")
        return self.quantised(self.let(f"nn.bias_add({sums}, {bias})"), least_is_0=least_is_0)

    def mobile_network(self, image: str) -> str:
        """A short network of the kind of MobileNetV2, of images of 112 rows."""
        x = self.convolution(self.quantised(image), (32, 3, 3), 2)
        x = self.convolution(self.convolution(x, (32, 1, 3)), (48, 32, 1), least_is_0=False)
        x = self.convolution(self.convolution(x, (144, 48, 1)), (144, 1, 3), 2)
        x = self.convolution(x, (48, 144, 1), least_is_0=False)
        inner = self.convolution(self.convolution(x, (144, 48, 1)), (144, 1, 3))
        x = self.quantised(self.let(f"add({x}, {self.convolution(inner, (48, 144, 1), least_is_0=False)})"))
        x = self.convolution(x, (320, 48, 1))
        means = self.quantised(self.let(f"mean({x}, axis=[2, 3], keepdims=True)"), least_is_0=True)
        flat = self.quantised(self.let(f"nn.batch_flatten({means})"), means)
        product = self.let(f"nn.matmul({flat}, {self.bytes_of((320, 1000), 1)})")
        self.weights["bias"] = np.arange(1000, dtype=np.float32)
        return self.quantised(self.let(f"add({product}, %bias)"))


def usual_byte_layers() -> Executable:
    """The program, compiled."""
    layers = _Layers()
    words = layers.let("qnn.dequantize(%words, 0.0311f, 127u8)")
    for _ in range(2):
        words = layers.transformer(words)
    classes = layers.mobile_network("%image")
    parameters = [f"%words: Tensor[(1, ?words, {_FEATURES}), uint8]", "%image: Tensor[(?n, 3, 112, 112), float32]"]
    for name, value in layers.weights.items():
        shape = ", ".join(map(str, value.shape)) + "," * (value.ndim == 1)
        parameters.append(f"%{name}: Tensor[({shape}), {value.dtype.name}]")
    body = "\n".join(layers.lines)
    text = f'#[version = "0.0.5"]\ndef @main({", ".join(parameters)}) {{\n{body}\n  ({words}, {classes})\n}}'
    return compile(text, params=layers.weights, optimize=False)
