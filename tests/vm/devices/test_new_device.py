"""A device that docs/architecture.md shows, made in a copy of the tree: a folder and a line."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "devices.md"
#: A path, and the text of the file.
_FILE = re.compile(r"^`([\w./]+)`:\n\n```(python|diff)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_LEFT_OUT = (".*", "build", "__pycache__", "*.egg-info", "results")
PROGRAM = """
import numpy as np
import relayvm as relay

TEXT = '''#[version = "0.0.5"]
def @main(%x: Tensor[(?n, 2), float32], %s: Tensor[(2), int64]) {
  (dyn.reshape(exp(%x), %s), argwhere(greater(%x, 0f)), sort(sum(%x, axis=[1])))
}'''
x = np.random.default_rng(0).standard_normal((6, 2)).astype("float32")
args = x, np.array([3, 4])
machines = [relay.VirtualMachine(relay.compile(relay.parse(TEXT), target=t, place="off")) for t in ("cpu", "prompt")]
for _ in range(2):
    there, here = ([r.numpy() for r in vm.run(*args)] for vm in machines)
    for a, b in zip(there, here, strict=True):
        np.testing.assert_array_equal(a, b)
counters = machines[1].counters
assert counters["htod_copies"] and counters["dtoh_copies"] and counters["syncs"], counters
assert machines[1].run(*args)[0].device == "prompt"
machines[1].close()
print("prompt runs", counters["launches"], "kernels")
"""


@pytest.mark.extensive
def test_a_device_is_a_folder_and_a_line(tmp_path: Path) -> None:
    root = tmp_path / "relayvm"
    shutil.copytree(ROOT, root, ignore=shutil.ignore_patterns(*_LEFT_OUT))
    files = _FILE.findall(PAGE.read_text(encoding="utf-8"))
    for path, language, text in files:
        file = root / path
        if language == "diff":
            lines = text.splitlines(keepends=True)
            old, new = ("".join(line[1:] for line in lines if line[0] in kinds) for kinds in (" ", " +"))
            assert file.read_text(encoding="utf-8").count(old) == 1, old
            text = file.read_text(encoding="utf-8").replace(old, new)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    changed = [path for path, language, _ in files if language == "diff" and path.startswith("vm/")]
    assert changed == ["vm/device_table.py"], "one line outside the device's folder"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and "prompt runs" in done.stdout, done.stdout + done.stderr
