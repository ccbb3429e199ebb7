"""Conditions of ``--fail-if``: their syntax and their values; no other code is run."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relayvm.compiler.comparison.compare import Case, Comparison, Method
from relayvm.compiler.comparison.compare_conditions import FIGURES, Condition, ConditionError, failures, parse_condition
from relayvm.vm.diagnostics.source import InputError
from relayvm.vm.report.profile_report import Profile
from relayvm.vm.state.state_layout import COUNTERS

SIDES = ("a", "b", "input_place")
VALUES = {(side, figure): float(10 * s + f) for s, side in enumerate(SIDES) for f, figure in enumerate(FIGURES)}


def holds(text: str, values: Any = VALUES) -> str | None:
    return parse_condition(text, SIDES).holds(values)


def profile(run_ns: int, **counters: int) -> Profile:
    return Profile("sim", "main", {}, (run_ns,) * 8, (dict.fromkeys(COUNTERS, 0) | counters,) * 8, (), (), ())


def comparison(*cases: tuple[Profile, Profile]) -> Comparison:
    return Comparison(("a", "b"), tuple(Case(f"n={i}", pair) for i, pair in enumerate(cases)), Method(8))


# ---- values ------------------------------------------------------------------------------------------------------------------

numbers = st.recursive(
    st.integers(0, 99).map(str)
    | st.floats(0, 10, allow_subnormal=False).map(repr)
    | st.builds("{}.{}".format, st.sampled_from(SIDES), st.sampled_from(FIGURES)),
    lambda inner: st.builds("({} {} {})".format, inner, st.sampled_from("+-*"), inner) | inner.map("-{}".format),
    max_leaves=4,
)
comparisons = st.builds("{} {} {}".format, numbers, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), numbers)
conditions = st.recursive(
    comparisons | st.builds("{} < {} <= {}".format, numbers, numbers, numbers),
    lambda inner: st.builds("({} {} {})".format, inner, st.sampled_from(["and", "or"]), inner) | inner.map("not ({})".format),
    max_leaves=4,
)


class Side:
    """A side as Python sees it."""

    def __init__(self, name: str) -> None:
        self.__dict__.update({figure: VALUES[name, figure] for figure in FIGURES})


@given(conditions)
def test_a_condition_means_what_it_means_in_python(text: str) -> None:
    names = {side: Side(side) for side in SIDES}
    assert (holds(text) is not None) == eval(text, {"__builtins__": {}}, names)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("1 + 1 > 0", "2 > 0"),
        ("a.time * 1.05 < b.time", "0 < 10"),
        ("not a.time > 0", "not 0 > 0"),
        ("not (a.time > 0 and b.time > 0)", "not (0 > 0 and 10 > 0)"),
        ("a.time > 5 or b.time > 5", "10 > 5"),
        ("b.time > 5 and b.time >= 10.0", "10 > 5, 10 >= 10"),
        ("1 < 2.5 < 1 / 0.3", "1 < 2.5 < 3.33333"),
    ],
)
def test_what_was_compared_is_shown(text: str, shown: str) -> None:
    assert holds(text) == shown


def test_a_division_by_zero_is_a_mistake_with_a_name() -> None:
    with pytest.raises(InputError, match=r"fail-if: b.time / a.time > 1 divides by 0"):
        holds("b.time / a.time > 1")


# ---- no conditions -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is no condition such as"),
        ("b.time >", "is no condition such as"),
        ("b.time > 1; 2", "is no condition such as"),
        ("(" * 500 + "1" + ")" * 500 + " > 0", "is no condition such as"),
        ("\0 > 1", "is no condition such as"),
        ("b.time", "'b.time' in 'b.time' must be a comparison"),
        ("b.time + 1", "must be a comparison"),
        ("(b.time > 1) + 1 > 0", "'b.time > 1' in .* must be a number"),
        ("b.time ** 2 > 0", "must be a number"),
        ("b.time in (1, 2)", "must be a comparison"),
        ("b.time > '5'", "must be a number"),
        ("b.time > True", "must be a number"),
        ("b.time > 1j", "must be a number"),
        ("time > 1", "'time' in .* must be a number, SIDE.FIGURE"),
        ("__import__('os').getpid() > 0", "must be a number"),
        ("a.time.real > 0", "must be a number"),
        ("[1][0] > 0", "must be a number"),
        ("(x := 1) > 0", "must be a number"),
        ("c.time > 1", "there is no side 'c'; the sides are a, b, input_place"),
        ("input_plac.time > 1", "did you mean input_place?"),
        ("b.dtoh_byte > 1", "there is no figure 'dtoh_byte'; did you mean .*dtoh_bytes.*; there are time, kernel_time"),
        ("b.__class__ > 1", "there is no figure '__class__'"),
    ],
)
def test_what_is_no_condition(text: str, words: str) -> None:
    with pytest.raises(ConditionError, match=words):
        parse_condition(text, SIDES)


@given(st.text(alphabet="ab.time<>=+-*/() 0123456789andortx_'\"[]:,{}\n\\", max_size=30))
def test_any_text_is_a_condition_or_a_named_mistake(text: str) -> None:
    try:
        found = parse_condition(text, SIDES)
    except ConditionError as error:
        assert str(error)
        return
    assert isinstance(found, Condition)
    names = {n.id for n in ast.walk(found.tree) if isinstance(n, ast.Name)}
    assert names <= set(SIDES)


# ---- of a comparison -----------------------------------------------------------------------------------------------------------


@pytest.mark.lengthy
def test_of_a_comparison() -> None:
    found = comparison((profile(1000, dtoh_bytes=8), profile(2000, dtoh_bytes=8852)))
    texts = ["b.dtoh_bytes > 0", "a.dtoh_bytes > 8", "b.time > a.time * 1.05", "b.time_ratio_low > 1.05", "a.time_ratio != 1"]
    lines = list(failures([parse_condition(t, ("a", "b")) for t in texts], found))
    assert lines == [
        "fail-if: b.dtoh_bytes > 0 holds (8852 > 0)",
        "fail-if: b.time > a.time * 1.05 holds (2000 > 1050)",
        "fail-if: b.time_ratio_low > 1.05 holds (2 > 1.05)",
    ]


def test_in_any_case() -> None:
    found = comparison((profile(1), profile(1)), (profile(1), profile(1, syncs=3)))
    (line,) = failures([parse_condition("b.syncs > a.syncs", ("a", "b"))], found)
    assert line == "fail-if: b.syncs > a.syncs holds in the case n=1 (3 > 0)"
