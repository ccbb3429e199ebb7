"""Kernels do no arithmetic on memory that nobody has written: a workspace, results, the bytes around tensors.

Each operator with kernels of its own, each implementation: the same bits, and the same sticky flags of floating-point
instructions, whatever is in memory before.  A product of subnormal numbers takes up to a hundred times as long as others.
"""

from __future__ import annotations

import subprocess
import sys
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from relayvm.ops.core.conditions import undecided
from relayvm.ops.core.group import Group
from relayvm.ops.core.implementation import HOST
from relayvm.ops.core.op import Op, get
from relayvm.ops.core.tensor_types import is_float
from relayvm.shape_funcs.symbolic.dim import dim, sym

from ... import tiers
from ..every_op import all_recipes  # noqa: F401
from ..every_op.drawing import CLASSES, Draw
from ..every_op.recipe import Call, call, dtypes_of, flags_of, group_of, one_of_each_pattern, operators, recipe_of
from .old_memory import FILLS, HAS_FLAGS, Ran, clear_flags, flags

ROOT = Path(__file__).parents[3]
OPERATORS = [op for op in operators() if any(not k.in_python for k in op.kernels_on(HOST))]
GENERATED = [
    op for op in operators() if not op.kernels and op.pattern.name in ("ELEMWISE", "BROADCAST", "INJECTIVE", "COMM_REDUCE")
]


def groups(op: Op, made: Call) -> Iterator[Group]:
    """The group of a call, with sizes that are not known, by each implementation in machine code that is right for it; by the
    generated kernel of an operator without any."""
    known = [tuple(map(dim, x.shape)) for x in made.flat]
    fixed = [
        tuple(
            n if flag or (k, axis) in made.fixed else sym(f"d{10 * k + axis}") for axis, n in enumerate(known[k])
        )
        for k, flag in enumerate(flags_of(op, made))
    ]  # fmt: skip
    if not op.kernels:
        yield group_of(op, made, fixed)
        return
    of_call = group_of(op, made, known).call_on()
    for kernel in op.kernels_on(HOST):
        if not kernel.in_python and kernel.takes(of_call) and undecided(kernel.fits(of_call)) == ():
            yield replace(group_of(op, made, fixed), implementation=kernel.name, workspace=bool(kernel.scratch))


def check(op: Op, made: Call, wanted: tuple[np.ndarray, ...] | None = None) -> int:
    """Compare the runs of a call with each kind of old memory; the number of kernels.  ``wanted``: results of these shapes."""
    seen = 0
    for group in groups(op, made):
        seen += 1
        clean = Ran(group, made.flat, "zeros")
        for fill in FILLS:
            ran = Ran(group, made.flat, fill)
            where = f"{op.name}, {group.implementation}, {[(x.shape, x.dtype.name) for x in made.flat]} {made.attrs}: {fill}"
            assert (ran.status, ran.counts.tolist()) == (clean.status, clean.counts.tolist()), where
            assert ran.flags == clean.flags, f"{where}: arithmetic on memory that nobody wrote"
            assert ran.bits(wanted) == clean.bits(wanted), f"{where}: other results"
    return seen


def calls_of(op: Op, dtype: str, variant: int = 0) -> Iterator[tuple[Call, tuple[np.ndarray, ...]]]:
    """Calls and their results, of each class of sizes."""
    choices = np.random.default_rng([zlib.crc32(op.name.encode()), variant]).integers(0, 256, 64).tolist() if variant else ()
    for size in CLASSES:
        made = recipe_of(op.name).make(Draw(dtype, size, choices), op.name)
        is_legal = op.legalization is None or op.is_legal(tuple(x.dtype.name for x in made.flat), op.attrs(**made.attrs))
        if is_legal and not isinstance(made.wanted, str):
            yield made, made.wanted


