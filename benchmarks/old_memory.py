"""Times of kernels whose workspace was full of subnormal numbers, NaN or huge numbers before, relative to zeros.

    python benchmarks/old_memory.py [--rounds 41] [--most 1.2] [KERNEL ...]

A kernel runs on memory as programs leave it behind.  Arithmetic on it would cost 4 to 25 times the time where it holds subnormal
numbers (``tests/ops/opaque/test_old_memory.py`` shows that there is none).  Each kernel runs alone, in one thread, with each kind
of old memory in turn: in its workspace and in its results.  Processor times; medians of pairs.  Exit code 1 if one is above
``--most`` times that with zeros.
"""

# ruff: noqa: E402
from __future__ import annotations

import os

for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_threads] = "1"  # read when the libraries load

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace

import click
import numpy as np

import relayvm as relay
from relayvm.ops.codegen import kernel_source
from relayvm.ops.codegen.cpu import opaque_kernel
from relayvm.ops.core.tensor_types import DTYPES, numpy_dtype
from relayvm.ops.core.type_relation import shape_program
from relayvm.ops.native.blas import library_calls
from relayvm.ops.native.memory import call_kernel
from relayvm.ops.native.object_layout import TENSOR
from relayvm.ops.native.threads import team
from relayvm.shape_funcs.symbolic.dim import const
from relayvm.vm.runtime.kernels.kernel_addresses import kernel_address

FILLS = {"zeros": 0.0, "subnormal": 1e-41, "NaN": float("nan"), "3e38": 3e38}


def convolution(channels: int, outputs: int, rows: int, window: int, attrs: str = "", groups: int = 1) -> str:
    """The program of a convolution whose result has as many rows as its data, with stride 1."""
    weight, pad = f"({outputs}, {channels // groups}, {window}, {window})", window // 2
    shapes = f"%x: Tensor[(1, {channels}, {rows}, {rows}), float32], %w: Tensor[{weight}, float32]"
    own = f"padding=[{pad}, {pad}, {pad}, {pad}], channels={outputs}, kernel_size=[{window}, {window}], groups={groups}{attrs}"
    return f"{shapes}) {{ nn.conv2d(%x, %w, {own}) }}"


def filtered(channels: int, rows: int) -> str:
    """The program of a convolution with transformed filters, as constant weights become."""
    shape = f"%x: Tensor[(1, {channels}, {rows}, {rows}), float32], %w: Tensor[({channels}, {channels}, 3, 3), float32]"
    given = f"{shape}, %f: Tensor[(16, {channels}, {channels}), float32]"
    return f"{given}) {{ nn.winograd_conv2d(%x, %w, %f, padding=[1, 1, 1, 1]) }}"


def attention(queries: int, keys: int, width: int = 64, dtype: str = "float32") -> str:
    """The program of attention with 4 heads."""
    names = ", ".join(f"%{n}: Tensor[(1, {m}, 4, {width}), {dtype}]" for n, m in (("q", queries), ("k", keys), ("v", keys)))
    return f"{names}) {{ nn.batch_attention(%q, %k, %v, scale=0.125f64) }}"


#: Programs of one operator, from their first parameter on, and the options that choose an implementation.
KERNELS: dict[str, tuple[str, dict[str, str]]] = {
    **{f"winograd {rows}": (convolution(32, 32, rows, 3), {"impl.nn.conv2d": "winograd"}) for rows in (7, 14, 27, 28, 56)},
    **{f"winograd of 64 {rows}": (convolution(64, 64, rows, 3), {"impl.nn.conv2d": "winograd"}) for rows in (13, 14, 26)},
    **{f"filters {c} {rows}": (filtered(c, rows), {}) for c, rows in ((32, 28), (64, 14), (128, 7))},
    **{f"planes {rows}": (convolution(4, 4, rows, 3), {"impl.nn.conv2d": "planes"}) for rows in (9, 30, 60)},
    "planes dilated": (convolution(8, 8, 15, 3, ", dilation=[2, 2]", groups=4), {"impl.nn.conv2d": "planes"}),
    "depthwise": (convolution(32, 32, 14, 3, groups=32), {}),
    "depthwise 5x5": (convolution(32, 32, 6, 5, groups=32), {}),
    **{f"tiles {rows}": (convolution(64, 40, rows, 3), {"impl.nn.conv2d": "tiles"}) for rows in (7, 14)},
    **{f"shifts {rows}": (convolution(64, 40, rows, 3), {"impl.nn.conv2d": "shifts"}) for rows in (7, 14)},
    "positions": (convolution(96, 80, 7, 1), {"impl.nn.conv2d": "positions"}),
    "im2col": (convolution(16, 16, 14, 3), {"impl.nn.conv2d": "im2col"}),
    **{f"attention {m} x {n}": (attention(m, n), {}) for m, n in ((1, 33), (20, 33), (100, 100))},
    "attention float64": (attention(20, 33, 32, "float64"), {}),
    "products": ("%x: Tensor[(33, 70), float32], %w: Tensor[(35, 70), float32]) { nn.dense(%x, %w) }", {}),
    "softmax": ("%x: Tensor[(50, 77), float32]) { nn.softmax(%x, axis=0) }", {}),
    "sort": ("%x: Tensor[(40, 77), float32]) { sort(%x) }", {}),
    "topk": ('%x: Tensor[(4, 1000), float32]) { topk(%x, k=10, ret_type="values") }', {}),
    "dft": ("%x: Tensor[(8, 60), float32], %y: Tensor[(8, 60), float32]) { dft(%x, %y) }", {}),
    "average pool": (
        "%x: Tensor[(1, 16, 29, 29), float32]) { nn.avg_pool2d(%x, pool_size=[3, 3], strides=[2, 2], padding=[1, 1, 1, 1]) }",
        {},
    ),
    "transposed convolution": (
        "%x: Tensor[(1, 32, 9, 9), float32], %w: Tensor[(32, 16, 3, 3), float32]) "
        "{ nn.conv2d_transpose(%x, %w, channels=16, kernel_size=[3, 3], strides=[2, 2]) }",
        {},
    ),
}


