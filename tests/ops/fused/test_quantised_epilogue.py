"""Elements of an epilogue that are rounded to bytes: vectors of them against numpy, for the registers of any machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest

from relayvm.ops.analysis.aliasing import in_place_pairs
from relayvm.ops.codegen import fits, kernel_source
from relayvm.ops.codegen.loop_nest import quantised_run
from relayvm.ops.codegen.loop_nest.quantised_run import (
    PARTS,
    looked_up,
    store_numbers_inside,
    store_parts_inside,
    store_words_inside,
)
from relayvm.ops.core.group import Group, Literal, Node
from relayvm.ops.core.op import get
from relayvm.ops.core.tensor_types import Tensor, int_range
from relayvm.ops.core.type_relation import build_group
from relayvm.ops.defs.weight_forms.byte_convolution import NAME, ByteConv2dAttrs, words_of
from relayvm.ops.native import memory
from relayvm.ops.native.front_end.llvm import host
from relayvm.ops.native.object_layout import NO_LIMIT, SHARE
from relayvm.ops.native.static_values import static_range
from relayvm.shape_funcs.symbolic.dim import dim, sym

from ..narrow.test_byte_convolutions import MACHINES, on
from ..native.front_end.machine_code import compiled, python_function
from ..opaque.opaque_kernels import call, descriptor, functions_of

#: Numbers that are far outside of bytes, halfway between two of them, and no numbers.
HARD = [np.nan, np.inf, -np.inf, 2.0**31, -(2.0**31), 2.0**30, 3e38, -3e38, 2147483520.0, 32767.5, -32768.5, 0.5, 1.5, -0.5, -0.0]
STORE = """
def f(given, made, count, zero_point):
    numbers, out = array_float32(given, {width}), array_{dtype}(made, {width})
    parts = [part_of(numbers, part * lanes_of_part()) for part in static_range(4)]
    if count == {width}:
        store_parts(parts, zero_point, out, 0)
    else:
        some = [part_inside(numbers, part * lanes_of_part(), count, part) for part in static_range(4)]
        store_parts_inside(some, zero_point, out, 0, count)
    return 0
"""


def rounded(numbers: np.ndarray, zero_point: int, dtype: str) -> np.ndarray:
    """The bytes of numbers; NaN is the lowest one."""
    low, high = int_range(dtype)
    moved = np.rint(numbers.astype(np.float64)) + zero_point
    return np.where(np.isnan(moved), low, np.clip(moved, low, high)).astype(dtype)


def choose(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the code be for the vectors of ``machine``, or for the least of them without x86's instructions (``any``)."""
    if machine == "avx512" and "avx512bw" not in host.features():
        pytest.skip("the processor has no such vectors")
    on("sse" if machine == "any" else machine, monkeypatch)
    if machine == "any":
        monkeypatch.setattr(host, "features", frozenset)


def plain_code(text: str) -> Any:
    """The function of a text that calls the functions of ``quantised_run``, in plain Python."""
    names = {name: value for name, value in vars(quantised_run).items() if hasattr(value, "__native__")}
    return python_function(text, static_range=static_range, **names)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("machine", [*MACHINES, "any"])
