"""A whole random model with its inputs at several sizes."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
from onnx import helper, numpy_helper

from .bodies import grow
from .drawing import FLOATS, SIZES, Drawing, info, model_of

OPSETS = (13, 17, 18, 18, 20, 20, 21)
_INPUTS = (*FLOATS, "float32", "float32", "int64", "int64", "int32", "bool")
#: Open sizes and known ones, of the axes of inputs.
_AXES = ("n", "n", "m", "m", "k", 1, 2, 3)


@dataclass(frozen=True)
class Graph:
    """A model's file, and inputs by name, once for each choice of sizes."""

    model: bytes
    inputs: tuple[dict[str, np.ndarray], ...]


def drawn(r: random.Random) -> Graph:
    """A model of 5 to 25 nodes, mostly few, and its inputs at three choices of its open sizes."""
    while True:
        d = Drawing(r, r.choice(OPSETS))
        for _ in range(r.choice((1, 2, 2, 3))):
            d.input(r.choice(_INPUTS), [r.choice(_AXES) for _ in range(r.choice((0, 1, 2, 2, 3)))])
        grow(d, r.choice((5, 5, 6, 7, 8, 10, 14, 20, 25)))
        made = [n for node in d.nodes for n in node.output if n[0] == "v"]
        if sum(node.op_type != "Constant" for node in d.nodes) >= 5 and made:
            return _finished(d, made)


def _finished(d: Drawing, made: list[str]) -> Graph:
    r = d.r
    read = {n for node in d.nodes for n in node.input}
    ends = [n for n in made if n not in read]
    outputs = (
        list(dict.fromkeys([*(ends if r.random() < 0.8 else ends[-1:]), *r.sample(made, min(len(made), r.choice((0, 1, 2))))]))
        or made[-1:]
    )
    anonymous = r.random() < 0.2

    def declared(shape: tuple[str | int | None, ...]) -> list[str | int | None]:
        return [None if anonymous and isinstance(n, str) else n for n in shape]

    given = [info(n, d.values[n].dtype, declared(shape)) for n, shape in d.inputs.items()]
    results = [info(n, d.values[n].dtype, [None] * d.values[n].rank if r.random() < 0.5 else None) for n in outputs]
    stored = [numpy_helper.from_array(a, n) for n, a in d.stored.items()]
    graph = helper.make_graph(d.nodes, "drawn", given, results, stored)
    sets = [{n: d.values[n].array for n in d.inputs}]
    for _ in range(2):
        sizes = {n: r.choice((*SIZES, 7)) for n in d.sizes}
        sets.append({n: _resized(d, n, sizes) for n in d.inputs})
    return Graph(model_of(graph, d.opset).SerializeToString(), tuple(sets))


def _resized(d: Drawing, name: str, sizes: dict[str, int]) -> np.ndarray:
    """An input at other sizes."""
    array = d.values[name].array
    if name in d.fixed:
        return array
    shape = tuple(sizes[n] if isinstance(n, str) else n for n in d.inputs[name])
    return np.resize(array, shape) if array.size else d.numbers(array.dtype.name, shape)
