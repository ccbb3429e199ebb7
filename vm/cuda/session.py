"""One machine on one card: its streams, memory pool and tables, and what of its work goes through Python."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ...ops.group import Group
from ...ops.kernels.cuda import cuda_source
from ...ops.kernels.cuda.source import CudaSource, Launch
from ...ops.native import nvrtc, store
from ..source import VMError
from . import provider as providers
from .card import card
from .device import FORKED, FORKED_HELP, FORKED_TEXT, CudaError, Device, device, library_function
from .driver import NoCuda
from .launches import Places, Plan, plan
from .layout import CARD, GRAPH, GRAPHS, OUT_WORDS
from .lending import Lending
from .provider import Borrowed

#: Regions of launches that are remembered.
_GRAPH_LIMIT = 64
#: Streams that do not wait for the process's default stream.
_NON_BLOCKING = 1
_PORTABLE, _MAPPED = 1, 2
_RELEASE_THRESHOLD = 4
_KEEP_ALL = (1 << 63) - 1
#: Workspace for cuBLAS, in bytes, so that it allocates nothing itself (what its guide asks for on the newest cards).
_CUBLAS_WORKSPACE_BYTES = 32 << 20
#: Its default, but that parts of a sum are not rounded to a 16-bit result before they are added.
_FULL_SUMS = 16


#: Every session of this process, to say who holds what.
_open: weakref.WeakSet[Session] = weakref.WeakSet()


def _cut_off_all() -> None:
    """In a forked process: no machine launches anything."""
    for each in list(_open):
        each.record["error"] = FORKED


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_cut_off_all)


@functools.cache
def card_address() -> int:
    """The address of the card's services."""
    return store.address_of(card, "int64(int64, int64, int64, int64, int64, int64)", "the machine's side of a card")


