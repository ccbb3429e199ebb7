"""Matrix products by cuBLASLt, whose algorithm is chosen by sizes and alignment: see ``cuda_program.MatrixProduct``.

float32, float64 and halves with sums in float32 or float64, without TF32; int8 with sums in int32, where none overflows.
"""

from __future__ import annotations

import struct

from ....shape_funcs.symbolic.dim import Dim
from ....shape_funcs.symbolic.dim_operations import all_, lt
from ...codegen.cuda.cuda_program import Address, Argument, Data, MatrixProduct, Sums
from ...core.tensor_types import computed_in
from .library_products import COMPUTE_TYPES, DATA_TYPES, PAIRS, Product

#: CUBLASLT_EPILOGUE_DEFAULT: the result is the product and the added matrix; CUBLASLT_EPILOGUE_BIAS: and a vector.
_PLAIN, _BIAS = 1, 4
#: Dtypes of inputs and result beyond those of cuBLAS's call.
_INTEGERS = ("int8", "int32")
_FORMATS = {"float32": "<f", "float64": "<d", "int32": "<i"}
#: The longest inner axis over which no sum of products of int8 leaves int32.
_MOST_TERMS = 2**31 // 2**14 - 1

_NO_SUMS = Sums()

#: The dtypes of inputs and result that the library may multiply.
SUPPORTED = {*PAIRS, _INTEGERS}


def _fits_sums(dtypes: tuple[str, str], shape: Product) -> Dim:
    """Whether no sum overflows."""
    return all_(lt(shape.k, _MOST_TERMS + 1)) if dtypes == _INTEGERS else all_()


def matrix_product(
    addresses: tuple[Argument, Argument, Argument], dtypes: tuple[str, str], shape: Product, wanted: Dim, sums: Sums = _NO_SUMS
) -> MatrixProduct:
    """The product of the first two matrices into the third, with sums, for dtypes in SUPPORTED; in place of the next step."""
    number = "int32" if dtypes == _INTEGERS else computed_in(dtypes[0])
    one, zero = (Address(struct.pack(_FORMATS[number], x)) for x in (1, 0))
    a, b, out = addresses
    return MatrixProduct(
        a,
        b,
        out,
        sizes=(shape.m, shape.n, shape.k, shape.batch, shape.a_step, shape.b_step),
        transposed=(shape.transpose_a, shape.transpose_b),
        types=(DATA_TYPES[dtypes[0]], DATA_TYPES[dtypes[0]], DATA_TYPES[dtypes[1]]),
        compute=COMPUTE_TYPES[number],
        scale=DATA_TYPES[number],
        alpha=one,
        beta=zero if sums.matrix is None else one,
        epilogue=_PLAIN if sums.vector is None else _BIAS,
        added=None if sums.matrix is None else Data(sums.matrix),
        bias=None if sums.vector is None else Data(sums.vector),
        unless=all_(wanted, _fits_sums(dtypes, shape), shape.m * shape.n * shape.batch),
    )
