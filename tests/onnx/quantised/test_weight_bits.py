"""MatMulNBits and GatherBlockQuantized, weights of few bits, beside numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import relayvm as relay

from ...ops.every_op.weights import in_bytes

_INPUTS = ("A", "B", "scales", "zero_points", "g_idx", "bias")


def model_of(
    stored: dict[str, np.ndarray], dtype: int = TensorProto.FLOAT, given: Any = ("rows", "inner"), **attributes: Any
) -> Any:
    """A model of one node ``product``; ``A`` is given, with open sizes."""
    names = [n if n == "A" or n in stored else "" for n in _INPUTS]
    node = helper.make_node("MatMulNBits", names, ["Y"], "product", domain="com.microsoft", **attributes)
    infos = [helper.make_tensor_value_info("A", dtype, given)], [onnx.ValueInfoProto(name="Y")]
    graph = helper.make_graph([node], "g", *infos, [numpy_helper.from_array(a, n) for n, a in stored.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)])


#: bits, block, inner, units, zero points, shape of the data, accuracy level, dtype
_CASES = [
    (4, 32, 100, 35, "none", (1, 100), 0, "float32"),
    (4, 16, 20, 6, "packed", (3, 20), 0, "float32"),
    (8, 64, 130, 17, "packed", (2, 3, 130), 0, "float32"),
    (2, 16, 33, 5, "packed", (7, 33), 0, "float32"),
    (4, 128, 300, 1, "float", (9, 300), 0, "float32"),
    (8, 256, 256, 16, "none", (70, 256), 0, "float32"),
    (4, 512, 1100, 33, "packed", (2, 1100), 0, "float32"),
    (4, 32, 64, 18, "float", (0, 64), 0, "float32"),
    (4, 32, 96, 18, "packed", (5, 96), 0, "float16"),
    (4, 32, 96, 40, "packed", (5, 96), 4, "float32"),
    (8, 16, 50, 40, "none", (67, 50), 4, "float32"),
]  # fmt: skip


@pytest.mark.parametrize("given_weight", [False, True])
def test_products_beside_numpy(given_weight: bool) -> None:
    """Stored weights are packed by the compiler; given ones are unpacked in each call."""
    for bits, block, inner, units, zeros, shape, level, dtype in _CASES[:: 3 if given_weight else 1]:
        rng = np.random.default_rng(bits * inner)
        blocks = -(-inner // block)
        numbers = rng.integers(0, 2**bits, (units, blocks, block))
        scales, x = rng.uniform(0.1, 1, (units, blocks)).astype(dtype), rng.uniform(-1, 1, shape).astype(dtype)
        points = np.full((units, blocks), 2 ** (bits - 1)) if zeros == "none" else rng.integers(0, 2**bits, (units, blocks))
        stored = {"B": in_bytes(numbers, bits), "scales": scales.ravel()}
        stored |= {"zero_points": in_bytes(points, bits).ravel()} if zeros == "packed" else {}
        stored |= {"zero_points": points.astype(dtype)} if zeros == "float" else {}
        model = model_of(
            stored, helper.np_dtype_to_tensor_dtype(x.dtype), [f"d{n}" for n in range(len(shape))], K=inner, N=units, bits=bits,
            block_size=block, accuracy_level=level,
        )  # fmt: skip
        mod, params = relay.frontend.from_onnx(model, freeze_params=not given_weight)
        machine = relay.VirtualMachine(relay.compile(mod) if given_weight else relay.compile(mod, params=params))
        found = machine.run(x, *params.values()) if given_weight else machine.run(x)
        weight = ((numbers - points[..., None]) * scales.astype(np.float64)[..., None]).reshape(units, -1)[:, :inner]
        wide = x.astype(np.float64)
        # half a step of each element where data are rounded to int8, else some roundings of float32
        bound = 1 / 250 * np.abs(weight).sum(1) if level == 4 else 2e-7 * (np.abs(wide) @ np.abs(weight).T)
        bound = bound + (2e-3 * np.abs(wide @ weight.T) if dtype == "float16" else 0)
        assert (np.abs(found.numpy().astype(np.float64) - wide @ weight.T) <= bound + 1e-6).all(), (bits, block, shape, level)


_RIGHT = {"K": 40, "N": 3, "bits": 4, "block_size": 32}


@pytest.mark.parametrize(
    ("wrong", "stored", "text", "help"),
    [
        ({"bits": 3}, {}, "weights of 3 bits are not supported", "quantise the weight to 2, 4, 8 bits"),
        ({"bits": 5}, {}, "weights of 5 bits are not supported", "quantise the weight to 2, 4, 8 bits"),
        ({"block_size": 24}, {}, "block_size is 24, which is no power of 2 from 16 on", "in blocks of 16, 32, 64 ... numbers"),
        ({"block_size": 8}, {}, "block_size is 8, which is no power of 2 from 16 on", "in blocks of 16, 32, 64 ... numbers"),
        ({"K": 0}, {}, "the attribute K is 0", "a size is 1 at least"),
        ({"K": 65}, {}, "rows of A have 40 elements, K is 65", "correct the attribute K"),
        ({"N": 4}, {}, "B has the shape [3, 2, 16]; K, N, bits and block_size ask for [4, 2, 16]", "correct the attributes"),
        ({}, {"scales": np.ones(5, "float32")}, "scales has the shape [5]; K, N, bits and block_size ask for [3, 2]", "correct"),
        ({}, {"zero_points": np.ones(6, "uint8")}, "zero_points has the shape [6]; K, N, bits and block_size ask for [3, 1]",
         "correct"),
        ({}, {"scales": np.full(6, np.nan, "float32")}, "element [0, 0] of scales is nan; a scale is finite",
         "quantise the model again"),
        ({}, {"g_idx": np.zeros(40, "int32")}, "a reordering of groups, g_idx, is not supported", "without a reordering"),
    ],
)  # fmt: skip
def test_weights_that_do_not_fit(wrong: dict[str, int], stored: dict[str, np.ndarray], text: str, help: str) -> None:
    arrays = {"B": np.zeros((3, 2, 16), "uint8"), "scales": np.ones(6, "float32"), **stored}
    with pytest.raises(relay.RelayError) as caught:
        relay.frontend.from_onnx(model_of(arrays, given=["rows", 40], **{**_RIGHT, **wrong}))
    for part in (f"MatMulNBits 'product': {text}", f"help: {help}" if not help.startswith(("in ", "without")) else help):
        assert part in str(caught.value)


# ---- rows of a table ---------------------------------------------------------------------------------------------------------


def table(dtype: int, shape: tuple[int, ...], block: int, axes: tuple[int, int], bits: int = 4, **wrong: Any) -> Any:
    """A model of GatherBlockQuantized and its table of floats; a dtype of 8 bits has pairs of numbers of 4 bits."""
    rng, (gathered, along), is_signed = np.random.default_rng(block), axes, dtype == TensorProto.INT4
    count = [-(-n // block) if k == along else n for k, n in enumerate(shape)]
    low, high, scales = -8 * is_signed, 2**bits - 8 * is_signed, rng.uniform(0.1, 1, count).astype("float32")
    numbers, points = rng.integers(low, high, shape), rng.integers(low, high, count)
    if dtype == TensorProto.UINT8 and bits == 4:
        tensors = [numpy_helper.from_array(in_bytes(a, 4), n) for n, a in (("data", numbers), ("zeros", points))]
    else:
        own = "int8" if is_signed else "uint8"
        tensors = [
            helper.make_tensor(n, dtype, a.shape, a.astype(own).ravel()) for n, a in (("data", numbers), ("zeros", points))
        ]
    attributes = {"gather_axis": gathered, "quantize_axis": along, "block_size": block, "bits": bits, **wrong}
    names = ["data", "at", "scales", "zeros"]
    node = helper.make_node("GatherBlockQuantized", names, ["y"], "rows", domain="com.microsoft", **attributes)
    infos = [helper.make_tensor_value_info("at", TensorProto.INT64, ["n", 2])], [onnx.ValueInfoProto(name="y")]
    graph = helper.make_graph([node], "g", *infos, [*tensors, numpy_helper.from_array(scales, "scales")])
    whole = [np.take(np.repeat(a, block, along), range(shape[along]), along) for a in (points, scales.astype(np.float64))]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets), (numbers - whole[0]) * whole[1]


@pytest.mark.parametrize(("dtype", "shape", "block", "axes", "bits"), [
    (TensorProto.UINT8, (10, 38), 16, (0, 1), 4),
    (TensorProto.UINT8, (10, 70), 32, (0, 1), 8),
    (TensorProto.INT4, (40, 6), 16, (1, 0), 4),
    (TensorProto.UINT4, (4, 5, 48), 16, (1, 2), 4),
])  # fmt: skip
def test_rows_beside_numpy(dtype: int, shape: tuple[int, ...], block: int, axes: tuple[int, int], bits: int) -> None:
    model, wanted = table(dtype, shape, block, axes, bits)
    mod, params = relay.frontend.from_onnx(model)
    machine = relay.VirtualMachine(relay.compile(mod, params=params))
    for rows in (0, 1, 3):
        at = np.random.default_rng(rows).integers(-shape[axes[0]], shape[axes[0]], (rows, 2))
        np.testing.assert_allclose(machine.run(at).numpy(), np.take(wanted, at, axes[0]), rtol=1e-6)


@pytest.mark.parametrize(("wrong", "text", "help"), [
    ({"bits": 3}, "data of 3 bits are not supported", "quantise the data to 4 or 8 bits"),
    ({"block_size": 24}, "block_size is 24, which is no power of 2 from 16 on",
     "quantise the data in blocks of 16, 32, 64 ... numbers"),
    ({"block_size": 32}, "scales has the shape [10, 3]; the data, quantize_axis and block_size ask for [10, 2]",
     "correct the attributes, or quantise the data again"),
    ({"quantize_axis": 0}, "gather_axis and quantize_axis are both 0",
     "gather along another axis than that of the blocks"),
    ({"gather_axis": 1, "quantize_axis": 0}, "quantize_axis is 0, but bytes have pairs of the axis 1", "quantise the last axis"),
])  # fmt: skip
def test_rows_that_do_not_fit(wrong: dict[str, int], text: str, help: str) -> None:
    with pytest.raises(relay.RelayError) as caught:
        relay.frontend.from_onnx(table(TensorProto.UINT8, (10, 38), 16, (0, 1), **{"bits": 4, **wrong})[0])
    assert f"error: GatherBlockQuantized 'rows': {text}" in str(caught.value)
    assert f"help: {help}" in str(caught.value)
