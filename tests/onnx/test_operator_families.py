"""Operators on tensors: the types of their results, and their values at several sizes against ONNX's own evaluator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import relayvm as relay

RNG = np.random.default_rng(5)


def floats(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype("float32")


def ints(*values: Any) -> np.ndarray:
    return np.array(values, "int64")


@dataclass(frozen=True)
class Row:
    """A node, the declared sizes of its inputs, inputs at several sizes, stored inputs, and the types of its results."""

    node: Any
    shapes: dict[str, list[Any]]
    runs: list[list[np.ndarray]]
    types: str
    stored: dict[str, np.ndarray]
    version: int = 20

    def model(self) -> Any:
        """The model of the node."""
        infos = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), shape)
            for (name, shape), a in zip(self.shapes.items(), self.runs[0], strict=True)
        ]
        outputs = [onnx.ValueInfoProto(name=o) for o in self.node.output]
        tensors = [numpy_helper.from_array(a, n) for n, a in self.stored.items()]
        graph = helper.make_graph([self.node], "g", infos, outputs, tensors)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.version)])


def row(op: str, shapes: dict[str, list[Any]], runs: list[list[np.ndarray]], types: str, stored: dict[str, Any] | None = None,
        *, version: int = 20, order: str = "", outputs: int = 1, **attributes: Any) -> Row:  # fmt: skip
    """A row; ``order``: the names of the inputs, by default those of ``shapes`` and ``stored``."""
    stored = stored or {}
    names = order.split(",") if order else [*shapes, *stored]
    node = helper.make_node(op, names, [f"y{k}" for k in range(outputs)], **attributes)
    return Row(node, shapes, runs, types, stored, version)


N = "n"
TABLE = [
    row("CumSum", {"x": [N, 3], "a": []}, [[floats(4, 3), ints(1)[0]], [floats(0, 3), ints(-2)[0]]], "(?n, 3), float32",
        exclusive=1, reverse=1),
    row("GatherND", {"x": [2, N, 3], "i": [2, "m", 1]}, [[floats(2, 4, 3), ints([[1], [-1]], [[0], [3]])]],
        "(2, ?m, 3), float32", batch_dims=1),
    row("ScatterND", {"x": [N, 3], "i": ["m", 1], "u": ["m", 3]}, [[floats(4, 3), ints([1], [3]), floats(2, 3)]],
        "(?n, 3), float32", reduction="add"),
    row("Compress", {"x": [N, 3], "c": ["m"]}, [[floats(4, 3), np.array([True, False, True])]], "(?, 3), float32", axis=0),
    row("NonZero", {"x": [N, 3]}, [[np.eye(4, 3, dtype="float32")], [floats(0, 3)]], "(2, ?), int64"),
    row("OneHot", {"i": [N], "d": [], "v": [2]}, [[ints(1, -1, 9), ints(4)[0], floats(2)]], "(?n, ?), float32"),
    row("TopK", {"x": [N, 5], "k": [1]}, [[floats(3, 5), ints(2)], [floats(1, 5), ints(0)]],
        "(?, ?), float32], Tensor[(?, ?), int64", outputs=2, largest=0),
    row("Unique", {"x": [N, 3]}, [[np.array([[1, 2, 0], [0, 9, 9], [1, 2, 0], [0, 9, 1]], "float32")]],
        "(?, 3), float32], Tensor[(?), int64], Tensor[(?n), int64], Tensor[(?), int64", outputs=4, axis=0),
    row("Det", {"x": [N, 3, 3]}, [[floats(2, 3, 3)], [floats(0, 3, 3)]], "(?n), float32"),
    row("DFT", {"x": [N, "m", 1]}, [[floats(2, 6, 1)], [floats(1, 5, 1)]], "(?, ?, 2), float32",
        {"l": ints(6)[0], "a": ints(1)[0]}, onesided=1),
    row("STFT", {"x": [N, "m", 1], "w": [4]}, [[floats(2, 16, 1), floats(4)]], "(?n, ?, 3, 2), float32", {"s": ints(3)[0]},
        order="x,s,w"),
    row("Resize", {"x": [1, N, "h", "w"]}, [[floats(1, 2, 3, 5)], [floats(1, 1, 1, 2)]], "(1, ?n, ?, ?), float32",
        {"s": np.array([1, 1, 1.7, 0.6], "float32")}, order="x,,s", mode="cubic", antialias=1, version=18),
    row("Resize", {"x": [N, "h"], "t": [2]}, [[floats(2, 3), ints(2, 7)], [floats(1, 4), ints(3, 1)]], "(?, ?), float32",
        order="x,,,t", mode="linear", coordinate_transformation_mode="align_corners"),
    row("GridSample", {"x": [N, 2, "h", "w"], "g": [N, "a", "b", 2]}, [[floats(1, 2, 4, 3), floats(1, 2, 5, 2)]],
        "(?n, 2, ?a, ?b), float32", mode="cubic", padding_mode="reflection"),
    row("AffineGrid", {"t": [N, 2, 3], "s": [4]}, [[floats(2, 2, 3), ints(2, 1, 3, 5)], [floats(1, 2, 3), ints(1, 1, 4, 2)]],
        "(?n, ?, ?, 2), float32", align_corners=1),
    row("TfIdfVectorizer", {"x": [N, "m"]}, [[ints([1, 2, 1, 3, 2, 1], [2, 1, 2, 2, 1, 2])], [ints([3])]], "(?n, 5), float32",
        mode="TFIDF", min_gram_length=1, max_gram_length=2, max_skip_count=2, ngram_counts=[0, 2], ngram_indexes=[0, 3, 1, 4],
        pool_int64s=[1, 2, 2, 1, 1, 2], weights=[0.5, 2.0, 1.0, 3.0, 4.0]),
    row("DepthToSpace", {"x": [N, 8, "h", "w"]}, [[floats(1, 8, 2, 3)], [floats(0, 8, 1, 1)]], "(?n, 2, ?, ?), float32",
        version=13, blocksize=2, mode="CRD"),
    row("SpaceToDepth", {"x": [N, 3, "h", "w"]}, [[floats(2, 3, 4, 6)]], "(?n, 12, ?, ?), float32", version=28, blocksize=2,
        mode="CRD"),
    row("SpaceToDepth", {"x": [N, 3, "h", "w"]}, [[floats(2, 3, 4, 6)]], "(?n, 12, ?, ?), float32", version=11, blocksize=2),
    row("Hardmax", {"x": [N, "m"]}, [[np.array([[3, 0, 3], [0, 2, 1]], "float32")], [floats(0, 4)]], "(?n, ?), float32"),
    row("RoiAlign", {"x": [N, 2, "h", "w"], "r": ["k", 4], "b": ["k"]},
        [[floats(1, 2, 6, 5), np.array([[0.3, 0.2, 4.1, 3.3], [1, 1, 1.5, 1.2]], "float32"), ints(0, 0)]],
        "(?k, 2, 2, 3), float32", output_height=2, output_width=3),
    row("RoiAlign", {"x": [N, 2, "h", "w"], "r": ["k", 4], "b": ["k"]},
        [[floats(2, 2, 6, 5), np.array([[0.3, 0.2, 4.1, 3.3], [1, 1, 1.5, 1.2], [2, 3, 4, 5]], "float32"), ints(0, 1, 0)],
         [floats(1, 2, 3, 4), np.zeros((0, 4), "float32"), ints()]],
        "(?k, 2, 2, 3), float32", output_height=2, output_width=3, sampling_ratio=2, spatial_scale=0.5,
        coordinate_transformation_mode="output_half_pixel"),
    row("ConvTranspose", {"x": [N, 2, "w"]}, [[floats(2, 2, 5)]], "(?n, 3, ?), float32", {"k": floats(2, 3, 3)},
        strides=[2], pads=[1, 0], output_padding=[1]),
    row("MaxPool", {"x": [N, 2, "w"]}, [[floats(2, 2, 7)]], "(?n, 2, ?), float32], Tensor[(?n, 2, ?), int64", outputs=2,
        kernel_shape=[3], strides=[2], pads=[1, 1]),
    row("LpPool", {"x": [N, 2, "w"]}, [[floats(2, 2, 7)]], "(?n, 2, ?), float32", kernel_shape=[2], p=3),
    row("Einsum", {"x": [N, 3], "z": [3, "m"]}, [[floats(2, 3), floats(3, 4)]], "(?m, ?n), float32", equation="ij,jk->ki"),
    row("MatMul", {"x": [N, 4, "m", 3], "z": [N, 4, 3, "k"]},
        [[floats(2, 4, 5, 3), floats(2, 4, 3, 1)], [floats(0, 4, 1, 3), floats(0, 4, 3, 2)],
         [floats(1, 4, 0, 3), floats(1, 4, 3, 2)]],
        "(?n, 4, ?m, ?k), float32"),
    row("MatMul", {"x": [4, N, "m", 3], "z": [4, N, 3, "k"]}, [[floats(4, 2, 5, 3), floats(4, 2, 3, 1)]],
        "(4, ?n, ?m, ?k), float32"),
    row("MatMul", {"x": [N, "h", "m", 3], "z": [N, "h", 3, "k"]}, [[floats(2, 4, 5, 3), floats(2, 4, 3, 1)]],
        "(?, ?, ?, ?), float32"),
    row("LinearAttention", {"q": [N, "m", 12], "k": [N, "m", 6], "v": [N, "m", 8], "g": [N, "m", 6], "b": [N, "m", 1]},
        [[floats(b, s, 12), floats(b, s, 6), floats(b, s, 8), -floats(b, s, 6) ** 2, floats(b, s, 1)]
         for b, s in ((2, 5), (3, 0), (0, 4), (1, 1))],
        "(?, ?, ?), float32], Tensor[(?, 2, 3, 4), float32", version=27, order="q,k,v,,g,b", outputs=2,
        q_num_heads=4, kv_num_heads=2),
    row("LinearAttention", {"q": [N, "m", 6], "k": [N, "m", 6], "v": [N, "m", 8], "p": [N, 2, 3, 4]},
        [[floats(b, s, 6), floats(b, s, 6), floats(b, s, 8), floats(b, 2, 3, 4)] for b, s in ((2, 3), (3, 0))],
        "(?, ?, ?), float32], Tensor[(?, 2, 3, 4), float32", version=27, outputs=2, q_num_heads=2, kv_num_heads=2,
        update_rule="linear", scale=0.5),
    row("MatMul", {"x": [N, 4, "m", 3], "z": ["l", 4, 3, "k"]}, [[floats(2, 4, 5, 3), floats(1, 4, 3, 1)]], "Tensor[(?, "),
]  # fmt: skip
IDS = [f"{r.node.op_type}{k}" for k, r in enumerate(TABLE)]


@pytest.mark.parametrize("case", TABLE, ids=IDS)
def test_types(case: Row) -> None:
    mod = relay.transform.InferType()(relay.frontend.from_onnx(case.model())[0])
    assert case.types in str(mod["main"].body.checked_type).replace("?n0", "?n")


@pytest.mark.extensive
@pytest.mark.parametrize("case", TABLE, ids=IDS)
def test_values(case: Row) -> None:
    prepared = relay.frontend.OnnxBackend.prepare(case.model())
    reference = ReferenceEvaluator(case.model())
    for arrays in case.runs:
        have = prepared.run(list(arrays))
        want = reference.run(None, dict(zip(case.shapes, arrays, strict=True)))
        for a, b in zip(have, want, strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.extensive
def test_hardmax_before_version_13() -> None:
    model = row("Hardmax", {"x": [N, 3, 2]}, [[floats(4, 3, 2)]], "", version=11).model()  # over all axes from 1 on
    x = floats(4, 3, 2)
    [have] = relay.frontend.OnnxBackend.prepare(model).run([x])
    np.testing.assert_array_equal(have.reshape(4, 6), np.eye(6)[x.reshape(4, 6).argmax(1)])


def test_regions_of_images_whose_corners_are_no_numbers_are_outside() -> None:
    """Boxes of a network may be anything; a picture that is not there is an error."""
    (given,) = (each for each in TABLE if each.node.op_type == "RoiAlign" and len(each.node.attribute) > 2)
    machine = relay.VirtualMachine(relay.compile(relay.frontend.from_onnx(given.model())[0]))
    data = np.ones((1, 2, 6, 5), "float32")
    for corners in ([np.nan, 0, 1, 1], [0, 0, np.nan, np.nan], [np.inf] * 4, [-np.inf, 0, np.inf, 1], [1e30, 1e30, 2e30, 2e30]):
        result = machine.run(data, np.array([corners, [1, 1, 4, 4]], "float32"), ints(0, 0)).numpy()
        assert (result[0] == 0).all() and (result[1] == 1).all()
    with pytest.raises(relay.VMError, match="an index is out of range"):
        machine.run(data, np.array([[1, 1, 4, 4]], "float32"), ints(1))
