"""The programs of ``docs/gpu-roofline.md``: measured shares of the copy rate beside the predicted shares."""

from __future__ import annotations

import gc
import json
import math
import multiprocessing
import os
from concurrent.futures import Future, ProcessPoolExecutor

import numpy as np
from roofline.families import FAMILIES, Family, arguments
from roofline.model import PRODUCT_RATE
from roofline.record import UNIT

import relayvm as relay
from relayvm.vm.report.completion import finish

from ..contest import Contestant, contest, ratio
from ..figures import Recorder
from ..machines import OURS, ROOT, Placed, placed
from ..plain import Gpu
from ..scale import TINY, Scale

_PREDICTED = ROOT / "benchmarks" / "results" / "gpu-roofline.json"
#: Bounded, for there are some fifty programs.
_ROUNDS, _BURST_NS = 7, 4e6
#: The most processes that compute results on the host: they share its memory's rate with each other, not with the GPU.
_WORKERS = 4
#: The arrays that are timed are so many times as long as those of the prediction: far beyond the L2, and the host is ahead.
_TIMES = 4
#: Of results, against the same program on the host: float32 and the dtypes of 2 bytes.
_TOLERANCE = {"float32": 2e-4, "float16": 4e-3, "bfloat16": 4e-2}


def measure(record: Recorder, scale: Scale) -> None:
    """Time of each program against that of a copy of as many bytes; results against those of the same program on the host.

    Other processes compute the results on the host meanwhile.  A program whose result is wrong is a failed task.
    """
    families = FAMILIES[::8] if scale is TINY else FAMILIES
    predicted = json.loads(_PREDICTED.read_text(encoding="utf-8"))["after"]
    workers = max(1, min(_WORKERS, (os.cpu_count() or 1) - 1))
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        wanted = [pool.submit(_on_host, family, scale is TINY) for family in families]
        for family, want in zip(families, wanted, strict=True):
            with record.task(family.name, unit=UNIT):
                _measure(record, scale, family, predicted.get(family.name, {}).get("share"), want)
            gc.collect()


def _arguments(family: Family, tiny: bool) -> list[np.ndarray]:
    return arguments(family, [_tiny(family, s) for s in family.shapes] if tiny else family.shapes)


def _on_host(family: Family, tiny: bool) -> np.ndarray:
    """The result of the program on the CPU."""
    text = '#[version = "0.0.5"]\n' + family.text
    found: np.ndarray = (
        relay.VirtualMachine(relay.compile(relay.parse(text), target="cpu")).run(*_arguments(family, tiny)).numpy()
    )
    return found


def _measure(record: Recorder, scale: Scale, family: Family, predicted: float | None, want: Future[np.ndarray]) -> None:
    ready = placed(family.text, _arguments(family, scale is TINY))
    _check(ready.vm.run(*ready.arguments).numpy(), want.result(), family.dtype)
    times = 1 if scale is TINY or family.products else _TIMES
    if times > 1:
        largest = max(family.shapes, key=math.prod)
        ready = placed(family.text, arguments(family, [(times * s[0], *s[1:]) if s == largest else s for s in family.shapes]))
    gpu = Gpu(times * family.nbytes // 2 if scale is not TINY else 1 << 12)
    try:
        found = contest({"copy": gpu.copies(), OURS: _contestant(ready)}, min(scale.rounds, _ROUNDS), burst_ns=_BURST_NS)
    finally:
        gpu.close()
    if predicted is not None:
        record.figure(family.name, "predicted", UNIT, predicted)
    # bytes: at the rate of the copy in the same round; products: at the rate of the model
    least = tuple(max(t, 1e9 * family.products / PRODUCT_RATE) for t in found["copy"].whole_ns)
    record.figure(family.name, OURS, UNIT, ratio(tuple(100 * t for t in least), found[OURS].whole_ns))
    record.figure(family.name, OURS, "µs", found[OURS].whole.per(1000))
    record.figure(family.name, f"{OURS}: host", "µs", found[OURS].host.per(1000))
    record.figure(family.name, "copy", "µs", found["copy"].whole.per(1000))


def _contestant(ready: Placed) -> Contestant:
    """Calls of ``main``: with the wait for the size of a result where a result's shape depends on data."""
    vm, held = ready.vm, ready.arguments
    return Contestant(lambda: vm.run(*held), lambda: finish(vm))


def _check(got: np.ndarray, want: np.ndarray, dtype: str) -> None:
    if got.dtype.kind in "iub":
        np.testing.assert_array_equal(got, want)
        return
    got, want = got.astype(np.float64), want.astype(np.float64)
    # a running sum cancels: its error is that of its largest value
    atol = _TOLERANCE[dtype] * max(1.0, float(np.abs(want).max(initial=0)) / 4)
    np.testing.assert_allclose(got, want, rtol=_TOLERANCE[dtype], atol=atol)


def _tiny(family: Family, shape: tuple[int, ...]) -> tuple[int, ...]:
    if len(shape) == 1:
        return shape if len(family.shapes) > 1 else (min(shape[0], 4096),)
    most = (8, 64) if family.products else (8, shape[1])
    return tuple(min(n, m) for n, m in zip(shape, (*most, *shape[2:]), strict=True))
