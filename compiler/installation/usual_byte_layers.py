"""The usual layers of quantised networks: programs whose kernels, and whose constants, most of such networks have.

The layers are written as the tools of onnxruntime quantise them, with ``qnn.quantize`` and ``qnn.dequantize`` around each
operator: layers of a transformer of one text of any length, and a convolutional network of unsigned bytes and of signed ones.
Layers of another transformer have operators of integers instead, as the form QOperator has.  Kernels depend on neither the
number of features nor scales and zero points (see ``ops.codegen.cpu.shared_texts``), but for zero points of 0 and, of unsigned
bytes that become signed ones, of 128.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...vm.api.executable import Executable
from ..compile import compile

#: The features of a word, the heads of the attention, and the features between the products of a layer.
_FEATURES, _HEADS, _INNER = 320, 5, 1280
#: Scales and zero points: no two of a layer are equal, and none makes another text.
_SCALE, _ZERO_POINT, _STEP = 0.0313, 101, 0.00137
#: The zero point of unsigned bytes whose signed ones have none.
_MIDDLE = 128


class _Layers:
    """Writes calls, each with a variable of its own; ``weights``: the constants, by the names of their parameters.

    ``stored``, ``parameters``: by variables that are dequantised, the bytes, and their scale and zero point.
    ``of_softmax``: the parameters of a softmax, "" for some as of other values.  ``dtype``, ``suffix``, ``least``: the bytes of
    results, the end of their literals, and the least of them.
    """

    of_softmax = ""
    dtype, suffix, least = "uint8", "u8", 0

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.weights: dict[str, np.ndarray] = {}
        self.stored: dict[str, str] = {}
        self.parameters: dict[str, str] = {}
        self.count = 0

    def let(self, call: str) -> str:
        """The variable of a call."""
        self.lines.append(f"  let %v{len(self.lines)} = {call};")
        return f"%v{len(self.lines) - 1}"

    def _parameters(self, zero_point: int | None = None) -> str:
        """A scale and a zero point, by default one that is no other's."""
        self.count += 1
        zero_point = _ZERO_POINT + self.count % 24 if zero_point is None else zero_point
        return f"{_SCALE + _STEP * self.count:.6f}f, {zero_point}{self.suffix}"

    def quantised(self, value: str, of: str = "", zero_point: int | None = None, is_scaled: bool = False) -> str:
        """A value, quantised and dequantised; with the parameters of the value ``of`` where it has the same elements.

        ``is_scaled``: whether the value is divided by the scale already.
        """
        parameters = self.parameters[of] if of else self._parameters(zero_point)
        given = f"1f, {_zero_point(parameters)}u8" if is_scaled else parameters
        return self.dequantised(self.let(f'qnn.quantize({value}, {given}, out_dtype="{self.dtype}", ties="even")'), parameters)

    def dequantised(self, stored: str, parameters: str = "") -> str:
        """Bytes as real numbers."""
        parameters = parameters or self._parameters()
        dequantised = self.let(f"qnn.dequantize({stored}, {parameters})")
        self.stored[dequantised], self.parameters[dequantised] = stored, parameters
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

    def matrix_product(self, data: str, inputs: int, outputs: int) -> str:
        """A product by a weight, quantised."""
        return self.quantised(self.let(f"nn.matmul({data}, {self.bytes_of((inputs, outputs), 1)})"))

    def product(self, data: str, inputs: int, outputs: int, zero_point: int | None = None) -> str:
        """A product with a bias."""
        product = self.matrix_product(data, inputs, outputs)
        return self.quantised(self.let(f"add({product}, {self.vector(outputs)})"), zero_point=zero_point)

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

    def attention(self, x: str, zero_point: int | None) -> str:
        """The attention of words; ``zero_point``: that of the keys."""
        orders = ("[0, 2, 1, 3]", None), ("[0, 2, 3, 1]", zero_point), ("[0, 2, 1, 3]", None)
        query, keys, values = (self.head(self.product(x, _FEATURES, _FEATURES, point), order) for order, point in orders)
        scores = self.heads_product(query, keys)
        # by 0.125, after which an eighth of the scale has the same range
        scaled = self.let(f"multiply({scores}, {self.let('qnn.dequantize(255u8, 0.0004901961f, 0u8)')})")
        scale, zero = self.parameters[scores].split("f, ")
        self.parameters[scaled] = f"{float(scale) / 8}f, {zero}"
        softmax = self.let(f"nn.softmax({self.quantised(scaled, scaled)}, axis=3)")
        self.parameters[softmax] = self.of_softmax or self._parameters(self.least)
        mixed = self.heads_product(self.quantised(softmax, softmax), values)
        in_order = self.quantised(self.let(f"transpose({mixed}, axes=[0, 2, 1, 3])"), mixed)
        return self.quantised(self.let(f"reshape({in_order}, newshape=[1, -1, {_FEATURES}])"), mixed)

    def transformer(self, x: str, zero_point: int | None = None) -> str:
        """A layer of a transformer; ``zero_point``: that of the keys."""
        mixed = self.product(self.attention(x, zero_point), _FEATURES, _FEATURES)
        x = self.norm(self.quantised(self.let(f"add({x}, {mixed})")))
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
        return self.quantised(self.let(f"nn.bias_add({sums}, {bias})"), zero_point=self.least if least_is_0 else None)

    def mobile_network(self, image: str) -> str:
        """A short network of the kind of MobileNetV2, of images of 112 rows."""
        x = self.convolution(self.quantised(image), (32, 3, 3), 2)
        x = self.convolution(self.convolution(x, (32, 1, 3)), (48, 32, 1), least_is_0=False)
        x = self.convolution(self.convolution(x, (144, 48, 1)), (144, 1, 3), 2)
        x = self.convolution(x, (48, 144, 1), least_is_0=False)
        inner = self.convolution(self.convolution(x, (144, 48, 1)), (144, 1, 3))
        x = self.quantised(self.let(f"add({x}, {self.convolution(inner, (48, 144, 1), least_is_0=False)})"))
        x = self.convolution(x, (320, 48, 1))
        means = self.quantised(self.let(f"mean({x}, axis=[2, 3], keepdims=True)"), zero_point=self.least)
        flat = self.quantised(self.let(f"nn.batch_flatten({means})"), means)
        product = self.let(f"nn.matmul({flat}, {self.bytes_of((320, 1000), 1)})")
        self.weights["bias"] = np.arange(1000, dtype=np.float32)
        return self.quantised(self.let(f"add({product}, %bias)"))


