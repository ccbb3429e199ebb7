"""The emulated card is what the tests of the CUDA device stand on: it does what a card does, and sees what is wrong."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from relayvm.vm.cuda.driver import addresses, load_library

from ..emulator import emulator
from ..emulator.session import CudaError, Session, call, made, word

if reason := emulator.available():
    pytest.skip(reason, allow_module_level=True)

KERNELS = """
extern "C" __global__ void sums(const int64* x, int64* y, int64 n) {
  int64 sum = 0;
  for (int64 i = threadIdx.x; i < n; i += blockDim.x) sum += x[i];
  sum = block_reduce(sum, Add());
  if (threadIdx.x == 0) y[0] = sum;
}
extern "C" __global__ void scans(const int64* x, int64* y) {
  int64 total;
  y[threadIdx.x] = block_scan(x[threadIdx.x], Add(), total);
}
extern "C" __global__ void add(int64* x, int64 n, int64 by) {
  for (int64 i = blockIdx.x * int64(blockDim.x) + threadIdx.x; i < n; i += int64(gridDim.x) * blockDim.x) x[i] += by;
}
// a template makes kernels that the compiler must not find
template <class T> DEVICE T reversed_of(const T* x, T* shared, bool wait) {
  shared[threadIdx.x] = x[threadIdx.x];
  if (wait) __syncthreads();
  return shared[blockDim.x - 1 - threadIdx.x];
}
extern "C" __global__ void reversed(const int64* x, int64* y, int64 wait) {
  SHARED(int64, shared);
  y[threadIdx.x] = reversed_of(x, shared, wait != 0);
}
extern "C" __global__ void reversed_static(const int64* x, int64* y, int64 wait) {
  __shared__ int64 shared[1024];
  y[threadIdx.x] = reversed_of(x, shared, wait != 0);
}
extern "C" __global__ void lanes(int64* y) {
  int lane = threadIdx.x & 31;
  unsigned all = 0xffffffffu;
  int64* row = y + 8 * threadIdx.x;
  row[0] = __shfl_sync(all, lane, 5);
  row[1] = __shfl_up_sync(all, lane, 3);
  row[2] = __shfl_down_sync(all, lane, 3, 8);
  row[3] = __shfl_xor_sync(all, lane, 1);
  row[4] = __ballot_sync(all, lane % 3 == 0);
  row[5] = __any_sync(all, lane == 7) * 2 + __all_sync(all, lane < 32);
  row[6] = lane < 16 ? __reduce_add_sync(0x0000ffffu, lane) : __shfl_sync(0xffff0000u, lane, 20);
  row[7] = __syncthreads_count(threadIdx.x < 40);
}
extern "C" __global__ void read_at(const int64* x, int64* y, int64 at) { y[threadIdx.x] = x[at]; }
extern "C" __global__ void write_at(int8* x, int64 at) { x[at] = 1; }
extern "C" __global__ void shared_at(int64* y, int64 at) {
  SHARED(int8, shared);
  if (threadIdx.x == 0) shared[at] = 1;
}
// two warps and two lanes use a byte of shared memory: with nothing, a barrier of the warp or of the block in between
extern "C" __global__ void exchange(int64* y, int64 distance, int64 barrier) {
  __shared__ int64 shared[128];
  shared[threadIdx.x] = threadIdx.x;
  if (barrier == 1) __syncwarp();
  if (barrier == 2) __syncthreads();
  y[threadIdx.x] = shared[threadIdx.x ^ distance];
}
extern "C" __global__ void reuse(int64* y, int64 barrier) {
  __shared__ int64 shared[64];
  for (int i = 0; i < 3; ++i) {
    shared[threadIdx.x] = i;
    __syncthreads();
    y[threadIdx.x] = shared[threadIdx.x ^ 1];
    if (barrier) __syncthreads();
  }
}
extern "C" __global__ void tally(int64* y, int64 atomic) {
  __shared__ int32 count;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  if (atomic) atomicAdd(&count, 1); else count += 1;
  __syncthreads();
  y[threadIdx.x] = count;
}
extern "C" __global__ void counted(int32* counter, int64 n) { for (int64 i = 0; i < n; ++i) atomicAdd(counter, 1); }
extern "C" __global__ void some_wait() { if (threadIdx.x < 40) __syncthreads(); }
extern "C" __global__ void half_a_warp(int64* y) {
  if (threadIdx.x < 16) y[threadIdx.x] = __shfl_xor_sync(0xffffffffu, threadIdx.x, 1);
}
extern "C" __global__ void not_in_mask(int64* y) { y[threadIdx.x] = __shfl_sync(0x0000ffffu, threadIdx.x, 1); }
extern "C" __global__ void wild(int64* y) { y[1ll << 50] = 1; }
extern "C" __global__ void misplaced(float4* y) { y[0] = make_float4(1.0f, 2.0f, 3.0f, 4.0f); }
extern "C" __global__ void many(MANY int64* out) { *out = a0 + A_LAST; }
"""
N_MANY = 599
KERNELS = KERNELS.replace("MANY", "".join(f"int64 a{i}, " for i in range(N_MANY))).replace("A_LAST", f"a{N_MANY - 1}")


@pytest.fixture(scope="module")
def image() -> bytes:
    return emulator.compile(KERNELS)


@pytest.fixture
def card() -> Iterator[Session]:
    with Session() as session:
        yield session


def refused(code: int, function: str, *args: object) -> str:
    """Calls the driver, which must refuse with ``code``; what the emulator says about it."""
    with pytest.raises(CudaError) as caught:
        call(function, *args)
    assert caught.value.code == code, str(caught.value)
    return str(caught.value)


# ---- kernels ---------------------------------------------------------------------------------------------------------------


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
def test_the_threads_of_a_block_reduce_and_scan(card: Session, image: bytes, schedule: int, threads: int) -> None:
    x = np.arange(5000) * 7 - 11
    emulator.set("schedule", schedule)
    y = card.allocate(8 * 1024)
    card.launch(image, "sums", (1,), (threads,), (card.put(x), y, len(x)))
    assert card.get(y, (1,), np.int64)[0] == x.sum()
    card.launch(image, "scans", (1,), (threads,), (card.put(x), y))
    assert np.array_equal(card.get(y, (threads,), np.int64), np.cumsum(x[:threads]))


@pytest.mark.parametrize("schedule", [0, 1, 77])
def test_the_lanes_of_a_warp_exchange_values(card: Session, image: bytes, schedule: int) -> None:
    emulator.set("schedule", schedule)
    y = card.allocate(64 * 8 * 8)
    card.launch(image, "lanes", (1,), (64,), (y,))
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
    assert np.array_equal(card.get(y, (64, 8), np.int64).T, expected)


@pytest.mark.parametrize("grid", [(5,), (1, 7), (2, 3, 4)])
def test_all_blocks_and_threads_run(card: Session, image: bytes, grid: tuple[int, ...]) -> None:
    counter = card.put(np.zeros(1, np.int32))
    card.launch(image, "counted", grid, (4, 3, 5), (counter, 2))
    assert card.get(counter, (1,), np.int32)[0] == np.prod(grid) * 60 * 2


@pytest.mark.parametrize("entry", ["reversed", "reversed_static"])
def test_a_missing_barrier_gives_a_wrong_answer(card: Session, image: bytes, entry: str) -> None:
    x = np.arange(256)
    y = card.allocate(8 * 256)
    for wait, right in ((1, True), (0, False)):
        card.launch(image, entry, (2,), (256,), (card.put(x), y, wait), shared_bytes=8 * 256)
        assert np.array_equal(card.get(y, (256,), np.int64), x[::-1]) == right


def test_shared_memory_is_poison_at_the_start_of_every_block(card: Session, image: bytes) -> None:
    y = card.allocate(8 * 32)
    for _ in range(2):
        card.launch(image, "reversed", (1,), (32,), (card.put(np.arange(32)), y, 0), shared_bytes=8 * 32)
        assert card.get(y, (32,), np.uint64)[0] == 0xA5A5A5A5A5A5A5A5


def test_a_kernel_takes_six_hundred_words_in_either_form(card: Session, image: bytes) -> None:
    out = card.allocate(8)
    card.launch(image, "many", (1,), (32,), [*range(1, N_MANY + 1), out])
    assert card.get(out, (1,), np.int64)[0] == 1 + N_MANY
    words = (ctypes.c_uint64 * (N_MANY + 1))(*range(10, N_MANY + 10), out)
    pointers = (ctypes.c_void_p * (N_MANY + 1))(*(ctypes.addressof(words) + 8 * i for i in range(N_MANY + 1)))
    function = word(card.function(image, "many"))
    call("cuLaunchKernel", function, 1, 1, 1, 32, 1, 1, 0, word(card.stream), pointers, None)
    assert card.get(out, (1,), np.int64)[0] == 2 * 10 + N_MANY - 1


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
def test_a_kernel_that_does_wrong_poisons_the_context(card: Session, image: bytes, entry: str, code: int, text: str) -> None:
    y = card.allocate(1024)
    args = () if entry == "some_wait" else (y + 4,) if entry == "misplaced" else (y,)
    card.launch(image, entry, (1,), (64,), args)
    assert emulator.get("error") == 0
    assert re.search(text, refused(code, "cuStreamSynchronize", word(card.stream)))
    for later in ("cuStreamSynchronize", "cuStreamQuery"):
        refused(code, later, word(card.stream))
    refused(code, "cuMemFreeAsync", word(y), word(card.stream))


@pytest.mark.parametrize("offset", [-8, 96, 104])
def test_a_write_outside_of_a_block_is_found(card: Session, image: bytes, offset: int) -> None:
    inside, y = 88, card.allocate(96)
    card.launch(image, "add", (1,), (32,), (y + inside, 1, 3))
    card.wait()
    card.launch(image, "add", (1,), (32,), (y + offset, 1, 3))
    assert "a write outside of the block of 96 bytes" in refused(700, "cuStreamSynchronize", word(card.stream))


def test_a_write_to_freed_memory_is_found_when_it_is_used_again(card: Session, image: bytes) -> None:
    y = card.allocate(800)
    card.free(y)
    card.launch(image, "add", (1,), (32,), (y, 1, 3))
    assert card.allocate(800) == y
    assert "a write to freed memory" in refused(700, "cuStreamSynchronize", word(card.stream))


# ---- kernels compiled to be checked -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def checked() -> bytes:
    return emulator.compile(KERNELS, checked=True)


@pytest.mark.parametrize("threads", [32, 96, 1024])
def test_checked_kernels_do_what_others_do(card: Session, checked: bytes, threads: int) -> None:
    x = np.arange(5000)
    y = card.allocate(8 * 1024)
    card.launch(checked, "sums", (2,), (threads,), (card.put(x), y, len(x)))
    assert card.get(y, (1,), np.int64)[0] == x.sum()
    card.launch(checked, "scans", (1,), (threads,), (card.put(x), y))
    assert np.array_equal(card.get(y, (threads,), np.int64), np.cumsum(x[:threads]))
    card.launch(checked, "reversed", (2,), (threads,), (card.put(x), y, 1), shared_bytes=8 * threads)
    assert np.array_equal(card.get(y, (threads,), np.int64), x[:threads][::-1])


@pytest.mark.parametrize("at", [0, 4, 5, -1, 1 << 20])
def test_a_read_outside_of_a_block_is_found(card: Session, checked: bytes, at: int) -> None:
    card.launch(checked, "read_at", (1,), (1,), (card.put(np.arange(5)), card.allocate(8), at))
    if 0 <= at < 5:
        card.wait()
    else:
        assert "a read of 8 bytes" in refused(700, "cuStreamSynchronize", word(card.stream))


@pytest.mark.parametrize("at", [-512, -1, 100, 511])
def test_a_checked_write_outside_of_a_block_does_not_happen(card: Session, checked: bytes, at: int) -> None:
    y = card.allocate(100)
    card.wait()
    card.launch(checked, "write_at", (1,), (1,), (y, at))
    assert "a write of 1 bytes" in refused(700, "cuStreamSynchronize", word(card.stream))
    assert emulator.array(y + at, (1,), np.uint8)[0] != 1


def test_memory_that_is_freed_or_not_yet_there_is_found(card: Session, checked: bytes) -> None:
    other, x = card.new_stream(), card.allocate(8)
    card.launch(checked, "write_at", (1,), (1,), (x, 0))
    card.wait()
    later = card.allocate(8)
    card.launch(checked, "write_at", (1,), (1,), (later, 0), stream=other)
    refused(700, "cuStreamSynchronize", word(other))


@pytest.mark.parametrize(("at", "fine"), [(0, True), (255, True), (256, False), (-1, False), (300 << 10, False)])
def test_shared_memory_ends_where_the_launch_said(card: Session, checked: bytes, at: int, fine: bool) -> None:
    card.launch(checked, "shared_at", (1,), (64,), (card.allocate(8), at), shared_bytes=256)
    if fine:
        card.wait()
    else:
        refused(700, "cuStreamSynchronize", word(card.stream))


@pytest.mark.parametrize("schedule", [0, 1, 5])
@pytest.mark.parametrize(
    ("entry", "args", "fine"),
    [
        ("exchange", (0, 0), True),
        ("exchange", (1, 0), False),
        ("exchange", (1, 1), True),
        ("exchange", (1, 2), True),
        ("exchange", (32, 0), False),
        ("exchange", (32, 1), False),
        ("exchange", (32, 2), True),
        ("reuse", (1,), True),
        ("reuse", (0,), False),
        ("tally", (1,), True),
        ("tally", (0,), False),
    ],
)
def test_races_in_shared_memory_are_found(
    card: Session, checked: bytes, entry: str, args: tuple[int, ...], fine: bool, schedule: int
) -> None:
    emulator.set("schedule", schedule)
    card.launch(checked, entry, (2,), (64,), (card.allocate(8 * 64), *args))
    if fine:
        card.wait()
    else:
        assert "a race in shared memory" in refused(719, "cuStreamSynchronize", word(card.stream))


# ---- launches and images ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("grid", "block", "shared", "n_args"),
    [
        ((0,), (32,), 0, 1),
        ((1, 65536), (32,), 0, 1),
        ((1,), (1056,), 0, 1),
        ((1,), (32,), (48 << 10) + 1, 1),
        ((1,), (32,), 0, 2),
    ],
)
def test_a_launch_that_cannot_be_is_refused(
    card: Session, image: bytes, grid: tuple[int, ...], block: tuple[int, ...], shared: int, n_args: int
) -> None:
    with pytest.raises(CudaError) as caught:
        card.launch(image, "lanes", grid, block, [card.allocate(8)] * n_args, shared)
    assert caught.value.code == 1


def test_more_shared_memory_must_be_asked_for(card: Session, image: bytes) -> None:
    function = word(card.function(image, "lanes"))
    refused(1, "cuFuncSetAttribute", function, 8, (227 << 10) + 1)
    call("cuFuncSetAttribute", function, 8, 227 << 10)
    card.launch(image, "lanes", (1,), (32,), [card.allocate(8 * 8 * 32)], 227 << 10)
    card.wait()


def test_images_must_be_for_this_card(card: Session, image: bytes) -> None:
    assert "sm_90" in refused(209, "cuModuleLoadData", ctypes.byref(ctypes.c_void_p()), emulator.compile(KERNELS, "sm_100"))
    refused(200, "cuModuleLoadData", ctypes.byref(ctypes.c_void_p()), b"no image" * 100)
    module = made("cuModuleLoadData", image)
    refused(500, "cuModuleGetFunction", ctypes.byref(ctypes.c_void_p()), word(module), b"unknown")
    call("cuModuleUnload", word(module))
    refused(400, "cuModuleUnload", word(module))


# ---- streams and events ----------------------------------------------------------------------------------------------------


def to_host(array: np.ndarray, source: int, stream: int) -> None:
    call("cuMemcpyDtoHAsync_v2", word(array.ctypes.data), word(source), word(array.nbytes), word(stream))


def test_nothing_runs_before_somebody_waits(card: Session, image: bytes) -> None:
    host, source = np.zeros(3, np.int64), np.array([1, 2, 3])
    x = card.put(source)
    source[:] = 99  # ordinary memory was taken at the call
    card.launch(image, "add", (1,), (32,), (x, 3, 10))
    to_host(host, x, card.stream)
    assert not host.any()
    assert emulator.get("kernels") == 0
    assert emulator.get("queued") == 4
    assert emulator.library().cuStreamQuery(word(card.stream)) == 600
    card.wait()
    assert list(host) == [11, 12, 13]
    assert emulator.library().cuStreamQuery(word(card.stream)) == 0


def test_pinned_memory_is_read_when_the_copy_runs(card: Session) -> None:
    source = card.pinned((3,), np.int64)
    assert (source.view(np.uint8) == 0xA5).all()
    source[:] = 1, 2, 3
    x = card.put(source)
    source[:] = 7
    assert list(card.get(x, (3,), np.int64)) == [7, 7, 7]
    card.put(source)
    call("cuMemFreeHost", word(source.ctypes.data))
    refused(700, "cuStreamSynchronize", word(card.stream))


def test_an_event_runs_only_what_comes_before_it(card: Session, image: bytes) -> None:
    x, event = card.put(np.zeros(1, np.int64)), word(made("cuEventCreate", 0))
    first, second = np.zeros((2, 1), np.int64)
    call("cuEventSynchronize", event)  # it was never recorded
    card.launch(image, "add", (1,), (32,), (x, 1, 5))
    to_host(first, x, card.stream)
    call("cuEventRecord", event, word(card.stream))
    card.launch(image, "add", (1,), (32,), (x, 1, 5))
    to_host(second, x, card.stream)
    other = card.new_stream()
    card.put(np.zeros(4), other)
    assert emulator.library().cuEventQuery(event) == 600
    call("cuEventSynchronize", event)
    assert emulator.library().cuEventQuery(event) == 0
    assert (first[0], second[0], emulator.get("kernels")) == (5, 0, 1)
    assert emulator.get("queued") == 4  # a launch and a copy, and all of the other stream


def test_a_stream_that_waits_for_an_event_runs_the_other_stream_up_to_it(card: Session, image: bytes) -> None:
    copies, event, host = card.new_stream(), word(made("cuEventCreate", 2)), np.zeros(1, np.int64)
    x = card.put(np.array([1]))
    card.launch(image, "add", (1,), (32,), (x, 1, 10))
    call("cuEventRecord", event, word(card.stream))
    call("cuStreamWaitEvent", word(copies), event, 0)
    card.launch(image, "add", (1,), (32,), (x, 1, 100))
    to_host(host, x, copies)
    card.wait(copies)
    assert host[0] == 11
    assert emulator.get("kernels") == 1


def test_without_the_event_the_other_stream_comes_too_early(card: Session, image: bytes) -> None:
    copies, host = card.new_stream(), np.zeros(1, np.int64)
    x = card.put(np.array([1]))
    card.wait()
    card.launch(image, "add", (1,), (32,), (x, 1, 10))
    to_host(host, x, copies)
    card.wait(copies)
    assert host[0] == 1


def test_events_measure_time(card: Session, image: bytes) -> None:
    first, last, untimed = (word(made("cuEventCreate", flags)) for flags in (0, 0, 2))
    ms = ctypes.c_float(-1)
    call("cuEventRecord", first, word(card.stream))
    x = card.put(np.zeros(4096, np.int64))
    card.launch(image, "add", (8,), (256,), (x, 4096, 1))
    call("cuEventRecord", last, word(card.stream))
    call("cuEventRecord", untimed, word(card.stream))
    refused(600, "cuEventElapsedTime", ctypes.byref(ms), first, last)
    card.wait()
    call("cuEventElapsedTime", ctypes.byref(ms), first, last)
    assert ms.value > 0
    refused(400, "cuEventElapsedTime", ctypes.byref(ms), first, untimed)


def test_a_full_queue_runs_its_first_half(card: Session, image: bytes) -> None:
    x = card.put(np.zeros(1, np.int64))
    card.wait()
    emulator.set("queue_limit", 10)
    for _ in range(11):
        card.launch(image, "add", (1,), (32,), (x, 1, 1))
    assert (emulator.get("kernels"), emulator.get("queued")) == (5, 6)


def test_everything_at_once_for_code_on_the_host(card: Session, image: bytes) -> None:
    x = card.put(np.array([1, 2]))
    with emulator.at_once(card.stream):
        card.launch(image, "add", (1,), (32,), (x, 2, 10))
        emulator.array(x, (2,), np.int64)[:] *= 2
    card.launch(image, "add", (1,), (32,), (x, 2, 100))
    assert list(emulator.array(x, (2,), np.int64)) == [22, 24]
    assert list(card.get(x, (2,), np.int64)) == [122, 124]
    assert emulator.get("cuStreamSynchronize") == 1


# ---- memory ----------------------------------------------------------------------------------------------------------------


def test_memory_is_poison_in_the_order_of_the_stream(card: Session) -> None:
    x = card.allocate(1000)
    assert x % 512 == 0
    card.wait()
    memory = emulator.array(x, (1000,), np.uint8)
    assert (memory == 0xA5).all()
    memory[:] = 1
    card.free(x)
    assert (memory == 1).all()
    card.wait()
    assert (memory == 0xA5).all()
    refused(1, "cuMemFreeAsync", word(x), word(card.stream))


def test_freed_memory_is_had_again_at_once_on_its_stream_and_later_on_others(card: Session) -> None:
    other, x = card.new_stream(), card.allocate(1 << 20)
    card.free(x)
    assert card.allocate(1 << 20, other) != x
    assert card.allocate(1 << 19) == x
    card.wait()
    assert x < card.allocate(1 << 18, other) < x + (1 << 20)


def test_a_copy_that_comes_after_its_memory_was_freed_is_an_error(card: Session) -> None:
    copies, host, x = card.new_stream(), np.zeros(4), card.put(np.ones(4))
    to_host(host, x, copies)
    card.free(x)
    card.wait()
    assert "not there" in refused(700, "cuStreamSynchronize", word(copies))


def test_memory_ends(card: Session) -> None:
    total = emulator.get("memory")
    out = ctypes.c_uint64()
    args = (ctypes.byref(out), word(total), word(card.pool), word(card.stream))
    x = card.allocate(512)
    refused(2, "cuMemAllocFromPoolAsync", *args)
    card.free(x)
    refused(2, "cuMemAllocFromPoolAsync", ctypes.byref(out), word(total + 1), word(card.pool), word(card.stream))
    free, all_bytes = ctypes.c_uint64(), ctypes.c_uint64()
    call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(all_bytes))
    assert (free.value, all_bytes.value) == (total - 512, total)  # the pool keeps what it had ...
    card.wait()
    call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(all_bytes))
    assert free.value == total  # ... until somebody waits, for its threshold is 0
    assert emulator.get("error") == 0


@pytest.mark.parametrize("which", [1, 3])
def test_an_allocation_can_be_made_to_fail(card: Session, which: int) -> None:
    emulator.set("fail_allocation", which)
    failed = []
    for i in range(1, 5):
        try:
            card.allocate(8)
        except CudaError as error:
            failed.append((i, error.code))
    assert failed == [(which, 2)]
    with pytest.raises(KeyError):
        emulator.set("unknown", 1)


def test_a_launch_can_be_made_to_fail_at_the_next_wait(card: Session, image: bytes) -> None:
    x = card.put(np.zeros(1, np.int64))
    emulator.set("launch_error", 700)
    card.launch(image, "add", (1,), (32,), (x, 1, 1))
    card.launch(image, "add", (1,), (32,), (x, 1, 1))
    refused(700, "cuStreamSynchronize", word(card.stream))
    refused(700, "cuMemAllocFromPoolAsync", ctypes.byref(ctypes.c_uint64()), word(8), word(card.pool), word(card.stream))
    assert emulator.get("kernels") == 0


@pytest.mark.parametrize("function", ["cuMemcpyHtoDAsync_v2", "cuMemcpyDtoDAsync_v2", "cuMemsetD8Async"])
def test_copies_of_foreign_memory_are_refused(card: Session, function: str) -> None:
    x, host = card.allocate(100), np.zeros(100, np.uint8)
    source: object = {"cuMemcpyHtoDAsync_v2": word(host.ctypes.data), "cuMemcpyDtoDAsync_v2": word(x), "cuMemsetD8Async": 0}[
        function
    ]
    call(function, word(x), source, word(100), word(card.stream))
    refused(1, function, word(x + 1), source, word(100), word(card.stream))
    refused(1, function, word(host.ctypes.data), source, word(1), word(card.stream))
    call(function, word(0), source, word(0), word(card.stream))


# ---- graphs ----------------------------------------------------------------------------------------------------------------


def captured(card: Session) -> int:
    """The graph that ends here, ready to be launched."""
    graph = made_of_stream(card.stream)
    executable = made("cuGraphInstantiateWithFlags", word(graph), word(0))
    call("cuGraphDestroy", word(graph))
    return executable


def made_of_stream(stream: int) -> int:
    out = ctypes.c_uint64()
    call("cuStreamEndCapture", word(stream), ctypes.byref(out))
    return out.value


def test_a_captured_graph_is_replayed(card: Session, image: bytes) -> None:
    x, y = card.put(np.array([1])), card.allocate(8)
    pinned = card.pinned((1,), np.int64)
    call("cuStreamBeginCapture_v2", word(card.stream), 1)
    card.launch(image, "add", (1,), (32,), (x, 1, 10))
    call("cuMemsetD8Async", word(y), 0, word(8), word(card.stream))
    call("cuMemcpyDtoDAsync_v2", word(y), word(x), word(8), word(card.stream))
    to_host(pinned, y, card.stream)
    graph = captured(card)
    card.wait()
    assert emulator.get("kernels") == 0
    for count in (1, 2, 3):
        call("cuGraphLaunch", word(graph), word(card.stream))
        card.wait()
        assert pinned[0] == 1 + 10 * count
    call("cuGraphExecDestroy", word(graph))
    refused(400, "cuGraphLaunch", word(graph), word(card.stream))
    assert emulator.get("cuLaunchKernel") == 1
    assert emulator.get("kernels") == 3


@pytest.mark.parametrize("what", ["wait", "query", "allocate", "free", "host", "pageable"])
def test_what_cannot_be_captured_spoils_the_capture(card: Session, image: bytes, what: str) -> None:
    x, host, stream = card.put(np.zeros(1)), np.zeros(1), word(card.stream)
    call("cuStreamBeginCapture_v2", stream, 1)
    card.launch(image, "add", (1,), (32,), (x, 1, 10))
    forbidden = {
        "wait": ("cuStreamSynchronize", stream),
        "query": ("cuStreamQuery", stream),
        "allocate": ("cuMemAllocFromPoolAsync", ctypes.byref(ctypes.c_uint64()), word(8), word(card.pool), stream),
        "free": ("cuMemFreeAsync", word(x), stream),
        "host": ("cuMemHostAlloc", ctypes.byref(ctypes.c_uint64()), word(8), 0),
        "pageable": ("cuMemcpyHtoDAsync_v2", word(x), word(host.ctypes.data), word(8), stream),
    }
    refused(900, *forbidden[what])
    with pytest.raises(CudaError) as caught:
        card.launch(image, "add", (1,), (32,), (x, 1, 10))
    assert caught.value.code == 901
    refused(901, "cuStreamEndCapture", stream, ctypes.byref(ctypes.c_uint64()))
    card.wait()  # the stream is as it was


def test_a_capture_over_two_streams_must_be_joined(card: Session, image: bytes) -> None:
    other, events = card.new_stream(), [word(made("cuEventCreate", 2)) for _ in range(2)]
    x = card.put(np.zeros(2, np.int64))
    for joined in (True, False):
        call("cuStreamBeginCapture_v2", word(card.stream), 1)
        card.launch(image, "add", (1,), (32,), (x, 1, 1))
        call("cuEventRecord", events[0], word(card.stream))
        call("cuStreamWaitEvent", word(other), events[0], 0)
        card.launch(image, "add", (1,), (32,), (x + 8, 1, 1), stream=other)
        call("cuEventRecord", events[1], word(other))
        if joined:
            call("cuStreamWaitEvent", word(card.stream), events[1], 0)
            call("cuGraphLaunch", word(captured(card)), word(card.stream))
            assert list(card.get(x, (2,), np.int64)) == [1, 1]
        else:
            refused(904, "cuStreamEndCapture", word(card.stream), ctypes.byref(ctypes.c_uint64()))


def test_a_replay_after_its_memory_was_freed_is_an_error(card: Session) -> None:
    x = card.allocate(8)
    call("cuStreamBeginCapture_v2", word(card.stream), 1)
    call("cuMemsetD8Async", word(x), 0, word(8), word(card.stream))
    graph = captured(card)
    card.free(x)
    call("cuGraphLaunch", word(graph), word(card.stream))
    refused(700, "cuStreamSynchronize", word(card.stream))


# ---- the driver ------------------------------------------------------------------------------------------------------------


def test_contexts_and_handles_are_checked() -> None:
    emulator.reset()
    out = ctypes.c_uint64()
    refused(3, "cuDeviceGetCount", ctypes.byref(out))
    emulator.set("no_device", 1)
    refused(100, "cuInit", 0)
    emulator.set("no_device", 0)
    emulator.set("devices", 2)
    emulator.set("driver_version", 11080)
    call("cuInit", 0)
    assert (made("cuDriverGetVersion"), made("cuDeviceGetCount")) == (11080, 2)
    refused(101, "cuDeviceGet", ctypes.byref(out), 2)
    call("cuCtxSetCurrent", None)
    refused(201, "cuStreamCreate", ctypes.byref(out), 1)
    call("cuCtxSetCurrent", word(made("cuDevicePrimaryCtxRetain", 1)))
    stream = made("cuStreamCreate", 1)
    call("cuStreamDestroy_v2", word(stream))
    refused(400, "cuStreamSynchronize", word(stream))
    refused(400, "cuStreamSynchronize", None)
    emulator.reset()
    refused(3, "cuStreamSynchronize", word(stream))


@pytest.mark.parametrize("capability", [80, 90])
def test_a_device_says_what_it_is(card: Session, capability: int) -> None:
    emulator.set("compute_capability", capability)
    attributes = {n: made("cuDeviceGetAttribute", n, 0) for n in (1, 10, 75, 76, 97, 115)}
    assert attributes == {1: 1024, 10: 32, 75: capability // 10, 76: 0, 97: 227 << 10, 115: 1}
    assert made("cuDeviceTotalMem_v2", 0) == emulator.get("memory")
    text = ctypes.c_char_p()
    call("cuGetErrorName", 700, ctypes.byref(text))
    assert text.value == b"CUDA_ERROR_ILLEGAL_ADDRESS"
    refused(1, "cuGetErrorName", 12345, ctypes.byref(text))


# ---- cuBLAS ----------------------------------------------------------------------------------------------------------------


def blas(function: str, *args: object) -> int:
    return int(getattr(emulator.library(), function)(*args))


TYPES = {"float32": (0, 68, ctypes.c_float), "float64": (1, 70, ctypes.c_double), "float16": (2, 68, ctypes.c_float)}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("transposed", [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("k", [0, 5])
def test_cublas_multiplies_batches_of_matrices(card: Session, dtype: str, transposed: tuple[int, int], k: int) -> None:
    number, compute, scalar = TYPES[dtype]
    rng = np.random.default_rng(3)
    m, n, batches = 3, 4, 2
    a, b = (rng.standard_normal((batches, *s)).astype(dtype) for s in ((m, k), (k, n)))
    c = rng.standard_normal((batches, m, n)).astype(dtype)
    handle = word(made("cublasCreate_v2"))
    assert blas("cublasSetStream_v2", handle, word(card.stream)) == 0

    def columns(x: np.ndarray, transpose: int) -> tuple[int, int]:  # where it lies column after column, and its leading extent
        x = x if transpose else x.swapaxes(1, 2)
        return card.put(x), max(1, x.shape[2])

    (at_a, lda), (at_b, ldb), (at_c, ldc) = columns(a, transposed[0]), columns(b, transposed[1]), columns(c, 0)
    status = blas(
        "cublasGemmStridedBatchedEx", handle, *transposed, m, n, k, ctypes.byref(scalar(2)),
        word(at_a), number, lda, word(m * k), word(at_b), number, ldb, word(k * n), ctypes.byref(scalar(0.5)),
        word(at_c), number, ldc, word(m * n), batches, compute, -1,
    )  # fmt: skip
    assert status == 0
    got = card.get(at_c, (batches, n, m), dtype).swapaxes(1, 2)
    wide = np.float64 if dtype == "float64" else np.float32
    expected = 2 * (a.astype(wide) @ b.astype(wide)) + 0.5 * c.astype(wide)
    assert np.allclose(got, expected, rtol=1e-3 if dtype == "float16" else 1e-5, atol=1e-3 if dtype == "float16" else 1e-6)


def test_cublas_refuses_what_it_does_not_multiply(card: Session) -> None:
    handle, x, one = word(made("cublasCreate_v2")), card.put(np.ones(16)), ctypes.byref(ctypes.c_double(1))
    zero = ctypes.byref(ctypes.c_double(0))

    def multiply(number: int, compute: int, lda: int = 2) -> int:
        matrices = [word(x), number, lda, word(4), word(x), number, 2, word(4), zero, word(x), number, 2, word(4)]
        return blas("cublasGemmStridedBatchedEx", handle, 0, 0, 2, 2, 2, one, *matrices, 1, compute, -1)

    assert multiply(1, 70) == 1  # it has no stream
    assert blas("cublasSetStream_v2", handle, word(card.stream)) == 0
    assert [multiply(1, 70), multiply(1, 68), multiply(0, 70), multiply(1, 70, lda=1)] == [0, 15, 15, 7]
    card.wait()
    assert list(emulator.array(x, (4,), np.float64)) == [2, 2, 2, 2]


# ---- threads of the host ----------------------------------------------------------------------------------------------------


def test_threads_of_the_host_share_the_card(card: Session, image: bytes) -> None:
    def work(by: int) -> int:
        call("cuCtxSetCurrent", word(context))
        stream = card.new_stream()
        x = card.put(np.zeros(1, np.int64), stream)
        for _ in range(20):
            card.launch(image, "add", (2,), (64,), (x, 1, by), stream=stream)
            card.launch(image, "sums", (1,), (64,), (x, x, 1), stream=stream)
            card.wait(stream)
        return int(emulator.array(x, (1,), np.int64)[0])

    context = made("cuDevicePrimaryCtxRetain", 0)
    for entry in ("add", "sums"):
        card.function(image, entry)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [0, 20, 40, 60]
