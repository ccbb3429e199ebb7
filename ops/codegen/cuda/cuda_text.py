"""CUDA C, and the two kinds of cells that only CUDA C has: a vectorised load of several elements, and one of its elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...core.tensor_types import HALVES, computed_in, is_float, is_integer
from ..loop_nest.expression import Cell, Cells
from ..loop_nest.expression_text import Language, Side, indented
from ..loop_nest.scalar_functions import SCALAR_FUNCTIONS
from .assembly import literal
from .device_code.casts import WHOLE

#: A vectorised load: ``what`` is the parameter; arguments: the offset of the first element, the distance between elements.
PACK = "pack"
#: An element of a pack; arguments: the pack, and the element's number.
PICK = "pick"


class CudaC(Language):
    """The body of a function that returns a value.  ``fault`` and ``site`` are in scope (see the prelude).

    Elements of float16 and bfloat16 are float32 until they are stored.  Operations undefined in C are defined as on the
    CPU: integers wrap, and a float outside the range of int64 becomes the least int64.
    """

    def __init__(self, width: int = 1, is_straight: bool = False) -> None:
        self.width = width  # elements per pack
        self.is_straight = is_straight  # whether a variable ``straight`` tells that all packs are contiguous and aligned

    def let(self, name: str, cell: Cell, text: str) -> list[str]:
        return [f"const {'auto' if cell.kind == PACK else computed_in(cell.dtype)} {name} = {text};"]

    def choice(self, name: str, dtype: str, condition: str, then: Side, otherwise: Side) -> list[str]:
        lines = [f"{computed_in(dtype)} {name};"]
        for head, (inside, value) in ((f"if ({condition}) {{", then), ("} else {", otherwise)):
            lines += [head, *indented(inside), f"    {name} = {value};"]
        return [*lines, "}"]

    def guard(self, condition: str, status: int) -> list[str]:
        return [f"if (!({condition})) {{", f"    fail(fault, {status}, site);", "    return {};", "}"]

    def literal(self, value: float | int | bool, dtype: str) -> str:
        if dtype == "int64" and abs(int(value)) < 2**31:
            return str(int(value)) if value >= 0 else f"({int(value)})"
        return literal(computed_in(dtype), value)

    def load(self, array: str, offset: str) -> str:
        return f"value_of({array}[{offset}])"

    def cast(self, value: str, source: str, result: str) -> str:
        if result == "bool":
            return f"({value} != 0)"
        if is_float(source) and is_integer(result):
            return f"{result}({'to_uint64' if result == 'uint64' else 'to_int64'}({value}))"
        if result in HALVES and source != result:
            return f"to_float32(to_{result}(float32({value})))"
        return f"{computed_in(result)}({value})"

    def apply(self, function: str, args: list[str], argument: str, result: str) -> str:
        return SCALAR_FUNCTIONS[function].cuda_c(args, argument, result)

    def select(self, condition: str, then: str, otherwise: str) -> str:
        return f"({condition} ? {then} : {otherwise})"

    def size(self, operation: str, args: Sequence[str]) -> str:
        return _SIZES[operation].format(*args)

    def expression(self, cell: Cell, args: list[str], cells: Cells, array: Callable[[int], str]) -> str:
        if cell.kind == PACK and self.is_straight:
            return f"row_of_packs<{self.width}>({array(cell.what)} + {args[0]}, {args[1]}, straight)"
        if cell.kind == PACK:
            return f"load_row<{self.width}>({array(cell.what)} + {args[0]}, {args[1]})"
        if cell.kind == PICK:
            return f"value_of({args[0]}.at[{args[1]}])"
        return super().expression(cell, args, cells, array)


def stored(value: str, dtype: str) -> str:
    """A computed value as its stored form."""
    return f"to_{dtype}({value})" if dtype in HALVES else value


#: The operations of dims, as text (see ``shape_funcs.symbolic.int_operations.SCALAR``).
_SIZES = {
    "mul": "{0} * {1}",
    "floordiv": "({1} != 0 ? floor_quotient({0}, {1}) : 0)",
    "mod": "({1} != 0 ? floor_remainder({0}, {1}) : 0)",
    "min": "({0} < {1} ? {0} : {1})",
    "max": "({0} > {1} ? {0} : {1})",
    "eq": "int64({0} == {1})",
    "lt": "int64({0} < {1})",
    "where": "({0} != 0 ? {1} : {2})",
    "arange_length": "length_of_range({0}, {1}, {2})",
    "scaled": "({1} > 0.0 ? to_int64(floor(float64({0}) * {1})) : 0)",
}

#: Loads of a thread that are in flight together.
IN_BATCHES = r"""
// load(at) of positions from `at` on, `step` from one to the next, and use(value, at) of each, in order.  BATCH loads are in
// flight, without a branch between them, then half as many.  A compiler that unrolls a loop itself divides by the step before it.
template <int BATCH, class L, class U>
DEVICE void in_batches(int64 at, int64 end, int64 step, const L& load, const U& use) {
#pragma unroll 1
  for (; at + (BATCH - 1) * step < end; at += BATCH * step) {
    decltype(load(at)) some[BATCH];
#pragma unroll
    for (int k = 0; k < BATCH; ++k) some[k] = load(at + k * step);
#pragma unroll
    for (int k = 0; k < BATCH; ++k) use(some[k], at + k * step);
  }
  if constexpr (BATCH > 1) in_batches<BATCH / 2>(at, end, step, load, use);
}
"""

#: The device functions that texts of this language call.
FUNCTIONS = (
    r"""
