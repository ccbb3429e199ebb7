"""Grey-scale dilation on CUDA: one thread per element of the result."""

from __future__ import annotations

from collections.abc import Callable
from string import Template
from typing import Any

from ....shape_funcs.symbolic.dim import product
from ...codegen.cuda.assembly import Assembly, blocks, literal, reads, size, writes
from ...codegen.cuda.cuda_program import CudaSource, OpaqueCall
from ...codegen.cuda.device_code.casts import NUMBER, converted
from ..spatial.cuda import PLACE, flag, plane_sizes

_THREADS = 256

_LARGEST = Template("""
  int64 all = batches * out_channels * oh * ow, step = gridDim.x * int64($threads);
  for (int64 work = blockIdx.x * int64($threads) + threadIdx.x; work < all; work += step) {
    Place to = place_of($last, work, all, out_channels, 1, oh, ow);
    float64 best = $lowest;
    for (int64 tap = 0; tap < kh * kw && best == best; ++tap) {
      int64 y = to.y * $sy + tap / kw * $dy - $by, x = to.x * $sx + tap % kw * $dx - $bx;
      if (y < 0 || y >= h || x < 0 || x >= w) continue;
      int64 own = $weights_last ? tap * channels + to.c : to.c * kh * kw + tap;
      float64 value = float64(number(data[offset_of($last, Place{to.b, to.c, 0, y, x}, channels, 1, h, w)]));
      value += float64(number(weight[own]));
      if (value > best || value != value) best = value;
    }
    out[work] = $stored;
  }
""")


def dilate(constants: Callable[[Any], dict[str, Any]]) -> Callable[[OpaqueCall], CudaSource]:
    """The maximum of each window; ``constants``: the attributes of the CPU body."""

    def source(call: OpaqueCall) -> CudaSource:
        (data, weight), (out,), given = call.inputs, call.results, constants(call.attrs)
        last, weights_last = given["channels_last"], given["weights_last"]
        window = weight.shape[:2] if weights_last else weight.shape[1:]
        names = {"stride": "s", "dilation": "d", "before": "b"}
        numbers = {f"{letter}{axis}": given[name][k] for name, letter in names.items() for k, axis in enumerate("yx")}
        body = _LARGEST.substitute(
            numbers, threads=_THREADS, last=flag(last), weights_last=flag(weights_last),
            lowest=literal("float64", float("-inf")), stored=converted("best", "float64", out.dtype),
        )  # fmt: skip
        assembly = Assembly()
        assembly.text(NUMBER, PLACE)
        tensors = (reads("data", data), reads("weight", weight), writes("out", out))
        sizes = plane_sizes(data.shape, last, out.shape, last)
        own = tuple(size(n, s) for n, s in zip(("kh", "kw"), window, strict=True))
        assembly.kernel("dilate", _THREADS, (*tensors, *sizes, *own), body)
        assembly.launch("dilate", blocks(product(out.shape), _THREADS))
        return assembly.source()

    return source
