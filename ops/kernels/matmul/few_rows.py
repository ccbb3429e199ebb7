"""Products of few rows on CUDA: a kernel that reads each element of the second matrix once, and adds a vector and a matrix.

A block computes a few columns of all rows, and its lanes share the inner axis: there are enough blocks where a library's tile
would take all columns at once.  The order in which sums of lanes and of parts of a block are added depends on the matrix only.

A second matrix by columns (``transpose_b``): the lanes of one warp or of several read neighbouring elements of a column.
By rows: a lane reads 4 x 4 elements of the matrix, 1 to 4 lanes lie side by side along a row.
"""

from __future__ import annotations

from string import Template

from ....shape_funcs.symbolic.dim import Dim, const
from ....shape_funcs.symbolic.dim_operations import all_, any_, eq, le, lt, where
from ...codegen.cuda.assembly import DIVISOR, Assembly, Parameter, blocks, reads, size, writes
from ...codegen.cuda.cuda_program import Data, Elements, OpaqueCall, Word
from ...codegen.cuda.cuda_text import FUNCTIONS
from ...codegen.cuda.device_code.casts import NUMBER, converted
from ...core.tensor_types import HALVES, computed_in
from .dot_product import PLUS_PRODUCT
from .library_products import PAIRS, Product

#: Threads of a block, and elements of a pack: 16 bytes of float32.
THREADS, UNIT = 128, 4
#: The rows for which kernels are compiled: a kernel computes the last of its rows again for those that are missing.
ROWS = (1, 8, 16)
#: Rows of float32 up to which any matrix, and elements of the second matrix up to which all rows of ROWS are computed here.
ANY_MATRIX, MOST_ELEMENTS = 4, 1 << 20
#: Elements of a second matrix of halves, by columns and by rows: tensor cores are faster beyond, and for more rows.
MOST_HALVES = {True: 1 << 20, False: 1 << 18}
#: The same for a product with elementwise operators after it, which take a launch of their own, of about 1.5 us, after tensor
#: cores.  On an H200 4 rows take 3.8 us by a matrix of 2**20 elements and 18.7 us by a matrix of 2**24, tensor cores 3.4 and 9.0.
MOST_FOLLOWED = 3 << 20
#: The longest inner axis of few columns: a block passes over all of it.  Fewer columns than this are few.
LONGEST, MANY_COLUMNS = 8192, 512
#: A bound of the inner axis: 16 rows of so many elements have places of 32 bits.
_SHORT = 1 << 26
#: The blocks that must fit a multiprocessor, by rows: the registers that this leaves hold the sums and the packs in flight.
_RESIDENT = {1: 6, 8: 3, 16: 3}


def pays(dtype: str, shape: Product, followed: bool = False) -> Dim:
    """Whether the rows are few enough for these matrices; 0 if the first matrix is transposed.

    ``followed``: whether the kernel computes elementwise operators after the product.
    """
    if shape.transpose_a:
        return all_(0)
    m, n, k = shape.m, shape.n, shape.k
    are_packs = all_(*(eq(s % UNIT, 0) for s in ((k,) if shape.transpose_b else (k, n))))
    if dtype in HALVES:
        fits = le(n * k, MOST_FOLLOWED if followed else MOST_HALVES[shape.transpose_b])
    else:
        fits = any_(lt(m, ANY_MATRIX + 1), all_(are_packs, le(n * k, MOST_ELEMENTS)))
    return all_(
        eq(shape.batch, 1),
        lt(m, _rows(dtype)[-1] + 1),
        fits,
        lt(k, _SHORT),
        any_(lt(k, LONGEST + 1), le(MANY_COLUMNS, n)),
    )


def may_pay(dtypes: tuple[str, str], shape: Product, followed: bool = False) -> bool:
    """Whether the kernel may run, by the sizes that are known when the program is compiled."""
    return dtypes in PAIRS and const(pays(dtypes[0], shape, followed)) != 0


