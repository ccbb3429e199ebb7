"""Calls of a BLAS matrix product."""

from __future__ import annotations

import sys
from typing import NamedTuple

import numpy as np

from ..c_functions import call_13
from ..memory import generic


class MatrixAt(NamedTuple):
    """A matrix at an address, ``step`` elements from a line to the next; if ``transposed``, its lines are of the other axis."""

    at: int
    step: int
    transposed: int


class Product(NamedTuple):
    """``c = op(a) @ op(b)``, column-major: m to the leading dimensions are below 2**31.

    ``op`` transposes if a matrix says so; ``c`` does not.  Elements are float32 (``itemsize`` 4) or float64 (8).
    """

    itemsize: int
    m: int
    n: int
    k: int
    a: MatrixAt
    b: MatrixAt
    c: MatrixAt


def _word(data: bytes) -> int:
    """The word whose first bytes in memory these are."""
    return int.from_bytes(data.ljust(8, b"\0"), sys.byteorder, signed=True)


_TRANSPOSED, _PLAIN = _word(b"T"), _word(b"N")
_ONE_32, _ONE_64 = _word(np.float32(1).tobytes()), _word(np.float64(1).tobytes())


@generic
def call_blas(address: int, product: Product) -> None:
    """Compute a product by a BLAS at ``address``.

    Fortran takes all arguments by address.  The BLAS reads integers of 64 or, on a little-endian machine, of 32 bits.
    """
    p = product
    one = _ONE_32 if p.itemsize == 4 else _ONE_64
    call_13(
        address, (_letter(p.a),), (_letter(p.b),), (p.m,), (p.n,), (p.k,), (one,), p.a.at, (p.a.step,), p.b.at, (p.b.step,), (0,),
        p.c.at, (p.c.step,),
    )  # fmt: skip


@generic
def _letter(matrix: MatrixAt) -> int:
    return _TRANSPOSED if matrix.transposed != 0 else _PLAIN
