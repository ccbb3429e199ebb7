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
def describe_tiles(config: Array, rows: tuple[int, ...]) -> None:
    """Write the configuration of registers with numbers of rows, of TILE_BYTES bytes each."""
    for i in range(CONFIG_BYTES):
        config[i] = 0
    config[0] = 1
    for tile in range(TILES):
        config[_WIDTHS_AT + 2 * tile] = TILE_BYTES
        config[_ROWS_AT + tile] = rows[tile]


def _part(array: Array, at: Word, row: int, step: Word) -> Any:
    """The bytes of a row of a tile in memory."""
    flat, first = array.reshape(-1), int(at) * array.itemsize + row * int(step)
    if not 0 <= first <= flat.nbytes - TILE_BYTES:
        raise WildAddress(f"{TILE_BYTES} bytes at {first} of {flat.nbytes}")
    return flat.view(np.uint8)[first : first + TILE_BYTES]


@instruction(lambda e, config: e.on_tiles("ldtilecfg", array=config))
def configure_tiles(config: Array) -> None:
    """Set the rows of all registers (see ``describe_tiles``), and clear them."""
    assert config[0] == 1 and all(config[_WIDTHS_AT : _WIDTHS_AT + 2 * TILES : 2] == TILE_BYTES)
    _registers[:] = [np.zeros((n, TILE_BYTES), np.uint8) for n in config[_ROWS_AT : _ROWS_AT + TILES].tolist()]


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
        stored[:] = _part(array, at, row, step)


@instruction(lambda e, tile, array, at, step: e.on_tiles("tilestored64", tile, array=array, at=at, step=step))
def store_tile(tile: int, array: Array, at: Word, step: Word) -> None:
    """Store the rows of a register, ``step`` bytes apart, from element ``at`` on."""
    for row, stored in enumerate(_registers[tile]):
        _part(array, at, row, step)[:] = stored


@instruction(lambda e, total, a, b: e.on_tiles("tdpbusd", total, a, b))
def add_dots_of_tiles(total: int, a: int, b: int) -> None:
    """Add to each int32 of a register the products of unsigned bytes of a row of ``a`` by 4 signed bytes of each row of ``b``."""
    left = _registers[a].astype(np.int32)
    right = _registers[b].view(np.int8).reshape(-1, TILE_BYTES // 4, 4).transpose(0, 2, 1).reshape(-1, TILE_BYTES // 4)
    sums = _registers[total].view(np.int32)
    sums += left @ right.astype(np.int32)
