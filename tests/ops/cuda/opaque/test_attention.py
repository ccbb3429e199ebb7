"""Attention on the emulated GPU, against numpy in float64: any sizes, special values, views, grids."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from relayvm.ops.core.dtype_rules import FLOATS
from relayvm.ops.core.op import get
from relayvm.ops.core.tensor_types import numpy_dtype
from relayvm.ops.kernels.attention import cuda

from ....emulator import emulator
from ....emulator.session import Session
from .. import groups_on_gpu, on_gpu
from ..on_gpu import run

if reason := emulator.available():
    pytest.skip(reason, allow_module_level=True)

#: Relative and absolute tolerance: of values with a scale of 1, rounded to the dtype.
TOLERANCE = {"float32": 2e-5, "float64": 1e-12, "float16": 4e-3, "bfloat16": 3e-2}
SIZES = (0, 1, 3, 31, 33, 64, 65, 129)


@pytest.fixture(autouse=True)
def no_scores_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of queries alone decides, so that tiles are tested with few of them."""
    monkeypatch.setattr(cuda, "FEW_SCORES", 0)


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
    transposed = [a.swapaxes(0, 1) for a in (query, key, value)]
    (result,), status, _ = run("nn.attention", [*transposed, bias], **how)
    wanted = attended(query, key, value, scale, bias.astype(float)).swapaxes(0, 1)
    assert status == 0
    np.testing.assert_allclose(result.astype(float), wanted, **near)


@pytest.mark.thinned(2)
@pytest.mark.extensive(m=(0, 1, 3, 33, 65), n=(0, 1, 33, 129))
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("m", SIZES)
def test_all_numbers_of_queries_and_keys(m: int, n: int) -> None:
    check("float32", 1, m, n, 2, 8, 8)


@pytest.mark.parametrize(("m", "n", "few"), [(5, 0, 100), (5, 7, 100), (5, 9, 2 * 45 + 1), (5, 9, 2 * 45), (33, 70, 10**6)])
def test_lanes_compute_few_scores_of_many_queries(m: int, n: int, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "FEW_SCORES", few)
    launched, used = Session.launch, set[str]()

    def launch(self: Session, image: bytes, entry: str, *args: Any, **kwargs: Any) -> None:
        used.add(entry)
        launched(self, image, entry, *args, **kwargs)

    monkeypatch.setattr(Session, "launch", launch)
    check("float32", 1, m, n, 2, 8, 8)
    assert used == {"attention_lanes" if 2 * m * n < few else "attention_tiles"}


#: Heads of each kernel: lanes and tiles, several packs of a lane, tiles of 96 and 128 columns, several slabs.
HEADS = ((8, 8), (7, 5), (64, 64), (80, 33), (20, 100), (1, 130), (0, 4))


@pytest.mark.thinned(2)
@pytest.mark.split(2)
@pytest.mark.extensive(dtype=("float32", "bfloat16"))
@pytest.mark.parametrize("heads", HEADS, ids=str)
@pytest.mark.parametrize("dtype", FLOATS)
def test_all_dtypes_and_heads(dtype: str, heads: tuple[int, int]) -> None:
    for m, n in ((1, 70), (3, 9), (5, 65), (33, 33)):
        check(dtype, 2, m, n, 2, *heads)


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_heads_of_unknown_size(dtype: str) -> None:
    for m, n, d, e in ((1, 5, 8, 8), (3, 70, 130, 70), (65, 33, 7, 9), (2, 0, 3, 4), (0, 2, 3, 4)):
        check(dtype, 1, m, n, 2, d, e, static=False)


@pytest.mark.parametrize(("m", "n"), [(1, 700), (2, 300), (40, 700)])
def test_keys_in_parts(m: int, n: int) -> None:
    """One pair has several parts of the keys, which a second kernel joins."""
    check("float32", 1, m, n, 1, 16, 16)


@pytest.mark.parametrize("m", [2, 6])
def test_special_scores(m: int) -> None:
    """Infinities and NaN among the scores, in different parts of the keys, and the numbers nearest to them."""
    n, inf, nan = 400, np.inf, np.nan
    query, key, value = drawn(3, "float32", (m, 1, 1, 8), (n, 1, 1, 8), (n, 1, 1, 8))
    bias = np.zeros((1, 1, m, n), np.float32)
    cases = {
        "keys that do not count": ([-inf], [range(300)], False),
        "no key counts": ([-inf], [range(n)], True),
        "an infinity in the last part": ([inf], [[399]], True),
        "NaN in the first part": ([nan], [[0]], True),
        "NaN, and nothing else counts": ([-inf, nan], [range(n), [7]], True),
        "large": ([-3e38, 3e38], [range(0, n, 2), [5]], False),
    }
    for name, (marks, positions, is_nan) in cases.items():
        bias[:] = 0
        for mark, place in zip(marks, positions, strict=True):
            bias[0, 0, 1, list(place)] = mark
        (result,), _, _ = run("nn.attention", [query, key, value, bias], static=(3,), scale=0.3)
        transposed = [a.swapaxes(0, 1) for a in (query, key, value)]
        wanted = attended(*transposed, 0.3, bias.astype(float)).swapaxes(0, 1)
        assert np.isnan(result[1]).all() == is_nan, name
        assert not np.isnan(np.delete(result, 1, 0)).any(), name
        np.testing.assert_allclose(result, wanted, rtol=2e-5, atol=2e-5, err_msg=name)


