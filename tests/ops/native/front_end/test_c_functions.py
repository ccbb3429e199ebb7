"""Calls of C functions: un-jitted code and machine code pass the same words."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

from relayvm.ops.native.c_functions import call_3
from relayvm.ops.native.generated_source import define
from relayvm.ops.native.memory import native

from .machine_code import compiled

_SUM = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.POINTER(ctypes.c_int64), ctypes.POINTER(ctypes.c_int64))


class Pair(NamedTuple):
    first: int
    second: int


def test_a_tuple_is_passed_as_the_address_of_its_words() -> None:
    called = _SUM(lambda number, words, more: number + 10 * words[0] + 100 * words[1] + 1000 * words[2] + 10_000 * more[0])
    address = ctypes.cast(called, ctypes.c_void_p).value
    text = "def f(address, x):\n    return call_3(address, x, (Pair(x + 1, 3), x == 1), (x + 4,))\n"
    function = native(define("test", text, {"call_3": call_3, "Pair": Pair})["f"])
    for x, wanted in ((1, 1 + 20 + 300 + 1000 + 50_000), (2, 2 + 30 + 300 + 60_000)):
        assert function(address, x) == compiled(function)(address, x) == wanted
