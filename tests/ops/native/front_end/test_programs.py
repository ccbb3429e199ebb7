"""The machine code of a function computes what Python computes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .machine_code import compiled, python_function
from .programs import PROGRAMS

WORDS = (0, 1, -1, 2, 5, -7, 63, 1000)


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_a_program(function: Callable[[int, int], int]) -> None:
    code = compiled(function)
    for a, b in itertools.product(WORDS, repeat=2):
        assert code(a, b) == function(a, b), (a, b)


# ---- random programs: variables hold 16 bits, and loops are short ------------------------------------------------------------

VARIABLES = ("a", "b", "c", "d")
_leaf = st.sampled_from([*VARIABLES, "0", "1", "7", "65535"])
EXPRESSIONS = st.recursive(
    _leaf,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "&", "|", "^"]), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(inner, st.sampled_from(["//", "%"]), inner).map(lambda t: f"({t[0]} {t[1]} ({t[2]} | 1))"),
        st.tuples(inner, st.sampled_from(["<", "<=", "==", "!="]), inner).map(lambda t: f"int({t[0]} {t[1]} {t[2]})"),
        st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} if {t[1]} else {t[2]})"),
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        inner.map(lambda e: f"(-{e})"),
        inner.map(lambda e: f"({e} >> 1)"),
    ),
    max_leaves=5,
)


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines] or ["    pass"]


_assign = st.tuples(st.sampled_from(VARIABLES), EXPRESSIONS).map(lambda t: [f"{t[0]} = ({t[1]}) & 0xFFFF"])
STATEMENTS: Any = st.deferred(
    lambda: st.one_of(
        _assign,
        st.tuples(EXPRESSIONS, BLOCKS, BLOCKS).map(lambda t: [f"if {t[0]}:", *_indented(t[1]), "else:", *_indented(t[2])]),
        st.tuples(EXPRESSIONS, BLOCKS).map(lambda t: [f"for d in range(({t[0]}) & 3):", *_indented(t[1])]),
        st.tuples(EXPRESSIONS, BLOCKS, st.sampled_from(["continue", "break", "return a ^ c"])).map(
            lambda t: ["for c in range(3):", f"    if {t[0]}:", *_indented(_indented([t[2]])), *_indented(t[1])]
        ),
    )
)
BLOCKS: Any = st.lists(STATEMENTS, max_size=3).map(lambda blocks: [line for block in blocks for line in block])


@given(BLOCKS)
@settings(max_examples=60, deadline=None)
def test_a_random_program(lines: list[str]) -> None:
    body = ["c = 3", "d = 4", *lines, "return a + 3 * b + 5 * c + 7 * d"]
    function = python_function("\n".join(["def f(a, b):", *_indented(body)]))
    code = compiled(function)
    for a, b in ((0, 0), (1, 65535), (258, 7), (40000, 3)):
        assert code(a, b) == function(a, b), (a, b)
