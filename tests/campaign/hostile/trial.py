"""One file: loaded, verified, run on arguments in guarded memory, and looked at afterwards."""

from __future__ import annotations

import contextlib
import dataclasses
import random
import signal
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

import relayvm as relay
from relayvm.ops.core.tensor_types import TensorType, TupleType, Type, numpy_dtype
from relayvm.ops.native.memory import ARRAYS
from relayvm.ops.native.objects import free_at
from relayvm.shape_funcs.symbolic.dim import Dim, const
from relayvm.vm.api.executable import Executable, from_bytes
from relayvm.vm.api.machine import VirtualMachine
from relayvm.vm.bytecode.verify import verify
from relayvm.vm.device_table import CPU
from relayvm.vm.state.state_layout import N_CLASSES, POISON

from .guarded import guarded

#: A run that takes longer goes round and round: it is interrupted, as a user would.
RUN_SECONDS = 0.25
MEMORY_BYTES, STACK_BYTES = 64 << 20, 1 << 20
#: Arguments with more elements than this are not made.
_MOST_ELEMENTS = 1 << 16


class Interrupted(Exception):
    """In place of Ctrl-C."""


@contextlib.contextmanager
def interrupted_after(seconds: float) -> Iterator[None]:
    """Interrupt the block if it takes longer."""

    def interrupt(*_: Any) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def loaded(data: bytes) -> Executable:
    """The executable in the file, its constants in guarded memory.  Raises ExecutableFormatError."""
    return verified(from_bytes(data))


def verified(exe: Executable) -> Executable:
    """The executable with its constants in guarded memory.  Raises ExecutableFormatError."""
    exe = dataclasses.replace(exe, constants=tuple(map(guarded, exe.constants)))
    verify(exe)
    return exe


def kernels(exe: Executable) -> set[str]:
    """The kernels that must be compiled for it."""
    return {p.group.key() for p in exe.packed}


def arguments(exe: Executable, seed: int) -> list[Any] | None:
    """Arguments for ``main``; None where that would be too large, or is a function."""
    r = random.Random(seed)
    sizes: dict[Dim, int] = {}
    try:
        return [_argument(ty, sizes, r) for _, ty in exe.inputs]
    except _TooLarge:
        return None


class _TooLarge(Exception):
    pass


def _argument(ty: Type, sizes: dict[Dim, int], r: random.Random) -> Any:
    if isinstance(ty, TupleType):
        return tuple(_argument(f, sizes, r) for f in ty.fields)
    if not isinstance(ty, TensorType):
        raise _TooLarge
    shape = tuple(
        known if (known := const(d)) is not None else sizes.setdefault(d, r.choice([3, 3, 3, 0, 1, 5])) for d in ty.shape
    )
    count = 1
    for size in shape:
        count *= size
    if count > _MOST_ELEMENTS or any(size > _MOST_ELEMENTS for size in shape):
        raise _TooLarge
    values = np.arange(count) * 7 % 11
    if "int" in ty.dtype:
        values = values % 3 + r.choice([1, 1, 1, 1, 0, -4, 1 << 40])
    return guarded(values.astype(numpy_dtype(ty.dtype)).reshape(shape))


def run(exe: Executable, *calls: list[Any]) -> tuple[str, str | None]:
    """Run ``main`` with each of these arguments: how that ended (ran, failed, endless, refused) and what is wrong, or None."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            vm = VirtualMachine(exe, memory_limit_bytes=MEMORY_BYTES, stack_limit_bytes=STACK_BYTES)
        except relay.RelayError as error:
            return "refused", None if str(error) else "the message is empty"
    ended = "ran"
    for args in (*calls, calls[0]):
        try:
            with interrupted_after(RUN_SECONDS):
                _read(vm.run(*args))
        except relay.RelayError as error:
            ended = "failed"
            if not str(error):
                return ended, "the message is empty"
        except Interrupted:
            return "endless", _state(vm)
    return ended, _state(vm)


def _read(result: Any) -> None:
    """Touch every element of a result."""
    if isinstance(result, tuple):
        for r in result:
            _read(r)
    else:
        result.numpy().sum()


def _state(vm: VirtualMachine) -> str | None:
    """A sign that a machine still holds or spoils something when nobody uses it, or None."""
    if vm._runtime.view["busy"]:
        return "the machine stays busy"
    if vm.device == "sim":
        with contextlib.suppress(relay.RelayError):
            vm._wait(None)
    elif vm.memory["live_bytes"] != 0:
        return f"{vm.memory['live_bytes']} bytes of results that nobody holds stay in use"
    for at in _free_storages(vm):
        data = ARRAYS["array_uint8"](free_at(at).data, free_at(at).nbytes)
        if not (data == POISON).all():
            first = int(np.flatnonzero(data != POISON)[0])
            return f"memory that is free was written: byte {first} of a block of {len(data)}"
    return None


def _free_storages(vm: VirtualMachine) -> Iterator[int]:
    """The storages that wait in the pool of the host, or of ``sim`` once its queue has run: they hold poison."""
    if not vm._runtime.view["poison"]:
        return
    for c in range(CPU * N_CLASSES, 2 * N_CLASSES):
        at = int(vm._runtime.view["free_storage"][c])
        while at:
            yield at
            at = int(free_at(at).next)
