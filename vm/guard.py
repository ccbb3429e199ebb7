"""The guard of a machine: one call or request at a time, whatever ends it.

A machine is taken and given back in machine code, inside of one built-in function.  Python runs in between only where that
function calls it (kernels in Python, signals, errors, results that are tuples), and an exception comes back to it: so no
exception, not even Ctrl-C between two bytecodes, leaves a machine taken or an object without an owner.  What a built-in returns
owns itself: a Tensor whose end is machine code too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ops.native import store
from ..ops.native.by_address import call_4
from ..ops.native.layout import TAG_TENSOR
from ..ops.native.memory import load_i64, native, store_i64, tensor
from ..ops.ty import DTYPES, TensorType
from . import door
from .door import (
    _DATA,
    _DIMS,
    c_function,
    capsule_context,
    capsule_new,
    capsule_pointer,
    py_decref,
    py_incref,
    py_long_as,
    py_long_from,
    wrap_arguments,
)
from .growth import grown
from .heap import DONATED
from .layout import ARGUMENTS, BUSY, DONE, FREE, NO_RESULT, RUNNING, state_at
from .requests import BUILD, CLOSE, LEAVE, OPEN, OWN, RELEASE, RETAIN, RUN, TRIM
from .signature import named_dims
from .tensor import Tensor

if TYPE_CHECKING:
    from .executable import VMFunction

save_thread = c_function("PyEval_SaveThread", True, 0)
restore_thread = c_function("PyEval_RestoreThread", False, 1)
thread_ident = c_function("PyThread_get_thread_ident", True, 0)
call_no_args = c_function("PyObject_CallNoArgs", True, 1)
call_one_arg = c_function("PyObject_CallOneArg", True, 2)
generic_alloc = c_function("PyType_GenericAlloc", True, 2)
capsule_set_context = c_function("PyCapsule_SetContext", True, 2)


#: A machine's handle: its state and its entry point; and, not owned, the machine, its ``_serve``, None, the handle itself as an
#: object, and the type Tensor.
(_STATE, _MACHINE, _VM, _SERVE, _NONE, _SELF, _TENSOR) = range(7)
_MACHINE_WORDS = 7
#: A function's handle: the address of its machine's; its number; its parameters' table (see ``signature``) and their number; the
#: type ndarray; how many sizes have names; rank and dtype of its result, -1 where that is no tensor.
(_OF, _FUNCTION, _PARAMETERS, _N_PARAMETERS, _ARRAY_TYPE, _N_NAMED, _RANK, _DTYPE) = range(8)
_ENTRY_WORDS = 8


def _slot(name: str) -> int:
    """The offset of an attribute in objects of Tensor."""
    probe, mark = object.__new__(Tensor), object()
    setattr(probe, name, mark)
    words = [o for o in range(0, Tensor.__basicsize__, 8) if door.word_of(probe, o) == id(mark)]
    delattr(probe, name)
    assert len(words) == 1, f"no place of {name} in a Tensor"
    return words[0]


_ADDRESS_SLOT, _VM_SLOT, _HANDLE_SLOT = _slot("_address"), _slot("_vm"), _slot("_handle")


# ---- results ------------------------------------------------------------------------------------------------------------


@native
def new_tensor(handle, at):
    """A Tensor that owns the object ``at``; 0: an exception is set, and the object is still its owner's."""
    made = generic_alloc(load_i64(handle + 8 * _TENSOR), 0)
    if made == 0:
        return 0
    number = py_long_from(at)
    if number == 0:
        py_decref(made)
        return 0
    vm, itself = load_i64(handle + 8 * _VM), load_i64(handle + 8 * _SELF)
    py_incref(vm)
    py_incref(itself)
    store_i64(made + _ADDRESS_SLOT, number)
    store_i64(made + _VM_SLOT, vm)
    store_i64(made + _HANDLE_SLOT, itself)
    return made


@native
def give_up(state, machine, at):
    """The owner of an object is gone: it dies now, or when the machine is free.  Any thread, with the interpreter lock."""
    s = state_at(state)
    if s.busy != RUNNING:
        call_4(machine, state, RELEASE, at, 0)
        if s.closed != FREE:
            call_4(machine, state, TRIM, 0, 0)
        return
    if s.n_deferred == s.deferred_words:
        capacity = 2 * s.deferred_words + 64
        block = grown(s.deferred, s.n_deferred, capacity)
        if block == 0:
            return  # the machine's end takes it
        s.deferred = block
        s.deferred_words = capacity
    store_i64(s.deferred + 8 * s.n_deferred, at)
    s.n_deferred += 1


