"""Stream compaction in CUDA C: the selected elements of each row, in order, and their number.

The selected elements of each part of a row are counted, the counts are scanned, and a second pass over the elements gives each
the number of selected elements before it.  The host never synchronizes with the device.  The order of elements is kept.
"""

from __future__ import annotations

from ....shape_funcs.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import Dim
from ...codegen.cuda.assembly import Assembly, Parameter, blocks, size

#: Elements per block: each of its 8 warps processes 256.
PART = 2048
_THREADS, _SCAN_THREADS = 256, 1024


@frozen
class Compaction:
    """The selected elements, and their handlers.

    ``name``: prefix of the kernels' names.  ``fields``: parameters of every kernel, which the bodies may read.  The bodies:
    ``wanted(row, at)`` returns a bool; ``visit(row, at, number, is_wanted)`` is called for every element, ``number`` being the
    number of selected elements of the row before it; ``total(row, count)`` is called once per row.
    """

    name: str
    fields: tuple[Parameter, ...]
    wanted: str
    visit: str
    total: str
    rows: Dim
    length: Dim


_COUNT = rf"""
  int64 parts = (length + {PART - 1}) / {PART};
  for (int64 work = blockIdx.x; work < rows * parts; work += gridDim.x) {{
    int64 row = work / parts, start = work % parts * {PART};
    int found = 0;
#pragma unroll
    for (int k = 0; k < {PART}; k += {_THREADS}) {{
      int64 at = start + k + threadIdx.x;
      if (at < length && choice.wanted(row, at)) ++found;
    }}
    found = block_reduce(found, Add());
    if (threadIdx.x == 0) counts[work] = found;
  }}
"""

_ADD_UP = rf"""
  int64 parts = (length + {PART - 1}) / {PART};
  for (int64 row = blockIdx.x; row < rows; row += gridDim.x) {{
    int64 before = 0;
    for (int64 start = 0; start < parts; start += blockDim.x) {{
      int64 at = start + threadIdx.x, mine = at < parts ? counts[row * parts + at] : 0, all;
      int64 up_to = block_scan(mine, Add(), all);
      if (at < parts) counts[row * parts + at] = before + up_to - mine;
      before += all;
    }}
    if (threadIdx.x == 0) choice.total(row, before);
  }}
"""

_VISIT = rf"""
  __shared__ uint32 is_wanted[{_THREADS // 32}][8];
  __shared__ int of_warp[{_THREADS // 32}];
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  int64 parts = (length + {PART - 1}) / {PART};
  for (int64 work = blockIdx.x; work < rows * parts; work += gridDim.x) {{
    int64 row = work / parts, start = work % parts * {PART} + warp * 256 + lane, before = counts[work];
    int mine = 0;
#pragma unroll
    for (int k = 0; k < 8; ++k) {{
      int64 at = start + k * 32;
      uint32 wanted = __ballot_sync(0xffffffffu, at < length && choice.wanted(row, at));
      mine += __popc(wanted);
      if (lane == 0) is_wanted[warp][k] = wanted;
    }}
    if (lane == 0) of_warp[warp] = mine;
    __syncthreads();
    for (int other = 0; other < warp; ++other) before += of_warp[other];
#pragma unroll 1
    for (int k = 0; k < 8; ++k) {{
      uint32 wanted = is_wanted[warp][k];
      int64 at = start + k * 32, number = before + __popc(wanted & ((1u << lane) - 1));
      if (at < length) choice.visit(row, at, number, wanted >> lane & 1);
      before += __popc(wanted);
    }}
    __syncthreads();
  }}
"""


def add_compaction(assembly: Assembly, compaction: Compaction) -> None:
    """Add the kernels and launches of a compaction."""
    kind = f"Choice_{compaction.name}"
    members = "".join(f"  {p.kind} {p.name};\n" for p in compaction.fields)
    bodies = (
        ("bool wanted(int64 row, int64 at)", compaction.wanted),
        ("void visit(int64 row, int64 at, int64 number, bool is_wanted)", compaction.visit),
        ("void total(int64 row, int64 count)", compaction.total),
    )
    methods = "".join(f"  DEVICE {head} const {{\n{body.strip(chr(10))}\n  }}\n" for head, body in bodies)
    assembly.text(f"struct {kind} {{\n{members}{methods}}};\n")
    parts = compaction.rows * ((compaction.length + (PART - 1)) // PART)
    names = {p.name for p in compaction.fields}
    own = (
        size("rows", compaction.rows),
        size("length", compaction.length),
        Parameter("int64*", "counts", assembly.scratch(parts * 8)),
    )
    parameters = (*compaction.fields, *(p for p in own if p.name not in names))
    begin = f"  {kind} choice = {{{', '.join(p.name for p in compaction.fields)}}};\n"
    for step, body, threads, work in (
        ("count", _COUNT, _THREADS, parts),
        ("add_up", _ADD_UP, _SCAN_THREADS, compaction.rows),
        ("visit", _VISIT, _THREADS, parts),
    ):
        assembly.kernel(f"{step}_{compaction.name}", threads, parameters, begin + body)
        assembly.launch(f"{step}_{compaction.name}", blocks(work))
