"""Constants in huge pages: the same elements in other memory, once for each executable."""

from __future__ import annotations

import sys
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import relayvm as relay
from relayvm.ops.native.memory import HUGE_PAGE_BYTES
from relayvm.vm.bytecode.executable_file import MAPPED_BYTES
from relayvm.vm.loading import loaded_program
from relayvm.vm.runtime import huge_pages
from relayvm.vm.runtime.huge_blocks import BLOCK_BYTES, new_bytes
from relayvm.vm.runtime.huge_pages import MOST_BYTES, NUMPY_HUGE_BYTES, Moving, in_huge_pages

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has huge pages on request")
SHAPES = st.lists(st.lists(st.integers(0, 5), max_size=3), max_size=5)


@given(SHAPES, st.sampled_from(["float32", "int64", "bool", "float64"]))
def test_copies_are_equal_and_cannot_be_written(shapes: list[list[int]], dtype: str) -> None:
    large = np.arange(HUGE_PAGE_BYTES, dtype=np.uint8)
    arrays = [np.asarray(np.random.default_rng(0).integers(0, 2, shape).astype(dtype)) for shape in shapes] + [large]
    made = in_huge_pages(arrays)
    for mine, theirs in zip(made, arrays, strict=True):
        np.testing.assert_array_equal(mine, theirs, strict=True)
        assert mine.flags.c_contiguous and not mine.flags.writeable and mine.ctypes.data % 64 == 0
        assert not np.shares_memory(mine, theirs)
    assert made[0].ctypes.data % HUGE_PAGE_BYTES == 0
    assert [a is b for a, b in zip(in_huge_pages(made), made, strict=True)] == [True] * len(made)


def test_few_and_many_bytes_stay_where_they_are() -> None:
    few, many = np.zeros(HUGE_PAGE_BYTES - 64, np.uint8), np.broadcast_to(np.uint8(0), MOST_BYTES + 1)
    for array in (few, many):
        (same,) = in_huge_pages([array])
        assert same is array
    assert in_huge_pages([]) == []


def test_arrays_in_huge_pages_stay_there() -> None:
    small, large = np.ones((2, 1 << 20), np.uint8), np.ones(NUMPY_HUGE_BYTES, np.uint8)
    written, packed = new_bytes(3 << 20)
    written[...] = 1
    moved = in_huge_pages([small, large, packed, large[1:]])
    assert [a is b for a, b in zip(moved, (small, large, packed), strict=False)] == [False, True, True]
    assert all((array == 1).all() for array in moved)


def test_bytes_of_blocks_are_neighbours() -> None:
    parts = [new_bytes(n) for n in (1, 64, 65, BLOCK_BYTES + 1, 3)]
    for number, (written, _) in enumerate(parts):
        written[...] = number
    for number, (_, read) in enumerate(parts):
        assert (read == number).all() and read.ctypes.data % 64 == 0 and not read.flags.writeable
    assert parts[1][1].ctypes.data - parts[0][1].ctypes.data == 64


def test_a_block_lives_as_long_as_its_arrays() -> None:
    written, read = new_bytes(BLOCK_BYTES)
    owner = read.base
    assert isinstance(owner, memoryview)
    block = weakref.ref(owner.obj)
    del owner, written
    assert block() is not None
    del read
    assert block() is None
    assert len(new_bytes(1)[1]) == 1  # a block is opened anew


def test_machines_of_one_executable_share_its_constants() -> None:
    weight = np.random.default_rng(0).standard_normal((1024, 520)).astype(np.float32)
    x = relay.var("x", shape=(3, 520), dtype="float32")
    exe = relay.compile(relay.IRModule.from_expr(relay.Function([x], relay.nn.dense(x, relay.const(weight)))), target="cpu")
    before = [c.copy() for c in exe.constants]
    first = relay.VirtualMachine(exe)
    positions = [c.ctypes.data for c in exe.constants]
    second = relay.VirtualMachine(exe)
    assert [c.ctypes.data for c in exe.constants] == positions and positions[0] % HUGE_PAGE_BYTES == 0
    for mine, theirs in zip(exe.constants, before, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    data = np.random.default_rng(1).standard_normal((3, 520)).astype(np.float32)
    np.testing.assert_allclose(first.run(data).numpy(), data @ weight.T, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(first.run(data).numpy(), second.run(data).numpy())


@pytest.mark.parametrize("in_thread", [False, True])
@pytest.mark.parametrize("size", [3, 5 << 20])
def test_moving_gives_the_same_values(size: int, in_thread: bool) -> None:
    arrays = [np.arange(size, dtype="float32"), np.ones((2, 3))]
    for made, array in zip(Moving(arrays, in_thread).result(), arrays, strict=True):
        np.testing.assert_array_equal(made, array)


def test_a_machine_runs_while_the_constants_of_a_file_are_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELAYVM_NUM_THREADS", "2")
    weight, added = np.random.default_rng(0).random((2, MAPPED_BYTES // 8 + 1), np.float32), np.float32(2)
    x = relay.var("x", shape=("n", 1), dtype="float32")
    mod = relay.IRModule.from_expr(relay.Function([x], relay.add(x, relay.const(weight))))
    relay.compile(mod, target="cpu").save(tmp_path / "e.rvm")
    exe = relay.Executable.load(tmp_path / "e.rvm")
    copied, move = threading.Event(), huge_pages.in_huge_pages
    monkeypatch.setattr(huge_pages, "in_huge_pages", lambda *given: (copied.wait(), move(*given))[1])
    (mapped,) = exe.constants
    data = np.full((2, 1), added)
    first, second = relay.VirtualMachine(exe), relay.VirtualMachine(exe)
    before = first.run(data).numpy()
    assert exe.constants[0] is mapped
    copied.set()
    loaded_program._moving[exe].wait()
    assert exe.constants[0].ctypes.data % HUGE_PAGE_BYTES == 0
    third = relay.VirtualMachine(exe)
    for machine in (first, second, third):
        assert machine._runtime.tables._objects["data"][0] == exe.constants[0].ctypes.data
        np.testing.assert_array_equal(machine.run(data).numpy(), before)
    np.testing.assert_array_equal(before, weight + added)
