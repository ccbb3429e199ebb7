"""Matrix products on CUDA: cuBLASLt or cuBLAS for their dtypes, with float32 accumulation (float64 for float64), without TF32.

Products of few rows are computed by a kernel of their own (``few_rows``).

A tiled kernel computes the rest: other integers, floats whose result has another dtype, an empty inner axis, sizes beyond int32.
Integers are multiplied and added modulo their result's range.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from string import Template
from typing import Any

from ....shape_funcs.defs.products.nn import BYTE_COLUMNS, BYTE_DEPTH
from ....shape_funcs.symbolic.dim import Dim, Shape, dim, product
from ....shape_funcs.symbolic.dim_operations import all_, eq, not_, where
from ...codegen.cuda.assembly import Assembly, Parameter, blocks, reads, size, writes
from ...codegen.cuda.cuda_program import (
    CudaSource,
    Data,
    OpaqueCall,
    Operand,
)
from ...codegen.cuda.device_code.casts import NUMBER, converted
from ...core.tensor_types import ITEMSIZE, computed_in, is_float
from . import few_rows
from .cublas_lt import SUPPORTED, matrix_product
from .dot_product import PLUS_PRODUCT
from .library_products import PAIRS, Product, fits_library, library_call

#: The side of a block's tile of the result, threads per block, and the depth of the inner axis that it loads at a time.
TILE, THREADS, DEPTH = 64, 256, 16


#: ``attrs -> (transpose_a, transpose_b)``: whether each of the two matrices is transposed first.
Transposed = Callable[[Any], tuple[bool, bool]]


def matmul(transposed: Transposed, by_lt: bool = False, by_few_rows: bool = False) -> Callable[[OpaqueCall], CudaSource]:
    """``op(a) @ op(b)`` of ``a[..., m, k]`` and one matrix ``b``: a single product unless ``a`` is transposed.

    ``by_lt``: cuBLASLt computes the product if it has an algorithm.  ``by_few_rows``: products of few rows have their own kernel.
    """

    def source(call: OpaqueCall) -> CudaSource:
        (a, b), (transpose_a, transpose_b) = call.inputs, transposed(call.attrs)
        n, k = _sides(b.shape, transpose_b)
        if transpose_a:
            m = a.shape[-1]
            shape = Product(product(a.shape[:-2]), m, n, k, m * k, dim(0), transpose_a, transpose_b)
        else:
            shape = Product(dim(1), product(a.shape[:-1]), n, k, dim(0), dim(0), transpose_a, transpose_b)
        return _source(call, shape, by_lt, by_few_rows)

    return source


def batch_matmul(transposed: Transposed, by_lt: bool = False) -> Callable[[OpaqueCall], CudaSource]:
    """``op(a[i]) @ op(b[i])`` for each i; a batch of 1 is broadcast.  ``by_lt``: as in ``matmul``."""

    def source(call: OpaqueCall) -> CudaSource:
        (a, b), (out,), (transpose_a, transpose_b) = call.inputs, call.results, transposed(call.attrs)
        batch, m, n = out.shape
        k = a.shape[1 if transpose_a else 2]
        a_step, b_step = (where(eq(x.shape[0], 1), 0, step) for x, step in ((a, m * k), (b, n * k)))
        return _source(call, Product(batch, m, n, k, a_step, b_step, transpose_a, transpose_b), by_lt)

    return source


def tiled_batch_matmul(transposed: Transposed) -> Callable[[OpaqueCall], CudaSource]:
    """``op(a[i]) @ op(b[i])`` for each i, again from the first matrix of ``b`` after the last; a batch of 1 of ``a`` is
    broadcast."""

    def source(call: OpaqueCall) -> CudaSource:
        (a, b, _), (out,), (transpose_a, transpose_b) = call.inputs, call.results, transposed(call.attrs)
        batch, m, n = out.shape
        k = a.shape[1 if transpose_a else 2]
        assembly, a_step = Assembly(), where(eq(a.shape[0], 1), 0, m * k)
        place = f"matrix % count * n * k + {'j * k + p' if transpose_b else 'p * n + j'}", size("count", b.shape[0])
        _add_kernel(assembly, a, b, out, Product(batch, m, n, k, a_step, dim(0), transpose_a, transpose_b), dim(1), place)
        return assembly.source()

    return source


def dense_panels(call: OpaqueCall) -> CudaSource:
    """``a[..., k]`` times the columns in panels ``b[panels, k, width]``."""
    (a, b), (out,) = call.inputs, call.results
    assembly = Assembly()
    shape = Product(dim(1), product(a.shape[:-1]), out.shape[-1], a.shape[-1], dim(0), dim(0), False, False)
    _add_kernel(assembly, a, b, out, shape, dim(1), ("(j / width * k + p) * width + j % width", size("width", b.shape[2])))
    return assembly.source()


def dense_byte_panels(call: OpaqueCall) -> CudaSource:
    """``a[..., k]`` times the columns in panels ``b[panels, steps, BYTE_COLUMNS, BYTE_DEPTH]``."""
    (a, b, _), (out,) = call.inputs, call.results
    assembly = Assembly()
    shape = Product(dim(1), product(a.shape[:-1]), out.shape[-1], a.shape[-1], dim(0), dim(0), False, False)
    line, column = f"(j / {BYTE_COLUMNS} * steps + p / {BYTE_DEPTH})", f"j % {BYTE_COLUMNS}"
    place = f"({line} * {BYTE_COLUMNS} + {column}) * {BYTE_DEPTH} + p % {BYTE_DEPTH}"
    _add_kernel(assembly, a, b, out, shape, dim(1), (place, size("steps", b.shape[1])))
    return assembly.source()


def _sides(shape: Shape, transposed: bool) -> tuple[Dim, Dim]:
    """Columns and rows of ``op(b)``."""
    return (shape[0], shape[1]) if transposed else (shape[1], shape[0])


def _source(call: OpaqueCall, shape: Product, by_lt: bool, by_few_rows: bool = False) -> CudaSource:
    (a, b), (out,) = call.inputs, call.results
    assembly, dtypes = Assembly(), (a.dtype, out.dtype)
    are_few = dim(0)
    followed = call.following is not None
    if by_few_rows and few_rows.may_pay(dtypes, shape, followed):
        are_few = few_rows.pays(a.dtype, shape, followed)
        few_rows.add_kernels(assembly, call, shape, are_few)
    fits = fits_library(shape)
    by_library = all_(not_(are_few), fits)
    if by_lt and dtypes in SUPPORTED:
        assembly.steps.append(matrix_product((_data(a), _data(b), _data(out)), dtypes, shape, by_library, call.sums))
    if dtypes in PAIRS:
        positions = (_data(a), a.dtype), (_data(b), b.dtype), (_data(out), out.dtype)
        assembly.steps.append(library_call(positions, shape, by_library))
    _add_kernel(assembly, a, b, out, shape, all_(not_(are_few), not_(fits) if dtypes in PAIRS else dim(1)))
    return replace(assembly.source(), is_whole=are_few)


def _data(tensor: Operand) -> Data:
    assert tensor.position is not None, "a literal is no matrix"
    return Data(tensor.position)


# Each thread computes 4 x 4 elements, with a stride of 16, so that neighbouring threads use neighbouring elements.
_TILES = Template("""
  __shared__ Sum of_a[$depth][$tile + 1], of_b[$depth][$tile + 1];
  int x = threadIdx.x % 16, y = threadIdx.x / 16;
  int64 across = (n + $tile - 1) / $tile, down = (m + $tile - 1) / $tile;
  for (int64 work = blockIdx.x; work < batch * down * across; work += gridDim.x) {
    int64 i0 = work / across % down * $tile, j0 = work % across * $tile, matrix = work / across / down;
    const $dtype *a_here = a + matrix * a_step;
    const $b_dtype *b_here = b + matrix * b_step;
    Sum sums[4][4] = {};
    for (int64 p0 = 0; p0 < k; p0 += $depth) {
      for (int at = threadIdx.x; at < $tile * $depth; at += $threads) {
        int64 i = i0 + $a_row, p = p0 + $a_deep;
        of_a[$a_deep][$a_row] = i < m && p < k ? factor(a_here[$a_at]) : Sum(0);
      }
      for (int at = threadIdx.x; at < $tile * $depth; at += $threads) {
        int64 j = j0 + $b_row, p = p0 + $b_deep;
        of_b[$b_deep][$b_row] = j < n && p < k ? factor(b_here[$b_at]) : Sum(0);
      }
      __syncthreads();
#pragma unroll
      for (int p = 0; p < $depth; ++p) {
        Sum column[4], row[4];
#pragma unroll
        for (int q = 0; q < 4; ++q) {
          column[q] = of_a[p][y + 16 * q];
          row[q] = of_b[p][x + 16 * q];
        }
#pragma unroll
        for (int q = 0; q < 16; ++q) sums[q / 4][q % 4] = plus_product(sums[q / 4][q % 4], column[q / 4], row[q % 4]);
      }
      __syncthreads();
    }
#pragma unroll
    for (int q = 0; q < 16; ++q) {
      int64 i = i0 + y + 16 * (q / 4), j = j0 + x + 16 * (q % 4);
      if (i < m && j < n) out[(matrix * m + i) * n + j] = stored(sums[q / 4][q % 4]);
    }
  }
