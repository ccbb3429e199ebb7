"""Scattering on CUDA without a sort, where the last update of a place is its value.

A word for each place has the number of the last update of the place, the greatest, whatever the schedule of threads.  One kernel
then writes each element of the result once: from the update, or from the data.  A result that is written over the data is written
at the places of updates only.
"""

from __future__ import annotations

from collections.abc import Sequence
from string import Template

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import Dim, const, product
from ....shape_funcs.symbolic.dim_operations import all_, le, max_, min_, where
from ...codegen.cuda.assembly import Assembly, Parameter, Parameters, blocks, in_memory, reads, size, writes
from ...codegen.cuda.cuda_program import Operand
from ...codegen.cuda.cuda_text import IN_BATCHES
from ...core.tensor_types import ITEMSIZE
from ...native.status import INDEX_OUT_OF_RANGE

_THREADS = 256
#: The most blocks of the kernel that writes: a GPU runs so many at once.
_MAX_BLOCKS = 1024
#: Bytes of an access.
_ACCESS = 16
#: The words of all places are cleared and read: they are at most so many, or so many for each update; else updates are sorted.
_POSITIONS, _POSITIONS_OF_UPDATE = 2**20, 64

_CLEAR = Template("""
  const int64 step = gridDim.x * int64($THREADS);
  for (int64 at = blockIdx.x * int64($THREADS) + threadIdx.x; at * 4 < places; at += step) {
    store_pack(last + at * 4, Pack<int32, 4>{-1, -1, -1, -1});
  }
""").substitute(THREADS=_THREADS)

_DIVIDED = """
// The number of the place or update of an element, of `total`.
DEVICE int64 quotient(int64 at, int64 inner, int64 total) {
  return total <= 0xffffffffll ? int64(uint32(at) / uint32(inner)) : at / inner;
}
"""
#: The same for places of one element.
_WHOLE = "DEVICE int64 quotient(int64 at, int64 inner, int64 total) { return at; }\n"

_LOCATE = Template("""
  auto locate_as = [&](auto at) -> int64 {
$locate
  };
  // dividing 64-bit numbers is slow
  auto locate = [&](int64 at) { return count <= 0xffffffffll ? locate_as(uint32(at)) : locate_as(at); };
  const int64 step = gridDim.x * int64($threads);
""")

_FIND = Template("""
  for (int64 at = blockIdx.x * int64($THREADS) + threadIdx.x; at < count; at += step) {
    const int64 place = locate(at);
    if (place < 0) fail(fault, $INDEX_OUT_OF_RANGE, site);
    else if (inner > 0) atomicMax(last + quotient(place, inner, total), int32(at));
  }
""").substitute(INDEX_OUT_OF_RANGE=INDEX_OUT_OF_RANGE, THREADS=_THREADS)

# Units of N elements of the result, each from the update or from the data.
_UNITS = Template("""
template <int N> DEVICE void write_units(
    $dtype* out, const $dtype* data, const $dtype* updates, const int32* last, int64 begin, int64 end, int64 inner,
    int64 total) {
  const int64 first = blockIdx.x * int64($threads) + threadIdx.x, step = gridDim.x * int64($threads);
  in_batches<4>(first, (end - begin) / N, step, [&](int64 unit) {
    const int64 at = begin + unit * N;
$load
  }, [&](const auto& made, int64 unit) { store_pack(out + begin + unit * N, made); });
}
""")

# Each element has its own word.
_OF_ELEMENTS = Template("""
    const Pack<int32, N> updated = load_pack<int32, N>(last + at);
    Pack<$dtype, N> made = $data;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (updated.at[i] >= 0) made.at[i] = update_at(updates, $update);
    }
    return made;""")

# Rows of `inner` elements have a word each.
_OF_ROWS = Template("""
    const int64 row = quotient(at, inner, total), updated = last[row];
    return load_pack<$dtype, N>(updated < 0 ? data + at : updates + updated * inner + (at - row * inner));""")

_OF_ROWS_ONE_BY_ONE = Template("""
    const int64 row = quotient(at, inner, total), updated = last[row];
    return Pack<$dtype, N>{updated < 0 ? data_at(data, $at) : update_at(updates, $update)};""")

_IN_PLACE = Template("""
  if (data == out) {
    for (int64 work = blockIdx.x * int64($threads) + threadIdx.x; work < count * inner; work += step) {
      const int64 at = quotient(work, inner, count * inner), part = work - at * inner, place = locate(at);
      if (place >= 0 && last[quotient(place, inner, total)] == at) out[place + part] = update_at(updates, $update);
    }
    return;
  }
""")

