"""Dense layers whose weight is stored in panels of columns, as the tiles of a product read it."""

from __future__ import annotations

from typing import Any

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import Dim, product
from ...core.conditions import Conditions, condition
from ...core.dtype_rules import FLOATS, require, require_same
from ...core.implementation import Blocks, Kernel, OpCall
from ...core.op import Op, OpPattern
from ...core.tensor_types import ITEMSIZE
from ...kernels.matmul import cuda, panels
from ...native.jit.products.register_tile import GROUP_PANELS, panel_width
from ...strategy.products.matmul_strategy import is_one_float


@frozen
class DensePanelsAttrs:
    """``units``: the number of columns; the last panel may hold fewer than it has room for."""

    units: int


def _rule(dtypes: tuple[Any, ...], attrs: DensePanelsAttrs) -> str:
    dtype = require_same("nn.dense_panels", dtypes, (0, 1), ("data", "weight"))
    require("nn.dense_panels", dtype, FLOATS, 0, "data")
    return dtype


def _fits_tiles(call: OpCall) -> Conditions:
    """The condition that the panels have the width that tiles read."""
    weight = call.inputs[1]
    return (condition(weight.shape[2], "==", panel_width(ITEMSIZE[weight.dtype])),)


def _blocks(call: OpCall) -> Dim:
    """The number of blocks of ``kernels.matmul.panels.dense_panels``."""
    *rows, columns = call.outputs[0].shape
    group = GROUP_PANELS * panel_width(ITEMSIZE[call.inputs[1].dtype])
    return ((product(rows) + panels.ROWS - 1) // panels.ROWS) * ((columns + group - 1) // group)


def _work(call: OpCall) -> Dim:
    """Multiplications, which take one unit of cost or two each; reading the panels costs as much as two rows."""
    *rows, columns = call.outputs[0].shape
    return 2 * (product(rows) + 2) * call.inputs[0].shape[-1] * columns


_COMMON: dict[str, Any] = {"attrs": lambda attrs: {}, "views": ("rows", "", "rows")}

Op(
    name="nn.dense_panels",
    doc="`nn.dense` with the weight in panels `[panels, k, width]` of `width` rows, turned; the last panel is padded: "
    "`nn.dense_panels([[1.0, 2.0]], [[[1.0, 3.0], [2.0, 4.0]]], units=2) = [[5.0, 11.0]]`.  The compiler stores constant weights "
    "so.",
    inputs=("data", "weight"),
    attrs=DensePanelsAttrs,
    pattern=OpPattern.OPAQUE,
    dtype=_rule,
    kernels=(
        Kernel(
            "tiles",
            panels.dense_panels,
            takes=is_one_float,
            fits=_fits_tiles,
            blocks=Blocks(_blocks, _work),
            **_COMMON,
        ),
        Kernel("loops", panels.dense_panels_by_loops, **_COMMON),
        Kernel("gemm", None, cuda=cuda.dense_panels),
    ),
)
