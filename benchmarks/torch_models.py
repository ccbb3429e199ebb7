"""The models of ``models.py`` in torch, with the weights of the ONNX model: eager, and the encoder compiled by torch.compile.

The encoder is written with torch's own fused attention; a network has one call of torch for each node.  torch.compile has unknown
sizes (``dynamic=True``) and constant weights (``freezing``), which it packs.  It does not compile the networks so: torch 2.14
ends with an AssertionError.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx

#: A function of the model's input.
Run = Callable[[np.ndarray], np.ndarray]
EAGER, COMPILED = "torch", "torch.compile"


def torch_runs(model: bytes, heads: int | None, threads: int) -> dict[str, Run]:
    """The model in torch; ``heads``: those of attention for the encoder, None for a network.

    Empty if torch is not installed.
    """
    try:
        import torch
        from torch._inductor import config
    except ModuleNotFoundError:
        return {}
    torch.set_num_threads(threads)
    config.freezing = True
    graph = onnx.load_from_string(model).graph

    def run(function: Any) -> Run:
        def call(x: np.ndarray) -> np.ndarray:
            with torch.no_grad():
                found: np.ndarray = function(torch.from_numpy(x)).numpy()
            return found

        return call

    module = torch_module(torch, graph, heads)
    if heads is None:
        return {EAGER: run(module)}
    return {EAGER: run(module), COMPILED: run(torch.compile(module, dynamic=True))}


def torch_module(torch: Any, graph: onnx.GraphProto, heads: int | None) -> Any:
    """The module of the model, for inference; ``heads`` as above."""
    return (_network(torch, graph) if heads is None else _encoder(torch, graph, heads)).eval()


def _tensors(torch: Any, graph: onnx.GraphProto) -> dict[str, Any]:
    return {w.name: torch.from_numpy(onnx.numpy_helper.to_array(w).copy()) for w in graph.initializer}


def _encoder(torch: Any, graph: onnx.GraphProto, heads: int) -> Any:
    """The encoder; its weights are taken in the order in which ``models.encoder`` makes them."""
    f = torch.nn.functional
    weights = iter([w for w in _tensors(torch, graph).values() if w.dtype == torch.float32 and w.ndim])

    def linear() -> Any:
        kernel, bias = next(weights), next(weights)
        made = torch.nn.Linear(*kernel.shape)
        made.weight.data, made.bias.data = kernel.T.contiguous(), bias
        return made

    def norm() -> Any:
        scale, shift = next(weights), next(weights)
        made = torch.nn.LayerNorm(scale.shape[0])
        made.weight.data, made.bias.data = scale, shift
        return made

    class Layer(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.query, self.key, self.value, self.out = linear(), linear(), linear(), linear()
            self.before, self.wide, self.narrow, self.after = norm(), linear(), linear(), norm()

        def forward(self, x: Any) -> Any:
            parts = [
                project(x).view(x.shape[0], -1, heads, x.shape[2] // heads).transpose(1, 2) for project in self.projections()
            ]
            mixed = f.scaled_dot_product_attention(*parts).transpose(1, 2).reshape(x.shape)
            x = self.before(x + self.out(mixed))
            return self.after(x + self.narrow(f.gelu(self.wide(x))))

        def projections(self) -> tuple[Any, Any, Any]:
            return self.query, self.key, self.value

    class Encoder(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.positions = torch.nn.Parameter(next(weights)), torch.nn.Parameter(next(weights))
            self.norm = norm()
            count = sum(node.op_type == "Softmax" for node in graph.node)
            self.layers = torch.nn.ModuleList(Layer() for _ in range(count))

        def forward(self, numbers: Any) -> Any:
            x = self.norm(self.words[numbers] + self.positions[: numbers.shape[1]])
            for layer in self.layers:
                x = layer(x)
            return x

    made = Encoder()
    assert next(weights, None) is None
    return made


def _network(torch: Any, graph: onnx.GraphProto) -> Any:
    """A network of convolutions: a call for each node."""
    f = torch.nn.functional

    def convolution(x: Any, w: Any, b: Any, strides: Any, pads: Any, group: int) -> Any:
        before, after = pads[:2], pads[2:]
        assert before == after
        return f.conv2d(x, w, b, strides, before, groups=group)

    calls: dict[str, Callable[..., Any]] = {
        "Conv": convolution,
        "Relu": f.relu,
        "Add": torch.add,
        "Clip": lambda x, low, high: f.relu6(x),
        "MaxPool": lambda x, kernel_shape, strides, pads: f.max_pool2d(x, kernel_shape, strides, pads[:2]),
        "GlobalAveragePool": lambda x: x.mean((2, 3), keepdim=True),
        "Flatten": lambda x, axis: torch.flatten(x, axis),
        "Gemm": lambda x, w, b: torch.addmm(b, x, w),
    }
    nodes = [
        (calls[n.op_type], list(n.input), n.output[0], {a.name: onnx.helper.get_attribute_value(a) for a in n.attribute})
        for n in graph.node
    ]

    class Network(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.weights = torch.nn.ParameterDict(_tensors(torch, graph))

        def forward(self, x: Any) -> Any:
            values = {"x": x}
            for call, inputs, output, attributes in nodes:
                given = [values[name] if name in values else self.weights[name] for name in inputs]
                values[output] = call(*given, **attributes)
            return values[graph.output[0].name]

    return Network()
