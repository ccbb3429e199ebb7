"""Regions of an image on CUDA, with interpolation: one thread per result, coordinates in float64 as on the CPU.

Regions come from a network, so their numbers are arbitrary; a rejected region is not read further.
"""

from __future__ import annotations

from collections.abc import Callable
from string import Template
from typing import Any

from ....shape_funcs.symbolic.dim import product
from ...codegen.cuda.assembly import Assembly, Parameter, blocks, literal, reads, size, writes
from ...codegen.cuda.cuda_program import CudaSource, Fault, OpaqueCall, Site
from ...codegen.cuda.device_code.casts import NUMBER, converted
from ...native.status import BAD_VALUE, INDEX_OUT_OF_RANGE
from ..spatial.cuda import PLACE, flag, plane_sizes, sizes_of
from .cpu import FARTHEST

_THREADS = 256

#: ``attrs -> constants``: the attributes of the CPU body.
Constants = Callable[[Any], dict[str, Any]]

_SAMPLE = Template("""
// The value between four elements; a mark is (index before, index behind, weight of the one behind).
struct Mark { int64 low, high; float64 weight; };
template <class T> DEVICE float64 sample_of(const T* data, Place p, Mark row, Mark column, int64 channels, int64 h, int64 w) {
  auto at = [=](int64 y, int64 x) {
    return float64(number(data[offset_of($last, Place{p.b, p.c, 0, y, x}, channels, 1, h, w)]));
  };
  float64 upper = (1.0 - column.weight) * at(row.low, column.low) + column.weight * at(row.low, column.high);
  float64 lower = (1.0 - column.weight) * at(row.high, column.low) + column.weight * at(row.high, column.high);
  return (1.0 - row.weight) * upper + row.weight * lower;
}
""")

_AXIS = Template("""
// How a region lies along an axis (0: rows, 1: columns) of a picture: of each bin, begin and end of the samples that are not
// surely outside, no more than some per element.
struct Axis {
  float64 start, bin_size, samples;
  int64 size;
  DEVICE float64 first_of(int64 bin) const { return start + bin * bin_size; }
  DEVICE int64 begin(int64 bin) const {
    return int64(floor(fmin(fmax((-1.0 - first_of(bin)) / (bin_size / samples) - 1.5, 0.0), samples)));
  }
  DEVICE int64 end(int64 bin) const {
    return int64(ceil(fmin(fmax((size - first_of(bin)) / (bin_size / samples) + 1.5, 0.0), samples)));
  }
  // The mark of sample i of a bin; false where it counts as 0, more than one element beyond the edge.
  DEVICE bool mark(int64 bin, int64 i, Mark& made) const {
    float64 at = first_of(bin) + (i + 0.5) * (bin_size / samples);
    if (size == 0 || at < -1.0 || at > size) return false;
    at = fmin(fmax(at, 0.0), size - 1.0);
    int64 low = int64(floor(at));
    made = Mark{low, low + 1 < size ? low + 1 : size - 1, at - low};
    return true;
  }
  DEVICE int64 inside(int64 bin) const {
    Mark mark_;
    int64 count = 0;
    for (int64 i = begin(bin); i < end(bin); ++i) count += mark(bin, i, mark_);
    return count;
  }
};

template <class T> DEVICE Axis axis_of(const T* roi, int axis, int64 pooled, int64 size) {
  float64 start = float64(number(roi[2 - axis])) * $scale, end = float64(number(roi[4 - axis])) * $scale;
  float64 bin_size = fmax(end - start, 1.0) / pooled;
  return Axis{start, bin_size, $ratio > 0 ? float64($ratio) : ceil(bin_size), size};
}

""")

_REFUSAL = Template("""
// 0, or why a region is refused: corners that are no numbers or too large, a picture that there is not.
template <class T> DEVICE int64 refusal(const T* roi, int64 pictures) {
  for (int i = 1; i < 5; ++i) {
    if (!(fabs(float64(number(roi[i])) * $scale) <= $farthest)) return $bad_value;
  }
  auto picture = number(roi[0]);
  return picture >= 0 && picture < pictures ? 0 : $no_index;
}
""")

_CHECK = Template("""
  int64 step = gridDim.x * int64($threads);
  for (int64 region = blockIdx.x * int64($threads) + threadIdx.x; region < regions; region += step) {
    int64 why = $refusal;
    if (why != 0) fail(fault, why, site);
  }
""")

