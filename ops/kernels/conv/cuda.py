"""Convolution on CUDA.

* By cuDNN, for the implementation ``cudnn``, if the library has a plan.
* Matrix products by cuBLASLt or cuBLAS of gathered columns (im2col); for pointwise convolution, of the data itself.
  Columns are those of as many images at a time as have room in COLUMN_BYTES.
* Else, with more than one group, larger columns of one image, dtypes that cuBLAS does not support, or hardly any output channels:
  directly, one thread per element of the result, if a group has few output channels, as in depthwise convolution; in products of
  tiles that are gathered into shared memory, if it has more.

Sums are accumulated in float32; in float64 if data or result are float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from string import Template
from typing import Any

from ....shape_funcs.symbolic.dim import Dim, const, dim, product
from ....shape_funcs.symbolic.dim_operations import all_, eq, le, lt, max_, min_, not_, where
from ...codegen.cuda.assembly import Assembly, Parameter, blocks, reads, size, writes
from ...codegen.cuda.cuda_program import Argument, Convolution, CudaSource, Data, OpaqueCall, Operand, Turns
from ...codegen.cuda.device_code.casts import NUMBER, converted
from ...core.tensor_types import ITEMSIZE, computed_in
from ..matmul.cublas_lt import matrix_product
from ..matmul.dot_product import PLUS_PRODUCT
from ..matmul.library_products import PAIRS, Product, fits_library, library_call
from ..spatial.cuda import PLACE, flag, plane_sizes, sizes_of
from . import cudnn
from .weight_layout import OUT_IN_SPACE, SPACE_IN_OUT, SPACE_OUT_IN

_THREADS = 256
#: The side of a tile of the result (channels by positions), and the number of terms gathered at a time.
TILE, DEPTH = 64, 16
#: A group with fewer output channels is convolved directly instead of in tiles.
LEAST_CHANNELS = 8
#: From so many output channels on, a library multiplies columns.  A term costs the direct kernel the arithmetic of its place for
#: each channel; gathering costs about twice as much, once for all channels.
LEAST_OF_LIBRARY = 3
#: The largest number of bytes of gathered columns; an image's are not divided.
COLUMN_BYTES = 2**28

#: ``attrs -> constants``: the attributes of the CPU body.
Constants = Callable[[Any], dict[str, Any]]


def convolution(constants: Constants, by_cudnn: bool = False) -> Callable[[OpaqueCall], CudaSource]:
    """``data`` convolved with ``weight``.  ``by_cudnn``: cuDNN computes the result if it has a plan."""
    return lambda call: _Convolution(call, constants(call.attrs)).source(by_cudnn)


# A term is an input channel of the group and a tap; terms are numbered in the layout of one output channel's kernel.
_TERMS = Template("""
typedef $sum Sum;
DEVICE $out_dtype stored(Sum sum) { return $stored; }

struct Geometry {
  int64 channels, d, h, w, batches, out_channels, od, oh, ow, inputs, kd, kh, kw;
  DEVICE int64 taps() const { return kd * kh * kw; }
  DEVICE int64 terms() const { return inputs * kd * kh * kw; }
  DEVICE int64 places() const { return od * oh * ow; }
  // where in the kernel the weight of an output channel for a term is
  DEVICE int64 weight_at(int64 channel, int64 term) const { return $weight_at; }
  // The element of the data that a term takes for a place of the result in a group; false in the padding.
  DEVICE bool data_at(Place to, int64 group, uint32 term, int64& at) const {
    uint32 input = $input, tap = $tap;
    int64 z = to.z * $sz + tap / uint32(kh * kw) * int64($dz) - $bz;
    int64 y = to.y * $sy + tap / uint32(kw) % uint32(kh) * int64($dy) - $by;
    int64 x = to.x * $sx + tap % uint32(kw) * int64($dx) - $bx;
    if (z < 0 || z >= d || y < 0 || y >= h || x < 0 || x >= w) return false;
    at = offset_of($data_last, Place{to.b, group * inputs + input, z, y, x}, channels, d, h, w);
    return true;
  }
  // A place of the result; its channel is 0.
  DEVICE Place place(int64 number) const { return place_of(false, number, batches * places(), 1, od, oh, ow); }
};
""")

_DIRECT = Template("""
  int64 all = batches * out_channels * od * oh * ow, step = gridDim.x * int64($threads), at;
  for (int64 work = blockIdx.x * int64($threads) + threadIdx.x; work < all; work += step) {
    Place to = place_of($out_last, work, all, out_channels, od, oh, ow);
    int64 group = to.c / (out_channels / $groups);
    Sum sum = 0;
    for (int64 term = 0; term < geometry.terms(); ++term) {
      if (geometry.data_at(to, group, term, at)) {
        sum = plus_product(sum, Sum(number(weight[geometry.weight_at(to.c, term)])), Sum(number(data[at])));
      }
    }
    out[work] = stored(sum);
  }
