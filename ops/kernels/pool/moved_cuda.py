"""Pooling by small moving windows on CUDA, where data and result have the same layout.

Channels first: a thread computes the results of neighbouring rows in one column, and reads each row of the data that they share
once.  Channels last: a thread computes neighbouring channels of one place, in accesses of 16 bytes if possible.  The elements of
a window are joined in their order, so the results are those of one loop.
"""

from __future__ import annotations

import math
from string import Template
from typing import Any

from ....shape_funcs.symbolic.dim import Dim, product
from ....shape_funcs.symbolic.dim_operations import max_
from ...codegen.cuda.assembly import DIVISOR, Assembly, Parameter, blocks, divisor, in_memory, reads, size, writes
from ...codegen.cuda.cuda_program import Operand
from ...core.tensor_types import ITEMSIZE
from ..spatial.cuda import sizes_of

_THREADS = 256
#: Rows of a thread's results; the most elements of a window, for all are in the text, and of its rows with those between.
_ROWS, SMALL, _SPAN = 4, 64, 64
#: Bytes of an access.
_ACCESS = 16
#: Blocks that a multiprocessor holds, channels first: the registers of their threads hold all loads of a window.
_RESIDENT = 3

_FIRST_TEXT = Template("""
// Results of neighbouring rows in a column, from row y on; I: an integer for all positions in a plane of data or result.
template <class I> DEVICE void pool_rows($out_dtype* out, const $dtype* data, I d, I h, I w, I oh, I ow, I z, I y, I x) {
  const I z0 = z * $sz - $bz, y0 = y * $sy - $by, x0 = x * $sx - $bx;
  // loads have no conditions, so that all are in flight together: outside the data they read the nearest element
  bool is_column[$px], is_row[$span];
  I column[$px];
  int columns = 0;
#pragma unroll
  for (int k = 0; k < $px; ++k) {
    const I at = x0 + k * $dx;
    is_column[k] = at >= 0 && at < w;
    columns += is_column[k];
    column[k] = at < 0 ? 0 : at < w ? at : w - 1;
  }
#pragma unroll
  for (int row = 0; row < $span; ++row) is_row[row] = y0 + row >= 0 && y0 + row < h;
  State states[$rows];
  int counts[$rows];
#pragma unroll
  for (int k = 0; k < $rows; ++k) {
    states[k] = $start;
    counts[k] = 0;
  }
#pragma unroll 1
  for (int dz = 0; dz < $pz && h > 0 && w > 0; ++dz) {
    if (z0 + dz * $dz < 0 || z0 + dz * $dz >= d) continue;
    const I slice = (z0 + dz * $dz) * h;
    $dtype elements[$span][$px];
#pragma unroll
    for (int row = 0; row < $span; ++row) {
      if (!($any_row)) continue;  // windows of no result of the thread have this row
      const I at = y0 + row, of_row = (slice + (at < 0 ? 0 : at < h ? at : h - 1)) * w;
#pragma unroll
      for (int k = 0; k < $px; ++k) elements[row][k] = data[of_row + column[k]];
    }
#pragma unroll
    for (int row = 0; row < $span; ++row) {
      if (!($any_row)) continue;
      State values[$px];
#pragma unroll
      for (int k = 0; k < $px; ++k) values[k] = State(is_row[row] & is_column[k] ? number(elements[row][k]) : $neutral);
#pragma unroll
      for (int own = 0; own < $rows; ++own) {
        const int tap = row - own * $sy;
        if (tap < 0 || tap % $dy != 0 || tap / $dy >= $py) continue;
#pragma unroll
        for (int k = 0; k < $px; ++k) states[own] = joined(states[own], values[k]);
        counts[own] += is_row[row] ? columns : 0;
      }
    }
  }
#pragma unroll
  for (int k = 0; k < $rows; ++k) {
    if (y + k >= oh) break;
    const State state = states[k];
    const int count = counts[k];
    out[((z * oh) + y + k) * ow + x] = $result;
  }
}
""")

_FIRST = Template("""
  const int64 groups = (oh + $rows - 1) / $rows, all = planes * od * groups * ow, step = gridDim.x * int64($threads);
  const bool is_narrow = d * h * w < 0x10000000 && od * oh * ow < 0x10000000;  // nor do windows reach 2^31
  for (int64 work = blockIdx.x * int64($threads) + threadIdx.x; work < all; work += step) {
    const int64 above = by_columns.quotient(work), slices = by_groups.quotient(above), plane = by_depth.quotient(slices);
    const int64 x = work - above * ow, y = (above - slices * groups) * $rows, z = slices - plane * od;
    $out_dtype* to = out + plane * (od * oh * ow);
    const $dtype* from = data + plane * (d * h * w);
    if (is_narrow) pool_rows<int32>(to, from, d, h, w, oh, ow, z, y, x);
    else pool_rows<int64>(to, from, d, h, w, oh, ow, z, y, x);
  }
""")

