"""Convolutions of a machine by cuDNN: its tables of plans and packs, graphs, workspaces; without a plan or the library."""

from __future__ import annotations

import ctypes
import gc

import numpy as np
import pytest

from relayvm.vm.devices.cuda.cudnn import library
from relayvm.vm.devices.cuda.cudnn.layout import PACK_ROWS, PLAN_ROWS
from relayvm.vm.devices.cuda.driver_api import provider
from relayvm.vm.devices.cuda.driver_api.driver import NoCuda
from relayvm.vm.diagnostics.source import VMError

from ..emulator import emulator
from ..emulator.platform import EmulatedProvider
from .machines import gpu, machine  # noqa: F401  the fixture is used by every test

pytestmark = pytest.mark.skipif(emulator.available() is not None, reason=str(emulator.available()))

TYPES = "%x: Tensor[(?, ?, ?, ?), float32], %w: Tensor[(?, ?, ?, ?), float32]"
#: Two convolutions of one primitive.
TWICE = f"def @main({TYPES}) {{ nn.conv2d(nn.conv2d(%x, %w, padding=[1, 1]), %w, padding=[1, 1]) }}"
ONCE = f"def @main({TYPES}) {{ nn.conv2d(%x, %w) }}"


def arrays(batch: int, size: int, window: int = 3, channels: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(batch + size)
    shapes = (batch, channels, size, size), (channels, channels, window, window)
    x, w = (rng.integers(-3, 4, shape).astype("f") for shape in shapes)
    return x, w


def convolved(x: np.ndarray, w: np.ndarray, padding: int = 0) -> np.ndarray:
    x = np.pad(x, [(0, 0), (0, 0), (padding, padding), (padding, padding)])
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))
    return np.einsum("bchwij,ocij->bohw", windows, w)


