"""Non-maximum suppression of each class separately, on CUDA; results equal those of the CPU kernel.

Each class of each image is a row.  Its boxes above the threshold are sorted, then one block selects from them, as in
``vision.nms_cuda``: by masks if memory allows.  The position of each kept box in the result follows the boxes of the rows before.
If the boxes of an image are sorted, the position follows all better boxes, which a binary search in each row of the image counts.
"""

from __future__ import annotations

from string import Template
from typing import Any

from ....shape_funcs.symbolic.dim import Dim, dim, product
from ....shape_funcs.symbolic.dim_operations import lt, where
from ...codegen.cuda.assembly import Assembly, Parameter, blocks, element, literal, reads, size, writes
from ...codegen.cuda.cuda_program import CudaSource, Data, OpaqueCall, Operand
from ...codegen.cuda.device_code.casts import NUMBER, converted
from ...core.tensor_types import ITEMSIZE, computed_in
from ..sort.merge_cuda import add_sort
from ..sort.order_cuda import Order
from ..vision.masks_cuda import Masks, strip_width
from ..vision.nms_cuda import BOXES, CHOOSE

_THREADS = 256

# All threads of the block call it.
_SORTED_OF = """
// How many of a row's boxes are sorted: they have positions and come first.  The threads look at equally distant boxes.
DEVICE int64 sorted_of(const int64* positions, int64 length) {
  int64 low = 0, high = length;
  while (low < high) {
    int64 first = low, step = (high - low + blockDim.x - 1) / blockDim.x, at = first + step * threadIdx.x;
    int sorted = __syncthreads_count(at < high && positions[at] >= 0);
    if (sorted == 0) return low;
    low = first + step * (sorted - 1) + 1;
    high = high < first + step * sorted ? high : first + step * sorted;
  }
  return low;
}
"""

_CHOOSE_ROW = Template("""
  const int64 limit = $limit;
  for (int64 row = blockIdx.x; row < rows; row += gridDim.x) {
    int64 first = row * length, *places = positions + first, *slot = slots + first;
    int64 considered = sorted_of(places, length);
    int64 found = $choose;
    __syncthreads();
    for (int64 at = $begin + threadIdx.x; at < $end; at += blockDim.x) {
      if (slot[at] < 0) continue;
      kept_at[first + slot[at]] = places[at];
      kept_scores[first + slot[at]] = sorted_scores[first + at];
    }
    if (threadIdx.x == 0) found_in[row] = found;
    __syncthreads();
  }
""")

# One block.
_COUNT = """
  int64 total = 0;
  for (int64 first = 0; first < rows; first += blockDim.x) {
    int64 row = first + threadIdx.x, own = row < rows ? found_in[row] : 0, sum;
    int64 until = block_scan(own, Add(), sum);
    if (row < rows) before[row] = total + until - own;
    total += sum;
  }
  if (threadIdx.x == 0) *counts = *total_ = total;
"""

_WRITE_ALL = Template("""
  int64 all = rows * length, step = gridDim.x * int64($threads);
  for (int64 work = blockIdx.x * int64($threads) + threadIdx.x; work < all; work += step) {
    int64 row = work / length, at = work % length;
    if (at >= found_in[row]) continue;
    int64* to = selected + (before[row] + at) * 3;
    to[0] = row / classes;
    to[1] = row % classes;
    to[2] = kept_at[work];
  }
""")

# The lanes that find the rank of a box together: each looks through the boxes of other classes.
_LANES = """
DEVICE int lanes_of(int64 classes) { return classes > 16 ? 32 : classes > 4 ? 8 : 1; }

// The boxes before number `at` of a row among those of its image, in the rows of this lane; ties go to earlier rows.
DEVICE int64 better_boxes(
    const Number* scores, const int64* found_in, int64 length, int64 first, int64 end, int64 row, int64 at, int lanes) {
  Number own = scores[row * length + at];
  int64 better = 0;
  for (int64 other = first + threadIdx.x % lanes; other < end; other += lanes) {
    if (other == row) continue;
    int64 low = 0, high = found_in[other];
    while (low < high) {
      int64 middle = (low + high) / 2;
      Number score = scores[other * length + middle];
      if (score > own || (score == own && other < row)) low = middle + 1;
      else high = middle;
    }
    better += low;
  }
  return better;
}
"""

_FILL = Template("""
  int64 all = images * $most, step = gridDim.x * int64($threads);
  for (int64 work = blockIdx.x * int64($threads) + threadIdx.x; work < all; work += step) {
    int64 image = work / $most, at = work % $most, found = 0;
    for (int64 row = image * classes; row < (image + 1) * classes; ++row) found += found_in[row];
    if (at >= found) {
      $fill
    }
  }
  for (int64 image = blockIdx.x * int64($threads) + threadIdx.x; image < images; image += step) {
    int64 found = 0;
    for (int64 row = image * classes; row < (image + 1) * classes; ++row) found += found_in[row];
    total[image] = found < $most ? found : $most;
  }
""")

