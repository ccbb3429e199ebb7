"""Layers with quantised weights, packed texts and channels that are last, beside onnxruntime where it has them on CPUs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import relayvm as relay

RNG = np.random.default_rng(17)
B, S, WIDTH, HEADS = 2, 5, 16, 2


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


def numbers(dtype: str, *shape: int) -> np.ndarray:
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max + 1, shape).astype(dtype)


def model(op: str, given: dict[str, np.ndarray], order: str, outputs: int, stored: str, attributes: dict[str, Any]) -> Any:
    """A model of one node; ``stored``: the names of tensors that are in the model, those of other inputs are open in rows."""
    kept = [n for n in given if n in stored.split(",")]
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), [*[None] * (a.ndim - 1), *a.shape[-1:]])
        for n, a in given.items()
        if n not in kept
    ]
    node = helper.make_node(op, order.split(","), [f"o{k}" for k in range(outputs)], "node", domain="com.microsoft", **attributes)
    tensors = [onnx.numpy_helper.from_array(given[n], n) for n in kept]
    graph = helper.make_graph([node], "g", infos, [onnx.ValueInfoProto(name=o) for o in node.output], tensors)
    versions = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=versions, ir_version=9), {n: a for n, a in given.items() if n not in kept}


def run(
    op: str, given: dict[str, np.ndarray], order: str, outputs: int = 1, stored: str = "", **attributes: Any
) -> list[np.ndarray]:
    made, inputs = model(op, given, order, outputs, stored, attributes)
    return [np.asarray(x) for x in relay.frontend.OnnxBackend.run_model(made, list(inputs.values()))]


def check(
    op: str, given: dict[str, np.ndarray], order: str, outputs: int = 1, stored: str = "", near: float = 2e-5, **attributes: Any
) -> None:
    """Results of the machine and of onnxruntime."""
    ort = pytest.importorskip("onnxruntime")
    made, inputs = model(op, given, order, outputs, stored, attributes)
    inputs = {n: np.asarray(a) for n, a in inputs.items()}
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    wanted = session.run(None, inputs)
    for have, want in zip(run(op, given, order, outputs, stored, **attributes), wanted, strict=True):
        assert have.dtype == want.dtype and have.shape == want.shape
        np.testing.assert_allclose(have, want, rtol=near, atol=near)


# ---- QAttention, QEmbedLayerNormalization --------------------------------------------------------------------------------


def quantised_attention(weights: str) -> dict[str, np.ndarray]:
    """Operands; signed weights of 7 bits: onnxruntime's sums of others saturate on processors without VNNI."""
    weight = numbers(weights, WIDTH, 3 * WIDTH) // (2 if weights == "int8" else 1)
    return {
        "x": numbers("uint8", B, S, WIDTH), "w": weight, "b": floats(3 * WIDTH),
        "sx": np.float32(0.02), "sw": np.float32(0.01), "zx": np.uint8(120), "zw": np.array(3, weights),
    }  # fmt: skip


def test_attention_of_bytes() -> None:
    """A mask, a scale and a filter of its own."""
    given = quantised_attention("int8") | {"m": np.array([[1] * S, [1, 1, 0, 0, 0]], "int32")}
    check("QAttention", given, "x,w,b,sx,sw,m,zx,zw", stored="w,zx,zw", num_heads=HEADS, scale=0.3, mask_filter_value=-50.0)


