"""Networks of the zoo beside onnxruntime and torch.compile: one thread, in turn, processor time.

Networks of transformers are eight times as wide as those of the tests (256 features), for one text of 64 words; networks of
torchvision are whole, for one image of 128 x 128.  Each is imported from ``torch.export``, detectors as models of ONNX;
onnxruntime runs the model of torch's older exporter, or of the newer one where the older fails; torch.compile is inductor with
unknown sizes.  Ratios are ours by theirs: below 1, ours is faster.  ``--sizes 100`` counts graphs instead: those that
torch.compile compiles over so many sizes, where ours runs the program that was compiled once.

    PYTHONPATH=. python benchmarks/torch_zoo.py [--filter REGEX] [--rounds 15] [--without-inductor] [--sizes 0]
"""

from __future__ import annotations

import io
import itertools
import logging
import math
import re
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import click
import numpy as np
import torch

import relayvm as relay
from tests.zoo import detectors, images, texts
from tests.zoo.exporters import EXPORTERS, Flat
from tests.zoo.family import Family

#: Sizes of texts and images, and the factor of widths.
TEXT, IMAGE, FACTOR = (1, 64), (1, 128, 128), 8
#: The least time of a round, in seconds.
LEAST = 0.02
Run = Callable[[], Any]
OURS = "relayvm"


def subject(family: Family) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
    """The module of a family, the arguments of its export, and those that are timed."""
    torch.manual_seed(0)
    module = Flat((family.wider(FACTOR) if family.wider else family.make()).eval())
    timed = TEXT if family.wider else IMAGE if len(family.sizes[0]) == 3 else family.sizes[0]
    return module, family.draw(family.sizes[0]), family.draw(timed)


def machine_of(family: Family, module: Any, example: tuple[Any, ...]) -> relay.VirtualMachine:
    """The machine of the program of ``torch.export``, or of the older exporter where torch exports none."""
    try:
        program = EXPORTERS["torch"](family, module, example)
    except Exception:  # torch's errors are of many classes
        program = EXPORTERS["script"](family, module, example)
    return relay.VirtualMachine(relay.compile(program))


def ours(family: Family, module: Any, example: tuple[Any, ...], args: Sequence[Any]) -> Run:
    """The program in the machine."""
    machine = machine_of(family, module, example)
    arrays = [a.numpy() for a in args]
    return lambda: machine.run(*arrays)


def onnxruntime(family: Family, module: Any, example: tuple[Any, ...], args: Sequence[Any]) -> Run:
    """A model of ONNX in onnxruntime."""
    import onnxruntime as ort

    try:
        model = EXPORTERS["script"](family, module, example).SerializeToString()
    except Exception:  # torch's errors are of many classes
        made = io.BytesIO()
        sizes = (tuple(dict.fromkeys(axes, torch.export.Dim.AUTO) for axes in family.open_axes),)
        program = torch.onnx.export(module, example, dynamo=True, dynamic_shapes=sizes, verbose=False)
        program.save(made)
        model = made.getvalue()
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    given = {i.name: a.numpy() for i, a in zip(session.get_inputs(), args, strict=True)}
    return lambda: session.run(None, given)


def inductor(family: Family, module: Any, example: tuple[Any, ...], args: Sequence[Any]) -> Run:
    """torch.compile, which has seen another size."""
    torch._dynamo.reset()
    run = torch.compile(module, dynamic=True)
    run(*example)
    return lambda: run(*args)


def sizes_of(family: Family, count: int) -> list[tuple[int, ...]]:
    """So many sizes: the open ones from the least of the family on, in steps that divide all of the family's."""
    axes = [set(sizes) for sizes in zip(*family.sizes, strict=True)]
    each = math.ceil(count ** (1 / sum(len(axis) > 1 for axis in axes)) - 1e-9)
    steps = [[min(axis) + k * math.gcd(*axis) for k in range(each)] if len(axis) > 1 else list(axis) for axis in axes]
    return list(itertools.islice(itertools.product(*steps), count))


def count_graphs(family: Family, count: int) -> None:
    """Print the number of graphs that torch.compile makes over sizes, the example's first; it is the same for every backend."""
    module, example, _ = subject(family)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        machine, theirs = machine_of(family, module, example), torch.compile(module, dynamic=True, backend="eager")
        for args in (example, *map(family.draw, sizes_of(family, count))):
            theirs(*args)
            machine.run(*[a.numpy() for a in args])
    graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    print(f"{family.name:20}{count + 1:5} sizes: 1 program, {graphs} graphs of torch.compile", flush=True)


def timed(runs: dict[str, Run], rounds: int) -> dict[str, list[float]]:
    """Milliseconds of processor time of a call, of each round."""
    repeats = {}
    for name, run in runs.items():
        run()
        start = time.process_time()
        run()
        repeats[name] = max(1, math.ceil(LEAST / max(time.process_time() - start, 1e-6)))
    found: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            start = time.process_time()
            for _ in range(repeats[name]):
                run()
            found[name].append((time.process_time() - start) / repeats[name] * 1e3)
    return found


def ratio(times: dict[str, list[float]], peer: str) -> float | None:
    """The median over the rounds of our time by a peer's."""
    return statistics.median(a / b for a, b in zip(times[OURS], times[peer], strict=True)) if peer in times else None


def measure(family: Family, peers: dict[str, Callable[..., Run]], rounds: int) -> dict[str, float]:
    """Print a line for a family; our time by each peer's."""
    module, example, args = subject(family)
    runs, failed = {}, []
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, make in {OURS: ours, **peers}.items():
            try:
                runs[name] = make(family, module, example, args)
                runs[name]()
            except Exception as error:  # of torch, of onnxruntime
                runs.pop(name, None)
                failed.append(f"{name}: {type(error).__name__}")
        times = timed(runs, rounds)
    ratios = {peer: r for peer in peers if OURS in runs and (r := ratio(times, peer)) is not None}
    line = "  ".join(f"{name} {statistics.median(t):7.2f} ms ({min(t):.2f}-{max(t):.2f})" for name, t in times.items())
    print(
        f"{family.name:20}" + "".join(f"{ratios.get(p, np.nan):6.2f}" for p in peers) + f"  {line}  {', '.join(failed)}",
        flush=True,
    )
    return ratios


@click.command()
@click.option("--filter", "chosen", default="", help="A regular expression in the names of families.")
@click.option("--rounds", default=15, help="Rounds of times.")
@click.option("--without-inductor", is_flag=True, help="Leave out torch.compile, which compiles for a minute.")
@click.option("--sizes", default=0, help="Count graphs over so many sizes.")
def main(chosen: str, rounds: int, without_inductor: bool, sizes: int) -> None:
    """Measure families, and print the geometric means; or count graphs."""
    torch.set_num_threads(1)
    logging.disable(logging.CRITICAL)
    peers = {"onnxruntime": onnxruntime} | ({} if without_inductor else {"inductor": inductor})
    by_name = {**texts.FAMILIES.by_name, **images.FAMILIES.by_name, **detectors.FAMILIES.by_name}
    families = [family for name, family in by_name.items() if re.search(chosen, name)]
    if sizes:
        for family in families:
            count_graphs(family, sizes)
        return
    print(f"{'family':20}" + "".join(f"{p[:5]:>6}" for p in peers))
    found = [measure(family, peers, rounds) for family in families]
    for peer in peers:
        given = [ratios[peer] for ratios in found if peer in ratios]
        if given:
            print(f"{peer}: geometric mean {statistics.geometric_mean(given):.2f} of {len(given)}, the worst {max(given):.2f}")


if __name__ == "__main__":
    main()