_LAST_TEXT = Template("""
// N neighbouring channels of a place.
template <int N> DEVICE void pool_channels(
    $out_dtype* out, const $dtype* data, int64 work, int64 channels, int64 d, int64 h, int64 w, int64 z0, int64 y0, int64 x0,
    int64 image, int64 channel) {
  State states[N];
  int count = 0;
#pragma unroll
  for (int i = 0; i < N; ++i) states[i] = $start;
  const $dtype* from = data + ((image * d + z0) * h + y0) * w * channels + x0 * channels + channel;
#pragma unroll 1
  for (int dz = 0; dz < $pz; ++dz) {
    if (z0 + dz * $dz < 0 || z0 + dz * $dz >= d) continue;
#pragma unroll
    for (int dy = 0; dy < $py; ++dy) {
      if (y0 + dy * $dy < 0 || y0 + dy * $dy >= h) continue;
#pragma unroll
      for (int dx = 0; dx < $px; ++dx) {
        if (x0 + dx * $dx < 0 || x0 + dx * $dx >= w) continue;
        const auto elements = load_pack<$dtype, N>(from + ((dz * $dz * h + dy * $dy) * w + dx * $dx) * channels);
#pragma unroll
        for (int i = 0; i < N; ++i) states[i] = joined(states[i], State(number(elements.at[i])));
        ++count;
      }
    }
  }
  Pack<$out_dtype, N> made;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const State state = states[i];
    made.at[i] = $result;
  }
  store_pack(out + work * N, made);
}
""")

_LAST = Template("""
  const bool wide = channels % $width == 0 && aligned16(data) && aligned16(out);
  const int64 packs = wide ? channels / $width : channels, all = images * od * oh * ow * packs;
  const int64 step = gridDim.x * int64($threads);
  for (int64 work = blockIdx.x * int64($threads) + threadIdx.x; work < all; work += step) {
    const int64 place = (wide ? by_packs : by_channels).quotient(work), row = by_columns.quotient(place);
    const int64 slices = by_rows.quotient(row), image = by_depth.quotient(slices), at = work - place * packs;
    const int64 z0 = (slices - image * od) * $sz - $bz, y0 = (row - slices * oh) * $sy - $by, x0 = (place - row * ow) * $sx - $bx;
    if (wide) pool_channels<$width>(out, data, work, channels, d, h, w, z0, y0, x0, image, at * $width);
    else pool_channels<1>(out, data, work, channels, d, h, w, z0, y0, x0, image, at);
  }
""")


def is_small(numbers: dict[str, Any]) -> bool:
    """Whether the kernel is for windows with these numbers (see ``add_moved``)."""
    return math.prod(int(numbers[f"p{axis}"]) for axis in "zyx") <= SMALL and _span(numbers) <= _SPAN


def add_moved(
    assembly: Assembly,
    data: Operand,
    out: Operand,
    numbers: dict[str, Any],
    channels_last: bool,
    start: str,
    neutral: str,
    result: str,
) -> None:
    """Add the kernel of windows with these ``numbers``: sizes p, strides s, padding b, dilation d of the axes z, y, x.

    ``start``, ``neutral``, ``result``: the first State, an element that changes none, the stored form of ``state`` of ``count``
    elements.
    """
    dtype, out_dtype = in_memory(data.dtype), in_memory(out.dtype)
    names = {**numbers, "threads": _THREADS, "dtype": dtype, "out_dtype": out_dtype, "start": start, "result": result}
    images, channels, *spatial = sizes_of(data.shape, channels_last)
    positions = sizes_of(out.shape, channels_last)[2:]
    sizes = [
        size(n, s) for n, s in zip(("channels", "d", "h", "w", "od", "oh", "ow"), (channels, *spatial, *positions), strict=True)
    ]
    common = (reads("data", data), writes("out", out), *sizes)
    assembly.text(DIVISOR)
    total = product(out.shape)
    if channels_last:
        width = _ACCESS // ITEMSIZE[data.dtype]
        names["width"] = width
        assembly.text(_LAST_TEXT.substitute(names))
        by = {"by_packs": channels // width, "by_channels": channels}
        by |= {"by_columns": positions[2], "by_rows": positions[1], "by_depth": positions[0]}
        assembly.kernel("pool", _THREADS, (*common, size("images", images), *_divisors(by, total)), _LAST.substitute(names))
        assembly.launch("pool", blocks(total, _THREADS * width))
        return
    groups = (positions[1] + (_ROWS - 1)) // _ROWS
    names |= {"rows": _ROWS, "span": _span(numbers), "any_row": _any_row(numbers, _ROWS), "neutral": neutral}
    assembly.text(_FIRST_TEXT.substitute(names))
    divisors = _divisors({"by_columns": positions[2], "by_groups": groups, "by_depth": positions[0]}, total)
    parameters = (*common, size("planes", images * channels), *divisors)
    assembly.kernel("pool", _THREADS, parameters, _FIRST.substitute(names), _RESIDENT)
    assembly.launch("pool", blocks(images * channels * positions[0] * groups * positions[2], _THREADS))


def _span(numbers: dict[str, Any]) -> int:
    """The rows of the data from the first to the last of the windows of a thread."""
    return (_ROWS - 1) * int(numbers["sy"]) + (int(numbers["py"]) - 1) * int(numbers["dy"]) + 1


def _any_row(numbers: dict[str, Any], rows: int) -> str:
    """Whether a window of any of the results has the row ``row``, as text."""
    taps = (f"row - {own * int(numbers['sy'])}" for own in range(rows))
    inside = "{tap} >= 0 && ({tap}) % {dy} == 0 && ({tap}) / {dy} < {py}"
    return " || ".join(f"({inside.format(tap=tap, dy=numbers['dy'], py=numbers['py'])})" for tap in taps)


def _divisors(by: dict[str, Dim], total: Dim) -> list[Parameter]:
    return [divisor(name, max_(value, 1), total) for name, value in by.items()]
