"""Attention in which groups of heads share keys and values, with a bias, on CUDA: a thread for some elements of a query's result.

The compiler makes the operator for the CPU only; for GPUs it keeps the library's products.  The kernel here is for programs that
call the operator.
"""

from __future__ import annotations

from string import Template

from ....shape_funcs.symbolic.dim import product
from ...codegen.cuda.assembly import Assembly, blocks, literal, reads, size, writes
from ...codegen.cuda.cuda_program import CudaSource, OpaqueCall
from ...core.tensor_types import computed_in
from .parts_cuda import add_sums

_THREADS = 128
#: Elements of a result that a thread computes: it computes the scores again for each of its chunks.
_COLUMNS = 16

_SCORE = Template("""
DEVICE Number score_of(const $dtype* query, const $dtype* key, int64 d, const $dtype* bias) {
  Number sum = 0;
  for (int64 p = 0; p < d; ++p) sum = plus_product(sum, number(query[p]), number(key[p]));
  sum *= $scale;
  return $capped + number(*bias);
}
""")

_BODY = Template("""
  int64 chunks = (e + $columns - 1) / $columns, all = batches * m * heads * chunks, step = gridDim.x * int64($threads);
  for (int64 work = blockIdx.x * int64($threads) + threadIdx.x; work < all; work += step) {
    int64 from = work % chunks * $columns, row = work / chunks, head = row % heads;
    int64 at = row / heads % m, batch = row / heads / m, group = head / (heads / shared);
    int64 outer = batch % bias_batches * bias_heads + head % bias_heads;
    const $dtype* first = bias + (outer * bias_rows + at % bias_rows) * bias_keys;
    const $dtype* keys = key + (batch * n * shared + group) * d;
    Number top = lowest(), total = 0, sums[$columns];
    for (int64 j = 0; j < n; ++j) {
      Number score = score_of(query + row * d, keys + j * shared * d, d, first + j % bias_keys);
      top = score == score ? larger(top, score) : score;
      if (top != top) break;
    }
    for (int c = 0; c < $columns; ++c) sums[c] = 0;
    for (int64 j = 0; j < n; ++j) {
      Number power = weight(score_of(query + row * d, keys + j * shared * d, d, first + j % bias_keys), top);
      total += power;
      for (int c = 0; c < $columns && from + c < e; ++c) {
        sums[c] = plus_product(sums[c], power, number(value[((batch * n + j) * shared + group) * e + from + c]));
      }
    }
    Number share = share_of(top, total, n);
    for (int c = 0; c < $columns && from + c < e; ++c) {
      out[row * e + from + c] = stored<$dtype>(result_of(sums[c], share));
    }
  }
""")


def grouped_attention(call: OpaqueCall) -> CudaSource:
    """The weighted sum of values for every query and head."""
    (query, _, value, bias), (out,), attrs = call.inputs, call.results, call.attrs
    assembly, compute = Assembly(), computed_in(query.dtype)
    add_sums(assembly, out, zero_nan=attrs.zero_nan)
    cap = literal(compute, attrs.cap)
    names = {
        "threads": _THREADS, "columns": _COLUMNS, "dtype": query.dtype, "scale": literal(compute, attrs.scale),
        "capped": f"{cap} * {'tanhf' if compute == 'float32' else 'tanh'}(sum / {cap})" if attrs.cap else "sum",
    }  # fmt: skip
    (batches, m, heads, d), (_, n, shared, e) = query.shape, value.shape
    tensors = (
        *(reads(name, x) for name, x in zip(("query", "key", "value", "bias"), call.inputs, strict=True)),
        writes("out", out),
    )
    sizes = {"batches": batches, "m": m, "heads": heads, "d": d, "n": n, "shared": shared, "e": e}
    axes = ("bias_batches", "bias_heads", "bias_rows", "bias_keys")
    sizes |= dict(zip(axes, bias.shape, strict=True))
    assembly.text(_SCORE.substitute(names))
    parameters = (*tensors, *(size(name, value) for name, value in sizes.items()))
    assembly.kernel("grouped_attention", _THREADS, parameters, _BODY.substitute(names))
    chunks = (e + (_COLUMNS - 1)) // _COLUMNS
    assembly.launch("grouped_attention", blocks(product(out.shape[:3]) * chunks, _THREADS))
    return assembly.source()
