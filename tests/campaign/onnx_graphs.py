"""ONNX graphs: random ones of 5 to 25 nodes, at several sizes, against onnxruntime and ONNX's reference.

At each choice of sizes the two peers are asked.  Where they agree, or one of them refuses, their result is ours; a diagnostic in
its place is a finding of the kind ``refused``, unless ``PERMITTED`` has a reason.  Where both refuse, or differ, ours is some
result or a diagnostic.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx

import relayvm as relay

from .graphs_drawn.graph import Graph, drawn
from .graphs_drawn.peers import Peers, Refusal, difference
from .graphs_drawn.shrinking import smaller_graphs
from .part import Part, Refused
from .random_programs import kernels_once

os.environ.setdefault("RELAYVM_POISON", "1")

#: Texts of diagnostics, by regular expressions, and the reasons for which they stand where another evaluator runs.
PERMITTED = {
    "for the rank of the result depends on": "ranks are known at import",
    "their ranks differ": "ranks are known at import, so the branches of an If have one",
    r"fits \d+ only .*, but it is declared with the shape": "a declared rank is that of both branches",
    "too short to be mirrored": "ONNX does not say what is mirrored beyond the end of an axis",
    r"index is out of range\n.*\n.*\n.*Compress": "a condition longer than the axis selects elements that there are not",
    r"index is out of range\n.*\n.*\n.*GatherElements": "the reference does not compare indices with sizes",
    r"concatenate: axis \d+ is \d+ in tensor": "the standard wants equal sizes, of tensors without elements, too",
    r"a value that the operator does not take\n.*\n.*\n.*ReverseSequence": "the standard wants no length beyond the axis",
    r"seq_lengths has \d+ elements": "the standard wants a length for each row of the batch",
    r"axis \d+ of the updates must be \d+, not \d+\n.*\n.*\n.*ScatterND": "the reference broadcasts the updates",
    r"less than the \d+ of shape_like\n.*\n.*\n.*GatherElements": "the standard wants no index beyond the data",
    r"integer division by zero\n.*\n.*\n.*ReduceMean": "no integers have no mean",
    r"k is \d+, but axis \d+ has only 0 elements\n.*\n.*\n.*TopK": "the reference takes more elements than there are",
}


@dataclass(frozen=True)
class Case:
    """A graph with its inputs, and the way in which it runs."""

    graph: Graph
    device: str
    config: tuple[tuple[str, Any], ...]


class OnnxGraphs(Part[Case]):
    """Random ONNX graphs."""

    name, unit, slice_trials, hang_seconds = "onnx_graphs", "graphs", 25, 60.0
    slice_environment = {kernels_once.INTERPRETS: "1"}  # noqa: RUF012

    def draw(self, seed: int) -> Case:
        """A graph that grows from the seed."""
        r = random.Random(seed)
        graph = drawn(r)
        level = r.choice((0, 1, 2, 2, 3))
        config = {"opt_level": level, "fuse": level >= 2 and r.random() < 0.3}
        return Case(graph, r.choice(("cpu", "cpu", "sim")), tuple(config.items()))

    def check(self, case: Case) -> str | None:
        """The peers' results at each choice of sizes."""
        peers = Peers(case.graph.model)
        self._count(peers.model.graph)
        wanted = [self._wanted(peers, inputs) for inputs in case.graph.inputs]
        try:
            exe = self._compiled(case)
        except relay.RelayError as error:
            self._refused(error, "import", any(runs for _, runs in wanted))
            return None
        vm = self._machine(exe)
        for k, (inputs, (results, runs)) in enumerate(zip(case.graph.inputs, wanted, strict=True)):
            kernels_once.raised.clear()
            try:
                found = _arrays(vm.run(**inputs))
            except relay.RelayError as error:
                if kernels_once.raised:
                    raise kernels_once.raised.pop() from None
                self._refused(error, f"run {k}", runs)
                vm = self._machine(exe)  # queued work that fails, too, would be found by the next run
                continue
            if results is not None and (what := difference(results, found)) is not None:
                return f"run {k} on {case.device} with {dict(case.config)}: {what}"
        return None

    def _compiled(self, case: Case) -> relay.Executable:
        module, params = relay.frontend.from_onnx(case.graph.model)
        return relay.compile(module, target=case.device, params=params, **dict(case.config))

    def _machine(self, exe: relay.Executable) -> relay.VirtualMachine:
        with kernels_once.looked_up_once():
            return relay.VirtualMachine(exe)

    def _wanted(self, peers: Peers, inputs: dict[str, np.ndarray]) -> tuple[list[np.ndarray] | None, bool]:
        """The results that both peers give, or the only one that runs; whether nothing is to be refused."""
        one, other = peers.onnxruntime(inputs), peers.reference(inputs)
        if isinstance(one, Refusal):
            self.seen["runs: the reference only" if not isinstance(other, Refusal) else "runs: neither peer"] += 1
            return (None, False) if isinstance(other, Refusal) else (other, one.is_missing)
        if isinstance(other, Refusal):
            self.seen["runs: onnxruntime only"] += 1
            return (one, True) if peers.counts_alone else (None, False)
        if difference(one, other) is not None:
            self.seen["runs: the peers differ"] += 1
            return None, False
        self.seen["runs: both peers"] += 1
        return one, True

    def _refused(self, error: relay.RelayError, stage: str, runs: bool) -> None:
        """Raise Refused where a peer runs and no reason is known."""
        self.seen[f"refused: {error.code.replace('/', ' ')}"] += 1
        text = str(error)
        if runs and not any(re.search(known, text) for known in PERMITTED):
            raise Refused(f"{stage}: {text}")

    def _count(self, graph: onnx.GraphProto) -> None:
        for node in graph.node:
            self.seen[f"operators/{node.op_type}"] += 1
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    self._count(attribute.g)

    def smaller(self, case: Case) -> Iterator[Case]:
        """One choice of sizes, the plainest way, fewer nodes."""
        for k in range(len(case.graph.inputs) if len(case.graph.inputs) > 1 else 0):
            yield replace(case, graph=Graph(case.graph.model, case.graph.inputs[k : k + 1]))
        if case.device != "cpu":
            yield replace(case, device="cpu")
        if case.config:
            yield replace(case, config=())
        for graph in smaller_graphs(case.graph):
            yield replace(case, graph=graph)

    def write(self, case: Case) -> str:
        """The graph in its text form and as bytes, checked again."""
        text = onnx.printer.to_text(onnx.load_from_string(case.graph.model))
        rows = "\n".join(f"    {case.graph.model[i : i + 32]!r}" for i in range(0, len(case.graph.model), 32))
        lines = ["import numpy as np", "", "from tests.campaign.graphs_drawn.graph import Graph"]
        lines += ["from tests.campaign.onnx_graphs import PART, Case", "", *(f"# {line}" for line in text.splitlines())]
        lines += ["model = (", *rows.splitlines(), ")", "inputs = ("]
        for inputs in case.graph.inputs:
            listed = ", ".join(
                f"{n!r}: np.array({a.reshape(-1).tolist()}, {a.dtype.name!r}).reshape({a.shape})" for n, a in inputs.items()
            )
            lines += [f"    {{{listed}}},"]
        lines += [")", f"case = Case(Graph(model, inputs), {case.device!r}, {case.config!r})", "assert PART.check(case) is None"]
        return "\n".join(lines)


def _arrays(results: Any) -> list[np.ndarray]:
    return [np.array(x.numpy()) for x in (results if isinstance(results, tuple) else (results,))]


PART = OnnxGraphs()
