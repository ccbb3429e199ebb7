"""Quantised operators of com.microsoft, beside numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import relayvm as relay

DTYPES = {"float32": TensorProto.FLOAT, "uint8": TensorProto.UINT8, "int8": TensorProto.INT8, "bool": TensorProto.BOOL}
RNG = np.random.default_rng(0)


def model_of(op: str, inputs: dict[str, np.ndarray], given: tuple[str, ...], outputs: int = 1, **attributes: Any) -> Any:
    """A model of one node; the inputs ``given`` are its own, with an open first size, all others are stored."""
    names = ["" if n.startswith("_") else n for n in inputs]
    node = helper.make_node(op, names, [f"y{k}" for k in range(outputs)], domain="com.microsoft", **attributes)
    infos = [
        helper.make_tensor_value_info(n, DTYPES[inputs[n].dtype.name], ["rows", *inputs[n].shape[1:]]) for n in given
    ]  # fmt: skip
    stored = [numpy_helper.from_array(np.asarray(a), n) for n, a in inputs.items() if n not in given and not n.startswith("_")]
    graph = helper.make_graph([node], "g", infos, [onnx.ValueInfoProto(name=f"y{k}") for k in range(outputs)], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)])


def results(op: str, inputs: dict[str, np.ndarray], given: tuple[str, ...], **attributes: Any) -> list[np.ndarray]:
    mod, params = relay.frontend.from_onnx(model_of(op, inputs, given, **attributes))
    found = relay.VirtualMachine(relay.compile(mod, params=params)).run(*(inputs[n] for n in given))
    return [r.numpy() for r in (found if isinstance(found, (tuple, list)) else [found])]


def of_bytes(*shape: int, dtype: str = "uint8") -> np.ndarray:
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max, shape, endpoint=True).astype(dtype)


def real(x: np.ndarray, scale: float, zero: int) -> np.ndarray:
    return (x.astype("int64") - zero) * np.float32(scale)


def quantised(x: np.ndarray, scale: float, zero: int) -> np.ndarray:
    return np.clip(np.rint(x / np.float32(scale)) + zero, 0, 255).astype("uint8")


def parameters(*pairs: tuple[float, int]) -> list[np.ndarray]:
    return [p for scale, zero in pairs for p in (np.float32(scale), np.uint8(zero))]


@pytest.mark.extensive
def test_sums_and_joins() -> None:
    a, b = of_bytes(3, 4), of_bytes(3, 4)
    sa, za, sb, zb, s, z = parameters((0.031, 5), (0.0521, 100), (0.0613, 7))
    (found,) = results("QLinearAdd", {"a": a, "sa": sa, "za": za, "b": b, "sb": sb, "zb": zb, "s": s, "z": z}, ("a", "b"))
    np.testing.assert_array_equal(found, quantised(real(a, 0.031, 5) + real(b, 0.0521, 100), 0.0613, 7))
    inputs = {"s": s, "z": z, "a": a, "sa": sa, "za": za, "b": b, "sb": sb, "zb": zb}
    (found,) = results("QLinearConcat", inputs, ("a", "b"), axis=-1)
    wanted = np.concatenate([real(a, 0.031, 5), real(b, 0.0521, 100)], 1)
    np.testing.assert_array_equal(found, quantised(wanted, 0.0613, 7))


def test_a_product_of_data_that_are_quantised_first() -> None:
    a, b = RNG.uniform(-1, 1, (3, 8)).astype("float32"), of_bytes(8, 5, dtype="int8")
    (found,) = results("DynamicQuantizeMatMul", {"a": a, "b": b, "sb": np.float32(0.02), "zb": np.int8(3)}, ("a",))
    np.testing.assert_allclose(found, a @ real(b, 0.02, 3), atol=8 * 0.01 * 0.02 * 128)  # half a step of each element of a


@pytest.mark.parametrize(("opset", "shape"), [(12, (3, 8)), (13, (3, 4, 2))])
def test_softmax_of_both_versions(opset: int, shape: tuple[int, ...]) -> None:
    """Before version 13 all axes from ``axis`` on are one."""
    x, (scale_x, zero_x, scale, zero) = of_bytes(3, 4, 2), parameters((0.03, 120), (1 / 256, 0))
    inputs = {"x": x, "sx": scale_x, "zx": zero_x, "s": scale, "z": zero}
    (found,) = results("QLinearSoftmax", inputs, ("x",), opset=opset, axis=1)
    powers = np.exp(real(x, 0.03, 120).reshape(shape))
    wanted = quantised((powers / powers.sum(1, keepdims=True)).reshape(x.shape), 1 / 256, 0)
    np.testing.assert_allclose(found.astype("int64"), wanted, atol=1)


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "text"),
    [
        ("QLinearConcat", {"a": np.float32(1), "z": np.uint8(1), "b": of_bytes(3, 4)}, {"axis": 0},
         "it has 1 inputs for the joined tensors; there are three for each: data, scale, zero point"),
    ],
)  # fmt: skip
def test_what_does_not_fit(op: str, inputs: dict[str, Any], attributes: dict[str, Any], text: str) -> None:
    with pytest.raises(relay.RelayError) as caught:
        relay.frontend.from_onnx(model_of(op, inputs, ("b",), **attributes))
    assert text in str(caught.value)