def test_numbers_become_bytes(machine: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors of 16 bytes without instructions that limit integers are those of another architecture."""
    choose(machine, monkeypatch)
    width, low, high = quantised_run.numbers_of_parts(), *int_range(dtype)
    plain = plain_code(STORE.format(width=width, dtype=dtype))
    rng = np.random.default_rng(5)
    near = rng.integers(-600, 600, 40 * width) / 2
    for code in (plain, compiled(plain)):
        for count in {width, width - 1, width // PARTS, 1}:
            for zero_point in (low, 0 if low else 7, high):
                numbers = rng.permutation([*HARD, *near])[:width].astype(np.float32)
                out = np.full(width, 77, dtype)
                with np.errstate(all="ignore"):
                    assert code(numbers.ctypes.data, out.ctypes.data, count, zero_point) == 0
                np.testing.assert_array_equal(out[:count], rounded(numbers[:count], zero_point, dtype))
                assert (out[count:] == 77).all()


BETWEEN = """
def f(given, made, zero_point):
    numbers, out = array_float32(given, {width}), array_int32(made, {width})
    for part in static_range(4):
        one = part_of(numbers, part * lanes_of_part())
        store_numbers([rounded_to_{dtype}(one, zero_point)] * 4, out, 0)
        for n in range(lanes_of_part()):
            numbers[uint64(part * lanes_of_part() + n)] = float32(out[uint64(n)])
    return 0
"""


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("machine", [*MACHINES, "any"])
def test_numbers_become_bytes_of_32_bits(machine: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes in the middle of an element, in int32."""
    choose(machine, monkeypatch)
    width, low, high = quantised_run.numbers_of_parts(), *int_range(dtype)
    plain = plain_code(BETWEEN.format(width=width, dtype=dtype))
    near = np.random.default_rng(5).integers(-600, 600, 40 * width) / 2
    for code in (plain, compiled(plain)):
        for zero_point in (low, 0 if low else 7, high):
            numbers = np.random.default_rng(6).permutation([*HARD, *near])[:width].astype(np.float32)
            wanted, out = rounded(numbers, zero_point, dtype).astype(np.float32), np.zeros(width, np.int32)
            with np.errstate(all="ignore"):
                assert code(numbers.ctypes.data, out.ctypes.data, zero_point) == 0
            np.testing.assert_array_equal(numbers, wanted)


LOOK_UP = """
def f(given, found, made, last):
    table, index, out = array_int32(given, {size}), array_int32(found, {width}), array_{dtype}(made, {width})
    parts = [looked_up(table, part_of(index, part * lanes_of_part()), last) for part in static_range(4)]
    store_words(parts, out, 0)
    return 0
"""


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("machine", [*MACHINES, "any"])
def test_bytes_of_tables(machine: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Elements of a table at limited indices, whose lowest bytes are stored."""
    choose(machine, monkeypatch)
    width, size, rng = quantised_run.numbers_of_parts(), 200, np.random.default_rng(5)
    plain = plain_code(LOOK_UP.format(width=width, size=size, dtype=dtype))
    table = rng.integers(-(2**31), 2**31, size).astype(np.int32)
    for code in (plain, compiled(plain)):
        hard = np.array([-(2**31), -1, 0, size - 1, size, 2**31 - 1], np.int32)
        index = rng.permutation([*hard, *rng.integers(0, size, width).astype(np.int32)])[:width]
        out = np.zeros(width, dtype)
        assert code(table.ctypes.data, index.ctypes.data, out.ctypes.data, size - 1) == 0
        np.testing.assert_array_equal(out, table[np.clip(index, 0, size - 1)].astype(dtype))


def group_of(
    channels: int, dtype: str, zero_point: int, is_residual: bool, is_between: bool = False, ends: bool = True, table: int = 0
) -> Group:
    """A convolution of bytes with a scale and an addend for each channel, perhaps the bytes of another tensor, and a bound.

    ``is_between``: whether the scaled sum is rounded to bytes before the addend; ``ends``: whether the result is.  ``table``:
    the elements of a table, of which the result is one, as a byte or scaled; 0 without one.
    """
    rows, columns = sym("rows"), sym("columns")
    image, row = (sym("n"), dim(channels), rows, columns), (dim(channels), dim(1), dim(1))
    words = words_of(np.zeros((channels, channels, 1, 1), np.int8), 1, "channels").shape
    shapes = [(*image,), tuple(map(dim, words)), (dim(channels),), (dim(1),), row, (dim(channels),), (*image,)]
    dtypes = ["uint8", "int32", "int32", "uint8", "float32", "float32", dtype]
    if table:
        shapes, dtypes = [*shapes, (dim(table),)], [*dtypes, "int32"]
    low, high = int_range(dtype)
    literals = (Literal("float32", float(zero_point)), Literal("int32", low), Literal("int32", 3), Literal("float32", 0.37))
    zero, lowest, three, scale = range(len(shapes), len(shapes) + 4)
    nodes = [Node(NAME, ByteConv2dAttrs((1, 1)), (0, 1, 2, 3), ())]
    last = scale + 1

    def then(name: str, *args: int, **attrs: Any) -> int:
        nodes.append(Node(name, get(name).attrs(**attrs), args, ()))
        return last + len(nodes) - 1

    def in_bytes(number: int) -> int:
        bounded = then("clip", then("add", then("rint", number), zero), a_min=float(low) if low else -0.25, a_max=float(high))
        return then("cast", bounded, dtype=dtype)

    found = then("multiply", then("cast", last, dtype="float32"), 4)
    if is_between:
        moved = then("subtract", then("cast", in_bytes(found), dtype="int32"), three)
        found = then("multiply", then("cast", moved, dtype="float32"), scale)
    found = then("nn.bias_add", found, 5)
    if is_residual:
        moved = then("subtract", then("cast", 6, dtype="int32"), three)
        found = then("add", found, then("multiply", then("cast", moved, dtype="float32"), scale))
    if table:
        place = then("subtract", then("cast", in_bytes(found), dtype="int32"), lowest)
        found = then("take", 7, place, axis=0)
        found = then("cast", found, dtype=dtype) if ends else then("multiply", then("cast", found, dtype="float32"), scale)
    elif ends:
        in_bytes(found)
    return build_group(
        [Tensor(d, s) for d, s in zip(dtypes, shapes, strict=True)], literals, tuple(nodes), (last + len(nodes) - 1,)
    )


class Layer(NamedTuple):
    """The operands of a group, the exact sums of its convolution, and its result by numpy."""

    arrays: list[np.ndarray]
    sums: np.ndarray
    wanted: np.ndarray


def layers(dtype: str, zero_point: int, is_residual: bool, is_between: bool = False, ends: bool = True) -> Iterator[Layer]:
    """Operands of several sizes of rows."""
    channels, rng = 5, np.random.default_rng(8)
    weight = rng.integers(-128, 128, (channels, channels, 1, 1)).astype(np.int8)
    scales = np.array([1e-3, 1e-5, 2.0**-12, 1e30, np.nan], np.float32).reshape(-1, 1, 1)
    for n, rows, columns in [(2, 1, 1), (1, 7, 7), (1, 3, 21), (1, 8, 8), (1, 5, 13), (2, 9, 31)]:
        data = rng.integers(0, 256, (n, channels, rows, columns)).astype(np.uint8)
        start = rng.integers(-(2**20), 2**20, channels).astype(np.int32)
        bias, other = rng.normal(size=channels).astype(np.float32), rng.integers(0, 128, data.shape).astype(dtype)
        sums = np.einsum("nihw,oi->nohw", data.astype(np.int32), weight[:, :, 0, 0].astype(np.int32)) + start[:, None, None]
        real = sums.astype(np.float32) * scales
        if is_between:
            real = (rounded(real, zero_point, dtype).astype(np.int32) - 3).astype(np.float32) * np.float32(0.37)
        real = real + bias[:, None, None]
        if is_residual:
            real = real + (other.astype(np.int32) - 3).astype(np.float32) * np.float32(0.37)
        words = words_of(weight, 1, "channels")
        wanted = rounded(real, zero_point, dtype) if ends else real
        yield Layer([data, words, start, np.zeros(1, np.uint8), scales, bias, other], sums, wanted)


CASES = [("uint8", 7, True), ("int8", -128, False), ("uint8", 0, False)]


@pytest.mark.parametrize(("dtype", "zero_point", "is_residual"), CASES)
def test_convolutions_that_end_in_bytes(dtype: str, zero_point: int, is_residual: bool) -> None:
    group = group_of(5, dtype, zero_point, is_residual)
    assert fits(group) and store_parts_inside.__name__ in kernel_source(group).text
    for arrays, _, wanted in layers(dtype, zero_point, is_residual):
        for pairs in ((), *((pair,) for pair in in_place_pairs(group))):
            planned, own = replace(group, in_place=pairs), [a.copy() for a in arrays]
            out = own[pairs[0][0]] if pairs else np.full(wanted.shape, 77, dtype)
            for k in range(2):
                share = np.array([(k, 2, NO_LIMIT, 1, 1)], SHARE)
                assert call(kernel_source(planned), [*own, out], jit=True, share=share) == 0
            np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize(("dtype", "zero_point", "is_residual"), CASES)
def test_the_function_that_ends_them(dtype: str, zero_point: int, is_residual: bool) -> None:
    """As Python, whose loads and stores are checked: the rows of an image, which are apart in the buffer of sums."""
    source = kernel_source(group_of(5, dtype, zero_point, is_residual))
    finish = functions_of(source)["finish"]
    for arrays, sums, wanted in layers(dtype, zero_point, is_residual):
        out, (n, channels, rows, columns) = np.full(wanted.shape, 77, dtype), wanted.shape
        run, records = rows * columns, [*map(descriptor, [*arrays, out])]
        argv = np.array([r.ctypes.data for r in records], np.int64)
        buffer = np.full((n * channels, run + 3), 99, np.int32)
        buffer[:, :run] = sums.reshape(n * channels, run)
        with memory.watch() as announce, np.errstate(all="ignore"):
            for block in (argv, *records, *arrays, out):
                announce(block.ctypes.data, block.nbytes)
            finish(argv.ctypes.data, 0, n * channels, run, buffer.reshape(-1), 0, run + 3)
        np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize(("dtype", "zero_point", "is_residual"), CASES)
def test_numbers_rounded_to_bytes_between(dtype: str, zero_point: int, is_residual: bool, ends: bool) -> None:
    """Bytes in the middle of an element are parts too; the result is bytes or numbers."""
    source = kernel_source(group_of(5, dtype, zero_point, is_residual, True, ends))
    assert (store_parts_inside if ends else store_numbers_inside).__name__ in source.text
    for arrays, _, wanted in layers(dtype, zero_point, is_residual, True, ends):
        out = np.full(wanted.shape, 77, wanted.dtype)
        share = np.array([(0, 1, NO_LIMIT, 1, 1)], SHARE)
        assert call(source, [*arrays, out], jit=True, share=share) == 0
        np.testing.assert_array_equal(out, wanted)


#: The elements of a table, fewer than bytes: the places are limited.
TABLE = 200


@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_functions_of_bytes_by_a_table(dtype: str, ends: bool) -> None:
    """The byte that a convolution ends in is a place of a table, whose element is the result, or a part of a number."""
    source = kernel_source(group_of(5, dtype, 7, False, ends=ends, table=TABLE))
    values, lowest = np.random.default_rng(3).integers(-300, 300, TABLE).astype(np.int32), int_range(dtype)[0]
    assert looked_up.__name__ in source.text
    assert (store_words_inside if ends else store_numbers_inside).__name__ in source.text
    for arrays, _, before in layers(dtype, 7, False):
        element = values[np.clip(before.astype(np.int32) - lowest, 0, TABLE - 1)]
        wanted = element.astype(dtype)
        if not ends:
            wanted = element.astype(np.float32) * np.float32(0.37)
        out, share = np.full(wanted.shape, 77, wanted.dtype), np.array([(0, 1, NO_LIMIT, 1, 1)], SHARE)
        assert call(source, [*arrays, values, out], jit=True, share=share) == 0
        np.testing.assert_array_equal(out, wanted)
