"""A real GPU in the place of the emulated one, for the tests that run kernels one by one: ``RELAYVM_EMULATED=0``."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
from collections.abc import Sequence
from typing import Any

from relayvm.ops.codegen.cuda.device_code import nvrtc
from relayvm.ops.codegen.cuda.device_code.prelude import PRELUDE
from relayvm.vm.devices.cuda.driver_api import device
from relayvm.vm.devices.cuda.driver_api.driver import NoCuda
from relayvm.vm.devices.cuda.driver_api.provider import CupyProvider

#: See ``conftest``.
VARIABLE = "RELAYVM_EMULATED"


class RealGpu:
    """The driver, cuBLAS, cuBLASLt, cuDNN if it is installed, and NVRTC, called as the emulated ones are."""

    @functools.cached_property
    def _libraries(self) -> tuple[Any, ...]:
        provider = CupyProvider()
        found = [provider.driver(), provider.library("cublas"), provider.library("cublasLt")]
        with contextlib.suppress(NoCuda):
            found.append(provider.library("cudnn"))
        return tuple(found)

    def __getattr__(self, symbol: str) -> Any:
        """A function of the driver or of a library.  Raises AttributeError."""
        for library in self._libraries:
            if hasattr(library, symbol):
                return getattr(library, symbol)
        raise AttributeError(symbol)

    def compile(self, text: str) -> bytes:
        """The cubin of a text, which may begin with the prelude or not, for this GPU."""
        text = text.removeprefix(PRELUDE)
        return nvrtc.cubin(text, device.device(0).architecture_of(text))

    def text(self, error: int) -> str:
        """The meaning of an error number of the driver."""
        chars = ctypes.c_char_p()
        known = self.cuGetErrorString(error, ctypes.byref(chars)) == 0
        return chars.value.decode() if known and chars.value else ""

    def close(self, stream: int, pool: int, blocks: Sequence[int], modules: Sequence[int]) -> None:
        """Give everything back that a session made; after an error of the GPU that cannot be done, and is not tried twice."""
        word = ctypes.c_uint64
        self.cuStreamSynchronize(word(stream))
        for block in blocks:
            self.cuMemFreeAsync(word(block), word(stream))
        for module in modules:
            self.cuModuleUnload(word(module))
        self.cuStreamSynchronize(word(stream))
        self.cuStreamDestroy_v2(word(stream))
        self.cuMemPoolDestroy(word(pool))


#: The real GPU, where the tests shall run on it.
gpu: RealGpu | None = RealGpu() if os.environ.get(VARIABLE) == "0" else None
