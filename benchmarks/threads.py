"""Benefit of threads: kernels on large tensors with one thread and with several, and the cost of the request on small tensors.

    python benchmarks/threads.py [--threads N] [--rounds 9] [--mib 64]

``bound``: as many machines in Python threads of their own, one thread each, the work divided by hand: the limit of
this computer, on which other processes may be busy.  All variants are measured in turn.
"""

# ruff: noqa: E402
from __future__ import annotations

import os

for _threads in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_threads] = "1"  # read when the libraries load

import threading
from collections.abc import Callable

import click
import numpy as np

import relayvm as relay
from relayvm.ops.native.threads import team
from relayvm.vm.report.interleaved import measure

SUBJECTS = {
    "exp": "exp(%x)",
    "gelu": "%x * 0.5f * (1f + erf(%x * 0.70710677f))",
    "add": "%x + 1f",
    "softmax": "nn.softmax(%x)",
    "sum of rows": "sum(%x, axis=[1])",
    "sum of columns": "sum(%x, axis=[0])",
    "transpose": "transpose(%x)",
}
COLUMNS = 1024
#: Elements: far too few to be divided, somewhat too few, and somewhat more than enough.
SMALL = (16, 16_384, 131_072)


def machine(body: str) -> relay.VirtualMachine:
    text = f'#[version = "0.0.5"]\ndef @main(%x: Tensor[(?n, ?m), float32]) {{ {body} }}'
    return relay.VirtualMachine(relay.compile(relay.parse(text)))


def with_threads(n: int, run: Callable[[], object]) -> Callable[[], object]:
    """``run``, with ``n`` threads."""

    def call() -> None:
        team.set_threads(n)
        run()

    return call


def by_hand(machines: list[relay.VirtualMachine], parts: list[np.ndarray]) -> Callable[[], object]:
    """Run each machine on its part, all at the same time."""

    def call() -> None:
        at_once = [threading.Thread(target=vm.run, args=(part,)) for vm, part in zip(machines, parts, strict=True)]
        for thread in at_once:
            thread.start()
        for thread in at_once:
            thread.join()

    return call


def large(n: int, rounds: int, mib: int) -> None:
    x = np.random.default_rng(0).standard_normal(((mib << 20) // (4 * COLUMNS), COLUMNS)).astype("float32")
    print(f"{mib} MiB of float32, ms, median and least of {rounds}")
    print(f"{'':<16}{'1 thread':>18}{f'{n} threads':>18}{'bound':>18}{'faster':>9}{'bound':>8}")
    for name, body in SUBJECTS.items():
        machines = [machine(body) for _ in range(n)]
        runs = {
            "one": with_threads(1, lambda vm=machines[0]: vm.run(x)),
            "all": with_threads(n, lambda vm=machines[0]: vm.run(x)),
            "bound": with_threads(1, by_hand(machines, np.array_split(x, n))),
        }
        took = measure(runs, rounds)
        shown = "".join(f"{t.median_ns / 1e6:>11.2f} {t.min_ns / 1e6:>6.2f}" for t in took.values())
        ratios = [took["one"].median_ns / took[k].median_ns for k in ("all", "bound")]
        print(f"{name:<16}{shown}{ratios[0]:>9.2f}{ratios[1]:>8.2f}")


def small(n: int, rounds: int) -> None:
    print(f"\nexp of small tensors, us, median and least of {rounds}")
    print(f"{'elements':<16}{'1 thread':>18}{f'{n} threads':>18}{'divided':>9}")
    vm = machine("exp(%x)")
    for elements in SMALL:
        x = np.zeros((1, elements), "float32")
        runs = {"one": with_threads(1, lambda x=x: vm.run(x)), "all": with_threads(n, lambda x=x: vm.run(x))}
        took = measure(runs, rounds)
        before = team.splits()
        runs["all"]()
        shown = "".join(f"{t.median_ns / 1e3:>11.2f} {t.min_ns / 1e3:>6.2f}" for t in took.values())
        print(f"{elements:<16}{shown}{'yes' if team.splits() > before else 'no':>9}")


@click.command(help=__doc__)
@click.option("--threads", "n", default=0, help="The number of threads; 0: the default of relayvm.")
@click.option("--rounds", default=9)
@click.option("--mib", default=64)
def main(n: int, rounds: int, mib: int) -> None:
    n = n or relay.get_num_threads()
    relay.set_num_threads(n)
    large(n, rounds, mib)
    small(n, rounds)


if __name__ == "__main__":
    main()
