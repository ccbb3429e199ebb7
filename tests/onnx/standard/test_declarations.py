"""Declared shapes that contradict what nodes compute, and tensors that a model stores sparse."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import relayvm as relay

from ..test_import import model_of
from .test_standard import results

FLOAT = TensorProto.FLOAT


def reshaped(inside: Sequence[Any] | None, output: Sequence[Any] | None) -> onnx.ModelProto:
    """``relu(reshape(x, (-1, 2, 2)))`` with these shapes declared for the value inside and for the output."""
    nodes = [
        helper.make_node("Reshape", ["x", "s"], ["z"], name="/r"),
        helper.make_node("Relu", ["z"], ["y"], name="/relu"),
    ]
    model = model_of(nodes, {"x": ["n", 4]}, ["y"], {"s": np.array([-1, 2, 2])})
    if inside is not None:
        model.graph.value_info.append(helper.make_tensor_value_info("z", FLOAT, inside))
    if output is not None:
        model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", FLOAT, output))
    return model


@pytest.mark.parametrize(
    ("inside", "output", "text"),
    [
        (["n", 4], None, "Reshape '/r': the value 'z' has the shape (?, 2, 2), but it is declared with the shape (?, 4)"),
        (["n", 2, 3], None, "Reshape '/r': the value 'z' has the shape (?, 2, 2), but it is declared with the shape (?, 2, 3)"),
        (None, ["n", 4], "Relu '/relu': the value 'y' has the shape (?, 2, 2), but it is declared with the shape (?, 4)"),
    ],
    ids=["rank", "size", "output"],
)  # fmt: skip
def test_a_declared_shape_that_is_wrong_is_a_warning(inside: Any, output: Any, text: str) -> None:
    """Of onnxruntime the same models run, with a warning."""
    with pytest.warns(relay.frontend.ModelWarning) as caught:
        found = results(reshaped(inside, output), x=np.ones((1, 4), "float32"))
    assert [str(w.message) for w in caught] == [f"<model>: {text}; the declaration is ignored"]
    assert found[0].tolist() == [[[1, 1], [1, 1]]]


def test_a_body_that_is_converted_twice_warns_once() -> None:
    inner = helper.make_graph(
        [helper.make_node("Add", ["s", "one"], ["t"]), helper.make_node("Identity", ["c"], ["d"])], "body",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []), helper.make_tensor_value_info("c", TensorProto.BOOL, []),
         helper.make_tensor_value_info("s", FLOAT, None)],
        [helper.make_tensor_value_info("d", TensorProto.BOOL, []),
         helper.make_tensor_value_info("t", FLOAT, [3, 3, 3])])  # fmt: skip
    loop = helper.make_node("Loop", ["m", "", "x"], ["y"], body=inner)
    model = model_of([loop], {"x": ["n"]}, ["y"], {"m": np.array(2), "one": np.float32(1)})
    with pytest.warns(relay.frontend.ModelWarning, match="the value 't' has the shape") as caught:
        relay.frontend.from_onnx(model)
    assert len(caught) == 1


def test_unknown_sizes_and_replaced_inputs_are_no_contradiction() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        relay.frontend.from_onnx(reshaped(["n", "a", "b"], ["m", 2, "c"]))
        relay.frontend.from_onnx(reshaped(["n", 4], None), shape={"x": (2, 4)})


# ---- sparse tensors ------------------------------------------------------------------------------------------------------------


def sparse(name: str, array: np.ndarray, is_flat: bool) -> onnx.SparseTensorProto:
    positions = np.flatnonzero(array) if is_flat else np.argwhere(array)
    values = numpy_helper.from_array(array[array != 0], name)
    return helper.make_sparse_tensor(values, numpy_helper.from_array(positions.astype("int64"), ""), array.shape)


@pytest.mark.parametrize("is_flat", [True, False], ids=["flat", "by_axis"])
@pytest.mark.parametrize("shape", [(2, 3), (4,), (0, 3), ()], ids=str)
def test_a_stored_sparse_tensor_has_its_zeros(shape: tuple[int, ...], is_flat: bool) -> None:
    w = np.zeros(shape, "float32")
    w.reshape(-1)[1::2] = 5
    model = model_of([helper.make_node("Add", ["x", "w"], ["y"])], {"x": list(shape)}, ["y"])
    model.graph.sparse_initializer.append(sparse("w", w, is_flat))
    assert relay.frontend.from_onnx(model, freeze_params=False)[1]["w"].tolist() == w.tolist()


def test_a_sparse_constant() -> None:
    w = np.array([[0, 7], [8, 0]], "float32")
    made = helper.make_node("Constant", [], ["w"], sparse_value=sparse("", w, False))
    (y,) = results(
        model_of([made, helper.make_node("Add", ["x", "w"], ["y"])], {"x": [2, 2]}, ["y"]), x=np.ones((2, 2), "float32")
    )
    assert y.tolist() == [[1, 8], [9, 1]]
