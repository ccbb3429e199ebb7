"""The implementations of matrix products, and when each is right and pays.

==========  ====================================================================================================
rows        few rows, or one column: reads a matrix once (``kernels/thin_matmul``)
blas        float32 or float64
blocks      of float16 and bfloat16: block by block as float32, by the BLAS
loops       anything
gemm        on cards: cuBLAS, or tiles where that does not take the dtypes (``kernels/cuda/matmul``)
==========  ====================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..shape_funcs.dims import Dim, const, min_, product
from .conditions import Conditions, condition
from .implementation import Kernel, OpCall, Scratch
from .kernels import half_matmul as halves
from .kernels import matmul as bodies
from .kernels.cuda import matmul as cuda
from .ty import HALVES, computed_in, is_float

#: With more rows a BLAS is faster.
THIN = 8
#: The library function by the dtype that is computed in.
GEMM = {"float32": "sgemm", "float64": "dgemm"}

#: ``(attrs) -> (is a transposed, is b)``.
Transposed = Callable[[Any], tuple[bool, bool]]
_Sizes = Callable[[OpCall], tuple[Dim, Dim, Dim]]


def of_one_matrix(transposed: Transposed) -> tuple[Kernel, ...]:
    """The product of the matrices in one tensor and one other matrix."""

    def sizes(call: OpCall) -> tuple[Dim, Dim, Dim]:
        (a, b), (transpose_a, transpose_b) = (t.shape for t in call.inputs), transposed(call.attrs)
        n, k = b[::-1] if not transpose_b else b
        return (a[-1] if transpose_a else product(a[:-1])), n, k

    by_dtype = (bodies.matmul_loops, bodies.matmul_integers)
    return _kernels(
        _Product(transposed, sizes), bodies.matmul_rows, bodies.matmul_blas, halves.matmul_halves, by_dtype, cuda.matmul
    )


def of_batches(transposed: Transposed) -> tuple[Kernel, ...]:
    """The products of the matrices of two batches."""

    def sizes(call: OpCall) -> tuple[Dim, Dim, Dim]:
        _, m, n = call.outputs[0].shape
        return m, n, call.inputs[0].shape[1 if transposed(call.attrs)[0] else 2]

    by_dtype = (bodies.batch_matmul_loops, bodies.batch_matmul_integers)
    return _kernels(
        _Product(transposed, sizes),
        bodies.batch_matmul_rows,
        bodies.batch_matmul_blas,
        halves.batch_matmul_halves,
        by_dtype,
        cuda.batch_matmul,
    )


def is_one_float(call: OpCall) -> bool:
    """Are all tensors float32, or all float64?"""
    return len(set(call.dtypes)) == 1 and call.dtypes[0] in GEMM


@dataclass(frozen=True)
class _Product:
    """What the implementations are asked about a call: ``sizes`` gives ``(m, n, k)`` of each product."""

    transposed: Transposed
    sizes: _Sizes

    def flags(self, attrs: Any) -> dict[str, bool]:
        """The attributes as a body takes them."""
        a, b = self.transposed(attrs)
        return {"transpose_a": a, "transpose_b": b}

    def lies_in_rows(self, call: OpCall) -> Conditions:
        """Do the rows of one of the matrices lie as rows?"""
        m, n, _ = self.sizes(call)
        return (condition(min_(m, n), "<=", 1),) if all(self.transposed(call.attrs)) else ()

    def is_thin(self, call: OpCall) -> Conditions:
        """Few rows, or one column."""
        m, n, _ = self.sizes(call)
        columns = const(n)
        # with more than one column known, only the rows count
        return (condition(m if columns is not None and columns > 1 else min_(m, THIN * n), "<=", THIN),)

    def room_for_blocks(self, call: OpCall) -> Dim:
        """The elements of the blocks that ``blocks`` works with (see ``half_matmul``)."""
        m, n, k = self.sizes(call)
        rows, columns, inner = min_(m, halves.ROWS), min_(n, halves.COLUMNS), min_(k, halves.INNER)
        return (rows + columns) * inner + 2 * rows * columns


def _is_half(call: OpCall) -> bool:
    """Does one tensor only store, and do all compute in one dtype?"""
    return bool(set(call.dtypes) & set(HALVES)) and len(set(map(computed_in, call.dtypes))) == 1


def _kernels(
    ask: _Product, rows: Any, blas: Any, blocks: Any, loops: tuple[Any, Any], on_card: Callable[[Transposed], Any]
) -> tuple[Kernel, ...]:
    of_floats, of_integers = loops

    def loop(attrs: Any, dtypes: tuple[str, ...]) -> Any:
        return of_floats if is_float(dtypes[0]) else of_integers

    given: dict[str, Any] = {"attrs": ask.flags, "views": ("dims",)}
    return (
        Kernel("rows", rows, takes=is_one_float, fits=ask.lies_in_rows, pays=ask.is_thin, **given),
        Kernel("blas", blas, takes=is_one_float, libraries=GEMM, **given),
        Kernel(
            "blocks", blocks, takes=_is_half, libraries=GEMM, scratch=(Scratch("float32", length=ask.room_for_blocks),), **given
        ),
        Kernel("loops", of_floats, choose=loop, **given),
        Kernel("gemm", None, cuda=on_card(ask.transposed), **given),
    )
