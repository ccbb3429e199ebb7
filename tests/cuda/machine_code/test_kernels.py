"""Machine code of generated kernels: no spills, no divisions of 64 bits.  Loads are counted in runs (``test_roofline``)."""

from __future__ import annotations

import functools
import re

import pytest

import relayvm as relay
from relayvm.ops.codegen.cuda import cuda_source
from relayvm.ops.codegen.cuda.machine_code import MachineCode, machine_code, named
from relayvm.ops.native.jit import disassembler, nvrtc

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
def kernels_of(text: str) -> tuple[MachineCode, ...]:
    """The machine code of the kernels of a module's text."""
    mod = relay.parse(text)
    found = list[MachineCode]()
    try:
        for packed in relay.compile(mod, target="cuda").packed:
            image = proof.CUBIN(cuda_source(packed.group).text, proof.ARCHITECTURES[-1], by=proof.COMPILER)
            found += machine_code(disassembler.listing(image), disassembler.resource_usage(image))
    except (nvrtc.NoNvrtc, disassembler.NoDisassembler) as reason:
        pytest.skip(str(reason))
    return tuple(found)


@pytest.mark.extensive(dtype=["float32"])
@pytest.mark.spread("dtype")
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("family", PROGRAMS)
def test_no_spills_no_wide_divisions_and_no_idle_loops(family: str, dtype: str) -> None:
    """In one test, for disassembling takes a second: no register is spilled, no thread divides numbers of 64 bits, and no loop
    only computes."""
    found = kernels(PROGRAMS[family], dtype)
    assert found
    assert {k.kernel: k.spills for k in found if k.spills} == {}
    assert {k.kernel: k.wide_divisions for k in found if k.wide_divisions} == {}
    if family != "layernorm":  # its rows are all looked at before the first is read
        assert {k.kernel: k.idle_loops for k in found if k.idle_loops} == {}


#: Attention by heads of given sizes.
ATTENTION = """
#[version = "0.0.5"]
def @main(
  %q: Tensor[(?b, ?m, ?h, {d}), {dtype}], %k: Tensor[(?b, ?n, ?h, {d}), {dtype}], %v: Tensor[(?b, ?n, ?h, {e}), {dtype}]
) {{
  nn.batch_attention(%q, %k, %v, scale=0.125)
}}
"""


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize(("d", "e"), [(64, 64), (32, 32), (80, 80), (128, 128), (7, 33), ("?", "?")])
@pytest.mark.extensive(dtype=("float32",))
def test_attention_spills_no_register_and_loads_packs(d: int | str, e: int | str, dtype: str) -> None:
    found = {k.kernel: k for k in kernels_of(ATTENTION.format(d=d, e=e, dtype=dtype))}
    assert set(found) == {"attention_tiles", "join_parts"} | ({"attention_lanes"} if d != "?" else set())
    assert {name: k.spills for name, k in found.items() if k.spills} == {}
    assert {name: k.wide_divisions for name, k in found.items() if k.wide_divisions} == {}
    # queries, keys and values of a tile of the smallest heads of two bytes are 10 packs of a thread
    assert {name for name, k in found.items() if k.loads[128] < 10} == {"join_parts"}


@pytest.mark.parametrize(
    "program",
    ["nn.conv2d(%p, %p)", "nn.conv2d(%p, %p, groups=8)", "nn.dense(%x, %x)", "nn.conv2d_transpose(%p, %p)"],
)
def test_dot_products_multiply_and_add_in_one_instruction(program: str) -> None:
    found = [k for k in kernels(program, "float32") if k.kernel != "gather"]
    assert found and all(named(k.instructions, ("FFMA",)) for k in found)
    assert {k.kernel: n for k in found if (n := named(k.instructions, ("FMUL", "FADD")))} == {}


def test_divisions_and_idle_loops_are_found() -> None:
    text = """extern "C" __global__ void __launch_bounds__(32) {0}(int64* out, int64 n, int64 by) {{
      {1}
    }}
    """
    bodies = {
        "signed_division": "out[threadIdx.x] = n / by;",
        "unsigned_rest": "out[threadIdx.x] = int64(uint64(n) % uint64(by));",
        "loop": "int64 shift = 0; while (int64(1) << shift < n) ++shift; out[threadIdx.x] = shift;",
        "neither": "#pragma unroll 1\nfor (int64 at = threadIdx.x; at < n; at += by) out[at] = int64(uint32(n) / uint32(by));",
    }
    try:
        image = proof.CUBIN("".join(text.format(k, b) for k, b in bodies.items()), proof.ARCHITECTURES[-1], by=proof.COMPILER)
        found = machine_code(disassembler.listing(image), disassembler.resource_usage(image))
    except (nvrtc.NoNvrtc, disassembler.NoDisassembler) as reason:
        pytest.skip(str(reason))
    assert {k.kernel for k in found if k.wide_divisions} == {"signed_division", "unsigned_rest"}
    assert {k.kernel for k in found if k.idle_loops} == {"loop"}


def test_masks_of_the_next_boxes_are_loaded_before_a_barrier_and_used_after_it() -> None:
    """The loads that every thread of a tile makes: neither is used before the threads have met."""
    (code,) = (k for k in kernels_of(SUPPRESSION) if k.kernel == "choose_by_masks")
    ahead = 0
    for k, load in enumerate(code.instructions):
        if load.name != "LDG" or "64" not in load.opcode.split("."):
            continue
        result = re.match(r"R\d+", load.operands)
        assert result is not None, load
        rest = code.instructions[k + 1 :]
        used = next((n for n, i in enumerate(rest) if re.search(rf"\b{result[0]}\b", i.operands)), len(rest))
        ahead += any(i.name == "BAR" for i in rest[:used])
    assert ahead >= 2
