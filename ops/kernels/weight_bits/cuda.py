"""Products with a matrix in panels of few bits on CUDA: a thread for each element of the result.

The compiler leaves weights of programs for GPUs as they are; this kernel serves programs that name the operator.
"""

from __future__ import annotations

from string import Template

from ....shape_funcs.symbolic.dim import dim, product
from ....shape_funcs.symbolic.dim_operations import lt, where
from ...codegen.cuda.assembly import Assembly, blocks, reads, size, writes
from ...codegen.cuda.cuda_program import CudaSource, OpaqueCall
from .weight_layout import COLUMNS, LANE_BYTES, parts_of

_THREADS = 256

# The layout of a lane: see ``weight_layout``.
_PRODUCT = Template("""
  for (int64 at = int64(blockIdx.x) * $threads + threadIdx.x; at < m * n; at += int64(gridDim.x) * $threads) {
    int64 i = at / n, j = at % n;
    float32 total = 0;
    for (int64 b = 0; b < count; ++b) {
      int64 place = j / $columns * count + b;
      float32 zero = float32(zeros[place * apart + j % $columns]), sum = 0;
      for (int64 p = 0; p < $block && b * $block + p < k; ++p) {
        int64 lane = p / ($lane * $parts) * $columns + j % $columns;
        int packed = weight[place * ($columns * $block / $parts) + lane * $lane + p % $lane];
        int number = packed >> p / $lane % $parts * $bits & $mask;
        sum += (float32(number) - zero) * data[i * k + b * $block + p];
      }
      total += sum * scales[place * $columns + j % $columns];
    }
    out[at] = total;
  }
""")


def dense_bit_panels(call: OpaqueCall) -> CudaSource:
    """Element ``(m, n)``: the sums of the blocks of column n, each times its scale, in float32."""
    data, weight, scales, zeros = call.inputs
    (out,) = call.results
    bits = call.attrs.bits
    assembly = Assembly()
    body = _PRODUCT.substitute(
        threads=_THREADS,
        columns=COLUMNS,
        lane=LANE_BYTES,
        parts=parts_of(bits),
        bits=bits,
        mask=2**bits - 1,
        block=call.attrs.block,
    )
    tensors = (reads("data", data), reads("weight", weight), reads("scales", scales), reads("zeros", zeros), writes("out", out))
    units = out.shape[-1]
    apart = where(lt(COLUMNS, product(zeros.shape)), COLUMNS, dim(0))
    sizes = (size("m", product(out.shape[:-1])), size("n", units), size("k", data.shape[-1]), size("count", weight.shape[1]))
    assembly.kernel("multiply", _THREADS, (*tensors, *sizes, size("apart", apart)), body)
    assembly.launch("multiply", blocks(product(out.shape), _THREADS))
    return assembly.source()
