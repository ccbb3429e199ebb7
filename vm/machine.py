"""The virtual machine: an executable, its memory, and the calls into the native loop."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..ops.native import store
from ..ops.native.layout import TAG_ADT, TAG_TENSOR
from ..ops.native.memory import ARRAYS, load_i64
from ..ops.native.memory import tensor as record_at
from ..ops.native.status import DEVICE_ERROR, OUT_OF_MEMORY, RESULT_LOST
from ..ops.ty import DTYPES, FuncType, TensorType, TupleType, Type
from . import codes, door, poison, requests, threads
from .argument_rows import rows_of
from .arguments import lost, prepare
from .donation import donated
from .events import Event, read_events
from .executable import DEVICES, Executable, VMFunction
from .failure import card_failed, failure, memory_help
from .given import a_text, wrong
from .guard import Guard, closer
from .layout import (
    ARGUMENTS,
    BUSY,
    CLOSED,
    COUNTERS,
    CUDA,
    FAILED,
    FRAME_WORDS,
    HOST_CALL,
    NO_RESULT,
    OUT_OF_FUEL,
    STATE,
    TRACE_EVENTS,
    TRACE_OFF,
    TRACE_TYPES,
)
from .program import Tables
from .python_kernels import call_python
from .signature import Fitting, parameter_table, positional
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
#: What is no limit: no machine has so many bytes, and sums with it fit into int64.
_NO_LIMIT = 1 << 62
_NO_EXECUTABLE = "relay.compile makes one of a program"
_T = TypeVar("_T")


class Entry:
    """A function of the program, to be called: ``vm["main"](x, y)`` or ``vm["main"](x=x, y=y)``.

    ``vm["main"](x, y, donate=["x"])`` lets the program write over the array ``x``, whose elements are anything afterwards.
    """

    __slots__ = ("_begin", "_enter", "_kept", "_machine", "function")

    def __init__(self, machine: VirtualMachine, index: int) -> None:
        self.function: VMFunction = machine.exe.functions[index]
        self._machine = machine
        table = parameter_table(self.function, machine._device)
        self._kept, self._enter, self._begin = machine._guard.entry(index, self.function, table)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Run.  The result: a Tensor, or a (nested) tuple of them.

        Raises InputError for arguments that do not fit, VMError for what fails while the program runs.
        """
        if named:
            # a parameter may have that name
            given = named.pop("donate", ()) if all(name != "donate" for name, _ in self.function.params) else ()
            args = positional(self.function, args, named)
            if given:
                return self._slowly(args, given)
        if self._enter is not None:
            result = self._enter(*args)
            if result is not None:
                return result
        return self._slowly(args)

    def __reduce__(self) -> Any:
        return VirtualMachine.__getitem__, (self._machine, self.function.name)

    def _slowly(self, args: tuple[Any, ...], donate: Any = ()) -> Any:
        """Run with any argument type, words for what does not fit, and arguments that are donated."""
        machine, function = self._machine, self.function
        args = positional(function, args, {})
        fitting = Fitting(function)
        devices = [function.device_of(i, machine._device) for i in range(len(args))]
        rows = zip(function.params, args, devices, strict=True)
        prepared = [prepare(machine, fitting, name, ty, value, device) for (name, ty), value, device in rows]
        given = donated(function, donate, args, prepared)
        try:
            return self._begin(rows_of(prepared, devices, given), prepared)
        finally:
            if machine._session is not None:
                machine._session.hand_back()


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
                f"the executable was compiled for {exe.target!r}, not {device!r}{known}",
                help="compile for it: target=...",
                code=codes.Config.DEVICE,
            )
        verify(exe)
        self.exe = exe
        self.device = exe.target
        self.memory_limit_bytes = memory_limit_bytes
        self._options = {
            "device": device,
            "memory_limit_bytes": memory_limit_bytes,
            "stack_limit_bytes": stack_limit_bytes,
            "link_bytes_per_s": link_bytes_per_s,
        }
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
        #: Asks the machine for something, for whoever has taken it: see ``requests``.
        self._locked = functools.partial(door.machine(), self._state)
        self._server = self._serve
        self._guard = Guard(self, self._state, self._server)
        self._fill_state(stack_limit_bytes, memory_limit_bytes, link_bytes_per_s)
        self._closer = closer(self._state, len(exe.constants), (block, self._tables))
        self._make_stack()
        if self._session is not None:
            self._session.attach(self._view, self._state)
        self._export = door.exporter()
        self._as_array = door.array_maker()
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
        self._first_words = max([_STACK_WORDS, *(f.n_registers + 2 * FRAME_WORDS for f in self.exe.functions)])
        state["stack_limit"] = max(min(stack_limit_bytes, _NO_LIMIT) // 8, self._first_words)
        state["limit_bytes"] = _NO_LIMIT if memory_limit_bytes is None else min(memory_limit_bytes, _NO_LIMIT)
        state["link_bytes_per_s"] = min(link_bytes_per_s, _NO_LIMIT)
        state["team"] = threads.team()
        state["poison"] = os.environ.get(poison.VARIABLE, "0") != "0"
        state["error_pc"] = -1
        config = self.exe.config
        if config.get("bulk") == "off" or config.get("debug_sync") == "on":
            state["wait_each"] = 1 + number_of(SyncReason.EACH_LAUNCH)
        self._starts = tables.starts

    def _make_stack(self) -> None:
        if not self._locked(requests.STACK, self._first_words, 0):
            raise VMError("out of memory: no room for the stack", help=memory_help(self), code=codes.of_status(OUT_OF_MEMORY))

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

    def __call__(self, *args: Any, **named: Any) -> Any:
        """As ``run``: call ``main``."""
        return self.run(*args, **named)

    def _no_main(self, *args: Any, **named: Any) -> Any:
        raise _unknown_entry("main", self.entries)

    def _alone(self, work: Callable[[], _T]) -> _T:
        """The result of ``work``, called while nobody else is in the machine.  Raises VMError where somebody is."""
        return self._guard.alone(work)  # type: ignore[no-any-return]

    def _serve(self, what: Any) -> Any:
        """Functions of Python that machine code calls while a call has the machine (see ``guard``)."""
        if isinstance(what, list):
            assert self._session is not None
            self._session.forget_borrowed()
            self._session.keep(what)
        elif what < 0:
            return self._unpack(int(self._view["result"]), self.exe.functions[-1 - what].result)
        elif what == HOST_CALL:
            call_python(self)
        elif what == FAILED:
            raise failure(self)
        elif what == BUSY:
            raise self._refusal()
        elif what == NO_RESULT:
            raise self._no_memory("the result")
        elif what == ARGUMENTS:
            raise self._no_memory("the arguments") if self._view["status"] == OUT_OF_MEMORY else failure(self)
        else:
            assert what == OUT_OF_FUEL, what  # Python has looked for signals on its way here

    def _refusal(self) -> VMError:
        """The error for who enters a machine that is not free."""
        if self._view["busy"] == CLOSED:
            return VMError("this VirtualMachine is closed", help="make another one of the executable; results are still there")
        if self._view["owner"] != threading.get_ident():
            return VMError(
                "this VirtualMachine is running in another thread",
                help="make one VirtualMachine per thread; they share the executable",
            )
        return VMError(
            "this VirtualMachine is running already, and what it called (a kernel in Python, a signal handler) enters it again",
            help="make another VirtualMachine for that; they share the executable",
        )

    def _wait(self, why: SyncReason | None) -> None:
        """Wait for the device; without a reason it counts for nothing.  Raises VMError when that fails."""
        state = self._view
        state["pc"] = state["error_pc"] = -1
        state["status"] = self._locked(requests.WAIT, number_of(why) if why else -1, 0)
        if state["status"]:
            raise failure(self)

    def _no_memory(self, what: str) -> VMError:
        if card_failed(self):
            self._view["status"], self._view["pc"] = DEVICE_ERROR, -1
            return failure(self)
        error = VMError(f"out of memory: no room for {what}", help=memory_help(self), code=codes.of_status(OUT_OF_MEMORY))
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
        """The object that another library keeps while it uses a tensor on a stream of its own, which waits for what makes it."""
        assert self._session is not None
        return self._session.lending.lend(tensor, stream)

    def _check_not_lost(self, tensor: Tensor) -> None:
        if is_lost(tensor._address):
            raise lost(tensor)

    def _unpack(self, address: int, ty: Type) -> Any:
        """The Python value of a part of the result, which the machine still holds.

        Raises VMError for a function, and for bytecode that returns something else than it declares.
        """
        record = record_at(address)
        if record.tag == TAG_TENSOR and isinstance(ty, TensorType):
            if (record.ndim, record.dtype) == (ty.rank, DTYPES.index(ty.dtype)):
                tensor = self._guard.obtain(requests.OWN, address, 0)
                if tensor is None:
                    raise self._no_memory("the result")
                return tensor
        elif record.tag == TAG_ADT and isinstance(ty, TupleType) and record.count == len(ty.fields):
            at = record.data
            return tuple([self._unpack(load_i64(at + 8 * i), t) for i, t in enumerate(ty.fields)])
        if isinstance(ty, FuncType):
            raise VMError(f"the result is {ty}: a function has no value outside the program")
        raise VMError(f"the program declares the result {ty}, but returned something else: the executable is damaged")

    def _taken_in(self, array: np.ndarray, device: int) -> Tensor:
        """A tensor of this machine on a device, with the elements of an array.  Raises VMError when there is no memory."""
        rows = rows_of([array], [device], frozenset())
        made = self._alone(functools.partial(self._guard.obtain, requests.TAKE_IN, rows.ctypes.data, 0))
        if made is None:
            raise self._no_memory("a copy of a tensor")
        return made  # type: ignore[no-any-return]

    def _to_host(self, tensor: Tensor, why: SyncReason = SyncReason.FETCH) -> Tensor:
        """A copy of a device tensor on the host, counted.  Raises VMError when queued work fails."""
        return self._alone(functools.partial(self._fetched, tensor, why))

    def _fetched(self, tensor: Tensor, why: SyncReason) -> Tensor:
        """As ``_to_host``, for whoever has taken the machine between two runs."""
        state = self._view
        state["status"] = 0
        found = self._guard.obtain(requests.TO_HOST, tensor._address, number_of(why))
        if found is None:
            status = int(state["status"])
            if status == OUT_OF_MEMORY and state["error_pc"] < 0:
                raise self._no_memory(f"a copy of {tensor} on the host")
            if status == RESULT_LOST:
                raise lost(tensor)
            state["pc"] = -1
            error = failure(self)
            state["error_pc"] = -1
            raise error
        if self._session is not None:
            self._session.forget_borrowed()
        return found  # type: ignore[no-any-return]

    # ---- the end -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Give back all memory but that of results, which stay readable and give it back when they go.

        No call may follow; another ``close`` does nothing.  ``with VirtualMachine(exe) as vm`` closes it at the end.

        Raises VMError while the machine runs, and for queued work that fails; the machine is closed then, too.
        """
        if self._view["busy"] != CLOSED:
            self._alone(self._retire)

    def _retire(self) -> None:
        state = self._view
        state["pc"] = state["error_pc"] = -1
        state["status"] = self._locked(requests.RETIRE, len(self.exe.constants), 0)
        if self._session is not None:
            self._session.forget_borrowed()
        if state["status"]:
            raise failure(self)

    def __enter__(self) -> VirtualMachine:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        from .pickling import machine_of

        return machine_of, (self.exe, self._options)

    def __repr__(self) -> str:
        names = ", ".join(f"@{n}" for n in self.entries[:3]) + (", ..." if len(self.entries) > 3 else "")
        closed = ", closed" if self._view["busy"] == CLOSED else ""
        return f"<VirtualMachine on {self.device}: {names}; {self.memory['live_bytes']} bytes in use{closed}>"

    # ---- looking ---------------------------------------------------------------------------------------------------

    @property
    def counters(self) -> dict[str, int]:
        """What the machine did since it was made, or since ``reset_counters``: numbers and bytes."""
        return dict(zip(COUNTERS, self._counted.tolist(), strict=True))

    def count(self) -> np.ndarray:
        """The counters in the order of ``layout.COUNTERS``, for those who read them often: a tenth of the time."""
        return self._counted.copy()

    def reset_counters(self) -> None:
        """Set every counter to 0; ``peak_bytes`` to what is in use.  Raises VMError while the machine runs."""

        def reset() -> None:
            for name in COUNTERS:
                self._view[name] = 0
            self._tables.sync_counts[:] = 0
            self._view["peak_bytes"] = self._view["live_bytes"]

        self._alone(reset)

    @property
    def sync_reasons(self) -> dict[str, int]:
        """Why the host waited for the device, and how often, since the counters were reset (see ``sync_reason``)."""
        return {key: n for key, n in zip(SYNC_REASONS, self._tables.sync_counts.tolist(), strict=True) if n}

    @property
    def memory(self) -> dict[str, int]:
        """``live_bytes`` in use, ``pool_bytes`` held from the system, ``live_objects``."""
        return {name: int(self._view[name]) for name in ("live_bytes", "pool_bytes", "live_objects")}

    def trim(self) -> int:
        """Give free memory back to the system; how many bytes.  Raises VMError while the machine runs."""
        return self._alone(functools.partial(self._locked, requests.TRIM, 0, 0))

    @property
    def kernel_compiles(self) -> int:
        """How many functions this process had to compile so far, for all machines: 0 when the store had everything."""
        return store.counters["compiles"]

    def start_trace(self, types: bool = False) -> None:
        """Record every kernel, copy, wait, shape function, allocation and call of the host from now on.

        ``types``: also dtype and shape of what kernels and shape functions are given, and the bytes that kernels touch.
        Raises VMError while the machine runs.
        """

        def start() -> None:
            self._host_events.clear()
            if self._session is not None:
                self._locked(requests.TRACE, 0, 0)
            self._view["trace_used"], self._view["tracing"] = 0, TRACE_TYPES if types else TRACE_EVENTS

        self._alone(start)

    def stop_trace(self) -> list[Event]:
        """The events since ``start_trace``, in order of its end.  Raises VMError while the machine runs."""

        def stop() -> list[Event]:
            if self._session is not None:  # a card says when its work ran once it has
                self._wait(None)
            self._view["tracing"] = TRACE_OFF
            n = int(self._view["trace_used"])
            return read_events(ARRAYS["array_int64"](int(self._view["trace"]), n)) if n else []

        events = self._alone(stop)
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
    return ConfigError(
        f"the program has no function @{name}{hint}",
        help=f"its functions: {', '.join('@' + n for n in names)}",
        code=codes.Config.FUNCTION,
    )
