"""Products of matrices by teams of warps: a GPU proves that it has them, and kernels are compiled for what it has."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from relayvm.ops.codegen.cuda.device_code import matrix_instructions
from relayvm.vm.api.machine import VirtualMachine
from relayvm.vm.devices.cuda.driver_api import device

from ..emulator import emulator
from .machines import gpu, machine  # noqa: F401  the fixture is used by every test

pytestmark = pytest.mark.skipif(emulator.available() is not None, reason=str(emulator.available()))

ATTENTION = """def @main(%q: Tensor[(?b, ?m, ?h, 16), float16], %k: Tensor[(?b, ?n, ?h, 16), float16]) {
  nn.batch_attention(%q, %k, %k, scale=0.5)
}"""


def is_right(vm: VirtualMachine) -> bool:
    """Attention of more scores than lanes compute."""
    query, key = (np.random.default_rng(n).standard_normal((1, n, 1, 16)).astype("float16") for n in (130, 140))
    scores = 0.5 * np.einsum("bmhd,bnhd->bhmn", query.astype(float), key.astype(float))
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = np.einsum("bhmn,bnhe->bmhe", powers / powers.sum(-1, keepdims=True), key.astype(float))
    return bool(np.abs(vm.run(query, key).numpy() - wanted).max() < 2e-3)


def test_a_gpu_that_has_teams_multiplies_by_them() -> None:
    vm = machine(ATTENTION)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert is_right(vm)
    assert device.device(0).architecture_of("#if HAS_TEAMS") == "sm_90a"
    assert device.device(0).architecture_of("") == "sm_90"


@pytest.mark.parametrize("capability", [80, 89, 100])
def test_no_other_gpu_is_asked(capability: int, monkeypatch: pytest.MonkeyPatch) -> None:
    emulator.set("compute_capability", capability)
    monkeypatch.setattr(device.Device, "team_differences", lambda self: pytest.fail("it was asked"))
    assert device.device(0).architecture_of("#if HAS_TEAMS") == f"sm_{capability}"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("y + k * 2048, 8192", "y + k * 1024, 8192"),
        ("y + k * 2048, 8192", "y + k * 2048, 4096"),
        ("k % 4 * 32, 16", "k % 4 * 16, 16"),
    ],
)
def test_a_gpu_that_lays_matrices_out_otherwise_multiplies_by_warps(
    before: str, after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = matrix_instructions.proof().replace(before, after)
    monkeypatch.setattr(device, "proof", lambda: other)
    words = r"multiplies matrices by teams of warps otherwise than expected \(\d+ differences\): attention of halves"
    with pytest.warns(RuntimeWarning, match=f"{words} multiplies by single warps"):
        vm = machine(ATTENTION)
        assert is_right(vm)
    assert device.device(0).architecture_of("#if HAS_TEAMS") == "sm_90"
