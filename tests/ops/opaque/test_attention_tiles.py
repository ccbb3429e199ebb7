"""Attention by tiles: softmax and sums in float64 for sizes around every block, and scores of every magnitude."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relayvm.ops.kernels.attention.batches import BAND

from .opaque_kernels import run

#: Positions: of parts of a vector, of a panel, of a group of panels and of a band; elements of a head.
ROWS = st.one_of(st.integers(0, 20), st.sampled_from([BAND - 1, BAND, BAND + 1, 2 * BAND + 3, 64, 65, 130]))
ELEMENTS = st.one_of(st.integers(0, 20), st.sampled_from([32, 64, 67]))


def attention(query: np.ndarray, key: np.ndarray, value: np.ndarray, scale: float, **how: object) -> np.ndarray:
    return run("nn.batch_attention", [query, key, value], jit=True, implementation="tiles", scale=scale, **how).outputs[0]


def wanted(query: np.ndarray, key: np.ndarray, value: np.ndarray, scale: float) -> np.ndarray:
    scores = scale * np.einsum("bmhd,bnhd->bhmn", query.astype("float64"), key.astype("float64"))
    powers = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
    weights = powers / powers.sum(-1, keepdims=True) if powers.size else powers
    return np.einsum("bhmn,bnhe->bmhe", weights, value.astype("float64"))


def drawn(seed: int, dtype: str, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@given(st.integers(0, 2), ROWS, ROWS, st.integers(1, 3), ELEMENTS, ELEMENTS, st.sampled_from([0.125, -0.3, 1.0, 40.0]))
def test_any_sizes(dtype: str, b: int, m: int, n: int, heads: int, d: int, e: int, scale: float) -> None:
    query, key, value = drawn(1, dtype, b, m, heads, d), drawn(2, dtype, b, n, heads, d), drawn(3, dtype, b, n, heads, e)
    # scores of some hundreds have errors of some units in their last places, and powers errors of as many
    near = (1e-6 + 2e-7 * abs(scale) * (d + 1)) * (1 if dtype == "float32" else 1e-6)
    found = attention(query, key, value, scale)
    np.testing.assert_allclose(found, wanted(query, key, value, scale), rtol=0, atol=10 * near)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_scores_of_every_magnitude(dtype: str) -> None:
    query, key, value = drawn(1, dtype, 1, 9, 2, 8), drawn(2, dtype, 1, 50, 2, 8), drawn(3, dtype, 1, 50, 2, 20)
    for power in (-30, -8, -2, 0, 1, 3, 6):
        found = attention(query * dtype_of(dtype)(10.0**power), key, value, 1.0)
        assert np.isfinite(found).all() and found.min() >= value.min() - 1e-5 and found.max() <= value.max() + 1e-5
    one = attention(query * dtype_of(dtype)(1e6), key, value, 1.0)  # all weight on one key: its value
    best = np.einsum("bmhd,bnhd->bhmn", query, key).argmax(-1)[0]
    for h in range(2):
        np.testing.assert_allclose(one[0, :, h], value[0, best[h], h], rtol=1e-6)


def dtype_of(name: str) -> type:
    return np.float32 if name == "float32" else np.float64


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_an_infinity_or_nan_of_a_query_is_nan_in_its_row_alone(dtype: str, bad: float) -> None:
    """Or 0, with ``zero_nan``."""
    query, key, value = drawn(1, dtype, 1, 60, 2, 8), drawn(2, dtype, 1, 35, 2, 8), drawn(3, dtype, 1, 35, 2, 20)
    clean = attention(query, key, value, 0.5)
    query[0, 50, 1, 3] = bad
    found = attention(query, key, value, 0.5)
    assert np.isnan(found[0, 50, 1]).all()
    zero = attention(query, key, value, 0.5, zero_nan=True)
    assert (zero[0, 50, 1] == 0).all()
    zero[0, 50, 1] = found[0, 50, 1]
    np.testing.assert_array_equal(zero, found)
    found[0, 50, 1] = clean[0, 50, 1]
    np.testing.assert_array_equal(found, clean)
