"""Gathers in front of reductions: the same bits, fewer rows; programs that stay as they are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import relayvm as relay
from relayvm.compiler.ir.anf import values
from relayvm.compiler.ir.expr import Call
from relayvm.compiler.passes.infer_type import infer_type
from relayvm.compiler.passes.reordering.gather_before_reduce import gather_before_reduce
from relayvm.compiler.passes.to_a_normal_form import to_a_normal_form

from ....devices import DEVICES
from ....programs import HEADER

#: Texts for ``@main(%x: Tensor[(?n, 3), float32], %k: int64)``: positions, then the class of each.
TOP = "let %found = dyn.topk(max(%x, axis=[1]), %k); let %best = %found.1;"
CLASS = "let %class = argmax(%x, axis=[1]); take(%class, %best, axis=0)"


def program(positions: str = TOP, classes: str = CLASS, data: str = "(?n, 3)") -> str:
    return f"{HEADER}def @main(%x: Tensor[{data}, float32], %k: int64) {{ {positions} {classes} }}"


def operators(text: str) -> list[str]:
    """The operators of a program after the pass, but those whose values are dead."""
    found = relay.transform.DeadCodeElimination()(gather_before_reduce(infer_type(to_a_normal_form(relay.parse(text)))))
    return [value.op.name for value in values(found["main"].body) if isinstance(value, Call)]


MOVED = {
    "all": (TOP, CLASS),
    "some": (TOP + "let %best = strided_slice(%best, begin=[1], end=[9]);", CLASS),
    "counted from the end": (TOP + "let %best = where(less(%best, 0), add(%best, 2), %best);", CLASS),
    "cast": (TOP, 'let %class = cast(argmax(%x, axis=[1], keepdims=True), dtype="float32"); take(%class, %best, axis=-2)'),
    "elements": (TOP, 'let %sum = exp(sum(tanh(%x), axis=[1])); take(%sum, %best, axis=0, mode="wrap")'),
    "found": ("let %best = squeeze(argwhere(greater(max(%x, axis=[1]), 0f)), axis=[1]);", CLASS),
}


@pytest.mark.parametrize("name", MOVED)
def test_rows_are_gathered_first(name: str) -> None:
    names = operators(program(*MOVED[name]))
    assert names.index("take") < min(names.index(op) for op in ("argmax", "sum") if op in names)


KEPT = {
    "more indices than rows may be": ('let %best = arange(0i64, %k, 1i64, dtype="int64");', CLASS),
    "of more rows": ('let %best = dyn.topk(reshape(%x, newshape=[-1]), %k, ret_type="indices");', CLASS),
    "another use": (TOP, CLASS.replace("take(", "let %t = take(") + "; (%t, %class)"),
    "columns": (TOP, "let %class = argmax(%x, axis=[0]); take(%class, %best, axis=0)"),
    "elements of all": (TOP, "let %class = argmax(%x, axis=[1]); take(%class, %best)"),
    "no reduction": (TOP, "let %y = tanh(%x); take(%y, %best, axis=0)"),
    "a matrix of indices": (TOP + "let %best = expand_dims(%best, axis=0);", CLASS),
    "maxima of columns whose number is unknown": (TOP, CLASS, "(?n, ?m)"),
}


@pytest.mark.parametrize("name", KEPT)
def test_other_programs_stay_as_they_are(name: str) -> None:
    mod = infer_type(to_a_normal_form(relay.parse(program(*KEPT[name]))))
    assert gather_before_reduce(mod)["main"].body is mod["main"].body


@pytest.mark.spread("target")
@pytest.mark.parametrize("target", DEVICES)
@pytest.mark.parametrize("name", MOVED)
@pytest.mark.extensive(name=["all", "found"])
def test_results_are_those_of_the_program_as_it_is(target: str, name: str) -> None:
    vm, plain = (relay.VirtualMachine(relay.compile(program(*MOVED[name]), target, opt_level=level)) for level in (2, 1))

    @settings(max_examples=15)
    @given(st.integers(1, 40), st.integers(1, 40), st.booleans())
    @example(1, 1, True)
    def agree(rows: int, k: int, has_nan: bool) -> None:
        x = np.random.default_rng(rows).integers(-2, 3, (rows, 3)).astype("float32")
        x[0, 1] = np.nan if has_nan else 1
        arguments = x, np.int64(min(k, rows))
        assert vm.run(*arguments).numpy().tobytes() == plain.run(*arguments).numpy().tobytes()

    agree()


def test_no_row_is_gathered_of_no_rows() -> None:
    vm = relay.VirtualMachine(relay.compile(program(*MOVED["found"])))
    assert vm.run(np.zeros((0, 3), "float32"), 0).shape == (0,)
