"""Machine code of kernels that may start early: every thread waits before it touches memory, and reads no constant memory."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

import relayvm as relay
from relayvm.ops.codegen.cuda import cuda_source
from relayvm.ops.codegen.cuda.machine_code import MachineCode, machine_code
from relayvm.ops.codegen.dependent_launch import waiting
from relayvm.ops.native.jit import disassembler, nvrtc

from ...emulator import proof
from .test_kernels import PARAMS, PROGRAMS, SUPPRESSION

#: ``griddepcontrol.wait`` and ``griddepcontrol.launch_dependents`` in machine code.
_WAIT, _RELEASE = "ACQBULK", "PREEXIT"
#: Accesses to memory that other kernels can write, and exits, branches and calls, which could lead around the wait.
_TOUCHES = ("LD", "LDG", "ST", "STG", "ATOM", "ATOMG", "RED", "REDG", "LDGSTS", "UBLKCP", "CCTL")
_LEAVES = ("EXIT", "BRA", "BRX", "JMP", "CALL", "RET", "BREAK", "BSYNC")


@functools.cache
def _kernels(text: str, change: Callable[[str], str]) -> tuple[MachineCode, ...]:
    found = list[MachineCode]()
    try:
        for packed in relay.compile(relay.parse(text), target="cuda").packed:
            image = proof.CUBIN(change(cuda_source(packed.group).text), proof.ARCHITECTURES[-1], by=proof.COMPILER)
            found += machine_code(disassembler.listing(image), disassembler.resource_usage(image))
    except (nvrtc.NoNvrtc, disassembler.NoDisassembler) as reason:
        pytest.skip(str(reason))
    return tuple(found)


def _module(family: str) -> str:
    text = f'#[version = "0.0.5"]\ndef @main({PARAMS.format("float32")}) {{ {family} }}'
    return SUPPRESSION if family == "suppression" else text


def faults(kernel: MachineCode) -> list[str]:
    """The breaches of the rules of kernels that start early."""
    names = [i.name for i in kernel.instructions]
    if names.count(_WAIT) != 1:
        return [f"waits {names.count(_WAIT)} times"]
    at = names.index(_WAIT)
    found = [f"{i.opcode} before the wait" for i in kernel.instructions[:at] if i.name in (*_TOUCHES, *_LEAVES)]
    found += [f"{i.opcode} reads a constant" for i in kernel.instructions if i.name == "LDG" and "CONSTANT" in i.opcode]
    found += ["the wait is conditional"] * (kernel.instructions[at].guard != "")
    return found + ["a release before the wait"] * (_RELEASE in names[:at])


@pytest.mark.parametrize("family", [*PROGRAMS.values(), "nn.conv2d(%p, %p)", "nn.dense(%x, %x)", "suppression"])
def test_every_thread_waits_before_it_touches_memory(family: str) -> None:
    found = _kernels(_module(family), waiting)
    assert found and {k.kernel: f for k in found if (f := faults(k))} == {}


def test_a_kernel_that_does_not_wait_is_found() -> None:
    plain = _kernels(_module(PROGRAMS["elementwise"]), str)
    assert plain and all(faults(k) == ["waits 0 times"] for k in plain)


def test_constants_and_late_waits_are_found() -> None:
    def late(text: str) -> str:
        wait = "  AWAIT_KERNELS_BEFORE();\n"
        return waiting(text).replace(wait, f"  if (threadIdx.x == 99) return;\n{wait}")

    def constant(text: str) -> str:
        wait = "  AWAIT_KERNELS_BEFORE();\n"
        return waiting(text).replace(wait, f"{wait}  if (__ldg(reinterpret_cast<const int*>(x0)) == 7) return;\n")

    module = _module(PROGRAMS["elementwise"])
    assert any("before the wait" in f for k in _kernels(module, late) for f in faults(k))
    assert any("reads a constant" in f for k in _kernels(module, constant) for f in faults(k))
