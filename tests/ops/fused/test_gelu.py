"""Expressions that are gelu: in every order, and none that only looks like it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.special import ndtr

from relayvm.ops.codegen import kernel_source

from .row_groups import kernels
from .run_group import compiled, evaluate

SCALED = ("multiply(%x, {root}f)", "multiply({root}f, %x)", "divide(%x, {square}f)")


def program(body, dtype="float32"):
    text = f"def @main(%x: Tensor[(?n), {dtype}]) {{ {body} }}"
    return text if dtype == "float32" else text.replace("f,", "f64,").replace("f)", "f64)")


def product(order, nested, half, sum_):
    """The product of x, ``half`` and the sum, in an order; ``nested``: the last two first."""
    a, b, c = (("%x", half, sum_)[k] for k in order)
    return f"multiply({a}, multiply({b}, {c}))" if nested else f"multiply(multiply({a}, {b}), {c})"


def bodies(half="0.5f", one="1f", root="0.70710678", square="1.4142135", function="erf"):
    for order, nested, scaled, first in itertools.product(itertools.permutations(range(3)), (0, 1), SCALED, (0, 1)):
        called = f"{function}({scaled.format(root=root, square=square)})"
        yield product(order, nested, half, f"add({one}, {called})" if first else f"add({called}, {one})")


@pytest.mark.parametrize("body", list(bodies()))
def test_is_recognized_in_every_order(body):
    ((group, _),) = kernels(program(body))
    text = kernel_source(group).text
    assert "gelu_float32(" in text and "erf_float32(" not in text


def test_is_the_function():
    ((group, _),) = kernels(program(next(bodies())))
    x = np.linspace(-8, 8, 1001).astype("float32")
    status, (ours,) = evaluate(group, [x], compiled)
    assert status == 0
    np.testing.assert_allclose(ours, x * ndtr(x.astype("float64")), rtol=2e-7, atol=5e-7)


OTHER = {
    "another factor": {"half": "0.25f"},
    "another summand": {"one": "2f"},
    "another scale": {"root": "0.7071", "square": "1.4142"},
    "another function": {"function": "tanh"},
}


@pytest.mark.parametrize("other", OTHER)
def test_similar_expressions_are_none(other):
    for body in bodies(**OTHER[other]):
        ((group, _),) = kernels(program(body))
        assert "gelu" not in kernel_source(group).text, body


def test_another_argument_is_none():
    body = "multiply(multiply(%x, 0.5f), add(erf(multiply(add(%x, 1f), 0.70710678f)), 1f))"
    ((group, _),) = kernels(program(body))
    assert "gelu" not in kernel_source(group).text


def test_other_dtypes_are_composed():
    ((group, _),) = kernels(program(next(bodies()), "float64"))
    assert "gelu" not in kernel_source(group).text
