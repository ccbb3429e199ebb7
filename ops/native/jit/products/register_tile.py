"""The tile of a matrix product that fits the vector registers of this machine, and the panels that it reads.

A panel holds columns of a matrix side by side: element ``(k, j)`` is at ``k * width + j``, so a tile reads a panel as one stream.
A row of a panel is a cache line on every machine, so that executables with panels run anywhere; a tile spans some panels of a
group.  Panels of several lines would share few sets of the first cache.
"""

from __future__ import annotations

from typing import NamedTuple

from ... import vector_registers
from ...static_values import at_compile_time

#: The most rows of a tile.
TILE_ROWS = 6
#: Bytes of a row of a panel: a cache line, and a register of AVX-512.
PANEL_BYTES = 64
#: Panels of a group: four registers of AVX-512 for each row of a tile.
GROUP_PANELS = 4


class RegisterTile(NamedTuple):
    """The tile for elements of one size: a few rows of ``vectors`` registers with ``lanes`` elements each.

    ``is_part``: whether the matrix may have fewer columns than the tile; masks exclude the others.
    """

    rows: int
    vectors: int
    lanes: int
    is_part: bool = False

    @property
    def width(self) -> int:
        """The number of columns; a group has a multiple of it."""
        return self.vectors * self.lanes


@at_compile_time
def panel_width(itemsize: int) -> int:
    """The number of columns of a panel of floats of ``itemsize`` bytes; of halves as many as of float32, which they become."""
    return PANEL_BYTES // max(itemsize, 4)


@at_compile_time
def register_tile(itemsize: int, rows: int) -> RegisterTile:
    """The tile of ``rows`` rows for floats of ``itemsize`` bytes on this machine: as many columns of a group as registers hold.

    Registers hold the sums, the row of the panels or the elements of the other matrix, whichever are fewer, and an element of the
    other kind.  Measured, tiles that spill take 1.4 times as long.
    """
    registers, nbytes = vector_registers.registers()
    vectors = GROUP_PANELS * PANEL_BYTES // nbytes
    while rows * vectors + min(rows, vectors) + 1 > registers:
        vectors //= 2
    return RegisterTile(rows, vectors, nbytes // itemsize)


@at_compile_time
def tiles_of_columns(itemsize: int, rows: int) -> tuple[RegisterTile, ...]:
    """The tiles of ``rows`` rows that columns are divided among: the first that fits, wide ones first; parts fit what is left."""
    tile = register_tile(itemsize, rows)
    if vector_registers.registers()[1] == PANEL_BYTES:
        return tile, *(tile._replace(vectors=n, is_part=True) for n in range(1, tile.vectors + 1))
    powers = [1 << n for n in range(tile.vectors.bit_length())]
    wide, one = [tile._replace(vectors=n) for n in powers[:0:-1]], tile._replace(vectors=1)
    # a part of two vectors takes 6 cycles for a step of 6 rows; a vector and a part of another take 8: their sums are too few
    parts = [tile._replace(vectors=2, is_part=True)] if tile.vectors == 2 else []
    return *wide, *parts, one, one._replace(is_part=True)


@at_compile_time
def reading_packed(tile: RegisterTile) -> RegisterTile:
    """The tile as it reads panels: a part reads whole vectors, as rows of panels are whole lines, and stores what it has to.

    Registers that are as wide as a line read a matrix by rows, too, which ends anywhere; masks take no vector registers there.
    With AVX2 a part of 2 vectors takes 1.3 times as long with masks as without.
    """
    rows, vectors, lanes, is_part = tile
    return RegisterTile(rows, vectors, lanes, is_part and vector_registers.registers()[1] == PANEL_BYTES)