@pytest.mark.parametrize("m", [1, 9])
def test_values_behind_the_last_key_do_not_count(m: int) -> None:
    """A weight of 0 is not multiplied by the elements behind a row, nor by those of another part."""
    query, key, value = drawn(4, "float32", (1, m, 2, 8), (1, 37, 2, 8), (1, 37, 2, 8))
    value[:, :, 1] = np.inf
    (result,), _, _ = run("nn.batch_attention", [query, key, value], static=(3,), scale=0.3)
    np.testing.assert_allclose(result[:, :, 0], attended(query, key, value, 0.3)[:, :, 0], rtol=2e-5, atol=2e-5)
    assert (result[:, :, 1] == np.inf).all()


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(("m", "n"), [(2, 37), (70, 300), (2, 700)])
def test_weights_of_nan_are_zero_where_asked(m: int, n: int, dtype: str) -> None:
    """By lanes, by tiles, and in parts."""
    query, key, value = drawn(4, dtype, (1, m, 2, 16), (1, n, 2, 16), (1, n, 2, 8))
    query[0, 1, 1, 3] = np.nan
    value[:, :, 0, 2] = np.inf  # not by its weights
    (plain,), _, _ = run("nn.batch_attention", [query, key, value], static=(3,), scale=0.3)
    (result,), _, _ = run("nn.batch_attention", [query, key, value], static=(3,), scale=0.3, zero_nan=True)
    assert np.isnan(plain[0, 1, 1]).all() and (result[0, 1, 1] == 0).all()
    result[0, 1, 1] = plain[0, 1, 1]
    np.testing.assert_array_equal(result, plain)


@pytest.mark.parametrize("op", ["nn.attention", "nn.batch_attention"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("m", [2, 5])
def test_tensors_that_are_not_aligned(m: int, dtype: str, op: str) -> None:
    query, key, value, bias = drawn(5, dtype, (2, m, 2, 16), (2, 70, 2, 16), (2, 70, 2, 32), (2, 2, m, 70))
    has_bias = op == "nn.attention"
    arrays = [*(a.swapaxes(0, 1) for a in (query, key, value)), bias] if has_bias else [query, key, value]
    found = groups_on_gpu.call(op, arrays, get(op).attrs(scale=0.3), static=True, aligned=False).astype(float)
    wanted = attended(query, key, value, 0.3, bias.astype(float) if has_bias else 0)
    near: dict[str, Any] = {"rtol": TOLERANCE[dtype], "atol": TOLERANCE[dtype]}
    np.testing.assert_allclose(found.swapaxes(0, 1) if has_bias else found, wanted, **near)


@pytest.mark.parametrize(("m", "n"), [(2, 700), (70, 300)])
def test_results_are_the_same_bits_for_any_grid(m: int, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays, launched = drawn(6, "float32", (1, m, 2, 16), (1, n, 2, 16), (1, n, 2, 16)), Session.launch
    case, used = {"most": 1 << 30}, dict[str, int]()

    def launch(self: Session, image: bytes, entry: str, grid: Any, *args: Any, **kwargs: Any) -> None:
        used[entry] = max(used.get(entry, 0), grid[0])
        launched(self, image, entry, (min(case["most"], grid[0]), *grid[1:]), *args, **kwargs)

    def evaluated(schedule: int) -> bytes:
        return run("nn.batch_attention", arrays, static=(3,), scale=0.3, schedule=schedule).outputs[0].tobytes()

    wanted = evaluated(0)
    monkeypatch.setattr(Session, "launch", launch)
    for case["most"], schedule in ((1, 0), (3, 0), (1 << 30, 1), (1 << 30, 2), (4, 5)):
        assert evaluated(schedule) == wanted, (case, schedule)
    assert set(used) == {"attention_lanes" if m < 4 else "attention_tiles", "join_parts"} and max(used.values()) > 4


@pytest.mark.parametrize("m", [3, 5])
def test_no_access_is_outside_of_a_tensor_and_no_threads_race(m: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_gpu._Steps.run, "__defaults__", (True,))
    for n, d, e in ((37, 8, 8), (300, 7, 9)):
        check("float32", 1, m, n, 2, d, e, scale=0.7)
