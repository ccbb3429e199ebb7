"""Stream compaction in CUDA C: the selected elements of each row, in order, and their number.

One pass over memory: a block selects from a part of a row, and looks back for the number of selected elements before its part
(see ``look_back``).  The host never synchronizes with the device.  The order of elements is kept.
"""

from __future__ import annotations

from string import Template

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import Dim
from ....shape_funcs.symbolic.dim_operations import lt, max_, min_
from ...codegen.cuda.assembly import DIVISOR, Assembly, Parameter, blocks, divisor, size
from ...codegen.cuda.look_back import add_look_back

_THREADS = 256
#: Packs per thread, at most; elements per thread, at most.
_PACKS, _ELEMENTS = 4, 32
#: Blocks that a multiprocessor holds, and all 132 of an H100: a block has several parts of a long row.
_RESIDENT = 6
_BLOCKS = 132 * _RESIDENT


@frozen
class Packs:
    """Selection from ``width`` neighbouring elements at once.

    ``wanted``: the body of ``wanted_pack(row, at)``, which returns a bit for each element; ``at`` is a multiple of the width.
    ``usable``: whether it may be called, a condition over the fields.
    """

    width: int
    wanted: str
    usable: str


@frozen
class Compaction:
    """The selected elements, and their handlers.

    ``name``: prefix of the kernels' names.  ``fields``: parameters of every kernel, which the bodies may read.  The bodies:
    ``wanted(row, at)`` returns a bool; ``visit(row, at, number, is_wanted)`` is called for the selected elements, or for all if
    ``visits_all``, ``number`` being the number of selected elements of the row before it; ``total(row, count)`` is called once
    per row.
    """

    name: str
    fields: tuple[Parameter, ...]
    wanted: str
    visit: str
    total: str
    rows: Dim
    length: Dim
    visits_all: bool = False
    packs: Packs | None = None


# Thread t selects from packs t, t + THREADS, ... of the part; their counts are scanned together, 16 bits each.  The block selects
# from its next part before it looks back for this one.
_SELECT = Template(r"""
  __shared__ int of_warp[32];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int64 parts = length > $part ? (length + $part - 1) / $part : 1;
  int64 number;
  uint32 ahead[$packs];
  auto select = [&](int64 work) {
    if (work >= rows * parts) return;
    number = parts > 1 ? next_part(posted) : work;
    const int64 row = by_parts.quotient(number), first = (number - row * parts) * $part;
#pragma unroll
    for (int k = 0; k < $packs; ++k) {
      ahead[k] = choice.some(row, first + (k * $threads + int(threadIdx.x)) * $width, length);
    }
  };
  select(blockIdx.x);
  for (int64 work = blockIdx.x; work < rows * parts; work += gridDim.x) {
    const int64 mine = number, row = by_parts.quotient(mine), in_row = mine - row * parts, start = in_row * $part;
    uint32 wanted[$packs];
    uint64 counts = 0;
#pragma unroll
    for (int k = 0; k < $packs; ++k) wanted[k] = ahead[k];
#pragma unroll
    for (int k = 0; k < $packs; ++k) counts |= uint64(__popc(wanted[k])) << 16 * k;
    uint64 up_to = warp_scan(counts, Add());
    if (lane == 31) {
#pragma unroll
      for (int k = 0; k < $packs; ++k) of_warp[k * $warps + warp] = int(up_to >> 16 * k & 0xffffu);
    }
    __syncthreads();
    up_to -= counts;
    int ends = warp_scan(lane < $packs * $warps ? of_warp[lane] : 0, Add()), own = shuffle_from(ends, 31);
    if (parts > 1) post_own(PostedCounts{posted}, mine, in_row, int64(own));
$visits
    if (in_row == parts - 1 && threadIdx.x == 0) choice.total(row, before + own);
    __syncthreads();
  }
""")

_LOOK_BACK = Template("""
    int64 before = 0;
    select(work + gridDim.x);
    if (parts > 1) before = sum_of_parts_before<$threads>(PostedCounts{posted}, mine, in_row, int64(own), int64(0), Add());
""")

