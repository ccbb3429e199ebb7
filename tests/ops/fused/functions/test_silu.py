"""Expressions that are silu: in both orders, for every float of 32 bits or fewer, and none that only looks like it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from relayvm.ops.codegen import kernel_source
from relayvm.ops.codegen.cuda import cuda_source

from ..reductions.row_groups import kernels
from ..run_group import compiled, evaluate

ORDERS = ("multiply(%x, sigmoid(%x))", "multiply(sigmoid(%x), %x)")


def group_of(body, dtype="float32"):
    ((group, _),) = kernels(f"def @main(%x: Tensor[(?n), {dtype}], %y: Tensor[(?n), {dtype}]) {{ {body} }}")
    return group


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("body", ORDERS)
def test_is_recognized_in_both_orders(body, dtype):
    text = kernel_source(group_of(body, dtype)).text
    assert "silu_float32(" in text and "sigmoid_float32(" not in text


@pytest.mark.parametrize("body", ["multiply(%x, sigmoid(%y))", "multiply(%x, sigmoid(negative(%x)))", "add(%x, sigmoid(%x))"])
def test_similar_expressions_are_none(body):
    text = kernel_source(group_of(body)).text
    assert "sigmoid_float32(" in text and "silu" not in text


def test_doubles_are_composed():
    assert "silu" not in kernel_source(group_of(ORDERS[0], "float64")).text


def test_gpus_compute_the_product():
    text = cuda_source(group_of(ORDERS[0])).text.rpartition("__global__")[2]
    assert "silu_float32(" not in text and "expf(-" in text


def test_the_sigmoid_is_a_value_of_its_own_if_it_is_used():
    text = kernel_source(group_of("add(multiply(%x, sigmoid(%x)), sigmoid(%x))")).text
    assert "silu_float32(" in text and "sigmoid_float32(" in text


def test_is_the_function():
    group = group_of(ORDERS[0])
    x = np.concatenate([np.linspace(-90, 90, 2001), [0.0, -0.0, np.inf, -3e38, 3e38]]).astype("float32")
    status, (ours,) = evaluate(group, [x] * len(group.params), compiled)
    assert status == 0
    np.testing.assert_allclose(ours, x * expit(x.astype("float64")), rtol=3e-7, atol=1e-36)
