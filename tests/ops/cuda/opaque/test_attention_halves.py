"""Attention of halves on tensor cores of the emulated GPU, by warps and by teams of warps, against numpy in float64."""

from __future__ import annotations

import functools
from string import Template
from typing import Any

import numpy as np
import pytest

from relayvm.ops.core.op import get
from relayvm.ops.core.tensor_types import HALVES
from relayvm.ops.kernels.attention import cuda, halves_cuda

from ....emulator import emulator
from ....emulator.session import CudaError, Session
from .. import groups_on_gpu, on_gpu
from ..on_gpu import run
from .test_attention import attended, drawn

if reason := emulator.available():
    pytest.skip(reason, allow_module_level=True)

#: The distance of two numbers next to 1: rounding to the dtype is off by half of it.
UNIT = {"float16": 2.0**-10, "bfloat16": 2.0**-7}
SIZES = (0, 1, 7, 64, 65, 200)
#: Products by warps, and by teams of warps.
ENGINES = ("sm_90", "sm_90a")


@pytest.fixture(autouse=True)
def no_scores_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles compute any number of queries."""
    monkeypatch.setattr(cuda, "FEW_HALVES", 0)
    monkeypatch.setattr(cuda.decode_cuda, "LEAST_HALVES", 0)


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(emulator, "compile", functools.partial(emulator.compile, arch=request.param))
    return str(request.param)


def near(found: np.ndarray, wanted: np.ndarray, dtype: str) -> None:
    """Within 1.5 roundings of the largest result, NaN where it is NaN."""
    assert found.dtype.name == dtype
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    largest = np.nanmax(np.abs(wanted), initial=0.0)
    np.testing.assert_allclose(found.astype(float), wanted, rtol=0, atol=1.5 * UNIT[dtype] * float(largest))


def check(dtype: str, b: int, m: int, n: int, h: int, d: int, e: int, scale: float = 0.125, **how: Any) -> None:
    """Without a bias, batch first."""
    query, key, value = drawn(m + n, dtype, (b, m, h, d), (b, n, h, d), (b, n, h, e))
    (result,), status, _ = run("nn.batch_attention", [query, key, value], scale=scale, **{"static": (3,), **how})
    assert status == 0
    near(result, attended(query, key, value, scale), dtype)


def check_biased(dtype: str, b: int, m: int, n: int, h: int, d: int, e: int, scale: float = -0.3, **how: Any) -> None:
    """With a bias of which a fifth is -inf, and all of one row; positions first."""
    query, key, value, bias = drawn(m + n, dtype, (b, m, h, d), (b, n, h, d), (b, n, h, e), (b, h, m, n))
    bias[np.random.default_rng(n).random(bias.shape) < 0.2] = -np.inf
    bias[:, 0, : m and 1] = -np.inf
    transposed = [a.swapaxes(0, 1) for a in (query, key, value)]
    (result,), status, _ = run("nn.attention", [*transposed, bias], scale=scale, **{"static": (3,), **how})
    assert status == 0
    near(result.swapaxes(0, 1), attended(query, key, value, scale, bias.astype(float)), dtype)


@pytest.mark.thinned(2)
@pytest.mark.split(2)
@pytest.mark.extensive(m=(0, 7, 65), n=(0, 1, 65, 200))
@pytest.mark.parametrize("m", SIZES)
@pytest.mark.parametrize("n", SIZES)
def test_all_numbers_of_queries_and_keys(engine: str, m: int, n: int) -> None:
    check("float16", 2, m, n, 2, 56, 64)
    check_biased("bfloat16", 1, m, n, 3, 64, 64)


#: Heads of one panel, of two, of a tile of fewer keys; of different sizes; such as are not copied by 16 bytes.
HEADS = ((32, 32), (64, 64), (96, 96), (128, 128), (256, 256), (128, 40), (24, 136), (7, 59), (0, 4), (200, 160))


@pytest.mark.thinned(2)
@pytest.mark.extensive(heads=((32, 32), (128, 40)), dtype=("bfloat16",))
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("heads", HEADS, ids=str)
def test_all_heads(engine: str, dtype: str, heads: tuple[int, int]) -> None:
    for m, n in ((1, 70), (65, 33), (20, 150)):
        check(dtype, 1, m, n, 2, *heads)
    check_biased(dtype, 1, 33, 130, 1, *heads)


def test_static_sizes_give_the_same_bits(engine: str) -> None:
    arrays = drawn(1, "float16", (1, 70, 2, 64), (1, 100, 2, 64), (1, 100, 2, 64))
    found = [run("nn.batch_attention", arrays, scale=0.125, static=known).outputs[0].tobytes() for known in ((3,), True)]
    assert found[0] == found[1]


@pytest.mark.parametrize(("m", "n"), [(1, 1100), (70, 1300)])
def test_keys_in_parts_and_any_grid(engine: str, m: int, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One pair has several parts of the keys; the bits are the same for any grid and any order of threads."""
    monkeypatch.setattr(cuda, "HALVES_KEYS", 128)
    arrays, launched = drawn(6, "float16", (1, m, 1, 64), (1, n, 1, 64), (1, n, 1, 64)), Session.launch
    case, used = {"most": 1 << 30}, dict[str, int]()

    def launch(self: Session, image: bytes, entry: str, grid: Any, *args: Any, **kwargs: Any) -> None:
        used[entry] = max(used.get(entry, 0), grid[0])
        launched(self, image, entry, (min(case["most"], grid[0]), *grid[1:]), *args, **kwargs)

    monkeypatch.setattr(Session, "launch", launch)
    wanted = run("nn.batch_attention", arrays, static=(3,), scale=0.3).outputs[0]
    near(wanted, attended(*arrays, 0.3), "float16")
    for case["most"], schedule in ((3, 0), (1 << 30, 1), (4, 5)):
        found = run("nn.batch_attention", arrays, static=(3,), scale=0.3, schedule=schedule).outputs[0]
        assert found.tobytes() == wanted.tobytes(), (case, schedule)
    assert set(used) == {"attention_halves", "join_parts"} and used["attention_halves"] > 4


