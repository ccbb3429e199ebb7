"""cumsum and cumprod on CUDA.

If the axis is the last one, a block scans a part of a row in one pass over memory (see ``look_back``).  Else a thread processes a
part of a column, and neighbouring threads neighbouring columns: reduce each part, scan the sums of the parts, then scan the
elements of each part.  The order of additions is fixed, but differs from the CPU's: float results differ by rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....shape_funcs.symbolic.dim import Dim, all_, const, dim, eq, lt, max_, min_, not_, where
from ...codegen.cuda.assembly import DIVISOR, Assembly, Parameter, around, blocks, divisor, element, reads, size, writes
from ...codegen.cuda.casts import NUMBER, converted
from ...codegen.cuda.cuda_program import CudaSource, OpaqueCall, Operand
from ...codegen.cuda.look_back import add_look_back
from ...codegen.cuda.vector_access import ACCESS
from ...core.tensor_types import ITEMSIZE, computed_in, is_float

#: Packs of neighbouring elements per thread: with the warps of a block, as many sums as a warp has lanes.
THREADS, PACKS = 256, 4
#: Columns are split until there are COLUMN_THREADS threads, but into at most COLUMN_PARTS parts.
COLUMN_THREADS, COLUMN_PARTS = 2**17, 1024


def cumsum(call: OpaqueCall) -> CudaSource:
    """The sum of all elements up to each element along an axis, without the element itself if ``exclusive``.

    Accumulates in the result's dtype, in float32 for the two storage-only dtypes.
    """
    return _cumulative(call, "Add", 0)


def cumprod(call: OpaqueCall) -> CudaSource:
    """``cumsum`` with products."""
    return _cumulative(call, "Multiply", 1)


def _cumulative(call: OpaqueCall, join: str, start: int) -> CudaSource:
    (data,), (out,) = call.inputs, call.results
    outer, length, inner = around(data.shape, call.attrs.axis)
    sums = computed_in(out.dtype)
    if not is_float(sums):
        sums = "uint64" if ITEMSIZE[sums] == 8 else "uint32"  # unsigned, because overflow is then defined
    scan = _Scan(Assembly(), data, out, sums, call.attrs.exclusive, outer, length, inner)
    scan.begin(join, start)
    scan.rows()
    if const(inner) != 1:
        scan.columns()
    return scan.assembly.source()


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

_SUM_COLUMNS = """
  int64 all = outer * parts * inner, step = gridDim.x * int64({threads});
  for (int64 work = blockIdx.x * int64({threads}) + threadIdx.x; work < all; work += step) {{
    int64 in_order = by_inner.quotient(work), column = work - in_order * inner;
    int64 row = by_parts.quotient(in_order), start = (in_order - row * parts) * section;
    int64 end = start + section < length ? start + section : length;
    Sum sum = START;
    for (int64 at = start; at < end; ++at) sum = Join()(sum, summand(data_at(data, (row * length + at) * inner + column)));
    sums[work] = sum;
  }}
"""

_ADD_UP_COLUMNS = """
  int64 step = gridDim.x * int64({threads});
  for (int64 work = blockIdx.x * int64({threads}) + threadIdx.x; work < outer * inner; work += step) {{
    int64 row = by_inner.quotient(work), column = work - row * inner;
    Sum before = START;
    for (int64 part = 0; part < parts; ++part) {{
      Sum* place = sums + (row * parts + part) * inner + column;
      Sum sum = *place;
      *place = before;
      before = Join()(before, sum);
    }}
  }}
"""

_SCAN_COLUMNS = """
  int64 all = outer * parts * inner, step = gridDim.x * int64({threads});
  for (int64 work = blockIdx.x * int64({threads}) + threadIdx.x; work < all; work += step) {{
    int64 in_order = by_inner.quotient(work), column = work - in_order * inner;
    int64 row = by_parts.quotient(in_order), start = (in_order - row * parts) * section;
    int64 end = start + section < length ? start + section : length;
    Sum sum = parts > 1 ? sums[work] : START;
    for (int64 at = start; at < end; ++at) {{
      int64 place = (row * length + at) * inner + column;
      Sum next = Join()(sum, summand(data_at(data, place)));
      out[place] = stored({exclusive} ? sum : next);
      sum = next;
    }}
  }}
