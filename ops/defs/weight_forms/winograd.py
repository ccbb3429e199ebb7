"""Convolutions by Winograd's algorithm: the weight's transformation, and the convolution with a transformed weight.

The transformed weight has the axes of the products, then output and input channels: ``U = G w G^T``.  The data is cut into tiles
that overlap; a tile ``d`` gives the results ``A^T (sum over channels of U * (B^T d B)) A``.
"""

from __future__ import annotations

from typing import Any

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.defs.convolution.conv import SPATIAL, data_layouts, in_layout, kernel_layouts, layout_in, per_axis, sides
from ....shape_funcs.symbolic.argument_checks import need_rank
from ....shape_funcs.symbolic.dim import const
from ....shape_funcs.symbolic.dim_operations import le
from ....shape_funcs.symbolic.registry import ShapeError, check
from ...composition.composite import Term, call, cast, composite, equal_sizes, number, table, widened
from ...core.dtype_rules import FLOATS, like_inputs
from ...core.input_types import from_data, stated
from ...core.op import get
from ...core.tensor_types import TensorType
from ..convolution.conv import Conv2dAttrs, Conv3dAttrs, Numbers, product_rule
from ..movement.blocked_layouts import relaid
from ..movement.pad import PadAttrs
from ..movement.rearrange import SliceLikeAttrs
from ..movement.transform import ReshapeAttrs, ReshapeLikeAttrs, SliceAttrs, TransposeAttrs
from ..products.nn import BatchMatmulAttrs, MatmulAttrs
from .winograd_matrices import KERNELS, TILES, Matrix, winograd

#: Letters of the spatial axes in equations: of a tile or kernel, of the products, of the tiles, of a tile's results.
_INSIDE, _PRODUCTS, _TILES, _RESULTS = "kij", "wuv", "zyx", "rpq"


@frozen
class WinogradWeightAttrs:
    """``tile_size``: results of a tile along each axis, 2 to 8."""

    tile_size: int


@frozen
class _Algorithm:
    """The algorithm for tiles of ``tile`` results along each axis and a kernel of the spatial sizes ``kernel``."""

    tile: int
    kernel: tuple[int, ...]

    @property
    def rank(self) -> int:
        return len(self.kernel)

    @property
    def transformed(self) -> range:
        """The transformed axes: all, but the depth only if it is as large as height and width."""
        flat = self.rank == 3 and self.kernel[0] != self.kernel[-1]
        return range(1 if flat else 0, self.rank)

    @property
    def products(self) -> int:
        """The number of products along a transformed axis."""
        return self.tile + self.kernel[-1] - 1

    def letters(self, of: str, axes: Any = None) -> str:
        """The letters of the spatial axes, or of some, in an equation."""
        own = of[3 - self.rank :]
        return "".join(own[k] for k in (range(self.rank) if axes is None else axes))

    def weight_letters(self) -> str:
        """The axes of the transformed weight: products, then a depth that is not transformed, then channels."""
        kept = [k for k in range(self.rank) if k not in self.transformed]
        return self.letters(_PRODUCTS, self.transformed) + self.letters(_INSIDE, kept) + "oc"

    def pairs(self, source: str, result: str) -> list[str]:
        """The letters of each transformed axis before and after."""
        return [self.letters(source, [k]) + self.letters(result, [k]) for k in self.transformed]


def _algorithm(tile: int, kernel: tuple[int, ...]) -> _Algorithm:
    """The algorithm for a kernel of these sizes.  Raises ShapeError."""
    if tile not in TILES:
        raise ShapeError(f"tile_size must be {TILES[0]} to {TILES[-1]}, not {tile}")
    rows, columns = kernel[-2:]
    if rows != columns or columns not in KERNELS:
        sizes = " x ".join(map(str, kernel))
        raise ShapeError(f"height and width of the kernel must be equal, {KERNELS[0]} to {KERNELS[-1]}; it is {sizes}")
    return _Algorithm(tile, kernel)


def _constants(matrix: Matrix, dtype: str) -> Term:
    return table(tuple(tuple(float(x) for x in row) for row in matrix), dtype)


