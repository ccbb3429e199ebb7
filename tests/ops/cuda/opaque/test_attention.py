"""Attention on the emulated GPU, against numpy in float64: any sizes, special values, views, grids."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from relayvm.ops.core.dtype_rules import FLOATS
from relayvm.ops.core.tensor_types import numpy_dtype

from ....emulator import emulator
from ..on_gpu import run

if reason := emulator.available():
    pytest.skip(reason, allow_module_level=True)

#: Relative and absolute tolerance: of values with a scale of 1, rounded to the dtype.
TOLERANCE = {"float32": 2e-5, "float64": 1e-12, "float16": 4e-3, "bfloat16": 3e-2}
SIZES = (0, 1, 3, 31, 33, 64, 65, 129)


def attended(query: np.ndarray, key: np.ndarray, value: np.ndarray, scale: float, bias: np.ndarray | float = 0) -> np.ndarray:
    """Attention with the batch first; ``bias[b, h, m, n]``."""
    query, key, value = (a.astype(np.float64) for a in (query, key, value))
    with np.errstate(all="ignore"):
        scores = scale * np.einsum("bmhd,bnhd->bhmn", query, key) + bias
        powers = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
        return np.einsum("bhmn,bnhe->bmhe", powers / powers.sum(-1, keepdims=True), value)


def drawn(seed: int, dtype: str, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(numpy_dtype(dtype)) for shape in shapes]


def check(dtype: str, b: int, m: int, n: int, h: int, d: int, e: int, *, scale: float = 0.3, **how: Any) -> None:
    """Both operators at given sizes."""
    query, key, value, bias = drawn(m + n, dtype, (b, m, h, d), (b, n, h, d), (b, n, h, e), (b, h, m, n))
    how = {"static": (3,), "scale": scale, **how}
    near: dict[str, Any] = {"rtol": TOLERANCE[dtype], "atol": TOLERANCE[dtype]}
    (result,), status, _ = run("nn.batch_attention", [query, key, value], **how)
    assert status == 0 and result.dtype == query.dtype
    np.testing.assert_allclose(result.astype(float), attended(query, key, value, scale), **near)
    turned = [a.swapaxes(0, 1) for a in (query, key, value)]
    (result,), status, _ = run("nn.attention", [*turned, bias], **how)
    wanted = attended(query, key, value, scale, bias.astype(float)).swapaxes(0, 1)
    assert status == 0
    np.testing.assert_allclose(result.astype(float), wanted, **near)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("m", SIZES)
def test_all_numbers_of_queries_and_keys(m: int, n: int) -> None:
    check("float32", 1, m, n, 2, 8, 8)
