"""Operators of detectors: suppression by class, scatters, transposed convolutions, pools and tiles."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import relayvm as relay
from relayvm.vm.report.completion import finish

from .. import rivals
from ..contest import Contestant, contest, ratio
from ..figures import Goal, Recorder
from ..machines import OURS, placed
from ..plain import Gpu
from ..scale import TINY, Scale

_BY_CLASS, _OF_COPIES, _OF_TORCH = Goal(at_most=150), Goal(at_least=80), Goal(at_least=1)
#: Bounded, for there are some thirty programs.
_ROUNDS, _BURST_NS = 7, 4e6
_IMAGE = "Tensor[(?, ?, ?, ?), float32]"


@dataclass(frozen=True)
class Task:
    """``given(tiny)``: the arguments.  ``copied``: the bytes that must be read and written, of the arguments and the result's
    bytes; None: the time alone counts.  ``torch``: the same work on tensors.  ``is_exact``: results are the host's bit for bit.
    """

    name: str
    text: str
    given: Callable[[bool], list[np.ndarray]]
    goal: Goal | None = None
    copied: Callable[[list[np.ndarray], int], int] | None = None
    torch: Callable[..., Any] | None = None
    is_exact: bool = True


def measure(record: Recorder, scale: Scale) -> None:
    """Time of each program, against a copy of as many bytes or torch; results against those of the same program on the host."""
    for task in (*_suppressions(), *_scatters(), *_transposed(), *_pools(), *_tiles()):
        with record.task(task.name, unit="µs"):
            _measure(record, scale, task)
        gc.collect()


def _measure(record: Recorder, scale: Scale, task: Task) -> None:
    small, given = task.given(True), task.given(scale is TINY)
    ready = placed(task.text, given)
    got, want = ready.vm.run(*small), _on_host(task.text, small)
    for found, expected in zip(_arrays(got), want, strict=True):
        if task.is_exact:
            np.testing.assert_array_equal(found, expected)
        else:
            np.testing.assert_allclose(found.astype(np.float64), expected.astype(np.float64), rtol=2e-3, atol=2e-3)
    written = sum(a.nbytes for a in _arrays(ready.vm.run(*ready.arguments)))
    nbytes = 0 if task.copied is None else task.copied(given, written)
    contestants = {OURS: Contestant(lambda: ready.vm.run(*ready.arguments), lambda: finish(ready.vm))}
    gpu = Gpu(nbytes // 2) if nbytes else None
    if gpu is not None:
        contestants["copy"] = gpu.copies()
    if task.torch is not None:
        with record.task(task.name, "torch", "µs"):
            contestants["torch"] = rivals.torch_contestant(task.torch, *map(rivals.tensor, given))
    try:
        _record(record, task, contest(contestants, min(scale.rounds, _ROUNDS), burst_ns=_BURST_NS))
    finally:
        if gpu is not None:
            gpu.close()


def _record(record: Recorder, task: Task, found: Mapping[str, Any]) -> None:
    for who, samples in found.items():
        is_time = task.goal is _BY_CLASS and who == OURS
        record.figure(task.name, who, "µs", samples.whole.per(1000), task.goal if is_time else None)
    if "copy" in found:
        share = ratio(tuple(100 * t for t in found["copy"].whole_ns), found[OURS].whole_ns)
        record.figure(task.name, OURS, "% of the copy rate", share, task.goal)
    if "torch" in found:
        record.figure(task.name, "torch / relayvm", "times", ratio(found["torch"].whole_ns, found[OURS].whole_ns), _OF_TORCH)


def _arrays(result: Any) -> list[np.ndarray]:
    return [result.numpy()] if hasattr(result, "numpy") else [part.numpy() for part in result]


def _on_host(text: str, given: list[np.ndarray]) -> list[np.ndarray]:
    exe = relay.compile(relay.parse('#[version = "0.0.5"]\n' + text), target="cpu")
    return _arrays(relay.VirtualMachine(exe).run(*given))


# ---- suppression ---------------------------------------------------------------------------------------------------------------


def _boxes(count: int, spread: float = 600) -> np.ndarray:
    rng = np.random.default_rng(count)
    at = rng.uniform(0, spread, (count, 2))
    return np.concatenate([at, at + rng.uniform(8, 120, (count, 2))], 1).astype(np.float32)


def _suppressions() -> list[Task]:
    """By class, and of one class: the most are those of a detector without a threshold, each class away from the others."""
    text = """def @main(%b: Tensor[(?, ?, 4), float32], %s: Tensor[(?, ?, ?), float32]) {{
      vision.all_class_non_max_suppression(%b, %s, -1i64, 0.5f, 0.05f, output_format="{}") }}"""

    def given(count: int, classes: int, tiny: bool) -> list[np.ndarray]:
        count, classes = (90, min(classes, 3)) if tiny else (count, classes)
        scores = np.random.default_rng(classes).uniform(0, 1, (1, classes, count)).astype(np.float32)
        return [_boxes(count, 600 if count < 50_000 else 60_000)[None], scores]

    sizes = [(1000, 1, _BY_CLASS), (1000, 80, _BY_CLASS), (4000, 1, None), (4000, 80, None), (90_000, 1, None)]
    tasks = []
    for form in ("onnx", "tensorflow"):
        for count, classes, goal in sizes:
            name = f"suppression, {form}, {count} boxes of {classes} classes"
            tasks.append(Task(name, text.format(form), functools.partial(given, count, classes), goal))
    return tasks


# ---- scatters ------------------------------------------------------------------------------------------------------------------


def _scatters() -> list[Task]:
    """Rows of regions, of one level of a pyramid and of most; by rows, and by indices as many as elements."""
    rows = f'def @main(%d: {_IMAGE}, %i: Tensor[(1, ?), int64], %u: {_IMAGE}) {{ scatter_nd(%d, %i, %u, mode="update") }}'
    elements = (
        f"def @main(%d: {_IMAGE}, %i: Tensor[(?, ?, ?, ?), int64], %u: {_IMAGE}) {{ scatter_elements(%d, %i, %u, axis=0) }}"
    )

    def given(count: int, by_rows: bool, tiny: bool) -> list[np.ndarray]:
        shape, count = ((70, 4, 2, 2), min(count, 50)) if tiny else ((1000, 256, 7, 7), count)
        rng = np.random.default_rng(count)
        data, updates = (rng.standard_normal((n, *shape[1:]), np.float32) for n in (shape[0], count))
        at = rng.permutation(shape[0])[:count]
        return [data, at[None] if by_rows else np.broadcast_to(at.reshape(-1, 1, 1, 1), updates.shape).copy(), updates]

    def copied(arrays: list[np.ndarray], written: int) -> int:
        """Without the rows of the data that are written over."""
        return arrays[0].nbytes + written + arrays[1].nbytes

    return [
        Task(
            f"{name} of {count} of 1000 regions", text, functools.partial(given, count, by_rows),
            _OF_COPIES if by_rows else None, copied,
        )
        for name, text, by_rows in (("scatter_nd", rows, True), ("scatter_elements", elements, False))
        for count in (20, 250, 1000)
    ]  # fmt: skip


# ---- convolutions, pools, tiles ------------------------------------------------------------------------------------------------


def _transposed() -> list[Task]:
    def given(batch: int, dtype: str, tiny: bool) -> list[np.ndarray]:
        channels, batch = (8, 2) if tiny else (256, batch)
        rng = np.random.default_rng(batch)
        data, weight = rng.standard_normal((batch, channels, 14, 14)), rng.standard_normal((channels, channels, 2, 2))
        return [data.astype(dtype), (weight / 16).astype(dtype)]

    def torch(data: Any, weight: Any) -> Any:
        return rivals.torch().nn.functional.conv_transpose2d(data, weight, stride=2)

    text = "def @main(%d: {0}, %w: {0}) {{ nn.conv2d_transpose(%d, %w, strides=[2, 2]) }}"
    return [
        Task(
            f"transposed convolution of {batch} masks, {dtype}", text.format(_IMAGE.replace("float32", dtype)),
            functools.partial(given, batch, dtype), None, None, torch, False,
        )
        for batch in (1, 30, 100)
        for dtype in ("float32", "float16")
    ]  # fmt: skip


def _filled(shape: tuple[int, ...]) -> np.ndarray:
    n = int(np.prod(shape))
    return np.resize(np.random.default_rng(0).standard_normal(min(n, 1 << 20), np.float32), n).reshape(shape)


def _all(arrays: list[np.ndarray], written: int) -> int:
    return arrays[0].nbytes + written


def _pools() -> list[Task]:
    three, two = "pool_size=[3, 3], strides=[2, 2], padding=[1, 1]", "pool_size=[2, 2], strides=[2, 2]"
    calls = {
        "max_pool2d 3 x 3, stride 2": (f"nn.max_pool2d(%x, {three})", False),
        "max_pool2d 2 x 2": (f"nn.max_pool2d(%x, {two})", False),
        "avg_pool2d 3 x 3": ("nn.avg_pool2d(%x, pool_size=[3, 3], strides=[1, 1], padding=[1, 1])", False),
        "max_pool2d 3 x 3, stride 2, NHWC": (f'nn.max_pool2d(%x, {three}, layout="NHWC")', True),
        "global_avg_pool2d": ("nn.global_avg_pool2d(%x)", False),
    }

    def given(last: bool, tiny: bool) -> list[np.ndarray]:
        images, channels, size = (2, 8, 9) if tiny else (16, 256, 128)
        return [_filled((images, size, size, channels) if last else (images, channels, size, size))]

    return [
        Task(
            name, f"def @main(%x: {_IMAGE}) {{ {call} }}", functools.partial(given, last), _OF_COPIES, _all,
            is_exact=not name.startswith("global"),
        )
        for name, (call, last) in calls.items()
    ]  # fmt: skip


def _tiles() -> list[Task]:
    text = "def @main(%x: Tensor[(?, ?), float32]) {{ tile(%x, reps={}) }}"
    return [
        Task(f"tile {reps}", text.format(reps), lambda tiny: [_filled((8, 12) if tiny else (4096, 4096))], _OF_COPIES, _all)
        for reps in ([4, 1], [1, 4])
    ]
