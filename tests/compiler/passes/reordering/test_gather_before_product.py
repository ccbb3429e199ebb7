"""Gathers of one row in front of products: the same rows within rounding, layers of one row; programs that stay as they are."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.ir.anf import values
from relayvm.compiler.ir.expr import Call, tensor_type
from relayvm.compiler.passes.infer_type import infer_type
from relayvm.compiler.passes.reordering.gather_before_product import gather_before_product
from relayvm.compiler.passes.to_a_normal_form import to_a_normal_form
from relayvm.shape_funcs.symbolic.dim import const

from ....programs import HEADER

LAST, FIRST = '-1, axis=1, mode="wrap"', "0, axis=1"
NORM = "let %n = multiply(%x, rsqrt(add(mean(multiply(%x, %x), axis=[2], keepdims=True), 1e-6f)));"
GATED = "let %g = nn.matmul(%n, %w); let %y = add(%x, nn.matmul(multiply(%g, sigmoid(%g)), %w));"
HEADS = "transpose(reshape(nn.matmul({}, %w), newshape=[0, 0, 2, 2]), axes=[0, 2, 1, 3])"
ATTENTION = (
    f"let %q = reshape({HEADS.format('%x')}, newshape=[-3, -2]); let %k = reshape({HEADS.format('tanh(%x)')}, newshape=[-3, -2]);"
    "let %s = nn.softmax(nn.batch_matmul(concatenate((negative(%q), %q), axis=2), concatenate((%k, %k), axis=2)));"
    "let %a = reshape(nn.batch_matmul(%s, %k, transpose_b=False), newshape=[-4, -1, 2, -2]);"
    "let %b = reshape(transpose(%a, axes=[0, 2, 1, 3]), newshape=[0, 0, -3]); let %y = nn.matmul(%b, %w);"
)


def program(body: str, data: str = "(?b, ?n, 4)") -> str:
    return f"{HEADER}def @main(%x: Tensor[{data}, float32], %w: Tensor[(4, 4), float32]) {{ {body} }}"


def calls(text: str) -> list[Call]:
    """The calls of a program after the pass, but those whose values are dead."""
    found = relay.transform.DeadCodeElimination()(gather_before_product(infer_type(to_a_normal_form(relay.parse(text)))))
    return [value for value in values(found["main"].body) if isinstance(value, Call)]


#: Bodies, and the number of products of all rows that stay.
MOVED = {
    "one product": ("let %y = nn.matmul(%x, %w);", 0),
    "of a vector": ("let %y = nn.dense(add(%x, [1f, 2f, 3f, 4f]), %w);", 0),
    "a layer": (NORM + GATED, 0),
    "of a layer whose rows have another use": (NORM + GATED + "let %m = sum(%n); let %y = add(%y, %m);", 0),
    "up to another use": ("let %h = nn.matmul(%x, %w); let %y = add(nn.matmul(%h, %w), sum(%h));", 1),
    "the queries of attention": (ATTENTION, 1),
    "parts": (
        "let %h = nn.matmul(%x, %w); let %y = strided_slice(concatenate((%h, tanh(%h)), axis=2), begin=[2], end=[6], axes=[2]);",
        0,
    ),
    "a tuple with another use": ("let %h = nn.matmul(%x, %w); let %t = (%h, %h); let %y = nn.matmul(%t.0, %w);", 1),
    "the sum of a row": ("let %y = expand_dims(sum(nn.matmul(%x, %w), axis=[2]), axis=2);", 0),
    "a size among attributes": ("let %y = nn.matmul(reshape(nn.matmul(%x, %w), newshape=[-1, 3, 4]), %w);", 1),
}


@pytest.mark.parametrize("taken", [LAST, FIRST])
@pytest.mark.parametrize("name", MOVED)
def test_layers_of_one_row(name: str, taken: str) -> None:
    body, whole = MOVED[name]
    text = program(f"{body} take(%y, {taken})", "(?b, 3, 4)" if "size" in name else "(?b, ?n, 4)")
    products = [call for call in calls(text) if call.op.name in ("nn.matmul", "nn.dense", "nn.batch_matmul")]
    rows = [const(tensor_type(call.args[0]).shape[1]) for call in products]
    assert (len(rows) - rows.count(1), rows.count(1) > 0) == (whole, True)
    apart = relay.VirtualMachine(relay.compile(text, opt_level=0))
    moved = relay.VirtualMachine(relay.compile(text))
    rng = np.random.default_rng(0)
    w = rng.standard_normal((4, 4), "f")
    for b, n in ((2, 3), (1, 3)) if "size" in name else ((2, 3), (1, 1), (0, 5)):
        x = rng.standard_normal((b, n, 4), "f")
        np.testing.assert_allclose(moved.run(x, w).numpy(), apart.run(x, w).numpy(), rtol=1e-5, atol=1e-6)


def test_a_row_of_no_rows_is_an_error() -> None:
    machine = relay.VirtualMachine(relay.compile(program('let %y = nn.matmul(%x, %w); take(%y, 0, axis=1, mode="fast")')))
    with pytest.raises(relay.RelayError):
        machine.run(np.zeros((2, 0, 4), "f"), np.zeros((4, 4), "f"))


KEPT = {
    "without a product": "take(tanh(%x), 0, axis=1)",
    "of one row": "let %r = mean(%x, axis=[1], keepdims=True); take(nn.matmul(%r, %w), 0, axis=1)",
    "columns": "take(nn.matmul(%x, %w), 0, axis=2)",
    "several rows": "take(nn.matmul(%x, %w), [0, 1], axis=1)",
    "another use": "let %y = nn.matmul(%x, %w); (%y, take(%y, 0, axis=1))",
    "along the softmax": "take(nn.softmax(nn.matmul(%x, %w), axis=1), 0, axis=1)",
    "sums of several rows": "take(cumsum(nn.matmul(%x, %w), axis=1), 0, axis=1)",
    "merged rows": "take(reshape(nn.matmul(%x, %w), newshape=[-3, 0]), 0, axis=0)",
    "of a part of the rows": "take(strided_slice(nn.matmul(%x, %w), begin=[0], end=[2], axes=[1]), 0, axis=1)",
    "two axes of one value": "let %y = nn.matmul(%x, %w); take(add(%y, transpose(%y, axes=[0, 2, 1])), 0, axis=1)",
}


@pytest.mark.parametrize("name", KEPT)
def test_other_programs_stay_as_they_are(name: str) -> None:
    data = "(?b, 4, 4)" if "axes" in name else "(?b, ?n, 4)"
    mod = infer_type(to_a_normal_form(relay.parse(program(KEPT[name], data))))
    assert gather_before_product(mod)["main"].body is mod["main"].body
