"""Choices among implementations of convolution that depend on the registers of the machine."""

from __future__ import annotations

import pytest

from relayvm.ops.core.implementation import OpCall
from relayvm.ops.core.op import get
from relayvm.ops.core.tensor_types import Tensor
from relayvm.ops.native import vector_registers
from relayvm.ops.strategy.choice import choose
from relayvm.shape_funcs.symbolic.dim import Dim, dim, sym

NARROW, WIDE = (16, 32), (32, 64)


def choice_of(
    registers: tuple[int, int], channels: int, groups: int, columns: int | Dim, stride: int, taps: int = 3, rows: int = 9
) -> str:
    """The choice for a window of ``taps`` x ``taps`` of grouped channels, on a machine with ``registers``."""
    conv, weight = get("nn.conv2d"), (channels, channels // groups, taps, taps)
    shapes = (2, channels, rows * stride, dim(columns) * stride), weight, (2, channels, rows, columns)
    *given, out = (Tensor("float32", tuple(map(dim, shape))) for shape in shapes)
    attrs = conv.attrs(strides=stride, padding=taps // 2, groups=groups)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vector_registers, "registers", lambda: registers)
        # with preferences, of which there are none, the choice is not remembered
        return str(choose(OpCall(conv, attrs, tuple(given), (out,)), lambda call: ()))


@pytest.mark.parametrize(
    ("channels", "groups", "columns", "stride", "narrow", "wide"),
    [
        (64, 8, 4, 1, "groups", "tiles"), (64, 8, 32, 1, "shifts", "tiles"), (64, 8, 48, 1, "shifts", "shifts"),
        (64, 8, 4, 2, "groups", "tiles"), (64, 8, 16, 2, "groups", "tiles"), (64, 8, 48, 2, "groups", "shifts"),
        (64, 4, 4, 1, "groups", "tiles"), (8, 1, 4, 1, "groups", "tiles"), (64, 16, 4, 1, "planes", "planes"),
        (96, 8, 8, 1, "tiles", "tiles"), (64, 2, 9, 2, "groups", "tiles"), (96, 2, 9, 2, "tiles", "tiles"),
    ],
)  # fmt: skip
def test_few_channels_of_a_group_are_shifted_by_narrow_registers(
    channels: int, groups: int, columns: int, stride: int, narrow: str, wide: str
) -> None:
    assert choice_of(NARROW, channels, groups, columns, stride) == narrow
    assert choice_of(WIDE, channels, groups, columns, stride) == wide


def test_unknown_columns_decide_at_run_time() -> None:
    of_strides = choice_of(NARROW, 64, 8, sym("w"), 2)
    assert of_strides.startswith("groups if w <= 112 else shifts if ") and of_strides.endswith(" else tiles")
    assert choice_of(WIDE, 64, 8, sym("w"), 1).startswith("shifts if w >= 48")
    assert choice_of(NARROW, 64, 8, 4, 1, taps=1) == "tiles"


@pytest.mark.parametrize(
    ("rows", "columns", "stride", "taps", "narrow", "wide"),
    [
        (3, 2, 1, 3, "rows", "tiles"), (3, 4, 2, 3, "rows", "tiles"), (3, 4, 2, 1, "rows", "tiles"), (3, 4, 1, 1, "rows", "rows"),
        (1, 13, 1, 3, "tiles", "tiles"),
    ],
)  # fmt: skip
def test_windows_of_few_positions_are_rows_by_narrow_registers(
    rows: int, columns: int, stride: int, taps: int, narrow: str, wide: str
) -> None:
    assert choice_of(NARROW, 20, 1, columns, stride, taps, rows) == narrow
    assert choice_of(WIDE, 20, 1, columns, stride, taps, rows) == wide
