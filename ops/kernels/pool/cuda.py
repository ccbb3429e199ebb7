"""Pooling on CUDA: the maximum or the mean of each window; small moving windows by ``moved_cuda``.

Means of float32 and float64 are summed in float64, those of the storage-only dtypes in float32.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from string import Template
from typing import Any

from ....shape_funcs.symbolic.dim import product
from ....shape_funcs.symbolic.dim_operations import any_, eq, lt
from ...codegen.cuda.assembly import Assembly, blocks, in_memory, literal, reads, writes
from ...codegen.cuda.cuda_program import CudaSource, OpaqueCall
from ...codegen.cuda.device_code.casts import NUMBER, converted
from ...core.tensor_types import HALVES, computed_in, int_range, is_float
from ...native.status import EMPTY_REDUCTION
from ..spatial.cuda import PLACE, flag, plane_sizes
from .moved_cuda import SMALL, add_moved, is_small

_THREADS = 256
#: Loads of a thread that are in flight together where the elements of an adaptive window are neighbours.
_FLIGHT = 16
#: The most numbers of elements of a window whose inverses are in the text.
_MOST_COUNTS = 12

#: ``attrs -> constants``: the attributes of the CPU body.
Constants = Callable[[Any], dict[str, Any]]

_STATE = Template("""
typedef $state State;
DEVICE State joined(State a, State b) { return $joined; }
""")

# The quotient of a sum of float32 and a small integer, rounded as by a division, which is slow: the error of a product with
# the inverse is found exactly, and corrected (Markstein, Computation of elementary functions on the IBM RISC System/6000, 1990).
_QUOTIENT = """
DEVICE float64 quotient_by(float64 sum, float64 count, float64 inverse) {
  const float64 near = sum * inverse, exact = fma(fma(-near, count, sum), inverse, near);
  return exact == exact ? exact : near;  // of infinities
}
"""

# One thread per result.
_MOVED = Template("""
  int64 all = batches * out_channels * od * oh * ow, step = gridDim.x * int64($threads);
  for (int64 work = blockIdx.x * int64($threads) + threadIdx.x; work < all; work += step) {
    Place to = place_of($out_last, work, all, out_channels, od, oh, ow);
    int64 z0 = to.z * $sz - $bz, y0 = to.y * $sy - $by, x0 = to.x * $sx - $bx, count = 0;
    State state = $start;
    for (int64 z = z0; z < z0 + $pz * $dz; z += $dz) {
      for (int64 y = y0; y < y0 + $py * $dy; y += $dy) {
        if (z < 0 || z >= d || y < 0 || y >= h) continue;
        for (int64 x = x0; x < x0 + $px * $dx; x += $dx) {
          if (x < 0 || x >= w) continue;
          state = joined(state, State(number(data[offset_of($data_last, Place{to.b, to.c, z, y, x}, channels, d, h, w)])));
          ++count;
        }
      }
    }
    out[work] = $result;
  }
""")

# $lanes threads per result.
_SHARED = Template("""
  int64 all = batches * out_channels * od * oh * ow, step = gridDim.x * int64($threads / $lanes);
  int lane = threadIdx.x % $lanes;
  for (int64 work = blockIdx.x * int64($threads / $lanes) + threadIdx.x / $lanes; work < all; work += step) {
    Place to = place_of($out_last, work, all, out_channels, od, oh, ow);
    int64 z0 = to.z * d / od, y0 = to.y * h / oh, x0 = to.x * w / ow;
    int64 depth = ((to.z + 1) * d + od - 1) / od - z0, rows = ((to.y + 1) * h + oh - 1) / oh - y0;
    int64 columns = ((to.x + 1) * w + ow - 1) / ow - x0, count = depth * rows * columns;
    State state = $start;
    if (!$data_last && columns == w && (depth == 1 || rows == h)) {  // all elements are neighbours
      const $dtype* from = data + offset_of(false, Place{to.b, to.c, z0, y0, x0}, channels, d, h, w);
      $dtype some[$flight];
      int64 at = lane;
      for (; at + ($flight - 1) * $lanes < count; at += $flight * $lanes) {
#pragma unroll
        for (int k = 0; k < $flight; ++k) some[k] = from[at + k * $lanes];
#pragma unroll
        for (int k = 0; k < $flight; ++k) state = joined(state, State(number(some[k])));
      }
      for (; at < count; at += $lanes) state = joined(state, State(number(from[at])));
    } else {
      for (int64 at = lane; at < count; at += $lanes) {
        Place from = place_of(false, at, count, 1, depth, rows, columns);
        from = Place{to.b, to.c, z0 + from.z, y0 + from.y, x0 + from.x};
        state = joined(state, State(number(data[offset_of($data_last, from, channels, d, h, w)])));
      }
    }
    if ($lanes > 1) state = warp_reduce(state, [](State a, State b) { return joined(a, b); });
    if (lane == 0) out[work] = $result;
  }