_EACH_PACK = Template("""
#pragma unroll
    for (int k = 0; k < $packs; ++k) {
      const int group = k * $warps + warp;
      int place = shuffle_from(ends, group > 0 ? group - 1 : 0);
      place = (group > 0 ? place : 0) + int(up_to >> 16 * k & 0xffffu);
      int inside = (k * $threads + int(threadIdx.x)) * $width;
#pragma unroll
      for (int i = 0; i < $width; ++i) {
        bool is_wanted = wanted[k] >> i & 1;
        $put
        place += is_wanted;
      }
    }
""")

_PUT_ALL = "if (start + inside + i < length) choice.visit(row, start + inside + i, before + place, is_wanted);"
_PUT_SELECTED = "if (is_wanted) selected[place] = uint16(inside + i);"

# Neighbouring threads visit neighbouring results.
_VISIT_SELECTED = Template("""
    __syncthreads();
#pragma unroll 4
    for (int at = threadIdx.x; at < own; at += $threads) choice.visit(row, start + selected[at], before + at, true);
""")

_SOME = Template("""
  DEVICE uint32 some(int64 row, int64 at, int64 length) const {
$packed
    uint32 bits = 0;
#pragma unroll
    for (int i = 0; i < $width; ++i) if (at + i < length && wanted(row, at + i)) bits |= 1u << i;
    return bits;
  }
""")


def add_compaction(assembly: Assembly, compaction: Compaction) -> None:
    """Add the kernels and launches of a compaction."""
    width = compaction.packs.width if compaction.packs else 1
    packs = min(_PACKS, max(1, _ELEMENTS // width))
    part = _THREADS * packs * width
    kind = f"Choice_{compaction.name}"
    assembly.text(DIVISOR, _choice(compaction, kind, width))
    of_row = max_((compaction.length + (part - 1)) // part, 1)
    all_parts = compaction.rows * of_row
    posted = add_look_back(assembly, f"clear_{compaction.name}", all_parts, lt(part, compaction.length))
    names = {p.name for p in compaction.fields}
    own = (size("rows", compaction.rows), size("length", compaction.length), *posted, divisor("by_parts", of_row, all_parts))
    parameters = (*compaction.fields, *(p for p in own if p.name not in names))
    numbers = {"part": part, "packs": packs, "threads": _THREADS, "width": width, "warps": _THREADS // 32}
    body = _SELECT.substitute(**numbers, visits=_visits(compaction, numbers))
    begin = f"  {kind} choice = {{{', '.join(p.name for p in compaction.fields)}}};\n"
    if not compaction.visits_all:
        begin += f"  __shared__ uint16 selected[{part}];\n"
    assembly.kernel(f"select_{compaction.name}", _THREADS, parameters, begin + body.strip("\n"), _RESIDENT)
    assembly.launch(f"select_{compaction.name}", min_(blocks(all_parts), _BLOCKS))


def _visits(compaction: Compaction, numbers: dict[str, int]) -> str:
    """The statements that look back, and visit the elements."""
    if compaction.visits_all:
        return _LOOK_BACK.substitute(**numbers) + _EACH_PACK.substitute(**numbers, put=_PUT_ALL)
    return "".join(part.substitute(**numbers, put=_PUT_SELECTED) for part in (_EACH_PACK, _LOOK_BACK, _VISIT_SELECTED))


def _choice(compaction: Compaction, kind: str, width: int) -> str:
    """The type that has the fields, and the bodies as its methods."""
    members = "".join(f"  {p.kind} {p.name};\n" for p in compaction.fields)
    bodies = [
        ("bool wanted(int64 row, int64 at)", compaction.wanted),
        ("void visit(int64 row, int64 at, int64 number, bool is_wanted)", compaction.visit),
        ("void total(int64 row, int64 count)", compaction.total),
    ]
    packed = ""
    if compaction.packs:
        bodies.append(("uint32 wanted_pack(int64 row, int64 at)", compaction.packs.wanted))
        packed = f"    if (at + {width} <= length && {compaction.packs.usable}) return wanted_pack(row, at);"
    newline = chr(10)
    methods = "".join(f"  DEVICE {head} const {{{newline}{body.strip(newline)}{newline}  }}{newline}" for head, body in bodies)
    return f"struct {kind} {{\n{members}{methods}{_SOME.substitute(packed=packed, width=width).lstrip(newline)}}};\n"