def _ordered(x: Term, letters: str, order: str) -> Term:
    """``x`` with the axes ``letters``, its axes in another order."""
    axes = tuple(map(letters.index, order))
    ordered: Term = x if letters == order else call(get("transpose"), x, attrs=TransposeAttrs(axes))
    return ordered


def _transformed(x: Term, letters: str, pairs: list[str], matrix: Term, result: str, *, rows: bool = False) -> Term:
    """``x`` with the axes ``letters``, with a matrix along some axes, in the order ``result``.

    ``pairs``: the letters of each of these axes before and after.  ``rows``: whether an element of the result is the sum over a
    row of the matrix, not over a column.
    """
    for pair in pairs:
        old, new = tuple(pair)
        rest = letters.replace(old, "")
        x = call(get("nn.matmul"), _ordered(x, letters, rest + old), matrix, attrs=MatmulAttrs(transpose_b=rows))
        letters = rest + new
    return _ordered(x, letters, result)


# ---- the weight ------------------------------------------------------------------------------------------------------


def _weight_transform(rank: int) -> Any:
    def expand(inputs: tuple[Term], attrs: WinogradWeightAttrs) -> Term:
        need_rank(inputs[0].operand, rank + 2, "the weight", 0)
        sizes = tuple(map(const, inputs[0].shape[2:]))
        known = tuple(size for size in sizes if size is not None)
        if len(known) < rank:
            raise ShapeError("the sizes of the kernel must be known at compile time", input=0)
        own = _algorithm(attrs.tile_size, known)
        (weight,) = widened(inputs[0])
        matrix = _constants(winograd(own.tile, known[-1]).kernel, weight.dtype)
        pairs = own.pairs(_INSIDE, _PRODUCTS)
        found = _transformed(weight, "oc" + own.letters(_INSIDE), pairs, matrix, own.weight_letters(), rows=True)
        return cast(found, inputs[0].dtype)

    return expand


# ---- the convolution -------------------------------------------------------------------------------------------------


@frozen
class _Winograd:
    """``tile_size``: as in WinogradWeightAttrs."""

    tile_size: int
    strides: Numbers = 1
    padding: Numbers = 0
    dilation: Numbers = 1
    groups: int = 1
    channels: int | None = None
    kernel_size: Numbers | None = None


@frozen
class WinogradConv2dAttrs(_Winograd):
    """``tile_size``: as in WinogradWeightAttrs; the others as in Conv2dAttrs: strides and dilation are 1, and so is the number of
    groups; ``kernel_size`` is that of the weight before its transformation, whose layout is ``kernel_layout``."""

    data_layout: str = Conv2dAttrs.data_layout
    kernel_layout: str = Conv2dAttrs.kernel_layout
    out_layout: str = ""
    out_dtype: str = ""


@frozen
class WinogradConv3dAttrs(_Winograd):
    """As WinogradConv2dAttrs, over three axes."""

    data_layout: str = Conv3dAttrs.data_layout
    kernel_layout: str = Conv3dAttrs.kernel_layout
    out_layout: str = ""
    out_dtype: str = ""


def _checked(attrs: Any, rank: int) -> _Algorithm:
    """The algorithm that the attributes state.  Raises ShapeError."""
    for what in ("strides", "dilation"):
        if set(per_axis(getattr(attrs, what), rank, what)) != {1}:
            raise ShapeError(f"{what} must be 1 in Winograd's algorithm, not {getattr(attrs, what)}")
    if attrs.groups != 1:
        raise ShapeError(f"groups must be 1, not {attrs.groups}")
    if attrs.kernel_size is None:
        raise ShapeError("kernel_size must be given: a transformed weight does not show it")
    layout_in(attrs.kernel_layout, kernel_layouts(rank)[:1], "kernel_layout")
    return _algorithm(attrs.tile_size, per_axis(attrs.kernel_size, rank, "kernel_size"))


def _weight_shape(own: _Algorithm) -> tuple[int, ...]:
    """The sizes of the transformed weight before its channels."""
    flat = own.kernel[: own.transformed.start]
    return (*(own.products for _ in own.transformed), *flat)


