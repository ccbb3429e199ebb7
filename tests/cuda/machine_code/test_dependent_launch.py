"""Faults of kernels that may start early are found in their machine code; ``test_kernels`` looks for them."""

from __future__ import annotations

from relayvm.ops.codegen.dependent_launch import waiting

from .programs import PARAMS, PROGRAMS, faults_of_an_early_start, kernels_of

_WAIT = "  BEGIN_KERNEL();\n"
MODULE = f'#[version = "0.0.5"]\ndef @main({PARAMS.format("float32")}) {{ {PROGRAMS["elementwise"]} }}'


def test_a_kernel_that_does_not_wait_is_found() -> None:
    plain = kernels_of(MODULE, str)
    assert plain and all(faults_of_an_early_start(k) == ["waits 0 times"] for k in plain)


def test_constants_and_late_waits_are_found() -> None:
    def late(text: str) -> str:
        return waiting(text).replace(_WAIT, f"  if (threadIdx.x == 99) return;\n{_WAIT}")

    def constant(text: str) -> str:
        return waiting(text).replace(_WAIT, f"{_WAIT}  if (__ldg(reinterpret_cast<const int*>(x0)) == 7) return;\n")

    assert any("before the wait" in f for k in kernels_of(MODULE, late) for f in faults_of_an_early_start(k))
    assert any("reads a constant" in f for k in kernels_of(MODULE, constant) for f in faults_of_an_early_start(k))