def add_kernels(assembly: Assembly, call: OpaqueCall, shape: Product, wanted: Dim) -> None:
    """Add the kernels of the product of the call with its sums and what follows; one of the kernels runs if ``wanted``."""
    (a, b), (out,) = call.inputs, call.results
    by_columns, number = shape.transpose_b, computed_in(a.dtype)
    fields = {"dtype": a.dtype, "result": out.dtype, "threads": THREADS, "unit": UNIT}
    following, finish = _following(assembly, out.dtype, call.following)
    assembly.text(
        NUMBER,
        PLUS_PRODUCT,
        "namespace few_rows {\n"
        f"typedef {number} Sum;\n"
        f"DEVICE {out.dtype} stored(Sum sum) {{ return {converted('sum', number, out.dtype)}; }}\n"
        f"{finish}{_ALL.substitute(fields)}{(_BY_COLUMNS if by_columns else _BY_ROWS).substitute(fields)}{_NARROW}}}\n",
    )
    added = [
        Parameter(f"const {out.dtype}*", name, Word(0) if position is None else Data(position))
        for name, position in (("matrix", call.sums.matrix), ("vector", call.sums.vector))
    ]
    sizes = [size(name, s) for name, s in (("m", shape.m), ("n", shape.n), ("k", shape.k), ("bits", _bits(shape)))]
    below = 0
    for rows in _rows(a.dtype):
        fits = all_(wanted, lt(below, shape.m), lt(shape.m, rows + 1))
        for columns, of_block, pays_off in _widths(shape, rows):
            name = f"few_rows_{rows}_{columns}"
            body = _KERNEL.substitute(
                rows=rows, columns=columns, narrow=ANY_MATRIX, held=max(rows, ANY_MATRIX),
                wide="k" if by_columns else "(k | n)", unit=UNIT,
                finish=", ".join(("out", *(p.name for p in following))), few_columns=1 if by_columns else UNIT,
                slots=THREADS // 32 if by_columns else THREADS // 8,
            )  # fmt: skip
            parameters = reads("a", a), reads("b", b), writes("out", out), *sizes, *added, *following
            assembly.kernel(name, THREADS, parameters, body, resident=_RESIDENT[rows])
            assembly.launch(name, where(all_(fits, pays_off), blocks(shape.n, of_block), 0))
        below = rows


def _following(assembly: Assembly, dtype: str, made: Elements | None) -> tuple[tuple[Parameter, ...], str]:
    """The parameters of the operators after the product, and the type whose call computes them for the element ``at``."""
    if made is None:
        return (), _FINISH.substitute(dtype=dtype, fields="", body="")
    number = computed_in(dtype)
    declared = ", ".join(f"{kind} {name}" for kind, name, _ in made.parameters)
    value = f"DEVICE {number} value(int64 at, {declared}) {{\n{made.element}\n}}\n"
    assembly.text(f"namespace following {{\n{DIVISOR}{FUNCTIONS}{value}}}\n")
    parameters = tuple(
        Parameter("following::Divisor" if kind == "Divisor" else kind, name, argument) for kind, name, argument in made.parameters
    )
    passed = ", ".join(p.name for p in parameters)
    return parameters, _FINISH.substitute(
        dtype=dtype,
        fields="".join(f"  {p.kind} {p.name};\n" for p in parameters),
        body=f"    const {number} value = following::value(at, {passed});\n    out[at] = {converted('value', number, dtype)};\n",
    )


def _rows(dtype: str) -> tuple[int, ...]:
    """The rows of the kernels: a float64 fills two registers, and tensor cores multiply 9 rows of halves faster."""
    return ROWS if dtype == "float32" else ROWS[:-1]


def _bits(shape: Product) -> Dim:
    """The binary logarithm of the warps that share a column, or of the lanes side by side along a row."""
    n, k = shape.n, shape.k
    if shape.transpose_b:
        return where(le(512, k), 2, where(le(256, k), 1, 0))
    return where(le(16384, n), 2, where(all_(le(1024, k), lt(n, 1024)), 0, 1))


def _widths(shape: Product, rows: int) -> list[tuple[int, Dim, Dim]]:
    """Columns of a thread, columns of a block, and whether so many pay.

    Several columns share what a thread reads of the rows: much of several rows, but there must be enough blocks for a GPU.
    """
    bits, n = _bits(shape), shape.n
    power = where(eq(bits, 2), 4, where(eq(bits, 1), 2, 1))
    if not shape.transpose_b:
        return [(UNIT, UNIT * power, all_())]
    groups = where(eq(bits, 2), 1, where(eq(bits, 1), 2, 4))
    are_many = le(8192 if rows == 1 else 1024, n * power)
    return [(1, groups, eq(are_many, 0)), (4, 4 * groups, are_many)]


# What follows the product reads the element that the same thread has stored.
_FINISH = Template("""
struct Finish {
  $dtype* out;
$fields  DEVICE void operator()(int64 at) const {
$body  }
};
""")

