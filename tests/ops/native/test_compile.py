"""From marked functions to machine code."""

from __future__ import annotations

import ctypes

import numpy as np

from relayvm.ops.native.jit.native_compiler import compile_object
from relayvm.ops.native.linking.linker import load
from relayvm.ops.native.memory import native, tensor


@native
def inner(address):
    """Reads an attribute that is called as its caller is, before anything else."""
    return twice(tensor(address).data)


@native
def data(address):
    return inner(address)


@native
def twice(value):
    return value + value


@native
def entry(address, n):
    return inner(address)


def test_an_attribute_may_have_the_name_of_a_caller() -> None:
    from relayvm.ops.native.object_layout import TENSOR

    record = np.zeros(1, TENSOR)
    record["data"] = 5
    function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.c_int64)(
        load(compile_object(entry, "int32(int64, int64)"))
    )
    assert function(record.ctypes.data, 0) == 10
