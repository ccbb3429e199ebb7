"""Non-maximum suppression on CUDA.

The valid boxes are sorted, best first.  If memory allows, one block per image selects by masks (``masks_cuda``).  Else the block
processes 64 boxes at a time, which it compares with all kept boxes: a box is kept if no kept box covers it.
Areas and overlaps are computed in the dtype of the data, in float32 for the two storage-only dtypes.
"""

from __future__ import annotations

from string import Template

from ....shape_funcs.symbolic.dim import Dim, product
from ....shape_funcs.symbolic.dim_operations import all_, eq, le, lt, min_, where
from ...codegen.cuda.assembly import Assembly, Parameter, blocks, element, reads, size, writes
from ...codegen.cuda.cuda_program import CudaSource, OpaqueCall
from ...codegen.cuda.device_code.casts import NUMBER, converted
from ...core.tensor_types import ITEMSIZE, computed_in
from ...native.status import BAD_VALUE
from ..sort.merge_cuda import add_sort
from ..sort.order_cuda import Order
from .masks_cuda import Masks, strip_width

#: Threads of a block that selects an image's boxes by comparing them, and of one that copies results.
_THREADS = 256


def non_max_suppression(call: OpaqueCall) -> CudaSource:
    """The indices of the kept boxes and their number, or the boxes; results equal those of the CPU kernel."""
    return _Suppression(call).source()


BOXES = Template("""
typedef $number Number;
struct Box { Number left, top, right, bottom, area, kind, covers; };
DEVICE Number smaller(Number a, Number b) { return b < a ? b : a; }
DEVICE Number larger(Number a, Number b) { return b > a ? b : a; }

DEVICE Box box_of(const $dtype* fields) {
  Number ax = number(fields[$c]), ay = number(fields[$c + 1]), bx = number(fields[$c + 2]), by = number(fields[$c + 3]);
  Box box = {smaller(ax, bx), smaller(ay, by), larger(ax, bx), larger(ay, by)};
  box.area = (box.right - box.left) * (box.bottom - box.top);
  box.kind = $kind;
  box.covers = $covers ? Number(1) : Number(0);  // a box without a class covers none
  return box;
}

template <class T> DEVICE bool covers(const Box& kept, const Box& box, T threshold) {
  Number zero = 0, overlap = 0;
  Number width = smaller(box.right, kept.right) - larger(box.left, kept.left);
  Number height = smaller(box.bottom, kept.bottom) - larger(box.top, kept.top);
  const bool meets = width > zero && height > zero;
  if (!meets && !(zero $compared threshold)) return false;  // most pairs
  if (!(kept.kind == box.kind) || kept.covers == zero) return false;
  if (meets) {
    Number shared = width * height, both = box.area + kept.area - shared;
    if (both > zero) overlap = shared / both;  // few pairs need the division
  }
  return overlap $compared threshold;
}

DEVICE int64 valid_of(const int32* valid_count, int64 image, int64 length) {
  int64 count = valid_count[image];
  return count < 0 ? 0 : count < length ? count : length;
}
""")

# One block per image.  `slots[at]`: the number of better kept boxes than the one at `at`, -1 if that one is suppressed.
# `choose` returns the number of kept boxes.
CHOOSE = Template("""
// The boxes of a tile of `count` that are kept, at most `limit`; boxes before the tile cover those that are `gone`.
DEVICE uint64 kept_in_tile(const uint64* covers_in_tile, uint64 gone, int count, int64 limit) {
  uint64 rest = (count < 64 ? (1ull << count) - 1 : ~0ull) & ~gone, kept = 0;
  for (; rest != 0 && limit != 0; --limit) {
    int at = __ffsll(rest) - 1;
    kept |= 1ull << at;
    rest &= ~(covers_in_tile[at] | 1ull << at);
  }
  return kept;
}

DEVICE void number_slots(int64* slots, uint64 chosen, int count, int64 kept) {
  int own = threadIdx.x;
  if (own < count) slots[own] = chosen >> own & 1 ? kept + __popcll(chosen & ((1ull << own) - 1)) : -1;
}

DEVICE int64 choose(const Box* boxes, int64* taken, int64* slots, int64 considered, int64 limit, $threshold threshold) {
  __shared__ Box of_tile[64];
  __shared__ uint64 covers_in_tile[64], covered, chosen;
  int64 kept = 0, tile = 0;
  __syncthreads();
  for (; tile * 64 < considered && kept != limit; ++tile) {
    int64 first = tile * 64;
    int count = considered - first < 64 ? int(considered - first) : 64, own = threadIdx.x;
    if (own == 0) covered = 0;
    if (own < 64) covers_in_tile[own] = 0;
    if (own < count) of_tile[own] = boxes[first + own];
    __syncthreads();
    for (int64 at = own; at < kept; at += blockDim.x) {
      Box box = boxes[taken[at]];
      uint64 mask = 0;
      for (int other = 0; other < count; ++other) mask |= uint64(covers(box, of_tile[other], threshold)) << other;
      if (mask != 0) atomicOr(&covered, mask);
    }
    for (int pair = own; pair < 64 * 64; pair += blockDim.x) {
      int better = pair / 64, other = pair % 64;
      if (better < other && other < count && covers(of_tile[better], of_tile[other], threshold)) {
        atomicOr(&covers_in_tile[better], 1ull << other);
      }
    }
    __syncthreads();
    if (own == 0) chosen = kept_in_tile(covers_in_tile, covered, count, limit - kept);
    __syncthreads();
    uint64 mine = chosen;
    number_slots(slots + first, mine, count, kept);
    if (own < count && (mine >> own & 1)) taken[slots[first + own]] = first + own;
    kept += __popcll(mine);
    __syncthreads();
  }
  for (int64 at = tile * 64 + threadIdx.x; at < considered; at += blockDim.x) slots[at] = -1;
  return kept;
}
""")