""")

# The columns of the images of a turn, one image after another: all terms of a position contiguous, or all positions of a term.
_GATHER = Template("""
  int64 terms = geometry.terms(), places = geometry.places(), all = images * places * terms, from;
  int64 step = gridDim.x * int64($threads);
  for (int64 work = blockIdx.x * int64($threads) + threadIdx.x; work < all; work += step) {
    Place at = place_of($data_last, work, all, terms, 1, 1, places);  // term and place as channel and column
    Place to = geometry.place(at.b * places + at.x);
    $dtype value = $zero;
    if (geometry.data_at(to, 0, at.c, from)) value = data[from];
    columns[work] = value;
  }
""")

# Each thread computes 4 x 4 elements, with a stride of 16: channels along one axis, positions along the other.
_TILED = Template("""
  __shared__ Sum of_weight[$depth][$tile + 1], of_data[$depth][$tile + 1];
  int x = threadIdx.x % 16, y = threadIdx.x / 16;
  int64 outputs = out_channels / $groups, terms = geometry.terms(), places = batches * geometry.places(), from;
  int64 across = (places + $tile - 1) / $tile, down = (outputs + $tile - 1) / $tile;
  for (int64 work = blockIdx.x; work < $groups * down * across; work += gridDim.x) {
    int64 c0 = work / across % down * $tile, p0 = work % across * $tile, group = work / across / down;
    Sum sums[4][4] = {};
    Place mine = geometry.place(p0 + threadIdx.x % $tile);
    for (int64 t0 = 0; t0 < terms; t0 += $depth) {
      for (int at = threadIdx.x; at < $tile * $depth; at += $threads) {
        int64 channel = c0 + at / $depth, term = t0 + at % $depth;
        Sum value = 0;
        if (channel < outputs && term < terms) value = number(weight[geometry.weight_at(group * outputs + channel, term)]);
        of_weight[at % $depth][at / $depth] = value;
      }
      for (int at = threadIdx.x; at < $tile * $depth; at += $threads) {
        int64 term = t0 + at / $tile;
        Sum value = 0;
        if (p0 + at % $tile < places && term < terms && geometry.data_at(mine, group, term, from)) value = number(data[from]);
        of_data[at / $tile][at % $tile] = value;
      }
      __syncthreads();
#pragma unroll
      for (int t = 0; t < $depth; ++t) {
        Sum column[4], row[4];
#pragma unroll
        for (int q = 0; q < 4; ++q) {
          column[q] = of_weight[t][y + 16 * q];
          row[q] = of_data[t][x + 16 * q];
        }
#pragma unroll
        for (int q = 0; q < 16; ++q) sums[q / 4][q % 4] = plus_product(sums[q / 4][q % 4], column[q / 4], row[q % 4]);
      }
      __syncthreads();
    }
    for (int j = 0; j < 4; ++j) {
      int64 number = p0 + x + 16 * j;
      if (number >= places) continue;
      Place to = geometry.place(number);
      for (int i = 0; i < 4; ++i) {
        int64 channel = c0 + y + 16 * i;
        to.c = group * outputs + channel;
        if (channel < outputs) out[offset_of($out_last, to, out_channels, od, oh, ow)] = stored(sums[i][j]);
      }
    }
  }
