"""Tile registers: matrices of 16 rows of 64 bytes that one instruction multiplies and adds up (AMX of x86-64).

There are 8; their rows are configured before, and released after use.  Un-jitted, they are arrays of this process.  A kernel asks
``may_use_tiles`` first: a CPU has them or not, and Linux lets a process use them when it asks.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from .c_functions import by_name
from .front_end.llvm import host
from .memory import Array, WildAddress, Word, generic, instruction
from .static_values import at_compile_time

#: Rows of a register, and bytes of a row.
TILE_ROWS, TILE_BYTES = 16, 64
#: Tile registers; bytes of a configuration, and the first of them that are numbers of rows.
TILES, CONFIG_BYTES, _ROWS_AT, _WIDTHS_AT = 8, 64, 48, 16
#: Linux's number of arch_prctl on x86-64, and its arguments that ask for the data of tile registers.
_ARCH_PRCTL, _REQUEST, _TILE_DATA = 158, 0x1023, 18
_syscall = by_name("syscall", 3)
#: The registers of un-jitted code.
_registers: list[np.ndarray] = []


@at_compile_time
def has_tiles() -> bool:
    """Whether the CPU multiplies tiles of bytes, and the operating system is the one that is asked for them."""
    return sys.platform == "linux" and {"amx-tile", "amx-int8"} <= host.features()


@generic
def may_use_tiles() -> bool:
    """Whether this process may use tile registers: the answer takes a tenth of a microsecond."""
    if has_tiles():
        return _syscall(_ARCH_PRCTL, _REQUEST, _TILE_DATA) == 0
    return False


@generic
def describe_tiles(config: Array, rows: tuple[int, ...], widths: tuple[int, ...] = (TILE_BYTES,) * TILES) -> None:
    """Write the configuration of registers with numbers of rows, and of bytes of a row."""
    for i in range(CONFIG_BYTES):
        config[i] = 0
    config[0] = 1
    for tile in range(TILES):
        config[_WIDTHS_AT + 2 * tile] = widths[tile]
        config[_ROWS_AT + tile] = rows[tile]


def _part(array: Array, at: Word, row: int, step: Word, width: int) -> Any:
    """The bytes of a row of a tile in memory."""
    flat, first = array.reshape(-1), int(at) * array.itemsize + row * int(step)
    if not 0 <= first <= flat.nbytes - width:
        raise WildAddress(f"{width} bytes at {first} of {flat.nbytes}")
    return flat.view(np.uint8)[first : first + width]


@instruction(lambda e, config: e.on_tiles("ldtilecfg", array=config))
def configure_tiles(config: Array) -> None:
    """Set the rows of all registers (see ``describe_tiles``), and clear them."""
    widths = config[_WIDTHS_AT : _WIDTHS_AT + 2 * TILES : 2]
    assert config[0] == 1 and all(widths <= TILE_BYTES)
    rows = config[_ROWS_AT : _ROWS_AT + TILES]
    _registers[:] = [np.zeros((n, width), np.uint8) for n, width in zip(rows.tolist(), widths.tolist(), strict=True)]


@instruction(lambda e: e.on_tiles("tilerelease"))
def release_tiles() -> None:
    """End the use of the registers."""
    _registers.clear()


@instruction(lambda e, tile: e.on_tiles("tilezero", tile))
def clear_tile(tile: int) -> None:
    """Store zeros in a register."""
    _registers[tile][:] = 0


@instruction(lambda e, tile, array, at, step: e.on_tiles("tileloadd64", tile, array=array, at=at, step=step))
def load_tile(tile: int, array: Array, at: Word, step: Word) -> None:
    """Load the rows of a register, ``step`` bytes apart, from element ``at`` on."""
    for row, stored in enumerate(_registers[tile]):
        stored[:] = _part(array, at, row, step, stored.size)


@instruction(lambda e, tile, array, at, step: e.on_tiles("tilestored64", tile, array=array, at=at, step=step))
def store_tile(tile: int, array: Array, at: Word, step: Word) -> None:
    """Store the rows of a register, ``step`` bytes apart, from element ``at`` on."""
    for row, stored in enumerate(_registers[tile]):
        _part(array, at, row, step, stored.size)[:] = stored


def _add_dots(total: int, left: np.ndarray, right: np.ndarray) -> None:
    """Add to each int32 of a register the products of a row of ``left`` by 4 neighbours of each row of ``right``."""
    sums, width = _registers[total].view(np.int32), right.shape[1] // 4
    assert left.shape[1] == 4 * len(right) and sums.shape == (len(left), width), "registers of a product fit each other"
    sums += left.astype(np.int32) @ right.reshape(-1, width, 4).transpose(0, 2, 1).reshape(-1, width).astype(np.int32)


@instruction(lambda e, total, a, b: e.on_tiles("tdpbusd", total, a, b))
def add_dots_of_tiles(total: int, a: int, b: int) -> None:
    """Add to each int32 of a register the products of unsigned bytes of a row of ``a`` by 4 signed bytes of each row of ``b``."""
    _add_dots(total, _registers[a], _registers[b].view(np.int8))


@instruction(lambda e, total, a, b: e.on_tiles("tdpbsud", total, a, b))
def add_signed_dots_of_tiles(total: int, a: int, b: int) -> None:
    """As ``add_dots_of_tiles``, of signed bytes of ``a`` by unsigned bytes of ``b``."""
    _add_dots(total, _registers[a].view(np.int8), _registers[b])