def _checked_weight(weight: Term, data: Term, own: _Algorithm, attrs: Any) -> Term:
    """The weight, checked against the attributes and the data ``[n, channels, ...]``.  Raises ShapeError."""
    need_rank(weight.operand, own.rank + 2, "the weight", 1)
    for axis, (size, wanted) in enumerate(zip(map(const, weight.shape), _weight_shape(own), strict=False)):
        if size is None:
            raise ShapeError("the sizes of the weight's first axes must be known at compile time", input=1)
        if size != wanted:
            raise ShapeError(f"axis {axis} of the weight has size {size}; tile_size and kernel_size say {wanted}", input=1)
    outputs = const(weight.shape[-2])
    if None not in (outputs, attrs.channels) and outputs != attrs.channels:
        raise ShapeError(f"channels says {attrs.channels}, the weight gives {outputs}", input=1)
    op = f"nn.contrib_conv{own.rank}d_winograd_without_weight_transform"
    message = f"{op}: the weight takes {{}} channels, the data has {{}}"
    return equal_sizes(weight, weight.rank - 1, data, 1, message, 1)


def _padded(data: Term, attrs: Any, own: _Algorithm, rest: int) -> Term:
    """The data ``[n, c, ...]``, padded; ``rest``: elements added at the end of the transformed axes."""
    before, after = sides(attrs.padding, own.rank)
    width = ((before[k], after[k] + (rest if k in own.transformed else 0)) for k in range(own.rank))
    padded: Term = call(get("nn.pad"), data, number(0.0, data.dtype), attrs=PadAttrs(((0, 0), (0, 0), *width)))
    return padded


def _cut(padded: Term, own: _Algorithm) -> Term:
    """The tiles of padded data: ``[n, c, tiles ..., elements of a tile ...]``."""
    moved = own.transformed
    window = tuple(own.products if k in moved else own.kernel[k] for k in range(own.rank))
    sliding = get("sliding_window")
    strides = tuple(own.tile if k in moved else 1 for k in range(own.rank))
    tiles: Term = call(sliding, padded, attrs=sliding.attrs(2, window, strides))
    return tiles


def _joined(results: Term, own: _Algorithm) -> Term:
    """The results of all tiles ``[n, o, (tiles, results of a tile) ...]`` in rows."""
    joined: Term = call(
        get("reshape"), results, attrs=ReshapeAttrs((0, 0, *(-3 if k in own.transformed else 0 for k in range(own.rank))))
    )
    return joined


def _without_the_rest(results: Term, padded: Term, own: _Algorithm) -> Term:
    """The results without those beyond the padded data, of which the last tiles have some."""
    axes = tuple(2 + k for k in own.transformed)
    wanted = [padded.shape[axis] - (own.kernel[axis - 2] - 1) for axis in axes]
    known = tuple(size for size in map(const, wanted) if size is not None)
    if len(known) == len(axes):
        cut: Term = call(get("strided_slice"), results, attrs=SliceAttrs((0,) * len(axes), known, axes=axes))
        return cut
    last = tuple(1 - own.kernel[axis - 2] for axis in axes)
    like = call(get("strided_slice"), padded, attrs=SliceAttrs((0,) * len(axes), last, axes=axes))
    alike: Term = call(get("slice_like"), results, like, attrs=SliceLikeAttrs(axes))
    return alike


def _convolution(rank: int) -> Any:
    plain = data_layouts(rank)[0]

    def expand(inputs: tuple[Term, Term], attrs: Any) -> Term:
        own = _checked(attrs, rank)
        layout = layout_in(attrs.data_layout, data_layouts(rank), "data_layout")
        out = layout_in(attrs.out_layout or layout, data_layouts(rank), "out_layout")
        need_rank(inputs[0].operand, rank + 2, "the data", 0)
        data, weight = widened(relaid(inputs[0], layout, plain), inputs[1])
        weight = _checked_weight(weight, data, own, attrs)
        padded = _padded(data, attrs, own, 0)
        for axis, covered in enumerate(own.kernel, 2):
            check(
                le(covered, padded.shape[axis] + 1),
                f"along {SPATIAL[rank][axis - 2]} the window covers {covered} elements, the padded data has {{}}",
                padded.shape[axis],
                input=0,
            )
        tiles = _cut(_padded(data, attrs, own, own.tile - 1), own)
        results = _without_the_rest(_joined(_products(tiles, weight, own), own), padded, own)
        return relaid(cast(results, attrs.out_dtype or inputs[0].dtype), plain, out)

    return expand


