"""Evaluations of the elements of inner values: as predicted by the analysis, counted in kernels that run as plain Python."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from relayvm.ops.analysis.evaluations import MANY, evaluations
from relayvm.ops.codegen import fits
from relayvm.ops.codegen.cpu import epilogue
from relayvm.ops.core.group import Group, Node
from relayvm.ops.core.implementation import HOST
from relayvm.ops.core.op import Op, OpPattern, TypeRelError, get
from relayvm.ops.core.tensor_types import Tensor
from relayvm.ops.core.type_relation import build_group
from relayvm.ops.native.generated_source import define
from relayvm.shape_funcs.symbolic.dim import dim, sym

from ..every_op.recipe import Call, attrs_of, dtypes_of, operators
from ..test_every_op import calls_of
from .run_group import TWINS, evaluate

COUNTED = ("sigmoid_float32", "silu_float32")
#: A prediction for unknown sizes is that of large ones: ``n + 2`` counts as ``n``.
SMALL = 2


class Counter:
    """Runs kernels as plain Python, and counts the sigmoids, those of silu too."""

    def __init__(self) -> None:
        self.calls = 0

    def counted(self, name: str, x: Any) -> Any:
        """The function's value."""
        self.calls += 1
        return np.float32(TWINS[name](x))

    def run(self, text: str) -> Any:
        """The function of a kernel's text."""
        namespace = {**TWINS, **{name: functools.partial(self.counted, name) for name in COUNTED}}
        define("kernel", text, namespace)
        return namespace["kernel"]


def count(group: Group, arrays: Sequence[np.ndarray]) -> int:
    """The evaluations of a sigmoid in a kernel."""
    counter = Counter()
    evaluate(group, arrays, counter.run)
    return counter.calls


def before(op: Op, made: Call, position: int, static: bool) -> Group | None:
    """The call in one kernel with the sigmoid of an operand; None if they do not fuse."""
    params = []
    for k, x in enumerate(made.flat):
        unknown = [dim(s) if static or (k, a) in made.fixed else sym(f"d{10 * k + a}") for a, s in enumerate(x.shape)]
        params.append(Tensor(x.dtype.name, tuple(unknown)))
    count, refs, args = len(params), iter(range(len(params))), []
    for given in made.inputs:
        own = [count if r == position else r for r in (next(refs) for _ in (given if isinstance(given, tuple) else (given,)))]
        args.append(tuple(own) if isinstance(given, tuple) else own[0])
    nodes = [Node("sigmoid", get("sigmoid").attrs(), (position,), ()), Node(op.name, attrs_of(op, made), tuple(args), ())]
    try:
        group = build_group(params, (), nodes, ())
    except TypeRelError:
        return None
    group = Group(group.params, (), group.nodes, (count + 1,))
    return group if len(group.nodes[1].outputs) == 1 and fits(group) else None


#: Each column of a result chooses among the values of a box by a branch, which computes them anew: the prediction has one time.
UNPREDICTED = ("vision.rpn_boxes",)


def fusable() -> list[Op]:
    """The operators whose kernels are generated, except the counted operator and those whose evaluations are not predicted."""
    return [op for op in operators() if op.pattern <= OpPattern.COMM_REDUCE and op.name not in ("sigmoid", *UNPREDICTED)]


@pytest.mark.thinned(3)
@pytest.mark.split(8)
@pytest.mark.many
@pytest.mark.spread("static")
@pytest.mark.parametrize("static", [False, True], ids=["open", "static"])
@pytest.mark.parametrize("op", fusable(), ids=lambda op: op.name)
def test_no_element_is_evaluated_more_often_than_predicted(op: Op, static: bool) -> None:
    if "float32" not in dtypes_of(op.name):
        return
    for made in calls_of(op, "float32").values():
        for position, x in enumerate(made.flat):
            # a scalar in a branch is computed before the loops by LLVM, which no plain run shows
            group = before(op, made, position, static) if x.dtype == np.float32 and x.ndim else None
            if group is None or isinstance(made.wanted, str):
                continue
            found = {e.value: e.times for e in evaluations(group)}.get(len(made.flat), 1.0)
            # sizes that turn out to be 1 are an operand's own matter, and MANY stands for any number
            if found < MANY and (static or all(s != 1 for y in made.flat for s in y.shape)):
                again = made.wanted[0].size if op.reduction is not None else 0  # a fold may begin with its first element
                # the place of the largest element is searched in the block of elements that has it
                again += x.size if op.name in ("argmax", "argmin") else 0
                # of a size that is unknown the largest term counts: at small sizes what a pad adds outweighs the data
                elements = x.size if static else SMALL * max(x.size, made.wanted[0].size)
                most = found * elements + again + 1e-6
                assert count(group, made.flat) <= most, (found, [y.shape for y in made.flat], made.attrs)


def test_values_of_the_shape_of_a_kernels_result_are_not_better_stored() -> None:
    """They are evaluated once: the analysis leaves them out."""
    rows, columns = sym("n"), dim(64)
    params = [Tensor("float32", shape) for shape in ((rows, dim(8)), (columns, dim(8)), (columns,), (rows, columns))]
    nodes = [Node("nn.dense", get("nn.dense").attrs(), (0, 1), ())]
    nodes += [Node(op, get(op).attrs(), args, ()) for op, args in (("add", (4, 2)), ("exp", (5,)), ("multiply", (6, 3)))]
    group = build_group(params, (), nodes, (7,))
    assert group.has_epilogue and evaluations(group) == ()
    found = evaluations(epilogue.elementwise(group))
    assert found and not any(each.is_better_stored(HOST, follows=False) for each in found)
