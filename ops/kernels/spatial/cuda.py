"""Data of one to three spatial axes, in either layout, as five sizes: the CUDA twin of ``ops.kernels.spatial.cpu``."""

from __future__ import annotations

from ....shape_funcs.symbolic.dim import Dim, Shape, dim
from ...codegen.cuda.assembly import Parameter, size

#: An element's batch, channel, depth, row and column: of number ``work`` of a tensor of sizes c, d, h, w.
PLACE = r"""
struct Place { int64 b, c, z, y, x; };

template <class I> DEVICE Place place_first(I work, I c, I d, I h, I w) {
  I x = work % w, rest = work / w;
  I y = rest % h;
  rest /= h;
  I z = rest % d;
  rest /= d;
  return Place{int64(rest / c), int64(rest % c), int64(z), int64(y), int64(x)};
}

template <class I> DEVICE Place place_last(I work, I c, I d, I h, I w) {
  I channel = work % c;
  Place place = place_first<I>(work / c, 1, d, h, w);
  place.c = channel;
  return place;
}

// dividing 64-bit numbers is slow
DEVICE Place place_of(bool channels_last, int64 work, int64 all, int64 c, int64 d, int64 h, int64 w) {
  if (all <= 0xffffffffll) {
    uint32 at = work;
    return channels_last ? place_last<uint32>(at, c, d, h, w) : place_first<uint32>(at, c, d, h, w);
  }
  return channels_last ? place_last<int64>(work, c, d, h, w) : place_first<int64>(work, c, d, h, w);
}

DEVICE int64 offset_of(bool channels_last, Place p, int64 c, int64 d, int64 h, int64 w) {
  return channels_last ? (((p.b * d + p.z) * h + p.y) * w + p.x) * c + p.c : (((p.b * c + p.c) * d + p.z) * h + p.y) * w + p.x;
}
"""


def sizes_of(shape: Shape, channels_last: bool) -> tuple[Dim, Dim, Dim, Dim, Dim]:
    """Batch, channels, depth, rows, columns; 1 for an absent axis."""
    spatial = shape[1:-1] if channels_last else shape[2:]
    d, h, w = (dim(1),) * (3 - len(spatial)) + tuple(spatial)
    return shape[0], shape[-1 if channels_last else 1], d, h, w


def plane_sizes(data: Shape, data_last: bool, out: Shape, out_last: bool) -> tuple[Parameter, ...]:
    """The parameters ``channels``, ``d``, ``h``, ``w`` of the data, ``batches``, ``out_channels``, ``od``, ``oh``, ``ow``."""
    _, channels, *spatial = sizes_of(data, data_last)
    names = ("channels", "d", "h", "w", "batches", "out_channels", "od", "oh", "ow")
    return tuple(size(n, s) for n, s in zip(names, (channels, *spatial, *sizes_of(out, out_last)), strict=True))


def flag(value: bool) -> str:
    """A bool in CUDA C."""
    return "true" if value else "false"
