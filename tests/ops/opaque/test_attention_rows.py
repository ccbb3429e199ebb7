"""Attention with positions first: softmax and sums in float64 for sizes around every block, and masks of every kind."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relayvm.ops.kernels.attention.cpu import QUERIES

from .opaque_kernels import run

#: Queries: each number that is computed together, and some passes; keys; elements of a head: of parts of a vector and of several.
QUERY_ROWS = st.integers(0, 2 * QUERIES + 3)
KEYS = st.one_of(st.integers(0, 9), st.sampled_from([31, 64, 67]))
ELEMENTS = st.one_of(st.integers(0, 20), st.sampled_from([32, 64, 67]))
#: The most that roundings change a result, by dtype: halves are rounded once, at the end.
NEAR = {"float32": 3e-5, "float64": 1e-12, "float16": 3e-3}


def attention(query: np.ndarray, key: np.ndarray, value: np.ndarray, bias: np.ndarray, scale: float, jit: bool) -> np.ndarray:
    return run("nn.attention", [query, key, value, bias], jit=jit, scale=scale).outputs[0]


def wanted(query: np.ndarray, key: np.ndarray, value: np.ndarray, bias: np.ndarray, scale: float) -> np.ndarray:
    q, k, v, shift = (x.astype("float64") for x in (query, key, value, bias))
    scores = scale * np.einsum("mbhd,nbhd->bhmn", q, k) + shift
    powers = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
    weights = powers / powers.sum(-1, keepdims=True) if powers.size else powers
    return np.einsum("bhmn,nbhe->mbhe", weights, v)


def drawn(dtype: str, m: int, n: int, b: int, heads: int, d: int, e: int) -> list[np.ndarray]:
    rng = np.random.default_rng(m + n + d)
    shapes = (m, b, heads, d), (n, b, heads, d), (n, b, heads, e), (b, heads, m, n)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


@pytest.mark.parametrize("dtype", NEAR)
@given(QUERY_ROWS, KEYS, st.integers(0, 2), st.integers(0, 3), ELEMENTS, ELEMENTS, st.sampled_from([0.125, -0.3, 1.0]))
def test_any_sizes(dtype: str, m: int, n: int, b: int, heads: int, d: int, e: int, scale: float) -> None:
    given = drawn(dtype, m, n, b, heads, d, e)
    np.testing.assert_allclose(attention(*given, scale, jit=True), wanted(*given, scale), rtol=0, atol=NEAR[dtype])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_text_in_python_computes_the_same(dtype: str) -> None:
    given = drawn(dtype, 7, 19, 2, 2, 19, 11)
    found = attention(*given, 0.5, jit=False)
    np.testing.assert_allclose(found, wanted(*given, 0.5), rtol=0, atol=NEAR[dtype])


@pytest.mark.parametrize("m", range(1, QUERIES + 2))
def test_a_query_beside_others_has_the_same_bits(m: int) -> None:
    """A text that is read together with others, or alone, is the same."""
    query, key, value, bias = drawn("float32", m, 37, 1, 3, 64, 64)
    together = attention(query, key, value, bias, 0.125, jit=True)
    for i in range(m):
        alone = attention(query[i : i + 1], key, value, np.ascontiguousarray(bias[:, :, i : i + 1]), 0.125, jit=True)
        np.testing.assert_array_equal(alone[0], together[i])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_hidden_keys(dtype: str) -> None:
    """Minus infinity hides a key; of all keys the result is NaN.  The lowest number for all of them hides none."""
    query, key, value, bias = drawn(dtype, 3, 21, 1, 2, 16, 16)
    bias[..., 0, 5:], bias[..., 1, :], bias[..., 2, :] = -np.inf, -np.inf, np.finfo(dtype).min
    found = attention(query, key, value, bias, 0.5, jit=True)
    fewer = attention(query[:1], key[:5], value[:5], np.ascontiguousarray(bias[:, :, :1, :5]), 0.5, jit=True)
    np.testing.assert_allclose(found[0], fewer[0], rtol=0, atol=NEAR[dtype])
    assert np.isnan(found[1]).all()
    np.testing.assert_allclose(found[2], np.broadcast_to(value.mean(0), found[2].shape), rtol=0, atol=NEAR[dtype])


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_an_infinity_or_nan_of_a_query_is_nan_in_its_row_alone(bad: float) -> None:
    query, key, value, bias = drawn("float32", 6, 21, 1, 2, 16, 16)
    clean = attention(query, key, value, bias, 0.5, jit=True)
    query[4, 0, 1, 3] = bad
    found = attention(query, key, value, bias, 0.5, jit=True)
    assert np.isnan(found[4, 0, 1]).all()
    found[4, 0, 1] = clean[4, 0, 1]
    np.testing.assert_array_equal(found, clean)