def test_an_instruction_on_each_kind_of_old_memory_sets_a_flag() -> None:
    seen = {}
    for fill, word in FILLS.items():
        for dtype in ("float32", "float64"):
            x = np.full(1, word, np.uint64).view(dtype)
            with np.errstate(all="ignore"):
                clear_flags()
                x * x
                seen[fill, dtype] = flags()
    clear_flags()
    if not HAS_FLAGS:
        assert not any(seen.values())
        return
    assert {key for key, found in seen.items() if not found} == {("zeros", "float32"), ("zeros", "float64")}
    assert "subnormal operand" in seen["subnormal", "float32"] & seen["subnormal", "float64"]
    assert all("invalid" in seen[f"signaling {dtype}", dtype] for dtype in ("float32", "float64"))
    assert "overflow" in seen["huge", "float32"] & seen["huge", "float64"]


#: Prints the share of old memory in blocks of the heap.
BLOCKS = """
from relayvm.ops.native import memory
from tests.ops.opaque.old_memory import FILLS, leave_in_memory
for size in (2048, 5000, 30_000):
    leave_in_memory(FILLS["subnormal"])
    address = memory.alloc(size)
    print((memory.array_int64(address, size // 8) == FILLS["subnormal"]).mean())
    memory.free(address)
"""


def test_a_block_of_the_heap_holds_old_memory() -> None:
    # in a new process: another test may leave free blocks that are given first
    done = subprocess.run([sys.executable, "-c", BLOCKS], cwd=ROOT, capture_output=True, text=True)
    # the C library stores words of its own in free blocks, and Python takes some
    assert done.returncode == 0 and all(float(share) > 0.5 for share in done.stdout.split()), done


@pytest.mark.thinned(2)
@pytest.mark.split(4)
@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.name)
def test_old_memory_is_not_computed_with(op: Op) -> None:
    dtypes = [d for d in dtypes_of(op.name) if is_float(d)] or list(dtypes_of(op.name)[:1])
    chosen = tiers.some(dtypes, op.name, 4)  # perhaps of dtypes without a kernel in machine code
    assert any(sum(check(op, *made) for dtype in some for made in calls_of(op, dtype)) for some in (chosen, dtypes))


@pytest.mark.thinned(3)
@pytest.mark.extensive(op=one_of_each_pattern())
@pytest.mark.parametrize("op", GENERATED, ids=lambda op: op.name)
def test_generated_kernels_do_not_compute_with_old_memory(op: Op) -> None:
    for made in calls_of(op, dtypes_of(op.name)[0]):
        check(op, *made)


@pytest.mark.thinned(2)
@pytest.mark.extensive
@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.name)
def test_old_memory_of_other_attributes(op: Op) -> None:
    for variant in (1, 2):
        for made in calls_of(op, dtypes_of(op.name)[0], variant):
            check(op, *made)


# ---- sizes that do not fill vectors ----------------------------------------------------------------------------------------

RANDOM = np.random.default_rng(0)
#: Channels, groups, output channels, size, window, and attributes.  With 64 channels or more a few columns are multiplied apart.
CONVOLUTIONS: dict[str, tuple[int, int, int, tuple[int, int], int, dict[str, Any]]] = {
    "3x3": (16, 1, 20, (14, 14), 3, {"padding": (1, 1, 1, 1)}),
    "3x3 apart": (64, 1, 16, (14, 7), 3, {"padding": (1, 1, 1, 1)}),
    "3x3 stride 2": (65, 1, 17, (13, 15), 3, {"padding": (1, 1, 1, 1), "strides": (2, 2)}),
    "3x3 dilated": (16, 1, 9, (11, 11), 3, {"padding": (2, 2, 2, 2), "dilation": (2, 2)}),
    "1x1": (65, 1, 33, (7, 7), 1, {}),
    "1x1 stride 2": (16, 1, 18, (7, 9), 1, {"strides": (2, 2)}),
    "7x7 stride 2": (3, 1, 13, (19, 17), 7, {"padding": (3, 3, 3, 3), "strides": (2, 2)}),
    "grouped": (12, 3, 9, (9, 10), 3, {"padding": (1, 1, 1, 1)}),
    "depthwise": (9, 9, 9, (7, 7), 3, {"padding": (1, 1, 1, 1)}),
    "depthwise stride 2": (9, 9, 9, (14, 13), 3, {"padding": (0, 0, 1, 1), "strides": (2, 2)}),
    "depthwise 5x5": (6, 6, 6, (6, 6), 5, {"padding": (2, 2, 2, 2)}),
    "depthwise dilated": (6, 6, 6, (10, 9), 3, {"padding": (2, 2, 2, 2), "dilation": (2, 2)}),
    "depthwise of two": (5, 5, 10, (9, 7), 3, {"padding": (1, 1, 1, 1), "strides": (2, 1)}),
}


