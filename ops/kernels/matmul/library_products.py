"""Matrix products by cuBLAS: sizes, dtypes by the libraries' numbers, the call."""

from __future__ import annotations

import struct

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import Dim
from ....shape_funcs.symbolic.dim_operations import all_, lt
from ...codegen.cuda.cuda_program import Address, Argument, Handle, LibraryCall, Size, Word
from ...core.tensor_types import computed_in
from .cpu import BLAS_LIMIT

#: cudaDataType (library_types.h).
DATA_TYPES = {"float32": 0, "float64": 1, "float16": 2, "int8": 3, "int32": 10, "bfloat16": 14}
#: cublasComputeType_t (cublas_api.h) by the dtype of the sums; none of these permits TF32.
COMPUTE_TYPES = {"float32": 68, "float64": 70, "int32": 72}
#: Dtypes of inputs and result of ``cublasGemmStridedBatchedEx``.
PAIRS = {(d, d) for d in ("float32", "float64", "float16", "bfloat16")} | {("float16", "float32"), ("bfloat16", "float32")}
_DEFAULT_ALGORITHM = -1


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


def fits_library(shape: Product) -> Dim:
    """Whether the inner axis is not empty and all sizes are within the library's range."""
    return all_(lt(0, shape.k), *(lt(s, BLAS_LIMIT) for s in (shape.m, shape.n, shape.k, shape.batch)))


#: The address and dtype of a matrix.
Matrix = tuple[Argument, str]


def library_call(matrices: tuple[Matrix, Matrix, Matrix], shape: Product, wanted: Dim) -> LibraryCall:
    """The library product of the first two matrices into the third, for dtypes in PAIRS; run if ``wanted`` and not empty.

    A row-major ``out = a @ b`` is a column-major ``out^T = b^T @ a^T``; in column-major order a and b are already transposed.
    """
    (a_data, a_kind), (b_data, b_kind), (out_data, out_kind) = ((at, Word(DATA_TYPES[dtype])) for at, dtype in matrices)
    number = computed_in(matrices[0][1])
    one, zero = (Address(struct.pack("<f" if number == "float32" else "<d", x)) for x in (1.0, 0.0))
    lda, ldb = shape.m if shape.transpose_a else shape.k, shape.k if shape.transpose_b else shape.n
    args: list[Argument] = [Handle("cublas"), Word(int(shape.transpose_b)), Word(int(shape.transpose_a))]
    args += [Size(shape.n), Size(shape.m), Size(shape.k), one]
    args += [b_data, b_kind, Size(ldb), Size(shape.b_step), a_data, a_kind, Size(lda), Size(shape.a_step), zero]
    args += [out_data, out_kind, Size(shape.n), Size(shape.m * shape.n), Size(shape.batch)]
    args += [Word(COMPUTE_TYPES[number]), Word(_DEFAULT_ALGORITHM)]
    return LibraryCall("cublasGemmStridedBatchedEx", tuple(args), unless=all_(wanted, shape.m * shape.n * shape.batch))