DEVICE float32 value_of(float16 x) { return to_float32(x); }
DEVICE float32 value_of(bfloat16 x) { return to_float32(x); }
DEVICE bool value_of(truth x) { return x; }
template <class T> DEVICE T value_of(T x) { return x; }
"""
    + WHOLE
    + r"""
template <class T> DEVICE T floor_quotient(T a, T b) {
  T quotient = T(a / b);
  return T(quotient - ((a % b != 0) & ((a < 0) != (b < 0))));
}
template <class T> DEVICE T floor_remainder(T a, T b) {
  T rest = T(a % b);
  return (rest != 0) & ((rest < 0) != (b < 0)) ? T(rest + b) : rest;
}
DEVICE float32 power_of_2(float32 x) {
#if defined(__CUDACC_RTC__) || defined(__CUDA_ARCH__)
  float32 result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#else
  return exp2f(x);
#endif
}
// erf to 6e-6 of its value, a fraction of what rounding to 11 bits adds.  Minimax polynomials: of erf(x) / x in x^2 below 0.8,
// and above of the logarithm of 1 - erf(x).
DEVICE float32 erf_of_half(float32 x) {
  const float32 s = x * x, t = fminf(fabsf(x), 4.0f);
  float32 near = fmaf(fmaf(fmaf(-0.0210814662f, s, 0.1106451526f), s, -0.3758544326f), s, 1.1283738613f) * x;
  float32 log = fmaf(fmaf(0.0001390729158f, t, -0.0027741606f), t, 0.0246936884f);
  log = fmaf(fmaf(fmaf(fmaf(log, t, -0.1325762123f), t, -0.9414190650f), t, -1.6124337912f), t, -0.0040383083f);
  const float32 far = copysignf(1.0f - power_of_2(log), x);
  return fabsf(x) >= 0.8f ? far : near;  // NaN is near
}
// gelu_float32 of the CPU, operation by operation: the same bits.
DEVICE float32 gelu_float32(float32 x) {
  const float32 size = fabsf(x), t = fminf(size, 5.656854f), s = t * t;  // NaN comes back in the last step
  float32 d = fmaf(3.0759995e-07f, t, -7.948268e-06f);
  d = fmaf(d, s, fmaf(6.455094e-05f, t, -3.403603e-05f));
  d = fmaf(d, s, fmaf(-0.0016459725f, t, 0.00073772913f));
  d = fmaf(d, s, fmaf(0.034815427f, t, 0.09973555f)) * t;
  d = fmaf(-d, d, d + d);
  d = fmaf(-d, d, d + d);
  d = fmaf(-0.5f * d, d, d);
  return fmaf(size, d, x * 0.5f);
}
// x * (1 + erf(x * 0.70703125)) / 2, the factor being the root of 1/2 in 11 or 8 bits, within 2.5e-6 * |x|.  Minimax polynomial
// of the eighth root of (1 - erf(|x| * 0.70703125)) / 2, divided by 6.24 - |x|; from 6.24 on the root is 0.
DEVICE float32 gelu_of_half(float32 x) {
  const float32 t = fminf(fabsf(x), 6.24f);  // NaN comes back in the last step
  float32 q = fmaf(fmaf(0.00018287351f, t, -0.00075059006f), t, -0.0036684915f);
  q = fmaf(fmaf(q, t, 0.008892466f), t, 0.14695583f) * (6.24f - t);
  q = q * q;
  q = q * q;
  return fmaf(fabsf(x), fmaf(-q, q, 0.5f), x * 0.5f);
}
// most are small, and dividing 32 bits is many times cheaper than dividing 64
DEVICE bool both_small(int64 a, int64 b) { return (uint64(a) | uint64(b)) >> 32 == 0; }
DEVICE int64 floor_quotient(int64 a, int64 b) {
  return both_small(a, b) ? int64(uint32(a) / uint32(b)) : floor_quotient<int64>(a, b);
}
DEVICE int64 floor_remainder(int64 a, int64 b) {
  return both_small(a, b) ? int64(uint32(a) % uint32(b)) : floor_remainder<int64>(a, b);
}
DEVICE int64 length_of_range(float64 start, float64 stop, float64 step) {
  int64 length = to_int64(ceil((stop - start) / step));
  return length > 0 ? length : 0;
}
"""
    + IN_BATCHES
    + r"""
// Whether N elements, `distance` from one to the next, are one pack in memory.
template <int N, class T> DEVICE bool is_straight(const T* from, int64 distance) {
  constexpr int bytes = sizeof(T) * N < 16 ? int(sizeof(T)) * N : 16;
  return distance == 1 && (reinterpret_cast<uint64>(from) & (bytes - 1)) == 0;
}
// N elements, `distance` from one to the next.
template <int N, class T> DEVICE Pack<T, N> load_row(const T* from, int64 distance) {
  constexpr int bytes = sizeof(T) * N < 16 ? int(sizeof(T)) * N : 16;
  if (distance == 1 && (reinterpret_cast<uint64>(from) & (bytes - 1)) == 0) return load_pack<T, N>(from);
  Pack<T, N> row;
#pragma unroll
  for (int i = 0; i < N; ++i) row.at[i] = from[i * distance];
  return row;
}
// The same where all rows of a thread are known to be straight or not: no address is tested between loads.
template <int N, class T> DEVICE Pack<T, N> row_of_packs(const T* from, int64 distance, bool straight) {
  if (straight) return load_pack<T, N>(from);
  Pack<T, N> row;
#pragma unroll
  for (int i = 0; i < N; ++i) row.at[i] = from[i * distance];
  return row;
}
"""
)
