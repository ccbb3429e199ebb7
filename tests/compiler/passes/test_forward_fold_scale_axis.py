"""Scales per channel before a product, folded into its weight: the results differ by rounding only, and the scales are gone."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.ir.visitor import post_order

RNG = np.random.default_rng(7)


def positive(*shape: int) -> relay.Constant:
    return relay.const(RNG.uniform(0.5, 2, shape).astype("float32"))


def signed(*shape: int) -> relay.Constant:
    return relay.const(RNG.normal(size=shape).astype("float32"))


def convolution(layout: str, kernel: str, groups: int = 1):
    """A convolution of 4 channels with 6 outputs; the scale of the channels has their axis."""
    sizes = {"N": 2, "C": 4, "H": 5, "W": 5}
    weight = {"O": 6, "I": 4 // groups, "H": 3, "W": 3}
    channels = tuple(4 if letter == "C" else 1 for letter in layout)

    def build(x):
        scaled = relay.nn.relu(relay.divide(relay.multiply(positive(*channels), x), positive(*channels)))
        pooled = relay.nn.max_pool2d(scaled, 2, layout=layout)
        shape = [weight[letter] for letter in kernel]
        return relay.nn.conv2d(pooled, signed(*shape), padding=1, groups=groups, data_layout=layout, kernel_layout=kernel)

    return tuple(sizes[letter] for letter in layout), build


def product(build_product):
    return (3, 4), lambda x: build_product(relay.negative(relay.multiply(x, signed(4))))


CASES = {
    "NCHW": convolution("NCHW", "OIHW"),
    "NHWC": convolution("NHWC", "HWIO"),
    "groups": convolution("NCHW", "OIHW", groups=2),
    "groups, inputs first": convolution("NHWC", "HWIO", groups=2),
    "dense": product(lambda x: relay.nn.dense(x, signed(2, 4))),
    "matmul": product(lambda x: relay.nn.matmul(x, signed(4, 2))),
    "batch_matmul": ((2, 3, 4), lambda x: relay.nn.batch_matmul(relay.multiply(x, signed(4)), signed(2, 5, 4))),
    "one number": ((3, 4), lambda x: relay.nn.dense(relay.nn.leaky_relu(relay.multiply(x, relay.const(3.0)), 0.1), signed(2, 4))),
}


@pytest.mark.parametrize("name", CASES)
def test_the_results_are_the_same(name: str) -> None:
    shape, build = CASES[name]
    x = relay.var("x", shape)
    mod = relay.IRModule.from_expr(relay.Function([x], build(x)))
    out = relay.transform.ForwardFoldScaleAxis()(mod)
    left = {node.op.name for node in post_order(out["main"]) if isinstance(node, relay.Call)}
    assert not left & {"multiply", "divide", "negative"}
    data = RNG.normal(size=shape).astype("float32")
    want, got = (relay.create_executor("debug", m).evaluate()(data).numpy() for m in (mod, out))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    both = relay.transform.FoldScaleAxis()(mod)
    assert relay.structural_equal(both, relay.transform.ForwardFoldScaleAxis()(relay.transform.BackwardFoldScaleAxis()(mod)))


@pytest.mark.parametrize(
    "build",
    [
        lambda x: relay.nn.dense(relay.nn.relu(relay.multiply(x, relay.const([1.0, -1.0, 1.0, 1.0]))), positive(2, 4)),
        lambda x: relay.nn.matmul(relay.multiply(x, positive(4)), positive(4, 3), transpose_a=True),
        lambda x: relay.nn.dense(relay.multiply(x, relay.const(1e38)), relay.const(np.full((2, 4), 100, "float32"))),
        lambda x: relay.nn.dense(relay.divide(positive(4), x), positive(2, 4)),
        lambda x: relay.nn.dense(relay.divide(x, relay.const([1.0, 0.0, 1.0, 1.0])), positive(2, 4)),
        lambda x: relay.nn.dense(relay.multiply(x, positive(4, 1)), positive(2, 4)),
    ],
)
def test_other_scales_stay(build) -> None:
    x = relay.var("x", (4, 4))
    mod = relay.transform.FoldConstant()(relay.IRModule.from_expr(relay.Function([x], build(x))))
    assert relay.structural_equal(relay.transform.ForwardFoldScaleAxis()(mod), mod)
