"""Networks of the zoo beside onnxruntime and torch.compile: one thread, in turn, processor time.

Networks of transformers are eight times as wide as those of the tests (256 features), networks of torchvision are whole; each is
timed at two sizes (``Family.timed``), and its results are compared with the peer's.  Each is imported from ``torch.export``,
detectors as models of ONNX; onnxruntime runs the model of torch's older exporter, or of the newer one where the older fails;
torch.compile is inductor with unknown sizes.  Torch's older exporter folds batch norms into the weights of its model; so does
``opt_level=3`` of ours.

Ratios are ours by theirs: below 1, ours is faster.  The first is the median over all rounds; the second, in parentheses, is the
median over the third of the rounds that took the least time in total.  A neighbour on the other half of a core slows some rounds
to 1.2 to 1.5 times, and not both runtimes alike.

``--sizes 100`` counts graphs instead: those that torch.compile compiles over so many sizes, where ours runs the program that was
compiled once.

``--record FILE`` appends a line of JSON for each family, and takes from the file those that it has.

    PYTHONPATH=. python benchmarks/torch_zoo.py [--filter REGEX] [--rounds 15] [--against onnxruntime] [--record FILE] [--sizes 0]
"""

from __future__ import annotations

import io
import itertools
import json
import logging
import math
import re
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch

import relayvm as relay
from tests.zoo import detectors, images, texts
from tests.zoo.expectations import expected
from tests.zoo.exporters import EXPORTERS, Flat, arrays_of, difference
from tests.zoo.family import Family

#: The factor of widths.
FACTOR = 8
#: The least time of a round, in seconds.
LEAST = 0.02
#: A call for given inputs, and the function that makes it for tensors.
Call = Callable[[], Any]
Made = Callable[[Sequence[Any]], Call]
OURS = "relayvm"


def subject(family: Family) -> tuple[Any, tuple[Any, ...]]:
    """The module of a family, and the arguments of its export."""
    torch.manual_seed(0)
    module = Flat((family.wider(FACTOR) if family.wider else family.make()).eval())
    return module, family.draw(family.sizes[0])


def is_exported(family: Family, exporter: str) -> bool:
    """Whether an exporter takes a family."""
    known = expected(family.name, exporter)
    return known is None or known.kind != "not exported"


def machine_of(family: Family, module: Any, example: tuple[Any, ...]) -> relay.VirtualMachine:
    """The machine of the program of ``torch.export``, or of the older exporter where torch exports none."""
    program = EXPORTERS["torch" if is_exported(family, "torch") else "script"](family, module, example)
    return relay.VirtualMachine(relay.compile(program, opt_level=3))


def ours(family: Family, module: Any, example: tuple[Any, ...]) -> Made:
    """The program in the machine."""
    machine = machine_of(family, module, example)

    def made(args: Sequence[Any]) -> Call:
        arrays = [a.numpy() for a in args]
        return lambda: machine.run(*arrays)

    return made


def onnxruntime(family: Family, module: Any, example: tuple[Any, ...]) -> Made:
    """A model of ONNX in onnxruntime."""
    import onnxruntime as ort

    if is_exported(family, "script"):
        model = EXPORTERS["script"](family, module, example).SerializeToString()
    else:
        kept = io.BytesIO()
        sizes = (tuple(dict.fromkeys(axes, torch.export.Dim.AUTO) for axes in family.open_axes),)
        program = torch.onnx.export(module, example, dynamo=True, dynamic_shapes=sizes, verbose=False)
        program.save(kept)
        model = kept.getvalue()
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def made(args: Sequence[Any]) -> Call:
        given = {i.name: a.numpy() for i, a in zip(session.get_inputs(), args, strict=True)}
        return lambda: session.run(None, given)

    return made


def inductor(family: Family, module: Any, example: tuple[Any, ...]) -> Made:
    """torch.compile, which has seen another size."""
    torch._dynamo.reset()
    run = torch.compile(module, dynamic=True)
    run(*example)
    return lambda args: lambda: run(*args)


PEERS: dict[str, Callable[..., Made]] = {"onnxruntime": onnxruntime, "inductor": inductor}


def results_of(found: Any) -> list[np.ndarray]:
    """The arrays of any runtime's results."""
    if isinstance(found, list) and all(isinstance(x, np.ndarray) for x in found):
        return found
    return arrays_of(found)


def sizes_of(family: Family, count: int) -> list[tuple[int, ...]]:
    """So many sizes: the open ones from the least of the family on, in steps that divide all of the family's."""
    axes = [set(sizes) for sizes in zip(*family.sizes, strict=True)]
    each = math.ceil(count ** (1 / sum(len(axis) > 1 for axis in axes)) - 1e-9)
    steps = [[min(axis) + k * math.gcd(*axis) for k in range(each)] if len(axis) > 1 else list(axis) for axis in axes]
    return list(itertools.islice(itertools.product(*steps), count))


def count_graphs(family: Family, count: int) -> None:
    """Print the number of graphs that torch.compile makes over sizes, the example's first; it is the same for every backend."""
    module, example = subject(family)
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


def timed(runs: dict[str, Call], rounds: int) -> dict[str, list[float]]:
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