def test_parts_of_biased_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores of parts are joined in natural units, whatever the kernel computes in."""
    monkeypatch.setattr(cuda, "HALVES_KEYS", 128)
    check_biased("float16", 1, 3, 700, 1, 64, 64)


def test_special_scores(engine: str) -> None:
    """Infinities and NaN among the scores, and values that do not count behind the last key."""
    n, inf = 150, np.inf
    query, key, value = drawn(3, "float16", (1, 5, 1, 16), (1, n, 1, 16), (1, n, 1, 16))
    query[0, 1], query[0, 2, 0, 0], query[0, 3, 0, 1] = 0, inf, np.nan
    value[0, :, 0, 5] = inf
    (result,), _, _ = run("nn.batch_attention", [query, key, value], static=(3,), scale=0.3)
    wanted = attended(query, key, value, 0.3)
    np.testing.assert_array_equal(np.isnan(result), np.isnan(wanted))
    assert (result[0, [0, 1, 4], 0, 5] == inf).all() and np.isnan(result[0, 2:4]).all()


@pytest.mark.parametrize("dtype", HALVES)
def test_tensors_that_are_not_aligned(engine: str, dtype: str) -> None:
    query, key, value = drawn(5, dtype, (1, 70, 2, 16), (1, 70, 2, 16), (1, 70, 2, 32))
    found = groups_on_gpu.call(
        "nn.batch_attention", [query, key, value], get("nn.batch_attention").attrs(scale=0.3), static=True, aligned=False
    )
    near(found, attended(query, key, value, 0.3), dtype)


def test_no_access_is_outside_of_a_tensor_and_no_threads_race(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_gpu._Steps.run, "__defaults__", (True,))
    check("float16", 1, 70, 150, 2, 7, 64, scale=0.7)
    check_biased("float16", 1, 70, 150, 1, 40, 64)


#: What is left out of the text of the kernel, and the end of what then happens: a wrong result, or a fault.
FAULTS = {
    "wait_for_copies<0>();\n        arrive();\n        if": "arrive();\n        if",
    "      show_products();\n      __syncthreads();": "      show_products();",
    "wait_for_copies<1>();": "wait_for_copies<2>();",
    "      show_products();\n": "",
    "thread.finish_add();\n        thread.scale_sums();": "thread.scale_sums();",
    "thread.begin_multiply();\n        thread.multiply(tile);": "thread.multiply(tile);",
}


@pytest.mark.extensive(fault=(0, 1))
@pytest.mark.parametrize("fault", range(len(FAULTS)))
def test_a_wait_or_a_barrier_that_is_missing_is_found(fault: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emulator, "compile", functools.partial(emulator.compile, arch="sm_90a"))
    monkeypatch.setattr(on_gpu._Steps.run, "__defaults__", (True,))
    before, after = list(FAULTS.items())[fault]
    text = halves_cuda.BODY.template
    assert text.count(before) == 1
    monkeypatch.setattr(halves_cuda, "BODY", Template(text.replace(before, after)))
    with pytest.raises((CudaError, AssertionError)):
        check("float16", 1, 70, 200, 1, 64, 64)
