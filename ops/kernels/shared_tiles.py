"""The tiles that kernels share, compiled ahead of all kernels."""

from __future__ import annotations

from ..native.compiled import kernel_store
from ..native.jit.block_transpose import transpose_blocks, transpose_blocks_past_caches
from ..native.jit.convolution.clipped_tile import Clip, multiply_clipped
from ..native.jit.convolution.shifted_tile import multiply_shifted
from ..native.jit.convolution.transposed_tile import multiply_transposed
from ..native.jit.products.operands import Ahead, Paced, Panels, Rows
from ..native.jit.products.paced_tile import multiply_paced
from ..native.jit.products.panel_products import multiply_panels
from ..native.jit.products.register_tile import panel_width
from ..native.memory import array_float32, array_int64, array_uint32, native


@native
def call_tiles(address: int, n: int) -> int:
    """Call each kind of tile of float32, the type of most products.  Nobody calls this function: it has tiles of all kinds."""
    x = array_float32(address, n)
    rows, panels = Rows(x, n, n), Panels(x, n, n, n)
    multiply_panels(rows, panels, rows, n, n, n, n, Ahead(n, n, n, rows))
    multiply_panels(rows, Panels(x, n, panel_width(x.itemsize), n), rows, n, n, n, n, Ahead(n, n, n, rows))  # of a matrix by rows
    multiply_paced(rows, panels, rows, n, n, n, n, Paced(n, n, n))
    clip = Clip(x, x, n, x[0], x[1], n > 0, n > 1)
    multiply_clipped(rows, panels, rows, n, n, n, clip, rows)
    multiply_transposed(rows, panels, rows, n, n, n, n)
    multiply_shifted(rows, x, n, array_int64(address, n), n, rows, n, n, n, clip, n > 2)
    words = array_uint32(address, n)
    transpose_blocks(words, n, n, n, n, words, n, n)
    transpose_blocks_past_caches(words, n, n, n, n, words, n, n)
    return 0


def obtain_tiles() -> None:
    """Store the machine code of the tiles."""
    kernel_store.obtain_parts(call_tiles, "int64(int64, int64)")