def _products(tiles: Term, weight: Term, own: _Algorithm) -> Term:
    """The results of the tiles: ``[n, o, (tiles, results of a tile) ...]``."""
    matrices = winograd(own.tile, own.kernel[-1])
    moved = own.transformed
    kept = own.letters(_INSIDE, range(moved.start))
    products, positions = own.letters(_PRODUCTS, moved), own.letters(_TILES)
    tile = "nc" + positions + own.letters(_INSIDE)
    pairs = own.pairs(_INSIDE, _PRODUCTS)
    data = _transformed(tiles, tile, pairs, _constants(matrices.data, tiles.dtype), products + kept + "cn" + positions)
    kernels = _ordered(weight, own.weight_letters(), products + "o" + kept + "c")
    matrix = _merged(kernels, (len(moved), 1, len(kept) + 1))
    columns = _merged(data, (len(moved), len(kept) + 1, own.rank + 1))
    sums = call(get("nn.batch_matmul"), matrix, columns, attrs=BatchMatmulAttrs(transpose_b=False))
    sums = call(get("reshape_like"), sums, data, attrs=ReshapeLikeAttrs(2, 3, data.rank - own.rank - 1, data.rank))
    sums = call(get("reshape_like"), sums, data, attrs=ReshapeLikeAttrs(0, 1, 0, len(moved)))
    parts = (own.letters(_TILES, [k]) + (own.letters(_RESULTS, [k]) if k in moved else "") for k in range(own.rank))
    of_results = _constants(matrices.results, tiles.dtype)
    pairs = own.pairs(_PRODUCTS, _RESULTS)
    return _transformed(sums, products + "on" + positions, pairs, of_results, "no" + "".join(parts))


def _merged(x: Term, counts: tuple[int, ...]) -> Term:
    """``x`` with each ``counts`` of neighbouring axes merged into one."""
    while max(counts) > 1:
        shape = tuple(number for count in counts for number in (*(-3,) * (count // 2), *(0,) * (count % 2)))
        x = call(get("reshape"), x, attrs=ReshapeAttrs(shape))
        counts = tuple((count + 1) // 2 for count in counts)
    return x


def _weight_rule(rank: int) -> Any:
    name = f"nn.contrib_conv{rank}d_winograd_without_weight_transform"

    def weight(attrs: Any, data: TensorType) -> tuple[TensorType, ...]:
        stated(name, attrs, "channels", "kernel_size")
        own = _checked(attrs, rank)
        channels = in_layout(data.shape, layout_in(attrs.data_layout, data_layouts(rank), "data_layout"))[1]
        return (TensorType.of((*_weight_shape(own), attrs.channels, channels), data.dtype),)

    return from_data(weight, rank + 2)


for _rank, _attrs in ((2, WinogradConv2dAttrs), (3, WinogradConv3dAttrs)):
    _form = f"nn.contrib_conv{_rank}d_winograd"
    _axes = ", ".join(SPATIAL[_rank])
    composite(
        name=f"{_form}_weight_transform",
        doc=f"The weight `[O, I, {_axes}]` of `nn.conv{_rank}d` transformed for Winograd's algorithm: the products along each "
        "spatial axis first, `tile_size + kernel - 1` of them, then O and I.",
        inputs=("weight",),
        attrs=WinogradWeightAttrs,
        dtype=like_inputs(f"{_form}_weight_transform", ("weight",), FLOATS),
        expand=_weight_transform(_rank),
    )
    composite(
        name=f"{_form}_without_weight_transform",
        doc=f"`nn.conv{_rank}d` by Winograd's algorithm with a weight that `{_form}_weight_transform` has transformed: fewer "
        "products, and more rounding errors as `tile_size` grows.",
        inputs=("data", "weight"),
        attrs=_attrs,
        dtype=product_rule(f"{_form}_without_weight_transform", integers=()),
        expand=_convolution(_rank),
        infer_inputs=_weight_rule(_rank),
    )
