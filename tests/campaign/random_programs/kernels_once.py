"""Kernels of random programs: looked up once per process, and most fused ones interpreted.

A fused kernel is a new one in nearly every program, and takes tenths of a second to compile.  So one of ``NATIVE_ONE_OF`` is
machine code; the others run as the plain Python that they are made from, called by the native loop through a C function.
Kernels of one operator are few and all machine code.
"""

from __future__ import annotations

import ctypes
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from relayvm.ops.group import Group
from relayvm.ops.op import OpPattern
from relayvm.vm import fallback, kernels

from ...ops.run_group import plain

NATIVE_ONE_OF = 64
#: The environment variable that has kernels of one operator interpreted, too: then nearly nothing is compiled.
INTERPRETS = "RELAYVM_CAMPAIGN_INTERPRETS"
singles_native = os.environ.get(INTERPRETS, "0") == "0"
_SIGNATURE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.c_int64)
_FAILED = 1 << 20

#: What plain Python raised inside a kernel: nothing can leave a C function.
raised: list[Exception] = []
#: Functions that C may call, and where.
_kept: list[Any] = []
_interpreted_at: set[int] = set()


@contextmanager
def looked_up_once() -> Iterator[list[int]]:
    """While this is open, machines load their kernels so.  Gives the addresses of kernels that are interpreted."""
    met: list[int] = []

    def address(group: Group) -> int:
        found = _known_address(group)
        if found in _interpreted_at:
            met.append(found)
        return found

    instead = {"kernel_address": address, "kernel_source": _source}
    before = {(module, name): getattr(module, name) for module in (kernels, fallback) for name in instead}
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
    opaque = group.nodes[0].operator.pattern is OpPattern.OPAQUE
    return _interpreted(kernels.kernel_function(_source(group)) if opaque else plain(_source(group).text))


def _is_native(group: Group) -> bool:
    if kernels.in_python(group) or (len(group.nodes) == 1 and singles_native):
        return True
    return zlib.crc32(repr(group).encode()) % NATIVE_ONE_OF == 0


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


_native, _source = kernels.kernel_address, _once(kernels.kernel_source)
_known_address = _once(_address)