@pytest.mark.extensive
def test_attention_of_bytes_with_a_past() -> None:
    given = quantised_attention("uint8") | {"p": floats(2, B, HEADS, 3, WIDTH // HEADS)}
    given["zw"] = np.uint8(131)
    check("QAttention", given, "x,w,b,sx,sw,,zx,zw,p", 2, "w,zx,zw", num_heads=HEADS, unidirectional=1)
    by_column = quantised_attention("int8") | {"sw": np.abs(floats(3 * WIDTH)) * 0.01, "zw": np.zeros(3 * WIDTH, "int8")}
    check("QAttention", by_column, "x,w,b,sx,sw,,zx,zw", stored="w,zx,zw,sw", num_heads=HEADS)


@pytest.mark.parametrize("has_segments", [True, False])
def test_embeddings_of_bytes(has_segments: bool) -> None:
    tables = {n: numbers("uint8", *shape) for n, shape in {"w": (9, 8), "p": (7, 8), "t": (2, 8), "g": (8,), "b": (8,)}.items()}
    scales = {f"s{n}": np.float32(0.01 * (k + 1)) for k, n in enumerate("wptgb")}
    zeros = {f"z{n}": np.uint8(100 + k) for k, n in enumerate("wptgb")}
    words, segments = RNG.integers(0, 9, (B, S)).astype("int32"), RNG.integers(0, 2, (B, S)).astype("int32")
    given = {"ids": words, "seg": segments, **tables, "m": np.array([[1] * S, [1, 1, 0, 0, 0]], "int32"), **scales, **zeros}
    order = "ids,seg,w,p,t,g,b,m,sw,sp,st,sg,sb,zw,zp,zt,zg,zb"
    if not has_segments:
        given = {n: a for n, a in given.items() if n not in ("seg", "t", "st", "zt")}
        order = "ids,,w,p,,g,b,m,sw,sp,,sg,sb,zw,zp,,zg,zb"
    check("QEmbedLayerNormalization", given, order, 2, stored=",".join([*tables, *scales, *zeros]), epsilon=1e-6)


# ---- QMoE --------------------------------------------------------------------------------------------------------------------

EXPERTS, INNER, OUTER = 3, 32, 64


def stored_layers(bits: int, block: int, double: bool = False) -> dict[str, np.ndarray]:
    """Weights, scales and biases of both layers, by rows or by blocks."""
    out: dict[str, np.ndarray] = {}
    for k, (rows, inner) in ((1, (INNER * (1 + double), OUTER)), (2, (OUTER, INNER))):
        out[f"w{k}"] = numbers("uint8", EXPERTS, rows, inner * bits // 8)
        blocks = (inner // block,) if block else ()
        out[f"s{k}"] = RNG.uniform(0.5, 1, (EXPERTS, rows, *blocks)).astype("f") * np.float32(2.0 ** (1 - bits) / 4)
        out[f"b{k}"] = floats(EXPERTS, rows)
    return out


@pytest.mark.parametrize(("bits", "block"), [(4, 0), (8, 0), (4, 32)])
@pytest.mark.extensive(bits=[4], block=[32])
def test_experts_of_few_bits(bits: int, block: int) -> None:
    layers = stored_layers(bits, block, double=True)
    given = {"x": floats(7, OUTER), "r": floats(7, EXPERTS), **layers}
    options: dict[str, Any] = {"block_size": block} if block else {}
    check(
        "QMoE", given, "x,r,w1,s1,b1,w2,s2,b2", stored=",".join(layers), near=1e-3, k=2, activation_type="swiglu",
        swiglu_fusion=1, normalize_routing_weights=1, expert_weight_bits=bits, activation_alpha=1.7, activation_beta=1.0,
        **options,
    )  # fmt: skip


@pytest.mark.extensive
def test_experts_with_zero_points_and_weights_apart() -> None:
    """By the definition: the router chooses, other weights mix; zero points of blocks are two in a byte."""
    layers = stored_layers(4, 16)
    zeros = {"z1": numbers("uint8", EXPERTS, INNER, OUTER // 32), "z2": numbers("uint8", EXPERTS, OUTER, INNER // 32)}
    given = {"x": floats(7, OUTER), "r": floats(7, EXPERTS), **layers, **zeros, "m": np.abs(floats(7, EXPERTS))}
    order = "x,r,w1,s1,b1,w2,s2,b2,,,,z1,z2,,m"
    stored = ",".join([*layers, *zeros])
    found = run("QMoE", given, order, stored=stored, k=1, activation_type="silu", expert_weight_bits=4, block_size=16)[0]

    def apart(x: np.ndarray) -> np.ndarray:
        return np.stack([x & 15, x >> 4], -1).reshape(*x.shape[:-1], -1).astype("f8")

    def layer(x: np.ndarray, k: int, expert: int) -> np.ndarray:
        whole = apart(given[f"w{k}"])[expert]
        scale, zero = (np.repeat(a, 16, -1) for a in (given[f"s{k}"][expert], apart(given[f"z{k}"])[expert]))
        return np.asarray(((whole - zero) * scale) @ x + given[f"b{k}"][expert])

    for row, routed, share, have in zip(given["x"], given["r"], given["m"], found, strict=True):
        expert = int(routed.argmax())
        hidden = layer(row, 1, expert)
        np.testing.assert_allclose(have, share[expert] * layer(hidden / (1 + np.exp(-hidden)), 2, expert), rtol=2e-4, atol=2e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"quant_type": "fp4"}, "quant_type is 'fp4'"),
        ({"weights_prepacked": 1}, "weights_prepacked is 1"),
        ({"expert_weight_bits": 3}, "weights of 3 bits are not supported"),
        ({"block_size": 24}, "block_size is 24, which is no power of 2"),
    ],
)
def test_experts_that_are_refused(options: dict[str, Any], message: str) -> None:
    layers = stored_layers(4, 16)
    given = {"x": floats(7, OUTER), "r": floats(7, EXPERTS), **layers}
    with pytest.raises(relay.RelayError, match=f"QMoE 'node': {message}"):
        run("QMoE", given, "x,r,w1,s1,b1,w2,s2,b2", stored=",".join(layers), **{"block_size": 16, **options})


# ---- packed texts, channels last: onnxruntime has kernels for GPUs only --------------------------------------------------


@pytest.mark.parametrize("is_packed", [False, True])
def test_packed_attention(is_packed: bool) -> None:
    """Texts of 4 and 2 words in columns of 5, each beside attention of that text alone; a bias for all texts."""
    lengths, size = [4, 2], WIDTH // HEADS
    rows, bias, added = floats(6, 3, HEADS, size), floats(3 * WIDTH), floats(1, HEADS, S, S)
    valid = [b * S + k for b, n in enumerate(lengths) for k in range(n)]
    offsets = np.array([*valid, *(k for k in range(B * S) if k not in valid)], "int32").reshape(B, S)
    ends = np.cumsum([0, *lengths]).astype("int32")
    if is_packed:
        given, order, parts = {"x": np.ascontiguousarray(rows.transpose(0, 2, 1, 3))}, "x,,,,o,e,a", rows
    else:
        parts = rows + bias.reshape(3, HEADS, size)
        given = {n: np.ascontiguousarray(rows[:, k].reshape(6, -1)) for k, n in enumerate("qkv")} | {"b": bias}
        order = "q,k,v,b,o,e,a"
    given |= {"o": offsets, "e": ends, "a": added}
    found = run("PackedMultiHeadAttention", given, order, num_heads=HEADS, scale=0.4)[0]
    for begin, n in zip(ends, lengths, strict=False):
        q, k, v = parts[begin : begin + n].transpose(1, 2, 0, 3)
        powers = np.exp(0.4 * q @ k.swapaxes(1, 2) + added[0, :, :n, :n])
        want = (powers / powers.sum(-1, keepdims=True)) @ v
        np.testing.assert_allclose(found[begin : begin + n], want.transpose(1, 0, 2).reshape(n, -1), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("group", [1, 2])
def test_convolution_with_channels_last(group: int) -> None:
    x, w, bias = floats(B, 7, 6, 4), floats(6, 4 // group, 3, 2), floats(6)
    options = {"pads": [1, 0, 1, 1], "strides": [2, 1], "group": group}
    found = run("NhwcConv", {"x": x, "w": w, "b": bias}, "x,w,b", stored="w", **options)[0]
    padded = np.pad(x, [(0, 0), (1, 1), (0, 1), (0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 2), (1, 2))[:, ::2]
    parts = zip(np.split(windows, group, 3), np.split(w, group), strict=True)
    want = np.concatenate([np.einsum("nhwcij,ocij->nhwo", a, b) for a, b in parts], 3) + bias
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)
    given = {"x": x, "w": np.ascontiguousarray(w.transpose(0, 2, 3, 1)), "b": bias}
    last = run("NhwcConv", given, "x,w,b", stored="w", **options)[0]
    assert math.isclose(float(np.abs(last - found).max()), 0, abs_tol=1e-6)