_ALL = Template("""
const int THREADS = $threads, UNIT = $unit;

struct Rows {
  const $dtype *a, *b;
  $result* out;
  int64 n;
  int m, k, bits;  // m: rows from `first` on, where `a` begins
  const $result *matrix, *vector;
  Finish finish;
  int first;

  // The place of row i; the last row stands for rows that are missing.
  DEVICE int row(int i) const { return (i < m ? i : m - 1) * k; }
  DEVICE void store(int i, int64 j, Sum sum) const {
    const int64 at = (first + i) * n + j;
    if (matrix) sum += number(matrix[at]);
    if (vector) sum += number(vector[j]);
    out[at] = stored(sum);
    finish(at);
  }
};

// A pack of a row of `width` elements from the place `at` on, with zeros behind them.
template <bool WIDE> DEVICE Pack<$dtype, UNIT> pack_of(const $dtype* row, int64 at, int64 width) {
  Pack<$dtype, UNIT> pack = {};
  if (WIDE) {
    if (at < width) pack = load_pack<$dtype, UNIT>(row + at);
  } else {
#pragma unroll
    for (int q = 0; q < UNIT; ++q) if (at + q < width) pack.at[q] = row[at + q];
  }
  return pack;
}

// Add up the sums of lanes whose numbers differ in the bits from LAST to DISTANCE.  Lanes send half of their sums while they have
// several: the bits of its number say which of the sums a lane has at the end.
template <int COUNT, int DISTANCE, int LAST> struct Lanes {
  static DEVICE void add(Sum* sums) {
    const bool is_upper = threadIdx.x & DISTANCE;
#pragma unroll
    for (int i = 0; i < COUNT / 2; ++i) {
      const Sum low = sums[i], high = sums[i + COUNT / 2];
      sums[i] = (is_upper ? high : low) + shuffle_xor(is_upper ? low : high, DISTANCE);
    }
    Lanes<COUNT / 2, DISTANCE / 2, (DISTANCE == LAST ? 0 : LAST)>::add(sums);
  }
};
template <int DISTANCE, int LAST> struct Lanes<1, DISTANCE, LAST> {
  static DEVICE void add(Sum* sums) {
#pragma unroll
    for (int distance = DISTANCE; distance >= LAST; distance /= 2) sums[0] += shuffle_xor(sums[0], distance);
  }
};
template <int COUNT, int DISTANCE> struct Lanes<COUNT, DISTANCE, 0> { static DEVICE void add(Sum*) {} };
template <int DISTANCE> struct Lanes<1, DISTANCE, 0> { static DEVICE void add(Sum*) {} };

// Add up the COUNT sums of a thread over the lanes as above, and store them in the slot of the lanes that share it.
template <int COUNT, int LAST> DEVICE void to_slot(Sum (&sums)[COUNT], Sum* slot) {
  const int TIMES = LAST == 1 ? 5 : 3, LOG = COUNT >= 32 ? 5 : COUNT >= 16 ? 4 : COUNT >= 8 ? 3 : COUNT >= 4 ? 2 : COUNT - 1;
  const int HALVED = LOG < TIMES ? LOG : TIMES, LEFT = COUNT >> HALVED;
  Lanes<COUNT, 16, LAST>::add(sums);
  const int lane = threadIdx.x % 32, first = (lane >> (5 - HALVED)) * LEFT;
  if (lane / LAST % (1 << (TIMES - HALVED)) != 0) return;
#pragma unroll
  for (int i = 0; i < LEFT; ++i) slot[first + i] = sums[i];
}
""")

# The columns of the matrix are rows in memory.  2^bits warps share COLUMNS columns.
_BY_COLUMNS = Template("""
template <int ROWS, int COLUMNS, bool WIDE> DEVICE void multiply(const Rows& x, Sum* room) {
  const int COUNT = ROWS * COLUMNS, U = sizeof(Sum) > 4 || COUNT > 16 ? 1 : COUNT == 1 ? 4 : 2;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, parts = 1 << x.bits, groups = THREADS / 32 / parts;
  const int step = 32 * UNIT * parts;
  for (int64 j0 = int64(blockIdx.x) * groups * COLUMNS; j0 < x.n; j0 += int64(gridDim.x) * groups * COLUMNS) {
    const $dtype* columns[COLUMNS];
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) {
      const int64 j = j0 + (warp >> x.bits) * COLUMNS + c;
      columns[c] = x.b + (j < x.n ? j : x.n - 1) * x.k;
    }
    Sum sums[COUNT] = {};
    for (int p = ((warp & (parts - 1)) * 32 + lane) * UNIT; p < x.k; p += U * step) {
      Pack<$dtype, UNIT> weights[U][COLUMNS];
#pragma unroll
      for (int u = 0; u < U; ++u) {
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) weights[u][c] = pack_of<WIDE>(columns[c], p + u * step, x.k);
      }
#pragma unroll
      for (int u = 0; u < U; ++u) {
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
          const Pack<$dtype, UNIT> row = pack_of<WIDE>(x.a + x.row(i), p + u * step, x.k);
#pragma unroll
          for (int at = 0; at < COLUMNS * UNIT; ++at) {
            Sum& sum = sums[i * COLUMNS + at / UNIT];
            sum = plus_product(sum, number(row.at[at % UNIT]), number(weights[u][at / UNIT].at[at % UNIT]));
          }
        }
      }
    }
    to_slot<COUNT, 1>(sums, room + warp * COUNT);
    __syncthreads();
    for (int at = threadIdx.x; at < groups * COUNT; at += THREADS) {
      const int i = at % COUNT / COLUMNS;
      const int64 j = j0 + at / COUNT * COLUMNS + at % COLUMNS;
      if (i >= x.m || j >= x.n) continue;
      Sum sum = 0;
      for (int part = 0; part < parts; ++part) sum += room[(at / COUNT * parts + part) * COUNT + at % COUNT];
      x.store(i, j, sum);
    }
    __syncthreads();
  }
}
""")