class _SignedLayers(_Layers):
    """As ``_Layers``, with signed bytes, as the tools of some processors have them."""

    dtype, suffix, least = "int8", "i8", -128


class _IntegerLayers(_Layers):
    """As ``_Layers``, with products of integers that are scaled and quantised, as ``QLinearMatMul`` has them."""

    of_softmax = "0.00390625f, 0u8"

    def matrix_product(self, data: str, inputs: int, outputs: int) -> str:
        name = f"w{len(self.weights)}"
        self.weights |= {
            name: np.ones((inputs, outputs), np.int8),
            f"{name}_sums": np.arange(outputs, dtype=np.int32),
            f"{name}_scales": np.linspace(0.01, 0.02, outputs, dtype=np.float32),
        }
        sums = self.let(f'nn.matmul({self.stored[data]}, %{name}, out_dtype="int32")')
        less = self.let(f"subtract({sums}, multiply(%{name}_sums, {_zero_point(self.parameters[data])}))")
        scaled = self.let(f'multiply(cast({less}, dtype="float32"), %{name}_scales)')
        return self.quantised(scaled, is_scaled=True)

    def heads_product(self, x: str, y: str) -> str:
        bytes_of_y = self.let(f"bitwise_xor(transpose({self.stored[y]}, axes=[0, 1, 3, 2]), {_MIDDLE}u8)")
        operands = self.stored[x], self.let(f'cast({bytes_of_y}, dtype="int8")')
        rows, columns = (self.let(f"reshape({each}, newshape=[-3, -2])") for each in operands)
        zeros = f"{_zero_point(self.parameters[x])}u8, {_zero_point(self.parameters[y]) - _MIDDLE}"
        sums = self.let(f"qnn.batch_matmul({rows}, {columns}, {zeros}, 1f, 1f)")
        scaled = self.let(f'multiply(cast({sums}, dtype="float32"), {_SCALE * _STEP}f)')
        parameters = self._parameters()
        stored = self.let(f'qnn.quantize({scaled}, 1f, {_zero_point(parameters)}u8, out_dtype="uint8", ties="even")')
        return self.dequantised(self.let(f"reshape({stored}, newshape=[-4, -1, {_HEADS}, -2])"), parameters)


def _zero_point(parameters: str) -> int:
    """The zero point of a text of a scale and a zero point."""
    return int(parameters.split("f, ")[1].removesuffix("u8"))


def usual_byte_layers() -> Iterator[Executable]:
    """The programs, compiled one by one."""
    yield _compiled(_Layers(), with_words=True, with_images=True)
    yield _compiled(_IntegerLayers(), with_words=True, with_images=False)
    yield _compiled(_SignedLayers(), with_words=False, with_images=True)


def _compiled(layers: _Layers, with_words: bool, with_images: bool) -> Executable:
    results, parameters = [], []
    if with_words:
        words = layers.dequantised("%words")
        for zero_point in (None, _MIDDLE):
            words = layers.transformer(words, zero_point)
        results.append(words)
        parameters.append(f"%words: Tensor[(1, ?words, {_FEATURES}), uint8]")
    if with_images:
        results.append(layers.mobile_network("%image"))
        parameters.append("%image: Tensor[(?n, 3, 112, 112), float32]")
    for name, value in layers.weights.items():
        shape = ", ".join(map(str, value.shape)) + "," * (value.ndim == 1)
        parameters.append(f"%{name}: Tensor[({shape}), {value.dtype.name}]")
    body = "\n".join([*layers.lines, f"  ({', '.join(results)},)"])
    text = f'#[version = "0.0.5"]\ndef @main({", ".join(parameters)}) {{\n{body}\n}}'
    return compile(text, params=layers.weights, optimize=False)
