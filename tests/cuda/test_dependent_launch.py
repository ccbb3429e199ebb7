"""Kernels that start before the kernel in front of them has ended: the option `dependent_launch`."""

from __future__ import annotations

import numpy as np
import pytest

from relayvm.ops.codegen import dependent_launch
from relayvm.vm.devices.cuda import session
from relayvm.vm.diagnostics.source import ConfigError, VMError

from ..emulator import emulator
from .machines import CHAIN, chain, gpu, machine  # noqa: F401  the fixture is used by every test

pytestmark = pytest.mark.skipif(emulator.available() is not None, reason=str(emulator.available()))

#: Kernels whose blocks wait for one another, kernels that count, in-place results, libraries between kernels.
MIXED = """
def @main(%x: Tensor[(?n, ?m), float32], %w: Tensor[(?k, ?m), float32]) {
  let %a = nn.relu(%x) + 1f;
  let %b = cumsum(%a, axis=0);
  let %c = nn.dense(%b, %w);
  let %d = tanh(%c) * 2f;
  let %e = sum(%b, axis=[1]);
  let %f = argsort(%e);
  (%b, %d, %f, argwhere(greater(%c, 0f)))
}
"""


def _mixed(x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, ...]:
    b = np.cumsum(np.maximum(x, 0) + 1, axis=0)
    c = b @ w.T
    return b, np.tanh(c) * 2, np.argsort(b.sum(1), kind="stable"), np.argwhere(c > 0)


@pytest.mark.parametrize("graphs", ["off", "on", "auto"])
@pytest.mark.parametrize("schedule", [0, 1, 5])
def test_a_chain_gives_the_same(graphs: str, schedule: int) -> None:
    vm = machine(CHAIN, fuse=False, graphs=graphs, dependent_launch=True)
    emulator.set("schedule", schedule)
    for n in (0, 1, 5, 700, 5, 700, 5):
        x = np.linspace(-1, 1, n, dtype="f")
        np.testing.assert_array_equal(vm.run(x).numpy(), chain(x))
    assert emulator.get("early_starts") > 0


def test_only_a_kernel_behind_a_kernel_starts_early() -> None:
    vm, x = machine(CHAIN, fuse=False, graphs="off", dependent_launch=True), np.linspace(-1, 1, 5, dtype="f")
    for _ in range(3):
        before = emulator.get("cuLaunchKernel"), emulator.get("cuLaunchKernelEx")
        np.testing.assert_array_equal(vm.run(x).numpy(), chain(x))
        launched = emulator.get("cuLaunchKernel") - before[0], emulator.get("cuLaunchKernelEx") - before[1]
    assert launched == (1, 15), "the first follows the copy of the argument"


@pytest.mark.parametrize("schedule", range(4))
def test_work_of_all_kinds_gives_the_same(schedule: int) -> None:
    vm, rng = machine(MIXED, fuse=False, dependent_launch=True), np.random.default_rng(schedule)
    emulator.set("schedule", schedule)
    for n, m, k in ((3, 5, 4), (70, 5, 9), (3, 5, 4), (1, 1, 1), (3, 5, 4), (70, 5, 9)):
        # sums and products of these numbers are exact
        x, w = rng.integers(-4, 5, (n, m)).astype("f"), rng.integers(-4, 5, (k, m)).astype("f") / 64
        for got, wanted in zip(vm.run(x, w), _mixed(x, w), strict=True):
            np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-6)
    assert emulator.get("early_starts") > 0


@pytest.mark.parametrize(("version", "early"), [(12030, True), (12020, False)])
def test_graphs_of_an_old_driver_have_no_kernels_that_start_early(version: int, early: bool) -> None:
    emulator.set("driver_version", version)
    vm, x = machine(CHAIN, fuse=False, graphs="on", dependent_launch=True), np.linspace(-1, 1, 5, dtype="f")
    for _ in range(2):
        before = emulator.get("cuLaunchKernelEx")
        np.testing.assert_array_equal(vm.run(x).numpy(), chain(x))
    assert emulator.get("cuLaunchKernelEx") - before == (15 if early else 0)
    for _ in range(4):
        np.testing.assert_array_equal(vm.run(x).numpy(), chain(x))
    assert (vm.counters["captures"], vm.counters["graph_failures"]) == (1, 0)


def test_a_trace_times_kernels_one_after_another() -> None:
    vm, x = machine(CHAIN, fuse=False, dependent_launch=True), np.linspace(-1, 1, 5, dtype="f")
    names = "cuLaunchKernel", "cuLaunchKernelEx"
    before, launches = [emulator.get(name) for name in names], vm.counters["launches"]
    vm.profile(x, repeat=2, warmup=0)
    plain, early = (emulator.get(name) - n for name, n in zip(names, before, strict=True))
    timed_whole = early // 15
    timed_each = (vm.counters["launches"] - launches) // 16 - timed_whole
    assert timed_each > 0 and (plain, early) == (timed_whole + 16 * timed_each, 15 * timed_whole)


def test_a_kernel_that_does_not_wait_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "waiting", lambda text: text)
    vm = machine(CHAIN, fuse=False, graphs="off", dependent_launch=True)
    with pytest.raises(VMError, match="CUDA_ERROR_LAUNCH_FAILED"):
        vm.run(np.linspace(-1, 1, 5, dtype="f")).numpy()
    assert "end without waiting for the kernels in front" in emulator.text()


def test_an_access_before_the_wait_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    late = "  const float early = x0[0];\n  AWAIT_KERNELS_BEFORE();\n  if (early != x0[0]) const_cast<float*>(x0)[0] = 77.0f;\n"

    def hasty(text: str) -> str:
        return dependent_launch.waiting(text).replace("  BEGIN_KERNEL();\n", late)

    monkeypatch.setattr(session, "waiting", hasty)
    vm, x = machine(CHAIN, fuse=False, graphs="off", dependent_launch=True), np.ones(4, "f")
    assert not np.array_equal(vm.run(x).numpy(), chain(x))


@pytest.mark.lengthy
def test_an_old_gpu_is_refused() -> None:
    emulator.set("compute_capability", 80)
    with pytest.raises(ConfigError, match="dependent_launch=on needs a GPU of sm_90 or newer"):
        machine(CHAIN, dependent_launch=True)
