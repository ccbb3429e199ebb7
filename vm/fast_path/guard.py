"""The lock of a machine: one call or request at a time, released on every exit.

A machine is locked and unlocked in native code, inside one built-in function.  Between lock and unlock, Python runs only as a
callback of that function (kernels in Python, signals, errors, values of ADTs), and exceptions propagate through the function.
So no exception, not even Ctrl-C between two Python bytecodes, leaves a machine locked or an object without an owner.  The result
of a built-in function is a Tensor that owns its object and whose finalizer is native code, too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ops.core.tensor_types import DTYPES, TensorType, TupleType
from ...ops.native.c_functions import call_4
from ...ops.native.compiled import kernel_store
from ...ops.native.memory import load_i64, native, store_i64, tensor
from ...ops.native.object_layout import TAG_TENSOR
from ...ops.native.objects import storage_at
from ..runtime.objects.heap import DONATED
from ..runtime.requests import BUILD, CLOSE, LEAVE, OPEN, OWN, RELEASE, RETAIN, RUN, TRIM
from ..state.growable import grow
from ..state.state_layout import ARGUMENTS, BUSY, DONE, FREE, NO_RESULT, RUNNING, state_at
from ..values.signature import named_dims
from ..values.tensor import Tensor
from . import c_api
from .c_api import (
    args_at,
    array_at,
    c_function,
    capsule_context,
    capsule_new,
    capsule_pointer,
    py_decref,
    py_incref,
    py_long_as,
    py_long_from,
)
from .call_arguments import wrap_arguments
from .handles import ENTRY, MACHINE, closer_at, entry_at, machine_at, slots_at
from .results import is_as_declared, new_tensor, new_tuple, result_table

if TYPE_CHECKING:
    from ..bytecode.executable import VMFunction

save_thread = c_function("PyEval_SaveThread", True, 0)
restore_thread = c_function("PyEval_RestoreThread", False, 1)
thread_ident = c_function("PyThread_get_thread_ident", True, 0)
call_no_args = c_function("PyObject_CallNoArgs", True, 1)
call_one_arg = c_function("PyObject_CallOneArg", True, 2)
capsule_set_context = c_function("PyCapsule_SetContext", True, 2)


# ---- results ------------------------------------------------------------------------------------------------------------


@native
def give_up(state: int, machine: int, at: int) -> None:
    """Release an object whose owner was finalized: now, or when the machine is unlocked.

    The function may run in any thread that holds the interpreter lock.
    """
    s = state_at(state)
    if s.busy != RUNNING:
        call_4(machine, state, RELEASE, at, 0)
        if s.closed != FREE:
            call_4(machine, state, TRIM, 0, 0)
        return
    if s.n_deferred == s.deferred_words:
        capacity = 2 * s.deferred_words + 64
        block = grow(s.deferred, s.n_deferred, capacity)
        if block == 0:
            return  # the object is freed with the machine
        s.deferred = block
        s.deferred_words = capacity
    store_i64(s.deferred + 8 * s.n_deferred, at)
    s.n_deferred += 1


@native
def finalize(self: int, args: int, n: int) -> int:
    """``Tensor.__del__``; a partly initialised Tensor and a second call are allowed."""
    handle, number = slots_at(self).handle, slots_at(self).number
    if handle != 0 and number != 0:
        slots_at(self).number = 0
        at = py_long_as(number)
        py_decref(number)
        handle = array_at(handle).data
        give_up(machine_at(handle).state, machine_at(handle).machine, at)
    return py_long_from(0)


# ---- locking a machine --------------------------------------------------------------------------------------------------


@native
def take(state: int) -> None:
    """Lock an unlocked machine for this thread."""
    s = state_at(state)
    s.busy = RUNNING
    s.owner = thread_ident()


@native
def leave(state: int, machine: int) -> None:
    """Unlock a machine, after a cleanup of the frames, the result and the deferred releases of the call."""
    s = state_at(state)
    if s.base != 0 or s.result != 0 or s.n_deferred != 0:
        call_4(machine, state, LEAVE, 0, 0)
    s.busy = s.closed


@native
def serve(handle: int, why: int) -> int:
    """Call the machine's ``_serve`` in Python; its result, or 0 with an exception set."""
    number = py_long_from(why)
    if number == 0:
        return 0
    answer = call_one_arg(machine_at(handle).serve, number)
    py_decref(number)
    return answer


