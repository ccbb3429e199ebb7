"""What every test needs: one cache of compiled kernels that lives between runs, and properties without a clock."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[1]

# Compiling a kernel takes tenths of a second: all workers, and the processes that tests start, share one store.
os.environ.setdefault("RELAYVM_CACHE_DIR", str(ROOT / ".cache" / "relayvm"))

# Every pass checks what it made.
os.environ.setdefault("RELAYVM_CHECK", "1")

# The machines this runs on are shared and slow; a property that compiles something must not fail for it.
settings.register_profile("relayvm", deadline=None)
# Where nobody looks on, the same examples every time: a new find there would stop a change that has nothing to do with it.
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "relayvm")


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--device cuda``: a device more, for every test that runs on all of them (see ``devices``)."""
    parser.addoption("--device", action="append", default=[], help="a device to test besides those of RELAYVM_TEST_DEVICES")


def pytest_configure(config: pytest.Config) -> None:
    """Before any test module is imported."""
    named = [*os.environ.get("RELAYVM_TEST_DEVICES", "cpu,sim").split(","), *config.getoption("--device")]
    os.environ["RELAYVM_TEST_DEVICES"] = ",".join(dict.fromkeys(filter(None, named)))
