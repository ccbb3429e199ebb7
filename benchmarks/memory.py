"""Memory of programs: without a plan, with a plan that ignores the implementations, with a plan made after their choice.

    python benchmarks/memory.py            # the table
    python benchmarks/memory.py --check    # exits with 1 if a goal is missed

=========  =============================================================================================================
off        a storage for each value, given back after its last use
blind      storages used again and arenas, as if no kernel could write over its inputs
on         what is the default
bound      most bytes alive at one launch, with what its kernel works in: what must be held whatever a plan does; a result that
           its kernel may write over an input that dies counts once, and a launch that only moves elements, which a plan may
           leave out, not at all.  Of programs whose sizes are all known.
=========  =============================================================================================================

Peak: most bytes in use at once, in blocks as they are taken.  Held: what one run leaves in the pool, which is what the process
has taken from the system.  Allocations are those of one run.  What kernels work in (``Kernel.scratch``) is counted like any
other value; inputs and weights are not.  Counts, so the same on every machine.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import relayvm as relay
from relayvm.compiler.ir.expr import Call, Expr, GlobalVar, IRModule, Let, Var
from relayvm.compiler.ir.lowering_context import LoweringContext
from relayvm.compiler.ir.primitive_shape import primitive
from relayvm.compiler.lowering.pipeline import lowering
from relayvm.compiler.settings.config import Config
from relayvm.compiler.text.parser import parse
from relayvm.ops.analysis.aliasing import in_place_pairs
from relayvm.ops.analysis.views import joined, parts
from relayvm.ops.defs.machine import machine_ops

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
sys.path.insert(0, str(EXAMPLES))
HEADER = '#[version = "0.0.5"]\n'
MODES = ("off", "blind", "on")
#: The most that a plan may take, in times of the bound; what it takes less than a blind one where that counts as less.
GOAL, LESS = 1.15, 0.95
KIB = 1024.0


@dataclass(frozen=True)
class Program:
    """A text and the inputs of a run; ``fixed``: whether all sizes are known."""

    text: str
    inputs: Mapping[str, np.ndarray]
    fixed: bool


@dataclass(frozen=True)
class Use:
    """Bytes and allocations of one run."""

    peak: int
    held: int
    allocations: int


# ---- programs ------------------------------------------------------------------------------------------------------


def _filled(params: Mapping[str, tuple[int, ...]], seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: (rng.standard_normal(shape) / 16).astype(np.float32) for name, shape in params.items()}


def _main(params: Mapping[str, tuple[int, ...]], lines: list[str], result: str) -> Program:
    listed = ", ".join(f"%{name}: Tensor[{shape!r}, float32]".replace(",)", ")") for name, shape in params.items())
    body = "\n  ".join(lines)
    return Program(f"{HEADER}def @main({listed}) {{\n  {body}\n  {result}\n}}\n", _filled(params), True)


def encoder(texts: int = 1, words: int = 512, width: int = 256, hidden: int = 1024, layers: int = 4) -> Program:
    """A transformer encoder of known sizes."""
    params: dict[str, tuple[int, ...]] = {"x0": (texts, words, width)}
    lines = []
    for n in range(layers):
        params |= {f"{k}{n}": (width, width) for k in "qkvo"} | {f"u{n}": (hidden, width), f"d{n}": (width, hidden)}
        params |= {f"s{n}": (width,), f"t{n}": (width,)}
        for k in "qkv":
            cut = f"reshape(nn.dense(%x{n}, %{k}{n}), newshape=[0, 0, 4, -1])"
            lines.append(f"let %{k}h{n} = reshape(transpose({cut}, axes=[0, 2, 1, 3]), newshape=[-3, 0, 0]);")
        lines += [
            f"let %w{n} = nn.softmax(multiply(nn.batch_matmul(%qh{n}, %kh{n}), 0.125f));",
            f"let %f{n} = reshape(nn.batch_matmul(%w{n}, %vh{n}, transpose_b=False), newshape=[-4, -1, 4, 0, 0]);",
            f"let %g{n} = nn.dense(reshape(transpose(%f{n}, axes=[0, 2, 1, 3]), newshape=[0, 0, -3]), %o{n});",
            f"let %y{n} = nn.layer_norm(add(%g{n}, %x{n}), %s{n}, %t{n});",
            f"let %h{n} = nn.dense(%y{n}, %u{n});",
            f"let %e{n} = multiply(multiply(%h{n}, 0.5f), add(erf(multiply(%h{n}, 0.70710678f)), 1f));",
            f"let %x{n + 1} = nn.layer_norm(add(nn.dense(%e{n}, %d{n}), %y{n}), %s{n}, %t{n});",
        ]
    return _main(params, lines, f"%x{layers}")


def residual(side: int = 32, channels: int = 32, blocks: int = 6) -> Program:
    """Convolutions with additions around them, as in a ResNet; an average over the picture."""
    params: dict[str, tuple[int, ...]] = {"x0": (1, channels, side, side)}
    lines = []
    for n in range(blocks):
        params |= {f"{k}{n}": (channels, channels, 3, 3) for k in "ab"} | {f"{k}{n}": (channels, 1, 1) for k in "stuv"}
        lines += [
            f"let %p{n} = nn.relu(add(multiply(nn.conv2d(%x{n}, %a{n}, padding=[1, 1, 1, 1]), %s{n}), %t{n}));",
            f"let %r{n} = add(multiply(nn.conv2d(%p{n}, %b{n}, padding=[1, 1, 1, 1]), %u{n}), %v{n});",
            f"let %x{n + 1} = nn.relu(add(%r{n}, %x{n}));",
        ]
    return _main(params, lines, f"mean(%x{blocks}, axis=[2, 3])")


def dense_block(side: int = 32, channels: int = 32, blocks: int = 4) -> Program:
    """Convolutions each of which sees all that the others gave, joined, as in a DenseNet; an average over the picture."""
    params: dict[str, tuple[int, ...]] = {"x": (1, channels, side, side), "w": (channels, channels, 3, 3)}
    lines = ["let %x0 = nn.conv2d(%x, %w, padding=[1, 1, 1, 1]);"]
    for n in range(blocks):
        params[f"w{n}"] = (channels, channels * (n + 1), 3, 3)
        lines += [
            f"let %f{n} = nn.conv2d(nn.relu(%x{n}), %w{n}, padding=[1, 1, 1, 1]);",
            f"let %x{n + 1} = concatenate((%x{n}, %f{n}), axis=1);",
        ]
    return _main(params, lines, f"mean(nn.relu(%x{blocks}), axis=[2, 3])")


def detection(candidates: int = 2000) -> Program:
    """The example whose sizes depend on values."""
    from detection_reference import candidates as made

    boxes, logits = made(candidates)
    return Program((EXAMPLES / "detection_tail.relay").read_text(), {"boxes": boxes, "logits": logits}, False)


def tree(depth: int = 7, rows: int = 16, width: int = 64) -> Program:
    """A recursion over a full binary tree: the states of both sides make that of a node, with gates."""
    text = f"""{HEADER}
