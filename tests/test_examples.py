"""The example programs and the README: their output is correct, on both devices."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .devices import DEVICES, HOST
from .example_programs import example_modules  # noqa: F401  a fixture
from .extras import environment_with, extras_of

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"


def run(*command: str | Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, cwd=ROOT, env=env, timeout=300)


# ---- the detection tail ----------------------------------------------------------------------------------------


def slow_suppress(boxes: np.ndarray, scores: np.ndarray) -> list[int]:
    """Suppression by its definition, on exact integers: a box stays when no better kept one shares half or more with it."""
    grid = (boxes * 4).astype(int)
    kept: list[int] = []
    for i in sorted(range(len(scores)), key=lambda i: (-scores[i], i)):
        x1, y1, x2, y2 = map(int, grid[i])
        for k in kept:
            u1, v1, u2, v2 = map(int, grid[k])
            shared = max(0, min(x2, u2) - max(x1, u1)) * max(0, min(y2, v2) - max(y1, v1))
            union = (x2 - x1) * (y2 - y1) + (u2 - u1) * (v2 - v1) - shared
            if 2 * shared >= union:
                break
        else:
            kept.append(i)
    return kept


@settings(max_examples=60)
@given(st.integers(0, 40), st.integers(0, 10_000))
def test_the_reference_suppresses_by_the_definition(n: int, seed: int) -> None:
    from detection_reference import candidates, suppress

    boxes, logits = candidates(n, seed)
    scores = logits.max(axis=1)
    assert suppress(boxes, scores) == slow_suppress(boxes, scores)


@pytest.mark.parametrize("n", [1, 37, 500, 2000, 8400])
def test_rounding_cannot_decide_what_is_kept(n: int) -> None:
    """Areas are exact in float32, and scores differ from each other and from the threshold by many units of rounding."""
    from detection_reference import SCORE_THRESHOLD, candidates

    boxes, logits = candidates(n)
    assert np.array_equal(boxes * 4, np.round(boxes * 4))
    assert (boxes[:, 2:] - boxes[:, :2]).max() * 4 < 2**11  # a product of two such fits the 24 bits of a float32
    best = np.sort(1 / (1 + np.exp(-logits.max(axis=1).astype(np.float64))))
    assert np.abs(best - SCORE_THRESHOLD).min() > 1e-5
    assert np.diff(best, prepend=0).min() > 2e-6


@pytest.mark.quick(device=[HOST])
@pytest.mark.parametrize("device", DEVICES)
def test_detection_tail(device: str, tmp_path: Path) -> None:
    from detection_tail import SIZES

    done = run(EXAMPLES / "detection_tail.py", "--device", device, "--out", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = re.findall(r"^ +(\d+) +(\d+) .* B  (.*)$", done.stdout, re.MULTILINE)
    assert [(int(n), verdict) for n, _, verdict in rows] == [(n, "yes") for n in SIZES]
    with np.load(tmp_path / "detection_2000.npz") as saved:
        assert (saved["boxes"].shape, saved["logits"].shape) == ((2000, 4), (2000, 80))


def test_a_wrong_detection_is_noticed() -> None:
    from detection_reference import candidates, detect
    from detection_tail import differences

    boxes, scores, classes = detect(*candidates(500))
    assert differences((boxes, scores, classes), (boxes, scores, classes)) == []
    assert differences((boxes[::-1], scores, classes), (boxes, scores, classes)) == ["boxes: other values"]
    assert differences((boxes, scores + 1e-3, classes), (boxes, scores, classes)) == ["scores: other values"]
    want = f"classes: int32[{len(scores) - 1}] instead of int32[{len(scores)}]"
    assert differences((boxes, scores, classes[:-1]), (boxes, scores, classes)) == [want]


# ---- the digits ------------------------------------------------------------------------------------------------


def test_the_digits_are_the_data_set() -> None:
    from digits import load

    images, labels, weights = load()
    assert images.shape == (1797, 64) and images.dtype == np.float32 and images.min() == 0 and images.max() == 1
    # how often each digit occurs, as the data set's description says
    assert np.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert {name: w.dtype for name, w in weights.items()} == dict.fromkeys(("w1", "b1", "w2", "b2"), np.dtype("float32"))


def test_the_weights_reach_95_percent_on_the_held_out_half() -> None:
    from digits import FIRST_HELD_OUT, LEAST_ACCURACY, load
    from train import accuracy

    images, labels, weights = load()
    assert accuracy(weights, images[FIRST_HELD_OUT:], labels[FIRST_HELD_OUT:]) >= LEAST_ACCURACY


@pytest.mark.quick(device=[HOST])
@pytest.mark.parametrize("device", DEVICES)
def test_digits(device: str, tmp_path: Path) -> None:
    from PIL import Image

    done = run(EXAMPLES / "digits.py", "--device", device, "--digit", "7", "--out", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert float(re.search(r"held-out half: ([\d.]+)%", done.stdout)[1]) >= 95
    assert "with no images at all: 0 found, mean of shape (8, 6), all zero: True" in done.stdout
    image = np.asarray(Image.open(tmp_path / "mean_7.png"))
    assert image.shape == (8 * 32, 6 * 32) and image.dtype == np.uint8
    assert image[16, 96] > 128 > image[-16, -16]  # the bar of the seven is bright, the corner below right is not


# ---- the README ------------------------------------------------------------------------------------------------


def test_the_readme_programs_run(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text()
    of_onnx, of_text = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (install,) = re.findall(r"```sh\n(pip install [^\n]*\n)```", text)
    x = np.random.default_rng(0).normal(size=(1000, 4)).astype("float32")
    expected = [
        (of_onnx, install, ["(5, 4)", "(8400, 4)", "(0, 4)"]),
        (of_text, "", [f"({(x.sum(axis=1) > 2).sum()}, 4)", "(0, 4)"]),
    ]
    for number, (program, extras, lines) in enumerate(expected):
        folder = tmp_path / str(number)
        folder.mkdir()
        done = run("-c", program, env=environment_with(extras_of(extras), folder))
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == lines


def test_every_target_of_the_readme_exists() -> None:
    text = (ROOT / "README.md").read_text()
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"`?make ([a-z]+)\b", text))
    assert {"demo", "test"} <= targets
    assert not [t for t in targets if not re.search(rf"^{t}:", makefile, re.MULTILINE)]


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl on this machine")
def test_the_server_of_the_readme_answers(tmp_path: Path) -> None:
    # the set-up of the tests has done the installation
    (block,) = re.findall(r"```sh\n(pip install [^\n]*serve[^\n]*\n.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    commands = block.partition("\n")[2]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert commands.count("serve rows.relay &") == 1 and commands.count(":8000/") == 2
    commands = commands.replace("serve rows.relay &", f"serve rows.relay --port {port} --grpc-port 0 &").replace(
        ":8000/", f":{port}/"
    )
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", commands], cwd=tmp_path, env={**environment_with(extras_of(block), tmp_path), "PATH": path},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    (line,) = [x for x in done.stdout.splitlines() if '"outputs"' in x]
    (output,) = json.loads(line)["outputs"]
    assert (output["shape"], output["data"]) == ([2, 2], [0.5] * 4), done.stderr