_CHOOSE_IMAGE = Template("""
  auto threshold = number(threshold_at(threshold_, 0));
  int64 limit = limit_at(limit_, 0);
  for (int64 image = blockIdx.x; image < images; image += gridDim.x) {
    int64 valid = valid_of(valid_count, image, length), considered = valid < kept ? valid : kept, found = valid;
    int64 first = image * kept, *slots = all_slots + image * length;
    if (threshold > 0) {
      found = $choose;
      for (int64 at = considered + threadIdx.x; at < valid; at += blockDim.x) slots[at] = -1;
    } else {
      for (int64 at = threadIdx.x; at < valid; at += blockDim.x) slots[at] = at;
    }
    __syncthreads();
    if (threadIdx.x == 0) found_in[image] = found;
    $report
    __syncthreads();
  }
""")

_POSITIONS = Template("""
  bool sorted = number(threshold_at(threshold_, 0)) > 0;
  int64 all = images * length * $width, step = gridDim.x * int64(THREADS_OF_COPIES);
  for (int64 work = blockIdx.x * int64(THREADS_OF_COPIES) + threadIdx.x; work < all; work += step) {
    int64 field = work % $width, image = work / $width / length, at = work / $width % length, row = image * length;
    int64 slot = at < valid_of(valid_count, image, length) ? all_slots[row + at] : -1;
    int64 place = sorted && slot >= 0 ? positions[image * kept + at] : at;
""")

_INDICES = """
    if (slot >= 0) out[row + slot] = indices[row + place];
    if (at >= found_in[image]) out[row + at] = -1;
  }
"""

_ROWS_IN_FRONT = """
    if (slot >= 0) out[(row + slot) * fields + field] = data[(row + place) * fields + field];
    if (at >= found_in[image]) out[work] = NOTHING;
  }
"""

_ROWS_IN_PLACE = """
    out[work] = slot >= 0 ? data[(row + place) * fields + field] : NOTHING;
  }
"""