@native
def run_to_end(handle: int) -> int:
    """Run the opened function to its end; 0 with an exception set on failure."""
    state, machine = machine_at(handle).state, machine_at(handle).machine
    while True:
        thread = save_thread()
        reason = call_4(machine, state, RUN, 0, 0)
        restore_thread(thread)
        if reason == DONE:
            return 1
        answer = serve(handle, reason)  # sets an exception if the run failed
        if answer == 0:
            return 0
        py_decref(answer)
        state_at(state).deadline_ns = 0


@native
def result_of(entry: int, handle: int) -> int:
    """The result of a finished run as a Python object; 0 with an exception set on failure."""
    state, machine = machine_at(handle).state, machine_at(handle).machine
    s = state_at(state)
    if s.result == 0:
        return serve(handle, NO_RESULT)
    t = tensor(s.result)
    if t.tag != TAG_TENSOR or t.ndim != entry_at(entry).rank or t.dtype != entry_at(entry).dtype:
        rows, n = entry_at(entry).result, entry_at(entry).n_result_rows
        if rows == 0 or not is_as_declared(rows, n, s.result):
            return serve(handle, -1 - entry_at(entry).function)
        made = new_tuple(handle, rows, n)
        return made if made >= 0 else serve(handle, NO_RESULT)
    if t.storage == 0 or storage_at(t.storage).size_class == DONATED:
        s.result = call_4(machine, state, OWN, s.result, 0)
        if s.result == 0:
            return serve(handle, NO_RESULT)
    made = new_tensor(handle, s.result)
    if made != 0:
        s.result = 0
    return made


@native
def run_function(entry: int, handle: int, n: int) -> int:
    """Run a function with the ``n`` arguments in ``argv`` in a locked machine, then unlock the machine."""
    state, machine = machine_at(handle).state, machine_at(handle).machine
    call_4(machine, state, OPEN, entry_at(entry).function, n)
    made = run_to_end(handle)
    if made != 0:
        made = result_of(entry, handle)
    leave(state, machine)
    return made


# ---- the built-in functions ---------------------------------------------------------------------------------------------


@native
def enter(self: int, args: int, n: int) -> int:
    """``enter(*arguments)``: run a function on the fast path; None, without a run, if the arguments need ``begin``."""
    entry = array_at(self).data
    handle = entry_at(entry).of
    state, machine = machine_at(handle).state, machine_at(handle).machine
    s = state_at(state)
    if s.busy != FREE:
        return serve(handle, BUSY)
    if n == entry_at(entry).n_parameters:
        take(state)
        s.status = 0
        if wrap_arguments(entry, handle, args, n):
            return run_function(entry, handle, n)
        leave(state, machine)
    none = machine_at(handle).none
    py_incref(none)
    return none


@native
def begin(self: int, args: int, n: int) -> int:
    """``begin(rows, prepared)``: run a function on arguments described by rows (see ``argument_rows``)."""
    entry = array_at(self).data
    handle = entry_at(entry).of
    state, machine = machine_at(handle).state, machine_at(handle).machine
    s = state_at(state)
    if s.busy != FREE:
        return serve(handle, BUSY)
    take(state)
    made = 1
    if s.takes_arrays != 0:  # arguments may be memory of another library
        made = call_one_arg(machine_at(handle).serve, args_at(args).second)
    if made != 0:
        if s.takes_arrays != 0:
            py_decref(made)
        rows = args_at(args).first
        n_rows = load_i64(array_at(rows).dims)
        count = call_4(machine, state, BUILD, array_at(rows).data, n_rows)
        if count >= 0:
            return run_function(entry, handle, count)
        made = serve(handle, ARGUMENTS)
    leave(state, machine)
    return made


@native
def alone(self: int, args: int, n: int) -> int:
    """``alone(function)``: the result of ``function()``, called with the machine locked."""
    handle = array_at(self).data
    state = machine_at(handle).state
    if state_at(state).busy == RUNNING:
        return serve(handle, BUSY)
    take(state)
    answer = call_no_args(args_at(args).first)
    leave(state, machine_at(handle).machine)
    return answer


@native
def obtain(self: int, args: int, n: int) -> int:
    """``obtain(request, a, b)`` in a locked machine: a Tensor that owns the resulting object; None if the request gives 0.

    With OWN the caller keeps its reference to ``a``.
    """
    handle = array_at(self).data
    state, machine = machine_at(handle).state, machine_at(handle).machine
    request, a, b = py_long_as(args_at(args).first), py_long_as(args_at(args).second), py_long_as(args_at(args).third)
    if request == OWN:
        call_4(machine, state, RETAIN, a, 0)
    at = call_4(machine, state, request, a, b)
    if at == 0:
        none = machine_at(handle).none
        py_incref(none)
        return none
    made = new_tensor(handle, at)
    if made == 0:
        call_4(machine, state, RELEASE, at, 0)
    return made


