"""Tiles of products with a factor, a bias and bounds: for the registers of any machine, and the twin; nothing else is written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from relayvm.ops.native.jit.convolution.clipped_tile import Clip, multiply_clipped
from relayvm.ops.native.jit.products.register_tile import GROUP_PANELS, TILE_ROWS, panel_width

from .front_end.machine_code import compiled, python_function
from .test_panel_products import MACHINES, RECORDS

CALL = """
def f(
    a, n_a, a_at, a_row, panels, n_panels, panel_at, panel_step, panel_row, out, n_out, out_at, out_row, rows, inner, columns,
    bias, n_bias, bias_at, later_at, later_row, is_scaled, is_shifted,
):
    x, y, z, b = array_{t}(a, n_a), array_{t}(panels, n_panels), array_{t}(out, n_out), array_{t}(bias, n_bias)
    multiply_clipped(
        Rows(x, a_at, a_row), Panels(y, panel_at, panel_step, panel_row), Rows(z, out_at, out_row), rows, inner, columns,
        Clip(b, b, bias_at, -0.5, 1.25, is_scaled != 0, is_shifted != 0), Rows(x, later_at, later_row),
    )
    return 0
"""


def multiply(machine: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """``multiply_clipped`` for the registers of a machine, or as plain Python."""
    function = python_function(CALL.format(t=dtype), multiply_clipped=multiply_clipped, Clip=Clip, **RECORDS)
    if machine == "python":
        return function
    monkeypatch.setattr("relayvm.ops.native.vector_registers.registers", lambda: MACHINES[machine])
    return compiled(function)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("machine", [*MACHINES, "python"])
@pytest.mark.extensive(machine=["avx", "python"], dtype=["float32"])
def test_a_tile_is_a_limited_product(monkeypatch: pytest.MonkeyPatch, machine: str, dtype: str) -> None:
    rng, call, width = np.random.default_rng(0), multiply(machine, dtype, monkeypatch), panel_width(np.dtype(dtype).itemsize)
    most = GROUP_PANELS * width
    for inner in (0, 1, 5):
        a, bias = (rng.standard_normal(shape).astype(dtype) for shape in ((TILE_ROWS + 1, inner + 2), (TILE_ROWS + 3,)))
        for rows in range(1, TILE_ROWS + 1):
            for columns in (0, 1, width - 1, width + 1, most // 2 + 3, most + 3):
                panels = rng.standard_normal((-(-columns // width), inner + 1, width)).astype(dtype)
                matrix = panels[:, 1:].transpose(1, 0, 2).reshape(inner, len(panels) * width)[:, :columns]
                found = rng.standard_normal((rows + 2, most + 5)).astype(dtype)
                wanted = found.copy()
                product, (is_scaled, is_shifted) = a[1 : 1 + rows, 1 : 1 + inner] @ matrix, divmod(columns % 4, 2)
                of_rows = bias[3 : 3 + rows, None]
                limited = product * (of_rows if is_scaled else 1) + (of_rows if is_shifted else 0)
                wanted[1 : 1 + rows, 2 : 2 + columns] = np.clip(limited, -0.5, 1.25)
                call(
                    a.ctypes.data, a.size, inner + 2 + 1, inner + 2, panels.ctypes.data, panels.size, width,
                    (inner + 1) * width, width, found.ctypes.data, found.size, most + 5 + 2, most + 5, rows, inner, columns,
                    bias.ctypes.data, bias.size, 3, 0, (inner + 2) * (rows % 2), is_scaled, is_shifted,
                )  # fmt: skip
                np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
