"""A fixed short slice of every part of the campaign: the same seeds in every run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ..tiers import examples
from .__main__ import PARTS
from .part import load

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.extensive
def test_nothing_is_found(part: str, tmp_path: Path) -> None:
    environment = {**os.environ, **load(part).slice_environment}
    trials = examples(load(part).slice_trials, is_extensive=True)
    options = ["--trials", str(trials), "--jobs", "1", "--out", str(tmp_path)]
    command = [sys.executable, "-m", "tests.campaign", part, *options]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stdout + run.stderr
