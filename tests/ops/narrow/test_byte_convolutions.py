"""Convolutions of bytes: any division into blocks gives all of the result, for the registers of any machine."""

from __future__ import annotations

import functools
import itertools
import platform
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

from relayvm.ops.core.implementation import Kernel, OpCall
from relayvm.ops.core.op import get
from relayvm.ops.core.tensor_types import Tensor
from relayvm.ops.defs.weight_forms.byte_convolution import NAME, ByteConv2dAttrs, best_form, words_of
from relayvm.ops.kernels.byte_conv.cpu import ByteBuffers, byte_products
from relayvm.ops.kernels.byte_conv.dense import dense_planes, is_dense
from relayvm.ops.kernels.byte_conv.geometry import (
    BLOCKS,
    MOST_COLUMNS,
    ByteConvolution,
    ByteWindow,
    Planes,
    Region,
    planes_of,
    region_of,
    streams_positions,
)
from relayvm.ops.kernels.byte_conv.last_positions import MOST, gather_last_positions
from relayvm.ops.kernels.byte_conv.tile import Reads
from relayvm.ops.kernels.byte_conv.winograd import MOST_CHANNELS, is_shorter
from relayvm.ops.kernels.shaped import Shaped
from relayvm.ops.native.front_end.llvm import host
from relayvm.ops.native.generated_source import define
from relayvm.ops.native.jit import native_compiler
from relayvm.ops.native.memory import generic
from relayvm.shape_funcs.symbolic.dim import const, dim

from ... import tiers
from ..images.test_conv import convolution
from ..native.front_end.machine_code import NAMES, compiled, python_function

#: The number of vector registers, and their bytes.
MACHINES = {"sse": (16, 16), "avx": (16, 32), "avx512": (32, 64)}


class Case(NamedTuple):
    """The sizes of a convolution with a square window."""

    batch: int
    channels: int
    rows: int
    columns: int
    outputs: int
    taps: int = 3
    stride: int = 1
    padding: int = 1
    dilation: int = 1
    groups: int = 1


SMALL = (
    Case(1, 5, 4, 5, 9),
    Case(2, 4, 7, 7, 3, stride=2),
    Case(1, 9, 3, 3, 17, taps=1, padding=0),
    Case(1, 3, 9, 20, 4, taps=5, stride=2, padding=2),
    Case(1, 2, 9, 9, 2, stride=3, groups=2),
    Case(2, 9, 1, 1, 9, groups=9),
    Case(1, 3, 5, 18, 3, groups=3),
    Case(1, 3, 6, 35, 3, groups=3, stride=2),
    Case(3, 17, 5, 4, 17, groups=17),
    Case(2, 3, 0, 5, 3, padding=2, groups=3),
    Case(1, 3, 5, 18, 3, groups=3, taps=2, padding=0),
    Case(1, 4, 6, 6, 8, dilation=2, padding=3, groups=2),
    Case(1, 3, 6, 6, 3, dilation=2, padding=2, groups=3),
    Case(1, 17, 5, 7, 18),
    Case(2, 68, 3, 5, 4, taps=2, stride=2),
    Case(1, 32, 3, 3, 1, taps=1, padding=0, groups=1),
    Case(1, 32, 2, 9, 6, groups=2, dilation=2, padding=2),
    Case(1, 17, 3, 6, 80),
    Case(1, 16, 8, 8, 16),
    Case(1, 17, 16, 4, 18),
)
LARGE = (
    *SMALL,
    Case(1, 70, 14, 14, 30),
    Case(1, 40, 23, 60, 33),
    Case(2, 68, 15, 15, 90, stride=2),
    Case(1, 160, 14, 14, 180, groups=2),
    Case(1, 66, 7, 7, 80, taps=5, padding=2),
    Case(1, 66, 30, 30, 150),
    Case(1, 16, 2, MOST_COLUMNS + 41, 50),
    Case(1, 36, 31, 5, 40, taps=5, stride=2, padding=9, dilation=3),
    Case(2, 48, 1, 1, 70, taps=1, padding=0),
    Case(2, 130, 7, 7, 61, taps=1, padding=0),
    Case(1, 5, 1, 2 * MOST_COLUMNS + 77, 9),
    Case(1, 6, 3, MOST_COLUMNS + 5, 8, taps=1, padding=0),
    Case(1, 17, 61, 70, 17, groups=17),
    Case(2, 9, 30, 41, 9, groups=9, stride=2),
    Case(1, 9, 3, 33, 9, groups=9, padding=0),
    Case(1, 9, 20, 19, 9, groups=9, taps=5, stride=2, padding=4),
    Case(1, 17, 61, 70, 17, groups=17, taps=7, padding=3),
    Case(1, 3, 40, 90, 20, taps=7, stride=2, padding=3),
)

