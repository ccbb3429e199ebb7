"""Dense layers whose weight is stored in panels of columns, as the tiles of a product read it."""

from __future__ import annotations

from typing import Any

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import Dim, product
from ....shape_funcs.symbolic.dim_operations import min_
from ...core.conditions import Conditions, condition
from ...core.dtype_rules import FLOATS, require, require_same
from ...core.implementation import Blocks, Kernel, OpCall, Scratch
from ...core.op import Op, OpPattern
from ...core.tensor_types import HALVES, ITEMSIZE
from ...kernels.matmul import cuda, half_panels, panels
from ...native.jit.products.register_tile import GROUP_PANELS, panel_width
from ...strategy.products.matmul_strategy import is_one_float


@frozen
class DensePanelsAttrs:
    """``units``: the number of columns; the last panel may hold fewer than it has room for."""

    units: int


def _rule(dtypes: tuple[Any, ...], attrs: DensePanelsAttrs) -> str:
    require("nn.dense_panels", dtypes[0], FLOATS, 0, "data")
    if not _widens(dtypes):
        require_same("nn.dense_panels", dtypes, (0, 1), ("data", "weight"))
    return str(dtypes[0])


def _widens(dtypes: tuple[Any, ...]) -> bool:
    """Whether data of float32 meets panels of halves, whose elements become float32 where they are read."""
    return dtypes[0] == "float32" and dtypes[1] in HALVES


def _fits_tiles(call: OpCall) -> Conditions:
    """The condition that the panels have the width that tiles read."""
    weight = call.inputs[1]
    return (condition(weight.shape[2], "==", panel_width(ITEMSIZE[weight.dtype])),)


def _blocks(call: OpCall) -> Dim:
    """The number of blocks of ``kernels.matmul.panels.dense_panels``."""
    *rows, columns = call.outputs[0].shape
    group = GROUP_PANELS * panel_width(ITEMSIZE[call.inputs[1].dtype])
    return ((product(rows) + panels.ROWS - 1) // panels.ROWS) * ((columns + group - 1) // group)


def _widened_elements(call: OpCall) -> Dim:
    """The number of elements of the buffer of ``kernels.matmul.half_panels``."""
    inner = min_(call.inputs[0].shape[-1], half_panels.WIDENED)
    return (inner + 1) * (GROUP_PANELS * panel_width(ITEMSIZE[call.inputs[1].dtype]))


def _work(call: OpCall) -> Dim:
    """Multiplications, which take one unit of cost or two each; reading the panels costs as much as two rows."""
    *rows, columns = call.outputs[0].shape
    return 2 * (product(rows) + 2) * call.inputs[0].shape[-1] * columns


_COMMON: dict[str, Any] = {"attrs": lambda attrs: {}, "views": ("rows", "", "rows")}

Op(
    name="nn.dense_panels",
    doc="`nn.dense` with the weight in panels `[panels, k, width]` of `width` rows, turned; the last panel is padded: "
    "`nn.dense_panels([[1.0, 2.0]], [[[1.0, 3.0], [2.0, 4.0]]], units=2) = [[5.0, 11.0]]`.  The compiler stores constant weights "
    "so.  Data of float32 also takes panels of halves.",
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
        Kernel(
            "half_tiles",
            half_panels.dense_half_panels,
            takes=lambda call: _widens(call.dtypes),
            fits=_fits_tiles,
            blocks=Blocks(_blocks, _work),
            scratch=(Scratch("float32", length=_widened_elements),),
            **_COMMON,
        ),
        Kernel("loops", panels.dense_panels_by_loops, **_COMMON),
        Kernel("gemm", None, cuda=cuda.dense_panels),
    ),
)
