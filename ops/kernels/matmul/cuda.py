"""Matrix products on CUDA: cuBLAS for its dtypes, with float32 accumulation (float64 for float64), without TF32.

A tiled kernel computes the rest: integers, floats whose result has another dtype, an empty inner axis, sizes beyond int32.
Integers are multiplied and added modulo their result's range.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from string import Template
from typing import Any

from ....shape_funcs.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import Dim, Shape, all_, dim, eq, lt, not_, product, where
from ...codegen.cuda.assembly import Assembly, Parameter, blocks, reads, size, writes
from ...codegen.cuda.casts import NUMBER, converted
from ...codegen.cuda.cuda_program import (
    Address,
    Argument,
    CudaSource,
    Data,
    Handle,
    LibraryCall,
    OpaqueCall,
    Operand,
    Size,
    Word,
)
from ...core.tensor_types import ITEMSIZE, computed_in, is_float
from .cpu import BLAS_LIMIT

#: The library's enumerations of dtypes (cudaDataType) and of compute types (cublasComputeType).
_DATA_TYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 14}
_COMPUTE_TYPES = {"float32": 68, "float64": 70}
_DEFAULT_ALGORITHM = -1
#: Dtypes of inputs and result that the library supports.
PAIRS = {(d, d) for d in _DATA_TYPES} | {("float16", "float32"), ("bfloat16", "float32")}

#: The side of a block's tile of the result, threads per block, and the depth of the inner axis that it loads at a time.
TILE, THREADS, DEPTH = 64, 256, 16


@frozen
class Product:
    """``batch`` times ``op(a)[m, k] @ op(b)[k, n]``; a step is the number of elements from one matrix to the next."""

    batch: Dim
    m: Dim
    n: Dim
    k: Dim
    a_step: Dim
    b_step: Dim
    transpose_a: bool
    transpose_b: bool


#: ``attrs -> (transpose_a, transpose_b)``: whether each of the two matrices is transposed first.
Transposed = Callable[[Any], tuple[bool, bool]]


def matmul(transposed: Transposed) -> Callable[[OpaqueCall], CudaSource]:
    """``op(a) @ op(b)`` of ``a[..., m, k]`` and one matrix ``b``: a single product unless ``a`` is transposed."""

    def source(call: OpaqueCall) -> CudaSource:
        (a, b), (transpose_a, transpose_b) = call.inputs, transposed(call.attrs)
        n, k = _sides(b.shape, transpose_b)
        if transpose_a:
            m = a.shape[-1]
            shape = Product(product(a.shape[:-2]), m, n, k, m * k, dim(0), transpose_a, transpose_b)
        else:
            shape = Product(dim(1), product(a.shape[:-1]), n, k, dim(0), dim(0), transpose_a, transpose_b)
        return _source(call, shape)

    return source


def batch_matmul(transposed: Transposed) -> Callable[[OpaqueCall], CudaSource]:
    """``op(a[i]) @ op(b[i])`` for each i; a batch of 1 is broadcast."""

    def source(call: OpaqueCall) -> CudaSource:
        (a, b), (out,), (transpose_a, transpose_b) = call.inputs, call.results, transposed(call.attrs)
        batch, m, n = out.shape
        k = a.shape[1 if transpose_a else 2]
        a_step, b_step = (where(eq(x.shape[0], 1), 0, step) for x, step in ((a, m * k), (b, n * k)))
        return _source(call, Product(batch, m, n, k, a_step, b_step, transpose_a, transpose_b))

    return source


def dense_panels(call: OpaqueCall) -> CudaSource:
    """``a[..., k]`` times the columns in panels ``b[panels, k, width]``."""
    (a, b), (out,) = call.inputs, call.results
    assembly = Assembly()
    shape = Product(dim(1), product(a.shape[:-1]), out.shape[-1], a.shape[-1], dim(0), dim(0), False, False)
    _add_kernel(assembly, a, b, out, shape, dim(1), ("(j / width * k + p) * width + j % width", size("width", b.shape[2])))
    return assembly.source()


def _sides(shape: Shape, transposed: bool) -> tuple[Dim, Dim]:
    """Columns and rows of ``op(b)``."""
    return (shape[0], shape[1]) if transposed else (shape[1], shape[0])


def _source(call: OpaqueCall, shape: Product) -> CudaSource:
    (a, b), (out,) = call.inputs, call.results
    assembly = Assembly()
    fits = dim(0)
    if (a.dtype, out.dtype) in PAIRS:
        fits = fits_library(shape)
        matrices = (_data(a), a.dtype), (_data(b), b.dtype), (_data(out), out.dtype)
        assembly.steps.append(library_call(matrices, shape, fits))
    _add_kernel(assembly, a, b, out, shape, not_(fits))
    return assembly.source()


def fits_library(shape: Product) -> Dim:
    """Whether the inner axis is not empty and all sizes are within the library's range."""
    return all_(lt(0, shape.k), *(lt(s, BLAS_LIMIT) for s in (shape.m, shape.n, shape.k, shape.batch)))