def twice(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return convolved(convolved(x, w, 1), w, 1)


def live() -> int:
    """Descriptors of the library that are not destroyed."""
    return emulator.get("cudnnBackendCreateDescriptor") - emulator.get("cudnnBackendDestroyDescriptor")


@pytest.mark.parametrize("graphs", ["off", "on", "auto"])
@pytest.mark.parametrize("no_plan", [0, 1])
def test_a_plan_is_made_once_for_sizes_and_alignment(graphs: str, no_plan: int) -> None:
    vm = machine(TWICE, graphs=graphs)
    emulator.set("no_plan", no_plan)
    for batch, size in ((0, 4), (1, 1), (2, 5), (3, 7), (2, 5), (3, 7), (2, 5), (3, 7)):
        x, w = arrays(batch, size)
        np.testing.assert_array_equal(vm.run(x, w).numpy(), twice(x, w))
    # both convolutions are one primitive; one of no images is none of the library's
    assert emulator.get("cudnnBackendExecute") == (0 if no_plan else {"off": 14, "on": 10, "auto": 14}[graphs])
    assert (emulator.get("cublasLtMatmul") == 0) != bool(no_plan)
    made = live()
    for batch, size in ((1, 1), (2, 5), (3, 7)):
        x, w = arrays(batch, size)
        np.testing.assert_array_equal(vm.run(x, w).numpy(), twice(x, w))
    assert live() == made, "a launch with known sizes and addresses makes nothing"


def test_equal_convolutions_of_a_program_share_a_plan() -> None:
    both = "let %y = nn.relu(nn.conv2d(%x, %w, padding=[1, 1])); let %z = nn.conv2d(%y, %w, padding=[1, 1]); (%z, %y)"
    vm = machine(f"def @main({TYPES}) {{ {both} }}")
    other = machine(f"def @main({TYPES}) {{ let %y = nn.relu(nn.conv2d(%x, %w, padding=[1, 1])); (%y, %y) }}")
    x, w = arrays(2, 5)
    made = []
    for each in (other, vm):
        before = live()
        np.testing.assert_array_equal(each.run(x, w)[1].numpy(), np.maximum(convolved(x, w, 1), 0))
        made.append(live() - before)
    plan, pack = 2, 1  # a plan and its configuration
    assert made == [plan + pack, plan + 2 * pack]


def test_a_forced_implementation_is_taken() -> None:
    x, w = arrays(2, 5)
    for name, used in (("cudnn", 1), ("convolution", 0)):
        before = emulator.get("cudnnBackendExecute")
        np.testing.assert_array_equal(machine(ONCE, **{"impl.nn.conv2d": name}).run(x, w).numpy(), convolved(x, w))
        assert emulator.get("cudnnBackendExecute") == before + used


def test_more_sizes_than_the_table_has_rows() -> None:
    vm = machine(f"def @main({TYPES}) {{ nn.conv2d(nn.relu(%x), %w) }}", graphs="on")
    for width in [*range(1, PLAN_ROWS // 2 + 20), 1, 2, 3]:
        x, w = np.full((1, 1, 1, width), 2, "f"), np.full((1, 1, 1, 1), 3, "f")
        np.testing.assert_array_equal(vm.run(x, w).numpy(), 3 * x)
    assert live() < 2 * (PLAN_ROWS // 2) + 200
    del vm
    gc.collect()
    assert live() == 0
    assert emulator.get("cudnnDestroy") == emulator.get("cudnnCreate") == 1


def test_plans_in_a_captured_graph_are_destroyed_after_the_graph() -> None:
    vm = machine(TWICE, graphs="on")
    x, w = arrays(2, 5)
    for _ in range(4):
        np.testing.assert_array_equal(vm.run(x, w).numpy(), twice(x, w))
    assert vm.counters["replays"] == 2
    one = np.ones((1, 1, 1, 1), "f")
    for width in range(1, PLAN_ROWS // 2 + 2):
        vm.run(np.ones((1, 1, 1, width), "f"), one)
    assert emulator.get("cuGraphExecDestroy") == emulator.get("cuGraphInstantiateWithFlags") > 0
    for _ in range(4):
        np.testing.assert_array_equal(vm.run(x, w).numpy(), twice(x, w))


def test_more_addresses_than_the_table_has_packs() -> None:
    vm = machine(ONCE)
    _, w = arrays(1, 3, 1)
    kept = []
    for k in range(PACK_ROWS + 200):
        x = np.full((1, 4, 1, 1), k % 5, "f")
        kept.append(vm.run(x, w))  # a kept result has an address of its own
        np.testing.assert_array_equal(kept[-1].numpy(), convolved(x, w))
    assert live() <= PACK_ROWS + 10
    kept.clear()
    del vm
    gc.collect()
    assert live() == 0


def test_columns_are_allocated_only_without_a_plan() -> None:
    x, w = arrays(4, 64)
    columns = 4 * 9 * 4 * 64 * 64 * 4
    held = []
    for no_plan in (0, 1):
        vm = machine(f"def @main({TYPES}) {{ nn.conv2d(%x, %w, padding=[1, 1]) }}")
        emulator.set("no_plan", no_plan)
        np.testing.assert_array_equal(vm.run(x, w).numpy(), convolved(x, w, 1))
        held.append(vm.memory["pool_bytes"])
    assert held[0] < columns <= held[1]


def test_a_view_that_begins_at_an_odd_address() -> None:
    rows = "strided_slice(%x, begin=[1, 0, 0, 0], end=[9, 9, 9, 9])"
    vm = machine(f"def @main({TYPES}) {{ nn.conv2d({rows}, %w) }}")
    for size in (5, 4, 5):
        x, w = arrays(3, size, channels=3)
        np.testing.assert_array_equal(vm.run(x, w).numpy(), convolved(x[1:], w))
    assert emulator.get("cudnnBackendExecute") == 3


def test_a_convolution_of_many_groups_and_of_three_axes() -> None:
    shapes = "%x: Tensor[(?, ?, ?, ?, ?), float32], %w: Tensor[(?, ?, ?, ?, ?), float32]"
    vm = machine(f"def @main({shapes}) {{ nn.conv3d(%x, %w, groups=3, strides=[1, 2, 1]) }}")
    x, w = (np.random.default_rng(1).integers(-3, 4, s).astype("f") for s in ((2, 3, 4, 5, 3), (6, 1, 2, 3, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3, 4))[:, :, :, ::2]
    want = np.stack([np.einsum("bdhwijk,ijk->bdhw", windows[:, k // 2], w[k, 0]) for k in range(6)], 1)
    np.testing.assert_array_equal(vm.run(x, w).numpy(), want)
    assert emulator.get("cudnnBackendExecute") == 1


@pytest.mark.parametrize("workspace", [4096, 4095])
def test_an_engine_has_enough_workspace(workspace: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from relayvm.vm.devices.cuda import session

    monkeypatch.setattr(session, "_WORKSPACE_BYTES", workspace)
    x, w = arrays(2, 5)
    np.testing.assert_array_equal(machine(ONCE).run(x, w).numpy(), convolved(x, w))
    # an engine with less wants another search; an engine that used more than it has would be refused
    assert emulator.get("cudnnBackendExecute") == 1


class WithoutCudnn(EmulatedProvider):
    """The emulated GPU without cuDNN."""

    def library(self, name: str) -> ctypes.CDLL:
        if name == "cudnn":
            raise NoCuda("cuDNN cannot be loaded (there is none); pip install 'relayvm[cudnn13]'")
        return super().library(name)


@pytest.fixture
def without_cudnn(gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setattr(provider, "provider", WithoutCudnn())
    monkeypatch.setattr(library, "_REPORTED", set())


def test_without_the_library_the_other_implementation_runs_and_a_warning_says_so(without_cudnn: None) -> None:
    x, w = arrays(2, 5)
    with pytest.warns(RuntimeWarning, match=r"nn\.conv2d: 'convolution' runs in place of 'cudnn': cuDNN cannot be loaded"):
        vm = machine(ONCE)
    np.testing.assert_array_equal(vm.run(x, w).numpy(), convolved(x, w))
    machine(ONCE)  # it is said once


def test_without_the_library_it_cannot_be_forced(without_cudnn: None) -> None:
    with pytest.raises(VMError, match="'cudnn', which is forced, cannot be used: cuDNN cannot be loaded"):
        machine(ONCE, **{"impl.nn.conv2d": "cudnn"})


def test_an_error_of_the_library_is_named() -> None:
    vm = machine(ONCE)
    x, w = arrays(2, 5)
    refuse = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_int64] * 3)(lambda *args: 5000)
    session = vm._runtime.session
    assert session is not None and session._convolutions is not None
    session._convolutions._block[0]["execute"] = ctypes.cast(refuse, ctypes.c_void_p).value
    with pytest.raises(VMError, match="cuDNN status 5000"):
        vm.run(x, w).numpy()
