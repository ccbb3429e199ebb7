"""The comparison of each value of a model on two runtimes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ....declarations.frozen_dataclass import frozen
from ...compile import compile
from ...inputs.given_inputs import Wanted, make_inputs
from ...load_program import function_of
from ...lowered import as_module
from ..result_check import NODES_TOL, Mismatch, Tolerance, mismatches
from .observed_model import NodeValue, ObservedModel, is_onnx, nodes_apart, observed_model, with_outputs
from .peers import Peer, Runner

SCHEMA = 1


@frozen
class NodeError:
    """A value on both runtimes.

    ``dtype``, ``shape``: of the first.  ``largest``: the largest difference of finite elements.  ``scale``: the largest finite
    magnitude of the second.  ``mismatch``: the elements beyond the tolerance, or None.
    """

    value: NodeValue
    dtype: str
    shape: tuple[int, ...]
    largest: float
    scale: float
    mismatch: Mismatch | None

    @property
    def relative(self) -> float:
        """The largest difference as a part of the largest magnitude."""
        return self.largest / self.scale if self.scale else self.largest

    def as_data(self) -> dict[str, Any]:
        """Plain data; figures are text, since JSON has no numbers that are not finite."""
        return {
            "value": self.value.name,
            "op": self.value.op,
            "node": self.value.node,
            "dtype": self.dtype,
            "shape": list(self.shape),
            "largest": str(self.largest),
            "scale": str(self.scale),
            "mismatch": None if self.mismatch is None else self.mismatch.as_data(),
        }


@frozen
class NodeComparison:
    """A model on two runtimes, ``names``.

    ``results``: the model's own outputs, as it is run.  ``nodes``: the values of all nodes, where ``apart`` each computed by the
    first runtime from the second's values of the node's inputs, so that a difference is the node's own.  ``missing``: values
    that were not compared.  ``times_ns``: of the runs of the model, of each runtime.
    """

    file: str
    names: tuple[str, str]
    results: tuple[NodeError, ...]
    nodes: tuple[NodeError, ...]
    apart: bool
    missing: tuple[str, ...]
    times_ns: tuple[tuple[int, ...], tuple[int, ...]]

    @property
    def first(self) -> NodeError | None:
        """The first value beyond the tolerance, in the order of the nodes."""
        return next((n for n in self.nodes if n.mismatch is not None), None)

    @property
    def agree(self) -> bool:
        """Whether all results and values are within the tolerance."""
        return all(e.mismatch is None for e in (*self.results, *self.nodes))

    @property
    def medians_ns(self) -> tuple[float, float]:
        """The median time of a run, of each runtime."""
        return statistics.median(self.times_ns[0]), statistics.median(self.times_ns[1])

    def as_data(self) -> dict[str, Any]:
        """Plain data, as in the JSON form."""
        first = self.first
        return {
            "schema": SCHEMA,
            "file": self.file,
            "runtimes": list(self.names),
            "agree": self.agree,
            "first": None if first is None else first.value.name,
            "results": [e.as_data() for e in self.results],
            "nodes": [e.as_data() for e in self.nodes],
            "apart": self.apart,
            "missing": list(self.missing),
            "times_ns": [list(times) for times in self.times_ns],
        }


def compare_nodes(
    file: Path, own: Peer, other: Peer, wanted: Wanted, tolerance: Tolerance, repeat: int,
    on_round: Callable[[int, int], object] | None = None,
) -> NodeComparison:  # fmt: skip
    """The comparison of a model's values and times on two runtimes, with inputs given or drawn.

    Raises RelayError for a file that is no model, inputs that do not fit, and a runtime that refuses the model.
    """
    model = observed_model(file)
    inputs = random_inputs(model, wanted)
    tolerance = replace(tolerance, least=max(tolerance.least, NODES_TOL))
    results = [peer.prepare(model.plain) for peer in (own, other)]
    outputs = [run(inputs) for run in results]
    times = _times(results, inputs, repeat, on_round)
    wanted_values = _observed(model, other, inputs)
    values = _observed(model, own, inputs) if other.is_own else _apart(model, own, {**inputs, **wanted_values})
    named = {v.name: v for v in model.values}
    plain = [named.get(name, NodeValue(name, "output", "", ())) for name in model.outputs]
    plain = [v for v in plain if v.name in outputs[1]]  # torch does not give the new values of buffers
    missing = tuple(v.name for v in model.values if v.op != "Constant" and not (v.name in values and v.name in wanted_values))
    return NodeComparison(
        str(file),
        (own.name, other.name),
        tuple(node_error(v, outputs[0], outputs[1], tolerance) for v in plain),
        tuple(
            node_error(v, values, wanted_values, tolerance) for v in model.values if v.name in values and v.name in wanted_values
        ),
        not other.is_own,
        missing,
        times,
    )


def random_inputs(model: ObservedModel, wanted: Wanted) -> dict[str, np.ndarray]:
    """The inputs of a model by name; those that are not given are random."""
    exe = compile(as_module(model.plain), opt_level=0)
    names = [name for name, _ in exe.inputs]
    if is_onnx(model.plain):
        stored = {tensor.name for tensor in model.plain.graph.initializer}
        names = [i.name for i in model.plain.graph.input if i.name not in stored]
    function = function_of(exe, "main")
    return dict(zip(names, map(np.asarray, make_inputs(function, wanted)), strict=False))


def _apart(model: ObservedModel, own: Peer, given: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The values of nodes, each computed from the given values of the node's inputs."""
    arrays = {name: np.asarray(value) for name, value in given.items() if isinstance(value, (np.ndarray, np.generic))}
    values: dict[str, np.ndarray] = {}
    for part in model.parts():
        apart, inputs, outputs = nodes_apart(model, part, arrays)
        if outputs:
            found = own.prepare(apart)(inputs)
            values.update((name, found[output]) for name, output in outputs.items())
    return values


def _observed(model: ObservedModel, peer: Peer, inputs: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The values of nodes, each computed from the others."""
    values: dict[str, Any] = {}
    for part in model.parts():
        values |= peer.prepare(with_outputs(model, part))(inputs)
    return values


def _times(
    runs: list[Runner], inputs: Mapping[str, np.ndarray], repeat: int, on_round: Callable[[int, int], object] | None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The times of runs in turn, in ns."""
    times: tuple[list[int], list[int]] = ([], [])
    for done in range(repeat):
        for run, own in zip(runs, times, strict=True):
            begin = time.perf_counter_ns()
            run(inputs)
            own.append(time.perf_counter_ns() - begin)
        if on_round is not None:
            on_round(done + 1, repeat)
    return tuple(times[0]), tuple(times[1])


def node_error(value: NodeValue, first: Mapping[str, Any], second: Mapping[str, Any], tolerance: Tolerance) -> NodeError:
    """A value on both runtimes; the values by name."""
    a, b = np.asarray(first[value.name]), np.asarray(second[value.name])
    mismatch = next(mismatches(a, b, tolerance), None)
    largest, scale = _statistics(a, b)
    return NodeError(value, a.dtype.name, a.shape, largest, scale, mismatch)


def _statistics(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """The largest difference of elements that are finite in both, and the largest finite magnitude of the second."""
    if a.shape != b.shape or not a.size or a.dtype.kind not in "biufV" or b.dtype.kind not in "biufV":
        return 0.0, 0.0
    a, b = a.astype(np.float64), b.astype(np.float64)
    finite = np.isfinite(a) & np.isfinite(b)
    if not finite.any():
        return 0.0, 0.0
    return float(np.abs(a[finite] - b[finite]).max()), float(np.abs(b[finite]).max())
