"""Discrete Fourier transforms on CUDA by definition, in float64: one thread per result, with a table of roots of unity."""

from __future__ import annotations

from collections.abc import Callable
from string import Template
from typing import Any

from ....shape_funcs.symbolic.dim import Dim, dim, product
from ....shape_funcs.symbolic.dim_operations import max_
from ...codegen.cuda.assembly import Assembly, Parameter, blocks, literal, reads, size, writes
from ...codegen.cuda.cuda_program import CudaSource, OpaqueCall
from ...codegen.cuda.device_code.casts import NUMBER, converted

_THREADS = 256

_ROOTS = Template("""
  int64 step = gridDim.x * int64($threads);
  for (int64 k = blockIdx.x * int64($threads) + threadIdx.x; k < n; k += step) {
    float64 angle = 6.283185307179586476925286766559 * k / n;
    roots[k] = cos(angle);
    roots[n + k] = sin(angle);
  }
""")

_DFT = Template("""
  int64 step = gridDim.x * int64($threads);
  for (int64 work = blockIdx.x * int64($threads) + threadIdx.x; work < all; work += step) {
    int64 start = work / n * n, frequency = work % n, at = 0;
    float64 x = 0, y = 0;
    for (int64 k = 0; k < n; ++k) {
      float64 a = number(real[start + k]), b = number(imaginary[start + k]), c = roots[at], s = $sign roots[n + at];
      x += a * c + b * s;
      y += b * c - a * s;
      at += frequency;
      if (at >= n) at -= n;
    }
    x *= $factor;
    y *= $factor;
    out_real[work] = $x;
    out_imaginary[work] = $y;
  }
""")

_STFT = Template("""
  int64 step = gridDim.x * int64($threads);
  for (int64 work = blockIdx.x * int64($threads) + threadIdx.x; work < all; work += step) {
    int64 frame = work % frames, frequency = work / frames % frequencies, row = work / frames / frequencies;
    int64 start = row * size + frame * $hop + $before, at = frequency * $before % n;
    float64 x = 0, y = 0;
    for (int64 k = 0; k < length; ++k) {
      $dtype_of product = number(data[start + k]) * number(window[k]);
      x += product * roots[at];
      y -= product * roots[n + at];
      at += frequency;
      if (at >= n) at -= n;
    }
    x *= $factor;
    y *= $factor;
    out[2 * work] = $x;
    out[2 * work + 1] = $y;
  }
""")


def _roots(assembly: Assembly, n: Dim) -> tuple[Parameter, ...]:
    """Add the kernel that computes the table; return the parameters through which other kernels read it."""
    table = Parameter("float64*", "roots", assembly.scratch(max_(n, 1) * 16))
    assembly.text(NUMBER)
    assembly.kernel("make_roots", _THREADS, (table, size("n", n)), _ROOTS.substitute(threads=_THREADS))
    assembly.launch("make_roots", blocks(n, _THREADS))
    return table, size("n", n)


def dft(call: OpaqueCall) -> CudaSource:
    """Transform each row."""
    (real, imaginary), (out_real, out_imaginary) = call.inputs, call.results
    assembly, n, all_ = Assembly(), real.shape[-1], product(real.shape)
    shared = _roots(assembly, n)
    inverse = call.attrs.inverse
    body = _DFT.substitute(
        threads=_THREADS, sign="-" if inverse else "", factor="1.0 / n" if inverse else "1.0",
        x=converted("x", "float64", out_real.dtype), y=converted("y", "float64", out_imaginary.dtype),
    )  # fmt: skip
    tensors = (reads("real", real), reads("imaginary", imaginary), writes("out_real", out_real))
    more = (writes("out_imaginary", out_imaginary), size("all", all_))
    assembly.kernel("transform", _THREADS, (*tensors, *more, *shared), body)
    assembly.launch("transform", blocks(all_, _THREADS))
    return assembly.source()


def stft(constants: Callable[[Any], dict[str, Any]]) -> Callable[[OpaqueCall], CudaSource]:
    """Transform each frame of each row; ``constants``: the attributes of the CPU body."""

    def source(call: OpaqueCall) -> CudaSource:
        (data, window), (out,), given = call.inputs, call.results, constants(call.attrs)
        assembly = Assembly()
        shared = _roots(assembly, dim(given["n"]))
        body = _STFT.substitute(
            threads=_THREADS, hop=given["hop"], before=given["before"], factor=literal("float64", given["factor"]),
            dtype_of="float64" if data.dtype == "float64" else "float32", x=converted("x", "float64", out.dtype),
            y=converted("y", "float64", out.dtype),
        )  # fmt: skip
        pairs = product(out.shape[:-1])
        sizes = {
            "all": pairs, "size": data.shape[-1], "frequencies": out.shape[-3], "frames": out.shape[-2],
            "length": window.shape[0],
        }  # fmt: skip
        tensors = (reads("data", data), reads("window", window), writes("out", out))
        assembly.kernel("transform", _THREADS, (*tensors, *(size(k, v) for k, v in sizes.items()), *shared), body)
        assembly.launch("transform", blocks(pairs, _THREADS))
        return assembly.source()

    return source
