"""GroupQueryAttention and RotaryEmbedding of com.microsoft, beside references in numpy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import relayvm as relay

HEADS, SHARED, SIZE = 4, 2, 16
#: The inputs of the operator, in order.
ORDER = ("q", "k", "v", "past_k", "past_v", "last", "total", "cos", "sin", "at", "bias", "sink", "ks", "vs", "qn", "kn", "counts")
#: The axes of inputs whose sizes are known at run time only.
OPEN = {"q": (0, 1), "k": (0, 1), "v": (0, 1), "past_k": (0, 2), "past_v": (0, 2), "at": (0, 1), "x": (0, 1)}
RNG = np.random.default_rng(7)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


def run(op: str, arrays: dict[str, np.ndarray], order: tuple[str, ...], results: int, attributes: dict[str, Any]) -> list[Any]:
    infos = []
    for name, array in arrays.items():
        shape = [f"{name}{k}" if k in OPEN.get(name, ()) else m for k, m in enumerate(array.shape)]
        infos.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), shape))
    inputs = [name if name in arrays else "" for name in order]
    outputs = [f"o{k}" for k in range(results)]
    node = helper.make_node(op, inputs, outputs, "node", domain="com.microsoft", **attributes)
    graph = helper.make_graph([node], "g", infos, [onnx.ValueInfoProto(name=o) for o in outputs])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)])
    return [np.asarray(x) for x in relay.frontend.OnnxBackend.run_model(model, list(arrays.values()))]


def angles(positions: int, count: int) -> dict[str, np.ndarray]:
    turns = np.outer(np.arange(positions), 1 / 100 ** (np.arange(count) / count))
    return {"cos": np.cos(turns).astype("float32"), "sin": np.sin(turns).astype("float32")}


def rotated(x: np.ndarray, at: np.ndarray, tables: dict[str, np.ndarray], interleaved: bool) -> np.ndarray:
    """``x``: [batch, heads, positions, size]; ``at``: [batch, positions].  Pairs are complex numbers."""
    count = tables["cos"].shape[1]
    turn = (tables["cos"] + 1j * tables["sin"])[at][:, None]
    out = x.astype("float64")
    first, second = (slice(0, 2 * count, 2), slice(1, 2 * count, 2)) if interleaved else (slice(count), slice(count, 2 * count))
    numbers = (out[..., first] + 1j * out[..., second]) * turn
    out[..., first], out[..., second] = numbers.real, numbers.imag
    return out


def attended(given: dict[str, np.ndarray], attributes: dict[str, Any]) -> tuple[np.ndarray, list[np.ndarray]]:
    """The result and the caches, text by text; rows that the standard leaves open are NaN."""
    rows = given["q"]
    parts = [rows, given.get("k"), given.get("v")]
    if "k" not in given:
        parts = np.split(rows, [HEADS * SIZE, (HEADS + SHARED) * SIZE], 2)
    q, k, v = (x.reshape(*x.shape[:2], -1, SIZE).transpose(0, 2, 1, 3).astype("float64") for x in parts)
    batch, _, count, _ = q.shape
    total, past = int(given["total"]), given.get("past_k", np.zeros((batch, SHARED, 0, SIZE))).shape[2]
    result = np.full((batch, HEADS, count, SIZE), np.nan)
    caches = [np.full((batch, SHARED, max(past, total), SIZE), np.nan) for _ in range(2)]
    for b in range(batch):
        whole = int(given["last"][b]) + 1
        before = 0 if count == total else whole - count
        at = before + np.arange(count)
        if attributes.get("do_rotary"):
            turns = given["at"][b : b + 1] if "at" in given else at[None]
            for x in (q, k):
                x[b : b + 1] = rotated(x[b : b + 1], turns, given, bool(attributes.get("rotary_interleaved")))
        for cache, name, new in zip(caches, ("past_k", "past_v"), (k, v), strict=True):
            if before:
                cache[b, :, :before] = given[name][b, :, :before]
            cache[b, :, before:whole] = new[b, :, : whole - before]
        for h in range(HEADS):
            for s in range(min(count, whole - before)):
                last = at[s] + 1 if attributes.get("causal", 1) else whole
                window = attributes.get("local_window_size", -1)
                first = max(0, last - window) if window >= 0 else 0
                keys, values = (c[b, h // (HEADS // SHARED), first:last] for c in caches)
                scores = keys @ q[b, h, s] * attributes.get("scale", 1 / math.sqrt(SIZE))
                if cap := attributes.get("softcap", 0.0):
                    scores = cap * np.tanh(scores / cap)
                if (bias := given.get("bias")) is not None:
                    scores = scores + bias[b % len(bias), h % bias.shape[1], s, first:last]
                powers = np.exp(scores)
                more = np.exp(given["sink"][h]) if "sink" in given else float(attributes.get("smooth_softmax", 0))
                result[b, h, s] = powers @ values / (powers.sum() + more)
    return result.transpose(0, 2, 1, 3).reshape(batch, count, -1), caches


def check(given: dict[str, np.ndarray], bound: float = 2e-6, **attributes: Any) -> None:
    want, caches = attended({n: a.astype("float32") if a.dtype == "float16" else a for n, a in given.items()}, attributes)
    found = run("GroupQueryAttention", given, ORDER, 3, {"num_heads": HEADS, "kv_num_heads": SHARED, **attributes})
    for have, wanted in zip(found, [want, *caches], strict=True):
        assert have.shape == wanted.shape and have.dtype == given["q"].dtype
        np.testing.assert_allclose(np.where(np.isnan(wanted), np.nan, have), wanted, rtol=bound, atol=bound)


def texts(
    batch: int, count: int, past: int | None, last: list[int], total: int, *, is_packed: bool = False
) -> dict[str, np.ndarray]:
    columns = HEADS + 2 * SHARED if is_packed else HEADS
    given = {"q": floats(batch, count, columns * SIZE)}
    if not is_packed:
        given |= {"k": floats(batch, count, SHARED * SIZE), "v": floats(batch, count, SHARED * SIZE)}
    if past is not None:
        given |= {"past_k": floats(batch, SHARED, past, SIZE), "past_v": floats(batch, SHARED, past, SIZE)}
    return given | {"last": np.array(last, "int32"), "total": np.array(total, "int32")}


def test_a_step_of_texts_of_different_lengths() -> None:
    """In a cache that grows, and in one that is longer than the texts."""
    for past in (7, 20):
        given = texts(2, 1, past, [7, 4], 8) | angles(32, 8)
        check(given, do_rotary=1)


def test_the_begin_of_texts() -> None:
    check(texts(2, 5, 0, [4, 2], 5, is_packed=True) | angles(32, 4), do_rotary=1, rotary_interleaved=1)


@pytest.mark.extensive
def test_forms_of_weights() -> None:
    check(texts(1, 4, 7, [10], 11) | {"sink": floats(HEADS)} | angles(32, 8), do_rotary=1, local_window_size=3)
    check(texts(2, 1, 7, [7, 6], 8) | {"bias": floats(1, HEADS, 1, 8)}, softcap=2.0, scale=0.3, smooth_softmax=1)
    check(texts(2, 3, None, [2, 1], 3), causal=0)
    check(texts(1, 2, 3, [4], 5) | angles(32, 8) | {"at": np.array([[9, 2]])}, do_rotary=1)


@pytest.mark.extensive
def test_halves() -> None:
    given = texts(2, 1, 7, [7, 5], 8) | angles(32, 8)
    check({n: a.astype("float16") if a.dtype == "float32" else a for n, a in given.items()}, 4e-3, do_rotary=1)


@pytest.mark.parametrize(
    ("given", "attributes", "message"),
    [
        ({}, {"kv_num_heads": 3}, "4 heads do not share the keys of 3 heads"),
        ({"k": None}, {}, "it has keys or values, not both"),
        ({"q": floats(2, 1, 30)}, {}, "rows of queries have 30 numbers"),
        ({}, {"do_rotary": 1}, "do_rotary is 1 and there is no cos_cache and sin_cache"),
        (angles(8, 9), {"do_rotary": 1}, "heads of 16 numbers have no 9 pairs to rotate"),
        ({}, {"kv_cache_bit_width": 8}, "the attribute kv_cache_bit_width is 8"),
        ({}, {"sliding_window_cache": 1}, "the attribute sliding_window_cache is 1"),
        ({"counts": np.array([1, 1], "int32")}, {}, "padded parts of texts, query_seqlens"),
    ],
)  # fmt: skip
def test_what_is_refused(given: dict[str, Any], attributes: dict[str, Any], message: str) -> None:
    arrays = {n: a for n, a in (texts(2, 1, 7, [7, 7], 8) | given).items() if a is not None}
    with pytest.raises(relay.RelayError, match=f"GroupQueryAttention 'node': {message}"):
        run("GroupQueryAttention", arrays, ORDER, 3, {"num_heads": HEADS, "kv_num_heads": SHARED, **attributes})


def test_rotary_embeddings() -> None:
    """By head and in rows, of a part of each head, with positions in order and given."""
    tables = angles(32, 3)
    rows, by_head = floats(2, 5, 24), floats(2, 3, 5, 8)
    order = ("x", "at", "cos", "sin")
    for interleaved in (0, 1):
        given = {"x": rows, "at": np.array([3]), **tables}
        (have,) = run("RotaryEmbedding", given, order, 1, {"interleaved": interleaved, "num_heads": 3, "rotary_embedding_dim": 6})
        split = rows.reshape(2, 5, 3, 8).transpose(0, 2, 1, 3)
        want = rotated(split, np.tile(np.arange(5) + 3, (2, 1)), tables, bool(interleaved))
        np.testing.assert_allclose(have, want.transpose(0, 2, 1, 3).reshape(2, 5, 24), rtol=2e-6, atol=2e-6)
    at = RNG.integers(0, 32, (2, 5))
    (have,) = run("RotaryEmbedding", {"x": by_head, "at": at, **tables}, order, 1, {})
    np.testing.assert_allclose(have, rotated(by_head, at, tables, False), rtol=2e-6, atol=2e-6)


def test_rotary_embeddings_of_rows_without_heads() -> None:
    with pytest.raises(relay.RelayError, match="rows of 24 numbers have no heads of 10"):
        run("RotaryEmbedding", {"x": floats(2, 5, 24), "at": np.array([3]), **angles(8, 5)}, ("x", "at", "cos", "sin"), 1, {})
