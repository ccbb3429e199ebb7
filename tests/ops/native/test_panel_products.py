"""Tiles of products: for the registers of any machine, every number of rows and columns, and nothing outside is written."""

from __future__ import annotations

import platform
import re
from typing import Any

import numpy as np
import pytest

from relayvm.ops.native.front_end.compilation import Compilation
from relayvm.ops.native.jit.native_compiler import EMITTED_LOOPS
from relayvm.ops.native.jit.products import register_tile
from relayvm.ops.native.jit.products.operands import Ahead, Panels, Rows
from relayvm.ops.native.jit.products.panel_products import multiply_panels
from relayvm.ops.native.jit.products.register_tile import GROUP_PANELS, TILE_ROWS, panel_width

from .front_end.machine_code import compiled, python_function

#: The number of vector registers, and their bytes.
MACHINES = {"neon": (32, 16), "sse": (16, 16), "avx": (16, 32), "avx512": (32, 64)}
#: Processors by the registers that code is generated for.
PROCESSORS = {"avx": "haswell", "avx512": "skylake-avx512"}
#: The operands of tiles, by name.
RECORDS = {"Rows": Rows, "Panels": Panels, "Ahead": Ahead}

CALL = """
def f(
    a, n_a, a_at, a_row, panels, n_panels, panel_at, panel_step, panel_row, out, n_out, out_at, out_row, rows, inner, columns,
    add, ahead, first, end, later_at, later_row,
):
    x, y, z = array_{dtype}(a, n_a), array_{dtype}(panels, n_panels), array_{dtype}(out, n_out)
    multiply_panels(
        Rows(x, a_at, a_row), Panels(y, panel_at, panel_step, panel_row), Rows(z, out_at, out_row), rows, inner, columns, add,
        Ahead(ahead, first, end, Rows(x, later_at, later_row)),
    )
    return 0
"""


