"""Error rates of `compare`: differences found without a cause, and planted differences not found.

    python benchmarks/significance.py [--same 40] [--planted 20] [--repeat 20] [--json]

same      two identical configurations: the share of experiments in which no row of the table is significant; goal: 95 %
planted   one kernel of the second side takes 5 % more steps: the share in which its row is significant and slower; goal: 90 %

The kernel takes some 0.2 ms.  Both sides compute equal results, which are compared as always.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from typing import Any

import numpy as np

import relayvm as relay
from relayvm.compiler.comparison.compare import Comparison
from relayvm.compiler.comparison.run_comparison import REPEAT, measure
from relayvm.ops.core.implementation import Kernel
from relayvm.ops.core.op import Op, OpPattern
from relayvm.ops.native.memory import generic
from relayvm.shape_funcs.symbolic.registry import Operand, register_shape_func

GOALS = {"same": 0.95, "planted": 0.90}
SIZE, PLANTED_PERCENT = 1000, 5


@dataclass(frozen=True)
class WorkAttrs:
    """``steps`` for each element."""

    steps: int = 100


@generic
def work(data, out, steps):  # type: ignore[no-untyped-def]
    """Copies, after ``steps`` multiplications that nobody needs but no compiler can leave out: they might give a NaN."""
    for i in range(len(data)):
        value = data[i]
        for _ in range(steps):
            value = value * value - data[i]
        out[i] = data[i] if value == value else 0
    return 0


@register_shape_func("bench.work", data_dependent=False)
def work_shape(inputs: tuple[Operand, ...], attrs: WorkAttrs) -> tuple[Any, ...]:
    return inputs[0].shape


Op(
    name="bench.work",
    doc="The input, after a while.",
    inputs=("data",),
    attrs=WorkAttrs,
    pattern=OpPattern.OPAQUE,
    dtype=lambda dtypes, attrs: dtypes[0],
    kernels=(Kernel("loop", work, attrs=lambda attrs: {"steps": attrs.steps}),),
)


def executable(steps: int) -> relay.Executable:
    """A program with a planted kernel between others, a copy to the host and a shape function that needs it."""
    text = f"""#[version = "0.0.5"]
        def @main(%x: Tensor[(?n), float32]) {{
          let %a = tanh(%x);
          let %b = bench.work(%a, steps={steps});
          let %c = exp(%b);
          let %rows = squeeze(argwhere(greater(%c, 1f)), axis=[1]);
          let %d = take(%c, %rows, axis=0);
          (sum(%d), sort(%d, axis=0))
        }}"""
    return relay.compile(relay.parse(text, source_name="planted.relay"), target="sim")


def experiment(steps_a: int, steps_b: int, repeat: int) -> Comparison:
    """One comparison, as `relayvm compare` makes it."""
    x = np.random.default_rng(0).uniform(-1, 1, SIZE).astype("float32")
    return measure({"a": executable(steps_a), "b": executable(steps_b)}, {"": [x]}, repeat=repeat)


def is_quiet(found: Comparison) -> bool:
    """Whether no row of the table is significant."""
    return not found.significant()


def finds_it(found: Comparison) -> bool:
    """Whether the planted kernel's row is significant and slower."""
    return any(row.name == "bench_work" and row.mark(1) == "*" and row.change > 0 for row in found.significant())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--same", type=int, default=40, help="experiments with identical sides")
    parser.add_argument("--planted", type=int, default=20, help="experiments with a slower kernel")
    parser.add_argument("--repeat", type=int, default=REPEAT, help="rounds of each experiment")
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    args = parser.parse_args()
    steps = WorkAttrs().steps
    slower = steps * (100 + PLANTED_PERCENT) // 100
    quiet = sum(is_quiet(experiment(steps, steps, args.repeat)) for _ in range(args.same))
    found = sum(finds_it(experiment(steps, slower, args.repeat)) for _ in range(args.planted))
    figures = {"same": (quiet, args.same), "planted": (found, args.planted)}
    if args.json:
        print(json.dumps({name: {"right": right, "of": of} for name, (right, of) in figures.items()}))
        return 0
    for name, (right, of) in figures.items():
        verdict = "met" if of and right / of >= GOALS[name] else "NOT met"
        print(f"{name:8} {right:3} of {of:3} right; goal: {100 * GOALS[name]:.0f} %: {verdict}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
