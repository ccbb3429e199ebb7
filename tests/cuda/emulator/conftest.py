"""A GPU for each test, and the kernels that they launch.

The tests of the CUDA device use the emulated GPU: it behaves like a GPU, and reports errors.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ...emulator import emulator
from ...emulator.session import Session
from .kernels import KERNELS


@pytest.fixture(scope="session", autouse=True)
def emulated() -> None:
    if reason := emulator.available():
        pytest.skip(reason)


@pytest.fixture(scope="session")
def image() -> bytes:
    return emulator.compile(KERNELS)


@pytest.fixture(scope="session")
def checked() -> bytes:
    """The kernels compiled to be checked."""
    return emulator.compile(KERNELS, checked=True)


@pytest.fixture
def gpu() -> Iterator[Session]:
    with Session() as session:
        yield session
