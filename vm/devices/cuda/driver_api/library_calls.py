"""Calls of CUDA's libraries by address, as machine code: a status, and the library's error in the GPU's record."""

from __future__ import annotations

from .....ops.native.c_functions import call_4, call_16, call_24
from .....ops.native.memory import load_i64, native, store_i64
from .....ops.native.status import DEVICE_ERROR, INTERNAL, OK
from ....state.gpu_layout import gpu_at, products_at, words_at

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
    words = words_at(w)
    error = call_24(
        function, words.word[0], words.word[1], words.word[2], words.word[3], words.word[4], words.word[5],
        words.word[6], words.word[7], words.word[8], words.word[9], words.word[10], words.word[11],
        words.word[12], words.word[13], words.word[14], words.word[15], words.word[16], words.word[17],
        words.word[18], words.word[19], words.word[20], words.word[21], words.word[22], words.word[23],
    )  # fmt: skip
    return checked_library(gpu, error)


@native
def call_product(gpu: int, function: int, w: int) -> int:
    """Call cuBLASLt's product with the words of an entry (see ``gpu_layout.PRODUCT_ENTRY``); a status.

    The address of the bias is an attribute of the description, so each launch sets the attribute.
    """
    words = words_at(w)
    if words.word[16] != 0:
        error = call_4(products_at(gpu_at(gpu).products).set_description, words.word[1], BIAS_POINTER, w + 128, 8)
        if error & 0xFFFFFFFF != 0:
            return checked_library(gpu, error)
    error = call_16(
        function, words.word[0], words.word[1], words.word[2], words.word[3], words.word[4], words.word[5],
        words.word[6], words.word[7], words.word[8], words.word[9], words.word[10], words.word[11],
        words.word[12], words.word[13], words.word[14], words.word[15],
    )  # fmt: skip
    return checked_library(gpu, error)


@native
def checked_library(gpu: int, error: int) -> int:
    """Convert a library's error number to a status; the GPU's record stores it negated, apart from the driver's."""
    if error & 0xFFFFFFFF == 0:
        return OK
    gpu_at(gpu).error = -(error & 0xFFFFFFFF)
    return DEVICE_ERROR
