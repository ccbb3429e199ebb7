"""Maxima and minima in front of monotonic functions: the same bits, fewer functions; programs that stay as they are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import relayvm as relay
from relayvm.compiler.ir.anf import values
from relayvm.compiler.ir.expr import Call
from relayvm.compiler.passes.eliminate_dead_code import eliminate_dead_code
from relayvm.compiler.passes.infer_type import infer_type
from relayvm.compiler.passes.reordering.reduce_before_monotonic import reduce_before_monotonic
from relayvm.compiler.passes.to_a_normal_form import to_a_normal_form
from relayvm.ops.core.implementation import GPU, HOST

from ....devices import DEVICES
from ....programs import HEADER

BEST = 'let %best = dyn.topk(%m, %k, ret_type="indices");'


def program(body: str, data: str = "(?n, ?m), float32") -> str:
    return f"{HEADER}def @main(%x: Tensor[{data}], %k: int64) {{ {body} }}"


def operators(text: str, machine: str = HOST) -> list[str]:
    """The operators of a program after the pass, but those whose values are dead."""
    mod = reduce_before_monotonic(infer_type(to_a_normal_form(relay.parse(text))), machine)
    found = eliminate_dead_code(mod)
    return [value.op.name for value in values(found["main"].body) if isinstance(value, Call)]


#: Programs with the operators that the pass leaves.
MOVED = {
    "one": ("max(sigmoid(%x), axis=[1])", ["max", "sigmoid"]),
    "all axes": ("min(nn.relu(%x))", ["min", "nn.relu"]),
    "kept axes": ("max(exp(%x), axis=[0], keepdims=True)", ["max", "exp"]),
    "reversed": ("max(negative(%x), axis=[1])", ["min", "negative"]),
    "reversed twice": ("min(subtract(1f, multiply(%x, -2f)), axis=[1])", ["min", "multiply", "subtract"]),
    "reversed once": ("min(clip(divide(%x, -3f), a_min=-1, a_max=1), axis=[1])", ["max", "divide", "clip"]),
    "wider": ('min(cast(floor(add(%x, 0.5f)), dtype="float64"), axis=[0])', ["min", "add", "floor", "cast"]),
    "halves": ('max(sigmoid(cast(%x, dtype="float16")), axis=[1])', ["max", "cast", "sigmoid"]),
    "both": ("let %s = sigmoid(%x); (max(%s, axis=[1]), min(%s))", ["max", "sigmoid", "min", "sigmoid"]),
    "gathered": (
        f"let %s = sigmoid(%x); let %m = max(%s, axis=[1]); {BEST} (%m, take(%s, %best, axis=0))",
        ["sigmoid", "max", "sigmoid", "dyn.topk", "take"],
    ),
    "gathered of a slice": (
        f"let %s = sigmoid(strided_slice(%x, begin=[1], end=[4], axes=[1])); let %m = max(%s, axis=[1]); {BEST}"
        "(%m, take(%s, %best, axis=0))",
        ["strided_slice", "sigmoid", "strided_slice", "max", "sigmoid", "dyn.topk", "take"],
    ),
    "up to another use": (
        "let %r = nn.relu(%x); (sum(%r), max(add(%r, 1f), axis=[1]))",
        ["nn.relu", "sum", "max", "add"],
    ),
    "in a branch": (
        "let %s = sigmoid(%x); if (less(%k, 3i64)) { max(%s, axis=[1]) } else { min(%s, axis=[1]) }",
        ["less", "min", "sigmoid", "max", "sigmoid"],
    ),
}


@pytest.mark.parametrize("name", MOVED)
def test_reductions_come_first(name: str) -> None:
    body, expected = MOVED[name]
    assert operators(program(body)) == expected


KEPT = {
    "not monotonic": "max(abs(%x), axis=[1])",
    "not known to be": "max(tanh(%x), axis=[1])",
    "an unknown number": "max(multiply(%x, sum(%x)), axis=[1])",
    "of a row": "max(add(%x, max(%x, axis=[0])), axis=[1])",
    "another use": "let %s = sigmoid(%x); divide(%s, max(%s, axis=[1], keepdims=True))",
    "the result": "let %s = sigmoid(%x); (%s, max(%s))",
    "a place": "argmax(sigmoid(%x), axis=[1])",
    "a sum": "sum(sigmoid(%x), axis=[1])",
    "of truths": 'max(cast(%x, dtype="bool"))',
}


@pytest.mark.parametrize("name", KEPT)
def test_other_programs_stay_as_they_are(name: str) -> None:
    mod = infer_type(to_a_normal_form(relay.parse(program(KEPT[name]))))
    assert reduce_before_monotonic(mod, HOST)["main"].body is mod["main"].body


def test_functions_of_a_library_stay_on_a_gpu() -> None:
    assert operators(program("max(sigmoid(%x), axis=[1])"), GPU) == ["sigmoid", "max"]
    assert operators(program("max(nn.relu(%x), axis=[1])"), GPU) == ["max", "nn.relu"]


#: Numbers that are rounded to one result, of both signs, infinite, saturated, subnormal.
EDGES = [0.0, -0.0, 1e-45, -1e-45, 90.0, 95.5, -90.0, -120.0, np.inf, -np.inf, np.nan, 0.22429632, 0.22429633, 0.5, 1.5, -2.5]


@pytest.mark.thinned(2)
@pytest.mark.parametrize("target", DEVICES)
@pytest.mark.parametrize("name", MOVED)
@pytest.mark.extensive(name=["one", "reversed once", "gathered of a slice"])
def test_results_are_those_of_the_program_as_it_is(target: str, name: str) -> None:
    text = program(MOVED[name][0])
    vm, plain = (relay.VirtualMachine(relay.compile(text, target, opt_level=level)) for level in (2, 1))

    @settings(max_examples=15)
    @given(st.integers(1, 20), st.integers(4, 90), st.integers(0, 99), st.booleans())
    @example(1, 4, 0, True)
    def agree(rows: int, columns: int, seed: int, has_edges: bool) -> None:
        random = np.random.default_rng(seed)
        x = random.uniform(-0.4, 0.4, (rows, columns)).astype("float32")
        if has_edges:
            x = np.where(random.random(x.shape) < 0.2, random.choice(EDGES, x.shape), x).astype("float32")
        for ours, theirs in zip(*(fields(m.run(x, np.int64(rows))) for m in (vm, plain)), strict=True):
            # of two zeros either is the largest
            np.testing.assert_array_equal(ours, theirs, strict=True)

    agree()


def fields(result):
    return [each.numpy() for each in (result if isinstance(result, (tuple, list)) else (result,))]


@pytest.mark.parametrize("level", [1, 2])
def test_rows_without_elements_are_an_error_as_before(level: int) -> None:
    vm = relay.VirtualMachine(relay.compile(program(MOVED["one"][0]), opt_level=level))
    assert vm.run(np.zeros((0, 3), "float32"), 1).shape == (0,)
    with pytest.raises(relay.VMError, match=r"max.*: an empty axis has no minimum or maximum\n --> <string>:2:55\n"):
        vm.run(np.zeros((3, 0), "float32"), 1)
