"""Matrix products with constant weights, and a whole text encoder, side by side with onnxruntime: the same ONNX model for both.

    pip install 'relayvm[bench]' torch          # torch may be in a folder of its own, or absent: PYTHONPATH=FOLDER
    python benchmarks/models.py [--threads 1] [--rounds 9] [--busy 2] [--only dense,encoder,conv,tail,nets,zoo,levels] [--check]
                                [--network NAME ...] [--models FOLDER] [--cpu-time] [--json] [--record FOLDER]

dense    `x @ w` with a constant `w[k, n]`, for 1 to 512 rows of `x`.
conv     convolutions of ResNet-50, MobileNetV2 and a text detector, with bias and ReLU (see ``convolutions``).
encoder  4 layers of 256 features, 4 heads and 1,024 inner features, over sequences of 7 to 512 words (the encoder of BERT).
tail     what follows an object detector: the best 1,000 of 500 to 8,400 candidates of 80 classes, at most 300 after suppression
         within each class.
nets     ResNet-50 and MobileNetV2 on batches of 1 and 4 pictures of 224 rows and columns.
zoo      networks for pictures whose batch, height and width are open (``vision_networks.py``); a detector and a language model
         as torch exports them (``exported_networks.py``), if the packages are installed or the folder ``--models`` has the files.
levels   the networks for pictures, smaller, beside the same programs at lower levels of optimisation and without fusion: the
         default is never slower.

The number of rows, words, candidates or pictures, or height and width, are open in every model.  Both runtimes have the same
number of threads and are timed in turn, once the threads of the other sleep; their results are compared first.  A ratio is the
median over the rounds, of samples that are neighbours in time: a machine that becomes slower for a while does not change it.
Ratios below 1: relayvm is faster than onnxruntime.  ``--busy`` processes that only compute run meanwhile; the goal is then the
same everywhere.  ``--cpu-time`` counts CPU time, for a machine that other work shares.  The encoder and
the networks also run in torch, eager and compiled, if torch is installed (``torch_models.py``). The speed of products, those of
an encoder too, stands beside its share of the peak, the multiply-adds in registers that the threads could do, measured after the
products (``fma_peak.py``).  ``at the peak``: the ratio if relayvm did its products at the peak and nothing else; no goal below it
can be reached.  ``--record`` writes the figures and the state of the machine to a file, of which docs/speed.md has a table.
"""

# ruff: noqa: E402
from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

_parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
_parser.add_argument("--threads", type=int, default=1, help="threads of each runtime")
_parser.add_argument("--rounds", type=int, default=9, help="samples of each contestant")
_parser.add_argument("--busy", type=int, default=0, help="processes that keep the cores busy")
_parser.add_argument("--only", default="dense,encoder,conv,tail,nets,zoo,levels", help="groups, separated by commas")
_parser.add_argument("--network", action="append", metavar="NAME", help="only networks of zoo and levels whose name has NAME")
_parser.add_argument("--models", type=Path, metavar="FOLDER", help="files of networks that torch exports")
_parser.add_argument("--cpu-time", action="store_true", help="count CPU time")
_parser.add_argument("--check", action="store_true", help="exit with 1 if a goal is missed")
_parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
_parser.add_argument("--record", metavar="FOLDER", help="write the figures to <date>-models-cpu-<processor>.json there")
GIVEN = _parser.parse_args()
for _threads in ("RELAYVM_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_threads] = str(GIVEN.threads)  # read when the libraries load

import functools
import json
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

import numpy as np
import onnx
import onnxruntime
from convolutions import CONVOLUTIONS, NETWORKS, convolution
from encoder import HEADS, VOCABULARY, encoder, products_gflop
from exported_networks import EXPORTED, model_of
from fma_peak import peak_gflops
from onnx_graph import Graph
from onnx_models import machine_name, machine_state
from other_work import busy, wait_for_idle_threads
from torch_models import torch_runs
from vision_networks import VISION

import relayvm as relay

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

from detection_reference import candidates

from relayvm.vm.report.interleaved import Timing, measure

OURS, PEER = "relayvm", "onnxruntime"
ROWS = (1, 2, 4, 7, 16, 33, 64, 100, 200, 512)
WEIGHTS = ((256, 256), (256, 1024), (1024, 256), (768, 3072), (3072, 768), (4096, 4096))
#: The most of the peer's time: the geometric mean over a group, and each product.
MEANS = {"dense": 0.75, "conv": 0.9, "zoo": 0.85}
DENSE_EACH = 1.05
#: The most of the peer's time by the number of words.
ENCODER = {7: 0.7, 33: 0.7, 100: 0.9, 200: 0.9, 512: 0.9}
#: The most of the peer's time by the number of candidates; what the detection tail keeps.
TAIL = {500: 0.4, 2000: 0.4, 8400: 0.5}
CLASSES, FIRST, KEPT, OVERLAP, SCORE = 80, 1000, 300, 0.5, 0.3
#: The most of the peer's time for a network, and for one of ``zoo``.
NETWORK, ZOO = 0.95, 1.0
#: Lower levels of optimisation, and the most of their time that the default takes.
LEVELS: dict[str, dict[str, object]] = {
    "opt_level=0": {"opt_level": 0},
    "opt_level=1": {"opt_level": 1},
    "fuse=off": {"fuse": False},
}
LEVEL = 1.03
#: The most of the peer's time on busy cores.
BUSY = 1.3
Arrays = dict[str, np.ndarray]


# ---- models ------------------------------------------------------------------------------------------------------------------


def dense(k: int, n: int) -> bytes:
    """``x @ w``."""
    g = Graph()
    return g.model(onnx.TensorProto.FLOAT, ("rows", k), g.node("MatMul", "x", g.parameters(k, n)))


def tail() -> bytes:
    """Boxes (4 columns) and logits of the classes to rows of box, score and class, best first."""
    g = Graph()

    def ints(*values: int) -> str:
        return g.weight(np.array(values, np.int64))

    def number(value: float) -> str:
        return g.weight(np.array([value], np.float32))

    boxes, logits = (g.node("Slice", "x", ints(begin), ints(end), ints(1)) for begin, end in ((0, 4), (4, 4 + CLASSES)))
    scores = g.node("Sigmoid", logits)
    best = g.node("ReduceMax", scores, ints(1), keepdims=0)
    count = g.node("Min", g.node("Shape", best), ints(FIRST))
    top, chosen = f"y{len(g.nodes)}", "chosen"
    g.nodes.append(onnx.helper.make_node("TopK", [best, count], [top, chosen]))
    boxes, classes = g.node("Gather", boxes, chosen), g.node("Gather", g.node("ArgMax", scores, axis=1, keepdims=1), chosen)
    classes = g.node("Cast", classes, to=onnx.TensorProto.FLOAT)
    # boxes of different classes are moved apart
    apart = g.node("Unsqueeze", g.node("Add", boxes, g.node("Mul", classes, number(4096))), ints(0))
    each = g.node("Unsqueeze", top, ints(0, 1))
    kept = g.node("NonMaxSuppression", apart, each, ints(KEPT), number(OVERLAP), number(SCORE))
    index = g.node("Squeeze", g.node("Slice", kept, ints(2), ints(3), ints(1)), ints(1))
    columns = boxes, g.node("Unsqueeze", top, ints(1)), classes
    return g.model(onnx.TensorProto.FLOAT, ("rows", 4 + CLASSES), g.node("Gather", g.node("Concat", *columns, axis=1), index))


# ---- contestants ---------------------------------------------------------------------------------------------------------------


@dataclass
class Row:
    """The times of one size, and the goal: the most of the time of ``peer``."""

    name: str
    times: dict[str, Timing]
    goal: float
    gflop: float = 0.0
    peer: str = PEER

    @property
    def ratio(self) -> float:
        """The time of relayvm in times of the peer: the median over the rounds."""
        return self.times[OURS].ratio(self.times[self.peer])


class Pair:
    """Both runtimes over one model, and ``others``: functions of the input by name."""

    def __init__(self, model: bytes, others: dict[str, Callable[[np.ndarray], np.ndarray]] | None = None) -> None:
        self.others = others or {}
        self.machine = machine(model)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = GIVEN.threads, 1
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self.input = self.session.get_inputs()[0].name

    def row(self, name: str, x: np.ndarray, goal: float, gflop: float = 0.0) -> Row:
        """The times for an input.  Exits if the results differ."""
        runs: dict[str, Callable[[], object]] = {
            OURS: lambda: results_of(self.machine, x),
            PEER: lambda: self.session.run(None, {self.input: x}),
        }
        runs |= {name: functools.partial(other, x) for name, other in self.others.items()}
        return Row(name, timed(name, runs, PEER), BUSY if GIVEN.busy else goal, gflop)


def machine(model: bytes, **configuration: object) -> relay.VirtualMachine:
    """A machine of the model, compiled by this configuration."""
    mod, params = relay.frontend.from_onnx(model)
    return relay.VirtualMachine(relay.compile(mod, params=params, target="cpu", **configuration))


def results_of(given: relay.VirtualMachine, x: np.ndarray) -> list[np.ndarray]:
    """The results of a machine."""
    found = given.run(x)
    return [each.numpy() for each in (found if isinstance(found, (tuple, list)) else (found,))]


def timed(name: str, runs: dict[str, Callable[[], object]], peer: str) -> dict[str, Timing]:
    """The times of the contestants.  Exits if the results of one differ from those of ``peer``."""
    want = _arrays(runs[peer]())
    for contestant, run in runs.items():
        found = _arrays(run())
        if len(found) != len(want) or not all(map(_agrees, found, want)):
            raise SystemExit(f"{name}: {contestant} and {peer} give different results")
    return measure(runs, GIVEN.rounds, 0.01, wait_for_idle_threads, time.process_time if GIVEN.cpu_time else time.perf_counter)


def _arrays(results: object) -> Sequence[np.ndarray]:
    return [results] if isinstance(results, np.ndarray) else [np.asarray(each) for each in results]  # type: ignore[attr-defined]


def _agrees(found: np.ndarray, want: np.ndarray) -> bool:
    close = found.shape == want.shape
    return close and bool(np.allclose(found, want, rtol=1e-3, atol=2e-4 * max(1.0, float(abs(want).max(initial=0)))))


def dense_rows() -> Iterator[Row]:
    """Products of all sizes."""
    random = np.random.default_rng(1)
    for k, n in WEIGHTS:
        pair = Pair(dense(k, n))
        for m in ROWS:
            x = random.standard_normal((m, k)).astype(np.float32)
            yield pair.row(f"dense {m} x {k} x {n}", x, DENSE_EACH, 2e-9 * m * k * n)


def encoder_rows() -> Iterator[Row]:
    """The encoder over sequences of all lengths."""
    model, random = encoder(), np.random.default_rng(1)
    pair = Pair(model, torch_runs(model, HEADS, GIVEN.threads))
    for words, goal in ENCODER.items():
        yield pair.row(f"encoder, {words} words", random.integers(0, VOCABULARY, (1, words)), goal, products_gflop(words))


def convolution_rows() -> Iterator[Row]:
    """The convolutions, each at its size."""
    random = np.random.default_rng(1)
    for each in CONVOLUTIONS:
        x = random.standard_normal((1, each.inputs, each.rows, each.rows)).astype(np.float32)
        yield Pair(convolution(each)).row(each.name, x, math.inf, each.gflop)


def tail_rows() -> Iterator[Row]:
    """The detection tail for pictures with different numbers of candidates."""
    pair = Pair(tail())
    for count, goal in TAIL.items():
        yield pair.row(f"detection tail, {count}", np.concatenate(candidates(count), axis=1), goal)


def network_rows() -> Iterator[Row]:
    """The networks, for batches of two sizes."""
    random = np.random.default_rng(1)
    for name, network in NETWORKS.items():
        model = network()
        pair = Pair(model, torch_runs(model, None, GIVEN.threads))
        for batch in (1, 4):
            yield pair.row(f"{name}, batch of {batch}", random.standard_normal((batch, 3, 224, 224)).astype(np.float32), NETWORK)


def is_wanted(network: str) -> bool:
    """Whether ``--network`` asks for this network, or for none."""
    return not GIVEN.network or any(name.lower() in network.lower() for name in GIVEN.network)


def zoo_rows() -> Iterator[Row]:
    """The networks for pictures, then those that torch exports."""
    random = np.random.default_rng(1)
    for name, subject in VISION.items():
        if is_wanted(name):
            pair = Pair(subject.build())
            for shape in subject.shapes:
                yield pair.row(name, random.standard_normal(shape).astype(np.float32), ZOO)
    for name, network in EXPORTED.items():
        model = model_of(network, GIVEN.models) if is_wanted(name) else None
        if model is not None:
            pair = Pair(model)
            for case, inputs in network.cases.items():
                yield pair.row(f"{name}, {case}", inputs(random), ZOO)


def level_rows() -> Iterator[Row]:
    """The networks for pictures, and the same at each lower level."""
    random = np.random.default_rng(1)
    for name, subject in VISION.items():
        if is_wanted(name):
            model, x = subject.build(), random.standard_normal(subject.small).astype(np.float32)
            machines = {OURS: machine(model)} | {level: machine(model, **keys) for level, keys in LEVELS.items()}
            times = timed(
                name, {level: functools.partial(results_of, each, x) for level, each in machines.items()}, "opt_level=0"
            )
            for level in LEVELS:
                yield Row(f"{name} / {level}", {OURS: times[OURS], level: times[level]}, LEVEL, peer=level)


GROUPS = {
    "dense": dense_rows, "encoder": encoder_rows, "conv": convolution_rows, "tail": tail_rows, "nets": network_rows,
    "zoo": zoo_rows, "levels": level_rows,
}  # fmt: skip


# ---- showing -------------------------------------------------------------------------------------------------------------------


def show(row: Row) -> None:
    """Print a row, and the share of the peak that the machine has at this time."""
    ours, theirs = (row.times[name] for name in (OURS, row.peer))
    spans = [f"{t.median_ns / 1e3:10.1f} [{t.min_ns / 1e3:.1f}..{t.max_ns / 1e3:.1f}]" for t in (ours, theirs)]
    gflops = row.gflop / ours.median_ns * 1e9
    goal = f" (goal {row.goal})" if math.isfinite(row.goal) else ""
    share = gflops / GIVEN.threads / peak_gflops() if row.gflop else 0.0
    speed = f"{gflops:8.1f} GFLOP/s, {share:4.0%} of the peak, at the peak {row.ratio * share:.2f}" if row.gflop else ""
    others = "".join(f"  {name} {t.median_ns / 1e3:.1f}" for name, t in row.times.items() if name not in (OURS, row.peer))
    print(f"{row.name:38}{spans[0]:34}{spans[1]:34}{row.ratio:6.2f}{goal:12}{speed}{others}", flush=True)


def plain(row: Row) -> dict[str, object]:
    """The row as data for JSON, which has no infinity: no goal is null."""
    goal = row.goal if math.isfinite(row.goal) else None
    times = {name: {k: v for k, v in asdict(t).items() if k != "rounds_ns"} for name, t in row.times.items()}
    return asdict(row) | {"times": times, "ratio": row.ratio, "goal": goal}


def record(rows: list[dict[str, object]], machine: dict[str, object]) -> None:
    """Write the figures and the state of the machine at the start of the run."""
    date = f"{datetime.now(UTC):%Y-%m-%d}"
    data = {
        "date": date,
        "machine": machine,
        "threads": GIVEN.threads,
        "busy": GIVEN.busy,
        "cpu_time": GIVEN.cpu_time,
        "rows": rows,
    }
    Path(GIVEN.record, f"{date}-models-cpu-{machine_name(machine)}.json").write_text(json.dumps(data, indent=1) + "\n")


def main() -> None:
    """Measure the groups."""
    machine = machine_state()
    if GIVEN.record:
        Path(GIVEN.record).mkdir(parents=True, exist_ok=True)
    rows: dict[str, list[Row]] = {}
    if not GIVEN.json:
        print(f"{GIVEN.threads} threads, at most {GIVEN.threads * peak_gflops():.0f} GFLOP/s, {GIVEN.busy} busy processes")
        print(f"relayvm {relay.__version__}, onnxruntime {onnxruntime.__version__}")
        print(f"{'':38}{OURS + ' us':34}{PEER + ' us':34}")
    with busy(GIVEN.busy):
        for group in GIVEN.only.split(","):
            rows[group] = []
            for row in GROUPS[group]():
                rows[group].append(row)
                if not GIVEN.json:
                    show(row)
    met = all(row.ratio <= row.goal for group in rows.values() for row in group)
    for group, goal in MEANS.items():
        if rows.get(group):
            mean = statistics.geometric_mean(row.ratio for row in rows[group])
            most = BUSY if GIVEN.busy else goal
            met = met and mean <= most
            print(f"{group}, geometric mean: {mean:.2f} (goal {most})", file=sys.stderr)
    found = [plain(row) for group in rows.values() for row in group]
    if GIVEN.json:
        print(json.dumps(found))
    if GIVEN.record:
        record(found, machine)
    raise SystemExit(GIVEN.check and not met)


if __name__ == "__main__":
    main()
