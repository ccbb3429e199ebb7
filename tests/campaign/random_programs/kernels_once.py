"""Kernels of random programs: looked up once per process, and most fused ones interpreted.

A fused kernel is a new one in nearly every program, and takes tenths of a second to compile.  So one of ``NATIVE_ONE_OF`` is
machine code; the others run as the plain Python that they are made from, called by the native loop through a C function.
Kernels of one operator are machine code.  A long campaign sets ``NEW_ONE_OF`` to a number above 1: of the kernels that the cache
lacks, one of so many is compiled.
"""

from __future__ import annotations

import ctypes
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from relayvm.ops.core.group import Group
from relayvm.ops.core.op import OpPattern
from relayvm.ops.native.compiled import kernel_store
from relayvm.ops.native.jit.native_compiler import Levels
from relayvm.vm.runtime import evaluate
from relayvm.vm.runtime.kernels import fallback, kernel_addresses

from ...ops.fused.run_group import plain

NATIVE_ONE_OF = 64
#: The environment variable that has kernels of one operator interpreted, too: then nearly nothing is compiled.
INTERPRETS = "RELAYVM_CAMPAIGN_INTERPRETS"
singles_native = os.environ.get(INTERPRETS, "0") == "0"
#: The environment variable with n: of the kernels of one operator that the cache lacks, one of n is compiled.
NEW_ONE_OF = "RELAYVM_CAMPAIGN_NEW_ONE_OF"
_new_one_of = int(os.environ.get(NEW_ONE_OF, "1"))
#: Whether the cache decides which kernels are machine code: two ways of one program may differ in it.
chosen_by_the_cache = _new_one_of > 1
_SIGNATURE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.c_int64)
_FAILED = 1 << 20

#: What plain Python raised inside a kernel: nothing can leave a C function.
raised: list[Exception] = []
#: Functions that C may call, and where.
_kept: list[Any] = []
_interpreted_at: set[int] = set()


@dataclass
class Met:
    """Numbers of kernels that were looked up: interpreted ones, and generated ones that are machine code."""

    interpreted: int = 0
    generated: int = 0


@contextmanager
def looked_up_once(known: Callable[[Group], int] | None = None) -> Iterator[Met]:
    """While this is open, machines load their kernels so.  Gives the kernels that they load.

    ``known``: the address of a kernel; None: one in ``NATIVE_ONE_OF`` fused kernels is machine code.
    """
    met = Met()
    known = known or _known_address

    def address(group: Group, levels: Levels | None = None) -> int:
        # the levels of optimization change no result
        found = known(group)
        if found in _interpreted_at:
            met.interpreted += 1
        elif not kernel_addresses.in_python(group) and not _is_hand_written(group):
            met.generated += 1
        return found

    instead = {"kernel_address": address, "kernel_source": _source}
    before = {
        (module, name): getattr(module, name)
        for module in (kernel_addresses, fallback, evaluate)
        for name in instead
        if hasattr(module, name)
    }
    for module, name in before:
        setattr(module, name, instead[name])
    try:
        yield met
    finally:
        for (module, name), function in before.items():
            setattr(module, name, function)


def _address(group: Group) -> int:
    if _is_native(group):
        return _native(group)
    by_hand = _is_hand_written(group)
    return _interpreted(kernel_addresses.kernel_function(_source(group)) if by_hand else plain(_source(group).text))


def _is_hand_written(group: Group) -> bool:
    return group.nodes[0].operator.pattern is OpPattern.OPAQUE


def _is_native(group: Group) -> bool:
    if kernel_addresses.in_python(group):
        return True
    lot = zlib.crc32(repr(group).encode())
    if len(group.nodes) == 1 and singles_native:
        return lot % _new_one_of == 0 or _is_cached(group)
    return lot % NATIVE_ONE_OF == 0


def _is_cached(group: Group) -> bool:
    return kernel_store.entry_of(kernel_addresses.kernel_key(_source(group))) is not None


def _interpreted(kernel: Callable[[int, int], int]) -> int:
    def called(argv: int, n: int) -> int:
        try:
            with np.errstate(all="ignore"):
                return int(kernel(argv, n))
        except Exception as error:
            raised.append(error)
            return _FAILED

    _kept.append(_SIGNATURE(called))
    address = ctypes.cast(_kept[-1], ctypes.c_void_p).value
    assert address is not None
    _interpreted_at.add(address)
    return address


def _once(function: Callable[[Group], Any]) -> Callable[[Group], Any]:
    known: dict[str, Any] = {}

    def found(group: Group) -> Any:
        key = repr(group)  # not the group: -0.0 and 0.0 are equal
        if key not in known:
            known[key] = function(group)
        return known[key]

    return found


_native, _source = kernel_addresses.kernel_address, _once(kernel_addresses.kernel_source)
_known_address = _once(_address)
#: The address of a kernel that is machine code only if it is written by hand.
hand_written_native = _once(lambda group: _native(group) if _is_hand_written(group) else _interpreted(plain(_source(group).text)))
