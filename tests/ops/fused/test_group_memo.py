"""The memory of what groups determine: equal groups share a result, groups that print alike do not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relayvm.ops.codegen import kernel_source
from relayvm.ops.codegen.cpu.loop_plan import plans
from relayvm.ops.core.group import Group, Literal, Node
from relayvm.ops.core.group_memo import per_group
from relayvm.ops.core.op import get
from relayvm.ops.core.tensor_types import Tensor
from relayvm.shape_funcs.symbolic.dim import Dim, sym

from .run_group import group_of


def added(literal: float, size: Dim | None = None) -> Group:
    """One operand plus a literal."""
    node = Node("add", get("add").attrs(), (0, 1), ())
    return group_of([Tensor("float32", (sym("n") if size is None else size,))], [node], [Literal("float32", literal)])


def test_equal_groups_are_analysed_once() -> None:
    asked = []
    remembered = per_group(lambda group: asked.append(group) or len(asked))
    assert [remembered(added(2.0)), remembered(added(2.0)), remembered(added(3.0))] == [1, 1, 2]
    assert kernel_source(added(2.0)) is kernel_source(added(2.0))
    assert plans(added(2.0)) is plans(replace(added(2.0), in_place=((0, 0),)))


def test_zeros_of_both_signs_differ() -> None:
    """Python's 0.0 and -0.0 are equal and have one hash."""
    assert added(0.0) == added(-0.0) and hash(added(0.0)) == hash(added(-0.0))
    assert "-0.0" in kernel_source(added(-0.0)).text and "-0.0" not in kernel_source(added(0.0)).text


def test_sizes_of_one_text_differ() -> None:
    named, computed = added(2.0, sym("(2*n)")), added(2.0, sym("n") * 2)
    assert named.key() == computed.key()
    assert [plans(g)[0].dims for g in (named, computed)] == [(sym("(2*n)"),), (sym("n") * 2,)]


def test_errors_are_not_remembered() -> None:
    asked = []

    def fail(group: Group) -> None:
        asked.append(group)
        raise ValueError("no")

    remembered = per_group(fail)
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            remembered(added(2.0))
    assert len(asked) == 2
