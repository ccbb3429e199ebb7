"""The conditions of a run: GPU, driver, versions, clocks, commit, load of the machine."""

from __future__ import annotations

import csv
import importlib.metadata
import io
import os
import platform
import shutil
import subprocess
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[2]
#: Packages that a figure may depend on.
PACKAGES = (
    "relayvm", "numpy", "numba", "llvmlite", "scipy", "ml_dtypes", "cupy-cuda13x", "cupy-cuda12x", "torch", "onnxruntime",
    "onnxruntime-gpu", "pytest",
)  # fmt: skip
#: The properties requested from nvidia-smi.
QUERY = (
    "name", "driver_version", "clocks.sm", "clocks.mem", "clocks.max.sm", "clocks.max.mem", "temperature.gpu", "power.draw",
    "power.limit", "utilization.gpu", "memory.used",
)  # fmt: skip


def before(commit: str | None) -> dict[str, Any]:
    """All conditions known before the first part runs."""
    return {
        "commit": commit or _commit(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "versions": {name: v for name in PACKAGES if (v := _version(name))},
        "load": list(os.getloadavg()),
        "nvidia_smi": nvidia_smi(),
    }


def after() -> dict[str, Any]:
    """The conditions that may have changed after all parts."""
    return {"load": list(os.getloadavg()), "nvidia_smi": nvidia_smi()}


def nvidia_smi() -> dict[str, str]:
    """Properties of the first GPU from nvidia-smi, by the names in QUERY; empty if the program is missing or fails."""
    if shutil.which("nvidia-smi") is None:
        return {}
    command = ["nvidia-smi", f"--query-gpu={','.join(QUERY)}", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return {}
    rows = list(csv.reader(io.StringIO(done.stdout), skipinitialspace=True))
    return dict(zip(QUERY, rows[0], strict=False)) if rows else {}


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _commit() -> str:
    """The commit that is checked out, with ``+`` if files differ from it; ``unknown`` without git."""
    try:
        head, changed = (
            subprocess.run(["git", *words], capture_output=True, text=True, cwd=_ROOT, timeout=20, check=True).stdout.strip()
            for words in (["rev-parse", "--short=12", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return head + ("+" if changed else "")
