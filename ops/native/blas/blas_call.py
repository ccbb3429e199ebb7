"""Call of a BLAS matrix product, as machine code and as a twin."""

from __future__ import annotations

import ctypes
from typing import Any

from ..memory import set_machine_form, twin

_INT, _REAL = ctypes.POINTER(ctypes.c_int64), ctypes.c_void_p
_GEMM = ctypes.CFUNCTYPE(
    None, ctypes.c_char_p, ctypes.c_char_p, _INT, _INT, _INT, _REAL, _REAL, _INT, _REAL, _INT, _REAL, _REAL, _INT
)
#: 1.0 as float32 and as float64, by item size.
_ONE_BITS = {4: 0x3F800000, 8: 0x3FF0000000000000}


@twin
def call_blas(
    address: int, itemsize: int, transpose_a: int, transpose_b: int, m: int, n: int, k: int,
    a: int, lda: int, b: int, ldb: int, c: int, ldc: int,
) -> None:  # fmt: skip
    """Compute ``c = op(a) @ op(b)`` by a BLAS at ``address``: column-major, all arguments int64, m to ldc below 2**31.

    ``a``, ``b`` and ``c`` are addresses of float32 (``itemsize`` 4) or float64 (8) matrices with leading dimensions ``lda``,
    ``ldb``, ``ldc``; ``op`` transposes if ``transpose_*`` is 1.  The BLAS reads integers of 64 or, on a little-endian machine, of
    32 bits.
    """
    one, zero = ctypes.c_int64(_ONE_BITS[itemsize]), ctypes.c_int64(0)
    m_, n_, k_, lda_, ldb_, ldc_ = (ctypes.byref(ctypes.c_int64(int(v))) for v in (m, n, k, lda, ldb, ldc))
    trans_a, trans_b = (b"T" if t else b"N" for t in (transpose_a, transpose_b))
    alpha, beta = ctypes.addressof(one), ctypes.addressof(zero)
    _GEMM(address)(trans_a, trans_b, m_, n_, k_, alpha, int(a), lda_, int(b), ldb_, beta, int(c), ldc_)


def _call_blas_machine(emitter: Any, *arguments: Any) -> None:
    """The machine form of ``call_blas``.  Fortran takes all arguments by pointer: scalars go through the stack."""
    from llvmlite import ir

    b, byte, word64 = emitter.builder, ir.IntType(8), ir.IntType(64)
    address, itemsize, transpose_a, transpose_b, m, n, k, a, lda, matrix_b, ldb, c, ldc = map(emitter.word, arguments)

    def on_stack(value: Any) -> Any:
        slot = emitter.stack(value.type)
        b.store(value, slot)
        return b.ptrtoint(slot, word64)

    def letter(flag: Any) -> Any:
        return on_stack(b.select(b.icmp_signed("!=", flag, word64(0)), byte(ord("T")), byte(ord("N"))))

    is_single = b.icmp_signed("==", itemsize, word64(4))
    one = on_stack(b.select(is_single, *(word64(_ONE_BITS[size]) for size in (4, 8))))
    zero = on_stack(word64(0))
    sizes = [on_stack(m), on_stack(n), on_stack(k)]
    lda, ldb, ldc = on_stack(lda), on_stack(ldb), on_stack(ldc)
    pointers = [letter(transpose_a), letter(transpose_b), *sizes, one, a, lda, matrix_b, ldb, zero, c, ldc]
    kind = ir.FunctionType(ir.VoidType(), [word64] * len(pointers))
    b.call(b.inttoptr(address, kind.as_pointer()), pointers)


set_machine_form(call_blas, lambda: _call_blas_machine)
