"""Library functions that machine code calls by address: where they stand, who has them here, and the call.

An address differs from process to process, so it is never part of compiled code: a kernel finds it in the *library table*,
an array of addresses of which ``TABLE`` gives the indices.  Libraries are looked for when a kernel that calls them is loaded.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .blas_sources import SOURCES
from .memory import twin


@dataclass(frozen=True)
class Library:
    """A library function: its place in the table, and how many bytes its numbers have."""

    index: int
    itemsize: int


#: Every library function by name: products of matrices, by a BLAS.  Indices are part of compiled code: add at the end.
TABLE = {"sgemm": Library(0, 4), "dgemm": Library(1, 8)}


@dataclass(frozen=True)
class Blas:
    """A BLAS that was found: the package that brings it, each function's address, why the sources before it were passed over."""

    package: str
    addresses: Mapping[str, int]
    passed_over: tuple[str, ...]


@functools.cache
def blas() -> Blas:
    """The first BLAS of ``SOURCES`` that has every function of the table and multiplies right.

    Raises ImportError, with the reason for each of them, where there is none.
    """
    why: list[str] = []
    for source in SOURCES:
        try:
            found = {name: source.address(name) for name in TABLE}
            for name, address in found.items():
                _check(name, address)
            return Blas(source.package, found, tuple(why))
        except ImportError as error:
            why.append(f"{source.package}: {error}")
    raise ImportError(f"there is no BLAS ({'; '.join(why)})")


def _check(name: str, address: int) -> None:
    """Multiply two matrices of 2 rows and 2 columns.  Raises ImportError where the product is wrong."""
    itemsize = TABLE[name].itemsize
    kind = (ctypes.c_float if itemsize == 4 else ctypes.c_double) * 4
    a, b, c = kind(1, 2, 3, 4), kind(5, 6, 7, 8), kind(*[-1] * 4)
    call_gemm(address, itemsize, 1, 0, 2, 2, 2, ctypes.addressof(a), 2, ctypes.addressof(b), 2, ctypes.addressof(c), 2)
    if list(c) != [17, 39, 23, 53]:
        raise ImportError(f"its {name} gives a wrong product")


def addresses(names: Iterable[str]) -> dict[str, int]:
    """The address of each function.  Raises ImportError, with the reasons, where there are some and no BLAS has them."""
    return {name: blas().addresses[name] for name in names}


_INT, _REAL = ctypes.POINTER(ctypes.c_int64), ctypes.c_void_p
_GEMM = ctypes.CFUNCTYPE(
    None, ctypes.c_char_p, ctypes.c_char_p, _INT, _INT, _INT, _REAL, _REAL, _INT, _REAL, _INT, _REAL, _REAL, _INT
)
#: 1.0 as float32 and as float64, by item size.
_ONE_BITS = {4: 0x3F800000, 8: 0x3FF0000000000000}


@twin
def call_gemm(
    address: int, itemsize: int, transpose_a: int, transpose_b: int, m: int, n: int, k: int,
    a: int, lda: int, b: int, ldb: int, c: int, ldc: int,
) -> None:  # fmt: skip
    """``c = op(a) @ op(b)`` by a BLAS at ``address``: column-major, all arguments int64, m to ldc below 2**31.

    ``a``, ``b`` and ``c`` are addresses of float32 (``itemsize`` 4) or float64 (8) matrices with leading dimensions
    ``lda``, ``ldb``, ``ldc``; ``op`` transposes where ``transpose_*`` is 1.  The BLAS reads integers of 64 or, on a machine that
    has the low half first, of 32 bits.
    """
    one, zero = ctypes.c_int64(_ONE_BITS[itemsize]), ctypes.c_int64(0)
    m_, n_, k_, lda_, ldb_, ldc_ = (ctypes.byref(ctypes.c_int64(int(v))) for v in (m, n, k, lda, ldb, ldc))
    trans_a, trans_b = (b"T" if t else b"N" for t in (transpose_a, transpose_b))
    alpha, beta = ctypes.addressof(one), ctypes.addressof(zero)
    _GEMM(address)(trans_a, trans_b, m_, n_, k_, alpha, int(a), lda_, int(b), ldb_, beta, int(c), ldc_)


def _call_gemm_machine() -> Any:
    """``call_gemm`` for the native compiler.  Fortran takes everything by pointer: scalars go through the stack."""
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic

    byte, word64 = ir.IntType(8), ir.IntType(64)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address, itemsize, transpose_a, transpose_b, m, n, k, a, lda, b, ldb, c, ldc = args

        def on_stack(value: Any) -> Any:
            slot: Any = cgutils.alloca_once_value(builder, value)  # type: ignore[no-untyped-call]
            return builder.ptrtoint(slot, word64)

        def letter(flag: Any) -> Any:
            is_set = builder.icmp_signed("!=", flag, ir.Constant(word64, 0))
            return on_stack(builder.select(is_set, ir.Constant(byte, ord("T")), ir.Constant(byte, ord("N"))))

        is_single = builder.icmp_signed("==", itemsize, ir.Constant(word64, 4))
        one = on_stack(builder.select(is_single, *(ir.Constant(word64, _ONE_BITS[size]) for size in (4, 8))))
        zero = on_stack(ir.Constant(word64, 0))
        sizes = [on_stack(m), on_stack(n), on_stack(k)]
        lda, ldb, ldc = on_stack(lda), on_stack(ldb), on_stack(ldc)
        pointers = [letter(transpose_a), letter(transpose_b), *sizes, one, a, lda, b, ldb, zero, c, ldc]
        kind = ir.FunctionType(ir.VoidType(), [word64] * len(pointers))
        builder.call(builder.inttoptr(address, kind.as_pointer()), pointers)
        return context.get_dummy_value()

    @intrinsic
    def call(typing, address, itemsize, transpose_a, transpose_b, m, n, k, a, lda, b, ldb, c, ldc):  # type: ignore[no-untyped-def]
        return types.void(*[types.int64] * 13), generate

    return call


call_gemm.__machine__ = _call_gemm_machine  # type: ignore[attr-defined]