_WIDE = Template("""
  if ($aligned) {
    write_units<$width>(out, data, updates, last, 0, total, inner, total);
    write_units<1>(out, data, updates, last, total / $width * $width, total, inner, total);
    return;
  }""")
_NARROW = """
  write_units<1>(out, data, updates, last, 0, total, inner, total);"""


@frozen
class LastUpdates:
    """``count`` updates of ``inner`` elements each.  ``data`` and ``updates`` may be a single element each.

    ``offsets``: of the result, of ``inner`` elements each.  ``locate``: statements that return the first element of the place of
    the update ``at``, -1 if an index of it is out of range.  ``fields``: their parameters.
    """

    out: Operand
    data: Operand
    updates: Operand
    count: Dim
    inner: Dim
    offsets: Dim
    locate: Sequence[str]
    fields: Parameters

    def pays(self) -> Dim:
        """Whether the words are few, for the updates, and can number the updates."""
        return all_(le(self.count, 2**31 - 1), le(self.offsets, max_(self.count * _POSITIONS_OF_UPDATE, _POSITIONS)))

    def add(self, assembly: Assembly, used: Dim) -> None:
        """Add the kernels, and their launches if they are ``used``."""
        last = Parameter("int32*", "last", assembly.scratch(where(used, (self.offsets + 3) // 4 * 16, 0)))
        offsets, total = size("places", self.offsets), product(self.out.shape)
        assembly.kernel("clear_last", _THREADS, (last, offsets), _CLEAR)
        assembly.launch("clear_last", where(used, blocks(self.offsets, 4 * _THREADS), 0))
        locate = _LOCATE.substitute(locate="\n".join(f"    {line}" for line in self.locate), threads=_THREADS)
        assembly.text(_DIVIDED if const(self.inner) != 1 else _WHOLE)
        assembly.kernel("find_last", _THREADS, (size("total", total), last, *self.fields), locate + _FIND)
        assembly.launch("find_last", where(used, blocks(self.count, _THREADS), 0))
        assembly.text(IN_BATCHES, self.units())
        tensors = (reads("data", self.data), reads("updates", self.updates), writes("out", self.out))
        update = "at * inner + part" if self.updates.shape else "0"
        body = locate + _IN_PLACE.substitute(threads=_THREADS, update=update) + self.whole()
        assembly.kernel("write_last", _THREADS, (*tensors, size("total", total), last, *self.fields), body)
        grid = min_(max_(blocks(total, self.width() * _THREADS), 1), _MAX_BLOCKS)
        assembly.launch("write_last", where(used, grid, 0))

    def width(self) -> int:
        """The most elements of a unit."""
        is_one_by_one = const(self.inner) != 1 and not (self.data.shape and self.updates.shape)
        return 1 if is_one_by_one else _ACCESS // ITEMSIZE[self.out.dtype]

    def whole(self) -> str:
        """The text that writes all elements."""
        if (width := self.width()) == 1:
            return _NARROW
        addresses = ["out", *(["data"] if self.data.shape else [])]
        conditions = [f"aligned16({name})" for name in addresses]
        if const(self.inner) != 1:
            conditions += ["aligned16(updates)", f"inner % {width} == 0"]
        return _WIDE.substitute(aligned=" && ".join(conditions), width=width) + _NARROW

    def units(self) -> str:
        """The text of ``write_units``."""
        dtype = in_memory(self.out.dtype)
        if const(self.inner) == 1:
            data = f"load_pack<{dtype}, N>(data + at)" if self.data.shape else "{}"
            load = _OF_ELEMENTS.substitute(dtype=dtype, data=data, update="updated.at[i]" if self.updates.shape else "0")
            if not self.data.shape:
                load = load.replace(
                    "    for (int i",
                    "    for (int i = 0; i < N; ++i) made.at[i] = data_at(data, 0);\n#pragma unroll\n    for (int i",
                    1,
                )
        elif self.data.shape and self.updates.shape:
            load = _OF_ROWS.substitute(dtype=dtype)
        else:
            at, update = "at" if self.data.shape else "0", "updated * inner + (at - row * inner)" if self.updates.shape else "0"
            load = _OF_ROWS_ONE_BY_ONE.substitute(dtype=dtype, at=at, update=update)
        return _UNITS.substitute(dtype=dtype, threads=_THREADS, load=load.strip("\n"))