@native
def close_capsule(capsule: int) -> None:
    """The destructor of the capsules of ``make_closer``: close the machine."""
    handle = capsule_pointer(capsule, 0)
    c = closer_at(handle)
    call_4(c.machine, c.state, CLOSE, c.n_constants, 0)
    py_decref(capsule_context(capsule))


@native
def make_closer(self: int, args: int, n: int) -> int:
    """``make_closer(handle, memory)``: see ``closer``."""
    capsule = capsule_new(array_at(args_at(args).first).data, 0, load_i64(array_at(self).data))
    if capsule != 0:
        memory = args_at(args).second
        py_incref(memory)
        capsule_set_context(capsule, memory)
    return capsule


# ---- making the built-in functions --------------------------------------------------------------------------------------


def closer(state: int, n_constants: int, memory: tuple[Any, ...]) -> Any:
    """An object whose destruction closes a machine; it keeps the ``memory`` that the machine needs alive until then.

    The object is a capsule because of the order of destruction: if the garbage collector finds a machine and its results in one
    cycle, it first runs all their ``__del__``, in any order, and then destroys capsules.
    """
    handle = np.array([state, c_api.machine_address(), n_constants], np.int64)
    destructor = np.array([kernel_store.address_of(close_capsule, c_api.FREE_SIGNATURE)], np.int64)
    return c_api.builtin(make_closer, destructor)(handle, (handle, *memory))


_BUILTINS: tuple[Callable[..., Any], ...] = enter, begin, alone, obtain, make_closer, finalize
#: The functions of this file that machines load, with their signatures.
FUNCTIONS: tuple[tuple[Callable[..., Any], str], ...] = (
    *((body, c_api.BUILTIN_SIGNATURE) for body in _BUILTINS),
    (close_capsule, c_api.FREE_SIGNATURE),
)


def obtain_functions() -> None:
    """Load or compile the functions that every machine has."""
    for body in _BUILTINS:
        c_api.builtin_address(body)


@functools.cache
def _finish_tensors() -> None:
    """Install the native ``Tensor.__del__``, which never handles signals."""
    Tensor.__del__ = c_api.method(finalize, Tensor)  # type: ignore[attr-defined]


class Guard:
    """The built-in functions of one machine.

    The references to ``machine`` and ``serve`` are borrowed: both must outlive the guard.  The argument of ``serve`` is a reason
    of ``state_layout``, or -1 - the number of a function whose result needs conversion in Python, or the list of the arguments
    that a GPU will read.
    """

    def __init__(self, machine: Any, state: int, serve: Callable[[Any], Any]) -> None:
        _finish_tensors()
        self.handle = np.zeros(1, MACHINE)
        self.handle[0] = state, c_api.machine_address(), id(machine), id(serve), id(None), id(self.handle), id(Tensor)
        self.alone = c_api.builtin(alone, self.handle)
        self.obtain = c_api.builtin(obtain, self.handle)

    def entry(self, number: int, function: VMFunction, table: np.ndarray | None) -> tuple[Any, Any, Any]:
        """The objects to keep alive, ``enter`` (None without a parameter ``table``) and ``begin`` of a function."""
        words, ty = np.zeros(1, ENTRY), function.result
        result = result_table(ty) if isinstance(ty, TupleType) else None
        entry = words[0]
        entry["of"], entry["function"], entry["n_parameters"] = self.handle.ctypes.data, number, len(function.params)
        if table is not None:
            entry["parameters"], entry["n_rows"] = table.ctypes.data, len(table)
        entry["array_type"], entry["tuple_type"], entry["n_named"] = id(np.ndarray), id(tuple), len(named_dims(function))
        entry["rank"], entry["dtype"] = (ty.rank, DTYPES.index(ty.dtype)) if isinstance(ty, TensorType) else (-1, -1)
        if result is not None:
            entry["result"], entry["n_result_rows"] = result.ctypes.data, len(result)
        fast = c_api.builtin(enter, words) if table is not None and c_api.arrays_are_readable() else None
        return (words, table, result, self.handle), fast, c_api.builtin(begin, words)
