"""Scans along the last axis on CUDA: a block scans a part of a row."""

from __future__ import annotations

from string import Template

from ....shape_funcs.symbolic.dim_operations import all_, eq, le, not_, where
from ...codegen.cuda.assembly import blocks, divisor, size
from ...codegen.cuda.look_back import add_look_back
from .scan_cuda import THREADS, Scan

#: Packs of neighbouring elements per thread: of rows that a block scans alone, and of rows in parts.
PACKS, PACKS_OF_PARTS = 4, 8
#: Blocks that a multiprocessor holds, of rows in parts.
_RESIDENT = 3

# A part is {packs} times {threads} packs of {width} neighbouring elements.  Of each of these, warps scan the sums of packs; then
# a warp scans the sums of all warps, {ends} neighbours in a lane.
_SCAN_ROWS = Template("""
  __shared__ Sum of_warps[$packs * $threads / 32];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  for (int64 work = blockIdx.x; work < $works; work += gridDim.x) {
$place
    const int64 row = line * length, start = row + in_row * $part;
    const int left = int(min(length - in_row * $part, int64($part)));
    const bool aligned = length >= $width && $aligned;
    Pack<$dtype, $width> packs[$packs];
    Held<$dtype, $width> held[$packs];
    Sum before[$packs];
    auto place = [&](int k) { return (k * $threads + int(threadIdx.x)) * $width; };
    auto element_of = [&](int at) { return at < left ? data_at(data, start + at) : $element{}; };
    if (aligned) {  // no branch is between loads
#pragma unroll
      for (int k = 0; k < $packs; ++k) {
        packs[k] = load_pack<$dtype, $width>(data + (place(k) + $width <= left ? start + place(k) : row));
      }
      if (left % $width != 0) {
#pragma unroll
        for (int k = 0; k < $packs; ++k) {
          if (place(k) + $width > left) each<$width>([&](int i) { packs[k].at[i] = element_of(place(k) + i); });
        }
      }
    } else {
#pragma unroll
      for (int k = 0; k < $packs; ++k) each<$width>([&](int i) { packs[k].at[i] = element_of(place(k) + i); });
    }
#pragma unroll
    for (int k = 0; k < $packs; ++k) held[k] = packs[k];
#pragma unroll
    for (int k = 0; k < $packs; ++k) {
      const Pack<$dtype, $width> pack = held[k];
      Sum sum = START;
      each<$width>([&](int i) { if (place(k) + i < left) sum = Join()(sum, summand(pack.at[i])); });
      sum = warp_scan(sum, Join());
      if (lane == 31) of_warps[k * $threads / 32 + warp] = sum;
      before[k] = shuffle_up(sum, 1);
    }
    __syncthreads();
    Sum own = START;
    if (warp == 0) {
      Sum ends[$ends];
      each<$ends>([&](int i) { ends[i] = of_warps[lane * $ends + i]; });
      each<$ends>([&](int i) { if (i > 0) ends[i] = Join()(ends[i - 1], ends[i]); });
      Sum up_to = warp_scan(ends[$ends - 1], Join()), before_lane = shuffle_up(up_to, 1);
      each<$ends>([&](int i) { of_warps[lane * $ends + i] = lane > 0 ? Join()(before_lane, ends[i]) : ends[i]; });
      own = shuffle_from(up_to, 31);
    }
$before
#pragma unroll
    for (int k = 0; k < $packs; ++k) {
      const int group = k * $threads / 32 + warp;
      Sum sum = group > 0 ? Join()(before_part, of_warps[group - 1]) : before_part;
      if (lane > 0) sum = Join()(sum, before[k]);
      const Pack<$dtype, $width> pack = held[k];
      Pack<$out, $width> results;
      each<$width>([&](int i) {
        Sum next = Join()(sum, summand(pack.at[i]));
        results.at[i] = stored($exclusive ? sum : next);
        sum = next;
      });
      if (aligned && place(k) + $width <= left) store_pack<$out, $width>(out + start + place(k), results);
      else each<$width>([&](int i) { if (place(k) + i < left) out[start + place(k) + i] = results.at[i]; });
    }
    __syncthreads();
  }
""")


# Where the block's part lies, and the sum before it: in rows of a part, and in rows of several parts.
_ALONE = "    const int64 line = work, in_row = 0;", "    const Sum before_part = START;\n    __syncthreads();"
_IN_PARTS = (
    """
    const int64 number = next_part(posted), line = by_parts.quotient(number), in_row = number - line * parts;
""".strip("\n"),
    "    const Posted<Sum> posts = {posted};\n"
    "    post_own(posts, number, in_row, own);\n"
    f"    const Sum before_part = sum_of_parts_before<{THREADS}>(posts, number, in_row, own, START, Join());",
)


def add_rows(scan: Scan) -> None:
    """Add the kernels for the last axis: for an ``inner`` of 1."""
    most = THREADS * PACKS * scan.width
    used, is_alone = eq(scan.inner, 1), le(scan.length, most)
    scan.add("scan_rows", _text(scan, PACKS, "outer", *_ALONE), (), where(all_(used, is_alone), blocks(scan.outer), 0))
    part = THREADS * PACKS_OF_PARTS * scan.width
    of_row = (scan.length + (part - 1)) // part
    parts = scan.outer * of_row
    in_parts = all_(used, not_(is_alone))
    posted = add_look_back(scan.assembly, "clear_parts", parts, in_parts, scan.posted_words)
    parameters = (*posted, size("parts", of_row), divisor("by_parts", of_row, parts))
    text = _text(scan, PACKS_OF_PARTS, "all_parts", *_IN_PARTS)
    scan.add("scan_parts", text, parameters, where(in_parts, blocks(parts), 0), _RESIDENT)


def _text(scan: Scan, packs: int, works: str, place: str, before: str) -> str:
    """The body of a kernel whose threads hold ``packs`` packs; ``works``: the number of parts of all rows."""
    aligned = "aligned16(data + row) && aligned16(out + row)" if scan.is_loaded else "false"
    numbers = {"part": THREADS * packs * scan.width, "packs": packs, "ends": THREADS * packs // 32 // 32}
    return _SCAN_ROWS.substitute(works=works, place=place, before=before, aligned=aligned, **numbers, **scan.texts())
