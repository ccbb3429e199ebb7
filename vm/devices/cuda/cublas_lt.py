"""cuBLASLt for a session: handle, preference, descriptions of products; the numbers of cublasLt.h.

Machine code calls the library by the addresses in the record PRODUCTS (see ``matrix_products``).
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable

import numpy as np

from ....ops.codegen.cuda.cuda_program import MatrixProduct
from ...state.gpu_layout import PRODUCT, PRODUCT_ROW, PRODUCT_ROWS, PRODUCTS
from .driver_api.driver import NoCuda

#: Attributes of descriptions: operations on the library's A and B, epilogue.
_TRANSPOSED_A, _TRANSPOSED_B, _EPILOGUE = 3, 4, 7
#: Attributes of preferences: most bytes of workspace, mask of the permitted ways to add partial sums.
_MOST_WORKSPACE, _REDUCTIONS = 1, 3
#: CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE: partial sums are not rounded to the result's type before they are added.
_FULL_SUMS = 2
#: CUDA_R_32F of all matrices; CUBLAS_COMPUTE_32F, and CUBLAS_COMPUTE_32F_FAST_TF32: the factors are rounded to 11 bits.
_FLOATS, _FLOAT32, _FAST_TF32 = (0, 0, 0), 68, 77
#: Fields of PRODUCTS that are functions.
_FUNCTIONS = {
    "new_layout": "cublasLtMatrixLayoutCreate",
    "set_layout": "cublasLtMatrixLayoutSetAttribute",
    "free_layout": "cublasLtMatrixLayoutDestroy",
    "set_preference": "cublasLtMatmulPreferenceSetAttribute",
    "choose": "cublasLtMatmulAlgoGetHeuristic",
    "set_description": "cublasLtMatmulDescSetAttribute",
    "multiply": "cublasLtMatmul",
}


class ProductLibrary:
    """The library with a workspace on the current GPU.  Raises NoCuda.

    ``find`` is the lookup of the library's functions.
    ``on_close`` takes the functions that destroy the library's objects, to be called in reverse order.  ``tf32``: whether factors
    of float32 may be rounded to TF32.
    """

    def __init__(
        self, find: Callable[[str], int], workspace: int, nbytes: int, on_close: Callable[[Callable[[], None]], None],
        tf32: bool = False,
    ) -> None:  # fmt: skip
        self._find, self._on_close, self._tf32 = find, on_close, tf32
        self._rows = np.zeros(PRODUCT_ROWS, PRODUCT_ROW)
        self._block = np.zeros(1, PRODUCTS)
        self._descriptions: list[np.ndarray] = []
        record = self._block[0]
        for field, symbol in _FUNCTIONS.items():
            record[field] = find(symbol)
        record["handle"] = self._made("cublasLtCreate", "cublasLtDestroy")
        record["preference"] = self._made("cublasLtMatmulPreferenceCreate", "cublasLtMatmulPreferenceDestroy")
        record["workspace"], record["workspace_bytes"] = workspace, nbytes
        record["rows"], record["n_rows"] = self._rows.ctypes.data, PRODUCT_ROWS
        preference = int(record["preference"])
        self._set("cublasLtMatmulPreferenceSetAttribute", preference, _MOST_WORKSPACE, ctypes.c_uint64(nbytes))
        self._set("cublasLtMatmulPreferenceSetAttribute", preference, _REDUCTIONS, ctypes.c_uint32(_FULL_SUMS))

    @property
    def address(self) -> int:
        """The address of the record PRODUCTS."""
        return self._block.ctypes.data

    def product(self, step: MatrixProduct, alpha: int, beta: int) -> int:
        """The address of a new record PRODUCT with these addresses of factors."""
        compute = _FAST_TF32 if self._tf32 and (step.compute, step.types) == (_FLOAT32, _FLOATS) else step.compute
        description = self._made("cublasLtMatmulDescCreate", "cublasLtMatmulDescDestroy", compute, step.scale)
        # by columns the product is that of the transposed matrices, in reverse order
        values = (_TRANSPOSED_A, step.transposed[1]), (_TRANSPOSED_B, step.transposed[0]), (_EPILOGUE, step.epilogue)
        for attribute, value in values:
            self._set("cublasLtMatmulDescSetAttribute", description, attribute, ctypes.c_uint32(value))
        block = np.zeros(1, PRODUCT)
        block[0] = (description, *step.types, *step.transposed, alpha, beta, step.bias is not None)
        self._descriptions.append(block)
        return block.ctypes.data

    def _made(self, create: str, destroy: str, *args: int) -> int:
        cell = ctypes.c_int64(0)
        self._call(create, ctypes.addressof(cell), *args)
        self._on_close(functools.partial(self._call, destroy, cell.value))
        return cell.value

    def _set(self, function: str, thing: int, attribute: int, value: ctypes.c_uint32 | ctypes.c_uint64) -> None:
        self._call(function, thing, attribute, ctypes.addressof(value), ctypes.sizeof(value))

    def _call(self, function: str, *args: int) -> None:
        """Call a function of the library.  Raises NoCuda."""
        error = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_int64] * len(args))(self._find(function))(*args)
        if error:
            raise NoCuda(f"{function} failed with cuBLAS status {error}")
