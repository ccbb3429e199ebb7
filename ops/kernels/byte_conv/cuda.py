"""Convolution of bytes by words of weights on CUDA: one thread per element of the result.

The compiler makes no such calls for GPUs, where convolutions of integers are computed in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from string import Template
from typing import Any

from ....shape_funcs.defs.convolution.conv import BYTE_BLOCK as BLOCK
from ....shape_funcs.defs.convolution.conv import BYTE_WORD as WORD
from ....shape_funcs.symbolic.dim import product
from ...codegen.cuda.assembly import Assembly, blocks, element, reads, size, writes
from ...codegen.cuda.cuda_program import CudaSource, OpaqueCall
from .geometry import BLOCKS, COLUMNS

_THREADS = 256
#: Steps in the order of the weight: a plane of words, a row of the window, a column of it, a word of a row.  In blocks: a block,
#: a row of the window, a column of it, a word of the block; words beyond the depth of blocks are 0.
_TEXT = Template("""
  int64 all = batch * outputs * rows * columns, each = outputs / groups, inner = channels / groups;
  for (int64 at = blockIdx.x * int64($threads) + threadIdx.x; at < all; at += gridDim.x * int64($threads)) {
    int64 x = at % columns, y = at / columns % rows, o = at / columns / rows % outputs, b = at / columns / rows / outputs;
    int64 group = o / each, tile = o % each / of_tile;
    int64 row = o % each % of_tile, from = (group * tiles + tile) * steps * of_tile;
    uint32 sum = uint32(start_at(start, o));
    for (int64 step = 0; step < steps; ++step) {
      uint32 word = uint32(words_at(words, from + $place));
      for (int k = 0; k < $word; ++k) {
        int64 c = $channel, ty = $row, tx = $column;
        if (c >= inner || tx >= $taps_x) continue;
        int64 z = y * $stride_y + ty * $dilation_y - $before_y, q = x * $stride_x + tx * $dilation_x - $before_x;
        bool inside = z >= 0 && z < height && q >= 0 && q < width;
        uint32 byte = inside ? data_at(data, ((b * channels + group * inner + c) * height + z) * width + q) : pad_at(pad, 0);
        sum += byte * uint32(int32(int8(word >> 8 * k)));
      }
    }
    out[at] = int32(sum);
  }
""")


def convolution(constants: Callable[[Any], dict[str, Any]]) -> Callable[[OpaqueCall], CudaSource]:
    """The convolution; ``constants``: the keyword arguments of the body for the CPU."""
    return lambda call: _source(call, constants(call.attrs))


def _source(call: OpaqueCall, given: dict[str, Any]) -> CudaSource:
    inputs, (out,) = dict(zip(("data", "words", "start", "pad"), call.inputs, strict=True)), call.results
    (rows, columns), wide = given["taps"], -(-given["taps"][1] // WORD)
    place = "step * of_tile + row"
    if given["form"] == BLOCKS:
        planes, taps = f"((inner + {WORD - 1}) / {WORD})", rows * columns
        number, many = f"step / {BLOCK * taps}", f"(steps / {BLOCK * taps})"
        depth = f"(({planes} + {many} - 1) / {many})"
        terms = {"channel": f"({number} * {depth} + step % {BLOCK}) * {WORD} + k", "row": f"step / {BLOCK * columns} % {rows}"}
        terms["column"] = f"step / {BLOCK} % {columns}"
        place = f"(step / {BLOCK} * of_tile + row) * {BLOCK} + step % {BLOCK}"
    elif given["form"] == COLUMNS:
        terms = {"channel": f"step / {wide * rows}", "row": f"step / {wide} % {rows}", "column": f"step % {wide} * {WORD} + k"}
    else:
        terms = {"channel": f"step / {rows * columns} * {WORD} + k", "row": f"step / {columns} % {rows}"}
        terms["column"] = f"step % {columns}"
    numbers = {
        f"{name}_{axis}": given[name][k] for name in ("stride", "dilation", "before", "taps") for k, axis in enumerate("yx")
    }
    text = _TEXT.substitute(numbers, **terms, place=place, threads=_THREADS, word=WORD)
    assembly = Assembly()
    for name, operand in inputs.items():
        assembly.text(element(f"{name}_at", operand))
    batch, channels, height, width = inputs["data"].shape
    _, tiles, steps, of_tile = inputs["words"].shape
    _, outputs, down, across = out.shape
    sizes = {
        "batch": batch, "channels": channels, "height": height, "width": width, "tiles": tiles, "steps": steps,
        "of_tile": of_tile, "outputs": outputs, "rows": down, "columns": across, "groups": inputs["words"].shape[0],
    }  # fmt: skip
    parameters = (*(reads(n, o) for n, o in inputs.items()), writes("out", out), *(size(n, d) for n, d in sizes.items()))
    assembly.kernel("convolve_bytes", _THREADS, parameters, text)
    assembly.launch("convolve_bytes", blocks(product(out.shape), _THREADS))
    return assembly.source()
