"""Products with a constant matrix of signed bytes that is stored in panels of columns, as tiles of bytes read it."""

from __future__ import annotations

from typing import Any

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import Dim, product
from ....shape_funcs.symbolic.dim_operations import min_
from ...core.dtype_rules import BYTES, require
from ...core.implementation import Blocks, Kernel, OpCall, Scratch
from ...core.op import Op, OpPattern
from ...kernels.byte_products import panels
from ...kernels.byte_products.byte_tile import COLUMNS, DEPTH
from ...kernels.matmul import cuda
from ...native.matrix_tiles import CONFIG_BYTES


@frozen
class DenseBytePanelsAttrs:
    """No attributes."""


def _rule(dtypes: tuple[Any, ...], attrs: Any) -> str:
    for number, (name, allowed) in enumerate((("data", BYTES), ("weight", ("int8",)), ("sums", ("int32",)))):
        require("nn.dense_byte_panels", dtypes[number], allowed, number, name)
    return "int32"


def _rows(call: OpCall) -> Dim:
    return product(call.outputs[0].shape[:-1])


def _blocks(call: OpCall) -> Dim:
    """The number of blocks of ``kernels.byte_products.panels.multiply_blocks``."""
    groups = (call.outputs[0].shape[-1] + panels.GROUP - 1) // panels.GROUP
    return (_rows(call) + panels.BAND - 1) // panels.BAND * groups


def _work(call: OpCall) -> Dim:
    """Multiplications, of which a unit of cost has eight; reading the panels costs as much as eight rows."""
    return (_rows(call) + 8) * call.inputs[0].shape[-1] * call.outputs[0].shape[-1] // 8


def _copied(call: OpCall) -> Dim:
    """The most bytes of a band of copied rows."""
    steps = (call.inputs[0].shape[-1] + DEPTH - 1) // DEPTH
    return min_(_rows(call), panels.BAND) * (steps * DEPTH * panels.WIDENING)


Op(
    name="nn.dense_byte_panels",
    doc=f"`nn.dense` of bytes, exact in int32, with a weight of int8 in panels `[panels, steps, {COLUMNS}, {DEPTH}]`: rows of "
    f"the weight side by side, each with {DEPTH} of its elements a step, padded with zeros; `sums` has the sum of each row.  The "
    "compiler stores constant weights so.",
    inputs=("data", "weight", "sums"),
    attrs=DenseBytePanelsAttrs,
    pattern=OpPattern.OPAQUE,
    dtype=_rule,
    kernels=(
        Kernel(
            "tiles",
            panels.dense_byte_panels,
            attrs=lambda attrs: {},
            views=("rows", "", "", "dims"),
            blocks=Blocks(_blocks, _work),
            scratch=(
                Scratch("uint8", length=_copied),
                Scratch("uint8", length=CONFIG_BYTES),
                Scratch("int32", length=panels.MOST_ROWS * panels.GROUP),
            ),
            finishes=1,
            apart="over",
        ),
        Kernel("gemm", None, cuda=cuda.dense_byte_panels),
    ),
)
