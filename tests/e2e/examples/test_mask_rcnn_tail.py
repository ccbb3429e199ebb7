"""The tail of a Mask R-CNN: one program from proposals to masks, against plain numpy, as a script and on the command line."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.commands.cli import main

from ...devices import DEVICES, HOST
from ...example_programs import example_modules  # noqa: F401  a fixture

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "examples" / "mask_rcnn_tail.relay"


def test_rounding_cannot_decide_what_is_found() -> None:
    """Scores and overlaps differ from each other and from the thresholds by many units of rounding."""
    from mask_rcnn_reference import detect
    from mask_rcnn_tail import SIZES, inputs

    found = [detect(inputs(*size)) for size in SIZES]
    assert min(d.margin for d in found) > 2e-5
    # no anchors, no detections, fewer than the limits, both limits reached
    assert [(d.proposals, len(d.scores)) for d in found] == [(0, 0), (1, 0), (35, 20), (50, 20), (50, 20)]


@pytest.mark.extensive(device=("sim",))
@pytest.mark.parametrize("device", DEVICES)
def test_the_example(device: str, tmp_path: Path) -> None:
    from mask_rcnn_tail import SIZES

    command = [sys.executable, str(PROGRAM.with_suffix(".py")), "--device", device, "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = re.findall(r"^ +(\d+) +(\d+) x (\d+) .* (\d+) B  (.*)$", done.stdout, re.MULTILINE)
    copied = "0" if device == HOST else "8"  # two counts of boxes that are kept
    assert rows == [(*map(str, size), copied, "yes") for size in SIZES]


@pytest.mark.spread("device")
@pytest.mark.parametrize("device", DEVICES)
def test_on_the_command_line(device: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from mask_rcnn_reference import detect
    from mask_rcnn_tail import differences, inputs

    given = inputs(12, 8, 9)
    np.savez(tmp_path / "in.npz", **given)
    named = [part for name in given for part in ("--input", f"{name}=@{tmp_path / 'in.npz'}:{name}")]
    assert main(["run", str(PROGRAM), *named, "--device", device, "-o", str(tmp_path / "out.npz")]) == 0
    with np.load(tmp_path / "out.npz") as saved:
        got = tuple(saved[name] for name in saved.files)
    want = detect(given)
    assert want.margin > 2e-5 and differences(got, want) == []


def test_a_wrong_detection_is_noticed() -> None:
    from mask_rcnn_reference import detect
    from mask_rcnn_tail import differences, inputs

    want = detect(inputs(50, 2, 3))
    right = (want.boxes, want.scores, want.classes, want.coverage > 0.5)
    assert differences(right, want) == []
    assert differences((want.boxes + 0.01, *right[1:]), want) == ["boxes: other values"]
    assert differences((want.boxes, want.scores + 1e-4, *right[2:]), want) == ["scores: other values"]
    assert differences((*right[:2], 3 - want.classes, right[3]), want) == ["classes: other values"]
    assert differences((*right[:3], ~right[3]), want) == ["masks: other values"]
    assert differences((want.boxes[1:], *right[1:]), want) == ["boxes: [19, 4] instead of [20, 4]"]


def test_one_executable_from_file(tmp_path: Path) -> None:
    """Saved and loaded, it is the same program: no shape is part of it."""
    from mask_rcnn_reference import detect
    from mask_rcnn_tail import differences, inputs

    relay.compile(relay.parse(PROGRAM.read_text()), target="sim").save(tmp_path / "tail.rvm")
    vm = relay.VirtualMachine(relay.Executable.load(tmp_path / "tail.rvm"))
    for size in [(12, 8, 9), (0, 1, 1)]:
        given = inputs(*size)
        assert differences(tuple(t.numpy() for t in vm.run(**given)), detect(given)) == []
