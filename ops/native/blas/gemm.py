"""Matrix products by a BLAS, divided between the threads of this process.

A product is split into blocks of its result, by its sizes alone: so results do not depend on the number of threads, although a
BLAS may add in another order for fewer rows.  The BLAS is called for each block and uses no threads itself.  Blocks are large,
since a BLAS copies both its inputs before it multiplies: blocks of 128 to 256 rows cost some 4 %.

Kernels find the address of a GEMM record in the library table, and call the machine code in its first word.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from ..jit.c_functions import call_5
from ..memory import alloc, free, load_i64, native, record, set_machine_form, store_i64, twin
from ..status import OK
from ..threads.team import team_at
from ..threads.work_partition import end_of, first_of
from .blas_call import call_blas
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

#: Data shared by the threads of one call: its arguments, block sizes, and the number of blocks per product and in all.
_ARGUMENTS = ("blas", "itemsize", "transpose_a", "transpose_b", "m", "n", "k", "a", "lda", "b", "ldb", "c", "ldc")
JOB = np.dtype(
    [(name, _WORD) for name in (*_ARGUMENTS, "a_step", "b_step", "c_step", "rows", "columns", "across", "each", "blocks_in_all")]
)
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


@native
def multiply(
    gemm: int, itemsize: int, transpose_a: int, transpose_b: int, m: int, n: int, k: int, a: int, lda: int, b: int, ldb: int,
    c: int, ldc: int, count: int, a_step: int, b_step: int, c_step: int,
) -> int:  # fmt: skip
    """Compute ``count`` products as ``call_gemms``, in several threads if they have enough work."""
    work = m * n * k * itemsize
    rows = block_length(m, work, SHORTEST) if m >= n else m
    columns = block_length(n, work, SHORTEST) if n > m else n
    if rows * columns * k * itemsize > LARGE_WORK:
        rows, columns = (rows, max(columns // 2, SHORTEST_ACROSS)) if m >= n else (max(rows // 2, SHORTEST_ACROSS), columns)
    across = (m + rows - 1) // rows
    each = across * ((n + columns - 1) // columns)
    g = gemm_at(gemm)
    quiet = m * n * k > ALONE_WORK or m == 1 or n == 1
    if quiet:
        enter(g.scope)
    done = False
    if each * count > 1 and work * count > 2 * WORTH and team_at(g.team).threads > 1 and team_at(g.team).divide != 0:
        block = alloc(_JOB_BYTES + 32)
        if block != 0:
            j = job_at(block)
            j.blas, j.itemsize, j.transpose_a, j.transpose_b = g.blas, itemsize, transpose_a, transpose_b
            j.m, j.n, j.k, j.a, j.lda, j.b, j.ldb, j.c, j.ldc = m, n, k, a, lda, b, ldb, c, ldc
            j.a_step, j.b_step, j.c_step, j.rows, j.columns = a_step, b_step, c_step, rows, columns
            j.across, j.each, j.blocks_in_all = across, each, each * count
            argv = block + _JOB_BYTES
            store_i64(argv, block)
            store_i64(argv + 8, 0)
            wanted = min(each * count, work * count // WORTH)
            done = call_5(team_at(g.team).divide, g.team, g.part, argv, 1, wanted) & 0xFFFFFFFF == OK
            free(block)
    if not done:
        for number in range(each * count):
            multiply_block(
                g.blas, itemsize, transpose_a, transpose_b, m, n, k, a, lda, b, ldb, c, ldc, a_step, b_step, c_step,
                rows, columns, across, each, number,
            )  # fmt: skip
    if quiet:
        leave(g.scope)
    return OK


@native
def multiply_block(
    blas: int, itemsize: int, transpose_a: int, transpose_b: int, m: int, n: int, k: int, a: int, lda: int, b: int, ldb: int,
    c: int, ldc: int, a_step: int, b_step: int, c_step: int, rows: int, columns: int, across: int, each: int, number: int,
) -> None:  # fmt: skip
    """Compute one block of one product."""
    product, block = number // each, number % each
    row, column = block % across * rows, block // across * columns
    a += product * a_step + row * itemsize * (lda if transpose_a != 0 else 1)
    b += product * b_step + column * itemsize * (1 if transpose_b != 0 else ldb)
    c += product * c_step + (row + column * ldc) * itemsize
    call_blas(blas, itemsize, transpose_a, transpose_b, min(rows, m - row), min(columns, n - column), k, a, lda, b, ldb, c, ldc)


@native
def multiply_part(argv: int, n: int) -> int:
    """Compute the blocks of a share: called like a kernel (see ``object_layout``), with a JOB as its only tensor."""
    j, share = job_at(load_i64(argv)), load_i64(argv + 16)
    for number in range(first_of(share, j.blocks_in_all, 1), end_of(share, j.blocks_in_all, 1)):
        multiply_block(
            j.blas, j.itemsize, j.transpose_a, j.transpose_b, j.m, j.n, j.k, j.a, j.lda, j.b, j.ldb, j.c, j.ldc,
            j.a_step, j.b_step, j.c_step, j.rows, j.columns, j.across, j.each, number,
        )  # fmt: skip
    return OK


# ---- entry points for kernels ----------------------------------------------------------------------------------------------

_WORDS = 17


@twin
def call_gemms(
    gemm: int, itemsize: int, transpose_a: int, transpose_b: int, m: int, n: int, k: int,
    a: int, lda: int, b: int, ldb: int, c: int, ldc: int, count: int, a_step: int, b_step: int, c_step: int,
) -> None:  # fmt: skip
    """Compute ``c = op(a) @ op(b)``, ``count`` times: column-major, all arguments int64, m to ldc below 2**31, m, n and k not 0.

    ``gemm`` is the address of a GEMM record.  ``a``, ``b`` and ``c`` are addresses of float32 (``itemsize`` 4) or float64 (8)
    matrices with leading dimensions ``lda``, ``ldb``, ``ldc``; the matrices of the next product are ``*_step`` bytes behind them.
    ``op`` transposes if ``transpose_*`` is 1.
    """
    words = (itemsize, transpose_a, transpose_b, m, n, k, a, lda, b, ldb, c, ldc, count, a_step, b_step, c_step)
    function = ctypes.c_int64.from_address(int(gemm)).value
    ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * _WORDS)(function)(int(gemm), *map(int, words))


def _call_gemms_machine(emitter: Any, *arguments: Any) -> None:
    from llvmlite import ir

    b, word, words = emitter.builder, ir.IntType(64), [emitter.word(a) for a in arguments]
    function = b.load(b.inttoptr(words[0], word.as_pointer()))
    b.call(b.inttoptr(function, ir.FunctionType(word, [word] * _WORDS).as_pointer()), words)


set_machine_form(call_gemms, lambda: _call_gemms_machine)


@native
def call_gemm(
    gemm: int, itemsize: int, transpose_a: int, transpose_b: int, m: int, n: int, k: int, a: int, lda: int, b: int, ldb: int,
    c: int, ldc: int,
) -> None:  # fmt: skip
    """Compute one product, as ``call_gemms``."""
    call_gemms(gemm, itemsize, transpose_a, transpose_b, m, n, k, a, lda, b, ldb, c, ldc, 1, 0, 0, 0)


# ---- the records of this process -------------------------------------------------------------------------------------------

_PART_SIGNATURE, _WHOLE_SIGNATURE = "int64(int64, int64)", f"int64({', '.join(['int64'] * _WORDS)})"
#: The functions of this file that kernels of matrix products call, with their signatures.
FUNCTIONS: tuple[tuple[Callable[..., Any], str], ...] = (multiply_part, _PART_SIGNATURE), (multiply, _WHOLE_SIGNATURE)
_records: dict[tuple[int, int], np.ndarray] = {}


def gemm_of(blas: int, scope: int) -> int:
    """The address of the GEMM record of a library function at ``blas``; see ``blas_threads.scope_of``."""
    from ..compiled import kernel_store
    from ..threads import team

    part = kernel_store.address_of(multiply_part, _PART_SIGNATURE, "a part of matrix products")
    whole = kernel_store.address_of(multiply, _WHOLE_SIGNATURE, "matrix products")
    made = np.array([(whole, part, blas, scope, team.address())], GEMM)
    return _records.setdefault((blas, scope), made).ctypes.data