CALL = """
def f(arrays, sizes, low, high):
    a = array_int64(arrays, 15)
    data = Shaped(array_uint8(a[0], a[1]), array_int64(sizes, 4))
    words = Shaped(array_int32(a[2], a[3]), array_int64(sizes + 32, 4))
    start, pad = Shaped(array_int32(a[4], a[5]), array_int64(sizes + 64, 1)), Shaped(array_uint8(a[6], 1), array_int64(sizes, 1))
    out = Shaped(array_int32(a[7], a[8]), array_int64(sizes + 72, 4))
    rest = array_int32(a[13], {sums}), array_uint8(a[14], {bytes})
    buffers = ByteBuffers(array_int32(a[9], a[10]), array_int64(a[11], a[12]), rest[0], rest[1])
    window = ByteWindow({stride}, {before}, {dilation}, {taps})
    return byte_products(data, words, start, pad, out, low, high, buffers, finish, a[7], window, {form})
"""


#: The function that finishes a part: a copy of sums to the result at the address ``argv``.
FINISH = """
def finish(argv, at, rows, count, sums, first, pitch):
    out = array_int32(argv, at + rows * {positions} + count)
    for _ in range(rows):
        for i in range(count):
            out[at + i] = sums[first + i]
        first += pitch
        at += {positions}
"""


@functools.cache
def code_of(machine: str, given: tuple[tuple[str, Any], ...], positions: int) -> Any:
    """The body for these constants as machine code for the registers of a machine."""
    with pytest.MonkeyPatch.context() as patch:
        on(machine, patch)
        return compiled(function_of(given, positions))


def on(machine: str, patch: pytest.MonkeyPatch) -> None:
    """Let registers and instructions be those of a machine; of AVX2 as those of a processor without dot products of bytes."""
    patch.setattr("relayvm.ops.native.vector_registers.registers", lambda: MACHINES[machine])
    if machine == "avx512":
        return
    features = {"sse2", "sse4.1", "avx", "avx2", "fma", "f16c"} if machine == "avx" else {"sse2"}
    patch.setattr(host, "features", lambda: frozenset(features))
    if platform.machine() == "x86_64":
        import llvmlite.binding as llvm

        native_compiler._target_machine(0)  # initialises LLVM
        options = native_compiler._NEAR if native_compiler.has_near_constants() else {"codemodel": "jitdefault"}

        def target_machine(level: int) -> Any:
            cpu = "haswell" if machine == "avx" else "x86-64"
            return llvm.Target.from_default_triple().create_target_machine(cpu=cpu, features="", opt=level, jit=True, **options)

        patch.setattr(native_compiler, "_target_machine", target_machine)


def function_of(given: tuple[tuple[str, Any], ...], positions: int) -> Any:
    """The body for these constants as a function of words; ``positions``: of a channel of the result."""
    names = {"Shaped": Shaped, "ByteBuffers": ByteBuffers, "ByteWindow": ByteWindow, "byte_products": byte_products}
    finish = generic(define("finish", FINISH.format(positions=positions), NAMES)["finish"])
    return python_function(CALL.format(**dict(given)), finish=finish, **names)


def check(case: Case, machine: str, is_compiled: bool, rng: np.random.Generator) -> None:
    """Compute the blocks of a case in parts, the last ones first."""
    data = rng.integers(0, 256, case[:4]).astype(np.uint8)
    chances = [0.06, 0.44, 0.44, 0.06]  # 16 bits hold the products of some rows, not of all
    shape = case.outputs, case.channels // case.groups, case.taps, case.taps
    weight = rng.choice([-128, -1, 3, 127], shape, p=chances).astype(np.int8)
    compare(case, machine, is_compiled, data, weight, rng)


