"""The virtual machine: an executable, its memory, and calls into the native interpreter loop."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

import numpy as np

from ...ops.core.similar_names import nearest
from ...ops.core.tensor_types import Type
from ...ops.native.compiled import kernel_store
from ...ops.native.memory import ARRAYS
from ...ops.native.status import DEVICE_ERROR, OUT_OF_MEMORY, RESULT_LOST
from .. import thread_count
from ..bytecode.executable import ExecutableData, VMFunction
from ..bytecode.late_bound import check_bound
from ..bytecode.sync_reason import SYNC_REASONS, SyncReason, number_of
from ..bytecode.verify import verify
from ..device_table import CPU, DEVICE_TABLE, DEVICES
from ..diagnostics import codes
from ..diagnostics.argument_errors import a_text, wrong
from ..diagnostics.source import ConfigError, VMError
from ..fast_path import c_api
from ..fast_path.guard import Guard, closer
from ..options import RuntimeOptions
from ..runtime import requests
from ..runtime.objects.heap import is_lost
from ..runtime.tracing.trace_events import Event, read_events
from ..state.state_layout import (
    ARGUMENTS,
    BUSY,
    CLOSED,
    COUNTERS,
    FAILED,
    HOST_CALL,
    NO_RESULT,
    OUT_OF_FUEL,
    STATE,
    TRACE_EVENTS,
    TRACE_OFF,
    TRACE_TYPES,
)
from ..values.output_names import chosen, output_numbers
from ..values.python_signature import FunctionSignature
from ..values.results import python_value
from ..values.signature import ArgumentChecker, parameter_table, positional
from ..values.tensor import Tensor
from . import machine_code
from .argument_rows import rows_of
from .arguments import lost, prepare, shared
from .donation import donated
from .python_kernels import call_python
from .runtime import Runtime, opened
from .runtime_errors import gpu_failed, memory_help, runtime_error

if TYPE_CHECKING:
    from ..devices.cuda.interop import Export

_STACK_WORDS = 1 << 13
#: Number of bytes that stands for no limit; sums with it fit int64.
_NO_LIMIT = 1 << 62
_NO_EXECUTABLE = "relay.compile makes one of a program"
_T = TypeVar("_T")


class Entry:
    """A callable function of the program: ``vm["main"](x, y)`` or ``vm["main"](x=x, y=y)``.

    ``vm["main"](x, y, donate=["x"])`` lets the program overwrite the array ``x``; its elements are undefined after the run.
    """

    __slots__ = ("_begin", "_enter", "_kept", "_machine", "function")
    __signature__ = FunctionSignature()

    def __init__(self, machine: MachineCore, index: int) -> None:
        self.function: VMFunction = machine.exe.functions[index]
        self._machine = machine
        table = parameter_table(self.function, machine._device)
        self._kept, self._enter, self._begin = machine._runtime.guard.entry(index, self.function, table)

    def __call__(self, /, *args: Any, **named: Any) -> Any:
        """Run the function; the result is a Tensor, or a (nested) tuple of Tensors.

        ``outputs=["boxes"]``: a tuple of the results of these names, in this order.  Raises InputError for arguments that do not
        fit the parameters and for a name of no result, VMError for failures during the run.
        """
        if named:
            if "outputs" in named and not self._has_parameter("outputs"):
                numbers = output_numbers(self.function, named.pop("outputs"))
                return chosen(self(*args, **named), self.function, numbers)
            donations = named.pop("donate") if "donate" in named and not self._has_parameter("donate") else ()
            args = positional(self.function, args, named)
            if donations:
                return self._call_general(args, donations)
        if self._enter is not None:
            result = self._enter(*args)
            if result is not None:
                return result
            arrays = shared(self._machine._runtime, args)
            if arrays is not None:
                args, result = arrays, self._enter(*arrays)
                if result is not None:
                    return result
        return self._call_general(args)

    def __reduce__(self) -> Any:
        return MachineCore.__getitem__, (self._machine, self.function.name)

    def _has_parameter(self, name: str) -> bool:
        return any(param == name for param, _ in self.function.params)

    def _call_general(self, args: tuple[Any, ...], donate: Any = ()) -> Any:
        """Run on the general path: any type of argument, error messages, donated arguments.

        A call without arguments takes those of ``set_input``.
        """
        machine, function = self._machine, self.function
        if not args and function.params and function.name in machine._inputs:
            return machine._run_kept(function.name)
        args = positional(function, args, {})
        checker = ArgumentChecker(function)
        devices = [function.device_of(i, machine._device) for i in range(len(args))]
        rows = zip(function.params, args, devices, strict=True)
        prepared = [prepare(machine._runtime, checker, name, ty, value, device) for (name, ty), value, device in rows]
        donations = donated(function, donate, args, prepared)
        try:
            return self._begin(rows_of(prepared, devices, donations), prepared)
        finally:
            if machine._runtime.session is not None:
                machine._runtime.session.make_owners_wait()


class MachineCore:
    """The state of a virtual machine and its calls into the native loop; see ``VirtualMachine``."""

    def __init__(
        self,
        exe: ExecutableData,
        device: str | Sequence[str] | None = None,
        memory_cfg: str | None = None,
        *,
        memory_limit_bytes: int | None = None,
        stack_limit_bytes: int = 64 << 20,
        link_bytes_per_s: int = 0,
        link_latency_ns: int = 0,
    ) -> None:
        if not isinstance(exe, ExecutableData):
            help = "VirtualMachine(Executable.load(path))" if isinstance(exe, (str, os.PathLike)) else _NO_EXECUTABLE
            raise wrong("VirtualMachine: the program", "an Executable", exe, help)
        device = one_device(device)
        ordinal = check_device(exe, device, "VirtualMachine: the device")
        if not (memory_cfg is None or (isinstance(memory_cfg, str) and memory_cfg == "pooled")):
            help = "leave it out: freed memory is pooled, and trim() returns it to the system"
            raise wrong("VirtualMachine: memory_cfg", "None or 'pooled'", memory_cfg, help)
        verify(exe)
        check_bound(exe)
        self.exe = exe
        self.device = exe.target
        self.memory_limit_bytes = memory_limit_bytes
        options = RuntimeOptions(device, memory_limit_bytes, stack_limit_bytes, link_bytes_per_s, link_latency_ns)
        self._device = DEVICES.index(exe.target)
        with kernel_store.tracked_uses() as prepared:
            session, tables = opened(exe, ordinal, options)
        thread_count.prepare()
        machine_code.obtain()
        #: Kernels that the constructor loaded from the kernel cache or compiled.
        self.prepared: tuple[kernel_store.Use, ...] = tuple(prepared)
        self._runtime = runtime = Runtime(exe, session, tables, options)
        assert STATE.fields is not None
        self._counted = runtime.block.view(np.int64)[STATE.fields[COUNTERS[0]][1] // 8 :][: len(COUNTERS)]
        self._server = self._serve
        runtime.guard = Guard(self, runtime.address, self._server)
        self._closer = closer(runtime.address, len(exe.constants), (runtime.block, tables))
        self._make_stack()
        if session is not None:
            session.attach(runtime.view, runtime.address)
        self._export = c_api.exporter()
        self._as_array = c_api.array_maker()
        self._entries: dict[str, Entry] = {}
        #: Arguments of ``set_input`` by function and parameter; the kept result, with the number of instructions until its end.
        self._inputs: dict[str, dict[str, Any]] = {}
        self._kept: tuple[int, Any] | None = None
        #: ``run(*args, **named)`` calls ``main``; see Entry.
        self.run: Entry = self["main"] if "main" in self.entries else cast(Entry, self._no_main)

    def _make_stack(self) -> None:
        if not self._runtime.request(requests.STACK, self._runtime.first_words, 0):
            raise VMError(
                "out of memory: no room for the stack", help=memory_help(self._runtime), code=codes.of_status(OUT_OF_MEMORY)
            )

    # ---- calling ---------------------------------------------------------------------------------------------------

    @property
    def entries(self) -> tuple[str, ...]:
        """The names of the callable functions."""
        return tuple(f.name for f in self.exe.functions)

    def __getitem__(self, name: str) -> Entry:
        """The function ``name``.  Raises ConfigError, which lists the functions, for an unknown name."""
        if not isinstance(name, str) or name not in self._entries:
            if a_text(name, "the function's name") not in self.entries:
                raise _unknown_entry(name, self.entries)
            self._entries[name] = Entry(self, self.exe.function_index(name))
        return self._entries[name]

    def __call__(self, /, *args: Any, **named: Any) -> Any:
        """Call ``main``, as ``run``."""
        return self.run(*args, **named)

    def _run_kept(self, name: str) -> Any:
        """Run a function on the arguments of ``set_input`` and keep the result.  Raises InputError for a missing argument."""
        entry = self[name]
        args = positional(entry.function, (), self._inputs.get(name, {}))
        self._kept = None  # its memory serves the run
        result = entry(*args)
        self._kept = int(self._runtime.view["instructions"]), result
        return result

    def _no_main(self, /, *args: Any, **named: Any) -> Any:
        raise _unknown_entry("main", self.entries)

    def _exclusively(self, work: Callable[[], _T]) -> _T:
        """The result of ``work()``, called with the machine locked.  Raises VMError if the machine is running."""
        return self._runtime.guard.alone(work)  # type: ignore[no-any-return]

    def _serve(self, what: Any) -> Any:
        """Handle a callback of the native code while a call has the machine locked (see ``guard``)."""
        if isinstance(what, list):
            assert self._runtime.session is not None
            self._runtime.session.release_borrowed()
            self._runtime.session.keep(what)
        elif what < 0:
            return self._unpack(int(self._runtime.view["result"]), self.exe.functions[-1 - what].result)
        elif what == HOST_CALL:
            call_python(self._runtime)
        elif what == FAILED:
            raise runtime_error(self._runtime)
        elif what == BUSY:
            raise self._refusal()
        elif what == NO_RESULT:
            raise self._no_memory("the result")
        elif what == ARGUMENTS:
            raise (
                self._no_memory("the arguments")
                if self._runtime.view["status"] == OUT_OF_MEMORY
                else runtime_error(self._runtime)
            )
        else:
            assert what == OUT_OF_FUEL, what  # the call of this method has handled signals

    def _refusal(self) -> VMError:
        """The error for the use of a machine that is locked or closed."""
        if self._runtime.view["busy"] == CLOSED:
            help = "make another VirtualMachine of the executable; results stay readable"
            return VMError("this VirtualMachine is closed", help=help)
        if self._runtime.view["owner"] != threading.get_ident():
            return VMError(
                "this VirtualMachine is running in another thread",
                help="make one VirtualMachine per thread; they share the executable",
            )
        return VMError(
            "this VirtualMachine is running already, and what it called (a kernel in Python, a signal handler) enters it again",
            help="make another VirtualMachine for that; they share the executable",
        )

    def _wait(self, why: SyncReason | None) -> None:
        """Synchronise with the device; without a reason the wait is not counted.  Raises VMError for a device error."""
        state = self._runtime.view
        state["pc"] = state["error_pc"] = -1
        state["status"] = self._runtime.request(requests.WAIT, number_of(why) if why else -1, 0)
        if state["status"]:
            raise runtime_error(self._runtime)

    def _no_memory(self, what: str) -> VMError:
        if gpu_failed(self._runtime):
            self._runtime.view["status"], self._runtime.view["pc"] = DEVICE_ERROR, -1
            return runtime_error(self._runtime)
        error = VMError(
            f"out of memory: no room for {what}", help=memory_help(self._runtime), code=codes.of_status(OUT_OF_MEMORY)
        )
        error.status = OUT_OF_MEMORY
        return error

    @property
    def _ordinal(self) -> int:
        """The number of the GPU."""
        assert self._runtime.session is not None
        return self._runtime.session.ordinal

    @property
    def _stream(self) -> int:
        """The driver's handle of the compute stream."""
        assert self._runtime.session is not None
        return self._runtime.session.stream

    def _share_on_stream(self, tensor: Tensor, stream: int | None) -> Export:
        """The owner object for another library that uses a tensor on its own stream.

        The other stream waits for the work that computes the tensor.
        """
        assert self._runtime.session is not None
        made: Export = self._runtime.session.export(tensor, stream)
        return made

    def _check_not_lost(self, tensor: Tensor) -> None:
        if is_lost(tensor._address):
            raise lost(tensor)

    def _unpack(self, address: int, ty: Type) -> Any:
        """Convert the result to a Python value; the machine keeps its own reference.  Raises VMError, see ``python_value``."""
        return python_value(self.exe, address, ty, self._result_tensor)

    def _result_tensor(self, address: int) -> Tensor:
        tensor: Tensor | None = self._runtime.guard.obtain(requests.OWN, address, 0)
        if tensor is None:
            raise self._no_memory("the result")
        return tensor

    def _from_array(self, array: np.ndarray, device: int) -> Tensor:
        """A new tensor of this machine on a device, with the elements of an array.  Raises VMError if out of memory."""
        rows = rows_of([array], [device], frozenset())
        tensor = self._exclusively(functools.partial(self._runtime.guard.obtain, requests.TAKE_IN, rows.ctypes.data, 0))
        if tensor is None:
            raise self._no_memory("a copy of a tensor")
        return tensor  # type: ignore[no-any-return]

    def _to_host(self, tensor: Tensor, why: SyncReason = SyncReason.FETCH) -> Tensor:
        """A copy of a device tensor on the host, counted as a copy.  Raises VMError if queued work fails."""
        return self._exclusively(functools.partial(self._fetch_to_host, tensor, why))

    def _fetch_to_host(self, tensor: Tensor, why: SyncReason) -> Tensor:
        """As ``_to_host``, for a caller that has locked the machine between two runs."""
        state = self._runtime.view
        state["status"] = 0
        found = self._runtime.guard.obtain(requests.TO_HOST, tensor._address, number_of(why))
        if found is None:
            status = int(state["status"])
            if status == OUT_OF_MEMORY and state["error_pc"] < 0:
                raise self._no_memory(f"a copy of {tensor} on the host")
            if status == RESULT_LOST:
                raise lost(tensor)
            state["pc"] = -1
            error = runtime_error(self._runtime)
            state["error_pc"] = -1
            raise error
        if self._runtime.session is not None:
            self._runtime.session.release_borrowed()
        return found  # type: ignore[no-any-return]

    # ---- the end -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Free all memory except the memory of live results, which stay readable.

        No call may follow; another ``close`` has no effect.  ``with VirtualMachine(exe) as vm`` closes the machine at the end.

        Raises VMError if the machine is running, and if queued work fails; in the latter case the machine is closed, too.
        """
        if self._runtime.view["busy"] != CLOSED:
            self._exclusively(self._retire)

    def _retire(self) -> None:
        state = self._runtime.view
        state["pc"] = state["error_pc"] = -1
        state["status"] = self._runtime.request(requests.RETIRE, len(self.exe.constants), 0)
        if self._runtime.session is not None:
            self._runtime.session.release_borrowed()
        if state["status"]:
            raise runtime_error(self._runtime)

    def __reduce__(self) -> Any:
        return functools.partial(type(self), self.exe, **self._runtime.options.arguments()), ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        names = ", ".join(f"@{n}" for n in self.entries[:3]) + (", ..." if len(self.entries) > 3 else "")
        closed = ", closed" if self._runtime.view["busy"] == CLOSED else ""
        return f"<VirtualMachine on {self.device}: {names}; {self.memory['live_bytes']} bytes in use{closed}>"

    # ---- looking ---------------------------------------------------------------------------------------------------

    @property
    def counters(self) -> dict[str, int]:
        """Counts of events and bytes since the machine was made, or since ``reset_counters``."""
        return dict(zip(COUNTERS, self._counted.tolist(), strict=True))

    def count(self) -> np.ndarray:
        """The counters as an array in the order of ``state_layout.COUNTERS``; ten times faster than ``counters``."""
        return self._counted.copy()

    def reset_counters(self) -> None:
        """Set every counter to 0, and ``peak_bytes`` to the bytes in use.  Raises VMError if the machine is running."""

        def reset() -> None:
            if self._kept is not None:
                self._kept = 0 if self._kept[0] == self._runtime.view["instructions"] else -1, self._kept[1]
            for name in COUNTERS:
                self._runtime.view[name] = 0
            self._runtime.tables.sync_counts[:] = 0
            self._runtime.view["peak_bytes"] = self._runtime.view["live_bytes"]

        self._exclusively(reset)

    @property
    def sync_reasons(self) -> dict[str, int]:
        """Numbers of host synchronisations by reason, since the counters were reset (see ``sync_reason``)."""
        return {key: n for key, n in zip(SYNC_REASONS, self._runtime.tables.sync_counts.tolist(), strict=True) if n}

    @property
    def memory(self) -> dict[str, int]:
        """``live_bytes``: in use; ``pool_bytes``: allocated from the system; ``live_objects``: number of objects."""
        return {name: int(self._runtime.view[name]) for name in ("live_bytes", "pool_bytes", "live_objects")}

    def trim(self) -> int:
        """Return free memory to the system; the bytes of its storages.  Raises VMError if the machine is running."""
        return self._exclusively(functools.partial(self._runtime.request, requests.TRIM, 0, 0))

    @property
    def kernel_compiles(self) -> int:
        """The number of functions that this process has compiled so far, for all machines; 0 if all were in the kernel cache."""
        return kernel_store.counters["compiles"]

    def start_trace(self, types: bool = False, kernels: Collection[str] | None = None) -> None:
        """Start recording kernels, copies, waits, shape functions, allocations and calls of Python kernels.

        ``types``: also record dtypes and shapes of the arguments of kernels and shape functions, and the bytes that kernels
        access.  ``kernels``: record only the kernels with these names (see ``exe.packed``), and nothing else: a short record
        leaves the caches to the program.  Raises VMError if the machine is running, ArgumentError for a name of no kernel.
        """
        names = [p.name for p in self.exe.packed]
        for name in kernels or ():
            if name not in names:
                raise wrong("start_trace: a kernel", "the name of a kernel of the program", name)
        chosen = None if kernels is None else np.array([name in kernels for name in names] or [False], np.int64)

        def start() -> None:
            self._runtime.host_events.clear()
            self._runtime.traced_kernels = chosen
            self._runtime.view["traced_kernels"] = 0 if chosen is None else chosen.ctypes.data
            if self._runtime.session is not None:
                self._runtime.request(requests.TRACE, 0, 0)
            self._runtime.view["trace_used"], self._runtime.view["tracing"] = 0, TRACE_TYPES if types else TRACE_EVENTS

        self._exclusively(start)

    def stop_trace(self) -> list[Event]:
        """Stop recording; the events since ``start_trace``, sorted by end.  Raises VMError if the machine is running."""

        def stop() -> list[Event]:
            if self._runtime.session is not None:  # a GPU reports the times of its work after a synchronisation
                self._wait(None)
            self._runtime.view["tracing"] = TRACE_OFF
            n = int(self._runtime.view["trace_used"])
            return read_events(ARRAYS["array_int64"](int(self._runtime.view["trace"]), n)) if n else []

        events = self._exclusively(stop)
        return sorted([*events, *self._runtime.host_events], key=lambda e: e.end_ns) if self._runtime.host_events else events


def gpu_number(device: str | None) -> tuple[str | None, int]:
    """Split a device name into name and number: ``cuda:1`` is ("cuda", 1)."""
    name, _, number = (device or "").partition(":")
    if number.isdecimal() and any(row.has_numbers for row in DEVICE_TABLE if row.name == name):
        return name, int(number)
    return device, 0


def one_device(device: str | Sequence[str] | None) -> str | None:
    """The device of Relay's lists: the one beside the CPU, which every machine uses.  Raises ConfigError, ArgumentError."""
    if not isinstance(device, (list, tuple)):
        return device if device is None else a_text(device, "VirtualMachine: the device")
    names = [a_text(each, "VirtualMachine: a device") for each in device]
    others = [name for name in names if name != DEVICES[CPU]]
    if len(others) > 1:
        message = f"a machine runs on one device besides the CPU, not on {' and '.join(others)}"
        raise ConfigError(message, help="make a machine for each device", code=codes.Config.DEVICE)
    return next(iter(others or names), None)


def check_device(exe: ExecutableData, device: str | None, what: str) -> int:
    """The number of the GPU that ``device`` names.  Raises ConfigError if it is not the executable's target, ArgumentError."""
    name, ordinal = gpu_number(None if device is None else a_text(device, what))
    if name is not None and name != exe.target:
        known = "" if device in DEVICES else f" (there is no device {device!r}; devices: {', '.join(DEVICES)})"
        raise ConfigError(
            f"the executable was compiled for {exe.target!r}, not {device!r}{known}",
            help="compile for it: target=...",
            code=codes.Config.DEVICE,
        )
    return ordinal


def _unknown_entry(name: str, names: tuple[str, ...]) -> ConfigError:
    return ConfigError(
        f"the program has no function @{name}{nearest(name, names, '@{}')}",
        help=f"its functions: {', '.join('@' + n for n in names)}",
        code=codes.Config.FUNCTION,
    )