def made_of(family: Family, peers: Sequence[str], failed: dict[str, str]) -> dict[str, Made]:
    """The runtimes that take a family; why others do not, in ``failed``."""
    module, example = subject(family)
    found = {}
    for name, make in {OURS: ours, **{peer: PEERS[peer] for peer in peers}}.items():
        try:
            found[name] = make(family, module, example)
        except Exception as error:  # of torch, of onnxruntime
            failed[name] = type(error).__name__
    return found


def measure(family: Family, peers: Sequence[str], rounds: int) -> dict[str, Any]:
    """The record of a family: for each size milliseconds of each runtime and our time by each peer's; what failed or differs."""
    failed: dict[str, str] = {}
    record: dict[str, Any] = {"family": family.name, "sizes": [], "failed": failed}
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = made_of(family, peers, failed)
        for size in family.timed:
            args, runs, results = family.draw(size), dict[str, Call](), dict[str, list[np.ndarray]]()
            for name in made:
                try:
                    runs[name] = made[name](args)
                    results[name] = results_of(runs[name]())
                except Exception as error:  # of any runtime
                    runs.pop(name, None)
                    failed[f"{name} {size}"] = type(error).__name__
            both = {p: difference(family, results[OURS], results[p]) for p in peers if {OURS, p} <= set(runs)}
            failed |= {f"{peer} {size}": f"differs {apart}" for peer, apart in both.items() if apart}
            times = timed(runs, rounds)
            ratios = {p: list(zip(times[OURS], times[p], strict=True)) for p in both}
            record["sizes"].append({
                "size": size,
                "ratios": {p: median_ratio(pairs) for p, pairs in ratios.items()},
                "undisturbed": {p: median_ratio(sorted(pairs, key=sum)[: max(1, rounds // 3)]) for p, pairs in ratios.items()},
                "ms": {name: spread(t) for name, t in times.items()},
            })  # fmt: skip
    return record


def median_ratio(pairs: Sequence[tuple[float, float]]) -> float:
    """The median of ours by theirs over rounds."""
    return statistics.median(ours / theirs for ours, theirs in pairs)


def spread(times: Sequence[float]) -> list[float]:
    """The median, the least and the most."""
    return [round(t, 4) for t in (statistics.median(times), min(times), max(times))]


def line_of(record: dict[str, Any], peers: Sequence[str]) -> str:
    """The line of a family: ratios to each peer at each size, milliseconds, what failed."""
    line = f"{record['family']:30}"
    for peer in peers:
        ratios = [(at["ratios"].get(peer, math.nan), at["undisturbed"].get(peer, math.nan)) for at in record["sizes"]]
        line += "".join(f"{ratio:6.2f} ({undisturbed:.2f})" for ratio, undisturbed in ratios) + "  "
    for at in record["sizes"]:
        line += "  ".join(f"{name} {m:.2f} ms ({low:.2f}-{high:.2f})" for name, (m, low, high) in at["ms"].items()) + "; "
    return line + ", ".join(f"{name}: {why}" for name, why in record["failed"].items())


def print_means(records: Sequence[dict[str, Any]], peers: Sequence[str]) -> None:
    """Print for each peer the geometric mean over the families of their geometric means over sizes, and those above 1."""
    for peer, rounds in itertools.product(peers, ("ratios", "undisturbed")):
        found = {r["family"]: [at[rounds][peer] for at in r["sizes"] if peer in at[rounds]] for r in records}
        means = {name: statistics.geometric_mean(ratios) for name, ratios in found.items() if ratios}
        above = ", ".join(f"{name} {max(found[name]):.2f}" for name in means if max(found[name]) > 1)
        if means:
            mean = statistics.geometric_mean(means.values())
            print(f"{peer}, {rounds}: geometric mean {mean:.3f} of {len(means)} families; above 1.0: {above or 'none'}")


@click.command()
@click.option("--filter", "chosen", default="", help="A regular expression in the names of families.")
@click.option("--rounds", default=15, help="Rounds of times.")
@click.option("--against", "peers", multiple=True, type=click.Choice(list(PEERS)), default=list(PEERS), help="The peers.")
@click.option("--record", "path", type=click.Path(path_type=Path), help="A file with a line of JSON for each family.")
@click.option("--sizes", default=0, help="Count graphs over so many sizes.")
def main(chosen: str, rounds: int, peers: tuple[str, ...], path: Path | None, sizes: int) -> None:
    """Measure families, and print the geometric means; or count graphs."""
    torch.set_num_threads(1)
    relay.set_num_threads(1)
    logging.disable(logging.CRITICAL)
    by_name = {**texts.FAMILIES.by_name, **images.FAMILIES.by_name, **detectors.FAMILIES.by_name}
    families = [family for name, family in by_name.items() if re.search(chosen, name)]
    if sizes:
        for family in families:
            count_graphs(family, sizes)
        return
    lines = path.read_text().splitlines() if path and path.exists() else []
    known = {record["family"]: record for record in map(json.loads, lines)}
    for family in families:
        if family.name not in known:
            known[family.name] = measure(family, peers, rounds)
            if path:
                with path.open("a") as file:
                    print(json.dumps(known[family.name]), file=file)
        print(line_of(known[family.name], peers), flush=True)
    print_means([known[family.name] for family in families], peers)


if __name__ == "__main__":
    main()