@native
def finalize(self, args, n):
    """``Tensor.__del__``: tolerates a Tensor that nobody finished, and a second call."""
    handle, number = load_i64(self + _HANDLE_SLOT), load_i64(self + _ADDRESS_SLOT)
    if handle != 0 and number != 0:
        store_i64(self + _ADDRESS_SLOT, 0)
        at = py_long_as(number)
        py_decref(number)
        handle = load_i64(handle + _DATA)
        give_up(load_i64(handle + 8 * _STATE), load_i64(handle + 8 * _MACHINE), at)
    return py_long_from(0)


# ---- taking a machine, and giving it back -------------------------------------------------------------------------------


@native
def take(state):
    """Take a machine, which nobody has, for this thread."""
    s = state_at(state)
    s.busy = RUNNING
    s.owner = thread_ident()


@native
def leave(state, machine):
    """Give a machine back: what a call left goes, and what died meanwhile."""
    s = state_at(state)
    if s.base != 0 or s.result != 0 or s.n_deferred != 0:
        call_4(machine, state, LEAVE, 0, 0)
    s.busy = s.closed


@native
def serve(handle, why):
    """Let Python do something for a machine: what that returns; 0: an exception is set."""
    number = py_long_from(why)
    if number == 0:
        return 0
    answer = call_one_arg(load_i64(handle + 8 * _SERVE), number)
    py_decref(number)
    return answer


@native
def run_to_end(handle):
    """Run what was opened; 0: an exception is set."""
    state, machine = load_i64(handle + 8 * _STATE), load_i64(handle + 8 * _MACHINE)
    while True:
        thread = save_thread()
        reason = call_4(machine, state, RUN, 0, 0)
        restore_thread(thread)
        if reason == DONE:
            return 1
        answer = serve(handle, reason)  # which raises where the run failed
        if answer == 0:
            return 0
        py_decref(answer)
        state_at(state).deadline_ns = 0


@native
def result_of(entry, handle):
    """The result of a run that is over, as an object of Python; 0: an exception is set."""
    state, machine = load_i64(handle + 8 * _STATE), load_i64(handle + 8 * _MACHINE)
    s = state_at(state)
    if s.result == 0:
        return serve(handle, NO_RESULT)
    t = tensor(s.result)
    if t.tag != TAG_TENSOR or t.ndim != load_i64(entry + 8 * _RANK) or t.dtype != load_i64(entry + 8 * _DTYPE):
        return serve(handle, -1 - load_i64(entry + 8 * _FUNCTION))  # a tuple, or not as declared
    if t.storage == 0 or tensor(t.storage).count == DONATED:
        s.result = call_4(machine, state, OWN, s.result, 0)
        if s.result == 0:
            return serve(handle, NO_RESULT)
    made = new_tensor(handle, s.result)
    if made != 0:
        s.result = 0
    return made


@native
def run_function(entry, handle, n):
    """Run a function whose ``n`` arguments are there, in a machine that was taken, and give that back."""
    state, machine = load_i64(handle + 8 * _STATE), load_i64(handle + 8 * _MACHINE)
    call_4(machine, state, OPEN, load_i64(entry + 8 * _FUNCTION), n)
    made = run_to_end(handle)
    if made != 0:
        made = result_of(entry, handle)
    leave(state, machine)
    return made


# ---- the built-in functions ---------------------------------------------------------------------------------------------


@native
def enter(self, args, n):
    """``enter(*arrays)``: the result of a function; None: it did not begin, because the arguments are for ``begin``."""
    entry = load_i64(self + _DATA)
    handle = load_i64(entry + 8 * _OF)
    state, machine = load_i64(handle + 8 * _STATE), load_i64(handle + 8 * _MACHINE)
    s = state_at(state)
    if s.busy != FREE:
        return serve(handle, BUSY)
    if n == load_i64(entry + 8 * _N_PARAMETERS):
        take(state)
        s.status = 0
        parameters, array_type = load_i64(entry + 8 * _PARAMETERS), load_i64(entry + 8 * _ARRAY_TYPE)
        if wrap_arguments(state, machine, args, n, parameters, array_type, load_i64(entry + 8 * _N_NAMED)):
            return run_function(entry, handle, n)
        leave(state, machine)
    none = load_i64(handle + 8 * _NONE)
    py_incref(none)
    return none


@native
def begin(self, args, n):
    """``begin(rows, prepared)``: the result of a function for arguments that are described by rows (see ``argument_rows``)."""
    entry = load_i64(self + _DATA)
    handle = load_i64(entry + 8 * _OF)
    state, machine = load_i64(handle + 8 * _STATE), load_i64(handle + 8 * _MACHINE)
    s = state_at(state)
    if s.busy != FREE:
        return serve(handle, BUSY)
    take(state)
    made = 1
    if s.card != 0:  # what it reads may belong to another library
        made = call_one_arg(load_i64(handle + 8 * _SERVE), load_i64(args + 8))
    if made != 0:
        if s.card != 0:
            py_decref(made)
        rows = load_i64(args)
        n_rows = load_i64(load_i64(rows + _DIMS))
        count = call_4(machine, state, BUILD, load_i64(rows + _DATA), n_rows)
        if count >= 0:
            return run_function(entry, handle, count)
        made = serve(handle, ARGUMENTS)
    leave(state, machine)
    return made


