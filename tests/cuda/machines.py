"""Machines on the emulated GPU: programs, streams and calls of another library."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.vm.api.machine import VirtualMachine

from ..emulator.platform import plugged_in
from ..programs import HEADER

CHAIN = "def @main(%x: Tensor[(?n), float32]) {{ {} }}".format(
    " ".join(["let %y0 = %x;", *(f"let %y{i} = nn.relu(%y{i - 1}) * 1.5f;" for i in range(1, 9)), "%y8"])
)
COUNTED = "def @main(%x: Tensor[(?n), float32]) { argwhere(greater(%x, 0f)) }"
DIVIDE = "def @main(%x: Tensor[(?n), int32], %y: Tensor[(?n), int32]) { floor_divide(%x, %y) + 1 }"


@pytest.fixture(autouse=True)
def gpu() -> Iterator[None]:
    with plugged_in():
        yield
        gc.collect()


def machine(text: str, device: str | None = None, limit: int | None = None, **config: Any) -> VirtualMachine:
    return VirtualMachine(relay.compile(HEADER + text, target="cuda", **config), device, memory_limit_bytes=limit)


def new_stream(vm: VirtualMachine) -> int:
    """A stream of another library."""
    assert vm._runtime.session is not None
    with vm._runtime.session.device.as_current():
        return vm._runtime.session._driver.get("cuStreamCreate", 1)


def driver(vm: VirtualMachine, function: str, *args: int) -> None:
    """Calls of the driver that another library makes."""
    assert vm._runtime.session is not None
    with vm._runtime.session.device.as_current():
        vm._runtime.session._driver.call(function, *args)


def chain(x: np.ndarray) -> np.ndarray:
    for _ in range(8):
        x = np.maximum(x, 0) * np.float32(1.5)
    return x