class _Suppression:
    def __init__(self, call: OpaqueCall) -> None:
        self.call, self.attrs, self.assembly = call, call.attrs, Assembly()
        self.data, self.valid, self.indices, self.limit, self.threshold = call.inputs
        self.images, self.length, self.fields = self.data.shape
        #: The number of sorted boxes.
        self.kept = min_(self.length, self.attrs.top_k) if self.attrs.top_k > 0 else self.length
        self.width = strip_width(self.images, self.kept)
        reserve, each = self.assembly.scratch, self.images * self.kept
        number = ITEMSIZE[computed_in(self.data.dtype)]
        self.scratch = {
            "boxes": Parameter("Box*", "boxes", reserve(each * (7 * number))),
            "positions": Parameter("int64*", "positions", reserve(each * 8)),
            "taken": Parameter("int64*", "taken", reserve(where(lt(0, self.width), 0, each * 8))),
            "all_slots": Parameter("int64*", "all_slots", reserve(self.images * self.length * 8)),
            "found_in": Parameter("int64*", "found_in", reserve(self.images * 8)),
        }

    def source(self) -> CudaSource:
        """Sort, compare, select, copy."""
        self.require_fields()
        self.texts()
        self.sort()
        self.choose()
        self.copy()
        return self.assembly.source()

    def require_fields(self) -> None:
        """Require that the attributes name existing fields of a box, and that the two scalars have one element."""
        a, fields = self.attrs, self.fields
        usable = (le(0, a.score_index), lt(a.score_index, fields), lt(a.id_index, fields), le(0, a.coord_start))
        scalars = (eq(product(t.shape), 1) for t in (self.limit, self.threshold))
        self.assembly.require(all_(*usable, le(a.coord_start + 4, fields), *scalars), BAD_VALUE)

    def texts(self) -> None:
        """Device functions for boxes, and for their comparison."""
        a, dtype = self.attrs, self.data.dtype
        kind = f"number(fields[{a.id_index}])"
        boxes = BOXES.substitute(
            number=computed_in(dtype),
            dtype=dtype,
            compared=">=",
            c=a.coord_start,
            kind="Number(0)" if a.force_suppress or a.id_index < 0 else kind,
            covers="true" if a.id_index < 0 else f"{kind} >= 0",
        )
        chosen = CHOOSE.substitute(threshold=computed_in(self.threshold.dtype))
        scalars = element("threshold_at", self.threshold) + element("limit_at", self.limit)
        nothing = converted("-1.0f", "float32", dtype)
        names = f"#define THREADS_OF_COPIES {_THREADS}\n#define NOTHING {nothing}\n"
        self.assembly.text(NUMBER, boxes, scalars, names, chosen)

    def sizes(self) -> tuple[Parameter, ...]:
        return size("images", self.images), size("length", self.length), size("kept", self.kept), size("fields", self.fields)

    def inputs(self) -> tuple[Parameter, ...]:
        valid, threshold, limit = self.valid, self.threshold, self.limit
        return reads("valid_count", valid), reads("threshold_", threshold), reads("limit_", limit), *self.sizes()

    def sort(self) -> None:
        """Sort the boxes by score, prepared for comparison, with their original positions."""
        find = "data + (row * length + {}) * fields"
        order = Order(
            self.data.dtype,
            is_ascend=False,
            fields=(reads("data", self.data), *self.inputs(), self.scratch["boxes"], self.scratch["positions"]),
            entry=f"""
    if (at >= valid_of(valid_count, row, length)) return LAST;
    return make_entry(key_of(({find.format("at")})[{self.attrs.score_index}]), at);""",
            put=f"""
    if (at >= valid_of(valid_count, row, length)) return;
    positions[row * kept + at] = position_of(entry);
    boxes[row * kept + at] = box_of({find.format("position_of(entry)")});""",
            rows=self.images,
            length=self.length,
            kept=self.kept,
        )
        add_sort(self.assembly, order)

    def choose(self) -> None:
        """Select the boxes, with masks or without."""
        report = ""
        more: tuple[Parameter, ...] = (self.scratch["all_slots"],)
        if self.attrs.return_indices:
            more = (*more, writes("count", self.call.results[1]))
            report = "if (threadIdx.x == 0) count[image] = int32(found);"
        masks = Masks(
            self.assembly, self.images, self.kept, self.width, self.scratch["boxes"], self.scratch["found_in"], self.inputs(),
            threshold="number(threshold_at(threshold_, 0))",
            limit="limit_at(limit_, 0)",
            is_valid="at < valid_of(valid_count, row, length)",
            unless="!(threshold > 0)",
        )  # fmt: skip
        by_masks = _CHOOSE_IMAGE.substitute(choose="choose_in_row(image, slots, considered, limit)", report=report)
        masks.add("choose_by_masks_of_boxes", by_masks, more)
        by_comparing = "choose(boxes + first, taken + first, slots, considered, limit, threshold)"
        body = _CHOOSE_IMAGE.substitute(choose=by_comparing, report=report)
        names = (self.scratch[name] for name in ("boxes", "taken", "found_in"))
        self.assembly.kernel("choose_by_comparing", _THREADS, (*self.inputs(), *names, *more), body)
        self.assembly.launch("choose_by_comparing", where(masks.used, 0, blocks(self.images)))

    def copy(self) -> None:
        """Copy the result."""
        out = self.call.results[0]
        made = (self.scratch[name] for name in ("positions", "all_slots", "found_in"))
        parameters = (*self.inputs(), *made, writes("out", out))
        if self.attrs.return_indices:
            tensor, body, width = reads("indices", self.indices), _INDICES, "1"
        else:
            body = _ROWS_IN_FRONT if self.attrs.invalid_to_bottom else _ROWS_IN_PLACE
            tensor, width = reads("data", self.data), "fields"
        text = _POSITIONS.substitute(width=width) + body
        self.assembly.kernel("copy", _THREADS, (*parameters, tensor), text)
        work: Dim = self.images * self.length * (1 if width == "1" else self.fields)
        self.assembly.launch("copy", blocks(work, _THREADS))