class Session:
    """A machine's part of a card.  Raises NoCuda with the reason in one line.

    ``record``: the CARD record that machine code works with.
    """

    def __init__(self, ordinal: int, graphs: str = "auto") -> None:
        self.device: Device = device(ordinal)
        self._provider, self._driver = providers.provider, self.device.driver
        self._handles: dict[str, int] = {}
        self._closing: list[Callable[[], None]] = []
        self._plans: list[Plan] = []
        self._borrowed: list[Borrowed] = []
        self._owners: set[int] = set()
        self._block = np.zeros(1, CARD)
        self.record = self._block[0]
        self.address = self._block.ctypes.data
        self._out = np.zeros(OUT_WORDS, np.int64)
        self._rows = np.zeros(_GRAPH_LIMIT, GRAPH)
        self._scratch = np.zeros(1, np.int64)
        self._slots = np.zeros(1, np.int64)
        self.lending = Lending(self.device, self.record)
        with self.device.entered():
            self._open(graphs)

    def _open(self, graphs: str) -> None:
        record, driver = self.record, self._driver
        record["driver"], record["context"] = driver.table(), self.device.context
        record["out"], record["graph_rows"], record["graph_limit"] = self._out.ctypes.data, self._rows.ctypes.data, _GRAPH_LIMIT
        record["graphs"] = GRAPHS[graphs]
        for stream in ("compute", "copies"):
            record[stream] = driver.get("cuStreamCreate", _NON_BLOCKING)
            self._later("cuStreamDestroy", int(record[stream]))
        record["pool"] = self._new_pool()
        self._later("cuMemPoolDestroy", int(record["pool"]))
        record["fault"] = driver.get("cuMemHostAlloc", 8, _PORTABLE | _MAPPED)
        self._later("cuMemFreeHost", int(record["fault"]))
        ctypes.memset(int(record["fault"]), 0, 8)

    def _later(self, function: str, argument: int) -> None:
        """Give something back to the driver when the session ends."""
        # nothing in there knows the session: a cycle would keep its memory until the garbage collector comes
        self._closing.append(functools.partial(self._driver.call, function, argument))

    def _new_pool(self) -> int:
        """A memory pool that keeps what it has: giving it back to the system at every wait would cost more than the work."""
        properties = np.zeros(11, np.int64)
        properties.view(np.int32)[[0, 2, 3]] = 1, 1, self.device.ordinal  # plain memory, on a device, this one
        pool = self._driver.get("cuMemPoolCreate", properties.ctypes.data)
        keep = np.array([_KEEP_ALL], np.int64)
        self._driver.call("cuMemPoolSetAttribute", pool, _RELEASE_THRESHOLD, keep.ctypes.data)
        return pool

    def close(self) -> None:
        """Give streams, pool and handles back.  After an error of the card they went with its context."""
        with contextlib.suppress(CudaError), self.device.entered():
            for give_back in reversed(self._closing):
                with contextlib.suppress(CudaError, NoCuda):
                    give_back()
        self._closing.clear()

    def __del__(self) -> None:
        if getattr(self, "_closing", None):
            self.close()

    # ---- launches --------------------------------------------------------------------------------------------------

    def attach(self, state: Any, address: int) -> None:
        """Let the machine whose STATE record this is work with the card."""
        state["card"], state["card_record"] = card_address(), self.address
        self.record["state"] = address
        self._state = state
        _open.add(self)

    def plans(self, groups: Iterable[Group]) -> list[tuple[int, CudaSource]]:
        """For each group the address of its launches' words (0: it goes through Python), and its source."""
        sources = [(group, cuda_source(group)) for group in groups]
        nvrtc.compile_all(
            [(s.text, self.device.architecture) for _, s in sources if s.text], [g.name for g, s in sources if s.text]
        )
        with self.device.entered():
            found = [(0 if source.python else self._plan(group, source), source) for group, source in sources]
        self._slots = np.zeros(max([p.n_slots for p in self._plans] + [1]), np.int64)
        self._scratch = np.zeros(max([p.n_scratch for p in self._plans] + [1]), np.int64)
        self.record["slots"], self.record["workspaces"] = self._slots.ctypes.data, self._scratch.ctypes.data
        return found

    def _plan(self, group: Group, source: CudaSource) -> int:
        launches = [s for s in source.steps if isinstance(s, Launch)]
        functions = self.device.functions(source.text, {s.entry: s.shared_bytes != 0 for s in launches}) if launches else {}
        made = plan(group, source, Places(functions.__getitem__, self._library_function, self._handle))
        self._plans.append(made)
        return made.words.ctypes.data

    def _library_function(self, name: str) -> int:
        assert name.startswith("cublas"), name
        return library_function("cublas", name)

    def _handle(self, library: str) -> int:
        """The handle of a library on this machine's stream, made once.  Raises NoCuda."""
        assert library == "cublas", library
        if library not in self._handles:
            self._handles[library] = self._new_cublas()
        return self._handles[library]

    def _new_cublas(self) -> int:
        handle = ctypes.c_int64(0)
        _cublas("cublasCreate_v2", ctypes.addressof(handle))
        _cublas("cublasSetStream_v2", handle.value, int(self.record["compute"]))
        _cublas("cublasSetMathMode", handle.value, _FULL_SUMS)
        stream, pool = int(self.record["compute"]), int(self.record["pool"])
        workspace = self._driver.get("cuMemAllocFromPoolAsync", _CUBLAS_WORKSPACE_BYTES, pool, stream)
        # what comes last is given back first
        self._closing.append(functools.partial(self._driver.call, "cuMemFreeAsync", workspace, stream))
        self._closing.append(functools.partial(_cublas, "cublasDestroy_v2", handle.value))
        _cublas("cublasSetWorkspace_v2", handle.value, workspace, _CUBLAS_WORKSPACE_BYTES)
        return handle.value

    # ---- arrays of other libraries ---------------------------------------------------------------------------------------------

    def holds(self, value: Any) -> bool:
        """Is this another library's array on this card?"""
        return self._provider.is_here(value, self.device.ordinal)

    def borrow(self, value: Any) -> Borrowed:
        """Another library's array, in place and contiguous, for a call that keeps it: see ``keep``.

        Raises VMError while its owner's stream is captured, and for a stream that is none.
        """
        owner = self._provider.stream_of(value, self.device.ordinal)
        with self.device.entered():
            if owner is not None and self._is_captured(owner):
                raise VMError(
                    "an argument's owner captures a graph: what the machine launches cannot become a part of it",
                    help="run the program before the capture, or pass a numpy array",
                )
            with self._provider.on_stream(int(self.record["compute"]), self.device.ordinal):
                found = self._provider.borrow(value)
        if owner is not None:
            self._owners.add(owner)
        return found

    def keep(self, arguments: Any) -> None:
        """Keep what was borrowed among the arguments of a call, in tuples too, until ``forget_borrowed``."""
        for value in arguments:
            if isinstance(value, Borrowed):
                self._borrowed.append(value)
            elif isinstance(value, tuple):
                self.keep(value)

    def _is_captured(self, owner: int) -> bool:
        try:
            return self.lending.is_captured(owner)
        except CudaError as error:
            raise VMError(f"the stream of an argument's owner cannot be used: {error}") from None

    def hand_back(self) -> None:
        """Order what the owners of borrowed arrays launch from now on behind what is launched so far: they may overwrite them."""
        owners, self._owners = self._owners, set()
        if not int(self.record["error"]):
            with contextlib.suppress(CudaError):  # whoever waits for the results is told
                for stream in owners:
                    self.lending.lead(stream)

    def forget_borrowed(self) -> None:
        """Let go of what was borrowed, between two calls, once the host has waited for what may read it."""
        self.lending.settle()
        if not int(self._state["outstanding"]):
            self._borrowed.clear()

    # ---- work that goes through Python -------------------------------------------------------------------------------------

    def run_python(self, source: CudaSource, tensors: Sequence[tuple[int, tuple[int, ...], str]]) -> None:
        """Let ``source.python`` enqueue its work on tensors, given as address, shape and dtype."""
        assert source.python is not None
        ordinal, stream = self.device.ordinal, int(self.record["compute"])
        with self.device.entered(), self._provider.on_stream(stream, ordinal):
            arrays = [self._provider.array(*t, ordinal) for t in tensors]
            source.python(Tools(self, source.text), *arrays, **dict(source.attributes))

    def fill(self, address: int, array: np.ndarray) -> None:
        """Copy a host array to the card, in the order of the launches.  Raises CudaError."""
        if array.nbytes:
            with self.device.entered():
                self._driver.call("cuMemcpyHtoDAsync", address, array.ctypes.data, array.nbytes, int(self.record["compute"]))

    def memory_text(self) -> str:
        """Who holds the card's memory: this machine, the other machines of this process, everybody."""
        mine = int(self._state["pool_bytes"])
        others = sum(int(s._state["pool_bytes"]) for s in _open if s is not self and s.device is self.device)
        free, total = self.device.free_bytes()
        rest = max(0, total - free - mine - others)
        return (
            f"of the {total} bytes of {self.device.name} this machine holds {mine}, other machines of this process {others}, "
            f"everything else {rest}; {free} are free"
        )

    @property
    def help(self) -> str:
        """The help for an error of the GPU."""
        if int(self.record["error"]) == FORKED:
            return FORKED_HELP
        return (
            "nothing on the card can be trusted after this: make a new VirtualMachine, after an illegal address in a new "
            "process; compile with debug_sync=on to learn which launch it is"
        )

    def describe_error(self, number: int) -> str:
        """The meaning of an error number of the GPU's record, in a sentence."""
        if number == FORKED:
            return FORKED_TEXT
        return f"the card reports {f'cuBLAS status {-number}' if number < 0 else self._driver.describe(number)}"


