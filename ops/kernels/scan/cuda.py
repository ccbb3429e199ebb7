"""cumsum and cumprod on CUDA, in one pass over memory.

If the axis is the last one, a block scans a part of a row, else a part of neighbouring columns.  A block finds the sums before
its part by looking back (see ``look_back``).  The order of additions is fixed, but differs from the CPU's: float results differ
by rounding.
"""

from __future__ import annotations

from ....shape_funcs.symbolic.dim import const
from ...codegen.cuda.assembly import Assembly, around
from ...codegen.cuda.cuda_program import CudaSource, OpaqueCall
from ...core.tensor_types import ITEMSIZE, computed_in, is_float
from .columns_cuda import add_columns
from .rows_cuda import add_rows
from .scan_cuda import Scan


def cumsum(call: OpaqueCall) -> CudaSource:
    """The sum of all elements up to each element along an axis, without the element itself if ``exclusive``.

    Accumulates in the result's dtype, in float32 for the two storage-only dtypes.
    """
    return _cumulative(call, "Add", 0)


def cumprod(call: OpaqueCall) -> CudaSource:
    """``cumsum`` with products."""
    return _cumulative(call, "Multiply", 1)


def _cumulative(call: OpaqueCall, join: str, start: int) -> CudaSource:
    (data,), (out,) = call.inputs, call.results
    sums = computed_in(out.dtype)
    if not is_float(sums):
        sums = "uint64" if ITEMSIZE[sums] == 8 else "uint32"  # unsigned, because overflow is then defined
    scan = Scan(Assembly(), data, out, sums, call.attrs.exclusive, *around(data.shape, call.attrs.axis))
    scan.begin(join, start)
    add_rows(scan)
    if const(scan.inner) != 1:
        add_columns(scan)
    return scan.assembly.source()
