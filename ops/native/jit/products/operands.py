"""The operands of the tiles of a product."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...memory import Array, Word, generic
from ...vectors import from_element
from .register_tile import panel_width


class Rows(NamedTuple):
    """Rows of elements from element ``at`` on, ``step`` elements apart."""

    data: Array
    at: int
    step: int


class Panels(NamedTuple):
    """Panels from element ``at`` on, ``step`` elements apart; the rows of a panel are ``row`` elements apart.

    ``row`` is the width of a panel, or as many elements as a matrix by rows has columns.
    """

    data: Array
    at: int
    step: int
    row: Word


class Ahead(NamedTuple):
    """Elements to fetch during a product: those ``elements`` ahead of the panels ``first`` to ``end`` (exclusive) of a group.

    And the ``rows`` of the next tile.  For ``elements`` or a step of 0 nothing new is fetched: for rows that are in a cache.
    """

    elements: int
    first: int
    end: int
    rows: Rows


class Paced(NamedTuple):
    """Elements that the tiles of a product fetch together.

    Of each panel of a group ``pace`` elements for each step along the inner axis, from ``elements`` ahead of its first on; for a
    pace of 0 the rows of the next tile, which are ``rows`` elements ahead of those of this one, or nothing if ``rows`` is 0, too.
    If it is not, the results of the next tile, in the rows below, are fetched, else those of this one.
    """

    elements: int
    pace: int
    rows: int


@generic
def flat(rows: Rows) -> Rows:
    """The rows in an array of one axis."""
    return Rows(rows.data.reshape(-1), rows.at, rows.step)


@generic
def flat_panels(panels: Panels) -> Panels:
    """The panels in an array of one axis; the elements from row to row are no static value, so that kernels share the tiles."""
    return Panels(panels.data.reshape(-1), panels.at, panels.step, np.int64(panels.row))


@generic
def rows_from(rows: Rows, column: int) -> Rows:
    """The rows from a column on, in an array that begins there."""
    return Rows(from_element(rows.data, rows.at + column), 0, rows.step)


@generic
def panels_from(panels: Panels, column: int) -> Panels:
    """The panels from a column of a group on, in an array that begins there."""
    width = panel_width(panels.data.itemsize)
    return Panels(
        from_element(panels.data, panels.at + column // width * panels.step + column % width), 0, panels.step, panels.row
    )
