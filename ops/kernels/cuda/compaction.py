"""Picking out elements in order, in CUDA C: how many of each row are wanted, and the number of each among them.

Each part of a row is counted, the counts are added up, and a second look gives every element the number of wanted ones
before it.  Nothing waits for the device, and the order is that of the elements.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....shape_funcs.dims import Dim
from .assembly import Assembly, Parameter, blocks, size

#: A block looks at so many elements, each of its 8 warps at 256 of them.
PART = 2048
_THREADS, _SCAN_THREADS = 256, 1024


@dataclass(frozen=True)
class Choice:
    """What is picked, and what becomes of it.

    ``name``: of the kernels.  ``fields``: what the bodies read, parameters of every kernel.  The bodies:
    ``wanted(row, at)`` returns a bool; ``visit(row, at, number, is_wanted)`` is called for every element, ``number`` is how
    many wanted ones of the row come before it; ``total(row, count)`` is called once a row.
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


def add_choice(assembly: Assembly, choice: Choice) -> None:
    """Add the kernels and launches of a choice."""
    kind = f"Choice_{choice.name}"
    members = "".join(f"  {p.kind} {p.name};\n" for p in choice.fields)
    bodies = (
        ("bool wanted(int64 row, int64 at)", choice.wanted),
        ("void visit(int64 row, int64 at, int64 number, bool is_wanted)", choice.visit),
        ("void total(int64 row, int64 count)", choice.total),
    )
    methods = "".join(f"  DEVICE {head} const {{\n{body.strip(chr(10))}\n  }}\n" for head, body in bodies)
    assembly.text(f"struct {kind} {{\n{members}{methods}}};\n")
    parts = choice.rows * ((choice.length + (PART - 1)) // PART)
    names = {p.name for p in choice.fields}
    own = (size("rows", choice.rows), size("length", choice.length), Parameter("int64*", "counts", assembly.scratch(parts * 8)))
    parameters = (*choice.fields, *(p for p in own if p.name not in names))
    begin = f"  {kind} choice = {{{', '.join(p.name for p in choice.fields)}}};\n"
    for step, body, threads, work in (
        ("count", _COUNT, _THREADS, parts),
        ("add_up", _ADD_UP, _SCAN_THREADS, choice.rows),
        ("visit", _VISIT, _THREADS, parts),
    ):
        assembly.kernel(f"{step}_{choice.name}", threads, parameters, begin + body)
        assembly.launch(f"{step}_{choice.name}", blocks(work))
