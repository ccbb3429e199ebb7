"""Products of a dense matrix and a sparse one on CUDA: one thread per element of the result."""

from __future__ import annotations

from string import Template

from ....shape_funcs.symbolic.dim import dim, product
from ....shape_funcs.symbolic.dim_operations import max_
from ...codegen.cuda.assembly import Assembly, Parameter, blocks, element, reads, size, writes
from ...codegen.cuda.cuda_program import CudaSource, Fault, OpaqueCall, Site
from ...codegen.cuda.device_code.casts import NUMBER, converted
from ...native.status import INDEX_OUT_OF_RANGE
from ..spatial.cuda import flag

_THREADS = 256

_CHECK = Template("""
  int64 step = gridDim.x * int64($threads), first = blockIdx.x * int64($threads) + threadIdx.x;
  for (int64 at = first; at < stored; at += step) {
    int64 column = int64(index_at(indices, at));
    if (column < 0 || column >= places) fail(fault, $status, site);
  }
  for (int64 row = first; row < rows; row += step) {
    int64 begin = int64(start_at(starts, row)), end = int64(start_at(starts, row + 1));
    if (begin < 0 || end < begin || end > stored) fail(fault, $status, site);
  }
""")

# A block that the check refuses is not read.
_PRODUCT = Template("""
  int64 all = count * rows * height, step = gridDim.x * int64($threads);
  for (int64 work = blockIdx.x * int64($threads) + threadIdx.x; work < all; work += step) {
    int64 m = $sparse_lhs ? work % count : work / (rows * height);
    int64 n = $sparse_lhs ? work / count : work % (rows * height), row = n / height, part = n % height;
    int64 begin = int64(start_at(starts, row)), end = int64(start_at(starts, row + 1));
    float64 total = 0.0;
    if (begin < 0 || end > stored) continue;
    for (int64 at = begin; at < end; ++at) {
      int64 column = int64(index_at(indices, at));
      if (column < 0 || column >= places) break;
      for (int64 k = 0; k < width; ++k) {
        total += float64(number(block_at(blocks, (at * height + part) * width + k)))
               * float64(number(dense_at(dense, m * columns + column * width + k)));
      }
    }
    out[work] = $stored;
  }
""")


def sparse_dense(call: OpaqueCall) -> CudaSource:
    """Element ``(m, n)``: the sum of the products of row m of the dense matrix and row n of the sparse one, in float64;
    with ``sparse_lhs`` element ``(n, m)``."""
    dense, stored, indices, starts = call.inputs
    (out,) = call.results
    height, width = stored.shape[1:] if len(stored.shape) == 3 else (dim(1), dim(1))
    rows = starts.shape[0] - 1
    assembly = Assembly()
    assembly.text(NUMBER)
    named = (("dense", dense), ("block", stored), ("index", indices), ("start", starts))
    for name, tensor in named:
        assembly.text(element(f"{name}_at", tensor))
    lists = (reads("indices", indices), reads("starts", starts), size("stored", indices.shape[0]), size("rows", rows))
    shape = (size("columns", dense.shape[1]), size("width", width), size("places", dense.shape[1] // max_(width, 1)))
    fault = (Parameter("void*", "fault", Fault()), Parameter("int64", "site", Site()))
    check = _CHECK.substitute(threads=_THREADS, status=INDEX_OUT_OF_RANGE)
    assembly.kernel("check", _THREADS, (*lists, *shape, *fault), check)
    assembly.launch("check", blocks(indices.shape[0] + rows, _THREADS))
    body = _PRODUCT.substitute(
        threads=_THREADS, stored=converted("total", "float64", out.dtype), sparse_lhs=flag(call.attrs.sparse_lhs)
    )
    matrices = (reads("dense", dense), reads("blocks", stored), writes("out", out))
    sizes = (size("count", dense.shape[0]), size("height", height))
    assembly.kernel("multiply", _THREADS, (*matrices, *lists, *shape, *sizes), body)
    assembly.launch("multiply", blocks(product(out.shape), _THREADS))
    return assembly.source()
