"""The most floating-point operations of a core: chains of vector multiply-adds in registers, without memory."""

from __future__ import annotations

import ctypes
import functools
import time
from collections.abc import Callable

import llvmlite.binding as llvm

#: More chains than the latency of a multiply-add times the units that compute them, and no more than registers.
CHAINS = 12
STEPS = 2_000_000


def _text(lanes: int) -> str:
    """LLVM code: a loop of one multiply-add in each chain; the sum of the chains is its result, so that none is dead."""
    vector = f"<{lanes} x float>"
    ones = f"<{', '.join(['float 1.0'] * lanes)}>"
    joins = [f"  %s{c} = phi {vector} [ {ones}, %entry ], [ %t{c}, %loop ]" for c in range(CHAINS)]
    steps = [f"  %t{c} = call {vector} @llvm.fma({vector} %s{c}, {vector} %x, {vector} %y)" for c in range(CHAINS)]
    sums = [f"  %u{c} = fadd {vector} %{'t0' if c == 1 else f'u{c - 1}'}, %t{c}" for c in range(1, CHAINS)]
    name = f"llvm.fma.v{lanes}f32"
    lines = [
        f"declare {vector} @{name}({vector}, {vector}, {vector})",
        "define float @peak(i64 %n, float %a, float %b) {",
        "entry:",
        f"  %x0 = insertelement {vector} {ones}, float %a, i32 0",
        f"  %y0 = insertelement {vector} {ones}, float %b, i32 0",
        f"  %x = shufflevector {vector} %x0, {vector} %x0, <{lanes} x i32> zeroinitializer",
        f"  %y = shufflevector {vector} %y0, {vector} %y0, <{lanes} x i32> zeroinitializer",
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [ 0, %entry ], [ %j, %loop ]",
        *joins,
        *(step.replace("@llvm.fma(", f"@{name}(") for step in steps),
        "  %j = add i64 %i, 1",
        "  %more = icmp slt i64 %j, %n",
        "  br i1 %more, label %loop, label %end",
        "end:",
        *sums,
        f"  %r = extractelement {vector} %u{CHAINS - 1}, i32 0",
        "  ret float %r",
        "}",
    ]
    return "\n".join(lines)


@functools.cache
def _chains() -> tuple[Callable[..., float], int, object]:
    """The loop as machine code with the widest vectors of this machine, the lanes of a vector, and the owner of the code."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features()
    lanes = 16 if features.get("avx512f") else 8 if features.get("avx") else 4
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features.flatten(), opt=2
    )
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(_text(lanes)), machine)
    engine.finalize_object()
    run = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_int64, ctypes.c_float, ctypes.c_float)(engine.get_function_address("peak"))
    return run, lanes, engine


def multiply_add(count: int) -> None:
    """Compute ``count`` multiply-adds of float32 in registers, or a few more."""
    run, lanes, _ = _chains()
    run(-(-count // (CHAINS * lanes)), 0.5, 0.5)


def peak_gflops() -> float:
    """The largest number of GFLOP/s of float32 in several trials, in 30 ms."""
    run, lanes, _ = _chains()
    best = float("inf")
    for _ in range(7):
        begun = time.perf_counter()
        run(STEPS, 0.5, 0.5)
        best = min(best, time.perf_counter() - begun)
    return 2e-9 * CHAINS * lanes * STEPS / best


if __name__ == "__main__":
    print(f"{peak_gflops():.1f} GFLOP/s of float32 in one core")
