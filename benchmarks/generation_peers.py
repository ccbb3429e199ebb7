"""The peers of benchmarks/generation.py: the model of text_generation.relay in onnxruntime and in torch, with caches."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from text_generation import HEADS, LAYERS, STOP, as_tokens

Weights = dict[str, np.ndarray]
WIDTH = 128
SLOPES = 4.0 ** -(np.arange(HEADS, dtype=np.float32) + 1).reshape(1, HEADS, 1, 1)
SCALE = (WIDTH // HEADS) ** -0.5


def started(prompt: str) -> list[int]:
    """The tokens of a prompt, after the one that begins a text."""
    return [STOP, *as_tokens([prompt])[0][0].tolist()]


# ---- onnxruntime ---------------------------------------------------------------------------------------------------------


def one_step(weights: Weights) -> Any:
    """A model: a token and the caches to the next token and the caches with a row more."""
    from onnx import TensorProto, helper, numpy_helper

    nodes: list[Any] = []
    constants = {"slopes": SLOPES, "scale": np.float32(SCALE), "one": np.int64(1), "zero": np.int64(0)}
    constants |= {"heads": np.array([1, HEADS, 1, WIDTH // HEADS]), "flat": np.array([1, WIDTH]), "all": np.array([2])}
    for name, value in weights.items():
        constants[name] = np.ascontiguousarray(value.T) if name[0] == "w" else value
    constants["head"] = np.ascontiguousarray(weights["meanings"].T)

    def node(kind: str, inputs: str, outputs: str, **attrs: Any) -> None:
        nodes.append(helper.make_node(kind, inputs.split(), outputs.split(), **attrs))

    node("Shape", "k0", "sizes", start=2, end=3)
    node("Squeeze", "sizes", "n")
    node("Add", "n one", "length")
    node("Range", "zero length one", "positions")
    node("Sub", "positions n", "back_int")
    node("Cast", "back_int", "back", to=TensorProto.FLOAT)
    node("Mul", "back slopes", "bias")
    node("Gather", "meanings token", "x0")
    for n in range(LAYERS):
        node("LayerNormalization", f"x{n} g1_{n} c1_{n}", f"h{n}", axis=-1, epsilon=1e-5)
        node("MatMul", f"h{n} wqkv_{n}", f"p{n}")
        node("Add", f"p{n} bqkv_{n}", f"qkv{n}")
        node("Split", f"qkv{n}", f"q_{n} k_{n} v_{n}", axis=1, num_outputs=3)
        for part in "qkv":
            node("Reshape", f"{part}_{n} heads", f"{part}h{n}")
        for part in "kv":
            node("Concat", f"{part}{n} {part}h{n}", f"new_{part}{n}", axis=2)
        node("Transpose", f"new_k{n}", f"kt{n}", perm=[0, 1, 3, 2])
        node("MatMul", f"qh{n} kt{n}", f"products{n}")
        node("Mul", f"products{n} scale", f"scaled{n}")
        node("Add", f"scaled{n} bias", f"scores{n}")
        node("Softmax", f"scores{n}", f"chances{n}", axis=-1)
        node("MatMul", f"chances{n} new_v{n}", f"found{n}")
        node("Reshape", f"found{n} flat", f"joined{n}")
        node("MatMul", f"joined{n} wo_{n}", f"o{n}")
        node("Add", f"o{n} bo_{n}", f"ob{n}")
        node("Add", f"x{n} ob{n}", f"y{n}")
        node("LayerNormalization", f"y{n} g2_{n} c2_{n}", f"z{n}", axis=-1, epsilon=1e-5)
        node("MatMul", f"z{n} w1_{n}", f"a{n}")
        node("Add", f"a{n} b1_{n}", f"ab{n}")
        node("Gelu", f"ab{n}", f"gelu{n}")
        node("MatMul", f"gelu{n} w2_{n}", f"e{n}")
        node("Add", f"e{n} b2_{n}", f"eb{n}")
        node("Add", f"y{n} eb{n}", f"x{n + 1}")
    node("LayerNormalization", f"x{LAYERS} g c", "last", axis=-1, epsilon=1e-5)
    node("MatMul", "last head", "logits")
    node("ArgMax", "logits", "next", axis=1, keepdims=0)
    caches = [f"{part}{n}" for n in range(LAYERS) for part in "kv"]

    def info(name: str, kind: int, shape: list[Any]) -> Any:
        return helper.make_tensor_value_info(name, kind, shape)

    def cache(name: str, size: str) -> Any:
        return info(name, TensorProto.FLOAT, [1, HEADS, size, WIDTH // HEADS])

    graph = helper.make_graph(
        nodes,
        "step",
        [info("token", TensorProto.INT64, [1]), *(cache(name, "n") for name in caches)],
        [info("next", TensorProto.INT64, [1]), *(cache(f"new_{name}", "more") for name in caches)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


class OnnxPeer:
    """A session of one step; the caches stay values of onnxruntime."""

    def __init__(self, ort: Any, weights: Weights) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        model = one_step(weights).SerializeToString()
        self.session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self.value = ort.OrtValue.ortvalue_from_numpy
        self.names = [f"{part}{n}" for n in range(LAYERS) for part in "kv"]
        self.results = ["next", *(f"new_{name}" for name in self.names)]

    def seconds(self, prompt: str, count: int) -> tuple[float, list[int]]:
        """Seconds for ``count`` tokens after the first one, and the tokens."""
        empty = np.zeros((1, HEADS, 0, WIDTH // HEADS), np.float32)
        caches = [self.value(empty) for _ in self.names]
        for token in started(prompt):
            following, *caches = self.step(self.value(np.array([token])), caches)
        tokens, began = [int(following.numpy()[0])], time.perf_counter()
        for _ in range(count):
            following, *caches = self.step(following, caches)
            tokens.append(int(following.numpy()[0]))
        return time.perf_counter() - began, tokens

    def step(self, token: Any, caches: list[Any]) -> list[Any]:
        """The next token and the caches."""
        given = {"token": token, **dict(zip(self.names, caches, strict=True))}
        values: list[Any] = self.session.run_with_ort_values(self.results, given)
        return values


# ---- torch ---------------------------------------------------------------------------------------------------------------


class TorchPeer:
    """Eager mode; the caches have room for all tokens."""

    def __init__(self, torch: Any, weights: Weights, device: str = "cpu") -> None:
        torch.set_num_threads(1)
        self.torch, self.f, self.device = torch, torch.nn.functional, device
        self.w = {name: torch.from_numpy(value).to(device) for name, value in weights.items()}
        self.slopes = torch.from_numpy(SLOPES).to(device)

    def seconds(self, prompt: str, count: int) -> tuple[float, list[int]]:
        """Seconds for ``count`` tokens after the first one, and the tokens."""
        with self.torch.inference_mode():
            given = started(prompt)
            cache_shape = (2, LAYERS, 1, HEADS, len(given) + count, WIDTH // HEADS)
            caches = self.torch.zeros(cache_shape, device=self.device)
            for n, token in enumerate(given):
                following = self.step(token, n, caches)
            tokens, began = [following], time.perf_counter()
            for n in range(len(given), len(given) + count):
                tokens.append(self.step(tokens[-1], n, caches))
            return time.perf_counter() - began, tokens

    def step(self, token: int, at: int, caches: Any) -> int:
        """The next token; the caches get a row."""
        f, w, torch = self.f, self.w, self.torch
        x = w["meanings"][token : token + 1]
        bias = self.slopes * torch.arange(-at, 1, dtype=torch.float32, device=self.device)
        for n in range(LAYERS):
            h = f.layer_norm(x, (WIDTH,), w[f"g1_{n}"], w[f"c1_{n}"])
            q, k, v = f.linear(h, w[f"wqkv_{n}"], w[f"bqkv_{n}"]).view(3, 1, HEADS, 1, -1)
            caches[0, n, :, :, at : at + 1], caches[1, n, :, :, at : at + 1] = k, v
            keys, values = caches[0, n, :, :, : at + 1], caches[1, n, :, :, : at + 1]
            found = f.scaled_dot_product_attention(q, keys, values, attn_mask=bias)
            x = x + f.linear(found.reshape(1, WIDTH), w[f"wo_{n}"], w[f"bo_{n}"])
            h = f.gelu(f.linear(f.layer_norm(x, (WIDTH,), w[f"g2_{n}"], w[f"c2_{n}"]), w[f"w1_{n}"], w[f"b1_{n}"]))
            x = x + f.linear(h, w[f"w2_{n}"], w[f"b2_{n}"])
        return int(f.linear(f.layer_norm(x, (WIDTH,), w["g"], w["c"]), w["meanings"]).argmax())
