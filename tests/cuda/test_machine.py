"""The machine on a GPU (an emulated one): bulks, memory, faults, errors of the driver, and Python's part."""

from __future__ import annotations

import gc
import itertools
import os
import sys
import weakref
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import numpy as np
import pytest

import relayvm as relay
from relayvm.ops.core.implementation import Kernel
from relayvm.ops.core.op import REGISTRY, Op, OpPattern
from relayvm.shape_funcs.symbolic.registry import SHAPE_FUNCS, register_shape_func
from relayvm.vm.api.machine import VirtualMachine
from relayvm.vm.devices.cuda.driver_api import provider
from relayvm.vm.devices.cuda.driver_api.driver import NoCuda
from relayvm.vm.state.gpu_layout import (
    RING_PART_BYTES,
    RING_PARTS,
)

from ..emulator import emulator
from ..emulator.platform import Foreign, forget
from ..programs import HEADER
from .machines import CHAIN, COUNTED, DIVIDE, chain, driver, gpu, machine, new_stream  # noqa: F401  the fixture is used by every test

pytestmark = pytest.mark.skipif(emulator.available() is not None, reason=str(emulator.available()))


def test_the_host_waits_where_it_reads_and_says_why() -> None:
    vm = machine(COUNTED)
    for n in (0, 1, 7):
        x = np.linspace(-1, 1, n, dtype="f")
        vm.reset_counters()
        np.testing.assert_array_equal(vm.run(x).numpy(), np.argwhere(x > 0))
        assert vm.sync_reasons == {"count": 1, "fetch": 1}


def test_with_bulk_off_it_waits_after_each_launch() -> None:
    vm = machine(CHAIN, fuse=False, bulk=False)
    vm.run(np.ones(3, "f")).numpy()
    assert vm.sync_reasons == {"each_launch": 16}


def test_a_kernel_that_fails_is_named_and_what_it_made_is_lost() -> None:
    vm = machine(DIVIDE)
    good = vm.run(np.full(3, 8, "i4"), np.full(3, 2, "i4"))
    assert good.numpy().tolist() == [5, 5, 5]
    held = vm.run(np.full(3, 8, "i4"), np.full(3, 2, "i4"))
    bad = vm.run(np.full(3, 8, "i4"), np.array([1, 0, 2], "i4"))
    with pytest.raises(relay.VMError, match="integer division by zero") as failed:
        bad.numpy()
    assert "floor_divide" in str(failed.value)
    for lost in (bad, held):
        with pytest.raises(relay.VMError, match="was dropped"):
            lost.numpy()
    assert good.numpy().tolist() == [5, 5, 5]
    assert vm.run(np.full(2, 8, "i4"), np.full(2, 4, "i4")).numpy().tolist() == [3, 3]


def test_memory_goes_back_to_the_driver() -> None:
    vm = machine(CHAIN, fuse=False, plan=False)
    x = np.ones(1000, "f")
    result = vm.run(x)
    before = vm.memory["pool_bytes"]
    assert 0 < vm.trim() < before
    np.testing.assert_array_equal(result.numpy(), chain(x))
    del result, vm
    gc.collect()
    assert emulator.get("blocks") == 0


def test_out_of_memory_frees_what_can_be_freed_tries_again_and_then_says_who_holds_what() -> None:
    emulator.set("memory", 1 << 20)
    vm = machine(CHAIN)
    for n in (60_000, 90_000, 50_000):  # 240, 360 and 200 kB: each fits alone
        x = np.ones(n, "f")
        np.testing.assert_array_equal(vm.run(x).numpy(), chain(x))
    with pytest.raises(relay.VMError, match="out of memory") as failed:
        vm.run(np.ones(1 << 20, "f"))
    assert "this machine holds" in str(failed.value) and "everything else" in str(failed.value)
    np.testing.assert_array_equal(vm.run(np.ones(10, "f")).numpy(), chain(np.ones(10, "f")))


