"""Attention on CUDA: a block per query and head; scores in a workspace, sums added as trees.

Threads share the keys of a query for the scores, then the elements of a head for the weighted sum.
"""

from __future__ import annotations

import math
from string import Template

from ....shape_funcs.symbolic.dim import Dim, product
from ...codegen.cuda.assembly import Assembly, Parameter, blocks, literal, reads, size, writes
from ...codegen.cuda.casts import NUMBER, converted
from ...codegen.cuda.cuda_program import CudaSource, OpaqueCall
from ...core.tensor_types import ITEMSIZE, computed_in
from ..matmul.dot_product import PLUS_PRODUCT

_THREADS = 128

_ATTENTION = Template("""
  struct Largest { DEVICE $number operator()($number a, $number b) const { return b > a || b != b ? b : a; } };
  for (int64 row = blockIdx.x; row < m * pairs; row += gridDim.x) {
    int64 pair = $pair, query_at = row * d;
    $number* weights = scores + row * n;
    $number top = $lowest, total = 0;
    for (int64 j = threadIdx.x; j < n; j += blockDim.x) {
      $number sum = 0;
      for (int64 k = 0; k < d; ++k) sum = plus_product(sum, number(query[query_at + k]), number(key[$key]));
      weights[j] = $scale * sum$bias;
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
      for (int64 j = 0; j < n; ++j) sum = plus_product(sum, weights[j], number(value[$value]));
      $number result = n == 0 ? $number(0) : top - top == 0 ? sum / total : top - top;
      out[row * e + k] = $result;
    }
    __syncthreads();
  }
""")


def attention(call: OpaqueCall) -> CudaSource:
    """The weighted sum of values for every query and head."""
    m, batch, heads, _ = call.inputs[0].shape
    places = {"pair": "row % pairs", "key": "(j * pairs + pair) * d + k", "value": "(j * pairs + pair) * e + k"}
    bias = " + number(bias[(pair * m + row / pairs) * n + j])"
    return _attention(call, {**places, "bias": bias}, m, batch * heads, call.inputs[1].shape[0])


def batch_attention(call: OpaqueCall) -> CudaSource:
    """The weighted sum of values for every query and head, batch first."""
    batch, m, heads, _ = call.inputs[0].shape
    # the number of a key in the batch 0, plus those of the batches before
    places = {"pair": "row / (m * heads) * n * heads + row % heads", "key": "(j * heads + pair) * d + k", "bias": ""}
    places["value"] = "(j * heads + pair) * e + k"
    return _attention(call, places, m, batch * heads, call.inputs[1].shape[1], size("heads", heads))


def _attention(call: OpaqueCall, places: dict[str, str], m: Dim, pairs: Dim, n: Dim, *more: Parameter) -> CudaSource:
    """Attention of ``m`` queries to ``n`` keys for each of ``pairs``.

    ``places``: expressions of places in the tensors, which may use the sizes ``more``.
    """
    (query, _, value, *_), (out,) = call.inputs, call.results
    number = computed_in(query.dtype)
    assembly = Assembly()
    assembly.text(NUMBER, PLUS_PRODUCT)
    scores = Parameter(f"{number}*", "scores", assembly.scratch(product((m, pairs, n)) * ITEMSIZE[number]))
    names = ("query", "key", "value", "bias")
    tensors = (*(reads(name, tensor) for name, tensor in zip(names, call.inputs, strict=False)), writes("out", out))
    sizes = (size("m", m), size("pairs", pairs), size("n", n), size("d", query.shape[-1]), size("e", value.shape[-1]), *more)
    body = _ATTENTION.substitute(
        number=number,
        lowest=literal(number, -math.inf),
        scale=literal(number, call.attrs.scale),
        result=converted("result", number, out.dtype),
        **places,
    )
    assembly.kernel("attention", _THREADS, (*tensors, scores, *sizes), body)
    assembly.launch("attention", blocks(m * pairs))
    return assembly.source()
