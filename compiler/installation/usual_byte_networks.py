"""The usual convolutional networks of bytes: networks of residuals, inverted or not, as the tools of onnxruntime quantise them.

Each of the forms QDQ, which has operators of reals between conversions, and QOperator, which has operators of integers, with
unsigned bytes: signed ones become unsigned ones (see ``compiler.passes.precision.unsigned_bytes``).  Kernels of convolutions
depend on neither channels, sizes nor scales, but the choice among them depends on sizes, so all stages are there; other kernels
depend on which sizes are known.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...vm.api.executable import Executable
from .quantised_program import QuantisedProgram, zero_point_of

#: The classes of images.
_CLASSES = 1000
#: Blocks of a network of inverted residuals: expansion, channels, stride.
_BLOCKS = (
    (1, 16, 1), (6, 24, 2), (6, 24, 1), (6, 32, 2), (6, 32, 1), (6, 64, 2), (6, 64, 1), (6, 96, 1), (6, 96, 1), (6, 160, 2),
    (6, 160, 1), (6, 320, 1),
)  # fmt: skip

#: Channels of the stages of a network of residuals.
_STAGES = (64, 128, 256, 512)


class _Network(QuantisedProgram):
    """A network in the form QDQ."""

    def convolution(self, x: str, shape: tuple[int, int, int], stride: int, zero_point: int | None) -> str:
        """A convolution by a weight ``[outputs, inputs, taps, taps]``, or one of each channel, with a bias.

        ``zero_point``: of the result; None for some.
        """
        outputs, inputs, taps = shape
        weight = self.bytes_of((outputs, inputs, taps, taps), 0)
        sums = self.let(f"nn.conv2d({x}, {weight}, {_attributes(shape, stride)})")
        parameters = (
            np.arange(outputs, dtype=np.int32),
            np.linspace(1e-4, 2e-4, outputs, dtype=np.float32),
            np.zeros(outputs, "i4"),
        )
        bias = self.let(f"qnn.dequantize({', '.join(map(self.given, parameters))}, axis=0)")
        return self.quantised(self.let(f"nn.bias_add({sums}, {bias})"), zero_point=zero_point)

    def _active(self, x: str, shape: tuple[int, int, int], stride: int = 1) -> str:
        """A convolution with an activation, which its quantisation bounds: the least byte is 0."""
        return self.convolution(x, shape, stride, 0)

    def classified(self, means: str, inputs: int) -> str:
        """The scores of the classes of images."""
        flat = self.quantised(self.let(f"nn.batch_flatten({means})"), means)
        product = self.let(f"nn.matmul({flat}, {self.bytes_of((inputs, _CLASSES), 1)})")
        return self.quantised(self.let(f"add({product}, {self.given(np.arange(_CLASSES, dtype=np.float32))})"))

    def inverted_residuals(self, image: str) -> str:
        """Blocks of a network of inverted residuals (Sandler et al., 2018)."""
        x, inputs = self._active(self.quantised(image), (32, 3, 3), 2), 32
        for expansion, outputs, stride in _BLOCKS:
            inner, before = inputs * expansion, x
            if expansion > 1:
                x = self._active(x, (inner, inputs, 1))
            x = self.convolution(self._active(x, (inner, 1, 3), stride), (outputs, inner, 1), 1, None)
            if (inputs, stride) == (outputs, 1):
                x = self.quantised(self.let(f"add({before}, {x})"))
            inputs = outputs
        x = self._active(x, (1280, inputs, 1))
        means = self.quantised(self.let(f"mean({x}, axis=[2, 3], keepdims=True)"), zero_point=0)
        return self.classified(means, 1280)

    def residuals(self, image: str, widening: int) -> str:
        """Two blocks of each stage of a residual network (He et al., 2015).

        ``widening``: 1 for pairs of windows, 4 for bottlenecks.

        Sums of every second stage name the input of their block first, and so does one of the first stage, which has kernels of
        its own.
        """
        x, inputs = self._active(self.quantised(image), (64, 3, 7), 2), 64
        pooled = self.let(f"nn.max_pool2d({self.stored[x]}, pool_size=[3, 3], strides=[2, 2], padding=[1, 1, 1, 1])")
        x = self.dequantised(pooled, self.parameters[x])
        for number, channels in enumerate(_STAGES):
            for block, stride in enumerate((2 if number else 1, 1)):
                outputs, before = channels * widening, x
                if widening > 1:
                    x = self._active(self._active(x, (channels, inputs, 1)), (channels, channels, 3), stride)
                    x = self.convolution(x, (outputs, channels, 1), 1, None)
                else:
                    x = self.convolution(self._active(x, (channels, inputs, 3), stride), (channels, channels, 3), 1, None)
                if (inputs, stride) != (outputs, 1):
                    before = self.convolution(before, (outputs, inputs, 1), stride, None)
                terms = (before, x) if (number or block) % 2 else (x, before)
                x, inputs = self.quantised(self.let(f"add({', '.join(terms)})"), zero_point=0), outputs
        means = self.quantised(self.let(f"mean({x}, axis=[2, 3], keepdims=True)"))
        return self.classified(means, inputs)


class _IntegerNetwork(_Network):
    """A network in the form QOperator."""

    def convolution(self, x: str, shape: tuple[int, int, int], stride: int, zero_point: int | None) -> str:
        outputs, inputs, taps = shape
        weight, zeros = self.given(np.ones((outputs, inputs, taps, taps), np.int8)), self.given(np.zeros(outputs, np.int8))
        given = f"{self.stored[x]}, {weight}, {self.parameters[x].split(', ')[1]}, {zeros}, 1f, 1f"
        sums = self.let(f"qnn.conv2d({given}, {_attributes(shape, stride)})")
        biased = self.let(f"nn.bias_add({sums}, {self.given(np.arange(outputs, dtype=np.int32))})")
        factor = self.given(np.linspace(0.01, 0.02, outputs, dtype=np.float32).reshape(-1, 1, 1))
        return self._scaled(biased, factor, zero_point)

    def classified(self, means: str, inputs: int) -> str:
        flat = self.let(f"nn.batch_flatten({self.stored[means]})")
        sums = self.let(f'nn.matmul({flat}, {self.given(np.ones((inputs, _CLASSES), np.int8))}, out_dtype="int32")')
        zero_point = zero_point_of(self.parameters[means])
        if zero_point:
            of_columns = self.given(np.arange(_CLASSES, dtype=np.int32).reshape(1, -1))
            sums = self.let(f"subtract({sums}, multiply({of_columns}, {zero_point}))")
        biased = self.let(f"add({sums}, {self.given(np.arange(_CLASSES, dtype=np.int32))})")
        return self._scaled(biased, self.given(np.linspace(0.01, 0.02, _CLASSES, dtype=np.float32)))

    def _scaled(self, sums: str, factor: str, zero_point: int | None = None) -> str:
        """Sums times a factor, quantised."""
        scaled = self.let(f'multiply(cast({sums}, dtype="float32"), {factor})')
        return self.quantised(scaled, zero_point=zero_point, is_scaled=True)


def _attributes(shape: tuple[int, int, int], stride: int) -> str:
    """The attributes of a convolution that keeps the sizes but for its stride."""
    outputs, inputs, taps = shape
    groups = outputs if inputs == 1 else 1
    return f"strides=[{stride}, {stride}], padding=[{taps // 2}, {taps // 2}], groups={groups}"


def usual_byte_networks() -> Iterator[Executable]:
    """The programs, compiled one by one."""
    for form in (_Network, _IntegerNetwork):
        inverted = form()
        yield inverted.compiled("%image: Tensor[(?n, 3, 224, 224), float32]", inverted.inverted_residuals("%image"))
        for widening, sizes in ((1, "?n, 3, ?h, ?w"), (4, "1, 3, 224, 224")):
            network = form()
            yield network.compiled(f"%image: Tensor[({sizes}), float32]", network.residuals("%image", widening))