def test_an_error_of_the_gpu_kills_the_machine_with_a_clear_text() -> None:
    vm = machine(CHAIN, fuse=False)
    x = np.ones(4, "f")
    vm.run(x).numpy()
    emulator.set("launch_error", 700)
    result = vm.run(x)
    with pytest.raises(relay.VMError, match="CUDA_ERROR_ILLEGAL_ADDRESS") as failed:
        result.numpy()
    assert "one of 16 launches, from @main pc" in str(failed.value)
    assert "make a new VirtualMachine" in str(failed.value)
    with pytest.raises(relay.VMError, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
        vm.run(x).numpy()


def test_debug_sync_names_the_launch() -> None:
    vm = machine(CHAIN, fuse=False, debug_sync=True)
    emulator.set("launch_error", 700)
    with pytest.raises(relay.VMError, match="CUDA_ERROR_ILLEGAL_ADDRESS") as failed:
        vm.run(np.ones(4, "f"))
    assert "the launch at @main pc" in str(failed.value) and "nn.relu" in str(failed.value)


@pytest.mark.parametrize(
    ("setting", "value", "device", "words"),
    [
        ("devices", 0, "cuda", "there is no CUDA device"),
        ("driver_version", 11040, "cuda", "the CUDA driver supports CUDA 11.4; CUDA 12 or newer is needed"),
        ("devices", 1, "cuda:1", "there is no CUDA device 1: this machine has one GPU, counted from 0"),
        ("devices", 2, "cuda:7", "there is no CUDA device 7: this machine has 2 GPUs, counted from 0"),
    ],
)
def test_one_line_says_why_there_is_no_gpu(setting: str, value: int, device: str, words: str) -> None:
    emulator.set(setting, value)
    forget()
    exe = relay.compile(HEADER + CHAIN, target="cuda")
    with pytest.raises(relay.ConfigError) as refused:
        VirtualMachine(exe, device)
    assert words in str(refused.value)


def test_without_a_driver_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider, "provider", provider.CupyProvider())
    forget()
    with pytest.raises(relay.ConfigError, match=r"no CUDA driver: libcuda\.so\.1 cannot be loaded"):
        machine(CHAIN)


