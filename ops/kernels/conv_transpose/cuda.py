"""Transposed convolution on CUDA: by cuDNN if the library has a plan, else one thread per element of the result, which sums all
contributions to it.

Sums are accumulated in float32; in float64 if data or result are float64.
"""

from __future__ import annotations

from collections.abc import Callable
from string import Template
from typing import Any

from ....shape_funcs.symbolic.dim import dim, product
from ...codegen.cuda.assembly import Assembly, blocks, reads, size, writes
from ...codegen.cuda.cuda_program import Convolution, CudaSource, Data, OpaqueCall, Operand
from ...codegen.cuda.device_code.casts import NUMBER, converted
from ...core.tensor_types import computed_in
from ..conv import cudnn
from ..matmul.dot_product import PLUS_PRODUCT
from ..spatial.cuda import PLACE, flag, plane_sizes, sizes_of

_THREADS = 256

_SOURCE = """
// The index in the data whose tap falls on a place of the result; -1 for none.
DEVICE int64 source_of(int64 place, int64 tap, int64 stride, int64 before, int64 dilation, int64 size) {
  int64 away = place + before - tap * dilation;
  return away < 0 || away % stride != 0 || away / stride >= size ? -1 : away / stride;
}
"""

_ADD = Template("""
  int64 all = batches * out_channels * od * oh * ow, step = gridDim.x * int64($threads);
  int64 inputs = channels / $groups, outputs = out_channels / $groups, taps = kd * kh * kw;
  for (int64 work = blockIdx.x * int64($threads) + threadIdx.x; work < all; work += step) {
    Place to = place_of($out_last, work, all, out_channels, od, oh, ow);
    int64 first = outputs > 0 ? to.c / outputs * inputs : 0, made = outputs > 0 ? to.c % outputs : 0;
    $sum sum = 0;
    for (int64 tap = 0; tap < taps; ++tap) {
      int64 z = source_of(to.z, tap / (kh * kw), $sz, $bz, $dz, d);
      int64 y = source_of(to.y, tap / kw % kh, $sy, $by, $dy, h), x = source_of(to.x, tap % kw, $sx, $bx, $dx, w);
      if (z < 0 || y < 0 || x < 0) continue;
      for (int64 i = first; i < first + inputs; ++i) {
        int64 at = $space_first ? (tap * outputs + made) * channels + i : (i * outputs + made) * taps + tap;
        const int64 from = offset_of($data_last, Place{to.b, i, z, y, x}, channels, d, h, w);
        sum = plus_product(sum, $sum(number(weight[at])), $sum(number(data[from])));
      }
    }
    out[work] = $stored;
  }
""")


def transposed_convolution(
    constants: Callable[[Any], dict[str, Any]], by_cudnn: bool = False
) -> Callable[[OpaqueCall], CudaSource]:
    """Transposed convolution of ``data`` with ``weight``; ``constants``: the attributes of the CPU body.

    ``by_cudnn``: cuDNN computes the result if it has a plan.
    """

    def source(call: OpaqueCall) -> CudaSource:
        (data, weight), (out,), given = call.inputs, call.results, constants(call.attrs)
        space_first, data_last, out_last = given["layouts"]
        spatial = weight.shape[:-2] if space_first else weight.shape[2:]
        window = (dim(1),) * (3 - len(spatial)) + tuple(spatial)
        sum_dtype = "float64" if "float64" in {computed_in(data.dtype), computed_in(out.dtype)} else "float32"
        letters = {"stride": "s", "dilation": "d", "before": "b"}
        numbers = {f"{letter}{axis}": given[name][k] for name, letter in letters.items() for k, axis in enumerate("zyx")}
        body = _ADD.substitute(
            numbers, threads=_THREADS, groups=given["groups"], sum=sum_dtype, space_first=flag(space_first),
            data_last=flag(data_last), out_last=flag(out_last), stored=converted("sum", sum_dtype, out.dtype),
        )  # fmt: skip
        assembly = Assembly()
        assembly.text(NUMBER, PLUS_PRODUCT, PLACE, _SOURCE)
        tensors = (reads("data", data), reads("weight", weight), writes("out", out))
        sizes = plane_sizes(data.shape, data_last, out.shape, out_last)
        own = tuple(size(n, s) for n, s in zip(("kd", "kh", "kw"), window, strict=True))
        assembly.kernel("add_up", _THREADS, (*tensors, *sizes, *own), body)
        assembly.launch("add_up", blocks(product(out.shape), _THREADS))
        if by_cudnn:
            assembly.steps.insert(0, _library_convolution(call, given, len(assembly.steps)))
        return assembly.source()

    return source


def _library_convolution(call: OpaqueCall, given: dict[str, Any], instead: int) -> Convolution:
    """The convolution by cuDNN, channels first, from the result to the data."""
    (data, weight), (out,) = call.inputs, call.results
    inputs, outputs, *window = weight.shape
    sizes = (sizes_of(out.shape, False), (inputs, outputs, *(dim(1),) * (3 - len(window)), *window), sizes_of(data.shape, False))
    tensors = (_argument(out), _argument(weight), _argument(data))
    return cudnn.convolution(tensors, data.dtype, given, sizes, len(window), instead, is_transposed=True)


def _argument(tensor: Operand) -> Data:
    assert tensor.position is not None, "a literal is no data"
    return Data(tensor.position)
