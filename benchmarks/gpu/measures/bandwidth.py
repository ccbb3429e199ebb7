"""Operators that move memory, against the copy rate of the same GPU in the same minute."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import rivals
from ..contest import Contestant, contest, ratio
from ..figures import Goal, Recorder
from ..machines import OURS, check, placed
from ..plain import Gpu
from ..scale import Scale
from .doctor import rate

LAYER_NORM, OTHERS = Goal(at_least=85), Goal(at_least=80)
#: Rows of the small arrays that results are checked on.
_CHECKED_ROWS = 37
_EPSILON = 1e-5


@dataclass(frozen=True)
class Task:
    """``shapes(rows, columns)``: of the inputs.  ``result_bytes(rows, columns)``: of what is written.  ``run(library, *inputs)``
    computes it with numpy or torch; ``torch``: the same where torch has something better."""

    name: str
    text: str
    shapes: Callable[[int, int], list[tuple[int, ...]]]
    result_bytes: Callable[[int, int], int]
    numpy: Callable[..., np.ndarray]
    torch: Callable[..., Any]
    goal: Goal | None = OTHERS
    compiled: bool = False

    def nbytes(self, rows: int, columns: int) -> int:
        """The fewest bytes that have to be read and written."""
        return sum(4 * math.prod(s) for s in self.shapes(rows, columns)) + self.result_bytes(rows, columns)


def _normed(x: np.ndarray, b: np.ndarray, r: np.ndarray, g: np.ndarray, s: np.ndarray) -> np.ndarray:
    x, b, r, g, s = (a.astype(np.float64) for a in (x, b, r, g, s))
    h = 0.5 * (x + b) * (1 + np.vectorize(math.erf)((x + b) / math.sqrt(2))) + r
    return (h - h.mean(1, keepdims=True)) / np.sqrt(h.var(1, keepdims=True) + _EPSILON) * g + s


def _torch_normed(x: Any, b: Any, r: Any, g: Any, s: Any) -> Any:
    f = rivals.torch().nn.functional
    return f.layer_norm(f.gelu(x + b) + r, (x.shape[1],), g, s, _EPSILON)


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


_MATRIX, _VECTOR = "Tensor[(?n, ?m), float32]", "Tensor[(?m), float32]"
_NORMED = f"""
def @main(%x: {_MATRIX}, %b: {_VECTOR}, %r: {_MATRIX}, %g: {_VECTOR}, %s: {_VECTOR}) {{
  let %a = %x + %b;
  let %h = 0.5f * %a * (1f + erf(0.70710678f * %a)) + %r;
  let %centred = %h - mean(%h, axis=[1], keepdims=True);
  %centred * rsqrt(variance(%h, axis=[1], keepdims=True) + 0.00001f) * %g + %s
}}"""
_FOUR = ", ".join(f"%{name}: Tensor[(?, ?), float32]" for name in "abcd")


def _unary(expression: str) -> str:
    return f"def @main(%x: {_MATRIX}) {{ {expression} }}"


def _whole(rows: int, columns: int) -> int:
    return 4 * rows * columns


def _one(rows: int, columns: int) -> list[tuple[int, ...]]:
    return [(rows, columns)]


def _sum(name: str, axis: int | None, size: Callable[[int, int], int]) -> Task:
    text = _unary("sum(%x)" if axis is None else f"sum(%x, axis=[{axis}])")
    return Task(
        f"sum over {name}",
        text,
        _one,
        lambda rows, columns: 4 * size(rows, columns),
        lambda x: x.astype(np.float64).sum(axis),
        lambda x: x.sum() if axis is None else x.sum(axis),
    )


def _concatenate(axis: int) -> Task:
    def shapes(rows: int, columns: int) -> list[tuple[int, ...]]:
        return [(rows // 4, columns) if axis == 0 else (rows, columns // 4)] * 4

    return Task(
        f"concatenate 4 on axis {axis}",
        f"def @main({_FOUR}) {{ concatenate((%a, %b, %c, %d), axis={axis}) }}",
        shapes,
        lambda rows, columns: sum(4 * math.prod(s) for s in shapes(rows, columns)),
        lambda *parts: np.concatenate(parts, axis),
        lambda *parts: rivals.torch().cat(parts, axis),
    )


TASKS = (
    Task(
        "layernorm(gelu(x + b) + r)",
        _NORMED,
        lambda rows, columns: [(rows, columns), (columns,), (rows, columns), (columns,), (columns,)],
        _whole,
        _normed,
        _torch_normed,
        LAYER_NORM,
        compiled=True,
    ),
    Task("softmax", _unary("nn.softmax(%x)"), _one, _whole, _softmax, lambda x: x.softmax(1), compiled=True),
    _sum("the last axis", 1, lambda rows, columns: rows),
    _sum("the first axis", 0, lambda rows, columns: columns),
    _sum("all axes", None, lambda rows, columns: 1),
    _concatenate(0),
    _concatenate(1),
    Task("transpose", _unary("transpose(%x, axes=[1, 0])"), _one, _whole, np.transpose, lambda x: x.T.contiguous(), goal=None),
)


def measure(record: Recorder, scale: Scale) -> None:
    """GB/s of each task, as a share of the copy rate measured in turn with it; torch beside it."""
    columns = scale.columns
    rows = scale.copied_bytes // 4 // columns
    record.facts(rows=rows, columns=columns, dtype="float32")
    gpu = Gpu(scale.copied_bytes)
    try:
        for task in TASKS:
            with record.task(task.name, goal=task.goal, unit="% of the copy rate"):
                _measure(record, scale, gpu, task, rows, columns)
            gc.collect()  # the machine's memory goes back before the next one's is taken
            with_torch = rivals.torch.cache_info().currsize
            if with_torch:
                rivals.torch().cuda.empty_cache()
    finally:
        gpu.close()


def _measure(record: Recorder, scale: Scale, gpu: Gpu, task: Task, rows: int, columns: int) -> None:
    arrays = [_filled(shape) for shape in task.shapes(rows, columns)]
    ready = placed(task.text, arrays)
    small = [_filled(shape, seed=k) for k, shape in enumerate(task.shapes(_CHECKED_ROWS, columns))]
    check(ready.vm, small, task.numpy(*small), rtol=1e-4, atol=1e-4)
    contestants: dict[str, Contestant] = {"copy": gpu.copies(), OURS: ready.contestant()}
    with record.task(task.name, "torch", "GB/s"):
        tensors = [rivals.tensor(a) for a in arrays]
        contestants["torch"] = rivals.torch_contestant(task.torch, *tensors)
        if task.compiled:
            with record.task(task.name, "torch.compile", "GB/s"):
                contestants["torch.compile"] = rivals.compiled(task.torch, *tensors)
    found = contest(contestants, scale.rounds)
    nbytes = task.nbytes(rows, columns)
    for who, samples in found.items():
        moved = 2 * gpu.nbytes if who == "copy" else nbytes
        record.figure(task.name, who, "GB/s", rate(moved, samples.whole_ns))
    # the time that a copy of as many bytes would have taken, against the time that it took
    share = ratio(tuple(t * 100 * nbytes / (2 * gpu.nbytes) for t in found["copy"].whole_ns), found[OURS].whole_ns)
    record.figure(task.name, OURS, "% of the copy rate", share, task.goal)


def _filled(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Numbers from -1 to 1: drawn up to a million of them, then the same again, which is faster and as good here."""
    n = math.prod(shape)
    drawn = np.random.default_rng(seed).uniform(-1, 1, min(n, 1 << 20)).astype(np.float32)
    return np.resize(drawn, n).reshape(shape)
