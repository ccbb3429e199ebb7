"""cumsum and cumprod on CUDA: reduce each part of an axis, scan the sums of the parts, then scan the elements of each part.

If the axis is the last one, a block processes a part of a row; else a thread processes a part of a column, and neighbouring
threads neighbouring columns.  A row or column of one part is read once.  The order of additions is fixed, but differs from
the CPU's: float results differ by rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....shape_funcs.symbolic.dim import Dim, all_, const, dim, eq, lt, max_, min_, not_, where
from ...codegen.cuda.assembly import Assembly, Parameter, around, blocks, element, reads, size, writes
from ...codegen.cuda.casts import NUMBER, converted
from ...codegen.cuda.cuda_program import CudaSource, OpaqueCall, Operand
from ...core.tensor_types import ITEMSIZE, computed_in, is_float

THREADS, ITEMS = 256, 8
#: Threads that scan the sums of a row's parts.
ADDING_THREADS = 1024
#: Elements of a row per block.
PART = THREADS * ITEMS
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


_SUM_ROWS = """
  int64 parts = (length + {part} - 1) / {part};
  for (int64 work = blockIdx.x; work < outer * parts; work += gridDim.x) {{
    int64 row = work / parts * length, start = work % parts * {part};
    Sum sum = START;
    for (int k = 0; k < {part}; k += {threads}) {{
      int64 at = start + k + threadIdx.x;
      if (at < length) sum = Join()(sum, summand(data, row + at));
    }}
    sum = block_reduce(sum, Join());
    if (threadIdx.x == 0) sums[work] = sum;
  }}
"""

_ADD_UP_ROWS = """
  int64 parts = (length + {part} - 1) / {part};
  for (int64 row = blockIdx.x; row < outer; row += gridDim.x) {{
    Sum before = START;
    for (int64 start = 0; start < parts; start += blockDim.x) {{
      __shared__ Sum up_to[{adding}];
      int64 at = start + threadIdx.x;
      Sum all;
      up_to[threadIdx.x] = block_scan(at < parts ? sums[row * parts + at] : START, Join(), all);
      __syncthreads();
      if (at < parts) sums[row * parts + at] = Join()(before, threadIdx.x > 0 ? up_to[threadIdx.x - 1] : START);
      before = Join()(before, all);
      __syncthreads();
    }}
  }}
"""

# Threads load neighbouring elements, but each adds ITEMS consecutive ones: the part is transposed through shared memory, which
# is padded so that the threads of a warp use different banks.
_SCAN_ROWS = """
  __shared__ Sum part[{part} + {part} / 32 + {threads}];
  Sum* ends = part + {part} + {part} / 32;
  auto place = [](int at) {{ return at + at / 32; }};
  int64 parts = (length + {part} - 1) / {part};
  for (int64 work = blockIdx.x; work < outer * parts; work += gridDim.x) {{
    int64 row = work / parts * length, start = work % parts * {part};
    for (int at = threadIdx.x; at < {part}; at += {threads}) {{
      part[place(at)] = start + at < length ? summand(data, row + start + at) : START;
    }}
    __syncthreads();
    Sum own = START, all;
    int mine = threadIdx.x * {items};
    for (int k = 0; k < {items}; ++k) own = Join()(own, part[place(mine + k)]);
    ends[threadIdx.x] = block_scan(own, Join(), all);
    __syncthreads();
    Sum sum = threadIdx.x > 0 ? ends[threadIdx.x - 1] : START;
    if (parts > 1) sum = Join()(sums[work], sum);
    for (int k = 0; k < {items}; ++k) {{
      Sum next = Join()(sum, part[place(mine + k)]);
      part[place(mine + k)] = {exclusive} ? sum : next;
      sum = next;
    }}
    __syncthreads();
    for (int at = threadIdx.x; at < {part}; at += {threads}) {{
      if (start + at < length) out[row + start + at] = stored(part[place(at)]);
    }}
    __syncthreads();
  }}
