"""Sizes of the first value that has them."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.ir.anf import values
from relayvm.compiler.ir.expr import Call, Expr
from relayvm.compiler.passes.infer_type import infer_type
from relayvm.compiler.passes.sizes.early_sizes import early_sizes
from relayvm.compiler.passes.to_a_normal_form import to_a_normal_form

from ....devices import DEVICES
from ....programs import HEADER


def measured(text: str) -> list[tuple[Expr, int]]:
    """The values whose shapes are read after the pass, dead code apart, and the numbers of the elements read."""
    found = relay.transform.DeadCodeElimination()(early_sizes(infer_type(to_a_normal_form(relay.parse(text)))))
    calls = [value for value in values(found["main"].body) if isinstance(value, Call)]
    shapes = [call for call in calls if call.op.name == "shape_of"]
    taken = [int(call.args[1].data) for call in calls if call.op.name == "take"]
    names = [shape.args[0].name for shape in shapes]
    assert len(shapes) == len(taken)
    return list(zip(names, taken, strict=True))


@pytest.mark.parametrize(
    ("body", "read"),
    [
        ('let %y = argmax(%x, axis=[0]); take(shape_of(%y, dtype="int64"), 0i64)', [("x", 1)]),
        ('let %y = transpose(%x, axes=[1, 0]); take(shape_of(%y, dtype="int64"), 0i64)', [("x", 1)]),
        ('let %y = argwhere(%c); let %z = negative(%y); take(shape_of(%z, dtype="int64"), 0i64)', [("y", 0)]),
        ('let %y = concatenate((%x, %x), axis=0); take(shape_of(%y, dtype="int64"), 0i64)', [("y", 0)]),
        ('take(shape_of(%x, dtype="int64"), 1i64)', [("x", 1)]),
    ],
)
def test_the_first_value_with_a_size_is_read(body: str, read: list[tuple[str, int]]) -> None:
    assert measured(f"{HEADER}def @main(%x: Tensor[(?n, ?m), float32], %c: Tensor[(?k,), bool]) {{ {body} }}") == read


def test_a_value_of_one_branch_is_not_read_in_another() -> None:
    branch = 'let %y = argwhere(%c); let %z = negative(%y); let %n = take(shape_of(%z, dtype="int64"), 0i64); %n'
    text = f"{HEADER}def @main(%c: Tensor[(?k,), bool], %b: bool) {{ if (%b) {{ {branch} }} else {{ {branch} }} }}"
    assert [at for _, at in measured(text)] == [0, 0]
    vm = relay.VirtualMachine(relay.compile(text))
    assert [int(vm.run(np.array([True, False, True]), flag).numpy()) for flag in (True, False)] == [2, 2]


@pytest.mark.parametrize("target", DEVICES)
def test_sizes_are_those_of_the_value(target: str) -> None:
    values = "let %y = argmax(%x, axis=[0]); let %t = transpose(%x, axes=[1, 0]);"
    text = (
        f"{HEADER}def @main(%x: Tensor[(?n, ?m), float32]) {{ {values} "
        '(take(shape_of(%y, dtype="int64"), 0i64), take(shape_of(%t, dtype="int64"), 0i64), '
        'take(shape_of(%t, dtype="int64"), 1i64)) }'
    )
    vm = relay.VirtualMachine(relay.compile(text, target))
    for n, m in ((1, 4), (3, 0), (2, 7)):
        assert [int(size.numpy()) for size in vm.run(np.zeros((n, m), "float32"))] == [m, m, n]