""")


def _add_kernel(
    assembly: Assembly,
    a: Operand,
    b: Operand,
    out: Operand,
    shape: Product,
    wanted: Dim,
    b_place: tuple[str, *tuple[Parameter, ...]] | None = None,
) -> None:
    """Add the tiled kernel, run if ``wanted``.  ``b_place``: the place of element ``(p, j)`` of a matrix ``b`` that is not stored
    by rows or columns, and the parameters of this text."""
    number, result = computed_in(a.dtype), computed_in(out.dtype)
    if is_float(number):
        sums = "float64" if "float64" in (number, result) else "float32"
    else:
        sums = "uint64" if ITEMSIZE[result] == 8 else "uint32"  # unsigned, because overflow is then defined
    assembly.text(
        NUMBER,
        PLUS_PRODUCT,
        f"typedef {sums} Sum;\n",
        *(f"DEVICE Sum factor({dtype} x) {{ return Sum(number(x)); }}\n" for dtype in dict.fromkeys((a.dtype, b.dtype))),
        f"DEVICE {out.dtype} stored(Sum sum) {{ return {converted('sum', sums, out.dtype)}; }}\n",
    )
    along, aside = f"at % {DEPTH}", f"at / {DEPTH}"  # neighbouring threads load along the inner axis,
    across = f"at / {TILE}", f"at % {TILE}"  # or across it
    a_deep, a_row = across if shape.transpose_a else (along, aside)
    b_deep, b_row = (along, aside) if shape.transpose_b else across
    body = _TILES.substitute(
        tile=TILE, depth=DEPTH, threads=THREADS, dtype=a.dtype, b_dtype=b.dtype, a_deep=a_deep, a_row=a_row,
        b_deep=b_deep, b_row=b_row,
        a_at="p * m + i" if shape.transpose_a else "i * k + p",
        b_at=b_place[0] if b_place else "j * k + p" if shape.transpose_b else "p * n + j",
    )  # fmt: skip
    names = ("batch", "m", "n", "k", "a_step", "b_step")
    sizes = (*(size(name, getattr(shape, name)) for name in names), *(b_place[1:] if b_place else ()))
    assembly.kernel("multiply", THREADS, (reads("a", a), reads("b", b), writes("out", out), *sizes), body)
    tiles = shape.batch * ((shape.m + (TILE - 1)) // TILE) * ((shape.n + (TILE - 1)) // TILE)
    assembly.launch("multiply", where(wanted, blocks(tiles), 0))
