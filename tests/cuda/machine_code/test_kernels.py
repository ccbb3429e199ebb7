"""Machine code of generated kernels: no spills.  Loads, divisions and passes are counted in runs (see ``test_roofline``)."""

from __future__ import annotations

import functools

import pytest

import relayvm as relay
from relayvm.ops.codegen.cuda import cuda_source
from relayvm.ops.codegen.cuda.machine_code import MachineCode, machine_code
from relayvm.ops.native.jit import disassembler, nvrtc

from ...emulator import proof

PARAMS = "%x: Tensor[(?, ?n), {0}], %w: Tensor[(?n,), {0}]"
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
}


@functools.cache
def kernels(program: str, dtype: str) -> tuple[MachineCode, ...]:
    """The machine code of a program's kernels; skips without NVRTC or a disassembler."""
    mod = relay.parse(f'#[version = "0.0.5"]\ndef @main({PARAMS.format(dtype)}) {{ {program} }}')
    found = list[MachineCode]()
    try:
        for packed in relay.compile(mod, target="cuda").packed:
            image = proof.CUBIN(cuda_source(packed.group).text, proof.ARCHITECTURES[-1], by=proof.COMPILER)
            found += machine_code(disassembler.listing(image), disassembler.resource_usage(image))
    except (nvrtc.NoNvrtc, disassembler.NoDisassembler) as reason:
        pytest.skip(str(reason))
    return tuple(found)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("family", PROGRAMS)
def test_no_register_is_spilled(family: str, dtype: str) -> None:
    found = kernels(PROGRAMS[family], dtype)
    assert found
    assert {k.kernel: k.spills for k in found if k.spills} == {}
