"""An `If` whose branches have results of different ranks: what becomes of the rest of the graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import relayvm as relay


def squeezed(rest: list[Any], output: str) -> onnx.ModelProto:
    """`x` of shape (n, m), without its last axis if that has the size 1, as exporters write it; then ``rest`` of `s`."""
    then = helper.make_node("Squeeze", ["x", "last"], ["a"])
    other = helper.make_node("Identity", ["x"], ["a"])
    results = [onnx.ValueInfoProto(name="a")]
    branches = {
        name: helper.make_graph([node], name, [], results) for name, node in [("then_branch", then), ("else_branch", other)]
    }
    nodes = [
        helper.make_node("Shape", ["x"], ["all"]),
        helper.make_node("Gather", ["all", "last"], ["size"]),
        helper.make_node("Equal", ["size", "ones"], ["is_one"]),
        helper.make_node("If", ["is_one"], ["s"], name="/sq{}eeze", **branches),
        *rest,
    ]
    stored = {"last": np.array([-1]), "ones": np.array([1]), "row": np.arange(2, dtype="float32")}
    info = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "m"])
    tensors = [numpy_helper.from_array(a, n) for n, a in stored.items()]
    graph = helper.make_graph(nodes, "g", [info], [onnx.ValueInfoProto(name=output)], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def test_the_rest_fits_one_branch() -> None:
    """The rest takes one axis, as an LSTM's cell does; a size that chooses the other branch is an error that names the `If`."""
    model = squeezed([helper.make_node("Concat", ["row", "s"], ["y"], axis=0)], "y")
    prepared = relay.frontend.OnnxBackend.prepare(model, opt_level=1)
    x = np.array([[5.0], [7.0]], "float32")
    assert prepared.run([x])[0].tolist() == [0, 1, 5, 7]
    assert prepared.run([x[:0]])[0].tolist() == [0, 1]
    with pytest.raises(relay.RelayError) as caught:
        prepared.run([np.ones((2, 2), "float32")])
    message = caught.value.diagnostics[0].message
    assert message.startswith("If '/sq{}eeze': the condition is 0 at these sizes, but the rest of the model fits 1 only")
    assert "(1: then_branch): Concat" in message
    mod, _ = relay.frontend.from_onnx(model)
    assert relay.parse(mod.astext()).astext() == mod.astext()


def test_the_rest_fits_both_branches() -> None:
    nodes = [helper.make_node("Neg", ["s"], ["t"]), helper.make_node("ReduceSum", ["t"], ["y"], keepdims=0)]
    prepared = relay.frontend.OnnxBackend.prepare(squeezed(nodes, "y"), opt_level=1)
    for shape in (2, 1), (2, 3), (0, 1), (1, 0):
        x = np.arange(np.prod(shape), dtype="float32").reshape(shape)
        assert prepared.run([x])[0] == -x.sum()


def test_the_rest_fits_no_branch() -> None:
    nodes = [helper.make_node("Unsqueeze", ["row", "ones"], ["r"]), helper.make_node("Unsqueeze", ["r", "ones"], ["cube"]),
             helper.make_node("Concat", ["cube", "s"], ["y"], axis=0)]  # fmt: skip
    with pytest.raises(relay.RelayError, match=r"^error: If .*sq.*: the branches have different types: their ranks differ"):
        relay.frontend.from_onnx(squeezed(nodes, "y"))
    with pytest.raises(relay.RelayError, match="the branches have different types: their ranks differ"):
        relay.frontend.from_onnx(squeezed([], "s"))  # the result itself has two ranks
