"""The machine's view of the emulated GPU: plugged in where GPUs are opened with the system's driver and cupy."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from relayvm.ops.codegen.cuda.device_code import nvrtc
from relayvm.vm.devices.cuda.driver_api import device, provider

from . import emulator, proof


class EmulatedProvider:
    """The emulated driver, which is its own cuBLAS and cuDNN; numpy over its memory."""

    def driver(self) -> ctypes.CDLL:
        return emulator.library()

    def library(self, name: str) -> ctypes.CDLL:
        return emulator.library()

    @contextlib.contextmanager
    def on_stream(self, stream: int, ordinal: int) -> Iterator[None]:
        # numpy works at once, so what is queued has to have run, and what is launched in between runs at once
        with emulator.at_once(stream):
            yield

    def is_on_gpu(self, value: Any, ordinal: int) -> bool:
        return isinstance(value, Foreign)

    def stream_of(self, value: Any, ordinal: int) -> int | None:
        return value.stream

    def borrow(self, value: Any) -> provider.Borrowed:
        if value.stream is not None:  # what makes the array has run when the machine's stream reads it
            emulator.library().emulator_run(ctypes.c_uint64(value.stream))
        return provider.Borrowed(value.address, value.shape, value.dtype, value)


@dataclass(frozen=True)
class Foreign:
    """An array of another library on the emulated GPU, which works on ``stream``."""

    address: int
    shape: tuple[int, ...]
    dtype: str
    stream: int | None = None


def forget() -> None:
    """Forget every GPU that was opened."""
    for cached in (device.driver, device.device, device._library):
        cached.cache_clear()


def _proven(cubin: Callable[..., bytes]) -> Callable[..., bytes]:
    """``cubin`` for the emulated GPU, of texts that NVRTC compiles too."""

    def proven(text: str, *args: Any, **named: Any) -> bytes:
        proof.prove(text)
        return cubin(text, *args, **named)

    return proven


@contextlib.contextmanager
def plugged_in(proven: bool = True) -> Iterator[None]:
    """While this is open, ``cuda`` is the emulated GPU, fresh; fresh again afterwards, whatever failed on it.

    ``proven``: NVRTC compiles each text, too.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(provider, "provider", EmulatedProvider())
        patch.setattr(nvrtc, "compiler", emulator.Compiler())
        if proven:
            patch.setattr(nvrtc, "cubin", _proven(nvrtc.cubin))
        emulator.reset()
        forget()
        try:
            yield
        finally:
            emulator.reset()
            forget()
