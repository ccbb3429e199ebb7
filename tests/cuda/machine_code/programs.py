"""Programs, and the machine code of their kernels as a GPU of the newest tested architecture gets them."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

import relayvm as relay
from relayvm.ops.codegen.cuda import cuda_source
from relayvm.ops.codegen.cuda.device_code import disassembler, nvrtc
from relayvm.ops.codegen.cuda.machine_code import MachineCode, machine_code
from relayvm.ops.codegen.dependent_launch import waiting

from ...emulator import proof

PARAMS = "%x: Tensor[(?, ?n), {0}], %w: Tensor[(?n,), {0}], %p: Tensor[(?, ?, ?, ?), {0}], %q: Tensor[(?, 1, ?, 1), {0}]"
#: By family: the body of a program over ``PARAMS``.
PROGRAMS = {
    "elementwise": "tanh(exp(%x))",
    "sum of rows": "sum(%x, axis=[1])",
    "sum of columns": "sum(%x, axis=[0])",
    "largest of columns": "argmax(%x, axis=[0])",
    "variance of columns": "variance(%x, axis=[0])",
    "variance of rows": "variance(%x, axis=[1])",
    "sum of error functions": "sum(%x * erf(%x), axis=[1])",
    "transpose": "transpose(%x, axes=[1, 0])",
    "cumsum": "cumsum(%x, axis=1)",
    "softmax": "nn.softmax(%x)",
    "layernorm": "nn.layer_norm(%x, %w, %w)",
    "broadcast": "%p * %q",
    "sum of two axes": "sum(%p, axis=[0, 2])",
    "transpose of planes": "transpose(%p, axes=[0, 2, 3, 1])",
    "reverse": "reverse(%p, axis=1)",
    "concatenate": "concatenate((%p, %p), axis=2)",
    "upsampling": "nn.upsampling(%p, scale_h=2f, scale_w=2f)",
    "cumsum of columns": "cumsum(%p, axis=2)",
    "softmax of columns": "nn.softmax(%p, axis=1)",
    "argwhere": "argwhere(%x)",
    "sort": "sort(%x)",
    "argsort": "argsort(%x)",
    "topk": "topk(%x, k=20)",
}


SUPPRESSION = """
#[version = "0.0.5"]
def @main(%boxes: Tensor[(?b, ?n, 6), float32], %valid: Tensor[(?b), int32], %indices: Tensor[(?b, ?n), int32]) {
  vision.non_max_suppression(%boxes, %valid, %indices, 100, 0.5f, coord_start=2, score_index=1, id_index=0)
}
"""


@functools.cache
def kernels(program: str, dtype: str) -> tuple[MachineCode, ...]:
    """The machine code of a program's kernels; skips without NVRTC or a disassembler."""
    return kernels_of(f'#[version = "0.0.5"]\ndef @main({PARAMS.format(dtype)}) {{ {program} }}')


@functools.cache
def kernels_of(
    text: str, change: Callable[[str], str] = waiting, architecture: str = proof.ARCHITECTURES[-1]
) -> tuple[MachineCode, ...]:
    """The machine code of the kernels of a module's text, which wait for the kernels before them, or with another change."""
    mod = relay.parse(text)
    found = list[MachineCode]()
    try:
        for packed in relay.compile(mod, target="cuda").packed:
            image = proof.CUBIN(change(cuda_source(packed.group).text), architecture, by=proof.COMPILER)
            found += machine_code(disassembler.listing(image), disassembler.resource_usage(image))
    except (nvrtc.NoNvrtc, disassembler.NoDisassembler) as reason:
        pytest.skip(str(reason))
    return tuple(found)


#: ``griddepcontrol.wait`` and ``griddepcontrol.launch_dependents`` in machine code.
_WAIT, _RELEASE = "ACQBULK", "PREEXIT"
#: Accesses to memory that other kernels can write, and exits, branches and calls, which could lead around the wait.
_TOUCHES = ("LD", "LDG", "ST", "STG", "ATOM", "ATOMG", "RED", "REDG", "LDGSTS", "UBLKCP", "CCTL")
_LEAVES = ("EXIT", "BRA", "BRX", "JMP", "CALL", "RET", "BREAK", "BSYNC")


def faults_of_an_early_start(kernel: MachineCode) -> list[str]:
    """The breaches of the rules of kernels that start early."""
    names = [i.name for i in kernel.instructions]
    if names.count(_WAIT) != 1:
        return [f"waits {names.count(_WAIT)} times"]
    at = names.index(_WAIT)
    found = [f"{i.opcode} before the wait" for i in kernel.instructions[:at] if i.name in (*_TOUCHES, *_LEAVES)]
    found += [f"{i.opcode} reads a constant" for i in kernel.instructions if i.name == "LDG" and "CONSTANT" in i.opcode]
    found += ["the wait is conditional"] * (kernel.instructions[at].guard != "")
    return found + ["a release before the wait"] * (_RELEASE in names[:at])
