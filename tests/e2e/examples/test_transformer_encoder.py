"""An encoder of 12 layers: one program for texts of every number and length, against plain numpy."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import relayvm as relay

from ...devices import DEVICES
from ...example_programs import example_modules  # noqa: F401  a fixture

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "examples" / "transformer_encoder.relay"
#: Kernels that do not differ are one; what 12 layers need is what one layer needs.
MOST_KERNELS = 40


@pytest.mark.extensive
@pytest.mark.parametrize("device", DEVICES)
def test_the_example(device: str) -> None:
    from transformer_encoder import SIZES

    command = [sys.executable, str(PROGRAM.with_suffix(".py")), "--device", device]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = re.findall(r"^ +(\d+) +(\d+) .* (\d+) B  (.*)$", done.stdout, re.MULTILINE)
    assert rows == [(*map(str, size), "0", "yes") for size in SIZES]


def test_a_wrong_result_is_noticed() -> None:
    from transformer_encoder import difference

    right = np.zeros((2, 3, 4))
    assert difference(right, right) == ""
    assert difference(right + 1e-3, right) == "values differ by up to 0.001"
    assert difference(right[:1], right) == "float32[1, 3, 4] instead of [2, 3, 4]"


@pytest.mark.lengthy
@pytest.mark.parametrize("target", ("cpu", "sim"))
def test_its_layers_share_their_kernels(target: str) -> None:
    executable = relay.compile(PROGRAM.read_text(), target=target)
    assert len(set(executable.packed)) == len(executable.packed) <= MOST_KERNELS