def _cublas(function: str, *args: int) -> None:
    """Call a function of cuBLAS.  Raises NoCuda."""
    error = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_int64] * len(args))(library_function("cublas", function))(*args)
    if error:
        raise NoCuda(f"{function} failed with cuBLAS status {error}")


class Tools:
    """What a kernel in Python works with: ``xp``, and the kernels of its text."""

    def __init__(self, session: Session, text: str) -> None:
        self._session, self._text = session, text

    @property
    def xp(self) -> Any:
        """numpy's interface over arrays of the card, on the machine's stream."""
        return self._session._provider.xp

    @property
    def fault(self) -> int:
        """The address of the fault words: see the prelude's ``fail``."""
        return int(self._session.record["fault"])

    def launch(self, entry: str, grid: Sequence[int], block: Sequence[int], *args: Any, shared_bytes: int = 0) -> None:
        """Launch a kernel of the text on arrays and integers.  Raises CudaError.  With an empty grid nothing is launched."""
        grid, block = [*map(int, grid), 1, 1][:3], [*map(int, block), 1, 1][:3]
        if 0 in grid:
            return
        session = self._session
        function = session.device.functions(self._text, {entry: shared_bytes != 0})[entry]
        words = np.array([a if isinstance(a, (int, np.integer)) else _address(a) for a in args], np.int64)
        size = np.array([8 * len(words)], np.int64)
        extra = np.array([1, words.ctypes.data, 2, size.ctypes.data, 0], np.int64)
        stream = int(session.record["compute"])
        session._driver.call("cuLaunchKernel", function, *grid, *block, shared_bytes, stream, 0, extra.ctypes.data)


def _address(array: Any) -> int:
    """Where the elements of an array of cupy or numpy are."""
    return int(array.data.ptr) if hasattr(array.data, "ptr") else int(array.ctypes.data)


__all__ = ["GRAPHS", "NoCuda", "Session", "card_address"]
