"""docs/copies.md: the figures of its script, and no copies to the host for 60 chains of shapes."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from ...golden_texts import Golden

SCRIPT = Path(__file__).resolve().parents[3] / "benchmarks" / "copies.py"


@pytest.fixture(scope="module")
def copies() -> ModuleType:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("copies_benchmark", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.extensive
def test_the_page_and_the_program_are_fresh(copies: ModuleType, golden: Golden) -> None:
    found = copies.measure()
    golden.check(copies.PROGRAM, copies.program())
    golden.check(copies.PAGE, copies.page(found))
    numbers = [found[name].dtoh_copies for name in ("op", "relay", "input", "input + place")]
    assert numbers == sorted(numbers, reverse=True) and len(set(numbers)) == 4
    assert numbers[2] >= 4 * copies.LAYERS and numbers[3] == 0
    assert found["input + place"].dtoh_bytes == found["input + place"].syncs == 0