@native
def alone(self, args, n):
    """``alone(function)``: what ``function()`` returns, called while nobody else is in the machine."""
    handle = load_i64(self + _DATA)
    state = load_i64(handle + 8 * _STATE)
    if state_at(state).busy == RUNNING:
        return serve(handle, BUSY)
    take(state)
    answer = call_no_args(load_i64(args))
    leave(state, load_i64(handle + 8 * _MACHINE))
    return answer


@native
def obtain(self, args, n):
    """``obtain(request, a, b)``, in a machine that was taken: a Tensor that owns the address that comes back (OWN: ``a`` is not
    used up); None: it was 0."""
    handle = load_i64(self + _DATA)
    state, machine = load_i64(handle + 8 * _STATE), load_i64(handle + 8 * _MACHINE)
    request, a, b = py_long_as(load_i64(args)), py_long_as(load_i64(args + 8)), py_long_as(load_i64(args + 16))
    if request == OWN:
        call_4(machine, state, RETAIN, a, 0)
    at = call_4(machine, state, request, a, b)
    if at == 0:
        none = load_i64(handle + 8 * _NONE)
        py_incref(none)
        return none
    made = new_tensor(handle, at)
    if made == 0:
        call_4(machine, state, RELEASE, at, 0)
    return made


@native
def close_capsule(capsule):
    """The destructor of what ``make_closer`` makes."""
    handle = capsule_pointer(capsule, 0)
    call_4(load_i64(handle + 8), load_i64(handle), CLOSE, load_i64(handle + 16), 0)
    py_decref(capsule_context(capsule))


@native
def make_closer(self, args, n):
    """``make_closer(handle, memory)``: see ``closer``."""
    capsule = capsule_new(load_i64(load_i64(args) + _DATA), 0, load_i64(load_i64(self + _DATA)))
    if capsule != 0:
        memory = load_i64(args + 8)
        py_incref(memory)
        capsule_set_context(capsule, memory)
    return capsule


# ---- making them --------------------------------------------------------------------------------------------------------


def closer(state: int, n_constants: int, memory: tuple[Any, ...]) -> Any:
    """An object that closes a machine when it goes, and keeps the ``memory`` that this takes until then.

    A capsule, because of the order: when the garbage collector finds a machine and its results together, it runs all their
    ``__del__`` first, in any order, and lets go of capsules only then.
    """
    handle = np.array([state, door.machine_address(), n_constants], np.int64)
    destructor = np.array([store.address_of(close_capsule, "void(int64)")], np.int64)
    return door.builtin(make_closer, destructor)(handle, (handle, *memory))


@functools.cache
def _finish_tensors() -> None:
    """Give Tensor its ``__del__``: machine code, in which no signal is looked for."""
    Tensor.__del__ = door.method(finalize, Tensor)  # type: ignore[attr-defined]


class Guard:
    """The built-in functions of one machine.

    ``machine`` and ``serve`` must live as long as they are called: nothing here owns them.  ``serve`` is called with a reason
    of ``layout``, with -1 - the number of a function whose result the machine cannot hand over itself, or with the arguments of
    a call that a card is about to read.
    """

    def __init__(self, machine: Any, state: int, serve: Callable[[Any], Any]) -> None:
        _finish_tensors()
        self.handle = np.zeros(_MACHINE_WORDS, np.int64)
        self.handle[:] = state, door.machine_address(), id(machine), id(serve), id(None), id(self.handle), id(Tensor)
        self.alone = door.builtin(alone, self.handle)
        self.obtain = door.builtin(obtain, self.handle)

    def entry(self, number: int, function: VMFunction, table: np.ndarray | None) -> tuple[Any, Any, Any]:
        """The objects that must be kept, ``enter`` (None without a ``table`` of the parameters) and ``begin`` of a function."""
        words, ty = np.zeros(_ENTRY_WORDS, np.int64), function.result
        rank, dtype = (ty.rank, DTYPES.index(ty.dtype)) if isinstance(ty, TensorType) else (-1, -1)
        at = table.ctypes.data if table is not None else 0
        n, n_named = len(function.params), len(named_dims(function))
        words[:] = self.handle.ctypes.data, number, at, n, id(np.ndarray), n_named, rank, dtype
        fast = door.builtin(enter, words) if table is not None and door.arrays_are_readable() else None
        return (words, table, self.handle), fast, door.builtin(begin, words)