def compare(
    case: Case, machine: str, is_compiled: bool, data: np.ndarray, weight: np.ndarray, rng: np.random.Generator
) -> None:  # fmt: skip
    """As ``check``, of these bytes."""
    _, c, _, _, o, k, stride, padding, dilation, groups = case
    form = best_form(c // groups, k, k, dilation)
    attrs = ByteConv2dAttrs((k, k), form, stride, padding, dilation, groups)
    words, start, pad = words_of(weight, groups, form), rng.integers(-9, 9, o).astype(np.int32), np.array([200], np.uint8)
    given = {"strides": stride, "padding": padding, "dilation": dilation, "groups": groups}
    wanted = convolution(data.astype(np.float64) - 200, weight.astype(np.float64), given)
    wanted += (200 * weight.astype(np.float64).sum((1, 2, 3)) + start)[:, None, None]
    (kernel, _), out = get(NAME).kernels, np.full(wanted.shape, 7, np.int32)
    call = OpCall(get(NAME), attrs, tuple(map(tensor, (data, words, start, pad))), (tensor(out),))
    buffers = [np.full(number(b.length), 77, b.dtype) for b in kernel.buffers(call)]
    taken = kernel.attrs(attrs)
    constants = tuple({**taken, "sums": buffers[2].size, "bytes": buffers[3].size}.items())
    run = code_of(machine, constants, wanted[0, 0].size) if is_compiled else function_of(constants, wanted[0, 0].size)
    flat = [part for a in (data, words, start) for part in (a.ctypes.data, a.size)]
    flat += [pad.ctypes.data, out.ctypes.data, out.size]
    flat += [
        buffers[0].ctypes.data,
        buffers[0].size,
        buffers[1].ctypes.data,
        buffers[1].size,
        buffers[2].ctypes.data,
        buffers[3].ctypes.data,
    ]
    arrays, sizes = np.array(flat), np.array([*data.shape, *words.shape, o, *out.shape])
    blocks = block_count(kernel, call)
    bounds = [0, *sorted(rng.integers(0, blocks + 1, 2).tolist()), blocks]
    for low, high in reversed([*itertools.pairwise(bounds)]):
        assert run(arrays.ctypes.data, sizes.ctypes.data, low, high) == 0
    np.testing.assert_array_equal(out, wanted, err_msg=f"{case} on {machine}")


def tensor(array: np.ndarray) -> Tensor:
    return Tensor(array.dtype.name, tuple(map(dim, array.shape)))


def number(d: Any) -> int:
    found = const(d)
    assert found is not None
    return found


def block_count(kernel: Kernel, call: OpCall) -> int:
    assert kernel.blocks is not None
    return number(kernel.blocks.count(call))


@pytest.mark.parametrize("machine", MACHINES)
def test_parts_of_the_blocks_un_jitted(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    on(machine, monkeypatch)
    rng = np.random.default_rng(3)
    for case in SMALL:
        check(case, machine, False, rng)


def of_machine(cases: Sequence[Case], machine: str) -> Sequence[Case]:
    """In a tier each case for one of the machines, in turn: to compile a case takes half a second where there are no dot products
    of bytes, and without compilation every machine has each kind of case."""
    return cases if tiers.tier() is None else cases[[*MACHINES].index(machine) :: len(MACHINES)]


@pytest.mark.extensive
@pytest.mark.parametrize("machine", MACHINES)
def test_parts_of_the_blocks_as_machine_code(machine: str) -> None:
    rng = np.random.default_rng(4)
    for case in of_machine(LARGE, machine):
        check(case, machine, True, rng)


@pytest.mark.extensive
@pytest.mark.parametrize("machine", MACHINES)
def test_drawn_sizes_as_machine_code(machine: str) -> None:
    """Windows of 3 by 3: tiles of rows that end anywhere in a vector, planes that fill their lines or do not."""
    rng = np.random.default_rng(6)
    bounds = (16, 70), (2, 20), (2, 60), (1, 40)  # channels, rows, columns, outputs
    drawn = [Case(1, *(int(rng.integers(*of)) for of in bounds)) for _ in range(12)]
    for case in of_machine(drawn, machine):
        check(case, machine, True, rng)


@pytest.mark.extensive
@pytest.mark.parametrize("channels", [MOST_CHANNELS, MOST_CHANNELS + 1])
def test_largest_sums(channels: int) -> None:
    """Transforms are exact as far as 4 times a sum is an int32; more channels take none."""
    case, rng = Case(1, channels, 4, 4, 17), np.random.default_rng(5)
    weight = np.full((17, channels, 3, 3), -128, np.int8)
    weight[8:] = 127
    compare(case, "avx", True, np.full(case[:4], 255, np.uint8), weight, rng)


@pytest.mark.parametrize("machine", ["sse", "avx"])
def test_which_regions_are_transformed(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of 3 by 3 of stride 1, of images that fill vectors of tiles."""
    on(machine, monkeypatch)
    taken = {case: is_transformed(case) for case in SMALL if case.channels // case.groups >= 16}
    assert [case for case, found in taken.items() if found] == [
        Case(1, 17, 5, 7, 18),
        Case(1, 17, 3, 6, 80),
        Case(1, 16, 8, 8, 16),
        Case(1, 17, 16, 4, 18),
    ]
    assert not is_transformed(Case(1, 17, 2, 2, 18))
    assert not is_transformed(Case(1, MOST_CHANNELS + 1, 5, 7, 18))
    assert is_transformed(Case(1, MOST_CHANNELS, 5, 7, 18))


def is_transformed(case: Case) -> bool:
    """Whether transforms compute the first region of a case, whose result has the sizes of its data."""
    return bool(is_shorter(*first_region(case)))


def first_region(case: Case) -> tuple[ByteConvolution, Region, Planes]:
    """The convolution of a case, its first region, and the planes of that."""
    n, c, h, w, _, k, stride, padding, dilation, groups = case
    window = ByteWindow(*((number,) * 2 for number in (stride, padding, dilation, k)))
    out_sizes = tuple((size + 2 * padding - (k - 1) * dilation - 1) // stride + 1 for size in (h, w))
    nothing = np.zeros(1, np.uint8)
    conv = ByteConvolution(nothing, (n, c, h, w), out_sizes, window, groups, BLOCKS, nothing, nothing)
    region = region_of(conv.out_sizes, 0)
    return conv, region, planes_of(conv, region)


def test_planes_without_columns_between_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dense planes have the positions of the result alone; many channels need them, few channels and one column do not."""
    on("avx512", monkeypatch)
    monkeypatch.setattr("relayvm.ops.kernels.byte_conv.dense.may_be_dense", lambda: True)
    for case in (case for case in LARGE if case.dilation == 1):
        conv, region, planes = first_region(case)
        dense = dense_planes(conv, region, planes)
        assert streams_positions(region, dense) == region.rows * region.columns
        assert not is_dense(conv, region, planes, 1)
        assert is_dense(conv, region, planes, 10**6) == (streams_positions(region, planes) > region.rows * region.columns)


@pytest.mark.parametrize("count", range(1, 50))
def test_last_positions_fill_no_vector(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to MOST positions behind the last whole vector are computed apart, each with the words of all steps."""
    on("avx512", monkeypatch)
    monkeypatch.setattr("relayvm.ops.kernels.byte_conv.last_positions.multiplies_planes", lambda: True)
    steps, depth, apart = 5, 9, 64
    panel, table = np.arange(10**4, dtype=np.int32), np.arange(0, steps * depth * apart, depth * apart)
    vectors, at = -(-count // 16), 5000
    last = gather_last_positions(Reads(panel, table, steps, depth, apart), vectors, count, count, at)
    rest = count - 16 * (vectors - 1)
    assert last.number == (rest if rest * (steps + 10) < steps * depth else 0) <= MOST
    for n in range(last.number):
        words = panel[at + n * steps * 16 :][: steps * 16].reshape(steps, 16)
        wanted = np.arange(steps * depth).reshape(steps, depth) * apart + last.place + n
        np.testing.assert_array_equal(words, np.pad(wanted, [(0, 0), (0, 16 - depth)]))