# The lanes of a warp go round together.
_WRITE_IN_ORDER = Template("""
  const int lanes = lanes_of(classes), lane = threadIdx.x & 31;
  int64 all = rows * length, step = gridDim.x * int64($threads / lanes);
  for (int64 begin = (blockIdx.x * int64($threads) + threadIdx.x - lane) / lanes; begin < all; begin += step) {
    int64 work = begin + lane / lanes, row = work / length, at = work % length, image = row / classes, place = at;
    const bool is_kept = work < all && at < found_in[row];
    int64 better = 0;
    if (is_kept) {
      better = better_boxes(kept_scores, found_in, length, image * classes, (image + 1) * classes, row, at, lanes);
    }
    for (int distance = lanes / 2; distance > 0; distance /= 2) better += shuffle_xor(better, distance);
    place += better;
    if (!is_kept || lane % lanes != 0 || place >= $most) continue;
    int64 to = image * $most + place;
    Number score = kept_scores[work];
    $write
  }
""")


class _Classes:
    """Rows of scores: ``score_at`` is the index of box ``at`` of row ``row``, ``wanted`` a condition on its ``score``."""

    def __init__(self, boxes: Operand, scores: Operand, classes: Dim | int, score_at: str) -> None:
        self.boxes, self.scores, self.classes = boxes, scores, classes
        self.images, self.length = boxes.shape[0], boxes.shape[1]
        self.rows = self.images * classes
        self.number = computed_in(boxes.dtype)
        self.score_at, self.assembly = score_at, Assembly()
        capacity, each = self.assembly.scratch, self.rows * self.length
        word = ITEMSIZE[self.number]
        self.width = strip_width(self.rows, self.length)
        self.made = {
            "boxes": Parameter("Box*", "boxes", capacity(each * (7 * word))),
            **{name: Parameter("int64*", name, capacity(each * 8)) for name in ("positions", "slots", "kept_at")},
            "taken": Parameter("int64*", "taken", capacity(where(lt(0, self.width), 0, each * 8))),
            **{name: Parameter("Number*", name, capacity(each * word)) for name in ("sorted_scores", "kept_scores")},
            **{name: Parameter("int64*", name, capacity(self.rows * 8)) for name in ("found_in", "before")},
        }

    def sizes(self) -> tuple[Parameter, ...]:
        rows, length = size("rows", self.rows), size("length", self.length)
        return rows, length, size("images", self.images), size("classes", self.classes), size("fields", self.scores.shape[2])

    def keep(
        self, wanted: str, limit: str, iou_threshold: str, threshold: str, scalars: tuple[Parameter, ...], text: str
    ) -> None:
        """Sort each row and select; ``threshold``: the dtype of the overlap limit, ``text``: functions that conditions call."""
        names = {"number": self.number, "dtype": self.boxes.dtype, "c": 0, "kind": "Number(0)", "covers": "true", "compared": ">"}
        chosen = CHOOSE.substitute(threshold=threshold)
        self.assembly.text(NUMBER, BOXES.substitute(names), text, chosen, _SORTED_OF, _LANES)
        self.sort(wanted, scalars)
        made = tuple(self.made[n] for n in ("positions", "sorted_scores", "slots", "kept_at", "kept_scores"))
        masks = Masks(
            self.assembly, self.rows, self.length, self.width, self.made["boxes"], self.made["found_in"],
            (*scalars, *made, *self.sizes()),
            threshold=iou_threshold,
            limit=limit,
            is_valid="positions[row * length + at] >= 0",
        )  # fmt: skip
        end = "(considered < base + width ? considered : base + width)"
        by_masks = {"choose": "choose_in_row(row, slot, considered, limit)", "begin": "base", "end": end}
        masks.add("choose_by_masks_of_boxes", _CHOOSE_ROW.substitute(by_masks, limit=limit), ())
        by_comparing = f"choose(boxes + first, taken + first, slot, considered, limit, {iou_threshold})"
        body = _CHOOSE_ROW.substitute(limit=limit, choose=by_comparing, begin="0", end="considered")
        more = (self.made[n] for n in ("boxes", "taken", "found_in"))
        self.assembly.kernel("choose_by_comparing", _THREADS, (*scalars, *made, *self.sizes(), *more), body)
        self.assembly.launch("choose_by_comparing", where(masks.used, 0, blocks(self.rows)))

    def sort(self, wanted: str, scalars: tuple[Parameter, ...]) -> None:
        """Sort the wanted boxes of each row by score, prepared for comparison."""
        names_of_sort = ("boxes", "positions", "sorted_scores")
        tensors = (reads("given", self.boxes), reads("scores", self.scores), *scalars)
        order = Order(
            self.scores.dtype,
            is_ascend=False,
            fields=(*tensors, *self.sizes(), *(self.made[n] for n in names_of_sort)),
            entry=f"""
    auto value = scores[{self.score_at}];
    auto score = number(value);
    return {wanted} ? make_entry(key_of(value), at) : LAST;""",
            put=f"""
    int64 to = row * length + at;
    positions[to] = -1;
    if (!before(entry, LAST)) return;
    positions[to] = at = position_of(entry);
    boxes[to] = box_of(given + (row / classes * length + at) * 4);
    sorted_scores[to] = number(scores[{self.score_at}]);""",
            rows=self.rows,
            length=self.length,
            kept=self.length,
        )
        add_sort(self.assembly, order)

    def add(self, name: str, body: str, grid: Dim, *parameters: Parameter) -> None:
        """Add a kernel and its launch."""
        self.assembly.kernel(name, _THREADS, (*parameters, *self.sizes()), body)
        self.assembly.launch(name, grid)

    def each(self) -> Dim:
        """The number of blocks for one thread per box of each row."""
        return blocks(self.rows * self.length, _THREADS)

    def each_of_lanes(self) -> Dim:
        """The number of blocks for the lanes of each box (see ``_LANES``)."""
        classes = dim(self.classes)
        lanes = where(lt(16, classes), 32, where(lt(4, classes), 8, 1))
        return blocks(self.rows * self.length * lanes, _THREADS)

    def write_in_order(self, most: str, fill: str, write: str, total: Operand, capacity: Dim, *parameters: Parameter) -> None:
        """Write the ``most`` best boxes of each image by score; ``capacity``: the total capacity of the result."""
        own = (*parameters, *(self.made[n] for n in ("found_in", "kept_at", "kept_scores")))
        self.add("write", _WRITE_IN_ORDER.substitute(threads=_THREADS, most=most, write=write), self.each_of_lanes(), *own)
        body = _FILL.substitute(threads=_THREADS, most=most, fill=fill)
        self.add("fill", body, blocks(capacity + self.images, _THREADS), *own, writes("total", total))