#: The address and dtype of a matrix.
Matrix = tuple[Argument, str]


def library_call(matrices: tuple[Matrix, Matrix, Matrix], shape: Product, wanted: Dim) -> LibraryCall:
    """The library product of the first two matrices into the third, for dtypes in PAIRS; run if ``wanted`` and not empty.

    A row-major ``out = a @ b`` is a column-major ``out^T = b^T @ a^T``; in column-major order a and b are already transposed.
    """
    (a_data, a_kind), (b_data, b_kind), (out_data, out_kind) = ((at, Word(_DATA_TYPES[dtype])) for at, dtype in matrices)
    number = computed_in(matrices[0][1])
    one, zero = (Address(struct.pack("<f" if number == "float32" else "<d", x)) for x in (1.0, 0.0))
    lda, ldb = shape.m if shape.transpose_a else shape.k, shape.k if shape.transpose_b else shape.n
    args: list[Argument] = [Handle("cublas"), Word(int(shape.transpose_b)), Word(int(shape.transpose_a))]
    args += [Size(shape.n), Size(shape.m), Size(shape.k), one]
    args += [b_data, b_kind, Size(ldb), Size(shape.b_step), a_data, a_kind, Size(lda), Size(shape.a_step), zero]
    args += [out_data, out_kind, Size(shape.n), Size(shape.m * shape.n), Size(shape.batch)]
    args += [Word(_COMPUTE_TYPES[number]), Word(_DEFAULT_ALGORITHM)]
    return LibraryCall("cublasGemmStridedBatchedEx", tuple(args), unless=all_(wanted, shape.m * shape.n * shape.batch))


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
    const $dtype *a_here = a + matrix * a_step, *b_here = b + matrix * b_step;
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
        for (int q = 0; q < 16; ++q) sums[q / 4][q % 4] += column[q / 4] * row[q % 4];
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
        f"typedef {sums} Sum;\n"
        f"DEVICE Sum factor({a.dtype} x) {{ return Sum(number(x)); }}\n"
        f"DEVICE {out.dtype} stored(Sum sum) {{ return {converted('sum', sums, out.dtype)}; }}\n",
    )
    along, aside = f"at % {DEPTH}", f"at / {DEPTH}"  # neighbouring threads load along the inner axis,
    turned = f"at / {TILE}", f"at % {TILE}"  # or across it
    a_deep, a_row = turned if shape.transpose_a else (along, aside)
    b_deep, b_row = (along, aside) if shape.transpose_b else turned
    body = _TILES.substitute(
        tile=TILE, depth=DEPTH, threads=THREADS, dtype=a.dtype, a_deep=a_deep, a_row=a_row, b_deep=b_deep, b_row=b_row,
        a_at="p * m + i" if shape.transpose_a else "i * k + p",
        b_at=b_place[0] if b_place else "j * k + p" if shape.transpose_b else "p * n + j",
    )  # fmt: skip
    names = ("batch", "m", "n", "k", "a_step", "b_step")
    sizes = (*(size(name, getattr(shape, name)) for name in names), *(b_place[1:] if b_place else ()))
    assembly.kernel("multiply", THREADS, (reads("a", a), reads("b", b), writes("out", out), *sizes), body)
    tiles = shape.batch * ((shape.m + (TILE - 1)) // TILE) * ((shape.n + (TILE - 1)) // TILE)
    assembly.launch("multiply", where(wanted, blocks(tiles), 0))
