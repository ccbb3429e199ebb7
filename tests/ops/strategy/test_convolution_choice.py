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


def choice_of(registers: tuple[int, int], channels: int, groups: int, columns: int | Dim, stride: int, taps: int = 3) -> str:
    """The choice for a window of ``taps`` x ``taps`` of grouped channels, on a machine with ``registers``."""
    conv, rows, weight = get("nn.conv2d"), 9, (channels, channels // groups, taps, taps)
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
        (64, 8, 4, 1, "shifts", "tiles"), (64, 8, 32, 1, "shifts", "tiles"), (64, 8, 48, 1, "shifts", "shifts"),
        (64, 8, 4, 2, "shifts", "tiles"), (64, 8, 16, 2, "tiles", "tiles"), (64, 8, 48, 2, "shifts", "shifts"),
        (64, 4, 4, 1, "tiles", "tiles"), (8, 1, 4, 1, "shifts", "tiles"), (64, 16, 4, 1, "planes", "planes"),
    ],
)  # fmt: skip
def test_few_channels_of_a_group_are_shifted_by_narrow_registers(
    channels: int, groups: int, columns: int, stride: int, narrow: str, wide: str
) -> None:
    assert choice_of(NARROW, channels, groups, columns, stride) == narrow
    assert choice_of(WIDE, channels, groups, columns, stride) == wide


def test_unknown_columns_decide_at_run_time() -> None:
    of_strides = choice_of(NARROW, 64, 8, sym("w"), 2)
    assert of_strides.startswith("shifts if ") and of_strides.endswith(" else tiles")
    assert choice_of(WIDE, 64, 8, sym("w"), 1).startswith("shifts if w >= 48")
    assert choice_of(NARROW, 64, 8, 4, 1, taps=1) == "tiles"
