"""Kernels on the emulated GPU: threads, lanes and blocks behave as on a GPU, and errors are found."""

from __future__ import annotations

import ctypes
import re

import numpy as np
import pytest

from relayvm.vm.devices.cuda.driver_api.driver import addresses, load_library

from ...emulator import emulator
from ...emulator.session import CudaError, Session, call, refused, word
from .kernels import N_MANY


def test_it_has_every_function_that_the_machine_calls() -> None:
    assert all(addresses(load_library(emulator.driver_path())))


def test_kernels_are_found_in_a_text_and_comments_are_not() -> None:
    text = 'extern "C" __global__ void a(int64 n) {} // __global__ void b()\n__global__ void\n __launch_bounds__(256, 2)  c () {}'
    assert emulator.kernels(text) == ["a", "c"]


def test_an_error_of_the_compiler_shows_the_text() -> None:
    with pytest.raises(emulator.CompileError, match=r"\d+ .*nonsense_here"):
        emulator.compile('extern "C" __global__ void a() { nonsense_here; }')


@pytest.mark.parametrize("parameter", ["int32 n", "float32 x", "float16 x"])
def test_a_parameter_that_is_no_word_does_not_compile(parameter: str) -> None:
    with pytest.raises(emulator.CompileError, match="64-bit word"):
        emulator.compile(f'extern "C" __global__ void a({parameter}) {{}}')


@pytest.mark.parametrize("schedule", [0, 1, 12345])
@pytest.mark.parametrize("threads", [32, 96, 1024])
def test_the_threads_of_a_block_reduce_and_scan(gpu: Session, image: bytes, schedule: int, threads: int) -> None:
    x = np.arange(5000) * 7 - 11
    emulator.set("schedule", schedule)
    y = gpu.allocate(8 * 1024)
    gpu.launch(image, "sums", (1,), (threads,), (gpu.put(x), y, len(x)))
    assert gpu.get(y, (1,), np.int64)[0] == x.sum()
    gpu.launch(image, "scans", (1,), (threads,), (gpu.put(x), y))
    assert np.array_equal(gpu.get(y, (threads,), np.int64), np.cumsum(x[:threads]))


@pytest.mark.parametrize("schedule", [0, 1, 77])
def test_the_lanes_of_a_warp_exchange_values(gpu: Session, image: bytes, schedule: int) -> None:
    emulator.set("schedule", schedule)
    y = gpu.allocate(64 * 8 * 8)
    gpu.launch(image, "lanes", (1,), (64,), (y,))
    lane = np.arange(64) % 32
    expected = [
        np.full(64, 5),
        np.where(lane < 3, lane, lane - 3),
        np.where(lane % 8 + 3 > 7, lane, lane + 3),
        lane ^ 1,
        np.full(64, sum(1 << i for i in range(0, 32, 3))),
        np.full(64, 3),
        np.where(lane < 16, sum(range(16)), 20),
        np.full(64, 40),
    ]
    assert np.array_equal(gpu.get(y, (64, 8), np.int64).T, expected)


def chain(gpu: Session, image: bytes, schedule: int, by_start: bool = True, flag_first: bool = False) -> np.ndarray:
    """The sums of 9 blocks, each of which waits for the block before."""
    emulator.set("schedule", schedule)
    y = gpu.put(np.zeros(9, np.int64))
    gpu.launch(image, "chained", (9,), (64,), (y, gpu.put(np.zeros(10, np.int32)), by_start, flag_first))
    return gpu.get(y, (9,), np.int64)


@pytest.mark.parametrize("resident", [1, 2, 5])
@pytest.mark.parametrize("schedule", [0, 1, 2, 3, 77])
def test_blocks_wait_for_blocks_that_have_started(
    gpu: Session, image: bytes, checked: bytes, schedule: int, resident: int
) -> None:
    emulator.set("resident", resident)
    for text in (image, checked):
        assert np.array_equal(chain(gpu, text, schedule), np.cumsum(np.arange(9)))


def test_a_wait_for_a_block_that_cannot_start_is_found(gpu: Session, image: bytes) -> None:
    assert np.array_equal(chain(gpu, image, 0, by_start=False), np.cumsum(np.arange(9)))
    with pytest.raises(CudaError, match="chained: 3 blocks wait for others without end; 6 of 9 have not started"):
        chain(gpu, image, 1, by_start=False)


def test_a_flag_that_is_written_before_its_value_is_found(gpu: Session, image: bytes) -> None:
    wanted = np.cumsum(np.arange(9))
    assert any(not np.array_equal(chain(gpu, image, schedule, flag_first=True), wanted) for schedule in range(2, 6))


