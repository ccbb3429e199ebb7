"""Calls of cuDNN's plans, as machine code.  The library reads addresses from a pack, a descriptor that is made once for them."""

from __future__ import annotations

from .....ops.native.c_functions import call_3
from .....ops.native.memory import native
from ....state.gpu_layout import ENTRY_ARGS, gpu_at
from ..driver_api.library_calls import checked_library
from .layout import (
    PACK,
    PACK_ROWS,
    convolution_entry_at,
    convolutions_at,
    pack_at,
)
from .plans import destroy, new_pack

_ODD = 0x9E3779B97F4A7C15 - (1 << 64)


@native
def call_convolution(gpu: int, function: int, w: int) -> int:
    """Execute a plan with the words of an entry (see ``gpu_layout.CONVOLUTION_ENTRY``); a status."""
    p = convolutions_at(gpu_at(gpu).convolutions)
    entry = convolution_entry_at(w - 8 * ENTRY_ARGS)
    pack = find_pack(gpu, entry.data, entry.weight, entry.out)
    if pack == 0:
        return checked_library(gpu, p.failed)
    return checked_library(gpu, call_3(function, p.handle, entry.plan, pack))


@native
def find_pack(gpu: int, data: int, weight: int, out: int) -> int:
    """The pack of these addresses, made at their first meeting; 0 if it failed."""
    h = ((data * _ODD ^ weight) * _ODD ^ out) * _ODD
    at = convolutions_at(gpu_at(gpu).convolutions).packs + PACK.itemsize * ((h >> 40) & (PACK_ROWS - 1))
    r = pack_at(at)
    if r.descriptor != 0 and r.data == data and r.weight == weight and r.out == out:
        return r.descriptor
    destroy(gpu, r.descriptor)
    r.descriptor = new_pack(gpu, data, weight, out)
    r.data = data
    r.weight = weight
    r.out = out
    return r.descriptor
