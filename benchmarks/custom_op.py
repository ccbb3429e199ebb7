"""A user's operators against equal built-in operators, on 16 MiB: an expression, and a kernel.

python benchmarks/custom_op.py [--check]     # --check: exits with 1 if a user's operator takes more than 1.2 times as long
"""

from __future__ import annotations

import os

os.environ["RELAYVM_NUM_THREADS"] = "1"  # a kernel of one's own is not divided between threads, some built-in ones are

import argparse
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

import relayvm as relay
from relayvm.ops.core.compute import apply
from relayvm.vm.report.interleaved import measure

SHAPE = (4096, 1024)
MOST = 1.2


@dataclass(frozen=True)
class SlopeAttrs:
    """``alpha``: the slope below 0."""

    alpha: float = 0.05


def leaky(x: Any, alpha: float) -> Any:
    """`x` above 0, `alpha * x` below."""
    return apply("where", apply("less", x, 0, dtype="bool"), x * alpha, x, dtype=x.dtype)


def row_sums(data: Any, out: Any) -> int:
    """The sums of all elements up to each in its row, in float64: not what the built-in one computes in."""
    for i in range(data.shape[0]):
        total = 0.0
        for j in range(data.shape[1]):
            total += data[i, j]
            out[i, j] = total
    return 0


def column_sums(data: Any, out: Any) -> int:
    """The sums of all elements up to each in its column, in the result's dtype, as the built-in one computes them."""
    for i in range(data.shape[0]):
        for j in range(data.shape[1]):
            out[i, j] = out[i - 1, j] + data[i, j] if i else data[i, j]
    return 0


def machine(call: str) -> relay.VirtualMachine:
    """A program of one call."""
    return relay.VirtualMachine(relay.compile(f'#[version = "0.0.5"]\ndef @main(%x: Tensor[(?, ?), float32]) {{ {call} }}'))


def main() -> int:
    """Measure, print, and judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help=f"exit with 1 above {MOST} times")
    check = parser.parse_args().check
    relay.register_op("my.leaky", ["x"], element=leaky, attrs=SlopeAttrs)
    relay.register_shape_func("my.row_sums")(lambda inputs, attrs: inputs[0].shape)
    relay.register_op("my.row_sums", ["data"], kernel=row_sums)
    relay.register_shape_func("my.column_sums")(lambda inputs, attrs: inputs[0].shape)
    relay.register_op("my.column_sums", ["data"], kernel=column_sums)
    x = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)
    slow = False
    pairs = {
        "my.leaky(%x)": "nn.leaky_relu(%x)",
        "my.column_sums(%x)": "cumsum(%x, axis=0)",
        "my.row_sums(%x)": "cumsum(%x, axis=1)",
    }
    for mine, built_in in pairs.items():
        machines = {call: machine(call) for call in (mine, built_in)}
        results = [vm.run(x).numpy() for vm in machines.values()]
        np.testing.assert_allclose(results[0], results[1], rtol=1e-4, atol=1e-3)
        found = measure({call: lambda vm=vm: vm.run(x) for call, vm in machines.items()}, rounds=15, sample_seconds=0.05)
        for call, timing in found.items():
            print(f"{call:20} {timing.median_ns / 1e6:8.3f} ms  ({timing.min_ns / 1e6:.3f} to {timing.max_ns / 1e6:.3f})")
        ratio = found[mine].median_ns / found[built_in].median_ns
        slow |= ratio > MOST
        print(f"  {ratio:.2f} times the built-in one")
    return int(check and slow)


if __name__ == "__main__":
    sys.exit(main())