@pytest.mark.parametrize("grid", [(5,), (1, 7), (2, 3, 4)])
def test_all_blocks_and_threads_run(gpu: Session, image: bytes, grid: tuple[int, ...]) -> None:
    counter = gpu.put(np.zeros(1, np.int32))
    gpu.launch(image, "counted", grid, (4, 3, 5), (counter, 2))
    assert gpu.get(counter, (1,), np.int32)[0] == np.prod(grid) * 60 * 2


@pytest.mark.parametrize("entry", ["reversed", "reversed_static"])
def test_a_missing_barrier_gives_a_wrong_answer(gpu: Session, image: bytes, entry: str) -> None:
    x = np.arange(256)
    y = gpu.allocate(8 * 256)
    for wait, right in ((1, True), (0, False)):
        gpu.launch(image, entry, (2,), (256,), (gpu.put(x), y, wait), shared_bytes=8 * 256)
        assert np.array_equal(gpu.get(y, (256,), np.int64), x[::-1]) == right


def test_shared_memory_is_poison_at_the_start_of_every_block(gpu: Session, image: bytes) -> None:
    y = gpu.allocate(8 * 32)
    for _ in range(2):
        gpu.launch(image, "reversed", (1,), (32,), (gpu.put(np.arange(32)), y, 0), shared_bytes=8 * 32)
        assert gpu.get(y, (32,), np.uint64)[0] == 0xA5A5A5A5A5A5A5A5


def test_a_kernel_takes_six_hundred_words_in_either_form(gpu: Session, image: bytes) -> None:
    out = gpu.allocate(8)
    gpu.launch(image, "many", (1,), (32,), [*range(1, N_MANY + 1), out])
    assert gpu.get(out, (1,), np.int64)[0] == 1 + N_MANY
    words = (ctypes.c_uint64 * (N_MANY + 1))(*range(10, N_MANY + 10), out)
    pointers = (ctypes.c_void_p * (N_MANY + 1))(*(ctypes.addressof(words) + 8 * i for i in range(N_MANY + 1)))
    function = word(gpu.function(image, "many"))
    call("cuLaunchKernel", function, 1, 1, 1, 32, 1, 1, 0, word(gpu.stream), pointers, None)
    assert gpu.get(out, (1,), np.int64)[0] == 2 * 10 + N_MANY - 1


@pytest.mark.parametrize(
    ("entry", "code", "text"),
    [
        ("some_wait", 719, "of 64 threads 40 wait at a barrier, 0 in a warp operation, 24 have returned"),
        ("half_a_warp", 719, "16 in a warp operation, 48 have returned"),
        ("not_in_mask", 719, "a lane is not in the mask"),
        ("wild", 700, r"block \(0, 0, 0\), thread \(0, 0, 0\): an access to "),
        ("misplaced", 700, "misplaced, block .* not aligned"),
    ],
)
def test_a_kernel_that_does_wrong_poisons_the_context(gpu: Session, image: bytes, entry: str, code: int, text: str) -> None:
    y = gpu.allocate(1024)
    args = () if entry == "some_wait" else (y + 4,) if entry == "misplaced" else (y,)
    gpu.launch(image, entry, (1,), (64,), args)
    assert emulator.get("error") == 0
    assert re.search(text, refused(code, "cuStreamSynchronize", word(gpu.stream)))
    for later in ("cuStreamSynchronize", "cuStreamQuery"):
        refused(code, later, word(gpu.stream))
    refused(code, "cuMemFreeAsync", word(y), word(gpu.stream))


@pytest.mark.parametrize("offset", [-8, 96, 104])
def test_a_write_outside_of_a_block_is_found(gpu: Session, image: bytes, offset: int) -> None:
    inside, y = 88, gpu.allocate(96)
    gpu.launch(image, "add", (1,), (32,), (y + inside, 1, 3))
    gpu.wait()
    gpu.launch(image, "add", (1,), (32,), (y + offset, 1, 3))
    assert "a write outside of the block of 96 bytes" in refused(700, "cuStreamSynchronize", word(gpu.stream))


def test_a_write_to_freed_memory_is_found_when_it_is_used_again(gpu: Session, image: bytes) -> None:
    y = gpu.allocate(800)
    gpu.free(y)
    gpu.launch(image, "add", (1,), (32,), (y, 1, 3))
    assert gpu.allocate(800) == y
    assert "a write to freed memory" in refused(700, "cuStreamSynchronize", word(gpu.stream))
