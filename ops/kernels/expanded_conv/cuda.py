"""A 1x1 convolution with a bias and bounds, then a depthwise convolution, on CUDA: one thread per element of each.

The compiler makes the operator for the CPU only; for GPUs it keeps two convolutions, which libraries compute.  The kernels here
are for programs that call the operator.
"""

from __future__ import annotations

from string import Template

from ....shape_funcs.defs.convolution.conv import per_axis, sides
from ....shape_funcs.symbolic.dim import product
from ...codegen.cuda.assembly import Assembly, Parameter, blocks, literal, reads, size, writes
from ...codegen.cuda.cuda_program import CudaSource, OpaqueCall
from ...core.tensor_types import ITEMSIZE
from ..matmul.dot_product import PLUS_PRODUCT

_THREADS = 256

_EXPAND = Template("""
  int64 positions = h * w, all = batches * channels * positions, step = gridDim.x * int64($threads);
  for (int64 work = blockIdx.x * int64($threads) + threadIdx.x; work < all; work += step) {
    int64 at = work % positions, channel = work / positions % channels, batch = work / positions / channels;
    $dtype sum = 0;
    for (int64 i = 0; i < inputs; ++i) {
      sum = plus_product(sum, weight[channel * inputs + i], data[(batch * inputs + i) * positions + at]);
    }
    sum += bias[channel];
    sum = sum < $least ? $least : sum;
    expanded[work] = sum > $most ? $most : sum;
  }
""")

_CONVOLVE = Template("""
  int64 places = oh * ow, all = batches * channels * places, step = gridDim.x * int64($threads);
  for (int64 work = blockIdx.x * int64($threads) + threadIdx.x; work < all; work += step) {
    int64 plane = work / places, top = work % places / ow * $step - $above, left = work % ow * $step - $before;
    $dtype sum = 0;
    for (int tap = 0; tap < 9; ++tap) {
      int64 y = top + tap / 3, x = left + tap % 3;
      if (y < 0 || y >= h || x < 0 || x >= w) continue;
      sum = plus_product(sum, depthwise[plane % channels * 9 + tap], expanded[(plane * h + y) * w + x]);
    }
    out[work] = sum;
  }
""")


def expanded_convolution(call: OpaqueCall) -> CudaSource:
    """The depthwise convolution of the limited expansion, which is in a workspace between two launches."""
    (data, weight, bias, depthwise), (out,), attrs = call.inputs, call.results, call.attrs
    assembly, (batch, inputs, height, width) = Assembly(), data.shape
    channels, above = out.shape[1], sides(attrs.padding, 2)[0]
    names = {
        "threads": _THREADS, "dtype": data.dtype, "step": per_axis(attrs.strides, 2, "strides")[0], "above": above[0],
        "before": above[1], "least": literal(data.dtype, attrs.a_min), "most": literal(data.dtype, attrs.a_max),
    }  # fmt: skip
    elements = batch * channels * height * width
    expanded = Parameter(f"{data.dtype}*", "expanded", assembly.scratch(elements * ITEMSIZE[data.dtype]))
    sizes = (size("batches", batch), size("channels", channels), size("h", height), size("w", width))
    first = (reads("data", data), reads("weight", weight), reads("bias", bias), expanded, *sizes, size("inputs", inputs))
    positions = (size("oh", out.shape[2]), size("ow", out.shape[3]))
    second = (expanded, reads("depthwise", depthwise), writes("out", out), *sizes, *positions)
    assembly.text(PLUS_PRODUCT)
    assembly.kernel("expand", _THREADS, first, _EXPAND.substitute(names))
    assembly.kernel("convolve", _THREADS, second, _CONVOLVE.substitute(names))
    assembly.launch("expand", blocks(elements, _THREADS))
    assembly.launch("convolve", blocks(product(out.shape), _THREADS))
    return assembly.source()