def machine_code(monkeypatch: pytest.MonkeyPatch, machine: str, dtype: str) -> Any:
    """``multiply_panels`` compiled for the registers of a machine."""
    monkeypatch.setattr("relayvm.ops.native.vector_registers.registers", lambda: MACHINES[machine])
    code = compiled(python_function(CALL.format(dtype=dtype), multiply_panels=multiply_panels, **RECORDS))

    def multiply(
        a: Any, a_at: int, a_row: int, panels: Any, panel_at: int, step: int, row: int, out: Any, out_at: int, *rest: int
    ) -> None:
        positions = [word for x, at in ((a, a_at), (panels, panel_at), (out, out_at)) for word in (x.ctypes.data, x.size, at)]
        code(*positions[:3], a_row, *positions[3:6], step, row, *positions[6:], *rest)

    return multiply


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.extensive(machine=["avx512"], dtype=["float32"])
def test_a_tile_is_a_product(monkeypatch: pytest.MonkeyPatch, machine: str, dtype: str) -> None:
    rng, multiply = np.random.default_rng(0), machine_code(monkeypatch, machine, dtype)
    width = panel_width(np.dtype(dtype).itemsize)
    most = GROUP_PANELS * width
    for inner in (0, 1, 5):
        a = rng.standard_normal((TILE_ROWS + 1, inner + 2)).astype(dtype)
        for rows in range(1, TILE_ROWS + 1):
            for columns in (1, width - 1, width, width + 1, most // 2 + 3, most, most + 3):
                # as many panels as columns need: nothing behind them may be read
                panels = rng.standard_normal((-(-columns // width), inner + 1, width)).astype(dtype)
                matrix = panels[:, 1:].transpose(1, 0, 2).reshape(inner, len(panels) * width)
                for add in (0, 7):
                    before = rng.standard_normal((rows + 2, most + 5)).astype(dtype)
                    wanted, found = before.copy(), before.copy()
                    block = wanted[1 : 1 + rows, 2 : 2 + columns]
                    block[...] = (block if add else 0) + a[1 : 1 + rows, 1 : 1 + inner] @ matrix[:, :columns]
                    given = (
                        panels,
                        width,
                        (inner + 1) * width,
                        width,
                        found,
                        most + 5 + 2,
                        most + 5,
                        rows,
                        inner,
                        columns,
                        add,
                        width,
                        1,
                        3,
                        7,
                        inner + 2,
                    )
                    multiply(a, inner + 2 + 1, inner + 2, *given)
                    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
                    outside = np.ones(before.shape, bool)
                    outside[1 : 1 + rows, 2 : 2 + columns] = False
                    np.testing.assert_array_equal(found[outside], before[outside])


def test_a_matrix_by_rows_is_multiplied_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    a, b = rng.integers(-9, 9, (5, 7)).astype("float32"), rng.integers(-9, 9, (7, 90)).astype("float32")
    for machine in MACHINES:
        multiply = machine_code(monkeypatch, machine, "float32")
        for columns in (64, 50, 33, 17, 3):
            found = np.zeros((5, columns), "float32")
            multiply(a, 0, 7, b, 90 - columns, 16, 90, found, 0, columns, 5, 7, columns, 0, 0, 4, 4, 0, 0)
            np.testing.assert_array_equal(found, a @ b[:, 90 - columns :])


def test_registers_hold_every_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    for registers, nbytes in MACHINES.values():
        monkeypatch.setattr("relayvm.ops.native.vector_registers.registers", lambda of=(registers, nbytes): of)
        for rows in range(1, TILE_ROWS + 1):
            tile = register_tile.register_tile(4, rows)
            assert tile.vectors >= 1 and 64 % tile.width == 0
            assert rows * tile.vectors + min(rows, tile.vectors) + 1 <= registers


@pytest.mark.split(2)
@pytest.mark.skipif(platform.machine() != "x86_64", reason="assembly of x86-64")
@pytest.mark.parametrize("machine", PROCESSORS)
@pytest.mark.parametrize("rows", range(1, TILE_ROWS + 1))
def test_no_step_of_a_tile_spills(monkeypatch: pytest.MonkeyPatch, machine: str, rows: int) -> None:
    monkeypatch.setattr("relayvm.ops.native.vector_registers.registers", lambda: MACHINES[machine])
    spills = [line for line in inner_loops(assembly(rows, PROCESSORS[machine])) if "mm" in line and "(%rsp)" in line]
    assert not spills


def assembly(rows: int, processor: str) -> list[str]:
    """The instructions and labels of the tiles of a number of rows."""
    import llvmlite.binding as llvm
    from llvmlite import ir

    compilation = Compilation(ir.Module("native"), with_parts=True)
    call = python_function(CALL.format(dtype="float32"), multiply_panels=multiply_panels, **RECORDS)
    compilation.entry(call, f"int64({', '.join(['int64'] * call.__code__.co_argcount)})", "f")
    module = ir.Module()
    part = list(compilation.parts.values())[rows - 1]
    part.emit(module)
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    machine = target.create_target_machine(cpu=processor, opt=EMITTED_LOOPS.code, codemodel="small", reloc="pic")
    parsed = llvm.parse_assembly(str(module))
    tuning = llvm.create_pipeline_tuning_options(speed_level=EMITTED_LOOPS.speed)
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(parsed, builder)
    return str(machine.emit_assembly(parsed)).splitlines()


def inner_loops(lines: list[str]) -> list[str]:
    """The instructions between a label and a jump back to it, of the widest tile: the first function of a tile in the text."""
    begins = [n for n, line in enumerate(lines) if re.match(r"_compute\S*:", line)]
    lines, found = lines[begins[0] : begins[1]], []
    for at, line in enumerate(lines):
        label = line.split(":")[0]
        ends = [n for n in range(at, len(lines)) if re.search(rf"\tj\w+\t{re.escape(label)}$", lines[n])]
        if line.startswith(".LBB") and ends:
            found += lines[at : max(ends)]
    assert sum("vfmadd" in line for line in found) > 0
    return found


def test_the_plain_form_is_the_same_product(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, multiply = np.random.default_rng(1), machine_code(monkeypatch, "avx", "float32")
    a, panel = rng.integers(-9, 9, (3, 4)).astype("float32"), rng.integers(-9, 9, (4, 64)).astype("float32")
    found, plain = np.ones((2, 3, 50), "float32")
    multiply(a, 0, 4, panel, 0, 4 * 16, 16, found, 0, 50, 3, 4, 50, 1, 64, 0, 4, 9, 4)
    ahead = Ahead(64, 0, 4, Rows(a, 9, 4))
    multiply_panels(Rows(a, 0, 4), Panels(panel, 0, 4 * 16, 16), Rows(plain, 0, 50), 3, 4, 50, 1, ahead)
    np.testing.assert_array_equal(found, plain)
