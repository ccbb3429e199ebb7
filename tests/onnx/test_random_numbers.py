"""Random numbers: their distributions, and that each node has numbers of its own, the same in each run."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import relayvm as relay

FLOAT, DOUBLE, HALF, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16, onnx.TensorProto.INT64


def model(*nodes: Any, shape: tuple[Any, ...] = (40, 50)) -> Any:
    info = helper.make_tensor_value_info("x", FLOAT, shape)
    results = [onnx.ValueInfoProto(name=node.output[0]) for node in nodes]
    graph = helper.make_graph(list(nodes), "g", [info], results)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def test_random_numbers() -> None:
    node = helper.make_node
    nodes = [
        node("RandomNormal", [], ["a"], shape=[4000], mean=3.0, scale=0.5),
        node("RandomNormal", [], ["b"], shape=[4000], mean=3.0, scale=0.5),
        node("RandomNormal", [], ["c"], shape=[4000], seed=2.5, dtype=DOUBLE),
        node("RandomNormal", [], ["d"], shape=[4000], seed=2.5, dtype=DOUBLE),
        node("RandomUniform", [], ["e"], shape=[40, 100], low=-1.0, high=3.0, dtype=HALF),
        node("RandomNormalLike", ["x"], ["f"], seed=1.0),
        node("RandomUniformLike", ["x"], ["g"], dtype=DOUBLE),
        node("Multinomial", ["x"], ["h"], sample_size=30, dtype=INT64),
        node("Bernoulli", ["p"], ["k"], dtype=INT64),
        node("Exp", ["x"], ["p"]),
    ]
    nodes = [*nodes[-1:], *nodes[:-1]]  # `p` is an input of others
    x = np.full((40, 50), -np.inf, "float32")
    x[:, 7], x[:, 11] = np.log(3), 0.0
    module, _ = relay.frontend.from_onnx(model(*nodes), convert_config={"use_nt_batch_matmul": False})
    vm = relay.VirtualMachine(relay.compile(module))
    p, *found = [value.numpy() for value in vm.run(x)]
    for before, again in zip(found, list(vm.run(x))[1:], strict=True):
        assert np.array_equal(before, again.numpy())
    a, b, c, d, e, f, g, h, k = found
    assert [v.dtype for v in found] == ["float32"] * 2 + ["float64"] * 2 + ["float16", "float32", "float64", "int64", "int64"]
    assert (k[p == 0] == 0).all() and (k[p >= 1] == 1).all()
    assert not np.array_equal(a, b) and np.array_equal(c, d) and f.shape == g.shape == (40, 50) and h.shape == (40, 30)
    for values, mean, deviation in ((a, 3, 0.5), (c, 0, 1), (e, 1, 4 / 12**0.5), (f, 0, 1), (g, 0.5, 1 / 12**0.5)):
        assert abs(values.mean(dtype="float64") - mean) < 0.08 and abs(values.std(dtype="float64") - deviation) < 0.05
    assert e.min() >= -1 and e.max() <= 3 and set(np.unique(h)) == {7, 11} and abs((h == 7).mean() - 0.75) < 0.05


def test_wrong_uses() -> None:
    like = model(helper.make_node("RandomNormalLike", ["x"], ["a"]), shape=(None, 3))
    with pytest.raises(relay.ModelError, match="the sizes of its input must be known"):
        relay.frontend.from_onnx(like)
    assert relay.frontend.from_onnx(like, shape={"x": (2, 3)})
    with pytest.raises(relay.ArgumentError, match="a key of convert_config must be one of use_nt_batch_matmul, not the str 'nt'"):
        relay.frontend.from_onnx(like, convert_config={"nt": True})
