"""C functions as twins, by address or by name: external calls of machine code, which un-jitted code can make too."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

from .memory import twin

_WORD = ctypes.c_int64


def by_address(n: int) -> Callable[..., int]:
    """A twin ``call(address, *args)`` of a C function with ``n`` int64 arguments and an int64 result.

    A tuple, of words and of other tuples, is passed as the address of its words, which are there during the call.  Narrower
    integers and pointers are passed in 64-bit words, by the calling conventions of x86-64 and AArch64; of a narrower result only
    the low bits are defined.
    """
    prototype = ctypes.CFUNCTYPE(_WORD, *[_WORD] * n)

    @twin
    def call(function: int, *args: Any) -> int:
        blocks = {i: _block(arg) for i, arg in enumerate(args) if isinstance(arg, tuple)}
        words = (ctypes.addressof(blocks[i]) if i in blocks else int(arg) for i, arg in enumerate(args))
        result: int = prototype(int(function))(*words)
        return result

    return _marked(call, "")


def _block(words: tuple[Any, ...]) -> ctypes.Array[ctypes.c_int64]:
    """A block of memory with the words of a tuple and of the tuples in it."""
    found = list(_leaves(words))
    return (_WORD * len(found))(*found)


def _leaves(words: tuple[Any, ...]) -> Iterator[int]:
    for each in words:
        if isinstance(each, tuple):
            yield from _leaves(each)
        else:
            yield int(each)


def by_name(name: str, n: int) -> Callable[..., int]:
    """A twin of the C library's function ``name``, with ``n`` arguments and a result as for ``by_address``."""

    @twin
    def call(*args: int) -> int:
        result: int = ctypes.CFUNCTYPE(_WORD, *[_WORD] * n)((name, ctypes.CDLL(None)))(*map(int, args))
        return result

    return _marked(call, name)


def _marked(call: Callable[..., int], name: str) -> Callable[..., int]:
    """Let the compiler know that a twin is a C function: its name, or "" for a function by its address."""
    vars(call)["__c_function__"] = name
    return call


call_0, call_1, call_2, call_3, call_4, call_5, call_6 = (by_address(n) for n in range(7))
call_8, call_10, call_11, call_13, call_16, call_24 = (by_address(n) for n in (8, 10, 11, 13, 16, 24))
