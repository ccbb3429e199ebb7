"""Dense layers whose weight has 2, 4 or 8 bits a number, in blocks along the inner axis with a scale and a zero point each."""

from __future__ import annotations

from typing import Any

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.argument_checks import need_rank, same_size
from ....shape_funcs.symbolic.dim import Dim, const, dim, product
from ....shape_funcs.symbolic.dim_operations import min_
from ....shape_funcs.symbolic.registry import ShapeError
from ...composition.composite import Term, call, cast, composite, equal_sizes, number, table
from ...core.conditions import Conditions, condition
from ...core.dtype_rules import FLOATS, one_of, require
from ...core.implementation import Blocks, Kernel, OpCall, Scratch
from ...core.op import Op, OpPattern, TypeRelError, get
from ...kernels.matmul.panels import INNER, ROWS
from ...kernels.weight_bits import band_products, cpu, cuda, tiles
from ...kernels.weight_bits.weight_layout import BITS, COLUMNS, LEAST_BLOCK, MOST_BLOCK
from ...native.jit.products.register_tile import GROUP_PANELS
from ...native.matrix_tiles import CONFIG_BYTES, TILE_ROWS
from ...native.static_values import StaticWord
from ..arithmetic.broadcast import BITWISE_AND, RIGHT_SHIFT
from ..movement.transform import STRIDED_SLICE, ExpandDimsAttrs, ReshapeAttrs, SliceAttrs

NAME = "nn.dense_bits"
IN_PANELS = "nn.dense_bit_panels"
#: The most rows for which a machine without an instruction for dot products of bytes multiplies row by row: rows of float32, and
#: rows of three digits, of which a product is three.
MOST_ROWS, MOST_ROWS_IN_DIGITS = 8, 4


@frozen
class DenseBitsAttrs:
    """``bits``: of a number, 2, 4 or 8; ``block``: the numbers of a block, a power of two from 16 on; ``inner``: the numbers of
    a row, of which the last block may have fewer than it has room for; ``rounds_data``: whether the data may be rounded to 8 bits
    in each block, which is faster and has errors of up to 1/254 of the largest of a block."""

    bits: int
    block: int
    inner: int
    rounds_data: bool = False


@frozen
class DenseBitPanelsAttrs:
    """``units``: the number of columns; ``bits``, ``rounds_data``: as in DenseBitsAttrs; ``block``: at most 256."""

    units: int
    bits: int
    block: int
    rounds_data: bool = False


# ---- weights as they are given ---------------------------------------------------------------------------------------


def _rule(dtypes: tuple[Any, ...], attrs: DenseBitsAttrs) -> str:
    data, weight, scales, zeros = dtypes
    require(NAME, data, FLOATS, 0, "data")
    require(NAME, weight, ("uint8",), 1, "weight")
    require(NAME, scales, FLOATS, 2, "scales")
    require(NAME, zeros, ("uint8", *FLOATS), 3, "zero_points")
    one_of(NAME, "bits", attrs.bits, BITS)
    if attrs.block < LEAST_BLOCK or attrs.block & (attrs.block - 1):
        raise TypeRelError(f"{NAME}: block is {attrs.block}, which is no power of two from {LEAST_BLOCK} on")
    return str(data)


def _numbers(packed: Term, bits: int) -> Term:
    """The numbers in the bytes of the last of three axes, the lowest bits first."""
    if bits == 8:
        return packed
    single = call(get("expand_dims"), packed, attrs=ExpandDimsAttrs(packed.rank))
    shifted = call(RIGHT_SHIFT, single, table(tuple(range(0, 8, bits)), "uint8"))
    apart = call(BITWISE_AND, shifted, number(2**bits - 1, "uint8"))
    joined: Term = call(get("reshape"), apart, attrs=ReshapeAttrs((*(0,) * (packed.rank - 1), -3)))
    return joined


def _size(term: Term, axis: int, wanted: int, what: str, input: int) -> None:
    """Check a size that must be known.  Raises ShapeError."""
    found = const(term.shape[axis])
    if found is None:
        raise ShapeError(f"axis {axis} of {what} must have size {wanted}, known at compile time", input=input)
    same_size(dim(found), dim(wanted), f"axis {axis} of {what} has size {{}} instead of {{}}", input, axis)


def _column(term: Term) -> Term:
    column: Term = call(get("expand_dims"), term, attrs=ExpandDimsAttrs(2))
    return column


