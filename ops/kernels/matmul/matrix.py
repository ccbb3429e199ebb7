"""Matrices as arguments of products."""

from __future__ import annotations

from typing import NamedTuple

from ...native.memory import Array, generic
from ..shaped import Shaped


class Matrix(NamedTuple):
    """A factor of a product, ``[rows, columns]`` from element ``at`` on; if transposed, it is stored as ``[columns, rows]``.

    ``step``: the elements from a stored row to the next.
    """

    data: Array
    at: int
    step: int
    transposed: bool


class Batch(NamedTuple):
    """Factors of products, ``apart`` elements apart, of one matrix 0; stored as in ``Matrix``.

    ``matrices``: their number; products after as many have the same factors again.
    """

    data: Array
    matrices: int
    apart: int
    step: int
    transposed: bool


@generic
def matrix(data: Array, at: int, rows: int, columns: int, transposed: bool) -> Matrix:
    """The matrix ``[rows, columns]`` without gaps from element ``at`` on."""
    return Matrix(data, at, rows if transposed else columns, transposed)


@generic
def batch(factors: Shaped, rows: int, columns: int, transposed: bool) -> Batch:
    """The matrices of a tensor of three axes."""
    apart = rows * columns if factors.dims[0] > 1 else 0
    return Batch(factors.data, factors.dims[0], apart, rows if transposed else columns, transposed)


@generic
def place_of(factors: Batch, number: int) -> int:
    """The element at which the factor of a product begins."""
    return number % factors.matrices * factors.apart


@generic
def matrix_of(factors: Batch, number: int) -> Matrix:
    """The factor of a product."""
    return Matrix(factors.data, place_of(factors, number), factors.step, factors.transposed)
