"""Library functions that machine code calls by address: who has them, and the call.

An address differs from process to process, so it is never part of compiled code: a kernel finds it in the *library table*,
an array of addresses of which ``TABLE`` gives the indices.  Libraries are loaded when a kernel that calls them is.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from typing import Any

from .memory import twin


@dataclass(frozen=True)
class Library:
    """A library function: its place in the table, how its address is found (imports the library), the package it is from."""

    index: int
    address: Callable[[], int]
    package: str = "scipy"


def _cython_blas() -> Any:
    """scipy's table of BLAS functions by itself: the package around it would import all of its linear algebra, 0.1 s."""
    import scipy

    name = "scipy.linalg.cython_blas"
    if name in sys.modules:
        return sys.modules[name]
    spec = PathFinder.find_spec(name, [str(Path(folder) / "linalg") for folder in scipy.__path__])
    if spec is None or spec.loader is None:
        raise ImportError(f"there is no module {name}")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules.pop(name, None)  # it enters itself, and then the package would never have it as an attribute
    return module


def _blas(name: str, real: str) -> Callable[[], int]:
    """The address of a matrix product of scipy's BLAS, whose C signature is checked."""

    def address() -> int:
        capsule = _cython_blas().__pyx_capi__[name]
        api = ctypes.pythonapi
        api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
        api.PyCapsule_GetPointer.restype = ctypes.c_void_p
        api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
        signature = api.PyCapsule_GetName(capsule)
        kinds = [part.strip().rsplit(" ", 1)[0] for part in signature.decode().partition("(")[2].rstrip(")").split(",")]
        short = ["real" if kind.endswith(f"cython_blas_{real}") else kind for kind in kinds]
        wanted = ["char"] * 2 + ["int"] * 3 + ["real"] * 2 + ["int", "real", "int"] + ["real"] * 2 + ["int"]
        if short != wanted:
            raise ImportError(f"scipy.linalg.cython_blas.{name} has an unknown signature: {signature.decode()}")
        return int(api.PyCapsule_GetPointer(capsule, signature))

    return address


#: Every library function by name.  Indices are part of compiled code: add at the end.
TABLE = {
    "sgemm": Library(0, _blas("sgemm", "s")),
    "dgemm": Library(1, _blas("dgemm", "d")),
}


def addresses(names: Iterable[str]) -> dict[str, int]:
    """The address of each function.  Loads the libraries; raises ImportError where one is missing or another version."""
    return {name: TABLE[name].address() for name in names}


_INT, _REAL = ctypes.POINTER(ctypes.c_int32), ctypes.c_void_p
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
    ``lda``, ``ldb``, ``ldc``; ``op`` transposes where ``transpose_*`` is 1.
    """
    one, zero = ctypes.c_int64(_ONE_BITS[itemsize]), ctypes.c_int64(0)
    m_, n_, k_, lda_, ldb_, ldc_ = (ctypes.byref(ctypes.c_int32(int(v))) for v in (m, n, k, lda, ldb, ldc))
    trans_a, trans_b = (b"T" if t else b"N" for t in (transpose_a, transpose_b))
    alpha, beta = ctypes.addressof(one), ctypes.addressof(zero)
    _GEMM(address)(trans_a, trans_b, m_, n_, k_, alpha, int(a), lda_, int(b), ldb_, beta, int(c), ldc_)


def _call_gemm_machine() -> Any:
    """``call_gemm`` for the native compiler.  Fortran takes everything by pointer: scalars go through the stack."""
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic

    byte, word32, word64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address, itemsize, transpose_a, transpose_b, m, n, k, a, lda, b, ldb, c, ldc = args

        def on_stack(value: Any) -> Any:
            slot: Any = cgutils.alloca_once_value(builder, value)  # type: ignore[no-untyped-call]
            return builder.ptrtoint(slot, word64)

        def letter(flag: Any) -> Any:
            is_set = builder.icmp_signed("!=", flag, ir.Constant(word64, 0))
            return on_stack(builder.select(is_set, ir.Constant(byte, ord("T")), ir.Constant(byte, ord("N"))))

        def number(value: Any) -> Any:
            return on_stack(builder.trunc(value, word32))

        is_single = builder.icmp_signed("==", itemsize, ir.Constant(word64, 4))
        one = on_stack(builder.select(is_single, *(ir.Constant(word64, _ONE_BITS[size]) for size in (4, 8))))
        zero = on_stack(ir.Constant(word64, 0))
        sizes = [number(m), number(n), number(k)]
        pointers = [letter(transpose_a), letter(transpose_b), *sizes, one, a, number(lda), b, number(ldb), zero, c, number(ldc)]
        kind = ir.FunctionType(ir.VoidType(), [word64] * len(pointers))
        builder.call(builder.inttoptr(address, kind.as_pointer()), pointers)
        return context.get_dummy_value()

    @intrinsic
    def call(typing, address, itemsize, transpose_a, transpose_b, m, n, k, a, lda, b, ldb, c, ldc):  # type: ignore[no-untyped-def]
        return types.void(*[types.int64] * 13), generate

    return call


call_gemm.__machine__ = _call_gemm_machine  # type: ignore[attr-defined]
