"""Resize at sizes that are known at run time: one sum per axis, positions computed once, results of ONNX's reference."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import relayvm as relay


def model_of(kind, scales, **attrs):
    nodes = [helper.make_node("Resize", ["x", "", "s"], ["y"], **attrs)]
    tensors = [helper.make_tensor_value_info(n, kind, s) for n, s in (("x", ["b", 2, "h", "w"]), ("y", None))]
    graph = helper.make_graph(nodes, "g", tensors[:1], tensors[1:], [numpy_helper.from_array(np.array(scales, "float32"), "s")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


CASES = [
    ([1, 1, 2, 2], {"mode": "linear"}), ([1, 1, 0.5, 1.5], {"mode": "linear"}), ([1, 1, 1.5, 2], {"mode": "nearest"}),
    ([1, 1, 2, 1.25], {"mode": "cubic", "exclude_outside": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("scales", "attrs"), CASES)
def test_sizes_at_run_time(scales, attrs):
    model = model_of(TensorProto.FLOAT, scales, **attrs)
    module, params = relay.frontend.from_onnx(model)
    vm = relay.VirtualMachine(relay.compile(module, params=params))
    for shape in ((1, 2, 4, 6), (2, 2, 8, 4)):
        x = np.random.default_rng(0).normal(size=shape).astype("float32")
        (want,) = ReferenceEvaluator(model).run(None, {"x": x})
        np.testing.assert_allclose(vm.run(x).numpy(), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("scales", "attrs"), CASES)
def test_positions_are_not_computed_for_each_element(scales, attrs):
    module, _ = relay.frontend.from_onnx(
        model_of(TensorProto.UINT8 if attrs["mode"] == "linear" else TensorProto.FLOAT, scales, **attrs)
    )
    text = module.astext()
    # of the nearest elements one axis is repeated by a whole scale
    assert text.count("annotation.stop_fusion") >= (1 if attrs["mode"] == "nearest" else 2)
    assert text.count("take(") >= 2 and ("weighted_take(" in text) == (attrs["mode"] != "nearest")
