"""Scans along the last axis on CUDA: a block scans a part of a row."""

from __future__ import annotations

from ....shape_funcs.symbolic.dim import all_, eq, lt, where
from ...codegen.cuda.assembly import blocks, divisor
from ...codegen.cuda.device_code.look_back import add_look_back
from ...core.tensor_types import ITEMSIZE
from .scan_cuda import THREADS, Scan

#: Packs of neighbouring elements per thread: with the warps of a block, as many sums as a warp has lanes.
PACKS = 4

# A part is {packs} times {threads} packs of {width} neighbouring elements.  Of each of these, warps scan the sums of packs; the
# sums of all warps are as many as the lanes of a warp, which scans them.
_SCAN_ROWS = """
  __shared__ Sum of_warp[{packs} * {threads} / 32];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  int64 parts = (length + {part} - 1) / {part};
  for (int64 work = blockIdx.x; work < outer * parts; work += gridDim.x) {{
    int64 number = parts > 1 ? next_part(posted) : work;
    int64 line = by_parts.quotient(number), row = line * length, in_row = number - line * parts, start = in_row * {part};
    const bool aligned = length >= {width} && {aligned};
    Pack<{dtype}, {width}> packs[{packs}];
    Sum before[{packs}];
    auto place = [&](int k) {{ return start + (k * {threads} + int(threadIdx.x)) * {width}; }};
    auto element_of = [&](int64 at) {{ return at < length ? data_at(data, row + at) : {dtype}{{}}; }};
    if (aligned) {{  // no branch is between loads
#pragma unroll
      for (int k = 0; k < {packs}; ++k) {{
        packs[k] = load_pack<{dtype}, {width}>(data + row + (place(k) + {width} <= length ? place(k) : 0));
      }}
      if (start + {part} > length && length % {width} != 0) {{
#pragma unroll
        for (int k = 0; k < {packs}; ++k) {{
          if (place(k) + {width} > length) each<{width}>([&](int i) {{ packs[k].at[i] = element_of(place(k) + i); }});
        }}
      }}
    }} else {{
#pragma unroll
      for (int k = 0; k < {packs}; ++k) each<{width}>([&](int i) {{ packs[k].at[i] = element_of(place(k) + i); }});
    }}
#pragma unroll
    for (int k = 0; k < {packs}; ++k) {{
      int64 at = place(k);
      Sum sum = START;
      each<{width}>([&](int i) {{ if (at + i < length) sum = Join()(sum, summand(packs[k].at[i])); }});
      sum = warp_scan(sum, Join());
      if (lane == 31) of_warp[k * {threads} / 32 + warp] = sum;
      before[k] = shuffle_up(sum, 1);
    }}
    __syncthreads();
    Sum ends = warp_scan(of_warp[lane], Join()), own = shuffle_from(ends, 31), sum_before = START;
    if (parts > 1) sum_before = look_back(Posted<Sum>{{posted, all_parts}}, number, in_row, own, START, Join());
#pragma unroll
    for (int k = 0; k < {packs}; ++k) {{
      const int group = k * {threads} / 32 + warp;
      Sum sum = shuffle_from(ends, group > 0 ? group - 1 : 0);
      sum = group > 0 ? Join()(sum_before, sum) : sum_before;
      if (lane > 0) sum = Join()(sum, before[k]);
      int64 at = place(k);
      Pack<{out}, {width}> results;
      each<{width}>([&](int i) {{
        Sum next = Join()(sum, summand(packs[k].at[i]));
        results.at[i] = stored({exclusive} ? sum : next);
        sum = next;
      }});
      if (aligned && at + {width} <= length) store_pack<{out}, {width}>(out + row + at, results);
      else each<{width}>([&](int i) {{ if (at + i < length) out[row + at + i] = results.at[i]; }});
    }}
    __syncthreads();
  }}
"""


def add_rows(scan: Scan) -> None:
    """Add the kernel for the last axis: for an ``inner`` of 1."""
    part = THREADS * PACKS * scan.width
    of_row = (scan.length + (part - 1)) // part
    parts = scan.outer * of_row
    used = eq(scan.inner, 1)
    cut = all_(used, lt(part, scan.length))
    posted_bytes = ITEMSIZE[scan.sum_type] if ITEMSIZE[scan.sum_type] > 4 else 0
    posted = add_look_back(scan.assembly, "clear_parts", parts, cut, posted_bytes)
    aligned = "aligned16(data + row) && aligned16(out + row)" if scan.is_loaded else "false"
    text = _SCAN_ROWS.format(part=part, packs=PACKS, aligned=aligned, **scan.texts())
    scan.add("scan_rows", text, (*posted, divisor("by_parts", of_row, parts)), where(used, blocks(parts), 0))