def all_class_non_max_suppression(call: OpaqueCall) -> CudaSource:
    """All-class non-maximum suppression, in either output format."""
    boxes, scores, limit, iou, threshold = call.inputs
    classes = _Classes(boxes, scores, scores.shape[1], "row * length + at")
    scalars = (reads("limit_", limit), reads("iou_", iou), reads("threshold_", threshold))
    text = element("limit_at", limit) + element("iou_at", iou) + element("threshold_at", threshold)
    wanted = "score > number(threshold_at(threshold_, 0))"
    classes.keep(wanted, "int64(limit_at(limit_, 0))", "number(iou_at(iou_, 0))", computed_in(iou.dtype), scalars, text)
    if call.attrs.output_format == "onnx":
        selected, total = call.results
        assert call.counts is not None
        made = classes.made
        counts = Parameter("int64*", "counts", Data(call.counts))
        own = (made["found_in"], made["before"], counts, Parameter("int64*", "total_", writes("total_", total).argument))
        classes.add("count", _COUNT, blocks(1), *own)
        write = _WRITE_ALL.substitute(threads=_THREADS)
        classes.add(
            "write", write, classes.each(), writes("selected", selected), made["found_in"], made["before"], made["kept_at"]
        )
        return classes.assembly.source()
    selected, found, total = call.results
    classes.write_in_order(
        "(classes * length)",
        "selected[work * 2] = selected[work * 2 + 1] = 0;\n"
        f"      found_scores[work] = {converted('0.0f', 'float32', found.dtype)};",
        "selected[to * 2] = row % classes;\n    selected[to * 2 + 1] = kept_at[work];\n    "
        f"found_scores[to] = {converted('score', classes.number, found.dtype)};",
        total,
        product(found.shape),
        writes("selected", selected),
        writes("found_scores", found),
    )
    return classes.assembly.source()


def regular_non_max_suppression(call: OpaqueCall) -> CudaSource:
    """The best boxes of each image over all classes."""
    (boxes, scores), attrs = call.inputs, call.attrs
    score_at = "(row / classes * length + at) * fields + fields - classes + row % classes"
    classes = _Classes(boxes, scores, attrs.num_classes, score_at)
    low, high = (literal("float64", float(x)) for x in (attrs.score_threshold, attrs.iou_threshold))
    classes.keep(f"score >= {low}", f"int64({attrs.max_detections_per_class})", high, "float64", (), "")
    out_boxes, kinds, found, total = call.results
    zero = converted("0.0f", "float32", found.dtype)
    fill = (
        f"out_kinds[work] = 0;\n      found_scores[work] = {zero};\n"
        f"      for (int f = 0; f < 4; ++f) out_boxes[work * 4 + f] = {zero};"
    )
    write: Any = (
        f"out_kinds[to] = int32(row % classes);\n    found_scores[to] = {converted('score', classes.number, found.dtype)};\n"
        "    for (int f = 0; f < 4; ++f) out_boxes[to * 4 + f] = given[(image * length + kept_at[work]) * 4 + f];"
    )
    results = (writes("out_boxes", out_boxes), writes("out_kinds", kinds), writes("found_scores", found))
    most = f"int64({attrs.max_detections})"
    capacity = classes.images * attrs.max_detections
    classes.write_in_order(most, fill, write, total, capacity, reads("given", boxes), *results)
    return classes.assembly.source()
