"""Steps of decoders with random weights, as exporters write them: for benchmarks and the tests of ``relay.generation``.

``shared``  the form of onnxruntime-genai: GroupQueryAttention, whose caches may be buffers that are longer than the texts
``joined``  the form of optimum: the past and the new keys and values are concatenated; the mask and positions are inputs
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper


@dataclass(frozen=True)
class Sizes:
    """The sizes of a decoder; ``shared``: the heads of keys and values; ``most``: the positions that it has angles for."""

    layers: int = 6
    width: int = 512
    heads: int = 8
    shared: int = 4
    tokens: int = 4096
    inner: int = 1408
    most: int = 2048
    dtype: str = "float32"

    @property
    def size(self) -> int:
        """Elements of a head."""
        return self.width // self.heads


class _Graph:
    """The nodes and weights of a model under construction."""

    def __init__(self, sizes: Sizes, seed: int) -> None:
        self.sizes, self.rng = sizes, np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.stored: list[Any] = []
        self.count = 0

    def stored_as(self, value: np.ndarray) -> str:
        self.count += 1
        self.stored.append(numpy_helper.from_array(np.ascontiguousarray(value), f"w{self.count}"))
        return f"w{self.count}"

    def weight(self, *shape: int, scale: float | None = None) -> str:
        scale = shape[0] ** -0.5 if scale is None else scale
        return self.stored_as((self.rng.standard_normal(shape) * scale).astype(self.sizes.dtype))

    def ints(self, *values: int) -> str:
        return self.stored_as(np.array(values, np.int64))

    def __call__(self, op: str, *inputs: str, results: int | list[str] = 1, domain: str = "", **attributes: Any) -> Any:
        self.count += 1
        names = results if isinstance(results, list) else [f"{op}{self.count}_{k}" for k in range(results)]
        self.nodes.append(helper.make_node(op, list(inputs), names, domain=domain, **attributes))
        return names[0] if len(names) == 1 else names

    def normalised(self, x: str) -> str:
        """A norm by the root mean square."""
        scale = self.stored_as(np.ones(self.sizes.width, self.sizes.dtype))
        found: str = self("SimplifiedLayerNormalization", x, scale, axis=-1, epsilon=1e-6)
        return found

    def gated(self, x: str) -> str:
        """The layer after attention."""
        s = self.sizes
        gate, up = (self("MatMul", x, self.weight(s.width, s.inner)) for _ in range(2))
        inner = self("Mul", self("Mul", gate, self("Sigmoid", gate)), up)
        found: str = self("MatMul", inner, self.weight(s.inner, s.width, scale=s.inner**-0.5 / 2))
        return found


def decoder(form: str = "shared", sizes: Sizes | None = None, seed: int = 0) -> Any:
    """A ModelProto; ``form``: "shared" or "joined"."""
    s = sizes or Sizes()
    g = _Graph(s, seed)
    attend = _Shared(g) if form == "shared" else _Joined(g)
    x = g("Gather", g.weight(s.tokens, s.width, scale=1.0), "input_ids")
    for layer in range(s.layers):
        x = g("Add", x, g("MatMul", attend(layer, g.normalised(x)), g.weight(s.width, s.width, scale=s.width**-0.5 / 2)))
        x = g("Add", x, g.gated(g.normalised(x)))
    g("MatMul", g.normalised(x), g.weight(s.width, s.tokens), results=["logits"])
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(s.dtype))

    def info(name: str, of: int, *shape: Any) -> Any:
        return helper.make_tensor_value_info(name, of, shape)

    inputs = [info("input_ids", TensorProto.INT64, "batch", "count"), info("attention_mask", TensorProto.INT64, "batch", "total")]
    if form == "joined":
        inputs.append(info("position_ids", TensorProto.INT64, "batch", "count"))
    outputs = [info("logits", kind, "batch", "count", s.tokens)]
    for layer in range(s.layers):
        for part in ("key", "value"):
            inputs.append(info(f"past_key_values.{layer}.{part}", kind, "batch", s.shared, "past", s.size))
            outputs.append(info(f"present.{layer}.{part}", kind, "batch", s.shared, "all", s.size))
    graph = helper.make_graph(g.nodes, "step", inputs, outputs, g.stored)
    versions = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=versions, ir_version=9)


def _angles(s: Sizes) -> tuple[np.ndarray, np.ndarray]:
    turns = np.outer(np.arange(s.most), 10000.0 ** -(np.arange(s.size // 2) / (s.size // 2)))
    return np.cos(turns), np.sin(turns)


class _Shared:
    """Attention by GroupQueryAttention."""

    def __init__(self, g: _Graph) -> None:
        self.g = g
        self.tables = [g.stored_as(x.astype(g.sizes.dtype)) for x in _angles(g.sizes)]
        lengths = g("Sub", g("ReduceSum", "attention_mask", g.ints(1), keepdims=0), g.ints(1))
        self.last = g("Cast", lengths, to=TensorProto.INT32)
        total = g("Gather", g("Shape", "attention_mask"), g.stored_as(np.array(1, np.int64)))
        self.total = g("Cast", total, to=TensorProto.INT32)

    def __call__(self, layer: int, x: str) -> str:
        g, s = self.g, self.g.sizes
        rows = g("MatMul", x, g.weight(s.width, (s.heads + 2 * s.shared) * s.size))
        past = [f"past_key_values.{layer}.{part}" for part in ("key", "value")]
        results = [f"attended{layer}", *(f"present.{layer}.{part}" for part in ("key", "value"))]
        g(
            "GroupQueryAttention", rows, "", "", *past, self.last, self.total, *self.tables,
            results=results, domain="com.microsoft", num_heads=s.heads, kv_num_heads=s.shared, do_rotary=1,
        )  # fmt: skip
        return results[0]


class _Joined:
    """Attention by concatenations, products and a mask that is added; heads of keys and values are repeated."""

    def __init__(self, g: _Graph) -> None:
        self.g, s = g, g.sizes
        tables = [g.stored_as(np.concatenate([x, x], 1).astype(s.dtype)) for x in _angles(s)]
        self.turns = [g("Unsqueeze", g("Gather", t, "position_ids"), g.ints(1)) for t in tables]
        # a column is hidden that the mask hides, or that is after the position of the query
        first, zero = (g.stored_as(np.array(k, np.int64)) for k in (1, 0))
        total, count = (g("Gather", g("Shape", name), first) for name in ("attention_mask", "input_ids"))
        one = g.stored_as(np.array(1, np.int64))
        keys = g("Range", zero, total, one)
        queries = g("Unsqueeze", g("Range", g("Sub", total, count), total, one), g.ints(1))
        causal = g("Greater", keys, queries)
        hidden = g("Unsqueeze", g("Equal", "attention_mask", zero), g.ints(1, 2))
        least, none = (g.stored_as(np.array(v, s.dtype)) for v in (np.finfo(s.dtype).min / 2, 0))
        self.mask = g("Where", g("Or", causal, hidden), least, none)

    def rotated(self, x: str) -> str:
        """The heads ``[batch, heads, positions, size]``, rotated_half by their positions."""
        g = self.g
        first, second = g("Split", x, results=2, axis=3, num_outputs=2)
        rotated_half = g("Concat", g("Neg", second), first, axis=3)
        found: str = g("Add", g("Mul", x, self.turns[0]), g("Mul", rotated_half, self.turns[1]))
        return found

    def by_heads(self, x: str, heads: int) -> str:
        g = self.g
        rows = g("Reshape", g("MatMul", x, g.weight(g.sizes.width, heads * g.sizes.size)), g.ints(0, 0, heads, g.sizes.size))
        found: str = g("Transpose", rows, perm=[0, 2, 1, 3])
        return found

    def repeated(self, x: str) -> str:
        """Each head of keys or values for its group of heads."""
        g, s = self.g, self.g.sizes
        if s.heads == s.shared:
            return x
        wide = g("Expand", g("Unsqueeze", x, g.ints(2)), g.ints(1, 1, s.heads // s.shared, 1, 1))
        found: str = g("Reshape", wide, g.ints(0, s.heads, -1, s.size))
        return found

    def softmax(self, scores: str) -> str:
        """The softmax in float32, as transformers computes it."""
        g, kind = self.g, helper.np_dtype_to_tensor_dtype(np.dtype(self.g.sizes.dtype))
        if kind == TensorProto.FLOAT:
            whole: str = g("Softmax", scores, axis=-1)
            return whole
        rounded: str = g("Cast", g("Softmax", g("Cast", scores, to=TensorProto.FLOAT), axis=-1), to=kind)
        return rounded

    def __call__(self, layer: int, x: str) -> str:
        g, s = self.g, self.g.sizes
        q, k = self.rotated(self.by_heads(x, s.heads)), self.rotated(self.by_heads(x, s.shared))
        v = self.by_heads(x, s.shared)
        past = [f"past_key_values.{layer}.{part}" for part in ("key", "value")]
        keys, values = (
            g("Concat", before, new, axis=2, results=[f"present.{layer}.{part}"])
            for before, new, part in zip(past, (k, v), ("key", "value"), strict=True)
        )
        scores = g("MatMul", q, g("Transpose", self.repeated(keys), perm=[0, 1, 3, 2]))
        scaled = g("Mul", scores, g.stored_as(np.array(s.size**-0.5, s.dtype)))
        weights_of_keys = self.softmax(g("Add", scaled, self.mask))
        found = g("Transpose", g("MatMul", weights_of_keys, self.repeated(values)), perm=[0, 2, 1, 3])
        joined: str = g("Reshape", found, g.ints(0, 0, s.width))
        return joined
