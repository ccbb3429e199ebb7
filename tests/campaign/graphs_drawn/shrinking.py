"""Smaller graphs: fewer results, and values in the place of the nodes that compute them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx

from .drawing import info, names_read, quietly
from .graph import Graph


def smaller_graphs(graph: Graph) -> Iterator[Graph]:
    """Graphs of one result, then graphs in which an input takes the place of some results of nodes."""
    model = onnx.load_from_string(graph.model)
    values = _values(model, graph)
    if len(model.graph.output) > 1:
        for output in model.graph.output:
            yield _cut(model, graph, values, [output.name], set())
    for node in reversed(model.graph.node):
        if node.output[0] not in {o.name for o in model.graph.output}:
            yield _cut(model, graph, values, [node.output[0]], set())
    outputs = [o.name for o in model.graph.output]
    for node in reversed(model.graph.node):
        given = {n for n in node.output if all(n in v for v in values)}
        if given and not given & set(outputs):
            yield _cut(model, graph, values, outputs, given)


def _values(model: onnx.ModelProto, graph: Graph) -> list[dict[str, np.ndarray]]:
    """The values of each run, as far as the reference computes them."""
    every = onnx.ModelProto()
    every.CopyFrom(model)
    names = [n for node in model.graph.node for n in node.output if n]
    found = []
    for inputs in graph.inputs:
        known = dict(inputs)
        count = len(names)
        while count:
            del every.graph.output[:]
            every.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names[:count])
            try:
                results = quietly(every, inputs)
            except Exception:  # of a node that the reference refuses: ask for fewer
                count -= 1
                continue
            known |= {n: x for n, x in zip(names, results, strict=False) if isinstance(x, np.ndarray)}
            break
        found.append(known)
    return found


def _cut(model: onnx.ModelProto, graph: Graph, values: list[dict[str, np.ndarray]], outputs: list[str], given: set[str]) -> Graph:
    """The nodes that ``outputs`` need where the values ``given`` are inputs."""
    less = onnx.ModelProto()
    less.CopyFrom(model)
    wanted, kept = set(outputs), list[onnx.NodeProto]()
    for node in reversed(model.graph.node):
        if wanted & set(node.output) and not set(node.output) & given:
            kept.insert(0, node)
            wanted |= names_read(node)
    del less.graph.node[:], less.graph.output[:], less.graph.input[:], less.graph.initializer[:]
    less.graph.node.extend(kept)
    declared = {o.name: o for o in model.graph.output}
    for name in outputs:
        known = next((v[name] for v in values if name in v), None)
        new = info(name, known.dtype.name, None) if known is not None else onnx.ValueInfoProto(name=name)
        less.graph.output.append(declared.get(name, new))
    less.graph.input.extend(v for v in model.graph.input if v.name in wanted)
    for name in sorted(given & wanted):
        array = values[0][name]
        less.graph.input.append(info(name, array.dtype.name, [None] * array.ndim))
    less.graph.initializer.extend(t for t in model.graph.initializer if t.name in wanted)
    names = {v.name for v in less.graph.input}
    return Graph(less.SerializeToString(), tuple({n: v[n] for n in names} for v in values))
