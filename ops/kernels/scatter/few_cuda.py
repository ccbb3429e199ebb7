"""Scattering of few updates on CUDA in one launch: a copy of the data and all updates, in the order of the indices.

Each lane of every warp has an update: it finds the place of the update and the updates that have the same place.  So a warp needs
nothing from another warp.  A unit of the result, one element or one access of 16 bytes, belongs to one thread of the grid, which
copies the unit and writes all updates of the unit.  So no thread waits for another thread either.
"""

from __future__ import annotations

from collections.abc import Sequence
from string import Template

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import Dim, const, product
from ....shape_funcs.symbolic.dim_operations import le, max_, min_, where
from ...codegen.cuda.assembly import Assembly, Parameters, in_memory, reads, size, writes
from ...codegen.cuda.cuda_program import Operand
from ...codegen.cuda.cuda_text import IN_BATCHES
from ...core.tensor_types import ITEMSIZE
from ...native.status import INDEX_OUT_OF_RANGE

#: The most updates: one for each lane of a warp.
FEW = 32
_THREADS = 256
#: The most blocks: a GPU runs so many at once.  Blocks of a result that is written over the data have little to do.
_MAX_BLOCKS = 1024
#: Bytes of an access.
_ACCESS = 16

# A thread's units are those whose number has the thread's number as its remainder by `step`.
_UNITS = Template("""
constexpr uint32 ALL_LANES = 0xffffffffu;
// The lanes, of the first `count`, whose place is that of this lane.
DEVICE uint32 lanes_at(int64 place, int count) {
  uint32 lanes = 0;
  for (int k = 0; k < count; ++k) lanes |= uint32(shuffle_from(place, k) == place) << k;
  return lanes;
}
// The data in units of N elements, if `copies`, and the updates of the lanes that act; `same`: the lanes with the same place.
template <int N> DEVICE void scatter_few(
    $dtype* out, const $dtype* data, const $dtype* updates, int64 total, int64 inner, bool copies, int64 place, bool acts,
    uint32 same) {
  auto update_of = [&](int update, int64 unit) { return $update; };
  const int64 first = blockIdx.x * int64($threads) + threadIdx.x, step = gridDim.x * int64($threads);
  const int64 units = inner / N, begin = place / N;
  if (copies) {
    in_batches<4>(first, total / N, step, [&](int64 at) { return $data; }, [&](const auto& unit, int64 at) {
      store_pack(out + at * N, unit);
    });
  }
  // the distance from the first unit of the lane's update to a unit of the warp's first thread
  const int lane = threadIdx.x & 31;
  int64 back = first - lane - (begin < step ? begin : begin % step);
  if (back < 0) back += step;
  uint32 lanes = __ballot_sync(ALL_LANES, acts && (back < units || back > step - 32));  // whose updates this warp writes
  for (; lanes != 0; lanes &= lanes - 1) {
    const int update = __ffs(int(lanes)) - 1;
    const int64 start = shuffle_from(place, update), distance = shuffle_from(back, update) + lane;
    const uint32 mates = shuffle_from(same, update);
#pragma unroll 1
    for (int64 unit = distance < step ? distance : distance - step; unit < units; unit += step) {
      $dtype* to = out + start + unit * N;
$write
    }
  }
}
""")

_LAST = "      store_pack(to, update_of(update, unit));"

_IN_TURN = Template("""
      Pack<$dtype, N> own = load_pack<$dtype, N>(to);
      decltype(number(own.at[0])) values[N];
#pragma unroll
      for (int i = 0; i < N; ++i) values[i] = number(own.at[i]);
#pragma unroll 1
      for (uint32 rest = mates; rest != 0; rest &= rest - 1) {
        const auto others = update_of(__ffs(int(rest)) - 1, unit);
#pragma unroll
        for (int i = 0; i < N; ++i) {
          auto& value = values[i];
          auto other = number(others.at[i]);
          $step
        }
      }
#pragma unroll
      for (int i = 0; i < N; ++i) {
        auto value = values[i];
        $finish
        own.at[i] = $result;
      }
      store_pack(to, own);""")

_KERNEL = Template("""
  const int lane = threadIdx.x & 31;
  auto locate = [&](int64 at) -> int64 {
$locate
  };
  const int64 place = lane < count ? locate(lane) : 0;
  if (__any_sync(ALL_LANES, place < 0)) {
    if (place < 0 && blockIdx.x == 0 && threadIdx.x < 32) fail(fault, $status, site);
    return;
  }
  const uint32 same = lanes_at(place, int(count));
  const bool acts = lane < count && $acts, copies = data != out;
$units""")

_NARROW = "  scatter_few<1>(out, data, updates, total, inner, copies, place, acts, same);"
_WIDE = Template("""\
  if (inner % $width == 0 && aligned16(out) && aligned16(data) && aligned16(updates)) {
    scatter_few<$width>(out, data, updates, total, inner, copies, place, acts, same);
  } else {
    scatter_few<1>(out, data, updates, total, inner, copies, place, acts, same);
  }""")


@frozen
class FewUpdates:
    """``count`` updates of ``inner`` elements each, at most FEW.  ``data`` and ``updates`` may be a single element each.

    ``locate``: statements that return the place of the update ``at``, -1 if an index of it is out of range.  ``fields``: their
    parameters.  ``combine``: the texts of a combination, ``step``, ``finish`` and ``result``; None if the last update is written.
    """

    out: Operand
    data: Operand
    updates: Operand
    count: Dim
    inner: Dim
    locate: Sequence[str]
    fields: Parameters
    combine: dict[str, str] | None

    def add(self, assembly: Assembly) -> None:
        """Add the kernel, and its launch for few updates."""
        width, dtype = self.width(), in_memory(self.out.dtype)
        data = f"load_pack<{dtype}, N>(data + at * N)" if self.data.shape else f"Pack<{dtype}, N>{{data_at(data, 0)}}"
        update = f"load_pack<{dtype}, N>(updates + update * inner + unit * N)"
        if not self.updates.shape:
            update = f"Pack<{dtype}, N>{{update_at(updates, 0)}}"
        write = _LAST if self.combine is None else _IN_TURN.substitute(dtype=dtype, **self.combine)
        assembly.text(IN_BATCHES)
        assembly.text(_UNITS.substitute(dtype=dtype, threads=_THREADS, data=data, update=update, write=write.strip("\n")))
        body = _KERNEL.substitute(
            locate="\n".join(f"    {line}" for line in self.locate),
            status=INDEX_OUT_OF_RANGE,
            acts="same >> lane == 1" if self.combine is None else "(same & ((1u << lane) - 1)) == 0",
            units=_NARROW if width == 1 else _WIDE.substitute(width=width),
        )
        total = product(self.out.shape)
        tensors = (reads("data", self.data), reads("updates", self.updates), writes("out", self.out))
        assembly.kernel("few", _THREADS, (*tensors, size("total", total), *self.fields), body)
        each = _THREADS * width
        grid = max_((total + (each - 1)) // each, min_(self.count, 1))  # indices are read even if updates have no elements
        assembly.launch("few", where(le(self.count, FEW), min_(grid, _MAX_BLOCKS), 0))

    def width(self) -> int:
        """The most elements of a unit."""
        return (
            1 if const(self.inner) == 1 or not self.data.shape or not self.updates.shape else _ACCESS // ITEMSIZE[self.out.dtype]
        )