def test_a_packaged_library_comes_before_the_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def load(file: str) -> str:
        asked.append(file)
        if "missing" in file or file == "libcublas.so.13":
            raise OSError(f"{file}: cannot open shared object file")
        return file

    found = SimpleNamespace(abs_path="/packages/libcublas.so.13")
    monkeypatch.setattr(provider.ctypes, "CDLL", load)
    monkeypatch.setitem(sys.modules, "cuda", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", SimpleNamespace(load_nvidia_dynamic_lib=lambda name: found))
    assert provider.CupyProvider().library("cublas") == "/packages/libcublas.so.13" == asked.pop()
    found.abs_path = "/missing/libcublas.so.13"
    assert provider.CupyProvider().library("cublas") == "libcublas.so.12"
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", None)
    with pytest.raises(NoCuda, match=r"^missing cannot be loaded \(.*libmissing\.so\.13.*libmissing\.so\.12.*pip install"):
        provider.CupyProvider().library("missing")


def test_gpus_by_index() -> None:
    emulator.set("devices", 2)
    forget()
    first, second = machine(CHAIN, "cuda:0"), machine(CHAIN, "cuda:1")
    x = np.ones(3, "f")
    np.testing.assert_array_equal(second.run(first.run(x)).numpy(), chain(chain(x)))


def test_a_trace_has_the_times_of_the_gpu() -> None:
    vm = machine(CHAIN, fuse=False, plan=False)
    x = np.ones(100, "f")
    vm.run(x).numpy()
    vm.start_trace()
    vm.run(x).numpy()
    events = vm.stop_trace()
    kernels = [e for e in events if e.kind == "kernel"]
    assert len(kernels) == 16
    assert all(e.start_ns < e.end_ns for e in kernels)
    assert all(a.end_ns <= b.start_ns + 100 for a, b in itertools.pairwise(kernels)), "one after another"
    assert {e.kind for e in events} >= {"dtoh", "htod", "sync", "alloc"}


def test_a_thousand_sizes_leave_nothing_behind() -> None:
    vm = machine(COUNTED)
    rng, after_warm_up = np.random.default_rng(0), 0
    for k, n in enumerate(rng.integers(0, 300, 1000).tolist()):
        x = rng.standard_normal(n).astype("f")
        np.testing.assert_array_equal(vm.run(x).numpy(), np.argwhere(x > 0))
        if k == 300:
            after_warm_up = emulator.get("blocks")
    assert vm.memory["live_bytes"] == 0
    assert emulator.get("blocks") <= after_warm_up + 2


# ---- forked processes -------------------------------------------------------------------------------------------------------


def in_child(work: Callable[[], object]) -> str:
    """The report of a forked child on its work: its result, or the error that it raised, then how often it called the driver."""
    end, other = os.pipe()
    child = os.fork()
    if child == 0:
        text = "nothing"
        try:
            text = str(work())
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        finally:
            os.write(other, f"{text}\ncalls: {emulator.get('after_fork')}".encode())
            os._exit(0)
    os.close(other)
    with os.fdopen(end, "rb") as output:
        text = output.read().decode()
    assert os.waitpid(child, 0)[1] == 0, "the child died"
    return text


def test_a_forked_child_refuses_and_never_calls_the_driver() -> None:
    exe = relay.compile(HEADER + CHAIN, target="cuda", fuse=False, graphs="on")
    vm, x = VirtualMachine(exe), np.ones(4, "f")
    held = [vm.run(x) for _ in range(3)]
    capsule = held[0].__dlpack__(stream=1, max_version=(1, 0))
    product = machine("def @main(%x: Tensor[(4, 4), float32]) { nn.dense(%x, %x) }", graphs="off")
    square = product.run(np.eye(4, dtype="f"))
    convolution = machine("def @main(%x: Tensor[(1, 1, ?, ?), float32]) { nn.conv2d(%x, %x) }", graphs="off")
    image = convolution.run(np.ones((1, 1, 1, 1), "f"))

    def everything_goes() -> str:
        nonlocal vm, capsule, product, square, convolution, image
        held.clear()
        del vm, capsule, product, square, convolution, image
        gc.collect()
        return "gone"

    words = "the GPU was opened by the process that this one was forked from, and cannot be used here"
    for work in (
        lambda: vm.run(x),
        lambda: vm.run([1.0, 1.0]),
        lambda: vm.run(held[0]),
        lambda: product.run(square),  # a library's function is called by its address
        lambda: convolution.run(image),
        lambda: held[0].numpy(),
        lambda: held[0].__dlpack__(stream=1, max_version=(1, 0)),
        lambda: VirtualMachine(exe),
        lambda: vm.start_trace() or vm.stop_trace(),
    ):
        output = in_child(work)
        assert f"{words}\n" in output and "reports" not in output and output.endswith("calls: 0"), output
        assert output.startswith(("VMError", "ConfigError", "BufferError")), output
        assert output.startswith("BufferError") or "multiprocessing's method `spawn`" in output
    assert in_child(everything_goes) == "gone\ncalls: 0"
    assert in_child(lambda: vm.trim() >= 0).endswith("calls: 0")
    np.testing.assert_array_equal(held[1].numpy(), chain(x))
    np.testing.assert_array_equal(vm.run(x).numpy(), chain(x))


# ---- kernels in Python -------------------------------------------------------------------------------------------------------


@pytest.fixture
def reversed_in_numpy() -> Iterator[None]:
    name = "test.reversed"
    register_shape_func(name, data_dependent=False)(lambda inputs, attrs: [inputs[0].shape])

    def body(x: np.ndarray, out: np.ndarray) -> None:
        out[...] = x[::-1]

    kernel = Kernel("reversed", body, in_python=True)
    Op(name=name, doc="x[::-1]", inputs=("data",), pattern=OpPattern.OPAQUE, dtype=lambda d, attrs: d[0], kernels=(kernel,))
    yield
    del REGISTRY[name], SHAPE_FUNCS[name]


@pytest.mark.usefixtures("reversed_in_numpy")
def test_a_users_kernel_over_numpy_runs_on_counted_copies() -> None:
    vm = machine("def @main(%x: Tensor[(?n), float32]) { test.reversed(%x + 1f) * 2f }")
    for n in (0, 1, 5):
        x = np.arange(n, dtype="f")
        vm.reset_counters()
        np.testing.assert_array_equal(vm.run(x).numpy(), (x[::-1] + 1) * 2)
        assert vm.sync_reasons == {"python_kernel": 1, "fetch": 1}
        assert (vm.counters["dtoh_copies"], vm.counters["htod_copies"], vm.counters["host_calls"]) == (2, 2, 1)
    assert vm.memory["live_bytes"] == 0


def test_nobody_waits_for_a_sort() -> None:
    vm = machine("def @main(%x: Tensor[(?n), float32]) { argsort(%x * 2f) + 1 }")
    for n in (1, 7, 300):
        x = np.random.default_rng(n).standard_normal(n).astype("f")
        vm.reset_counters()
        np.testing.assert_array_equal(vm.run(x).numpy(), np.argsort(x, kind="stable") + 1)
        assert vm.sync_reasons == {"fetch": 1}


# ---- effects of work that runs later ---------------------------------------------------------------------------------------


def test_an_argument_in_page_locked_memory_may_change_after_the_call() -> None:
    vm = machine(CHAIN)
    held = vm.run(np.ones(4, "f")).numpy()  # lies where the GPU copied it to
    wanted = chain(held)
    result = vm.run(held)
    held[:] = -1
    np.testing.assert_array_equal(result.numpy(), wanted)


def test_arguments_pass_through_a_ring_that_is_never_overwritten_early() -> None:
    vm = machine("def @main(%x: Tensor[(?n), float32]) { %x * 2f }", graphs="on")
    part = RING_PART_BYTES // 4
    sizes = [1, part - 16, part, part + 1, 0, 7, 3 * part, part // 3, *[part // 2] * (3 * RING_PARTS), RING_PARTS * part + 5]
    results = []
    for number, n in enumerate(sizes):
        x = np.full(n, number, "f")
        results.append(vm.run(x))
        x[:] = -1
    for number, (n, result) in enumerate(zip(sizes, results, strict=True)):
        np.testing.assert_array_equal(result.numpy(), np.full(n, 2 * number, "f"))


def test_page_locked_memory_for_arguments_is_asked_for_again() -> None:
    vm = machine("def @main(%x: Tensor[(?n), float32]) { %x * 2f }")
    emulator.set("fail_host_allocation", 1)
    before = emulator.get("cuMemHostAlloc")
    np.testing.assert_array_equal(vm.run(np.ones(3, "f")).numpy(), [2, 2, 2])
    assert emulator.get("cuMemHostAlloc") == before + 3, "for the ring twice, and for the result"


def test_two_borrowed_arrays_are_both_kept_until_the_host_has_waited() -> None:
    vm = machine("def @main(%x: Tensor[(?n), float32], %y: Tensor[(?n), float32]) { %x + %y }")
    other = machine("def @main(%x: Tensor[(?n), float32]) { %x * 2f }")
    held = [other.run(np.full(3, k, "f")) for k in (1, 2)]
    other._wait(None)
    arrays = [Foreign(t.__cuda_array_interface__["data"][0], (3,), "float32") for t in held]
    kept = [weakref.ref(a) for a in arrays]
    result = vm.run(*arrays)
    arrays.clear()
    gc.collect()
    assert all(k() is not None for k in kept)
    assert result.numpy().tolist() == [6, 6, 6]
    gc.collect()
    assert all(k() is None for k in kept)


def test_trimmed_memory_is_free_at_once() -> None:
    vm = machine(CHAIN)
    vm.run(np.ones(1 << 20, "f")).numpy()
    assert vm._runtime.session is not None
    before, _ = vm._runtime.session.device.free_bytes()
    vm.trim()
    after, _ = vm._runtime.session.device.free_bytes()
    assert after - before >= 4 << 20


def test_after_an_error_of_the_gpu_nothing_says_that_memory_is_short() -> None:
    vm = machine(CHAIN, fuse=False)
    emulator.set("launch_error", 700)
    result = vm.run(np.ones(4, "f"))
    for _ in range(2):
        with pytest.raises(relay.VMError, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
            result.numpy()
        with pytest.raises(relay.VMError, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
            vm.run(np.ones(5000, "f"))


def test_a_machine_that_goes_gives_every_event_back_and_waits_for_what_runs() -> None:
    vm = machine(CHAIN, fuse=False, graphs="auto")
    x = np.ones(4, "f")
    vm.run(x).numpy()
    vm.start_trace()
    vm.run(x).numpy()
    vm.stop_trace()
    vm.run(x)
    del vm
    gc.collect()
    assert emulator.get("queued") == 0
    assert emulator.get("cuEventCreate") == emulator.get("cuEventDestroy") > 0


@pytest.mark.parametrize("traced", [False, True])
def test_a_copy_that_cannot_begin_gives_its_events_back(traced: bool) -> None:
    vm = machine(CHAIN, fuse=False)
    x = np.ones(4, "f")
    vm.run(x).numpy()
    result = vm.run(x)
    vm._wait(None)
    if traced:
        vm.start_trace()
    emulator.set("fail_copy_to_host", 1)
    with pytest.raises(relay.VMError, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
        result.numpy()
    vm._runtime.view["tracing"] = 0
    del vm, result
    gc.collect()
    assert emulator.get("cuEventCreate") == emulator.get("cuEventDestroy") > 0


@pytest.mark.parametrize("graphs", ["off", "on"])
def test_what_else_fails_behind_a_failure_is_not_found_later(graphs: str) -> None:
    text = """def @main(%x: Tensor[(?n), int32], %y: Tensor[(?n), int32]) {
      let %found = any(greater(floor_divide(%x, %y), 0));
      let %other = floor_mod(%x, %y);
      if (%found) { %other } else { %x }
    }"""
    vm, x = machine(text, graphs=graphs), np.full(3, 7, "i4")
    with pytest.raises(relay.VMError, match=r"floor_divide.*integer division by zero"):
        vm.run(x, np.zeros(3, "i4"))
    assert vm.run(x, np.full(3, 4, "i4")).numpy().tolist() == [3, 3, 3]


def test_results_of_a_closed_machine_give_their_memory_back() -> None:
    vm = machine(CHAIN, fuse=False)
    assert vm._runtime.session is not None
    driver_, stream = vm._runtime.session._driver, new_stream(vm)
    driver_.call("cuCtxSetCurrent", 0)  # this thread works with no GPU
    x = np.ones(4, "f")
    result, lent, read = vm.run(x), vm.run(x), vm.run(x).numpy()
    capsule = lent.__dlpack__(stream=stream, max_version=(1, 0))
    vm.close()
    np.testing.assert_array_equal(result.numpy(), chain(x))
    np.testing.assert_array_equal(read, chain(x))
    held = emulator.get("blocks")
    del result, lent, capsule
    gc.collect()
    assert vm.memory["pool_bytes"] <= read.nbytes + 64 and emulator.get("blocks") < held
    del read
    assert vm.memory["live_bytes"] == 0 and emulator.get("error") == 0
