"""Versions of a program for buckets of sizes (``FlexibleShapeDispatch``), against the program for every size.

Each program runs at a size of a bucket, at a size that is padded to a bucket, and at a size above all buckets.  A ratio is the
time of the program with buckets, divided by the time of the program without.

    python benchmarks/buckets.py
"""

from __future__ import annotations

import numpy as np

import relayvm as relay
from relayvm.vm.report.interleaved import measure

BUCKETS, SIZES = [8, 64], (64, 60, 65)
PROGRAMS = {
    "sums of rows": ((1024,), "def @main(%x: Tensor[(?n, 1024), float32]) { add(exp(%x), sum(%x, axis=[1], keepdims=True)) }"),
    "small rows": ((3,), "def @main(%x: Tensor[(?n, 3), float32]) { multiply(nn.softmax(%x, axis=1), tanh(%x)) }"),
    "transposed": ((16, 16), "def @main(%x: Tensor[(?n, 16, 16), float32]) { nn.relu(transpose(%x, axes=[0, 2, 1])) }"),
    "one matrix product": (
        (256,),
        "def @main(%x: Tensor[(?n, 256), float32], %w: Tensor[(256, 256), float32]) { nn.dense(%x, %w) }",
    ),
    "chain with shape arithmetic": (
        (4,),
        "def @main(%x: Tensor[(?n, 4), float32]) {"
        ' let %y = dyn.reshape(%x, concatenate((strided_slice(shape_of(%x, dtype="int64"), begin=[0], end=[1]),'
        ' full(2i64, shape=[2], dtype="int64")), axis=0));'
        " let %z = sum(%y, axis=[1]); concatenate((%z, sort(%z, axis=1)), axis=1) }",
    ),
}


def main() -> None:
    """Measure and print."""
    print("| program | a bucket | padded | above all |\n|---|---|---|---|")
    for name, (rest, text) in PROGRAMS.items():
        mod = relay.parse(f'#[version = "0.0.5"]\n{text}')
        new = relay.transform.FlexibleShapeDispatch(BUCKETS, auto_pad=True)(mod)
        plain, dispatched = (relay.VirtualMachine(relay.compile(m)) for m in (mod, new))
        weights = [np.ones((256, 256), np.float32)] if "%w" in text else []
        ratios = []
        for size in SIZES:
            x = np.random.default_rng(0).normal(size=(size, *rest)).astype(np.float32)
            np.testing.assert_allclose(plain.run(x, *weights).numpy(), dispatched.run(x, *weights).numpy(), rtol=1e-4, atol=1e-4)
            found = measure(
                {k: lambda vm=vm, inputs=(x, *weights): vm.run(*inputs) for k, vm in (("plain", plain), ("buckets", dispatched))},
                sample_seconds=0.05,
            )
            ratios.append(found["buckets"].median_ns / found["plain"].median_ns)
        print(f"| {name} | {' | '.join(f'{r:.2f}' for r in ratios)} |")


if __name__ == "__main__":
    main()
