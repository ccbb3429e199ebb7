"""``torch.compile`` with the backend ``relayvm`` over twelve modules: results, compilations, what a call costs besides the run.

Each module runs at many sizes, in turn with torch; its graph is compiled once.  Then the times of a call, in microseconds of
processor time, medians of rounds in turn: the machine alone (``vm.run``), the graph as torch calls it, the whole call with the
guards of torch, the same with a graph that computes nothing, and torch without a compiler.  One thread.

    PYTHONPATH=. python benchmarks/torch_backend.py [--sizes 1000] [--rounds 15] [--only NAME]
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click
import torch

import relayvm as relay
from relayvm.compiler.torch_frontend.dynamo import compiled_graph
from relayvm.compiler.torch_frontend.dynamo.backend import backend
from tests.torch_frontend.modules import MODULES

#: The first size: torch takes axes of equal sizes in the first call for one size, and no other axis has this one.
FIRST = 11
#: Calls of a round, and the size at which they are timed.
CALLS, SIZE = 200, 8
#: The largest difference from torch, in roundings.
NEAR = 100.0
#: The largest cost of a graph's call over ``vm.run``, in microseconds.
GOAL = 15.0


class Graphs:
    """The graphs that are compiled, while it is entered."""

    def __enter__(self) -> list[Any]:
        self.initial, made = compiled_graph.CompiledGraph.__init__, list[Any]()

        def noted(graph: Any, *given: Any) -> None:
            self.initial(graph, *given)
            made.append(graph)

        compiled_graph.CompiledGraph.__init__ = noted  # type: ignore[method-assign]
        return made

    def __exit__(self, *error: Any) -> None:
        compiled_graph.CompiledGraph.__init__ = self.initial  # type: ignore[method-assign]


def tensors(result: Any) -> list[Any]:
    """The tensors and numbers of a result."""
    parts = result.values() if isinstance(result, Mapping) else result if isinstance(result, (tuple, list)) else [result]
    return [part for part in parts if part is not None]


def run_sizes(run: Any, beside: Any, shape: Any, sizes: int) -> float:
    """The largest difference from torch over sizes from FIRST on, in roundings of the dtype."""
    worst = 0.0
    for n in range(FIRST, sizes + FIRST):
        x = torch.randn(shape(n))
        for ours, theirs in zip(tensors(run(x)), tensors(beside(x)), strict=True):
            a, b = torch.as_tensor(ours), torch.as_tensor(theirs)
            assert (a.shape, a.dtype) == (b.shape, b.dtype), (n, a.shape, b.shape)
            rounding = torch.finfo(b.dtype).eps if b.is_floating_point() else 1e-9
            apart = (a.double() - b.double()).abs() / (1 + b.double().abs()) / rounding
            worst = max(worst, float(apart.max()) if apart.numel() else 0.0)
    return worst


def timed(calls: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Microseconds of processor time of each call, in each round."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.process_time()
            for _ in range(CALLS):
                call()
            found[name].append((time.process_time() - start) / CALLS * 1e6)
    return found


def calls_of(graph: Any, run: Any, module: Any, x: Any) -> dict[str, Callable[[], Any]]:
    """The calls of a graph that are timed."""
    kind, initial, given = type(graph), type(graph).__call__, list[Any]()

    def noted(graph: Any, *args: Any) -> Any:
        given.append((args, initial(graph, *args)))
        return given[-1][1]

    kind.__call__ = noted
    run(x)
    kind.__call__ = initial
    (args, results), current = given[-1], graph._current
    arrays = [compiled_graph._passed(args[k]) for k in current.arguments]
    machine = current.machines.machine()

    def without() -> None:
        kind.__call__ = lambda *given: results
        try:
            run(x)
        finally:
            kind.__call__ = initial

    return {
        "vm.run": lambda: machine.run(*arrays),
        "graph": lambda: graph(*args),
        "call": lambda: run(x),
        "torch's own": without,
        "eager": lambda: module(x),
    }


def measure(name: str, sizes: int, rounds: int) -> bool:
    """Print a line for a module; whether it holds."""
    make, shape = MODULES[name]
    torch.manual_seed(3)
    module, beside = make().eval(), make().eval()
    beside.load_state_dict(module.state_dict())
    torch._dynamo.reset()
    with Graphs() as graphs, torch.no_grad():
        run = torch.compile(module, backend=backend, dynamic=True)
        worst = run_sizes(run, beside, shape, sizes)
        times = timed(calls_of(graphs[0], run, beside, torch.randn(shape(SIZE))), rounds)
    compilations = sum(graph.compilations for graph in graphs)
    over = statistics.median(g - v for g, v in zip(times["graph"], times["vm.run"], strict=True))
    columns = "".join(f"{text(times[kind]):>20}" for kind in times)
    print(f"{name:18}{sizes:>6}{compilations:>4}{worst:>9.1f}{over:>7.1f}{columns}", flush=True)
    return compilations == 1 and worst <= NEAR and over <= GOAL


def text(times: Sequence[float]) -> str:
    """The median, the least and the most."""
    return f"{statistics.median(times):.1f} ({min(times):.1f}-{max(times):.1f})"


@click.command()
@click.option("--sizes", default=1000, help="Sizes of each module.")
@click.option("--rounds", default=15, help="Rounds of times.")
@click.option("--only", help="One module.")
def main(sizes: int, rounds: int, only: str | None) -> None:
    """Measure each module."""
    torch.set_num_threads(1)
    relay.set_num_threads(1)
    kinds = ("vm.run", "graph", "call", "torch's own", "eager")
    print(f"{'module':18}{'sizes':>6}{'':>4}{'apart':>9}{'over':>7}" + "".join(f"{kind:>20}" for kind in kinds))
    held = [measure(name, sizes, rounds) for name in MODULES if only in (None, name)]
    raise SystemExit(0 if all(held) else 1)


if __name__ == "__main__":
    main()