"""

_SUM_COLUMNS = """
  int64 parts = (length + section - 1) / section;
  int64 all = outer * parts * inner, step = gridDim.x * int64({threads});
  for (int64 work = blockIdx.x * int64({threads}) + threadIdx.x; work < all; work += step) {{
    int64 column = work % inner, start = work / inner % parts * section, row = work / inner / parts;
    int64 end = start + section < length ? start + section : length;
    Sum sum = START;
    for (int64 at = start; at < end; ++at) sum = Join()(sum, summand(data, (row * length + at) * inner + column));
    sums[work] = sum;
  }}
"""

_ADD_UP_COLUMNS = """
  int64 parts = (length + section - 1) / section, step = gridDim.x * int64({threads});
  for (int64 work = blockIdx.x * int64({threads}) + threadIdx.x; work < outer * inner; work += step) {{
    int64 column = work % inner, row = work / inner;
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
  int64 parts = (length + section - 1) / section;
  int64 all = outer * parts * inner, step = gridDim.x * int64({threads});
  for (int64 work = blockIdx.x * int64({threads}) + threadIdx.x; work < all; work += step) {{
    int64 column = work % inner, start = work / inner % parts * section, row = work / inner / parts;
    int64 end = start + section < length ? start + section : length;
    Sum sum = parts > 1 ? sums[work] : START;
    for (int64 at = start; at < end; ++at) {{
      int64 place = (row * length + at) * inner + column;
      Sum next = Join()(sum, summand(data, place));
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
        value = converted("number(data_at(data, at))", computed_in(data), computed_in(out))
        self.assembly.text(
            NUMBER,
            element("data_at", self.data),
            f"typedef {self.sum_type} Sum;\ntypedef {join} Join;\nconst Sum START = {start};\n"
            f"DEVICE Sum summand(const {data}* data, int64 at) {{ return Sum({value}); }}\n"
            f"DEVICE {out} stored(Sum sum) {{ return {converted('sum', self.sum_type, out)}; }}\n",
        )

    def rows(self) -> None:
        """Add the kernels for the last axis."""
        parts = self.outer * ((self.length + (PART - 1)) // PART)
        used = eq(self.inner, 1)
        cut = all_(used, lt(PART, self.length))
        parameters = self.parameters(cut, parts)
        self.add("sum_rows", _SUM_ROWS, parameters, where(cut, blocks(parts), 0))
        self.add("add_up_rows", _ADD_UP_ROWS, parameters, where(cut, blocks(self.outer), 0), ADDING_THREADS)
        self.add("scan_rows", _SCAN_ROWS, parameters, where(used, blocks(parts), 0))

    def columns(self) -> None:
        """Add the kernels for an axis that is not the last."""
        columns = self.outer * self.inner
        wanted = min_(max_(dim(COLUMN_THREADS) // columns, 1), COLUMN_PARTS)
        section = max_((self.length + (wanted - 1)) // wanted, 16)
        parts = columns * ((self.length + (section - 1)) // section)
        used = not_(eq(self.inner, 1))
        cut = all_(used, lt(section, self.length))
        parameters = (*self.parameters(cut, parts), size("section", section))
        self.add("sum_columns", _SUM_COLUMNS, parameters, where(cut, blocks(parts, THREADS), 0))
        self.add("add_up_columns", _ADD_UP_COLUMNS, parameters, where(cut, blocks(columns, THREADS), 0))
        self.add("scan_columns", _SCAN_COLUMNS, parameters, where(used, blocks(parts, THREADS), 0))

    def parameters(self, cut: Dim, parts: Dim) -> tuple[Parameter, ...]:
        """Kernel parameters, with workspace for the sums of the parts if a row or column has several."""
        room = self.assembly.scratch(where(cut, parts * ITEMSIZE[self.sum_type], 0))
        sizes = (size("outer", self.outer), size("length", self.length), size("inner", self.inner))
        return (reads("data", self.data), writes("out", self.out), Parameter("Sum*", "sums", room), *sizes)

    def add(self, name: str, body: str, parameters: tuple[Parameter, ...], grid: Dim, threads: int = THREADS) -> None:
        """Add a kernel and its launch."""
        text = body.format(part=PART, threads=THREADS, adding=ADDING_THREADS, items=ITEMS, exclusive=str(self.exclusive).lower())
        self.assembly.kernel(name, threads, parameters, text)
        self.assembly.launch(name, grid)
