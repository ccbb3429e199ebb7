"""Library functions that machine code calls by address: table positions, discovery, and the call.

An address differs from process to process, so it is never part of compiled code.  A kernel reads it from the *library table*, an
array of addresses indexed by ``TABLE``.  Libraries are searched when a kernel that calls them is loaded.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterable, Mapping

from ....declarations.frozen_dataclass import frozen
from .blas_call import MatrixAt, Product, call_blas
from .blas_sources import SOURCES
from .blas_threads import scope_of
from .gemm import gemm_of


@frozen
class Library:
    """A library function: its index in the table, and the size in bytes of its elements."""

    index: int
    itemsize: int


#: Every library function by name: matrix products, by a BLAS.  Indices are part of compiled code: add at the end.
TABLE = {"sgemm": Library(0, 4), "dgemm": Library(1, 8)}


@frozen
class Blas:
    """A BLAS.

    Its package, each function's address, the reasons for skipping the sources before it, and the addresses of the functions that
    get and set its number of threads, if any.
    """

    package: str
    addresses: Mapping[str, int]
    passed_over: tuple[str, ...]
    threads: tuple[int, int] | None = None


@functools.cache
def blas() -> Blas:
    """The first BLAS of ``SOURCES`` that has every function of the table and multiplies correctly.

    Raises ImportError, with the reason for each source, if there is none.
    """
    why: list[str] = []
    for source in SOURCES:
        try:
            found = {name: source.address(name) for name in TABLE}
            for name, address in found.items():
                _check(name, address)
            return Blas(source.package, found, tuple(why), source.threads())
        except ImportError as error:
            why.append(f"{source.package}: {error}")
    raise ImportError(f"there is no BLAS ({'; '.join(why)})")


def _check(name: str, address: int) -> None:
    """Multiply two 2x2 matrices.  Raises ImportError if the product is wrong."""
    itemsize = TABLE[name].itemsize
    kind = (ctypes.c_float if itemsize == 4 else ctypes.c_double) * 4
    a, b, c = kind(1, 2, 3, 4), kind(5, 6, 7, 8), kind(*[-1] * 4)
    matrices = [MatrixAt(ctypes.addressof(block), 2, transposed) for block, transposed in ((a, 1), (b, 0), (c, 0))]
    call_blas(address, Product(itemsize, 2, 2, 2, *matrices))
    if list(c) != [17, 39, 23, 53]:
        raise ImportError(f"its {name} gives a wrong product")


def addresses(names: Iterable[str]) -> dict[str, int]:
    """The entry of each function in the library table: the address of a GEMM record.

    Raises ImportError, with the reasons, if there are functions and no BLAS has them.
    """
    found = {name: blas().addresses[name] for name in names}
    return {name: gemm_of(address, scope_of(blas().threads)) for name, address in found.items()}
