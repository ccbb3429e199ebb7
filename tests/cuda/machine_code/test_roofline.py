"""Machine code, executed instruction by instruction: its results are numpy's, and its figures keep to the limits of a GPU."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from relayvm.ops.codegen.cuda.device_code import disassembler, nvrtc
from relayvm.ops.core.tensor_types import HALVES, numpy_dtype

from ...emulator import proof

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def roofline(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module of families; skips without NVRTC or a disassembler."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from roofline import families

    try:
        nvrtc_version = proof.COMPILER.version
        disassembler.check()
    except (nvrtc.NoNvrtc, disassembler.NoDisassembler) as reason:
        pytest.skip(str(reason))
    assert nvrtc_version
    monkeypatch.setattr(families, "compile_cubin", lambda text: proof.CUBIN(text, "sm_90", by=proof.COMPILER))
    yield families


def _normed(x: np.ndarray, b: np.ndarray, r: np.ndarray, g: np.ndarray, s: np.ndarray) -> np.ndarray:
    h = 0.5 * (x + b) * (1 + np.vectorize(math.erf)((x + b) / math.sqrt(2))) + r
    return (h - h.mean(1, keepdims=True)) / np.sqrt(h.var(1, keepdims=True) + 1e-5) * g + s


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def _positions(chosen: np.ndarray) -> np.ndarray:
    """The indices of chosen elements, and zeros for as many as are not chosen."""
    return np.pad(np.flatnonzero(chosen), (0, int((~chosen).sum())))[:, None]


def _order(x: np.ndarray) -> np.ndarray:
    return np.argsort(x, kind="stable")


def _attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    scores = 0.125 * np.einsum("bmhd,bnhd->bhmn", q, k)
    return np.einsum("bhmn,bnhe->bmhe", _softmax(scores.reshape(-1, scores.shape[-1])).reshape(scores.shape), v)


#: By family: numpy's function, and shapes of arguments.
ORACLES: dict[str, tuple[Any, list[tuple[int, ...]]]] = {
    "layernorm(gelu(x + b) + r), 1024": (_normed, [(3, 260), (260,), (3, 260), (260,), (260,)]),
    "softmax, 1024": (_softmax, [(9, 1000)]),
    "softmax, 8192": (_softmax, [(2, 1100)]),
    "sum, last axis": (lambda x: x.sum(1), [(5, 516)]),
    "sum, first axis": (lambda x: x.sum(0), [(1300, 260)]),
    "transpose": (np.transpose, [(36, 132)]),
    "transpose NCHW to NHWC": (lambda x: x.transpose(0, 2, 3, 1), [(2, 36, 4, 9)]),
    "cumsum": (np.cumsum, [(5000,)]),
    "cumsum, first axis": (lambda x: x.cumsum(0), [(2100, 36)]),
    "softmax, first axis": (lambda x: _softmax(x.T).T, [(2100, 36)]),
    "argwhere": (np.argwhere, [(5000,)]),
    "argwhere(x > 0)": (lambda x: _positions(x > 0), [(9000,)]),
    "layernorm(gelu(x + b) + r), 1024, bfloat16": (_normed, [(3, 264), (264,), (3, 264), (264,), (264,)]),
    "softmax, 1024, float16": (_softmax, [(9, 1000)]),
    "sum, last axis, bfloat16": (lambda x: x.sum(1), [(5, 520)]),
    "sum, first axis, float16": (lambda x: x.sum(0), [(700, 264)]),
    "transpose, bfloat16": (np.transpose, [(40, 136)]),
    "cumsum, float16": (np.cumsum, [(5003,)]),
    "sort": (np.sort, [(12001,)]),
    "argsort": (_order, [(12001,)]),
    "argsort, int64": (_order, [(12001,)]),
    "sort, bfloat16": (np.sort, [(12001,)]),
    "topk 10": (lambda x: _order(-x)[:10], [(9001,)]),
    "topk 300, rows of 8192": (lambda x: _order(-x)[:, :300], [(2, 12001)]),
    "attention, 512 queries and keys": (_attention, [(1, 5, 1, 64), (1, 70, 1, 64), (1, 70, 1, 64)]),
    "attention, 1 query, 4096 keys": (_attention, [(1, 1, 2, 64), (1, 300, 2, 64), (1, 300, 2, 64)]),
}
#: The families of ``make test``, one of each kind of kernel: a family takes three seconds.
KINDS = (
    *("layernorm(gelu(x + b) + r), 1024", "softmax, 1024", "sum, last axis", "sum, first axis", "transpose"),
    *("cumsum", "argwhere", "sort", "topk 10", "attention, 1 query, 4096 keys"),
)


def in_pairs(names: Collection[str]) -> list[tuple[int | str, str]]:
    """The families of KINDS; the others in numbered pairs, of which a tier has one family."""
    others = [name for name in names if name not in KINDS]
    return [*((name, name) for name in names if name in KINDS), *((k // 2, name) for k, name in enumerate(others))]


#: The relative and absolute tolerance of results by dtype.
TOLERANCE = {"float32": (1e-4, 2e-4), "float16": (4e-3, 0.2), "bfloat16": (2e-2, 0.1), "int64": (0, 0)}


@pytest.mark.thinned(2)
@pytest.mark.split(3)
@pytest.mark.extensive(name=KINDS)
@pytest.mark.spread("name")
@pytest.mark.parametrize(("pair", "name"), in_pairs(ORACLES))
def test_executed_machine_code_computes_the_result(roofline: Any, pair: int | str, name: str) -> None:
    (family,) = (f for f in roofline.FAMILIES if f.name == name)
    numpy, shapes = ORACLES[name]
    draws = [np.random.default_rng(k).normal(size=s) * (100 if family.dtype == "int64" else 1) for k, s in enumerate(shapes)]
    arrays = [a.astype(numpy_dtype(family.dtype)) for a in draws]
    _, (result,) = roofline.launches(family, arrays, whole=True)
    want = numpy(*(a.astype(np.float64) for a in arrays))
    rtol, atol = TOLERANCE[family.dtype]
    np.testing.assert_allclose(result.astype(np.float64), want, rtol=rtol, atol=atol)


#: The least share of the copy rate that kernels reach, in percent; the families whose kernels do.
SHARE = 85
FAST = {
    *("layernorm(gelu(x + b) + r), 1024", "layernorm(gelu(x + b) + r), 8192", "layer_norm, 1024"),
    *("softmax, 1000", "softmax, 1024", "softmax, 8192", "sum, last axis", "sum, first axis", "sum, all axes"),
    *("concatenate 4, axis 0", "concatenate 4, axis 1", "transpose", "transpose NCHW to NHWC"),
    *("cumsum", "cumsum of 8 columns", "softmax of 256 channels", "argwhere", "argwhere(x > 0)", "elementwise"),
}
#: The families of halves whose kernels do.
FAST_HALVES = (
    *("layernorm(gelu(x + b) + r), 1024", "softmax, 1024", "sum, last axis", "sum, first axis"),
    *("concatenate 4, axis 1", "cumsum", "transpose", "transpose NCHW to NHWC"),
)
FAST |= {f"{name}, {dtype}" for dtype in HALVES for name in FAST_HALVES}


#: Of these, the families whose kernels were as fast in the commit of their figures before.
FAST_BEFORE = {"softmax, 8192", "concatenate 4, axis 0", "concatenate 4, axis 1", "elementwise"}
FAST_BEFORE |= {f"concatenate 4, axis 1, {dtype}" for dtype in HALVES}


def shortfalls(found: dict[str, Any]) -> list[str]:
    """The conditions of fast kernels that these figures do not meet."""
    met = {
        f"{SHARE} % of the copy rate": found["share"] >= SHARE,
        "no register is spilled": found["spills"] == 0,
        "no inner loop divides 64-bit integers": found["divisions"] == 0,
        "memory is read once": found["passes"] <= 1.01,
        "no sector is moved in vain": found["moves"] <= 1.01 * found["must_move"],
        "the loads that ran are of 16 bytes": found["wide_loads"] > 0.99,
    }
    return [condition for condition, is_met in met.items() if not is_met]


@pytest.mark.thinned(2)
@pytest.mark.split(2)
@pytest.mark.extensive(name=KINDS)
@pytest.mark.spread("name")
@pytest.mark.parametrize(("pair", "name"), in_pairs(sorted(FAST)))
def test_predicted_share_passes_and_loads(roofline: Any, pair: int | str, name: str) -> None:
    from roofline.record import figures

    (family,) = (f for f in roofline.FAMILIES if f.name == name)
    assert shortfalls(figures(family)) == []


def test_the_kernels_before_fall_short() -> None:
    before = json.loads((ROOT / "benchmarks" / "results" / "gpu-roofline.json").read_text())["before"]
    assert {name for name in FAST if not shortfalls({"divisions": 0, **before[name]})} == FAST_BEFORE


#: By family that sorts or selects: the least share of the copy rate in percent, the most bytes that move per element.
ORDERED = {
    "sort": (8.0, 34.0),
    "argsort": (8.0, 50.0),
    "sort, bfloat16": (8.0, 12.0),
    "argsort, int64": (4.0, 190.0),
    "topk 300, rows of 8192": (4.0, 5.0),
    "topk 10": (30.0, 4.1),
    "topk 10, rows of 8192": (25.0, 4.1),
}


@pytest.mark.split(2)
@pytest.mark.extensive(name=KINDS)
@pytest.mark.spread("name")
@pytest.mark.parametrize(("pair", "name"), in_pairs(ORDERED))
def test_sorts_pass_over_memory_once_for_each_byte_of_a_key(roofline: Any, pair: int | str, name: str) -> None:
    from roofline.record import figures

    (family,) = (f for f in roofline.FAMILIES if f.name == name)
    found, (share, moves) = figures(family), ORDERED[name]
    assert found["spills"] == 0 and found["share"] >= share and found["moves"] <= moves
    assert not name.startswith("topk 10") or found["wide_loads"] > 0.99, "the loads that ran are of 16 bytes"


#: The least share in percent of the time at the rate of products, or of copies, by family of attention.
ATTENTION = {"attention, 512 queries and keys": 75, "attention, 1 query, 4096 keys": 90}


@pytest.mark.split(2)
@pytest.mark.extensive(name=KINDS)
@pytest.mark.parametrize("name", ATTENTION)
def test_attention_is_near_the_rate_of_products_or_copies(roofline: Any, name: str) -> None:
    from roofline.record import figures

    (family,) = (f for f in roofline.FAMILIES if f.name == name)
    found = figures(family)
    assert found["share"] >= ATTENTION[name] and found["spills"] == 0 and found["divisions"] == 0
    assert found["wide_loads"] > 0.99, "the loads that ran are of 16 bytes"


def test_a_division_in_an_inner_loop_is_found(roofline: Any) -> None:
    """The count of the test above, for a kernel that divides in its loop and a kernel that divides before it."""
    from roofline import block, model

    loop = "  for (int64 at = threadIdx.x; at < n; at += blockDim.x) out[at] = {0};\n"
    head = 'extern "C" __global__ void __launch_bounds__(32) {0}(int64* out, int64 n, int64 by) {{\n{1}}}\n'
    text = head.format("inside", loop.format("at / by")) + head.format("before", "  by = n / by;\n" + loop.format("at + by"))
    steps, codes = roofline.assembled(text)
    found = {}
    for name in ("inside", "before"):
        ran = block.Block(steps[name], 32, (0, 0), (1, 1), [1 << 36, 640, (1 << 33) + 1], [np.zeros(640 * 8, np.uint8)])
        ran.run()
        found[name] = model.bounds(codes[name], [ran], 1).divisions
    assert found["inside"] >= 20 and found["before"] == 0


def test_the_page_is_that_of_the_record(roofline: Any) -> None:
    from roofline.record import page

    record = json.loads((ROOT / "benchmarks" / "results" / "gpu-roofline.json").read_text())
    assert (ROOT / "docs" / "gpu-roofline.md").read_text() == page(record, ROOT / "benchmarks" / "results")
    assert {f.name for f in roofline.FAMILIES} == set(record["after"]) == set(record["before"])
    assert {n for n in FAST if record["after"][n]["share"] < SHARE} == set()
    assert {f.name for f in roofline.ATTENTION if record["after"][f.name]["share"] < 75} == set()
