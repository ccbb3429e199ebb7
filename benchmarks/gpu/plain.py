"""The GPU without a machine: copies, launches and waits by the driver's own functions."""

from __future__ import annotations

import ctypes

import numba
import numpy as np

from relayvm.vm.devices.cuda.driver_api.driver import DRIVER, addresses
from relayvm.vm.devices.cuda.session import Session

from .contest import Contestant

_EMPTY = 'extern "C" __global__ void empty(int64* x) { if (x != nullptr) x[0] = 1; }'


class Gpu:
    """One stream and two blocks of memory of ``nbytes`` each."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self._session = Session(0)
        self.device = self._session.device
        self.device.make_current()
        self._driver = self.device.driver
        self._stream, pool = int(self._session.record["compute"]), int(self._session.record["pool"])
        self._blocks = [
            self._driver.get("cuMemAllocFromPoolAsync", nbytes, pool, self._stream) for _ in range(2 if nbytes else 0)
        ]
        for block in self._blocks:
            self._driver.call("cuMemsetD8Async", block, 1, nbytes, self._stream)
        self.wait()

    def close(self) -> None:
        """Give the memory back."""
        self.device.make_current()
        for block in self._blocks:
            self._driver.call("cuMemFreeAsync", block, self._stream)
        self.wait()
        self._session.close()

    def wait(self) -> None:
        """Until everything asked for is done."""
        self.device.make_current()
        self._driver.call("cuStreamSynchronize", self._stream)

    def copies(self) -> Contestant:
        """Copies of one block to the other: each reads and writes ``nbytes``."""
        to, source = self._blocks

        def copy() -> None:
            self._driver.call("cuMemcpyDtoDAsync", to, source, self.nbytes, self._stream)

        self.device.make_current()
        return Contestant(copy, self.wait)

    def launches(self) -> Contestant:
        """Launches of a kernel that does nothing."""
        function = self.device.functions(_EMPTY, {"empty": False})["empty"]
        words, size = np.zeros(1, np.int64), np.array([8], np.int64)
        extra = np.array([1, words.ctypes.data, 2, size.ctypes.data, 0], np.int64)
        sizes = (1, 1, 1, 32, 1, 1, 0)

        def launch(kept: tuple[np.ndarray, ...] = (words, size, extra)) -> None:
            self._driver.call("cuLaunchKernel", function, *sizes, self._stream, 0, kept[2].ctypes.data)

        self.device.make_current()
        return Contestant(launch, self.wait)

    def chains(self, count: int) -> Contestant:
        """``count`` launches of that kernel from machine code, one after the other: the least that a host can spend on them."""
        function = self.device.functions(_EMPTY, {"empty": False})["empty"]
        words, size = np.zeros(1, np.int64), np.array([8], np.int64)
        extra = np.array([1, words.ctypes.data, 2, size.ctypes.data, 0], np.int64)
        declared = DRIVER["cuLaunchKernel"]
        address = addresses(self._driver.library)[declared.index]
        launch = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * declared.n_args)(address)
        stream = self._stream

        @numba.njit
        def many(count: int, extra: int) -> None:
            for _ in range(count):
                launch(function, 1, 1, 1, 32, 1, 1, 0, stream, 0, extra)

        def run(kept: tuple[np.ndarray, ...] = (words, size, extra)) -> None:
            many(count, kept[2].ctypes.data)

        self.device.make_current()
        return Contestant(run, self.wait)
