"""Calls of CUDA's libraries by address, as machine code: a status, and the library's error in the GPU's record."""

from __future__ import annotations

from .....ops.native.jit.c_functions import call_4, call_16, call_24
from .....ops.native.memory import load_i64, native, store_i64
from .....ops.native.status import DEVICE_ERROR, INTERNAL, OK
from ....state.gpu_layout import gpu_at, products_at

#: CUBLASLT_MATMUL_DESC_BIAS_POINTER: an attribute of a product's description.
BIAS_POINTER = 8


@native
def call_library(gpu: int, function: int, args: int, n: int) -> int:
    """Call a library's function with up to 24 words; a status."""
    if n > 24:
        return INTERNAL
    w = gpu_at(gpu).out
    for i in range(n):
        store_i64(w + 8 * i, load_i64(args + 8 * i))
    error = call_24(
        function, load_i64(w), load_i64(w + 8), load_i64(w + 16), load_i64(w + 24), load_i64(w + 32), load_i64(w + 40),
        load_i64(w + 48), load_i64(w + 56), load_i64(w + 64), load_i64(w + 72), load_i64(w + 80), load_i64(w + 88),
        load_i64(w + 96), load_i64(w + 104), load_i64(w + 112), load_i64(w + 120), load_i64(w + 128), load_i64(w + 136),
        load_i64(w + 144), load_i64(w + 152), load_i64(w + 160), load_i64(w + 168), load_i64(w + 176), load_i64(w + 184),
    )  # fmt: skip
    return checked_library(gpu, error)


@native
def call_product(gpu: int, function: int, w: int) -> int:
    """Call cuBLASLt's product with the words of an entry (see ``gpu_layout.PRODUCT_ENTRY``); a status.

    The address of the bias is an attribute of the description, so each launch sets the attribute.
    """
    if load_i64(w + 128) != 0:
        error = call_4(products_at(gpu_at(gpu).products).set_description, load_i64(w + 8), BIAS_POINTER, w + 128, 8)
        if error & 0xFFFFFFFF != 0:
            return checked_library(gpu, error)
    error = call_16(
        function, load_i64(w), load_i64(w + 8), load_i64(w + 16), load_i64(w + 24), load_i64(w + 32), load_i64(w + 40),
        load_i64(w + 48), load_i64(w + 56), load_i64(w + 64), load_i64(w + 72), load_i64(w + 80), load_i64(w + 88),
        load_i64(w + 96), load_i64(w + 104), load_i64(w + 112), load_i64(w + 120),
    )  # fmt: skip
    return checked_library(gpu, error)


@native
def checked_library(gpu: int, error: int) -> int:
    """Convert a library's error number to a status; the GPU's record stores it negated, apart from the driver's."""
    if error & 0xFFFFFFFF == 0:
        return OK
    gpu_at(gpu).error = -(error & 0xFFFFFFFF)
    return DEVICE_ERROR
