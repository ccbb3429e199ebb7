"""The virtual machine: an executable, its memory, and the calls into the native loop."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ops.native import store
from ..ops.native.layout import TAG_ADT, TAG_TENSOR
from ..ops.native.memory import ARRAYS, alloc, load_i64
from ..ops.native.memory import tensor as record_at
from ..ops.native.status import DEVICE_ERROR, OUT_OF_MEMORY, RESULT_LOST
from ..ops.ty import DTYPES, FuncType, TensorType, TupleType, Type
from . import door, poison, requests, threads
from .arguments import lost, object_of, prepare
from .donation import donated
from .events import Event, read_events
from .executable import DEVICES, Executable, VMFunction
from .failure import card_failed, failure, memory_help
from .given import a_text, wrong
from .layout import (
    BUSY,
    COUNTERS,
    CUDA,
    DONE,
    FAILED,
    FRAME_WORDS,
    HOST_CALL,
    OUT_OF_FUEL,
    STATE,
    TRACE_EVENTS,
    TRACE_OFF,
    TRACE_TYPES,
)
from .program import Tables
from .python_kernels import call_python
from .signature import Fitting, named_dims, parameter_table, positional
from .sim import is_lost
from .source import ConfigError, VMError
from .sync_reason import SYNC_REASONS, SyncReason, number_of
from .tensor import Tensor
from .verify import verify

if TYPE_CHECKING:
    from .cuda.lending import Lent
    from .cuda.session import Session
    from .report.profiling import Collector, Profile

_STACK_WORDS = 1 << 13
_NO_EXECUTABLE = "relay.compile makes one of a program"


class Entry:
    """A function of the program, to be called: ``vm["main"](x, y)`` or ``vm["main"](x=x, y=y)``.

    ``vm["main"](x, y, donate=["x"])`` lets the program write over the array ``x``, whose elements are anything afterwards.
    """

    __slots__ = ("_enter", "_handle", "_machine", "_table", "function")

    def __init__(self, machine: VirtualMachine, index: int) -> None:
        self.function: VMFunction = machine.exe.functions[index]
        self._machine = machine
        self._table = parameter_table(self.function, machine._device)
        self._enter: Any = None
        if self._table is not None and door.arrays_are_readable():
            ty = self.function.result
            result = (ty.rank, DTYPES.index(ty.dtype)) if isinstance(ty, TensorType) else (-1, -1)
            self._handle = door.handle_of(machine._state, index, self._table, len(named_dims(self.function)), result)
            self._enter = door.builtin(door.enter, self._handle)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Run.  The result: a Tensor, or a (nested) tuple of them.

        Raises InputError for arguments that do not fit, VMError for what fails while the program runs.
        """
        if named:
            # a parameter may have that name
            given = named.pop("donate", ()) if all(name != "donate" for name, _ in self.function.params) else ()
            args = positional(self.function, args, named)
            if given:
                return self._machine._call(self.function, args, given)
        if self._enter is not None:
            try:
                address = self._enter(*args)
            except BaseException:  # it raises nothing itself: Ctrl-C came while it ran
                self._machine._abandon()
                raise
            if address > 0:
                return Tensor(self._machine, address)
            return self._machine._go_on(self.function, args, address)
        return self._machine._call(self.function, args)