def numbers(*shape: int) -> np.ndarray:
    """Numbers whose products are of usual size."""
    return (RANDOM.uniform(0.5, 2, shape) * RANDOM.choice([-1, 1], shape)).astype(np.float32)


def check_sizes(name: str, *inputs: np.ndarray, **attrs: Any) -> None:
    """Check a call of an operator."""
    assert check(get(name), call(inputs, [], **attrs))


def check_convolution(case: str) -> None:
    inputs, groups_, outputs, size, window, attrs = CONVOLUTIONS[case]
    data, weight = numbers(1, inputs, *size), numbers(outputs, inputs // groups_, window, window)
    check_sizes("nn.conv2d", data, weight, groups=groups_, channels=outputs, kernel_size=(window, window), **attrs)


@pytest.mark.thinned(2)
@pytest.mark.split(3)
@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_old_memory_of_convolutions(case: str) -> None:
    check_convolution(case)


@pytest.mark.parametrize("size", [(7, 9), (16, 16)])
def test_old_memory_of_convolutions_tap_by_tap(size: tuple[int, int]) -> None:
    """Of data where they are, and of copied runs."""
    check_sizes("nn.conv2d", numbers(1, 5, *size), numbers(3, 3, 5, 35), kernel_layout="HWIO", padding=6, dilation=6)


@pytest.mark.thinned(2)
@pytest.mark.extensive
@pytest.mark.optimized
@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_old_memory_of_optimized_convolutions(case: str) -> None:
    """LLVM may compute both sides of a branch, or load more than is stored."""
    check_convolution(case)


@pytest.mark.parametrize("m,k,n", [(1, 65, 19), (7, 70, 35), (13, 5, 3), (50, 130, 67)])
def test_old_memory_of_products(m: int, k: int, n: int) -> None:
    check_sizes("nn.dense", numbers(m, k), numbers(n, k))
    check_sizes("nn.matmul", numbers(m, k), numbers(k, n))
    check_sizes("nn.batch_matmul", numbers(2, m, k), numbers(2, n, k))
    check_sizes("nn.attention", numbers(m, 2, 1, k), numbers(n, 2, 1, k), numbers(n, 2, 1, m), numbers(2, 1, m, n), scale=0.1)
    check_sizes("nn.batch_attention", numbers(2, m, 2, k), numbers(2, n, 2, k), numbers(2, n, 2, m), scale=0.1)


@pytest.mark.split(3)
@pytest.mark.parametrize("stride,inputs,size", [(1, 64, (14, 7)), (2, 65, (13, 15)), (1, 5, (6, 5))])
def test_old_memory_of_transformed_filters(stride: int, inputs: int, size: tuple[int, int]) -> None:
    data, weight, filters = numbers(2, inputs, *size), numbers(17, inputs, 3, 3), numbers(16, 17, inputs)
    check_sizes("nn.winograd_conv2d", data, weight, filters, strides=stride, padding=1)


@pytest.mark.parametrize("stride,inputs,size", [(1, 64, (7, 7)), (2, 16, (13, 15)), (1, 5, (6, 5))])
def test_old_memory_of_expansions(stride: int, inputs: int, size: tuple[int, int]) -> None:
    data, weight, bias, windows = numbers(1, inputs, *size), numbers(33, inputs, 1, 1), numbers(33), numbers(33, 1, 3, 3)
    check_sizes("nn.expanded_conv2d", data, weight, bias, windows, strides=stride, padding=1, channels=33, a_min=-6.0, a_max=6.0)
