"""Bit casts between dtypes of the same width, on CUDA."""

from __future__ import annotations

from ....shape_funcs.symbolic.dim import product
from ...codegen.cuda.assembly import Assembly, blocks, element, reads, size, writes
from ...codegen.cuda.cuda_program import CudaSource, OpaqueCall

_THREADS = 256


def reinterpret(call: OpaqueCall) -> CudaSource:
    """Copy the bits of each element."""
    (data,), (out,) = call.inputs, call.results
    length = product(data.shape)
    assembly = Assembly()
    assembly.text(element("data_at", data))
    body = f"""
    int64 step = int64(gridDim.x) * blockDim.x;
    for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < length; i += step)
      out[i] = same_bits<{out.dtype}>(data_at(data, i));"""
    assembly.kernel("reinterpret", _THREADS, (reads("data", data), writes("out", out), size("length", length)), body)
    assembly.launch("reinterpret", blocks(length, _THREADS))
    return assembly.source()
