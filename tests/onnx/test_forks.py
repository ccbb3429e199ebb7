"""An `If` whose branches have results of different ranks: what becomes of the rest of the graph."""

from __future__ import annotations

from collections.abc import Sequence
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


def chosen_by(nodes: list[Any], x: Sequence[Any], result: Sequence[Any]) -> onnx.ModelProto:
    """`y`: `x` without axes of size 1 if the flag `c` is set, else `x`; then ``nodes``, the last of which gives `z`."""
    graphs = {
        f"{name}_branch": helper.make_graph([helper.make_node(op, ["x"], [name])], name, [], [onnx.ValueInfoProto(name=name)])
        for name, op in (("then", "Squeeze"), ("else", "Identity"))
    }
    infos = [helper.make_tensor_value_info("x", TensorProto.FLOAT, x), helper.make_tensor_value_info("c", TensorProto.BOOL, [])]
    declared = [helper.make_tensor_value_info("z", TensorProto.FLOAT, result)]
    graph = helper.make_graph([helper.make_node("If", ["c"], ["y"], **graphs), *nodes], "g", infos, declared)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def test_a_branch_has_a_value_of_unknown_rank() -> None:
    prepared = relay.frontend.OnnxBackend.prepare(chosen_by([helper.make_node("Neg", ["y"], ["z"])], ["n", "m"], ["n", "m"]))
    for shape in (2, 3), (0, 1), (1, 1):
        x = np.ones(shape, "float32")
        np.testing.assert_array_equal(prepared.run([x, np.array(False)])[0], -x)
    with pytest.raises(relay.RelayError, match=r"the condition is 1 at these sizes, but .*: without axes, every size"):
        prepared.run([np.ones((2, 3), "float32"), np.array(True)])
    with pytest.raises(relay.RelayError, match=r"Squeeze .*: without axes, every size must be known at import"):
        relay.frontend.from_onnx(chosen_by([helper.make_node("Neg", ["y"], ["z"])], ["n", "m"], ["n"]))


def test_the_condition_of_a_fork_decides_ranks() -> None:
    """The declared rank of the result reaches the reshape through the branch that is taken."""
    result = [onnx.ValueInfoProto(name="w")]
    graphs = {
        f"{name}_branch": helper.make_graph([helper.make_node(op, inputs, ["w"])], name, [], result)
        for name, op, inputs in (("then", "Squeeze", ["r"]), ("else", "Identity", ["r"]))
    }
    nodes = [helper.make_node("Reshape", ["y", "s"], ["r"]), helper.make_node("If", ["c"], ["z"], **graphs)]
    model = chosen_by(nodes, ["n", "m"], ["a", "b", "c"])
    model.graph.input.append(helper.make_tensor_value_info("s", TensorProto.INT64, ["k"]))
    prepared = relay.frontend.OnnxBackend.prepare(model)
    x = np.arange(6, dtype="float32").reshape(2, 3)
    [have] = prepared.run([x, np.array(False), np.array([3, 1, 2])])
    np.testing.assert_array_equal(have, x.reshape(3, 1, 2))


def test_the_rest_fits_no_branch() -> None:
    nodes = [helper.make_node("Unsqueeze", ["row", "ones"], ["r"]), helper.make_node("Unsqueeze", ["r", "ones"], ["cube"]),
             helper.make_node("Concat", ["cube", "s"], ["y"], axis=0)]  # fmt: skip
    with pytest.raises(relay.RelayError, match=r"^error: If .*sq.*: the branches have different types: their ranks differ"):
        relay.frontend.from_onnx(squeezed(nodes, "y"))
    with pytest.raises(relay.RelayError, match="the branches have different types: their ranks differ"):
        relay.frontend.from_onnx(squeezed([], "s"))  # the result itself has two ranks
