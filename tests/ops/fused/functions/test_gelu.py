"""Expressions that are gelu: in every order, and none that only looks like it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.special import erfc, ndtr

from relayvm.ops.codegen import kernel_source
from relayvm.ops.codegen.cuda import cuda_source
from relayvm.ops.core.tensor_types import numpy_dtype

from ..reductions.row_groups import kernels
from ..run_group import compiled, evaluate

SCALED = ("multiply(%x, {root}f)", "multiply({root}f, %x)", "divide(%x, {square}f)")


#: By dtype, the suffix of a constant.
SUFFIX = {"float32": "f", "float64": "f64", "float16": "f16", "bfloat16": "bf16"}


def program(body, dtype="float32"):
    text = f"def @main(%x: Tensor[(?n), {dtype}]) {{ {body} }}"
    return text.replace("f,", f"{SUFFIX[dtype]},").replace("f)", f"{SUFFIX[dtype]})")


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


@pytest.mark.lengthy(other=["another function"])
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


@pytest.mark.lengthy
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_have_a_function_of_their_own(dtype):
    for body in bodies():
        ((group, _),) = kernels(program(body, dtype))
        text = cuda_source(group).text.rpartition("__global__")[2]
        # in 11 and in 8 bits a quotient by sqrt(2) is another function
        assert ("gelu_of_half(" in text) == ("divide" not in body), body
        assert ("erf_of_half(" in text) == ("divide" in body), body


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_on_the_processor_are_rounded_once(dtype):
    ((group, _),) = kernels(program(next(bodies()), dtype))
    x = np.arange(65536, dtype="uint16").view(numpy_dtype(dtype))
    x = x[np.isfinite(x.astype("float32"))]
    status, (ours,) = evaluate(group, [x], compiled)
    assert status == 0
    wide = x.astype("float64")
    exact = wide * 0.5 * erfc(-wide * 0.70703125)
    np.testing.assert_allclose(ours.astype("float64"), exact, rtol={"float16": 2**-10.9, "bfloat16": 2**-7.9}[dtype], atol=2e-6)