_ALIGN = Template("""
  int64 all = batches * out_channels * oh * ow, step = gridDim.x * int64($threads);
  for (int64 work = blockIdx.x * int64($threads) + threadIdx.x; work < all; work += step) {
    Place to = place_of($last, work, all, out_channels, 1, oh, ow);
    const $dtype* roi = rois + to.b * 5;
    if (refusal(roi, pictures) != 0) continue;
    Axis rows = axis_of(roi, 0, oh, h), columns = axis_of(roi, 1, ow, w);
    Place from = {int64(number(roi[0])), to.c, 0, 0, 0};
    float64 total = 0;
    if ($is_max && rows.inside(to.y) == rows.samples && columns.inside(to.x) == columns.samples) total = $lowest;
    Mark row, column;
    for (int64 i = rows.begin(to.y); i < rows.end(to.y) && total == total; ++i) {
      if (!rows.mark(to.y, i, row)) continue;
      for (int64 j = columns.begin(to.x); j < columns.end(to.x) && total == total; ++j) {
        if (!columns.mark(to.x, j, column)) continue;
        float64 value = sample_of(data, from, row, column, channels, h, w);
        if (!$is_max) total += value;
        else if (value > total || value != value) total = value;
      }
    }
    if (!$is_max) total = total / (rows.samples * columns.samples);
    out[work] = $result;
  }
""")


def _checked(assembly: Assembly, given: tuple[Parameter, ...], refusal: str, regions: Any) -> None:
    """Add a kernel that fails for each rejected region."""
    fault = (Parameter("void*", "fault", Fault()), Parameter("int64", "site", Site()))
    body = _CHECK.substitute(threads=_THREADS, refusal=refusal)
    assembly.kernel("check", _THREADS, (*given, size("regions", regions), *fault), body)
    assembly.launch("check", blocks(regions, _THREADS))


def _pooled(
    entry: str, body: Template, texts: tuple[Template, ...], result: str, constants: Constants
) -> Callable[[OpaqueCall], CudaSource]:
    """Each bin of each region, one thread per bin; ``result``: the expression over ``body`` that is stored."""

    def source(call: OpaqueCall) -> CudaSource:
        (data, rois), (out,), given = call.inputs, call.results, constants(call.attrs)
        last = given["layout"]
        names = {
            **{name: flag(value) if isinstance(value, bool) else value for name, value in given.items()},
            "threads": _THREADS, "last": flag(last), "dtype": data.dtype, "scale": literal("float64", given["scale"]),
            "farthest": literal("float64", FARTHEST), "bad_value": BAD_VALUE, "no_index": INDEX_OUT_OF_RANGE,
            "lowest": literal("float64", float("-inf")), "result": converted(result, "float64", out.dtype),
        }  # fmt: skip
        assembly = Assembly()
        assembly.text(NUMBER, PLACE, *(text.substitute(names) for text in texts))
        regions = (reads("rois", rois), size("pictures", sizes_of(data.shape, last)[0]))
        _checked(assembly, regions, "refusal(rois + region * 5, pictures)", rois.shape[0])
        sizes = plane_sizes(data.shape, last, out.shape, last)
        assembly.kernel(entry, _THREADS, (reads("data", data), *regions, writes("out", out), *sizes), body.substitute(names))
        assembly.launch(entry, blocks(product(out.shape), _THREADS))
        return assembly.source()

    return source


def roi_align(constants: Constants) -> Callable[[OpaqueCall], CudaSource]:
    """The mean, or maximum, of the interpolated samples of each bin."""
    return _pooled("align", _ALIGN, (_SAMPLE, _AXIS, _REFUSAL), "total", constants)


# ---- elements without interpolation ------------------------------------------------------------------------------

_BINS = Template("""
// Begin and end, inside the picture, of a bin of a region along an axis (0: rows, 1: columns).
struct Bin { int64 begin, end; };
DEVICE float64 whole(float64 x) { return copysign(floor(fabs(x) + 0.5), x); }
template <class T> DEVICE Bin bin_of(const T* roi, int axis, int64 number_, int64 pooled, int64 size) {
  float64 low = whole(float64(number(roi[2 - axis])) * $scale), high = whole(float64(number(roi[4 - axis])) * $scale);
  float64 length = fmax(high - low + 1.0, 1.0), limit = float64(size);
  float64 begin = low + floor(number_ * length / pooled), end = low + ceil((number_ + 1) * length / pooled);
  return Bin{int64(fmin(fmax(begin, 0.0), limit)), int64(fmin(fmax(end, 0.0), limit))};
}
""")