""")


def max_pool(constants: Constants) -> Callable[[OpaqueCall], CudaSource]:
    """The maximum of each moving window, NaN if an element is NaN; the lowest value for an empty window."""
    return lambda call: _pool(call, _moved(constants(call.attrs)), _Largest())


def avg_pool(constants: Constants) -> Callable[[OpaqueCall], CudaSource]:
    """The mean of each window: over its elements, or its positions with ``count_include_pad``; 0 for an empty window."""

    def source(call: OpaqueCall) -> CudaSource:
        given = constants(call.attrs)
        if given["count_include_pad"]:
            positions = math.prod(given["pool_size"])
            return _pool(call, _moved(given), _Mean(f"{positions}", (positions,)))
        return _pool(call, _moved(given), _Mean("(count > 0 ? count : 1)", _counts(given["pool_size"])))

    return source


def adaptive_max_pool(constants: Constants) -> Callable[[OpaqueCall], CudaSource]:
    """The maximum of each adaptive window."""
    return lambda call: _pool(call, _shared(constants(call.attrs)), _Largest(), needs_one=True)


def adaptive_avg_pool(constants: Constants) -> Callable[[OpaqueCall], CudaSource]:
    """The mean of each adaptive window; NaN for an empty window."""
    return lambda call: _pool(call, _shared(constants(call.attrs)), _Mean("count"))


def _counts(window: Sequence[int]) -> tuple[int, ...]:
    """The numbers of elements that a window may have: parts of it are in the padding."""
    return tuple(sorted({math.prod(part) for part in itertools.product(*(range(1, n + 1) for n in window))}))


class _Largest:
    """The state of a maximum, as text."""

    joined = "b > a || b != b ? b : a"

    def state(self, dtype: str) -> str:
        return computed_in(dtype)

    def start(self, dtype: str) -> str:
        lowest = -math.inf if is_float(dtype) else int_range(dtype)[0]
        return literal(computed_in(dtype), lowest)

    def neutral(self, dtype: str) -> str:
        return self.start(dtype)

    def result(self, dtype: str) -> str:
        return converted("state", computed_in(dtype), dtype)


class _Mean:
    """The state of a mean, as text: the sum, divided by ``count`` at the end, which is one of ``counts`` if there are any."""

    joined = "a + b"

    def __init__(self, count: str, counts: tuple[int, ...] = ()) -> None:
        self.count, self.counts = count, counts

    def state(self, dtype: str) -> str:
        return "float32" if dtype in HALVES else "float64"

    def start(self, dtype: str) -> str:
        return "State(0)"

    def neutral(self, dtype: str) -> str:
        return f"{computed_in(dtype)}(0)"

    def result(self, dtype: str) -> str:
        quotient = f"state / State({self.count})"
        if 0 < len(self.counts) <= _MOST_COUNTS and max(self.counts) <= SMALL and self.state(dtype) == "float64":
            first, *others = (literal("float64", 1 / n) for n in self.counts)
            inverse = first
            for n, value in zip(self.counts[1:], others, strict=True):
                inverse = f"({self.count} == {n} ? {value} : {inverse})"
            quotient = f"quotient_by(state, State({self.count}), {inverse})"
        return converted(f"({quotient})", self.state(dtype), dtype)


#: A template with its substitutions, and the number of threads per result.
_Windows = tuple[Template, dict[str, Any], int]


def _moved(given: dict[str, Any]) -> _Windows:
    names = {"p": "pool_size", "s": "stride", "b": "before", "d": "dilation"}
    numbers = {f"{letter}{axis}": given[name][k] for letter, name in names.items() for k, axis in enumerate("zyx")}
    return _MOVED, {**numbers, "layouts": given["layouts"]}, 1


def _shared(given: dict[str, Any]) -> _Windows:
    # neighbouring lanes read neighbouring elements, unless those belong to other channels
    return _SHARED, {"layouts": given["layouts"]}, 1 if given["layouts"][0] else 32


def _pool(call: OpaqueCall, windows: _Windows, kept: _Largest | _Mean, needs_one: bool = False) -> CudaSource:
    (data,), (out,), (template, given, lanes) = call.inputs, call.results, windows
    data_last, out_last = given["layouts"]
    if template is _MOVED and data_last == out_last and is_small(given):
        assembly = Assembly()
        assembly.text(NUMBER, _STATE.substitute(state=kept.state(data.dtype), joined=kept.joined), _QUOTIENT)
        numbers = {name: value for name, value in given.items() if name != "layouts"}
        add_moved(
            assembly, data, out, numbers, data_last, kept.start(data.dtype), kept.neutral(data.dtype), kept.result(data.dtype)
        )
        return assembly.source()
    body = template.substitute(
        given, threads=_THREADS, lanes=lanes, flight=_FLIGHT, dtype=in_memory(data.dtype),
        data_last=flag(data_last), out_last=flag(out_last), start=kept.start(data.dtype),
        result=kept.result(data.dtype),
    )  # fmt: skip
    assembly = Assembly()
    assembly.text(NUMBER, PLACE, _STATE.substitute(state=kept.state(data.dtype), joined=kept.joined), _QUOTIENT)
    if needs_one:
        spatial = data.shape[1:-1] if data_last else data.shape[2:]
        assembly.require(any_(lt(0, product(spatial)), eq(product(out.shape), 0)), EMPTY_REDUCTION)
    sizes = plane_sizes(data.shape, data_last, out.shape, out_last)
    assembly.kernel("pool", _THREADS, (reads("data", data), writes("out", out), *sizes), body)
    assembly.launch("pool", blocks(product(out.shape), _THREADS // lanes))
    return assembly.source()
