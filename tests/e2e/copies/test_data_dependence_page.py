"""docs/data-dependence.md: the bytes that each data-dependent operator copies to the host of 16 MiB of data."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from relayvm.shape_funcs.relay_flags import RELAY_FLAGS

from ...golden_texts import Golden

SCRIPT = Path(__file__).resolve().parents[3] / "benchmarks" / "data_dependence.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("data_dependence_benchmark", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def found(script: ModuleType) -> dict[str, Any]:
    return script.measure()  # type: ignore[no-any-return]


@pytest.mark.extensive
def test_flagged_bytes_only(script: ModuleType, found: dict[str, Any]) -> None:
    assert {op.name for op in script.operators()} == set(found)
    for name, crossed in found.items():
        assert crossed.ours == crossed.flagged + crossed.counts, name
        assert crossed.ours < 200, name


@pytest.mark.extensive
def test_relays_flags_bring_the_data(script: ModuleType, found: dict[str, Any]) -> None:
    for name in RELAY_FLAGS:
        assert found[name].relays > found[name].ours, name
    with_data = [n for n, (given, _) in script.CALLS.items() if n in RELAY_FLAGS and max(x.nbytes for x in given) >= script.BYTES]
    assert len(with_data) == len(RELAY_FLAGS) - 1, "all but dyn.full have data"
    for name in with_data:
        assert found[name].relays >= script.BYTES, name


@pytest.mark.extensive
def test_the_page_is_fresh(script: ModuleType, found: dict[str, Any], golden: Golden) -> None:
    golden.check(script.PAGE, script.page(found))
