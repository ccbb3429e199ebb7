"""Rows of mixed shapes on a local cluster of Ray with 3 nodes, of which one is killed in the middle.

    pip install 'relayvm[ray]'
    python benchmarks/ray_rows.py [--rows 100000] [--json]

The program is the detection tail with 0 to 40 candidates a row.  The rows are predicted by 1 actor and by 2, for rows per second,
then by 6 actors on 3 nodes, of which one is killed after a third of the rows.  Every row must occur once, with the results of a
serial run bit for bit.  Each node has an empty cache of kernels at its start: the kernels that the processes of a node compile
are counted, and must be the program's.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import relayvm as relay

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "detection_tail.relay"
CLASSES, MOST_CANDIDATES = 80, 40
RESULTS = {"result.0": "found_boxes", "result.1": "found_scores", "result.2": "found_classes"}
#: Rows of a call of the predictor.
BATCH = 200
NODES, ACTORS = 3, 6
#: CPUs that Ray believes a node to have: two nodes must hold all actors and the tasks that make the rows.
CPUS = 4

Table = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Outcome:
    """One pass over the rows.  ``compiles``: kernels compiled by the actors of each node that returned rows."""

    actors: int
    killed_nodes: int
    rows: int
    missing: int
    repeated: int
    wrong: int
    seconds: float
    compiles: dict[str, int]


def inputs(number: int) -> tuple[np.ndarray, np.ndarray]:
    """The inputs of a row, which depend on its number alone."""
    random = np.random.default_rng(number)
    n = int(random.integers(0, MOST_CANDIDATES + 1))
    corners = random.random((n, 2), np.float32) * 100
    boxes = np.concatenate([corners, corners + 5 + 50 * random.random((n, 2), np.float32)], axis=1)
    return boxes, random.standard_normal((n, CLASSES), np.float32) * 2 - 4


def table(numbers: Table) -> dict[str, np.ndarray]:
    """The rows of these numbers, as columns of arrays."""
    columns = {"id": numbers["id"]} | {name: np.empty(len(numbers["id"]), object) for name in ("boxes", "logits")}
    for i, number in enumerate(numbers["id"]):
        columns["boxes"][i], columns["logits"][i] = inputs(int(number))
    return columns


def serial(rows: int) -> tuple[list[list[np.ndarray]], int, float]:
    """The results of every row, the number of compiled kernels, and the seconds of the runs without their preparation.

    The executable is loaded, as in the actors: its launches are checked, by a kernel more.
    """
    with tempfile.TemporaryDirectory() as folder:
        relay.compile(EXAMPLE).save(Path(folder) / "model.rvm")
        machine = relay.VirtualMachine(relay.Executable.load(Path(folder) / "model.rvm"))
    seconds, found = 0.0, []
    for number in range(rows):
        given = inputs(number)
        began = time.perf_counter()
        results = machine.run(*given)
        seconds += time.perf_counter() - began
        found.append([np.array(result.numpy()) for result in results])
    return found, machine.kernel_compiles, seconds


def counted_predictor() -> type:
    """The predictor, with columns for its node, its process and the kernels that the process has compiled."""
    predictor: Any = relay.ray.predictor(EXAMPLE, results=RESULTS, keep=["id"])

    class Counted(predictor):  # type: ignore[misc]
        def __call__(self, batch: Table) -> dict[str, np.ndarray]:
            import ray

            found = super().__call__(batch)
            node = ray.get_runtime_context().get_node_id()[:8]
            count = len(found["id"])
            found["process"] = np.array([f"{node} {os.getpid()}"] * count)
            found["compiles"] = np.full(count, self.machine.kernel_compiles)
            return found

    return Counted


def predicted(rows: int, actors: int, expected: list[list[np.ndarray]], kill: Any = None) -> Outcome:
    """A pass over the rows by so many actors; ``kill`` is called after a third of them."""
    import ray

    began = time.perf_counter()
    source = ray.data.range(rows, override_num_blocks=max(1, rows // 500)).map_batches(table, batch_size=None, num_cpus=0.5)
    pool = ray.data.ActorPoolStrategy(size=actors)
    found = source.map_batches(counted_predictor(), compute=pool, batch_size=BATCH, num_cpus=1)
    seen, wrong, compiles, killed = np.zeros(rows, np.int64), 0, dict[str, int](), 0
    for part in found.iter_batches(batch_size=None):
        for i, number in enumerate(part["id"]):
            seen[number] += 1
            given = [part[column][i] for column in RESULTS.values()]
            wrong += not all(same(a, b) for a, b in zip(given, expected[number], strict=True))
            process = str(part["process"][i])
            compiles[process] = max(compiles.get(process, 0), int(part["compiles"][i]))
        if kill is not None and not killed and seen.sum() > rows // 3:
            kill()
            killed = 1
    of_nodes: dict[str, int] = {}
    for process, count in compiles.items():
        node = process.split()[0]
        of_nodes[node] = of_nodes.get(node, 0) + count
    seconds = time.perf_counter() - began
    return Outcome(actors, killed, rows, int((seen == 0).sum()), int((seen > 1).sum()), wrong, seconds, of_nodes)


def same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and bool((a == b).all())


def cluster(folder: Path, nodes: int, cpus: int) -> tuple[Any, list[Any]]:
    """A cluster with a cache folder for each node; the driver is connected to the first."""
    import ray
    from ray.cluster_utils import Cluster

    made = Cluster()
    found = []
    for i in range(nodes):
        found.append(
            made.add_node(
                num_cpus=cpus,
                object_store_memory=400 << 20,
                include_dashboard=False,
                env_vars={"RELAYVM_CACHE_DIR": str(folder / f"cache{i}"), "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
            )
        )
    ray.init(address=made.address, log_to_driver=False, logging_level="ERROR")
    ray.data.DataContext.get_current().enable_progress_bars = False
    return made, found


def passed(rows: int, expected: list[list[np.ndarray]], nodes: int, cpus: int, actors: int, kills: bool) -> Outcome:
    """A pass over the rows on a fresh cluster with empty caches."""
    import ray

    with tempfile.TemporaryDirectory() as folder:
        made, found = cluster(Path(folder), nodes, cpus)
        try:
            return predicted(
                rows, actors, expected, (lambda: made.remove_node(found[-1], allow_graceful=False)) if kills else None
            )
        finally:
            ray.shutdown()
            made.shutdown()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["RELAYVM_CACHE_DIR"] = folder
        relay.set_num_threads(1)  # no companions compile: the count is the process's own
        expected, kernels, seconds = serial(arguments.rows)
        outcomes = [passed(arguments.rows, expected, 1, CPUS, actors, False) for actors in (1, 2)]
        outcomes.append(passed(arguments.rows, expected, NODES, CPUS, ACTORS, True))
    good = all(o.missing == o.repeated == o.wrong == 0 and {*o.compiles.values()} == {kernels} for o in outcomes)
    if arguments.json:
        print(json.dumps({"kernels": kernels, "serial_s": seconds, "outcomes": [asdict(o) for o in outcomes], "good": good}))
        return not good
    print(f"serial: {arguments.rows / seconds:,.0f} rows/s of runs alone, {kernels} kernels compiled")
    for o in outcomes:
        print(
            f"{o.actors} actors, {o.killed_nodes} nodes killed: {o.rows / o.seconds:,.0f} rows/s in {o.seconds:.1f} s; "
            f"{o.missing} rows missing, {o.repeated} repeated, {o.wrong} wrong; kernels compiled by node: {o.compiles}"
        )
    print("met" if good else "MISSED", "goal: each row once and equal to the serial run, each kernel compiled once on a node")
    return not good


if __name__ == "__main__":
    raise SystemExit(main())