_POOL = Template("""
  int64 all = batches * out_channels * oh * ow, step = gridDim.x * int64($threads);
  for (int64 work = blockIdx.x * int64($threads) + threadIdx.x; work < all; work += step) {
    Place to = place_of($last, work, all, out_channels, 1, oh, ow);
    const $dtype* roi = rois + to.b * 5;
    if (refusal(roi, pictures) != 0) continue;
    Bin rows = bin_of(roi, 0, to.y, oh, h), columns = bin_of(roi, 1, to.x, ow, w);
    bool empty = rows.begin >= rows.end || columns.begin >= columns.end;
    float64 best = empty ? 0.0 : $lowest;
    for (int64 y = rows.begin; y < rows.end && best == best; ++y) {
      for (int64 x = columns.begin; x < columns.end && best == best; ++x) {
        Place from = {int64(number(roi[0])), to.c, 0, y, x};
        float64 value = float64(number(data[offset_of($last, from, channels, 1, h, w)]));
        if (value > best || value != value) best = value;
      }
    }
    out[work] = $result;
  }
""")


def roi_pool(constants: Constants) -> Callable[[OpaqueCall], CudaSource]:
    """The maximum of each bin."""
    return _pooled("pool", _POOL, (_REFUSAL, _BINS), "best", constants)


# ---- crops -----------------------------------------------------------------------------------------------------------

_CROP_PLACE = """
// Where in the picture row (or column) i of `count` of a crop is, of which the box says begin and end.
DEVICE float64 crop_place(float64 low, float64 high, int64 i, int64 count, int64 size) {
  if (count == 1) return 0.5 * (low + high) * (size - 1);
  return low * (size - 1) + i * ((high - low) * (size - 1) / (count - 1));
}
"""

_CROP = Template("""
  int64 all = batches * out_channels * oh * ow, step = gridDim.x * int64($threads);
  for (int64 work = blockIdx.x * int64($threads) + threadIdx.x; work < all; work += step) {
    Place to = place_of($last, work, all, out_channels, 1, oh, ow);
    int64 picture = box_indices[to.b];
    if (picture < 0 || picture >= pictures) continue;
    auto box = [=](int i) { return float64(number(boxes[to.b * 4 + i])); };
    float64 y = crop_place(box(0), box(2), to.y, oh, h), x = crop_place(box(1), box(3), to.x, ow, w);
    float64 value = $outside;
    if (0.0 <= y && y <= h - 1 && 0.0 <= x && x <= w - 1) {
      if ($is_nearest) {
        Place from = {picture, to.c, 0, int64(floor(y + 0.5)), int64(floor(x + 0.5))};
        value = number(data[offset_of($last, from, channels, 1, h, w)]);
      } else {
        int64 y0 = int64(floor(y)), x0 = int64(floor(x));
        Mark row = {y0, y0 + 1 < h ? y0 + 1 : h - 1, y - y0}, column = {x0, x0 + 1 < w ? x0 + 1 : w - 1, x - x0};
        value = sample_of(data, Place{picture, to.c, 0, 0, 0}, row, column, channels, h, w);
      }
    }
    out[work] = $result;
  }
""")


def crop_and_resize(constants: Constants) -> Callable[[OpaqueCall], CudaSource]:
    """Crop each box from its image, and resize it."""

    def source(call: OpaqueCall) -> CudaSource:
        (data, boxes, indices), (out,), given = call.inputs, call.results, constants(call.attrs)
        last = given["layout"]
        names = {
            "threads": _THREADS, "last": flag(last), "is_nearest": flag(given["is_nearest"]),
            "outside": literal("float64", given["outside"]), "result": converted("value", "float64", out.dtype),
        }  # fmt: skip
        assembly = Assembly()
        assembly.text(NUMBER, PLACE, _SAMPLE.substitute(names), _CROP_PLACE)
        regions = (reads("box_indices", indices), size("pictures", sizes_of(data.shape, last)[0]))
        refusal = f"box_indices[region] >= 0 && box_indices[region] < pictures ? 0 : {INDEX_OUT_OF_RANGE}"
        _checked(assembly, regions, refusal, indices.shape[0])
        sizes = plane_sizes(data.shape, last, out.shape, last)
        parameters = (reads("data", data), reads("boxes", boxes), *regions, writes("out", out), *sizes)
        assembly.kernel("crop", _THREADS, parameters, _CROP.substitute(names))
        assembly.launch("crop", blocks(product(out.shape), _THREADS))
        return assembly.source()

    return source