class VirtualMachine:
    """Runs an executable.  One machine is used by one thread at a time; any number share an executable.

    ``device``: the executable's target (None), by name.  ``memory_limit_bytes``: most storage held at once (None: no
    limit).  ``stack_limit_bytes``: how deep calls may nest.  ``link_bytes_per_s``: speed of the link to the ``sim``
    device (0: that of memory).  For ``cuda`` the name may say which card, counted from 0: ``cuda:1``.

    The executable's configuration says ``graphs``, ``bulk`` and ``debug_sync`` (see the compiler's configuration keys).

    Raises ConfigError for another device, and in one line where there is no such card; ExecutableFormatError for an
    executable that does not verify.
    """

    def __init__(
        self,
        exe: Executable,
        device: str | None = None,
        *,
        memory_limit_bytes: int | None = None,
        stack_limit_bytes: int = 64 << 20,
        link_bytes_per_s: int = 0,
    ) -> None:
        if not isinstance(exe, Executable):
            help = "VirtualMachine(Executable.load(path))" if isinstance(exe, (str, os.PathLike)) else _NO_EXECUTABLE
            raise wrong("VirtualMachine: the program", "an Executable", exe, help)
        name, ordinal = card_number(None if device is None else a_text(device, "VirtualMachine: the device"))
        if name is not None and name != exe.target:
            known = "" if device in DEVICES else f" (there is no device {device!r}; devices: {', '.join(DEVICES)})"
            raise ConfigError(
                f"the executable was compiled for {exe.target!r}, not {device!r}{known}", help="compile for it: target=..."
            )
        verify(exe)
        self.exe = exe
        self.device = exe.target
        self.memory_limit_bytes = memory_limit_bytes
        self._device = DEVICES.index(exe.target)
        with store.watched() as prepared:
            self._session, self._tables = _opened(exe, ordinal)
        threads.prepare()
        #: What making the machine took from the store of compiled kernels, and what had to be compiled.
        self.prepared: tuple[store.Use, ...] = tuple(prepared)
        self._host_events: list[Event] = []
        block = np.zeros(1, STATE)
        self._view = block[0]
        self._block, self._state = block, block.ctypes.data
        self._counted = block.view(np.int64)[STATE.fields[COUNTERS[0]][1] // 8 :][: len(COUNTERS)]
        self._fill_state(stack_limit_bytes, memory_limit_bytes, link_bytes_per_s)
        if self._session is not None:
            self._session.attach(self._view, self._state)
        self._locked = door.machine(with_lock=True)
        self._unlocked = door.machine(with_lock=False)
        self._export = door.exporter()
        self._as_array = door.array_maker()
        self._give_up_handle = door.handle_of(self._state, 0, np.zeros((0, door.PARAMETER_WORDS), np.int64), 0, (-1, -1))
        self._give_up = door.builtin(door.give_up, self._give_up_handle)
        self._closer = door.closer(self._state, len(exe.constants), (block, self._tables))
        self._entries: dict[str, Entry] = {}
        #: ``run(*args, **named)`` calls ``main``: see Entry.
        self.run: Callable[..., Any] = self["main"] if "main" in self.entries else self._no_main

    def _fill_state(self, stack_limit_bytes: int, memory_limit_bytes: int | None, link_bytes_per_s: int) -> None:
        state, tables = self._view, self._tables
        for name in (
            "code", "functions", "packed", "shape_programs", "constants", "libraries", "slots", "argv",
            "reason_kinds", "sync_counts",
        ):  # fmt: skip
            state[name] = getattr(tables, name).ctypes.data
        # the first frame of a run is there without asking
        words = max([_STACK_WORDS, *(f.n_registers + 2 * FRAME_WORDS for f in self.exe.functions)])
        state["stack"], state["stack_words"] = alloc(8 * words), words
        state["stack_limit"] = max(stack_limit_bytes // 8, words)
        state["limit_bytes"] = (1 << 62) if memory_limit_bytes is None else memory_limit_bytes
        state["link_bytes_per_s"] = link_bytes_per_s
        state["team"] = threads.team()
        state["poison"] = os.environ.get(poison.VARIABLE, "0") != "0"
        state["error_pc"] = -1
        config = self.exe.config
        if config.get("bulk") == "off" or config.get("debug_sync") == "on":
            state["wait_each"] = 1 + number_of(SyncReason.EACH_LAUNCH)
        self._starts = tables.starts

    # ---- calling ---------------------------------------------------------------------------------------------------

    @property
    def entries(self) -> tuple[str, ...]:
        """The names of the functions that may be called."""
        return tuple(f.name for f in self.exe.functions)

    def __getitem__(self, name: str) -> Entry:
        """The function ``name``.  Raises ConfigError that lists the functions there are."""
        if not isinstance(name, str) or name not in self._entries:
            if a_text(name, "the function's name") not in self.entries:
                raise _unknown_entry(name, self.entries)
            self._entries[name] = Entry(self, self.exe.function_index(name))
        return self._entries[name]

    def _no_main(self, *args: Any, **named: Any) -> Any:
        raise _unknown_entry("main", self.entries)

    def _call(self, function: VMFunction, args: tuple[Any, ...], donate: Any = ()) -> Any:
        """Call a function the slow way: any argument type, words for what does not fit, and arguments that are donated."""
        args = positional(function, args, {})
        state = self._view
        if state["busy"]:
            raise _busy()
        if self._session is not None:
            self._session.forget_borrowed()
        fitting = Fitting(function)
        devices = [function.device_of(i, self._device) for i in range(len(args))]
        rows = zip(function.params, args, devices, strict=True)
        prepared = [prepare(self, fitting, name, ty, value, device) for (name, ty), value, device in rows]
        given = donated(function, donate, args, prepared)
        state["busy"], state["owner"], state["result"] = 1, threading.get_ident(), 0
        held: list[int] = []
        try:
            for i, (p, device) in enumerate(zip(prepared, devices, strict=True)):
                held.append(object_of(self, p, device, i in given))
        except BaseException:
            for at in held:
                self._locked(self._state, requests.RELEASE, at, 0)
            state["busy"] = 0
            raise
        self._tables.argv[: len(held)] = held
        self._locked(self._state, requests.OPEN, self.exe.function_index(function.name), len(held))
        state["reason"] = OUT_OF_FUEL  # the loop has not begun
        try:
            return self._finish(function)
        finally:
            if self._session is not None:
                self._session.hand_back()

    def _wait(self, why: SyncReason | None) -> None:
        """Wait for the device, between two calls; without a reason it counts for nothing.  Raises VMError when that fails."""
        state = self._view
        state["pc"] = state["error_pc"] = -1
        state["status"] = self._locked(self._state, requests.WAIT, number_of(why) if why else -1, 0)
        if state["status"]:
            raise failure(self)

    def _some(self, at: int, what: str = "the arguments") -> int:
        """The address of a fresh object.  Raises VMError where it is 0: there was no memory."""
        if not at:
            # no name here may hold the error: with its traceback that would be a cycle, and keep what the frames hold
            raise self._no_memory(what)
        return at

    def _no_memory(self, what: str) -> VMError:
        if card_failed(self):
            self._view["status"], self._view["pc"] = DEVICE_ERROR, -1
            return failure(self)
        error = VMError(f"out of memory: no room for {what}", help=memory_help(self))
        error.status = OUT_OF_MEMORY
        return error

    @property
    def _ordinal(self) -> int:
        """Which card."""
        assert self._session is not None
        return self._session.device.ordinal

    @property
    def _stream(self) -> int:
        """The driver's handle of the stream that launches go to."""
        assert self._session is not None
        return int(self._session.record["compute"])

    def _lend(self, tensor: Tensor, stream: int | None) -> Lent:
        """What another library keeps while it uses a tensor on a stream of its own, which waits for what makes it."""
        assert self._session is not None
        return self._session.lending.lend(tensor, stream)

    def _check_not_lost(self, tensor: Tensor) -> None:
        if is_lost(tensor._address):
            raise lost(tensor)

    def _go_on(self, function: VMFunction, args: tuple[Any, ...], answer: int) -> Any:
        """What the door left to us: a call under way (0), or one that it did not begin."""
        if answer == 0:
            return self._finish(function)
        if answer == -BUSY:
            raise _busy()
        return self._call(function, args)

    def _finish(self, function: VMFunction) -> Any:
        """Let the loop run to its end; between two entries Python sees signals."""
        state = self._view
        try:
            while state["reason"] != DONE:
                if state["reason"] == FAILED:
                    raise failure(self)
                if state["reason"] == HOST_CALL:
                    call_python(self)
                else:
                    assert state["reason"] == OUT_OF_FUEL, state["reason"]
                state["deadline_ns"] = 0
                self._unlocked(self._state, requests.RUN, 0, 0)
        except BaseException:
            self._abandon()
            raise
        address = int(state["result"])
        state["busy"] = 0
        return self._unpack(self._some(address, "the result"), function.result)

    def _abandon(self) -> None:
        """Drop what a call of this thread left in the machine when an exception cut it short."""
        state = self._view
        if state["owner"] != threading.get_ident():
            return  # the machine is busy with another thread's call
        self._locked(self._state, requests.UNWIND, 0, 0)
        self._locked(self._state, requests.RELEASE, int(state["result"]), 0)
        state["result"] = state["busy"] = 0

    def _unpack(self, address: int, ty: Type) -> Any:
        """The Python value of a result object, whose reference is taken over.

        Raises VMError for a function, and for bytecode that returns something else than it declares.
        """
        record = record_at(address)
        if record.tag == TAG_TENSOR and isinstance(ty, TensorType):
            if (record.ndim, record.dtype) == (ty.rank, DTYPES.index(ty.dtype)):
                return Tensor(self, self._some(self._locked(self._state, requests.OWN, address, 0), "the result"))
        elif record.tag == TAG_ADT and isinstance(ty, TupleType) and record.count == len(ty.fields):
            at = record.data
            fields = [self._locked(self._state, requests.RETAIN, load_i64(at + 8 * i), 0) for i in range(record.count)]
            self._locked(self._state, requests.RELEASE, address, 0)
            results: list[Any] = []
            try:
                for f, t in zip(fields, ty.fields, strict=True):
                    results.append(self._unpack(f, t))
            except BaseException:
                for f in fields[len(results) + 1 :]:
                    self._locked(self._state, requests.RELEASE, f, 0)
                raise
            return tuple(results)
        self._locked(self._state, requests.RELEASE, address, 0)
        if isinstance(ty, FuncType):
            raise VMError(f"the result is {ty}: a function has no value outside the program")
        raise VMError(f"the program declares the result {ty}, but returned something else: the executable is damaged")

    def _to_host(self, tensor: Tensor, why: SyncReason = SyncReason.FETCH) -> Tensor:
        """A copy of a device tensor on the host, counted.  Raises VMError when queued work fails."""
        if self._view["busy"]:
            raise _busy()
        address = self._locked(self._state, requests.TO_HOST, tensor._address, number_of(why))
        if not address and self._view["status"] == OUT_OF_MEMORY and self._view["error_pc"] < 0:
            self._view["status"] = 0
            self._some(0, f"a copy of {tensor} on the host")
        if not address and self._view["status"] == RESULT_LOST:
            self._view["status"] = 0
            raise lost(tensor)
        if not address:
            self._view["pc"] = -1
            error = failure(self)
            self._view["status"], self._view["error_pc"] = 0, -1
            raise error
        if self._session is not None:
            self._session.forget_borrowed()
        return Tensor(self, address)

    # ---- looking ---------------------------------------------------------------------------------------------------

    @property
    def counters(self) -> dict[str, int]:
        """What the machine did since it was made, or since ``reset_counters``: numbers and bytes."""
        return dict(zip(COUNTERS, self._counted.tolist(), strict=True))

    def count(self) -> np.ndarray:
        """The counters in the order of ``layout.COUNTERS``, for those who read them often: a tenth of the time."""
        return self._counted.copy()

    def reset_counters(self) -> None:
        """Set every counter to 0; ``peak_bytes`` to what is in use."""
        for name in COUNTERS:
            self._view[name] = 0
        self._tables.sync_counts[:] = 0
        self._view["peak_bytes"] = self._view["live_bytes"]

    @property
    def sync_reasons(self) -> dict[str, int]:
        """Why the host waited for the device, and how often, since the counters were reset (see ``sync_reason``)."""
        return {key: n for key, n in zip(SYNC_REASONS, self._tables.sync_counts.tolist(), strict=True) if n}

    @property
    def memory(self) -> dict[str, int]:
        """``live_bytes`` in use, ``pool_bytes`` held from the system, ``live_objects``."""
        return {name: int(self._view[name]) for name in ("live_bytes", "pool_bytes", "live_objects")}

    def trim(self) -> int:
        """Give free memory back to the system; how many bytes."""
        if self._view["busy"]:
            raise _busy()
        return self._locked(self._state, requests.TRIM, 0, 0)

    @property
    def kernel_compiles(self) -> int:
        """How many functions this process had to compile so far, for all machines: 0 when the store had everything."""
        return store.counters["compiles"]

    def start_trace(self, types: bool = False) -> None:
        """Record every kernel, copy, wait, shape function, allocation and call of the host from now on.

        ``types``: also dtype and shape of what kernels and shape functions are given, and the bytes that kernels touch.
        """
        self._host_events.clear()
        if self._session is not None:
            self._locked(self._state, requests.TRACE, 0, 0)
        self._view["trace_used"], self._view["tracing"] = 0, TRACE_TYPES if types else TRACE_EVENTS

    def stop_trace(self) -> list[Event]:
        """What happened since ``start_trace``, in order of its end."""
        if self._session is not None:  # a card says when its work ran once it has
            self._wait(None)
        self._view["tracing"] = TRACE_OFF
        n = int(self._view["trace_used"])
        events = read_events(ARRAYS["array_int64"](int(self._view["trace"]), n)) if n else []
        return sorted([*events, *self._host_events], key=lambda e: e.end_ns) if self._host_events else events

    def profile(
        self, *args: Any, repeat: int = 10, warmup: int = 2, collectors: Sequence[Collector] = (), **named: Any
    ) -> Profile:
        """A profile of ``main`` on these arguments: ``warmup`` runs, then ``repeat`` measured ones.

        ``collectors`` measure what you like about each timed run: ``start()`` is called before it, ``stop()`` after it
        and gives a dict of numbers, which the profile holds as ``metrics``.
        """
        from .report.profiling import profile

        return profile(self, args, named, repeat=repeat, warmup=warmup, collectors=collectors)


def _opened(exe: Executable, ordinal: int) -> tuple[Session | None, Tables]:
    """The machine's part of the card that an executable is for (None for other devices), and the tables of its program.

    Raises ConfigError.
    """
    if exe.target != DEVICES[CUDA]:
        return None, Tables(exe)
    from ..ops.native.nvrtc import NoNvrtc
    from .cuda.device import FORKED, FORKED_HELP, CudaError
    from .cuda.driver import NoCuda
    from .cuda.session import Session

    try:
        session = Session(ordinal, exe.config.get("graphs", "auto"))
        return session, Tables(exe, session)
    except (NoCuda, NoNvrtc, CudaError) as error:
        forked = isinstance(error, CudaError) and error.number == FORKED
        help = FORKED_HELP if forked else "`cpu` and `sim` need no card; `relayvm env` says what was found"
        raise ConfigError(str(error), help=help) from None


def card_number(device: str | None) -> tuple[str | None, int]:
    """The name of a device, and which card it says: ``cuda:1`` is ("cuda", 1)."""
    if device is not None and device.startswith("cuda:") and device[5:].isdecimal():
        return "cuda", int(device[5:])
    return device, 0


def _unknown_entry(name: str, names: tuple[str, ...]) -> ConfigError:
    import difflib

    near = difflib.get_close_matches(name, names, 1)
    hint = f"; did you mean @{near[0]}?" if near else ""
    return ConfigError(f"the program has no function @{name}{hint}", help=f"its functions: {', '.join('@' + n for n in names)}")


def _busy() -> VMError:
    return VMError(
        "this VirtualMachine is running in another thread", help="make one VirtualMachine per thread; they share the executable"
    )
