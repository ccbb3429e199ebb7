"""Kernels of tests are compiled without LLVM's optimizations, except for tests that are marked ``optimized``.

LLVM then takes a twentieth of its time.  ``RELAYVM_OPTIMIZE=1`` optimizes the kernels of every test.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from relayvm.ops.native.jit.native_compiler import OPTIMIZE_VARIABLE


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker; processes that tests start inherit the variable."""
    os.environ.setdefault(OPTIMIZE_VARIABLE, "0")
    config.addinivalue_line("markers", "optimized: kernels are compiled with the product's optimizations")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Optimize the kernels of a test that is marked."""
    with pytest.MonkeyPatch.context() as patch:
        if item.get_closest_marker("optimized"):
            patch.setenv(OPTIMIZE_VARIABLE, "1")
        return (yield)
