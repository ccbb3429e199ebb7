"""The figures of machine code, from listings written by hand."""

from __future__ import annotations

from collections import Counter

import pytest

from relayvm.ops.codegen.cuda.machine_code import LIMITS, MachineCode, machine_code

LISTING = """
	.section	.text.first,"ax",@progbits
first:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
.L_x_1:
        /*0010*/                   LDG.E.128 R8, desc[UR8][R10.64] ;
.L_x_0:
        /*0020*/              @!P0 LDG.E.U8 R4, desc[UR8][R2.64] ;
        /*0030*/                   STL.64 [R1], R4 ;
        /*0040*/               @P1 BRA `(.L_x_0) ;
        /*0050*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
        /*0060*/              @UP0 BRA `(.L_x_1) ;
        /*0070*/                   EXIT ;
.L_x_2:
        /*0080*/                   BRA `(.L_x_2);
	.section	.text.second,"ax",@progbits
second:
.L_x_3:
        /*0000*/                   DFMA R2, R4, R6, R2 ;
        /*0010*/               @P0 BRA `(.L_x_4) ;
        /*0020*/                   STG.E.64 desc[UR4][R2.64], R4 ;
.L_x_4:
        /*0030*/                   STG.E desc[UR4][R2.64], R4 ;
"""
USAGE = """
Resource usage:
 Common:
  GLOBAL:9
 Function second:
  REG:16 STACK:0 SHARED:0 LOCAL:0 CONSTANT[0]:560
 Function first:
  REG:64 STACK:8 SHARED:1280 LOCAL:0 CONSTANT[0]:560
"""


@pytest.fixture
def kernels() -> list[MachineCode]:
    return machine_code(LISTING, USAGE)


def test_kernels_have_their_resources(kernels: list[MachineCode]) -> None:
    found = [(k.kernel, k.registers, k.stack_bytes, k.shared_bytes, len(k.instructions)) for k in kernels]
    assert found == [("first", 64, 8, 1280, 9), ("second", 16, 0, 0, 4)]


def test_widths_spills_barriers_and_doubles_are_counted(kernels: list[MachineCode]) -> None:
    first, second = kernels
    assert (first.loads, first.stores) == (Counter({128: 1, 8: 1}), Counter())
    assert (second.loads, second.stores) == (Counter(), Counter({64: 1, 32: 1}))
    assert (first.spills, first.barriers, first.doubles) == (1, 1, 0)
    assert (second.spills, second.barriers, second.doubles) == (0, 0, 1)
    assert [i.guard for i in first.instructions if i.name == "LDG"] == ["", "@!P0"]


def test_a_loop_is_a_backward_branch_and_the_end_of_a_kernel_is_none(kernels: list[MachineCode]) -> None:
    first, second = kernels
    assert first.loops == ((0x10, 0x60), (0x20, 0x40))
    assert [[i.at for i in loop] for loop in first.inner_loops()] == [[0x20, 0x30, 0x40]]
    assert second.loops == ()


@pytest.mark.parametrize(("threads", "share"), [(32, 0.5), (256, 0.5), (512, 0.5), (1024, 0.5), (768, 0.375)])
def test_registers_bound_the_occupancy(kernels: list[MachineCode], threads: int, share: float) -> None:
    assert kernels[0].occupancy(threads, LIMITS["sm_90"]) == share


def test_blocks_and_warps_bound_the_occupancy(kernels: list[MachineCode]) -> None:
    found = [kernels[1].occupancy(threads, LIMITS["sm_90"]) for threads in (32, 64, 96, 1024)]
    assert found == [0.5, 1.0, 63 / 64, 1.0]
