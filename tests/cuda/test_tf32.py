"""Products and convolutions of float32 with factors that libraries round to TF32: the option `precision=tf32`."""

from __future__ import annotations

import numpy as np
import pytest

from relayvm.vm.devices.cuda.session import Session

from ..emulator import emulator
from .machines import gpu, machine  # noqa: F401  the fixture is used by every test

pytestmark = pytest.mark.skipif(emulator.available() is not None, reason=str(emulator.available()))

MATRICES = "def @main(%a: Tensor[(?, ?), float32], %b: Tensor[(?, ?), float32]) {{ {} }}"
IMAGES = "def @main(%x: Tensor[(?, ?, ?, ?), float32], %w: Tensor[(?, ?, ?, ?), float32]) { nn.conv2d(%x, %w) }"
PROGRAMS = {
    "nn.dense": (MATRICES.format("nn.dense(%a, %b)"), (40, 8), (24, 8)),
    "a bias": (MATRICES.format("nn.bias_add(nn.dense(%a, %b), ones(shape=[24], dtype=\"float32\"))"), (40, 8), (24, 8)),
    "nn.conv2d": (IMAGES, (2, 4, 5, 5), (3, 4, 1, 1)),
}  # fmt: skip


def rounded(x: np.ndarray) -> np.ndarray:
    """The numbers with 11 bits, halves away from zero."""
    return ((x.view(np.uint32) + 0x1000) & 0xFFFFE000).view(np.float32)


def factors(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    """Integers of 13 bits, whose products and sums are exact."""
    random = np.random.default_rng(0)
    return [random.integers(4096, 8192, shapes[0]).astype("f"), random.integers(-3, 4, shapes[1]).astype("f")]


@pytest.mark.parametrize("name", PROGRAMS)
def test_factors_are_rounded_on_request_alone(name: str) -> None:
    text, *shapes = PROGRAMS[name]
    a, b = factors(*shapes)
    assert (rounded(a) != a).any()
    exact = machine(text, precision="float32").run(a, b).numpy()
    found = machine(text, precision="tf32").run(a, b).numpy()
    np.testing.assert_array_equal(machine(text, precision="float32").run(rounded(a), b).numpy(), found)
    assert (found != exact).any()


def test_two_machines_of_one_program_differ() -> None:
    """The plans of a machine are its own: the other precision takes none of them."""
    text, *shapes = PROGRAMS["nn.conv2d"]
    a, b = factors(*shapes)
    machines = {precision: machine(text, precision=precision) for precision in ("tf32", "float32")}
    results = {precision: vm.run(a, b).numpy() for precision, vm in machines.items()}
    for precision, vm in machines.items():
        assert isinstance(vm._runtime.session, Session)
        np.testing.assert_array_equal(vm.run(a, b).numpy(), results[precision])
    assert (results["tf32"] != results["float32"]).any()