def _of_rows(term: Term, weight: Term, what: str, input: int) -> Term:
    return equal_sizes(term, 0, weight, 0, f"{NAME}: {what} have {{}} rows, the weight has {{}}", input)


def _zeros(weight: Term, zeros: Term, blocks: int, bits: int, dtype: str) -> Term:
    """The zero points, which broadcast to numbers ``[n, blocks, block]``."""
    what = "the zero points"
    if zeros.rank == 0:
        return cast(zeros, dtype)
    need_rank(zeros.operand, 2, what, 3)
    zeros = _of_rows(zeros, weight, what, 3)
    if zeros.dtype != "uint8":
        _size(zeros, 1, blocks, what, 3)
        return cast(_column(zeros), dtype)
    _size(zeros, 1, -(-blocks * bits // 8), what, 3)
    own = call(STRIDED_SLICE, _numbers(zeros, bits), attrs=SliceAttrs((0,), (blocks,), axes=(1,)))
    return cast(_column(own), dtype)


def _expand(inputs: tuple[Term, ...], attrs: DenseBitsAttrs) -> Term:
    data, weight, scales, zeros = inputs
    need_rank(data.operand, 1, "the data", 0, at_least=True)
    need_rank(weight.operand, 3, "the weight", 1)
    need_rank(scales.operand, 2, "the scales", 2)
    if attrs.inner < 1:
        raise ShapeError(f"inner must be at least 1, not {attrs.inner}")
    blocks = -(-attrs.inner // attrs.block)
    _size(weight, 1, blocks, "the weight", 1)
    _size(weight, 2, attrs.block * attrs.bits // 8, "the weight", 1)
    _size(scales, 1, blocks, "the scales", 2)
    same_size(data.shape[-1], dim(attrs.inner), "the data have {} elements, a row of the weight has {}", 0, data.rank - 1)
    wide = "float64" if data.dtype == "float64" else "float32"
    own = cast(_numbers(weight, attrs.bits), wide) - _zeros(weight, zeros, blocks, attrs.bits, wide)
    rows = call(get("reshape"), own * cast(_column(_of_rows(scales, weight, "the scales", 2)), wide), attrs=ReshapeAttrs((0, -3)))
    plain = call(STRIDED_SLICE, rows, attrs=SliceAttrs((0,), (attrs.inner,), axes=(1,)))
    return cast(call(get("nn.dense"), cast(data, wide), plain), data.dtype)


composite(
    name=NAME,
    doc="`nn.dense` with a weight of few bits: uint8 `[n, blocks, block * bits / 8]`, the lowest bits first. Row n is "
    "`(number - zero point) * scale`, with a scale `[n, blocks]` for each block. Zero points: one for all; floats `[n, blocks]`; "
    "or packed as the weight, uint8 `[n, blocks * bits / 8]`, rounded up. On the host the compiler stores constant weights as "
    "`nn.dense_bit_panels` reads them.",
    inputs=("data", "weight", "scales", "zero_points"),
    attrs=DenseBitsAttrs,
    dtype=_rule,
    expand=_expand,
)


# ---- panels ----------------------------------------------------------------------------------------------------------

#: The numbers of a block of a panel.
_BLOCKS = tuple(LEAST_BLOCK << n for n in range((MOST_BLOCK // LEAST_BLOCK).bit_length()))


def _panels_rule(dtypes: tuple[Any, ...], attrs: DenseBitPanelsAttrs) -> str:
    data, weight, scales, zeros = dtypes
    require(IN_PANELS, data, ("float32",), 0, "data")
    require(IN_PANELS, weight, ("uint8",), 1, "weight")
    require(IN_PANELS, scales, ("float32",), 2, "scales")
    require(IN_PANELS, zeros, ("uint8", "float32"), 3, "zero_points")
    one_of(IN_PANELS, "bits", attrs.bits, BITS)
    one_of(IN_PANELS, "block", attrs.block, _BLOCKS)
    return "float32"


def _rows(call: OpCall) -> Dim:
    return product(call.outputs[0].shape[:-1])


def _bands(call: OpCall) -> Dim:
    return (_rows(call) + cpu.BAND_ROWS - 1) // cpu.BAND_ROWS


def _blocks(call: OpCall) -> Dim:
    """The number of blocks of ``kernels.weight_bits.cpu``."""
    return _bands(call) * ((call.inputs[1].shape[0] + cpu.GROUP_PANELS - 1) // cpu.GROUP_PANELS)


def _work(call: OpCall) -> Dim:
    """Multiplications, which take one unit of cost or two each; reading the panels costs as much as two rows."""
    return 2 * (_rows(call) + 2) * call.inputs[0].shape[-1] * call.outputs[0].shape[-1]


def _blocks_of_band(call: OpCall) -> Dim:
    """The blocks of the rows of a band, in whole tiles: the last tile reads rows that it has no use for."""
    tiles = (min_(_rows(call), cpu.BAND_ROWS) + TILE_ROWS - 1) // TILE_ROWS
    return tiles * TILE_ROWS * call.inputs[1].shape[1]


def _words_of_band(call: OpCall) -> Dim:
    attrs, digits = call.attrs, _digits(call.attrs)
    words: int = attrs.block // 4 * max(digits, band_products.digits_in_tiles(attrs.bits, attrs.block, digits))
    return _blocks_of_band(call) * words


def _blocks_of_tiles(call: OpCall) -> Dim:
    """The number of blocks of ``kernels.weight_bits.tiles``."""
    return ((_rows(call) + ROWS - 1) // ROWS) * ((call.inputs[1].shape[0] + GROUP_PANELS - 1) // GROUP_PANELS)


def _panel_elements(call: OpCall) -> Dim:
    """The number of elements of a group of panels as float32."""
    inner = min_(call.inputs[1].shape[1] * call.attrs.block, INNER)
    return (inner + 1) * (GROUP_PANELS * COLUMNS)


def _pays_digits(call: OpCall) -> Conditions:
    """The condition of few rows on machines that multiply rows of float32, or three digits, slower than tiles of float32."""
    in_digits = cpu.multiplies_digits(call.attrs.bits)
    if cpu.adds_dots() or (in_digits and call.attrs.rounds_data):
        return ()
    return (condition(_rows(call), "<=", MOST_ROWS_IN_DIGITS if in_digits else MOST_ROWS),)


def _digits(attrs: DenseBitPanelsAttrs) -> int:
    return 1 if attrs.rounds_data else 3


def _statics(attrs: DenseBitPanelsAttrs) -> dict[str, Any]:
    given = {"bits": attrs.bits, "block": attrs.block, "digits": _digits(attrs)}
    return {name: StaticWord(value) for name, value in given.items()}


Op(
    name=IN_PANELS,
    doc="`nn.dense` of float32 with a weight of few bits in panels of 16 columns: uint8 `[panels, blocks, 2 * block * bits]`. "
    "Byte j of a lane of 4 bytes of a column has the numbers j, 4 + j, 8 + j ... of its block, the first in the lowest bits. "
    "Scales `[panels, blocks, 16]`; zero points of the same shape, or `[1, 1, 16]`. The compiler stores constant weights of "
    "`nn.dense_bits` so.",
    inputs=("data", "weight", "scales", "zero_points"),
    attrs=DenseBitPanelsAttrs,
    pattern=OpPattern.OPAQUE,
    dtype=_panels_rule,
    kernels=(
        Kernel(
            "digits",
            cpu.dense_bits_rows,
            attrs=_statics,
            views=("rows", "", "", "", "rows"),
            scratch=(
                Scratch("int32", length=_words_of_band),
                Scratch("float32", length=lambda call: _blocks_of_band(call) * call.attrs.block),
                Scratch("float32", length=lambda call: 2 * _blocks_of_band(call)),
                Scratch("uint8", length=CONFIG_BYTES),
                Scratch("uint8", length=band_products.NUMBERS),
                Scratch("int32", length=band_products.PRODUCTS),
                Scratch("float32", length=cpu.GROUP_PANELS * cpu.BAND_ROWS * COLUMNS),
            ),
            blocks=Blocks(_blocks, _work),
            finishes=1,
            pays=_pays_digits,
        ),
        Kernel(
            "tiles",
            tiles.dense_bits_tiles,
            attrs=lambda attrs: {"bits": StaticWord(attrs.bits), "block": StaticWord(attrs.block)},
            views=("rows", "", "", "", "rows"),
            scratch=(Scratch("float32", length=_panel_elements),),
            blocks=Blocks(_blocks_of_tiles, _work),
            finishes=1,
        ),
        Kernel("loop", None, cuda=cuda.dense_bit_panels),
    ),
)
