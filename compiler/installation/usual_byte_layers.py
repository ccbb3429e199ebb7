"""The usual layers of quantised networks: programs whose kernels, and whose constants, most of such networks have.

The layers are written as the tools of onnxruntime quantise them, with ``qnn.quantize`` and ``qnn.dequantize`` around each
operator: layers of a transformer of one text of any length.  Layers of another transformer have operators of integers instead,
as the form QOperator has.  Kernels depend on neither the number of features nor scales and zero points (see
``ops.codegen.cpu.shared_texts``), but for zero points of 0 and, of unsigned bytes that become signed ones, of 128.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...vm.api.executable import Executable
from .quantised_program import SCALE, STEP, QuantisedProgram, zero_point_of

#: The features of a word, the heads of the attention, and the features between the products of a layer.
_FEATURES, _HEADS, _INNER = 320, 5, 1280
#: The zero point of unsigned bytes whose signed ones have none.
_MIDDLE = 128


class _Layers(QuantisedProgram):
    """Layers of a transformer.  ``of_softmax``: the parameters of a softmax, "" for some as of other values."""

    of_softmax = ""

    def vector(self, size: int) -> str:
        """A vector of bytes with one scale."""
        name = f"w{len(self.weights)}"
        self.weights[name] = np.arange(size).astype(np.uint8)
        return self.let(f"qnn.dequantize(%{name}, {self.new_parameters()})")

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
        self.parameters[softmax] = self.of_softmax or self.new_parameters(0)
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
        less = self.let(f"subtract({sums}, multiply(%{name}_sums, {zero_point_of(self.parameters[data])}))")
        scaled = self.let(f'multiply(cast({less}, dtype="float32"), %{name}_scales)')
        return self.quantised(scaled, is_scaled=True)

    def heads_product(self, x: str, y: str) -> str:
        bytes_of_y = self.let(f"bitwise_xor(transpose({self.stored[y]}, axes=[0, 1, 3, 2]), {_MIDDLE}u8)")
        operands = self.stored[x], self.let(f'cast({bytes_of_y}, dtype="int8")')
        rows, columns = (self.let(f"reshape({each}, newshape=[-3, -2])") for each in operands)
        zeros = f"{zero_point_of(self.parameters[x])}u8, {zero_point_of(self.parameters[y]) - _MIDDLE}"
        sums = self.let(f"qnn.batch_matmul({rows}, {columns}, {zeros}, 1f, 1f)")
        scaled = self.let(f'multiply(cast({sums}, dtype="float32"), {SCALE * STEP}f)')
        parameters = self.new_parameters()
        stored = self.let(f'qnn.quantize({scaled}, 1f, {zero_point_of(parameters)}u8, out_dtype="uint8", ties="even")')
        return self.dequantised(self.let(f"reshape({stored}, newshape=[-4, -1, {_HEADS}, -2])"), parameters)


def usual_byte_layers() -> Iterator[Executable]:
    """The programs, compiled one by one."""
    for layers in (_Layers(), _IntegerLayers()):
        words = layers.dequantised("%words")
        for zero_point in (None, _MIDDLE):
            words = layers.transformer(words, zero_point)
        yield layers.compiled(f"%words: Tensor[(1, ?words, {_FEATURES}), uint8]", words)
