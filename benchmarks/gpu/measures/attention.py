"""Attention in halves against torch's ``scaled_dot_product_attention``, both replayed: each call on the last result."""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from relayvm.ops.core.tensor_types import numpy_dtype

from .. import rivals
from ..contest import Contestant, contest, ratio
from ..figures import Goal, Recorder, Spread
from ..machines import OURS, Placed, placed
from ..scale import Scale

EACH, MEAN = Goal(at_least=0.9), Goal(at_least=1.0)
#: Heads, and elements of each.
HEADS = ((12, 64), (32, 128))
QUERIES, DECODED = (128, 512, 2048, 8192), (512, 8192)
#: The multiplications of a chain: so many that the begin of a replay does not count.
_WORK = 4e11
#: The largest difference from float64, of values with a scale of 1.
_TOLERANCE = {"float16": 4e-3, "bfloat16": 3e-2}


@dataclass(frozen=True)
class Cell:
    """``queries`` and ``keys`` of ``heads`` heads of ``size`` elements.

    ``is_masked``: a bias is added to the scores.  ``most``: calls of a chain.
    """

    heads: int
    size: int
    queries: int
    keys: int
    dtype: str = "float16"
    is_masked: bool = False
    most: int = 24

    @property
    def name(self) -> str:
        bias = ", bias" if self.is_masked else ""
        return f"attention {self.queries} x {self.keys}, {self.heads} heads of {self.size}, {self.dtype}{bias}"

    @property
    def operations(self) -> int:
        return 4 * self.heads * self.size * self.queries * self.keys

    @property
    def calls(self) -> int:
        return max(1, min(self.most, math.ceil(_WORK / self.operations)))

    @property
    def text(self) -> str:
        """One call ``@one``, and a chain of them."""
        of, d = self.dtype, self.size
        axes = "?b, ?{}, ?h" if not self.is_masked else "?{}, ?b, ?h"
        names = zip("qkv", "mnn", strict=True)
        params = ", ".join(f"%{x}: Tensor[({axes.format(n)}, {d}), {of}]" for x, n in names)
        name, more = "nn.batch_attention", ""
        if self.is_masked:
            params += f", %x: Tensor[(?b, ?h, ?m, ?n), {of}]"
            name, more = "nn.attention", ", %x"
        call = f"{name}({{}}, %k, %v{more}, scale={d**-0.5})"
        chain = " ".join(f"let %y{k} = {call.format(f'%y{k - 1}' if k else '%q')};" for k in range(self.calls))
        return f"def @one({params}) {{ {call.format('%q')} }}\ndef @main({params}) {{ {chain} %y{self.calls - 1} }}"


def measure(record: Recorder, scale: Scale) -> None:
    """TFLOP/s of each cell, the time of torch's chain divided by ours, and the mean of these ratios over cells with a goal."""
    found = list[float]()
    for cell in _cells(scale):
        goal = None if cell.is_masked or cell.dtype != "float16" else EACH
        with record.task(cell.name, f"torch / {OURS}", "times", goal):
            times = _measure(record, scale, cell, goal)
            found += [times] if times and goal else []
        gc.collect()
    task, who = "attention, mean of all cells with a goal", f"torch / {OURS}"
    if found:
        record.figure(task, who, "times", math.fsum(found) / len(found), MEAN)
    else:
        record.missing(task, who, "times", "there is no torch", MEAN)


def _cells(scale: Scale) -> Iterator[Cell]:
    if scale.images == 1:
        yield from (Cell(2, 16, 8, 8, most=2), Cell(2, 16, 1, 8, most=1), Cell(2, 16, 8, 8, is_masked=True, most=1))
        return
    for heads, size in HEADS:
        yield from (Cell(heads, size, n, n) for n in QUERIES)
        yield from (Cell(heads, size, 1, n) for n in DECODED)
    yield Cell(*HEADS[1], 2048, 2048, "bfloat16")
    yield from (Cell(*HEADS[0], n, n, is_masked=True) for n in QUERIES[1:3])


def _measure(record: Recorder, scale: Scale, cell: Cell, goal: Goal | None) -> float | None:
    shapes = [(1, n, cell.heads, cell.size) for n in (cell.queries, cell.keys, cell.keys)]
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape, np.float32).astype(numpy_dtype(cell.dtype)) for shape in shapes]
    bias = [rng.standard_normal((1, cell.heads, cell.queries, cell.keys), np.float32).astype(numpy_dtype(cell.dtype))]
    given = [*(a.swapaxes(0, 1).copy() for a in arrays), *bias] if cell.is_masked else arrays
    ready = placed(cell.text, given, graphs="on")
    _check(cell, ready, arrays, bias[0])
    contestants: dict[str, Contestant] = {OURS: ready.contestant()}
    with record.task(cell.name, "torch", "TFLOP/s"):
        attend = rivals.torch().nn.functional.scaled_dot_product_attention
        query, key, value = (rivals.tensor(a).transpose(1, 2) for a in arrays)
        mask = rivals.tensor(bias[0]) if cell.is_masked else None

        def chain() -> object:
            y = query
            for _ in range(cell.calls):
                y = attend(y, key, value, attn_mask=mask)
            return y

        contestants["torch"], _ = rivals.replayed(chain)
    found = contest(contestants, scale.rounds, burst_ns=1e7)
    for who, samples in found.items():
        rates = [cell.operations * cell.calls / t / 1000 for t in samples.whole_ns]
        record.figure(cell.name, who, "TFLOP/s", Spread.of(rates))
        record.figure(cell.name, who, "us a call", samples.whole.per(1000 * cell.calls))
    if "torch" not in found:
        record.missing(cell.name, f"torch / {OURS}", "times", "there is no torch", goal)
        return None
    times = ratio(found["torch"].whole_ns, found[OURS].whole_ns)
    record.figure(cell.name, f"torch / {OURS}", "times", times, goal)
    return times.median


def _check(cell: Cell, ready: Placed, arrays: list[np.ndarray], bias: np.ndarray) -> None:
    """Compare some queries of one call with float64."""
    some = np.unique(np.linspace(0, cell.queries - 1, 7, dtype=int))
    query, key, value = (a.astype(np.float64) for a in arrays)
    scores = np.einsum("bmhd,bnhd->bhmn", query[:, some], key) * cell.size**-0.5 + (bias[:, :, some] if cell.is_masked else 0)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    want = np.einsum("bhmn,bnhe->bmhe", weights / weights.sum(-1, keepdims=True), value)
    got = ready.vm["one"](*ready.arguments).numpy()
    got = got.swapaxes(0, 1) if cell.is_masked else got
    np.testing.assert_allclose(got[:, some].astype(np.float64), want, rtol=0, atol=_TOLERANCE[cell.dtype])
