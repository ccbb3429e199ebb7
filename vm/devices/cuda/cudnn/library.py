"""cuDNN for a session: the handle on its stream, the records and tables that machine code works with."""

from __future__ import annotations

import ctypes
import functools
import warnings
from collections.abc import Callable

import numpy as np

from .....ops.codegen.cuda.cuda_program import Convolution
from ..driver_api.driver import NoCuda
from .layout import CONVOLUTION, CONVOLUTIONS, PACK, PACK_ROWS, PLAN_ROW, PLAN_ROWS
from .plans import BLOCK_WORDS

#: Fields of CONVOLUTIONS that are functions.
_FUNCTIONS = {
    "create": "cudnnBackendCreateDescriptor",
    "destroy": "cudnnBackendDestroyDescriptor",
    "finalize": "cudnnBackendFinalize",
    "set": "cudnnBackendSetAttribute",
    "get": "cudnnBackendGetAttribute",
    "execute": "cudnnBackendExecute",
}
#: The oldest version with which the numbers of descriptors and attributes were compared.
_OLDEST = 90000

#: The operators for which a missing library has been reported: once in a process.
_REPORTED: set[str] = set()


class ConvolutionLibrary:
    """The library on the current GPU and the session's ``stream``, with a workspace.  Raises NoCuda.

    ``find`` is the lookup of the library's functions.  ``on_close`` takes the function that destroys the handle.
    ``tf32``: whether factors of float32 may be rounded to TF32.
    """

    def __init__(
        self,
        find: Callable[[str], int],
        stream: int,
        workspace: int,
        nbytes: int,
        on_close: Callable[[Callable[[], None]], None],
        tf32: bool = False,
    ) -> None:
        version(find)
        self._find = find
        self._rows, self._packs = np.zeros(PLAN_ROWS, PLAN_ROW), np.zeros(PACK_ROWS, PACK)
        self._scratch, self._block = np.zeros(BLOCK_WORDS, np.int64), np.zeros(1, CONVOLUTIONS)
        self._records: dict[tuple[object, ...], np.ndarray] = {}
        record = self._block[0]
        for field, symbol in _FUNCTIONS.items():
            record[field] = find(symbol)
        cell = ctypes.c_int64(0)
        self._call("cudnnCreate", ctypes.addressof(cell))
        record["handle"] = cell.value
        on_close(functools.partial(self._call, "cudnnDestroy", cell.value))
        self._call("cudnnSetStream", cell.value, stream)
        record["workspace"], record["workspace_bytes"], record["tf32"] = workspace, nbytes, tf32
        record["rows"], record["packs"] = self._rows.ctypes.data, self._packs.ctypes.data
        record["block"] = self._scratch.ctypes.data

    @property
    def address(self) -> int:
        """The address of the record CONVOLUTIONS."""
        return self._block.ctypes.data

    def convolution(self, step: Convolution) -> int:
        """The address of the record CONVOLUTION: equal convolutions have the same, and so the same plans."""
        numbers = step.stride, step.dilation, step.before
        content = (step.axes, step.channels_last, step.is_transposed, *step.types, step.compute, *numbers)
        if content not in self._records:
            self._records[content] = np.array([content], CONVOLUTION)
        return self._records[content].ctypes.data

    def _call(self, function: str, *args: int) -> None:
        """Call a function of the library.  Raises NoCuda."""
        error = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_int64] * len(args))(self._find(function))(*args)
        if error:
            raise NoCuda(f"{function} failed with cuDNN status {error}")


def version(find: Callable[[str], int]) -> str:
    """The version of the library, as ``9.28.1``.  Raises NoCuda if it is too old."""
    number = ctypes.CFUNCTYPE(ctypes.c_size_t)(find("cudnnGetVersion"))()
    if number < _OLDEST:
        raise NoCuda(f"cuDNN 9 or newer is needed; this is {number // 1000}.{number % 1000 // 100}")
    return f"{number // 10000}.{number % 10000 // 100}.{number % 100}"


def report_missing(op: str, taken: str, why: str) -> None:
    """Warn that the operator's implementation ``taken`` runs in place of the library, once for each operator."""
    if op not in _REPORTED:
        _REPORTED.add(op)
        warnings.warn(f"{op}: {taken!r} runs in place of 'cudnn': {why}", RuntimeWarning, stacklevel=2)
