"""A test that leaves the emulated GPU failed, fails itself: else the next test that opens the GPU would, without the reason."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from . import emulator, platform


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Fail the test with the emulated GPU's text, and reset the GPU."""
    yield
    if found := emulator.failure():
        emulator.reset()
        platform.forget()
        pytest.fail(f"{item.nodeid} leaves the emulated GPU failed: {found}", pytrace=False)
