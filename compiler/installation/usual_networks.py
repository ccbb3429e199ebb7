"""The usual networks: short programs whose kernels the networks of many people have, too, but for their literals.

Kernels that differ in literals only share machine code (see ``without_literals``), and known sizes are literals.  So the kernels
of two blocks of each stage serve residual networks of any depth, and those of one layer encoders of any number of layers.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...vm.api.executable import Executable
from ..compile import compile

#: Channels of the stages of a residual network.
_STAGES = (64, 128, 256, 512)
#: Stages of a network of inverted residuals: expansion, channels, stride; rows are halved from 112 on.
_INVERTED = (
    (1, 16, 1), (6, 24, 2), (6, 24, 1), (6, 32, 2), (6, 32, 1), (6, 64, 2), (6, 64, 1), (6, 96, 1), (6, 96, 1), (6, 160, 2),
    (6, 160, 1), (6, 320, 1),
)  # fmt: skip


class _Program:
    """The text of a program that is written line by line; ``weights``: its constants by name."""

    def __init__(self, *parameters: str) -> None:
        self.parameters, self.lines, self.weights = list(parameters), list[str](), dict[str, np.ndarray]()

    def let(self, value: str) -> str:
        """Bind a value; its name."""
        self.lines.append(f"let %v{len(self.lines)} = {value};")
        return f"%v{len(self.lines) - 1}"

    def weight(self, *shape: int) -> str:
        """The name of a constant."""
        name = f"w{len(self.weights)}"
        self.weights[name] = np.ones(shape, "float32")
        self.parameters.append(f"%{name}: Tensor[({', '.join(map(str, shape))},), float32]")
        return f"%{name}"

    def convolution(self, x: str, channels: tuple[int, int], taps: int, stride: int = 1, groups: int = 1) -> str:
        """A convolution that keeps the sizes but for its stride, with a bias; ``channels``: of the data and of the result."""
        inputs, outputs = channels
        attributes = f"strides=[{stride}, {stride}], padding=[{taps // 2}, {taps // 2}], groups={groups}"
        product = self.let(f"nn.conv2d({x}, {self.weight(outputs, inputs // groups, taps, taps)}, {attributes})")
        return self.let(f"nn.bias_add({product}, {self.weight(outputs)})")

    def classified(self, x: str, channels: int) -> str:
        """Scores of the classes of images."""
        mean = self.let(f"nn.batch_flatten(mean({x}, axis=[2, 3], keepdims=True))")
        product = self.let(f"nn.matmul({mean}, {self.weight(1000, channels)}, transpose_b=True)")
        return self.let(f"add({product}, {self.weight(1000)})")

    def compiled(self, *results: str) -> Executable:
        """The executable."""
        body = "\n".join([*self.lines, f"({', '.join(results)},)"])
        return compile(
            f'#[version = "0.0.5"]\ndef @main({", ".join(self.parameters)}) {{\n{body}\n}}', params=self.weights, optimize=False
        )


def residual_network(widening: int, batch: str, input_first: bool) -> Executable:
    """Two blocks of each stage of a residual network (He et al., 2015).

    ``widening``: 1 for pairs of windows, 4 for bottlenecks; ``batch``: the number of images, ``?n`` for any.  ``input_first``:
    Whether the sum of a block names the block's input before the result of its convolutions, as Keras does and torch does not.
    """
    p = _Program(f"%x: Tensor[({batch}, 3, 224, 224), float32]")
    x = p.let(f"nn.relu({p.convolution('%x', (3, 64), 7, 2)})")
    x = p.let(f"nn.max_pool2d({x}, pool_size=[3, 3], strides=[2, 2], padding=[1, 1, 1, 1])")
    inputs = 64
    for number, channels in enumerate(_STAGES):
        for stride in (1 if number == 0 else 2, 1):
            outputs = channels * widening
            before = x
            if widening > 1:
                x = p.let(f"nn.relu({p.convolution(x, (inputs, channels), 1)})")
                x = p.let(f"nn.relu({p.convolution(x, (channels, channels), 3, stride)})")
                x = p.convolution(x, (channels, outputs), 1)
            else:
                x = p.let(f"nn.relu({p.convolution(x, (inputs, channels), 3, stride)})")
                x = p.convolution(x, (channels, channels), 3)
            if (inputs, stride) != (outputs, 1):
                before = p.convolution(before, (inputs, outputs), 1, stride)
            terms = (before, x) if input_first else (x, before)
            x, inputs = p.let(f"nn.relu(add({', '.join(terms)}))"), outputs
    return p.compiled(p.classified(x, inputs))


def inverted_residuals(batch: str) -> Executable:
    """Blocks of a network of inverted residuals (Sandler et al., 2018); ``batch``: the number of images, ``?n`` for any."""
    p = _Program(f"%x: Tensor[({batch}, 3, 224, 224), float32]")

    def limited(x: str) -> str:
        return p.let(f"minimum(maximum({x}, 0f), 6f)")

    x, inputs = limited(p.convolution("%x", (3, 32), 3, 2)), 32
    for expansion, outputs, stride in _INVERTED:
        inner, before = inputs * expansion, x
        if expansion > 1:
            x = limited(p.convolution(x, (inputs, inner), 1))
        x = p.convolution(limited(p.convolution(x, (inner, inner), 3, stride, inner)), (inner, outputs), 1)
        if (inputs, stride) == (outputs, 1):
            x = p.let(f"add({before}, {x})")
        inputs = outputs
    return p.compiled(p.classified(limited(p.convolution(x, (inputs, 1280), 1)), 1280))


def encoder() -> Executable:
    """A layer of a text encoder (Devlin et al., 2018), with a mask that is added to the scores."""
    features, inner = 256, 1024
    p = _Program(f"%x: Tensor[(?n, ?s, {features}), float32]", "%mask: Tensor[(?n, 1, ?s, ?s), float32]")

    def linear(x: str, inputs: int, outputs: int) -> str:
        return p.let(f"add({p.weight(outputs)}, {p.let(f'nn.matmul({x}, {p.weight(inputs, outputs)})')})")

    def heads(axes: str) -> str:
        apart = p.let(f"reshape({linear('%x', features, features)}, newshape=[0, 0, -1, 64])")
        return p.let(f"reshape(transpose({apart}, axes=[{axes}]), newshape=[-3, -2])")

    def product(a: str, b: str) -> str:
        together = p.let(f"nn.batch_matmul({a}, {b}, transpose_b=False)")
        return p.let(f"reshape({together}, newshape=[-4, -1, {features // 64}, -2])")

    def normalised(x: str) -> str:
        centred = p.let(f"subtract({x}, mean({x}, axis=[2], keepdims=True))")
        scale = p.let(f"rsqrt(add(mean(multiply({centred}, {centred}), axis=[2], keepdims=True), 1e-12f))")
        return p.let(f"add(multiply(multiply({centred}, {scale}), {p.weight(features)}), {p.weight(features)})")

    query, keys, values = heads("0, 2, 1, 3"), heads("0, 2, 3, 1"), heads("0, 2, 1, 3")
    scores = p.let(f"nn.softmax(add(multiply({product(query, keys)}, 0.125f), %mask), axis=3)")
    mixed = product(p.let(f"reshape({scores}, newshape=[-3, -2])"), values)
    joined = p.let(f"reshape(transpose({mixed}, axes=[0, 2, 1, 3]), newshape=[0, 0, -1])")
    x = normalised(p.let(f"add({linear(joined, features, features)}, %x)"))
    wide = linear(x, features, inner)
    active = p.let(f"multiply(multiply({wide}, add(erf(divide({wide}, 1.4142135f)), 1f)), 0.5f)")
    return p.compiled(normalised(p.let(f"add({linear(active, inner, features)}, {x})")))


def usual_networks() -> Iterator[Executable]:
    """The programs, compiled one by one."""
    for batch in ("?n", "1"):
        for input_first in (False, True) if batch == "?n" else (False,):  # sums have one text for any number of images
            yield residual_network(4, batch, input_first)
            yield residual_network(1, batch, input_first)
        yield inverted_residuals(batch)
    yield encoder()