""")


class _Convolution:
    def __init__(self, call: OpaqueCall, given: dict[str, Any]) -> None:
        self.assembly, self.given = Assembly(), given
        (self.data, self.weight, *_), (self.out,) = call.inputs, call.results
        self.layout, self.data_last, self.out_last = given["layouts"]
        self.outputs, self.inputs, *self.window = _kernel_sizes(self.weight.shape, self.layout)
        self.sizes, self.out_sizes = sizes_of(self.data.shape, self.data_last), sizes_of(self.out.shape, self.out_last)
        self.positions, self.terms = product(self.out_sizes[2:]), self.inputs * product(self.window)
        number = {computed_in(t.dtype) for t in (self.data, self.out)}
        self.sum = "float64" if "float64" in number else "float32"

    def source(self, by_cudnn: bool) -> CudaSource:
        """All algorithms; launch sizes select one of them, after the library's convolution if ``by_cudnn``."""
        self.texts()
        of_group = self.outputs // self.given["groups"]
        wanted = not_(lt(of_group, LEAST_OF_LIBRARY))
        by_library = all_(wanted, *self.products(wanted))
        direct, tiled = (all_(few, not_(by_library)) for few in (lt(of_group, LEAST_CHANNELS), le(LEAST_CHANNELS, of_group)))
        self.add("convolve_directly", _DIRECT, where(direct, blocks(product(self.out.shape), _THREADS), 0))
        tiles = self.given["groups"] * _tiles(of_group) * _tiles(self.out_sizes[0] * self.positions)
        self.add("convolve_tiles", _TILED, where(tiled, blocks(tiles), 0))
        if by_cudnn:
            self.assembly.steps.insert(0, self.library_convolution())
        return self.assembly.source()

    def library_convolution(self) -> Convolution:
        """The convolution by cuDNN in place of all steps so far."""
        data, weight, out = (Data(_position(t.position)) for t in (self.data, self.weight, self.out))
        sizes = self.sizes, (self.outputs, self.inputs, *self.window), self.out_sizes
        rank, instead = len(self.data.shape) - 2, len(self.assembly.steps)
        return cudnn.convolution((data, weight, out), self.data.dtype, self.given, sizes, rank, instead)

    def texts(self) -> None:
        """Device functions for terms and positions."""
        by_input = self.layout == OUT_IN_SPACE
        names = {"stride": "s", "dilation": "d", "before": "b"}
        numbers = {f"{letter}{axis}": self.given[name][k] for name, letter in names.items() for k, axis in enumerate("zyx")}
        terms = _TERMS.substitute(
            numbers,
            sum=self.sum,
            out_dtype=self.out.dtype,
            stored=converted("sum", self.sum, self.out.dtype),
            weight_at={
                SPACE_IN_OUT: "term * out_channels + channel",
                SPACE_OUT_IN: "(term / inputs * out_channels + channel) * inputs + term % inputs",
            }.get(self.layout, "channel * terms() + term"),
            input="term / uint32(taps())" if by_input else "term % uint32(inputs)",
            tap="term % uint32(taps())" if by_input else "term / uint32(inputs)",
            data_last=flag(self.data_last),
        )
        self.assembly.text(NUMBER, PLUS_PRODUCT, PLACE, terms)

    def add(self, name: str, body: Template, grid: Dim, *more: Parameter, **arguments: Argument) -> None:
        """Add a kernel and its launch; ``arguments`` override the declared arguments."""
        sizes = plane_sizes(self.data.shape, self.data_last, self.out.shape, self.out_last)
        own = tuple(size(n, s) for n, s in zip(("inputs", "kd", "kh", "kw"), (self.inputs, *self.window), strict=True))
        names = ", ".join(p.name for p in (*sizes, *own))
        text = f"  Geometry geometry = {{{names}}};\n" + body.substitute(
            threads=_THREADS, tile=TILE, depth=DEPTH, groups=self.given["groups"], dtype=self.data.dtype,
            data_last=flag(self.data_last), out_last=flag(self.out_last), zero=converted("0.0f", "float32", self.data.dtype),
        )  # fmt: skip
        tensors = (reads("data", self.data), reads("weight", self.weight), writes("out", self.out))
        self.assembly.kernel(name, _THREADS, (*tensors, *sizes, *own, *more), text)
        self.assembly.launch(name, grid, arguments)

    def products(self, wanted: Dim) -> tuple[Dim, ...]:
        """Add the library products, run if ``wanted`` and possible; return the conditions under which they are possible."""
        if (self.data.dtype, self.out.dtype) not in PAIRS or self.given["groups"] != 1:
            return (dim(0),)
        batch, m, n = self.out_sizes[0], self.outputs, self.positions
        transposed, columns_step = self.layout == SPACE_IN_OUT, self.terms * self.positions
        if self.out_last:  # positions by channels: columns times the kernel
            shape = Product(batch, n, m, self.terms, columns_step, dim(0), not self.data_last, not transposed)
        else:
            shape = Product(batch, m, n, self.terms, dim(0), columns_step, transposed, self.data_last)
        nbytes = columns_step * ITEMSIZE[self.data.dtype]  # for the columns of an image
        fits, pointwise = fits_library(shape), self.is_pointwise()
        if self.layout == SPACE_OUT_IN:  # a matrix only for a single tap
            fits = all_(fits, eq(product(self.window), 1))
        gathered = all_(wanted, fits, not_(pointwise), le(nbytes, COLUMN_BYTES))
        if const(gathered) != 0:
            self.by_columns(shape, gathered)
        if const(pointwise) != 0:
            data, out = (Data(_position(t.position)) for t in (self.data, self.out))
            self.multiply(data, out, shape, all_(wanted, fits, pointwise))
        return fits, where(pointwise, 1, le(nbytes, COLUMN_BYTES))

    def by_columns(self, shape: Product, wanted: Dim) -> None:
        """Add the products of gathered columns, of as many images at a time as have room."""
        elements = self.terms * self.positions
        nbytes = elements * ITEMSIZE[self.data.dtype]
        per = min_(shape.batch, max_(COLUMN_BYTES // max_(nbytes, 1), 1))
        columns = self.assembly.scratch(where(wanted, per * nbytes, 0))
        in_turns = const(eq(per, shape.batch)) != 1
        data, out = (Data(_position(t.position), _image_bytes(t) if in_turns else 0) for t in (self.data, self.out))
        before = len(self.assembly.steps)
        parameters = Parameter(f"{self.data.dtype}*", "columns", columns), size("images", per)
        self.add("gather", _GATHER, where(wanted, blocks(per * elements, _THREADS), 0), *parameters, data=data)
        self.multiply(columns, out, replace(shape, batch=per), wanted)
        if in_turns:
            turns = Turns(where(wanted, shape.batch, 0), per, len(self.assembly.steps) - before)
            self.assembly.steps.insert(before, turns)

    def multiply(self, columns: Argument, to: Data, shape: Product, wanted: Dim) -> None:
        """Add one product of columns and kernel per image."""
        kernel = Data(_position(self.weight.position)), self.weight.dtype
        out, given = (to, self.out.dtype), (columns, self.data.dtype)
        matrices = (given, kernel, out) if self.out_last else (kernel, given, out)
        (a, dtype), (b, _), (_, result) = matrices
        self.assembly.steps.append(matrix_product((a, b, to), (dtype, result), shape, wanted))
        self.assembly.steps.append(library_call(matrices, shape, wanted))

    def is_pointwise(self) -> Dim:
        """Whether each result position reads only the same position of the data."""
        if self.given["stride"] != (1, 1, 1) or self.given["before"] != (0, 0, 0):
            return dim(0)
        same = (eq(a, b) for a, b in zip(self.sizes[2:], self.out_sizes[2:], strict=True))
        return all_(*(eq(k, 1) for k in self.window), *same)


def _kernel_sizes(shape: Any, layout: int) -> tuple[Dim, ...]:
    """Output channels, input channels of a group, depth, rows, columns."""
    if layout in (SPACE_IN_OUT, SPACE_OUT_IN):
        outputs, inputs, spatial = shape[-1], shape[-2], shape[:-2]
        outputs, inputs = (outputs, inputs) if layout == SPACE_IN_OUT else (inputs, outputs)
    elif layout == OUT_IN_SPACE:
        outputs, inputs, spatial = shape[0], shape[1], shape[2:]
    else:
        outputs, inputs, spatial = shape[0], shape[-1], shape[1:-1]
    return outputs, inputs, *(dim(1),) * (3 - len(spatial)), *spatial


def _image_bytes(images: Operand) -> Dim:
    return product(images.shape[1:]) * ITEMSIZE[images.dtype]


def _tiles(count: Dim) -> Dim:
    return (count + (TILE - 1)) // TILE


def _position(position: int | None) -> int:
    assert position is not None, "a literal is no data"
    return position