# 2^bits lanes lie side by side along a row of the matrix, UNIT columns each; the others are further along the inner axis.
_BY_ROWS = Template("""
template <int ROWS, int COLUMNS, bool WIDE> DEVICE void multiply(const Rows& x, Sum* room) {
  const int COUNT = ROWS * COLUMNS, SLOTS = THREADS / 8, U = ROWS > 8 || sizeof(Sum) > 4 ? 1 : 2;
  const int lane = threadIdx.x % 32, across = 1 << x.bits, aside = lane & (across - 1), width = across * COLUMNS;
  const int step = (THREADS >> x.bits) * UNIT;
  for (int64 j0 = int64(blockIdx.x) * width; j0 < x.n; j0 += int64(gridDim.x) * width) {
    const int64 j = j0 + aside * COLUMNS;
    Sum sums[COUNT] = {};
    for (int p = (int(threadIdx.x) >> x.bits) * UNIT; p < x.k; p += U * step) {
      Pack<$dtype, UNIT> weights[U][UNIT];
#pragma unroll
      for (int at = 0; at < U * UNIT; ++at) {
        const int64 place = p + at / UNIT * step + at % UNIT;
        weights[at / UNIT][at % UNIT] = pack_of<WIDE>(x.b + place * x.n, j, place < x.k ? x.n : 0);
      }
#pragma unroll
      for (int u = 0; u < U; ++u) {
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
          const Pack<$dtype, UNIT> row = pack_of<WIDE>(x.a + x.row(i), p + u * step, x.k);
#pragma unroll
          for (int at = 0; at < UNIT * COLUMNS; ++at) {
            Sum& sum = sums[i * COLUMNS + at % COLUMNS];
            sum = plus_product(sum, number(row.at[at / COLUMNS]), number(weights[u][at / COLUMNS].at[at % COLUMNS]));
          }
        }
      }
    }
    to_slot<COUNT, 4>(sums, room + (threadIdx.x / 32 * 4 + lane % 4) * COUNT);
    __syncthreads();
    for (int at = threadIdx.x; at < x.m * width; at += THREADS) {
      const int i = at >> x.bits >> 2, column = at & (width - 1);
      if (j0 + column >= x.n) continue;
      Sum sum = 0;
#pragma unroll 4
      for (int slot = column / COLUMNS; slot < SLOTS; slot += across) sum += room[slot * COUNT + i * COLUMNS + column % COLUMNS];
      x.store(i, j0 + column, sum);
    }
    __syncthreads();
  }
}
""")

# Rows that are no packs, or not aligned: kernels share this function, whose text is long and which few products call.
_NARROW = """
template <int ROWS, int COLUMNS> __noinline__ __device__ void multiply_elements(Rows x, Sum* room) {
  for (; x.m > 0; x.m -= ROWS, x.a += ROWS * x.k, x.first += ROWS) multiply<ROWS, COLUMNS, false>(x, room);
}
"""

_KERNEL = Template("""
  __shared__ few_rows::Sum room[$slots * $held * $columns];
  const few_rows::Rows x = {a, b, out, n, int(m), int(k), int(bits), matrix, vector, {$finish}, 0};
  if ($wide % $unit == 0 && aligned16(a) && aligned16(b)) few_rows::multiply<$rows, $columns, true>(x, room);
  else few_rows::multiply_elements<$narrow, $few_columns>(x, room);
""")