class Subject:
    """A kernel with its tensors: ``fill`` its workspace and results, and ``run`` it."""

    def __init__(self, text: str, options: dict[str, str]) -> None:
        exe = relay.compile(f'#[version = "0.0.5"]\ndef @main({text}\n', **options)
        (self.group,) = (p.group for p in exe.packed)
        random, values = np.random.default_rng(0), self.group.values()
        sizes = [tuple(const(d) or 0 for d in t.shape) for t in self.group.params]
        inputs = [random.normal(size=s).astype(t.dtype) for s, t in zip(sizes, self.group.params, strict=True)]
        wanted = replace(self.group, workspace=True)
        *shapes, (nbytes,) = shape_program(wanted, sizes=[opaque_kernel.workspace(wanted)]).program.run(inputs)
        self.old = np.zeros(max(int(nbytes), 64) // 8 + 8, np.float64)
        out = [np.zeros(s, numpy_dtype(values[r].dtype)) for r, s in zip(self.group.results, shapes, strict=True)]
        start = -self.old.ctypes.data % 64
        workspace = self.old.view(np.uint8)[start : start + int(nbytes)]
        self.written = [self.old, *out]
        counts = [np.zeros(1, np.int64)] if self.group.counts else []
        tensors = [*inputs, *out, *counts, workspace]
        table = np.zeros(len(library_calls.TABLE), np.int64)
        for library, address in library_calls.addresses(kernel_source(wanted).libraries).items():
            table[library_calls.TABLE[library].index] = address
        records = [record(t) for t in tensors]
        argv = np.array([*(r.ctypes.data for r in records), table.ctypes.data, team.ALONE.ctypes.data], np.int64)
        self.held = tensors, records, table, argv
        self.address, self.n = kernel_address(wanted), len(tensors)
        self.name = f"{wanted.nodes[0].op} {wanted.implementation}"

    def fill(self, value: float) -> None:
        """Fill the workspace and the results with a float32."""
        word = np.full(2, value, np.float32).view(np.uint64)[0]
        for array in self.written:
            whole = array.reshape(-1).view(np.uint8)
            whole[: len(whole) // 8 * 8].view(np.uint64)[:] = word

    def run(self) -> None:
        """Run the kernel."""
        status = call_kernel(self.address, self.held[3].ctypes.data, self.n)
        assert status == 0, f"{self.name}: status {status}"


def record(array: np.ndarray) -> np.ndarray:
    """A TENSOR record of a contiguous array."""
    made = np.zeros(1, TENSOR)
    made["data"], made["ndim"], made["dtype"] = array.ctypes.data, array.ndim, DTYPES.index(array.dtype.name)
    made["shape"][0, : array.ndim] = array.shape
    return made


def seconds(run: Callable[[], None]) -> float:
    """Processor time of a call."""
    begin = time.thread_time_ns()
    run()
    return (time.thread_time_ns() - begin) / 1e9


@click.command()
@click.argument("kernels", nargs=-1)
@click.option("--rounds", default=41, show_default=True)
@click.option("--most", default=1.2, show_default=True, help="The largest ratio that is right.")
def main(kernels: tuple[str, ...], rounds: int, most: float) -> None:
    """Print a row for each kernel: its time with zeros, and the ratios."""
    worst = 0.0
    click.echo(f"{'':24} {'kernel':34} {'us':>8} " + " ".join(f"{name:>10}" for name in list(FILLS)[1:]))
    for name, (text, options) in KERNELS.items():
        if kernels and name not in kernels:
            continue
        subject = Subject(text, options)
        subject.run()
        times: dict[str, list[float]] = {fill: [] for fill in FILLS}
        for _ in range(rounds):
            for fill, value in FILLS.items():
                subject.fill(value)
                times[fill].append(seconds(subject.run))
        clean = statistics.median(times["zeros"])
        ratios = [statistics.median(times[fill]) / clean for fill in list(FILLS)[1:]]
        worst = max(worst, *ratios)
        click.echo(f"{name:24} {subject.name:34} {clean * 1e6:8.1f} " + " ".join(f"{ratio:10.2f}" for ratio in ratios))
    click.echo(f"the largest ratio: {worst:.2f}")
    sys.exit(int(worst > most))


if __name__ == "__main__":
    main()
