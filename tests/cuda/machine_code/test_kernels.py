"""Machine code of generated kernels: no spills, no divisions of 64 bits, no access to memory before the kernel has waited for the
kernels before it.  Loads are counted in runs (``test_roofline``)."""

from __future__ import annotations

import re

import pytest

from relayvm.ops.codegen.cuda.device_code import disassembler, nvrtc
from relayvm.ops.codegen.cuda.machine_code import machine_code, named
from relayvm.ops.codegen.dependent_launch import waiting
from relayvm.ops.kernels.attention import halves_cuda
from relayvm.shape_funcs.symbolic.dim import dim

from ...emulator import proof
from .programs import PROGRAMS, SUPPRESSION, faults_of_an_early_start, kernels, kernels_of

#: The families of ``make test``: two seconds each.  ``test_roofline`` has others there: softmax, layernorm, sums, sort, topk.
KINDS = ("elementwise", "variance of rows", "upsampling", "cumsum", "argwhere")


@pytest.mark.thinned(2)
@pytest.mark.split(2)
@pytest.mark.extensive(dtype=["float32"], family=KINDS)
@pytest.mark.spread("dtype")
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("family", PROGRAMS)
def test_no_spills_no_wide_divisions_and_no_idle_loops(family: str, dtype: str) -> None:
    """In one test, for disassembling takes a second: no register is spilled, no thread divides numbers of 64 bits, no loop only
    computes, and every thread waits before it touches memory, and reads no constant memory."""
    found = kernels(PROGRAMS[family], dtype)
    assert found and {k.kernel: f for k in found if (f := faults_of_an_early_start(k))} == {}
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


@pytest.mark.split(2)
@pytest.mark.spread("dtype")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("d", "e"), [(64, 64), (32, 32), (80, 80), (128, 128), (7, 33), ("?", "?")])
@pytest.mark.extensive(dtype=("float32",), d=(64, 7))
def test_attention_spills_no_register_and_loads_packs(d: int | str, e: int | str, dtype: str) -> None:
    found = {k.kernel: k for k in kernels_of(ATTENTION.format(d=d, e=e, dtype=dtype))}
    assert set(found) == {"attention_tiles", "join_parts"} | ({"attention_lanes"} if d != "?" else set())
    assert {name: k.spills for name, k in found.items() if k.spills} == {}
    assert {name: k.wide_divisions for name, k in found.items() if k.wide_divisions} == {}
    # queries, keys and values of a tile of the smallest heads of two bytes are 10 packs of a thread
    assert {name for name, k in found.items() if k.loads[128] < 10} == {"join_parts"}


#: The same with a bias.
BIASED = """
#[version = "0.0.5"]
def @main(
  %q: Tensor[(?m, ?b, ?h, {d}), {dtype}], %k: Tensor[(?n, ?b, ?h, {d}), {dtype}], %v: Tensor[(?n, ?b, ?h, {d}), {dtype}],
  %x: Tensor[(?b, ?h, ?m, ?n), {dtype}]
) {{
  nn.attention(%q, %k, %v, %x, scale=0.125)
}}
"""


@pytest.mark.thinned(2)
@pytest.mark.extensive(d=(64, 128), architecture=("sm_90a",), text=(ATTENTION,))
@pytest.mark.spread("architecture")
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("text", [ATTENTION, BIASED], ids=["plain", "biased"])
@pytest.mark.parametrize("d", [32, 64, 80, 128, 256])
def test_attention_of_halves_multiplies_on_tensor_cores_and_copies_by_16_bytes(d: int, text: str, architecture: str) -> None:
    """No register is spilled, and products of teams run beside other work: a compiler that cannot let them waits for each."""
    change = waiting if architecture == "sm_90a" else str
    found = {k.kernel: k for k in kernels_of(text.format(d=d, e=d, dtype="float16"), change, architecture)}
    assert set(found) == {"attention_halves", "attention_lanes", "join_parts"}
    assert {name: k.spills for name, k in found.items() if k.spills} == {}
    assert {name: k.wide_divisions for name, k in found.items() if k.wide_divisions} == {}
    if change is waiting:
        assert {name: f for name, k in found.items() if (f := faults_of_an_early_start(k))} == {}
    tile = halves_cuda.tile_of("float16", dim(d), dim(d), text is BIASED)
    assert tile is not None
    kernel = found["attention_halves"].instructions
    copies = [i.opcode for i in kernel if i.name == "LDGSTS"]
    assert copies and all("128" in opcode for opcode in copies)
    scores, values = -(-d // 16), tile.keys // 16  # products of a tile, of 16 elements or keys
    if architecture == "sm_90a":
        # the first scores, those of the loop and the values in front of them, the last values
        assert named(kernel, ("HGMMA",)) == 2 * (scores + values) and named(kernel, ("HMMA",)) == 0
        assert named(kernel, ("WARPGROUP",)) < 10
    else:
        assert named(kernel, ("HMMA",)) == 2 * (scores * tile.keys // 8 + values * tile.columns // 8)
    assert found["attention_lanes"].loads[128] >= 16


@pytest.mark.split(2)
@pytest.mark.parametrize(
    "program",
    ["nn.conv2d(%p, %p)", "nn.conv2d(%p, %p, groups=8)", "nn.dense(%x, %x)", "nn.conv2d_transpose(%p, %p)"],
)
def test_dot_products_multiply_and_add_in_one_instruction(program: str) -> None:
    every = kernels(program, "float32")
    assert {k.kernel: f for k in every if (f := faults_of_an_early_start(k))} == {}
    found = [k for k in every if k.kernel != "gather"]
    assert found and all(named(k.instructions, ("FFMA",)) for k in found)
    for k in found:
        # lanes that share the inner axis of few rows add their sums
        apart = ("FMUL",) if k.kernel.startswith("few_rows") else ("FMUL", "FADD")
        assert named(k.instructions, apart) == 0, k.kernel


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


@pytest.mark.extensive
def test_masks_of_the_next_boxes_are_loaded_before_a_barrier_and_used_after_it() -> None:
    """The loads that every thread of a tile makes: neither is used before the threads have met."""
    found = kernels_of(SUPPRESSION)
    assert {k.kernel: f for k in found if (f := faults_of_an_early_start(k))} == {}
    (code,) = (k for k in found if k.kernel == "choose_by_masks_of_boxes")
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
