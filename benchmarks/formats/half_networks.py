"""Networks of float32 as ONNX graphs, and the same graphs in float16 and bfloat16."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import onnx
from convolutions import mobilenet_v2
from encoder import encoder
from onnx_graph import Graph
from vision_networks import resnet18

from .case import HALVES, Case, halves_of, unit

#: Sizes of a decoder like Llama's: layers, features, heads of queries, heads of keys, inner features, words, words before.
LAYERS, FEATURES, HEADS, KEY_HEADS, INNER, WORDS, CONTEXT = 6, 512, 8, 2, 1536, 8000, 512
_WIDTH = FEATURES // HEADS
#: The most that results differ, in roundings of the largest, and the most time that halves take, in times of float32's.
ERROR, GOAL = 60, 1.1


def _rms_norm(g: Graph, x: str) -> str:
    mean = g.node("ReduceMean", g.node("Mul", x, x), g.weight(np.array([-1])), keepdims=1)
    root = g.node("Sqrt", g.node("Add", mean, g.weight(np.float32(1e-5))))
    return g.node("Mul", g.node("Div", x, root), g.weight(np.ones(FEATURES, np.float32)))


def _by_heads(g: Graph, x: str, heads: int) -> str:
    return g.node("Transpose", g.node("Reshape", x, g.weight(np.array([1, -1, heads, _WIDTH]))), perm=[0, 2, 1, 3])


def _shared(g: Graph, x: str) -> str:
    """Keys or values, each for the heads of queries that share it."""
    shape = g.weight(np.array([1, KEY_HEADS, HEADS // KEY_HEADS, 1, 1]))
    wide = g.node("Mul", g.node("Unsqueeze", x, g.weight(np.array([2]))), g.node("ConstantOfShape", shape, value=_ONE))
    return g.node("Reshape", wide, g.weight(np.array([1, HEADS, -1, _WIDTH])))


_ONE = onnx.helper.make_tensor("one", onnx.TensorProto.FLOAT, [1], [1.0])


def decoder() -> bytes:
    """One step of a decoder: a word and the caches to the scores of the next word and the caches with a row more."""
    g, caches, grown = Graph(), [], []
    x = g.node("Gather", g.parameters(WORDS, FEATURES), "x")
    for layer in range(LAYERS):
        h = _rms_norm(g, x)
        query = _by_heads(g, g.node("MatMul", h, g.parameters(FEATURES, FEATURES)), HEADS)
        parts = []
        for part in ("k", "v"):
            new = _by_heads(g, g.node("MatMul", h, g.parameters(FEATURES, KEY_HEADS * _WIDTH)), KEY_HEADS)
            caches.append(f"{part}{layer}")
            grown.append(g.node("Concat", caches[-1], new, axis=2))
            parts.append(_shared(g, grown[-1]))
        scores = g.node("MatMul", query, g.node("Transpose", parts[0], perm=[0, 1, 3, 2]))
        chances = g.node("Softmax", g.node("Mul", scores, g.weight(np.float32(1 / math.sqrt(_WIDTH)))), axis=-1)
        found = g.node("Transpose", g.node("MatMul", chances, parts[1]), perm=[0, 2, 1, 3])
        joined = g.node("Reshape", found, g.weight(np.array([1, -1, FEATURES])))
        x = g.node("Add", x, g.node("MatMul", joined, g.parameters(FEATURES, FEATURES)))
        h = _rms_norm(g, x)
        gate = g.node("MatMul", h, g.parameters(FEATURES, INNER))
        gated = g.node("Mul", g.node("Mul", gate, g.node("Sigmoid", gate)), g.node("MatMul", h, g.parameters(FEATURES, INNER)))
        x = g.node("Add", x, g.node("MatMul", gated, g.parameters(INNER, FEATURES)))
    scores = g.node("MatMul", _rms_norm(g, x), g.parameters(FEATURES, WORDS))

    def info(name: str, kind: int, shape: list[int | str] | None) -> onnx.ValueInfoProto:
        return onnx.helper.make_tensor_value_info(name, kind, shape)

    cache = [info(name, onnx.TensorProto.FLOAT, [1, KEY_HEADS, "before", _WIDTH]) for name in caches]
    results = [info(name, onnx.TensorProto.FLOAT, None) for name in (scores, *grown)]
    graph = onnx.helper.make_graph(g.nodes, "g", [info("x", onnx.TensorProto.INT64, [1, 1]), *cache], results, g.weights)
    opset = onnx.helper.make_opsetid("", 20)
    made: bytes = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=9).SerializeToString()
    return made


def _image(random: np.random.Generator) -> list[np.ndarray]:
    return [random.standard_normal((1, 3, 224, 224)).astype(np.float32)]


def _words(count: int) -> list[np.ndarray]:
    return [np.random.default_rng(1).integers(0, 1000, (1, count))]


def _step(random: np.random.Generator) -> list[np.ndarray]:
    caches = [random.standard_normal((1, KEY_HEADS, CONTEXT, _WIDTH)).astype(np.float32) for _ in range(2 * LAYERS)]
    return [np.array([[7]]), *caches]


#: The networks by name: the graph, and a function of random numbers that makes the arguments.
NETWORKS = {
    "ResNet-18": (resnet18, _image),
    "MobileNetV2": (mobilenet_v2, _image),
    **{f"encoder, {n} words": (encoder, lambda random, n=n: _words(n)) for n in (7, 33, 128)},
    f"decoder, step after {CONTEXT}": (decoder, _step),
}


def of_halves(model: bytes, dtype: str) -> bytes:
    """A model whose floats, given and computed, are all float16 or bfloat16."""
    made, kind = onnx.load_from_string(model), {"float16": onnx.TensorProto.FLOAT16, "bfloat16": onnx.TensorProto.BFLOAT16}[dtype]

    def narrow(tensor: onnx.TensorProto) -> None:
        if tensor.data_type == onnx.TensorProto.FLOAT:
            array = onnx.numpy_helper.to_array(tensor)
            tensor.CopyFrom(onnx.helper.make_tensor(tensor.name, kind, array.shape, halves_of(array, dtype).tobytes(), raw=True))

    for tensor in made.graph.initializer:
        narrow(tensor)
    for node in made.graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                narrow(attribute.t)
            elif node.op_type == "Cast" and attribute.name == "to" and attribute.i == onnx.TensorProto.FLOAT:
                attribute.i = kind
    for value in (*made.graph.input, *made.graph.output):
        if value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
            value.type.tensor_type.elem_type = kind
    result: bytes = made.SerializeToString()
    return result


def networks(rows: Sequence[int]) -> Iterator[Case]:
    """Each network in both formats; onnxruntime runs float16.  ``rows`` is not read."""
    for name, (build, arguments_of) in NETWORKS.items():
        real, arguments = build(), arguments_of(np.random.default_rng(2))
        names = [given.name for given in onnx.load_from_string(real).graph.input]
        real_inputs = dict(zip(names, arguments, strict=True))
        for dtype in HALVES:
            inputs = {n: halves_of(x, dtype) if x.dtype == np.float32 else x for n, x in real_inputs.items()}
            is_run, error = dtype == "float16", ERROR * unit(dtype)
            yield Case(f"{name}, {dtype}", of_halves(real, dtype), real, inputs, real_inputs, error, own_goal=GOAL, peer=is_run)
