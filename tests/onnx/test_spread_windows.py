"""Elements of windows put back to places that are known at run time only, beside ONNX's reference."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import relayvm as relay


@pytest.mark.extensive
def test_col2im_with_sizes_known_at_run_time() -> None:
    node = helper.make_node("Col2Im", ["x", "image", "block"], ["y"], strides=[2, 1], pads=[1, 0, 1, 1], dilations=[1, 2])
    infos = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "columns", "places"]),
        *(helper.make_tensor_value_info(n, TensorProto.INT64, [2]) for n in ("image", "block")),
    ]
    graph = helper.make_graph([node], "g", infos, [onnx.ValueInfoProto(name="y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    mod, params = relay.frontend.from_onnx(model)
    vm, reference = relay.VirtualMachine(relay.compile(mod, params=params)), ReferenceEvaluator(model)
    for n, channels, image, block in ((2, 3, (7, 6), (3, 2)), (1, 1, (1, 4), (1, 1)), (2, 1, (5, 5), (2, 1))):
        rows = (image[0] + 2 - block[0]) // 2 + 1
        columns = image[1] + 1 - 2 * (block[1] - 1)
        x = np.random.default_rng(1).normal(size=(n, channels * block[0] * block[1], rows * columns)).astype("float32")
        given = {"x": x, "image": np.array(image), "block": np.array(block)}
        np.testing.assert_allclose(vm.run(*given.values()).numpy(), reference.run(None, given)[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("node", "inputs", "text"),
    [
        (helper.make_node("DeformConv", ["x", "x", "x"], ["y"]), {"x": [1, 2, 3]},
         "the data has rank 3; deformable convolutions"),
        (helper.make_node("MaxUnpool", ["x", "i"], ["y"], kernel_shape=[2]), {"x": [1, 2, 3, 3], "i": [1, 2, 3, 3]},
         "kernel_shape has 1 numbers; 2 are wanted for 2 spatial axes"),
        (helper.make_node("Col2Im", ["x", "i", "j"], ["y"], pads=[1]), {"x": [1, 2, 3], "i": [2], "j": [2]},
         "pads has 1 numbers; 4 are wanted for 2 spatial axes"),
    ],
)  # fmt: skip
def test_attributes_that_do_not_fit(node: onnx.NodeProto, inputs: dict[str, list[int]], text: str) -> None:
    kinds = {n: TensorProto.FLOAT if n == "x" else TensorProto.INT64 for n in inputs}
    infos = [helper.make_tensor_value_info(n, kinds[n], s) for n, s in inputs.items()]
    graph = helper.make_graph([node], "g", infos, [onnx.ValueInfoProto(name="y")])
    with pytest.raises(relay.RelayError) as caught:
        relay.frontend.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)]))
    assert text in str(caught.value)
