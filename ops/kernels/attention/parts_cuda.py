"""The keys of attention in parts, on CUDA: sums of each part in a workspace, and a kernel that adds them up in order.

Weights are relative to the largest score of a part (Milakov and Gimelshein 2018, "Online normalizer calculation for softmax"), so
the sums of two parts add up once each is scaled to the larger of both.
"""

from __future__ import annotations

import math
from string import Template

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import Dim
from ....shape_funcs.symbolic.dim_operations import lt, max_, min_, where
from ...codegen.cuda.assembly import Assembly, Parameter, blocks, divisor, literal, size
from ...codegen.cuda.cuda_program import Operand
from ...codegen.cuda.device_code.casts import NUMBER, converted
from ...core.tensor_types import ITEMSIZE, computed_in
from ..matmul.dot_product import PLUS_PRODUCT

THREADS = 256

#: Sums of a part for a query: ``top``, the largest score; ``total``, of all weights; ``sum``, of an element of values.
_SUMS = Template("""
typedef $number Number;
DEVICE Number lowest() { return $lowest; }
struct Sums { Number top, total, sum; };

// The larger of two scores; a NaN makes the weights NaN, and their total, but not the largest score.
DEVICE float32 larger(float32 a, float32 b) { return fmaxf(a, b); }
DEVICE float64 larger(float64 a, float64 b) { return fmax(a, b); }

// e ** (score - top).  No score of a part counts while all are the lowest.
DEVICE float32 weight(float32 score, float32 top) {
  return exp2f((score - (top == lowest() ? float32(0) : top)) * 1.44269504f);
}
DEVICE float64 weight(float64 score, float64 top) { return exp(score - (top == lowest() ? float64(0) : top)); }

// The sums of `count` parts together; from one part to the next the places differ by `step` and `sum_step`.
DEVICE Sums joined(const Number* tops, const Number* totals, int64 step, const Number* sums, int64 sum_step, int64 count) {
  Sums all = {lowest(), 0, 0};
  for (int64 k = 0; k < count; ++k) all.top = larger(all.top, tops[k * step]);
#pragma unroll 2
  for (int64 k = 0; k < count; ++k) {
    Number factor = weight(tops[k * step], all.top);
    all.total = plus_product(all.total, factor, totals[k * step]);
    all.sum = plus_product(all.sum, factor, sums[k * sum_step]);
  }
  return all;
}

// The factor of sums in the result: an infinity or a NaN among the scores makes it NaN, as do scores that are all the lowest;
// without keys the result is 0.
DEVICE Number share_of(Number top, Number total, int64 n) {
  return n == 0 ? Number(0) : top - top == 0 ? Number(1) / total : top - top;
}
// The result of a sum and its factor.
DEVICE Number result_of(Number sum, Number share) { return $zero_nan && share != share ? Number(0) : sum * share; }
template <class T> DEVICE T stored(Number result);
template <> DEVICE $result stored<$result>(Number result) { return $converted; }
$same
""")

_JOIN = Template("""
  int64 step = gridDim.x * int64($threads);
  for (int64 at = blockIdx.x * int64($threads) + threadIdx.x; at < rows * e; at += step) {
    int64 row = by_e.quotient(at);
    Sums all = joined(tops + row, totals + row, rows, sums + at, rows * e, parts);
    out[at] = stored<$result>(result_of(all.sum, share_of(all.top, all.total, n)));
  }
""")


@frozen
class Parts:
    """``count`` parts of ``keys`` keys each, the last of them the rest."""

    keys: Dim
    count: Dim


def parts_of(n: Dim, work: Dim, blocks_wanted: Dim, least: Dim, unit: Dim) -> Parts:
    """Parts of ``n`` keys for ``work`` units of work, so that about ``blocks_wanted`` blocks run.

    A part has at least ``least`` keys, and a multiple of ``unit``.  The result depends on sizes only.
    """
    wanted = max_(min_(blocks_wanted // max_(work, 1), n // least), 1)
    keys = max_((n + (wanted * unit - 1)) // (wanted * unit), 1) * unit
    return Parts(keys, max_((n + (keys - 1)) // keys, 1))


def add_sums(assembly: Assembly, out: Operand, *, zero_nan: bool) -> None:
    """Add the device code for sums of parts; results are of the dtype of ``out``, and with ``zero_nan`` 0 for weights of NaN."""
    number = computed_in(out.dtype)
    text = _SUMS.substitute(
        number=number,
        lowest=literal(number, -math.inf),
        result=out.dtype,
        zero_nan=str(zero_nan).lower(),
        converted=converted("result", number, out.dtype),
        same="" if out.dtype == number else "template <> DEVICE Number stored<Number>(Number result) { return result; }",
    )
    assembly.text(NUMBER, PLUS_PRODUCT, text)


def workspace(assembly: Assembly, rows: Dim, e: Dim, parts: Dim, out: Operand) -> tuple[Parameter, ...]:
    """The sums of ``parts`` parts for ``rows`` queries with ``e`` elements each; nothing for one part."""
    nbytes = where(lt(1, parts), parts * rows * ITEMSIZE[computed_in(out.dtype)], 0)
    spaces = (("tops", nbytes), ("totals", nbytes), ("sums", nbytes * e))
    return tuple(Parameter("Number*", name, assembly.scratch(nbytes_of)) for name, nbytes_of in spaces)


def add_join(assembly: Assembly, rows: Dim, e: Dim, n: Dim, parts: Dim, tensors: tuple[Parameter, ...], out: Operand) -> None:
    """Add the kernel, and its launch, that makes results of the sums of several parts.  ``tensors``: result and workspace."""
    sizes = (size("rows", rows), size("e", e), size("n", n), size("parts", parts), divisor("by_e", e, rows * e))
    assembly.kernel("join_parts", THREADS, (*tensors, *sizes), _JOIN.substitute(threads=THREADS, result=out.dtype), resident=2)
    assembly.launch("join_parts", where(lt(1, parts), blocks(rows * e, THREADS), 0))