"""


@dataclass
class _Scan:
    assembly: Assembly
    data: Operand
    out: Operand
    sum_type: str
    exclusive: bool
    outer: Dim
    length: Dim
    inner: Dim

    def begin(self, join: str, start: int) -> None:
        """Add device code: an element's summand, the combination of sums, and the stored form of a sum."""
        data, out = self.data.dtype, self.out.dtype
        value = converted("number(element)", computed_in(data), computed_in(out))
        self.assembly.text(
            NUMBER,
            DIVISOR,
            element("data_at", self.data),
            f"typedef {self.sum_type} Sum;\ntypedef {join} Join;\nconst Sum START = {start};\n"
            f"DEVICE Sum summand({data} element) {{ return Sum({value}); }}\n"
            "template <int N, class F> DEVICE void each(F f) {\n#pragma unroll\n  for (int i = 0; i < N; ++i) f(i);\n}\n"
            f"DEVICE {out} stored(Sum sum) {{ return {converted('sum', self.sum_type, out)}; }}\n",
        )

    def rows(self) -> None:
        """Add the kernels for the last axis."""
        of_row = (self.length + (self.part - 1)) // self.part
        parts = self.outer * of_row
        used = eq(self.inner, 1)
        cut = all_(used, lt(self.part, self.length))
        sums = ITEMSIZE[self.sum_type] if ITEMSIZE[self.sum_type] > 4 else 0
        posted = add_look_back(self.assembly, "clear_parts", parts, cut, sums)
        parameters = (*self.parameters(), *posted, divisor("by_parts", of_row, parts))
        self.add("scan_rows", _SCAN_ROWS, parameters, where(used, blocks(parts), 0))

    def columns(self) -> None:
        """Add the kernels for an axis that is not the last."""
        columns = self.outer * self.inner
        wanted = min_(max_(dim(COLUMN_THREADS) // columns, 1), COLUMN_PARTS)
        section = max_((self.length + (wanted - 1)) // wanted, 16)
        of_column = (self.length + (section - 1)) // section
        parts = columns * of_column
        used = not_(eq(self.inner, 1))
        cut = all_(used, lt(section, self.length))
        room = self.assembly.scratch(where(cut, parts * ITEMSIZE[self.sum_type], 0))
        divisors = divisor("by_inner", self.inner, parts), divisor("by_parts", of_column, self.outer * of_column)
        sizes = size("section", section), size("parts", of_column)
        parameters = (*self.parameters(), Parameter("Sum*", "sums", room), *sizes, *divisors)
        self.add("sum_columns", _SUM_COLUMNS, parameters, where(cut, blocks(parts, THREADS), 0))
        self.add("add_up_columns", _ADD_UP_COLUMNS, parameters, where(cut, blocks(columns, THREADS), 0))
        self.add("scan_columns", _SCAN_COLUMNS, parameters, where(used, blocks(parts, THREADS), 0))

    @property
    def width(self) -> int:
        """Elements of a pack: 16 bytes of the wider of both tensors."""
        return ACCESS // max(ITEMSIZE[self.data.dtype], ITEMSIZE[self.out.dtype])

    @property
    def part(self) -> int:
        """Elements of a row per block."""
        return THREADS * PACKS * self.width

    def parameters(self) -> tuple[Parameter, ...]:
        """The tensors and their sizes."""
        sizes = (size("outer", self.outer), size("length", self.length), size("inner", self.inner))
        return (reads("data", self.data), writes("out", self.out), *sizes)

    def add(self, name: str, body: str, parameters: tuple[Parameter, ...], grid: Dim) -> None:
        """Add a kernel and its launch."""
        is_loaded = self.data.position is not None  # a literal has no address
        text = body.format(
            part=self.part,
            threads=THREADS,
            packs=PACKS,
            width=self.width,
            dtype=self.data.dtype,
            out=self.out.dtype,
            aligned="aligned16(data + row) && aligned16(out + row)" if is_loaded else "false",
            exclusive=str(self.exclusive).lower(),
        )
        self.assembly.kernel(name, THREADS, parameters, text)
        self.assembly.launch(name, grid)