def @node(%d: int64, %x: Tensor[(?n, {width}), float32], %w: Tensor[({width}, {2 * width}), float32])
    -> Tensor[(?n, {width}), float32] {{
  if (less(%d, 1i64)) {{ tanh(%x) }} else {{
    let %left = @node(subtract(%d, 1i64), multiply(%x, 0.5f), %w);
    let %right = @node(subtract(%d, 1i64), tanh(%left), %w);
    let %both = concatenate((%left, %right), axis=1);
    let %g0 = sigmoid(nn.dense(%both, %w));
    tanh(add(multiply(%g0, %left), multiply(subtract(1f, %g0), %right)))
  }}
}}
def @main(%d: int64, %x: Tensor[(?n, {width}), float32], %w: Tensor[({width}, {2 * width}), float32]) {{ @node(%d, %x, %w) }}
"""
    inputs = {"d": np.array(depth), **_filled({"x": (rows, width), "w": (width, 2 * width)})}
    return Program(text, inputs, False)


PROGRAMS: dict[str, Callable[[], Program]] = {
    "transformer encoder": encoder,
    "residual network": residual,
    "dense block": dense_block,
    "detection tail": detection,
    "tree recursion": tree,
}
#: Reasons for a plan that knows the implementations to need less memory than a blind plan.
REASONS = {
    "transformer encoder": "softmax over the scores, gelu over the hidden layer, the normalisation's sum: written in place",
    "tree recursion": "gates over what died; a callee writes over what its caller passed and gave up",
}


# ---- measuring -----------------------------------------------------------------------------------------------------


def used(program: Program, mode: str) -> tuple[Use, list[np.ndarray]]:
    """The memory of one run with ``plan=mode``, and its results."""
    vm = relay.VirtualMachine(relay.compile(program.text, plan=mode))
    result = vm.run(**program.inputs)
    held, peak = vm.memory["pool_bytes"], vm.counters["peak_bytes"]
    flat = [r.numpy().copy() for r in (result if isinstance(result, tuple) else (result,))]
    del result
    vm.reset_counters()
    vm.run(**program.inputs)
    return Use(peak, held, vm.counters["allocs"]), flat


def bound(text: str) -> int:
    """The most bytes alive at one launch of ``main``, which has one chain and calls no function."""
    stages = dict(lowering(parse(text), Config(), "cpu"))
    mod = stages["manifest_alloc"]
    root: dict[Expr, Var] = {}
    size, first, last, launches = {}, {}, {}, []
    chain, at = mod["main"].body, 0
    while isinstance(chain, Let):
        var, call = chain.var, chain.value
        assert isinstance(call, Call), call
        for a in call.args:
            if a in root and call.op is not machine_ops.SHAPE_OF:
                last[root[a]] = at
        if call.op is machine_ops.ALLOC_STORAGE:
            root[var], size[var], first[var] = var, call.attrs.nbytes, at
        elif call.op in (machine_ops.ALLOC_TENSOR, machine_ops.RESHAPE_TENSOR) and call.args[0] in root:
            root[var] = root[call.args[0]]
        elif call.op is machine_ops.INVOKE_OP:
            launches.append((at, call))
        chain, at = chain.body, at + 1
    if chain in root:
        last[root[chain]] = at
    return max(_alive(mod, at, call, root, size, first, last) for at, call in launches if not _only_moves(mod, call))


def _only_moves(mod: IRModule, call: Call) -> bool:
    assert isinstance(call.args[0], GlobalVar)
    group = primitive(mod[call.args[0].name], LoweringContext()).group
    return parts(group) is not None or joined(group) is not None


def _alive(
    mod: IRModule, at: int, call: Call, root: Mapping[Expr, Var], size: Mapping[Var, int], first: Mapping[Var, int], last: Mapping
) -> int:
    callee, *args = call.args
    assert isinstance(callee, GlobalVar)
    ins, outs = args[: -call.attrs.n_outputs], args[-call.attrs.n_outputs :]
    alive = sum(n for s, n in size.items() if first[s] <= at <= last[s])
    taken: set[Var] = set()
    for k, o in in_place_pairs(primitive(mod[callee.name], LoweringContext()).group):
        if ins[k] in root and last[root[ins[k]]] == at and root[ins[k]] not in taken and root[outs[o]] not in taken:
            taken |= {root[ins[k]], root[outs[o]]}
            alive -= size[root[outs[o]]]
    return alive


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit with 1 if a goal is missed")
    args = parser.parse_args()
    missed, less = [], []
    print(f"{'program':<20} {'plan':<6} {'peak KiB':>10} {'held KiB':>10} {'allocations':>12} {'held / bound':>13}")
    for name, make in PROGRAMS.items():
        program = make()
        least = bound(program.text) if program.fixed else None
        uses, results = {}, {}
        for mode in MODES:
            uses[mode], results[mode] = used(program, mode)
            u = uses[mode]
            times = f"{u.held / least:>13.2f}" if least else f"{'':>13}"
            print(f"{name:<20} {mode:<6} {u.peak / KIB:>10.1f} {u.held / KIB:>10.1f} {u.allocations:>12} {times}")
        if least:
            print(f"{name:<20} {'bound':<6} {least / KIB:>10.1f}")
            if uses["on"].held > GOAL * least:
                missed.append(f"{name}: {uses['on'].held / least:.2f} times the bound")
        for mode in MODES:
            for a, b in zip(results["off"], results[mode], strict=True):
                if not np.allclose(a, b, rtol=1e-4, atol=1e-5):
                    missed.append(f"{name}: plan={mode} gives other results")
        if uses["on"].held < LESS * uses["blind"].held:
            less.append(f"{name}: {REASONS.get(name, 'not said')}")
    print("\nless than a blind plan:", *less, sep="\n  ")
    if len(less) < 2:
        missed.append("less than a blind plan on fewer than two")
    print("\n".join(f"missed: {m}" for m in missed) or "\nevery goal is met")
    return int(args.check and bool(missed))


if __name__ == "__main__":
    raise SystemExit(main())
