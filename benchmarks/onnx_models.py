"""ONNX models that people use, beside onnxruntime: differences, copies, start and run times.

    pip install 'relayvm[bench]'
    pip install --no-deps rapidocr-onnxruntime silero-vad      # the models; nothing else of the packages is used
    python benchmarks/onnx_models.py [--threads 1] [--rounds 11] [--only NAME] [--json]

Each model runs at many sizes: the largest difference from onnxruntime's results counts.  Runs of both take turns, call by
call.  The import, the first process with an empty cache of kernels and a second process are processes of their own.
``explain`` on a simulated device counts the copies to the host besides the results.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

import relayvm as relay
from relayvm.vm.report.interleaved import in_turn

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Subject:
    """A model of an installed package, the arrays at size ``k`` (0, 1, ...), and the number of sizes."""

    name: str
    package: str
    file: str
    arrays: Callable[[int], Arrays]
    sizes: int = 20

    @property
    def path(self) -> Path:
        return Path(str(distribution(self.package).locate_file(self.file)))


def _picture(n: int, height: int, width: int) -> np.ndarray:
    return np.random.default_rng(height * width + n).uniform(-1, 1, (n, 3, height, width)).astype(np.float32)


def _sound(k: int) -> Arrays:
    rng = np.random.default_rng(k)
    batch = 1 + k % 4
    return {
        "input": rng.normal(0, 0.1, (batch, 576)).astype(np.float32),
        "state": rng.normal(0, 0.5, (2, batch, 128)).astype(np.float32),
        "sr": np.array(16_000, np.int64),
    }


_OCR = "rapidocr_onnxruntime/models/"
SUBJECTS = (
    Subject("det", "rapidocr-onnxruntime", f"{_OCR}ch_PP-OCRv4_det_infer.onnx",
            lambda k: {"x": _picture(1 + k % 2, 32 * (1 + k % 7), 32 * (1 + k % 5))}),
    Subject("rec", "rapidocr-onnxruntime", f"{_OCR}ch_PP-OCRv4_rec_infer.onnx",
            lambda k: {"x": _picture(1 + k % 3, 48, 40 + 31 * k)}),
    Subject("cls", "rapidocr-onnxruntime", f"{_OCR}ch_ppocr_mobile_v2.0_cls_infer.onnx",
            lambda k: {"x": _picture(1 + k % 20, 48, 192)}),
    Subject("silero", "silero-vad", "silero_vad/data/silero_vad.onnx", _sound),
    Subject("silero_op15", "silero-vad", "silero_vad/data/silero_vad_16k_op15.onnx", _sound),
)  # fmt: skip


def session(path: Path, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def results(vm: relay.VirtualMachine, arrays: Arrays) -> list[np.ndarray]:
    out = vm.run(**arrays)
    return [np.asarray(r.numpy()) for r in (out if isinstance(out, (tuple, list)) else [out])]


def largest_difference(vm: relay.VirtualMachine, peer: onnxruntime.InferenceSession, subject: Subject) -> float:
    """The largest absolute difference over all sizes.  Exits where shapes or dtypes differ."""
    worst = 0.0
    for k in range(subject.sizes):
        arrays = subject.arrays(k)
        for ours, theirs in zip(results(vm, arrays), peer.run(None, arrays), strict=True):
            if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
                raise SystemExit(f"{subject.name}: {ours.dtype}{ours.shape}, onnxruntime {theirs.dtype}{theirs.shape}")
            worst = max(worst, float(np.abs(ours - theirs).max(initial=0)))
    return worst


def copies(path: Path) -> int:
    """Copies to the host besides the results, on a simulated device."""
    exe = relay.compile(path, target="sim")
    vm = relay.VirtualMachine(exe)
    return sum(1 for row in vm.explain().copies if row.to_host and row.reason != "result")


_FIRST_RESULT = """
import sys, time
began = time.perf_counter()
import numpy as np
import relayvm as relay
imported = time.perf_counter()
module, params = relay.frontend.from_onnx(sys.argv[1])
read = time.perf_counter()
vm = relay.VirtualMachine(relay.compile(module, params=params))
ready = time.perf_counter()
vm.run(**np.load(sys.argv[2]))
print(imported - began, read - imported, ready - read, time.perf_counter() - ready)
"""


def first_result(subject: Subject, cache: str) -> tuple[float, list[float]]:
    """Seconds of a process up to its end, and of its parts: import, reading the model, compiling, first run."""
    with tempfile.TemporaryDirectory() as folder:
        arrays = Path(folder) / "arrays.npz"
        np.savez(arrays, **subject.arrays(3))  # type: ignore[arg-type]
        environment = {**os.environ, "RELAYVM_CACHE_DIR": cache}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        began = time.perf_counter()
        command = [sys.executable, "-c", _FIRST_RESULT, str(subject.path), str(arrays)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        wall = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(done.stderr)
    return wall, [float(word) for word in done.stdout.split()]


def measured(subject: Subject, threads: int, rounds: int) -> dict[str, Any]:
    """All figures of a model."""
    vm = relay.VirtualMachine(relay.compile(subject.path))
    peer = session(subject.path, threads)
    arrays = subject.arrays(3)
    found: dict[str, Any] = {"difference": largest_difference(vm, peer, subject), "sizes": subject.sizes}
    sides = {"relayvm": lambda: results(vm, arrays), "onnxruntime": lambda: peer.run(None, arrays)}
    times = in_turn(sides, rounds)
    for name, seconds in times.items():
        found[f"{name}_ms"] = [1e3 * f(seconds) for f in (statistics.median, min, max)]
    with tempfile.TemporaryDirectory(prefix="relayvm-cache-") as cache:
        found["cold"] = first_result(subject, cache)
        found["second"] = first_result(subject, cache)
    return found
