"""Symbolic dimensions: simplification preserves values; shared subexpressions keep expressions small."""

from __future__ import annotations

import operator
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relayvm.shape_funcs.symbolic import dim as d
from relayvm.shape_funcs.symbolic import dim_operations as ops

NAMES = ("n", "m", "k")
LEAVES = st.sampled_from([d.sym(x) for x in NAMES] + [d.sym("v", is_size=False)]) | st.integers(-3, 6).map(d.dim)
#: Each operation with its semantics on plain ints.
BINARY: dict[str, tuple[Any, Any]] = {
    "+": (lambda a, b: a + b, lambda a, b: a + b),
    "-": (lambda a, b: a - b, lambda a, b: a - b),
    "*": (lambda a, b: a * b, lambda a, b: a * b),
    "//": (lambda a, b: a // b, lambda a, b: a // b if b else 0),
    "%": (lambda a, b: a % b, lambda a, b: a % b if b else 0),
    "min": (ops.min_, min),
    "max": (ops.max_, max),
    "eq": (ops.eq, lambda a, b: int(a == b)),
    "lt": (ops.lt, lambda a, b: int(a < b)),
    "le": (ops.le, lambda a, b: int(a <= b)),
    "any": (lambda a, b: ops.any_(ops.eq(a, 0), ops.eq(b, 0)), lambda a, b: int(a == 0 or b == 0)),
    "where": (lambda a, b: ops.where(a, b, 7), lambda a, b: b if a else 7),
}


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_simplification_keeps_the_value(data: Any) -> None:
    values = {x: data.draw(st.integers(0, 6)) for x in NAMES} | {"v": data.draw(st.integers(-4, 6))}
    pool = [(leaf, ops.evaluate(leaf, values)) for leaf in data.draw(st.lists(LEAVES, min_size=2, max_size=5))]
    for _ in range(data.draw(st.integers(1, 8))):
        symbolic, plain = BINARY[data.draw(st.sampled_from(sorted(BINARY)))]
        (a, x), (b, y) = (data.draw(st.sampled_from(pool)) for _ in range(2))
        pool.append((symbolic(a, b), plain(x, y)))
        expression, wanted = pool[-1]
        assert ops.evaluate(expression, values) == wanted
        assert wanted >= 0 or not d.is_nonneg(expression)
        assert d.const(ops.substitute(expression, {d.sym(k, is_size=k != "v"): d.dim(v) for k, v in values.items()})) == wanted
        assert ops.substitute(expression, {}) is expression
        parts = d.postorder([expression, d.result_size(expression)])
        assert d.result_size(expression).has_result and not expression.has_result
        assert expression.is_wide == any(not -(2**63) <= n < 2**63 for part in parts for n in _numbers(part))
        divisor, quotient = d.content(expression)
        assert divisor * quotient is expression and d.content(quotient)[0] in (0, 1)


def _numbers(part: d.Dim) -> list[int]:
    """The numbers in a dim itself."""
    return list(part.args) if part.op == d.INT else [n for n, _ in part.args] if part.op == d.POLY else []


_LARGE = (0, 1, 3, 2**31, 2**62, 2**63 - 1)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_simplification_keeps_large_and_negative_values(data: Any) -> None:
    """A Dim is an integer of any size; beyond int64 only a shape program reports an overflow."""
    values = {x: data.draw(st.sampled_from(_LARGE)) for x in NAMES}
    values["v"] = data.draw(st.sampled_from((*_LARGE, *(-x for x in _LARGE), -(2**63))))
    numbers = st.sampled_from((*_LARGE, *(-x for x in _LARGE), -(2**63))).map(d.dim)
    leaves = st.sampled_from([d.sym(x) for x in NAMES] + [d.sym("v", is_size=False)]) | numbers
    pool = [(leaf, ops.evaluate(leaf, values)) for leaf in data.draw(st.lists(leaves, min_size=2, max_size=4))]
    for _ in range(data.draw(st.integers(1, 6))):
        symbolic, plain = BINARY[data.draw(st.sampled_from(sorted(BINARY)))]
        (a, x), (b, y) = (data.draw(st.sampled_from(pool)) for _ in range(2))
        pool.append((symbolic(a, b), plain(x, y)))
        expression, wanted = pool[-1]
        assert ops.evaluate(expression, values) == wanted
        assert wanted >= 0 or not d.is_nonneg(expression)
        assert expression.is_wide == any(not -(2**63) <= n < 2**63 for part in d.postorder([expression]) for n in _numbers(part))


def test_equal_expressions_are_one_object() -> None:
    n, m = d.sym("n"), d.sym("m")
    assert n + m is m + n
    assert (n * 6) // 3 is n * 2
    assert (n + m) * (n - m) is n * n - m * m
    assert ops.max_(ops.max_(n - 3, -1), 0) is ops.max_(n - 3, 0)
    assert ops.le(n, n) is d.dim(1)
    # the first element in front of a tensor, and a slice from 1 on of the whole
    assert ops.min_(n + 1, n + ops.min_(1, n)) is n + ops.min_(1, n)
    assert ops.max_(n + ops.min_(1, n) - 1, 0) is n
    assert ops.max_(n + ops.min_(1, n) - 2, 0).op == "max" != ops.max_(ops.min_(1, n) - 1, 0).op
    assert ops.le(d.sym("v", is_size=False), 2**63 - 1).op != d.INT  # not simplified by adding 1 to the limit


def test_expressions_that_share_parts_stay_small() -> None:
    """Each step uses the previous expression twice: the text of the whole tree would have 2 ** 2000 characters."""
    n = x = d.sym("n")
    for _ in range(2000):
        x = ops.max_(0, x - ops.min_(1, x))
    assert len(x.key) < 200
    assert ops.evaluate(x, {"n": 5000}) == 3000
    assert d.const(ops.substitute(x, {n: d.dim(2001)})) == 1
    assert list(d.symbols(x)) == ["n"]


def test_products_of_long_sums_are_not_multiplied_out() -> None:
    sums = [sum((d.sym(f"{x}{k}") for k in range(30)), d.dim(0)) for x in "abcdefgh"]
    whole = d.product(sums)
    assert whole.op == d.MUL
    assert sums[0] * sums[1] is sums[1] * sums[0]
    assert ops.evaluate(whole, dict.fromkeys(d.symbols(whole), 1)) == 30**8


def test_keys_do_not_depend_on_the_process() -> None:
    x = d.sym("n")
    for k in range(50):
        x = ops.min_(x * 3, d.sym(f"m{k}"))
    assert x.key == "min((3*min((3*min((3*min((3*min((3*min(m44, poly#133b3cd040b997878be0)), m45)), m46)), m47)), m48)), m49)"


def test_a_dimension_has_no_truth_value() -> None:
    with pytest.raises(TypeError, match="the dimension n has no truth value at compile time"):
        bool(d.sym("n"))


def test_float_ranges() -> None:
    from relayvm.shape_funcs.symbolic.program import as_word

    words = [d.dim(as_word(x)) for x in (0.0, 1.0, 0.1)]
    assert ops.arange_length(*words) is d.dim(10)
    assert ops.arange_length(words[0], d.dim(as_word(float("inf"))), words[2]) is d.dim(0)


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-70, 70))
def test_a_known_size_is_a_number(value: int, other: int) -> None:
    size = d.dim(value)
    assert size == value and value == size and int(size) == value == size.value and hash(size) == hash(value)
    assert {value: "found"}[size] == "found" and size in {value} and (size, other) == (value, other)
    for compare in (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge):
        for a, b in ((size, other), (other, size), (size, d.dim(other)), (size, np.int64(other))):
            assert compare(a, b) == compare(int(a), int(b))
    assert bool(size) is bool(value) and size / 2 == value / 2 and round(size) == value and abs(size) == abs(value)
    assert pickle.loads(pickle.dumps(size)) is size
    assert (size == d.sym("n")) is False and size != "4" and size != None  # noqa: E711


def test_known_sizes_are_taken_for_ints() -> None:
    two, three = d.shape((2, 3))
    assert np.zeros((two, three)).shape == (2, 3) and list(range(two)) == [0, 1] and "abc"[two] == "c" and f"{three}" == "3"
    assert np.arange(6).reshape(two, three)[:two, 1].tolist() == [1, 4]
    with pytest.raises(TypeError):
        range(d.sym("n"))
