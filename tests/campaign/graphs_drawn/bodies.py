"""Nodes with graphs in them: If, Loop, Scan."""

from __future__ import annotations

import numpy as np
from onnx import GraphProto, helper, numpy_helper

from . import elementwise, networks, shapes
from .drawing import Drawing, Refused, info
from .elementwise import Maker

#: Graphs within graphs, at most.
DEPTH = 2


def grow(d: Drawing, count: int, depth: int = 0) -> None:
    """Add so many nodes, or a few less where none fits."""
    makers: dict[Maker, float] = {**elementwise.MAKERS, **shapes.MAKERS, **networks.MAKERS}
    table = [*makers]
    weights = [*makers.values()]
    if depth < DEPTH:
        table += [lambda d: choice(d, depth), lambda d: loop(d, depth), lambda d: scan(d, depth)]
        weights += [1.0, 0.8, 0.6]
    for _ in range(4 * count):
        if sum(node.op_type != "Constant" for node in d.nodes) >= count:
            return
        try:
            d.r.choices(table, weights)[0](d)
        except (Refused, LookupError):
            continue


def _body(inner: Drawing, name: str, scalars: list[str], inputs: list[str], outputs: list[str]) -> GraphProto:
    """The graph of a body: inputs and outputs are declared with their dtypes, and with their ranks by chance."""

    def declared(name: str) -> list[None] | None:
        return [None] * inner.values[name].rank if inner.r.random() < 0.3 else None

    given = [info(n, inner.values[n].dtype, [] if n in scalars else None) for n in (*scalars, *inputs)]
    made = [info(n, inner.values[n].dtype, declared(n)) for n in outputs]
    return helper.make_graph(inner.nodes, name, given, made, [numpy_helper.from_array(a, n) for n, a in inner.stored.items()])


def _result(inner: Drawing, dtype: str, rank: int | None) -> str:
    """A value of the body, computed in it, of that dtype and rank."""
    found = [n for n in inner.own if inner.values[n].dtype == dtype and rank in (None, inner.values[n].rank)]
    made = [n for n in found if any(n in node.output for node in inner.nodes)]
    if made:
        return inner.r.choice(made[-3:])
    name = inner.r.choice(found) if found else inner.pick((dtype,), rank)
    return inner.node("Identity", [name])[0]


def choice(d: Drawing, depth: int) -> None:
    """An If: both branches give values of the same dtypes, mostly of the same ranks."""
    form = d.r.random()
    if form < 0.5:
        x = d.pick(("float32", "int64", "int32", "float64"), exact=True)
        (total,) = d.node("ReduceSum", [x], keepdims=0)
        (condition,) = d.node("Greater", [total, d.constant(0, d.values[x].dtype)])
    else:
        condition = d.constant(d.r.random() < 0.5, "bool")
    branches, kinds = [], list[tuple[str, int | None]]()
    for k in range(2):
        inner = Drawing(d.r, d.opset, d)
        grow(inner, d.r.choice((1, 2, 4)), depth + 1)
        if k == 0:
            fit = [n for n in inner.own if any(n in node.output for node in inner.nodes)] or inner.node(
                "Identity", [inner.pick()]
            )
            outputs = d.r.sample(fit, min(len(fit), d.r.choice((1, 1, 2))))
            kinds = [(inner.values[n].dtype, inner.values[n].rank if d.r.random() < 0.9 else None) for n in outputs]
        else:
            outputs = []
            for dtype, rank in kinds:
                name = _result(inner, dtype, rank)
                outputs.append(name if name not in outputs else inner.node("Identity", [name])[0])
        branches.append(_body(inner, f"branch{k}", [], [], outputs))
    d.node("If", [condition], len(kinds), then_branch=branches[0], else_branch=branches[1])


def loop(d: Drawing, depth: int) -> None:
    """A Loop: a count, a condition or both; values carried from round to round, which may grow; rows of each round."""
    rounds, first = d.r.choice((0, 1, 2, 3)), d.r.choice(("", "", True, True, False))
    carried = [d.pick(("float32", "int64", "int32", "float64", "bool")) for _ in range(d.r.choice((1, 1, 2)))]
    inner = Drawing(d.r, d.opset, d)
    at = inner.given(np.array(0, "int64"), ())
    going = inner.given(np.array(True), ())
    states = [inner.given(d.values[n].array, ()) for n in carried]
    grow(inner, d.r.choice((1, 2, 3)), depth + 1)
    if d.r.random() < 0.4:
        (still,) = inner.node("Less", [at, inner.constant(d.r.choice((1, 2)))])
    else:
        (still,) = inner.node("Identity", [going])
    nexts = list[str]()
    for s in states:
        name = _result(inner, inner.values[s].dtype, inner.values[s].rank)
        nexts.append(name if name not in nexts else inner.node("Identity", [name])[0])
    # onnxruntime does not know the sizes of the rows of no round
    many = d.r.choice((0, 1, 1)) if rounds and first is not False else 0
    rows = [inner.node("Identity", [inner.pick()])[0] for _ in range(many)]
    graph = _body(inner, "body", [at, going], states, [still, *nexts, *rows])
    begins = "" if first == "" else d.constant(first, "bool")
    d.node("Loop", [d.constant(rounds), begins, *carried], len(carried) + len(rows), body=graph)


def scan(d: Drawing, depth: int) -> None:
    """A Scan over the first axis of a value, with a state."""
    x = d.pick(("float32", "int64", "float64"), least=1, full=True)
    state = d.pick(("float32", "int64", "float64"))
    inner = Drawing(d.r, d.opset, d)
    before = inner.given(d.values[state].array, ())
    row = inner.given(d.values[x].array[0], ())
    grow(inner, d.r.choice((1, 2, 3)), depth + 1)
    after = _result(inner, inner.values[before].dtype, inner.values[before].rank)
    rows = [inner.node("Identity", [inner.pick()])[0]]
    graph = _body(inner, "body", [], [before, row], [after, *rows])
    attrs = {"scan_input_directions": [1]} if d.r.random() < 0.3 else {}
    d.node("Scan", [state, x], 2, body=graph, num_scan_inputs=1, **attrs)
