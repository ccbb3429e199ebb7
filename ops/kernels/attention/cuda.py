"""Attention on CUDA: a block per query and head; scores in a workspace, sums added as trees.

Threads share the keys of a query for the scores, then the elements of a head for the weighted sum.
"""

from __future__ import annotations

import math
from string import Template

from ....shape_funcs.symbolic.dim import product
from ...codegen.cuda.assembly import Assembly, Parameter, blocks, literal, reads, size, writes
from ...codegen.cuda.casts import NUMBER, converted
from ...codegen.cuda.cuda_program import CudaSource, OpaqueCall
from ...core.tensor_types import ITEMSIZE, computed_in

_THREADS = 128

_ATTENTION = Template("""
  struct Largest { DEVICE $number operator()($number a, $number b) const { return b > a || b != b ? b : a; } };
  for (int64 row = blockIdx.x; row < m * pairs; row += gridDim.x) {
    int64 pair = row % pairs, query_at = row * d;
    int64 bias_at = (pair * m + row / pairs) * n;
    $number* weights = scores + row * n;
    $number top = $lowest, total = 0;
    for (int64 j = threadIdx.x; j < n; j += blockDim.x) {
      $number sum = 0;
      for (int64 k = 0; k < d; ++k) sum += number(query[query_at + k]) * number(key[(j * pairs + pair) * d + k]);
      weights[j] = $scale * sum + number(bias[bias_at + j]);
      top = Largest()(top, weights[j]);
    }
    top = block_reduce(top, Largest());
    for (int64 j = threadIdx.x; j < n; j += blockDim.x) {
      weights[j] = exp(weights[j] - top);
      total += weights[j];
    }
    total = block_reduce(total, Add());
    __syncthreads();
    for (int64 k = threadIdx.x; k < e; k += blockDim.x) {
      $number sum = 0;
      for (int64 j = 0; j < n; ++j) sum += weights[j] * number(value[(j * pairs + pair) * e + k]);
      $number result = n == 0 ? $number(0) : top - top == 0 ? sum / total : top - top;
      out[row * e + k] = $result;
    }
    __syncthreads();
  }
""")


def attention(call: OpaqueCall) -> CudaSource:
    """The weighted sum of values for every query and head."""
    (query, key, value, bias), (out,) = call.inputs, call.results
    m, batch, heads, d = query.shape
    n, number = key.shape[0], computed_in(query.dtype)
    assembly = Assembly()
    assembly.text(NUMBER)
    scores = Parameter(f"{number}*", "scores", assembly.scratch(product((m, batch, heads, n)) * ITEMSIZE[number]))
    tensors = (reads("query", query), reads("key", key), reads("value", value), reads("bias", bias), writes("out", out))
    sizes = (size("m", m), size("pairs", batch * heads), size("n", n), size("d", d), size("e", value.shape[3]))
    body = _ATTENTION.substitute(
        number=number,
        lowest=literal(number, -math.inf),
        scale=literal(number, call.attrs.scale),
        result=converted("result", number, out.dtype),
    )
    assembly.kernel("attention", _THREADS, (*tensors, scores, *sizes), body)
    assembly.launch("attention", blocks(m * batch * heads))
    return assembly.source()
