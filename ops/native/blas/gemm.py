"""MatrixAt products by a BLAS, divided between the threads of this process.

A product is split into blocks of its result, by its sizes alone: so results do not depend on the number of threads, although a
BLAS may add in another order for fewer rows.  The BLAS is called for each block and uses no threads itself.  Blocks are large,
since a BLAS copies both its inputs before it multiplies: blocks of 128 to 256 rows cost some 4 %.

Kernels find the address of a GEMM record in the library table, and call the machine code in its first word.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..c_functions import call_2, call_5
from ..memory import alloc, free, generic, load_i64, native, record, store_i64
from ..status import OK
from ..threads.team import team_at
from ..threads.work_partition import end_of, first_of
from .blas_call import MatrixAt, Product, call_blas
from .blas_threads import enter, leave

_WORD = np.int64
GEMM = np.dtype(
    [
        ("multiply", _WORD),  # addresses of the machine code of ``multiply`` and ``multiply_part``
        ("part", _WORD),
        ("blas", _WORD),  # the library function
        ("scope", _WORD),  # see ``blas_threads``
        ("team", _WORD),  # see ``threads.team``
    ]
)
gemm_at = record(GEMM)

#: A product and a batch as words, in the order of the fields of ``Product`` and ``BatchSteps``.
PRODUCTS = np.dtype([(name, _WORD) for name in (
    "itemsize", "m", "n", "k", "a", "a_row", "transpose_a", "b", "b_row", "transpose_b", "c", "c_row", "transpose_c",
    "number", "a_step", "b_step", "c_step",
)])  # fmt: skip
products_at = record(PRODUCTS)
#: Data shared by the threads of one call: the BLAS, the address of the products, their blocks, and the number of blocks in all.
JOB = np.dtype([(name, _WORD) for name in ("blas", "products", "rows", "columns", "across", "each", "in_all")])
job_at = record(JOB)
_JOB_BYTES = JOB.itemsize

#: Work in bytes of one element times multiplications.  A smaller product (some 100 us) is not split.
BLOCK_WORK = 16_000_000
#: Minimum number of rows or columns of a block; boundaries are at multiples of GRAIN, a multiple of a BLAS's register blocks.
SHORTEST, GRAIN = 128, 64
#: Maximum number of blocks along the longer side of a product; blocks larger than LARGE_WORK are split along the other side too.
MOST, LARGE_WORK, SHORTEST_ACROSS = 12, 1_000_000_000, 1024
#: A BLAS uses no threads for smaller products: setting its number of threads would cost more than the product.
ALONE_WORK = 1 << 17
#: Multiplications that are worth a thread of their own.
WORTH = 8_000_000


@native
def block_length(side: int, work: int, shortest: int) -> int:
    """The length of the blocks of a side, for ``work`` in all."""
    blocks = min(work // BLOCK_WORK, MOST)
    if blocks < 2 or side < 2 * shortest:
        return side
    return max((side + blocks - 1) // blocks + GRAIN - 1, shortest) // GRAIN * GRAIN


class BatchSteps(NamedTuple):
    """``number`` products, whose matrices are ``*_step`` bytes apart."""

    number: int
    a_step: int
    b_step: int
    c_step: int


class Blocks(NamedTuple):
    """The rows and columns of the blocks of a product, the blocks down its columns, and all of them."""

    rows: int
    columns: int
    across: int
    each: int


@generic
def _blocks_of(m: int, n: int, bytes_of_inner: int) -> Blocks:
    """The blocks of a product."""
    work = m * n * bytes_of_inner
    rows = block_length(m, work, SHORTEST) if m >= n else m
    columns = block_length(n, work, SHORTEST) if n > m else n
    if rows * columns * bytes_of_inner > LARGE_WORK:
        rows, columns = (rows, max(columns // 2, SHORTEST_ACROSS)) if m >= n else (max(rows // 2, SHORTEST_ACROSS), columns)
    across = (m + rows - 1) // rows
    return Blocks(rows, columns, across, across * ((n + columns - 1) // columns))


@native
def multiply(gemm: int, products: int) -> int:
    """Compute PRODUCTS, in several threads if they have enough work."""
    g, p = gemm_at(gemm), products_at(products)
    work, blocks = p.m * p.n * p.k, _blocks_of(p.m, p.n, p.k * p.itemsize)
    in_all = blocks.each * p.number
    quiet = work > ALONE_WORK or p.m == 1 or p.n == 1
    if quiet:
        enter(g.scope)
    done = False
    work *= p.itemsize * p.number
    if in_all > 1 and work > 2 * WORTH and team_at(g.team).threads > 1 and team_at(g.team).divide != 0:
        block = alloc(_JOB_BYTES + 32)
        if block != 0:
            j = job_at(block)
            j.blas, j.products, j.in_all = g.blas, products, in_all
            j.rows, j.columns, j.across, j.each = blocks.rows, blocks.columns, blocks.across, blocks.each
            argv = block + _JOB_BYTES
            store_i64(argv, block)
            store_i64(argv + 8, 0)
            wanted = min(in_all, work // WORTH)
            done = call_5(team_at(g.team).divide, g.team, g.part, argv, 1, wanted) & 0xFFFFFFFF == OK
            free(block)
    if not done:
        for number in range(in_all):
            _multiply_block(g.blas, products, blocks, number)
    if quiet:
        leave(g.scope)
    return OK


@generic
def _multiply_block(blas: int, products: int, blocks: Blocks, number: int) -> None:
    """Compute one block of one product."""
    p, product, block = products_at(products), number // blocks.each, number % blocks.each
    row, column = block % blocks.across * blocks.rows, block // blocks.across * blocks.columns
    a = p.a + product * p.a_step + row * p.itemsize * (p.a_row if p.transpose_a != 0 else 1)
    b = p.b + product * p.b_step + column * p.itemsize * (1 if p.transpose_b != 0 else p.b_row)
    c = p.c + product * p.c_step + (row + column * p.c_row) * p.itemsize
    m, n = min(blocks.rows, p.m - row), min(blocks.columns, p.n - column)
    of_a, of_b = MatrixAt(a, p.a_row, p.transpose_a), MatrixAt(b, p.b_row, p.transpose_b)
    call_blas(blas, Product(p.itemsize, m, n, p.k, of_a, of_b, MatrixAt(c, p.c_row, 0)))


@native
def multiply_part(argv: int, n: int) -> int:
    """Compute the blocks of a share: called like a kernel (see ``object_layout``), with a JOB as its only tensor."""
    j, share = job_at(load_i64(argv)), load_i64(argv + 16)
    blocks = Blocks(j.rows, j.columns, j.across, j.each)
    for number in range(first_of(share, j.in_all, 1), end_of(share, j.in_all, 1)):
        _multiply_block(j.blas, j.products, blocks, number)
    return OK


# ---- entry points for kernels ----------------------------------------------------------------------------------------------


@generic
def call_gemms(gemm: int, product: Product, batch: BatchSteps) -> None:
    """Compute a batch of products, whose first is ``product``; m, n and k are not 0.  ``gemm``: the address of a GEMM record."""
    call_2(gemm_at(gemm).multiply, gemm, (product, batch))


@generic
def call_gemm(gemm: int, product: Product) -> None:
    """Compute one product, as ``call_gemms``."""
    call_gemms(gemm, product, BatchSteps(1, 0, 0, 0))


# ---- the records of this process -------------------------------------------------------------------------------------------

_SIGNATURE = "int64(int64, int64)"
#: The functions of this file that kernels of matrix products call, with their signatures.
FUNCTIONS: tuple[tuple[Callable[..., Any], str], ...] = (multiply_part, _SIGNATURE), (multiply, _SIGNATURE)
_records: dict[tuple[int, int], np.ndarray] = {}


def gemm_of(blas: int, scope: int) -> int:
    """The address of the GEMM record of a library function at ``blas``; see ``blas_threads.scope_of``."""
    from ..compiled import kernel_store
    from ..threads import team

    part = kernel_store.address_of(multiply_part, _SIGNATURE, "a part of matrix products")
    whole = kernel_store.address_of(multiply, _SIGNATURE, "matrix products")
    made = np.array([(whole, part, blas, scope, team.address())], GEMM)
    return _records.setdefault((blas, scope), made).ctypes.data
