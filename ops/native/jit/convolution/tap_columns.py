"""Columns of taps: taps above one another, whose operands are in rows that rows of sums share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ...memory import Array, generic
from ...static_values import static, static_range
from ...vectors import Vector, from_element, splat, store, store_some
from ..products.operands import Rows
from .tap_vectors import first_lanes, has_mask_registers


class Taps(NamedTuple):
    """A table of columns of taps, from element ``first`` of ``numbers`` on.

    How many columns have one tap, two taps, and so on; then some words of each column, in this order: the last one is the place
    of the weight of its first tap.
    """

    numbers: Array
    first: int


class ColumnWeights(NamedTuple):
    """Weights from element ``at`` on; those of a column of taps are ``row`` elements apart."""

    data: Array
    at: int
    row: int


@generic
def table_of(taps: Taps) -> Array:
    """The elements of a table."""
    return from_element(taps.numbers, taps.first)


@generic
def weights_from_first(weights: ColumnWeights) -> ColumnWeights:
    """The weights in an array of one axis that begins with them."""
    return ColumnWeights(from_element(weights.data.reshape(-1), weights.at), static(0), weights.row)


@generic
def rows_from_first(rows: Rows) -> Rows:
    """The rows in an array of one axis that begins with them."""
    return Rows(from_element(rows.data.reshape(-1), rows.at), static(0), rows.step)


@generic
def add_columns(
    add_rows: Callable[..., None], sums: list[Vector], table: Array, words: int, most: int, weights: ColumnWeights, given: Any
) -> None:
    """Add the products of all columns of up to ``most`` taps, of static ``words``.

    ``add_rows(sums, factors, column, given)`` adds those of the column whose words are the first of ``column``.
    """
    lanes, column = len(sums[0]), from_element(table, most)
    for height in static_range(1, most + 1):
        for _ in range(table[height - 1]):
            weight = from_element(weights.data, column[words - 1])
            factors = [splat(weight.dtype.type(0), lanes)] * height
            for t in static_range(height):  # addresses one after the other: few registers
                factors[t] = splat(weight[0], lanes)
                weight = from_element(weight, weights.row)
            add_rows(sums, factors, column, given)
            column = from_element(column, words)


@generic
def store_rows(out: Rows, sums: list[Vector], count: int) -> None:
    """Store the first ``count`` lanes of each sum, a row of the result."""
    lanes = len(sums[0])
    if not has_mask_registers() and count >= lanes:
        for r in static_range(len(sums)):
            store(out.data, out.at + r * out.step, sums[r])
    else:
        mask = first_lanes(count, lanes)
        for r in static_range(len(sums)):
            store_some(out.data, out.at + r * out.step, sums[r], mask)


@generic
def next_columns(x: int, columns: int, lanes: int, is_new: bool) -> int:
    """The first column of the next vector of a row.

    Where parts of vectors are slow to store, the last vector of a row ends with the row: elements that are computed twice have
    the same bits, if they are ``is_new`` and nothing is added to them.
    """
    following, last = x + lanes, columns - lanes
    if has_mask_registers():
        return following
    return last if is_new and 0 <= last < following < columns else following
