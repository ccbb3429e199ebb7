"""Products of floats with weights behind DequantizeLinear: the bits that are stored are read, whatever the form of the weight."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import relayvm as relay

K, N = 96, 64
#: The dtype of ONNX, the range, and the dtype of arrays.
INTEGERS = {
    "int8": (TensorProto.INT8, -128, 127, "int8"),
    "uint8": (TensorProto.UINT8, 0, 255, "uint8"),
    "int4": (TensorProto.INT4, -8, 7, "int8"),
    "uint4": (TensorProto.UINT4, 0, 15, "uint8"),
    "int2": (TensorProto.INT2, -2, 1, "int8"),
}
#: The nodes between the weight and the product, and whether the stored rows are columns of the product.
ORDERS = {
    "matmul": (["DequantizeLinear w > d", "MatMul x d > y"], False),
    "transposed": (["DequantizeLinear w > d", "Transpose d > t", "MatMul x t > y"], True),
    "transposed bytes": (["Transpose w > t", "DequantizeLinear t > d", "MatMul x d > y"], True),
    "gemm": (["DequantizeLinear w > d", "Gemm x d bias > y"], False),
    "gemm of rows": (["DequantizeLinear w > d", "Gemm x d bias > y transB"], True),
}


class Weight:
    """A weight, and a model that multiplies by it; ``block``: of a scale along the inner axis, 0: for all, 1: for each column."""

    def __init__(self, dtype: str, order: str, block: int, *, inner: int = K, has_zeros: bool = True) -> None:
        number, low, high, own = INTEGERS[dtype]
        rng, (nodes, by_rows) = np.random.default_rng(inner + block), ORDERS[order]
        values = rng.integers(low, high, (inner, N), endpoint=True)
        shape = {0: (), 1: (1, N)}.get(block, (-(-inner // max(block, 1)), N))
        scale = rng.uniform(0.1, 1, shape).astype("float32")
        zeros = rng.integers(low, high, shape, endpoint=True) if has_zeros else np.zeros(shape, "int64")
        each = [np.repeat(p, -(-inner // shape[0]) if block == 1 else block, 0)[:inner] if block else p for p in (scale, zeros)]
        self.matrix = (values - each[1]) * each[0].astype(np.float64)
        self.bias = rng.standard_normal(N).astype("float32") if "gemm" in order else np.zeros(N, "float32")
        flips, given = by_rows and order != "transposed bytes", [scale, zeros]
        if block == 1:
            given = [p.reshape(N) for p in given]
        elif block and flips:
            given = [p.T for p in given]
        axis = (0 if flips else 1) if block == 1 else (1 if flips else 0)
        stored = {"w": values.T if by_rows else values, "s": given[0], **({"z": given[1]} if has_zeros else {})}
        attributes: dict[str, Any] = {"axis": axis, **({"block_size": block} if block > 1 else {})}
        tensors = [helper.make_tensor(n, number, stored[n].shape, stored[n].astype(own).ravel()) for n in stored if n != "s"]
        tensors += [numpy_helper.from_array(np.ascontiguousarray(given[0]), "s"), numpy_helper.from_array(self.bias, "bias")]
        made = [self._node(text, attributes, [n for n in ("s", "z") if n in stored]) for text in nodes]
        infos = [helper.make_tensor_value_info("x", 1, ["n", inner])], [onnx.ValueInfoProto(name="y")]
        self.model = helper.make_model(helper.make_graph(made, "g", *infos, tensors), opset_imports=[helper.make_opsetid("", 25)])

    @staticmethod
    def _node(text: str, attributes: dict[str, Any], parameters: list[str]) -> Any:
        (op, *inputs), (out, *flags) = (part.split() for part in text.split(">"))
        if op == "DequantizeLinear":
            return helper.make_node(op, [*inputs, *parameters], [out], **attributes)
        return helper.make_node(op, inputs, [out], **dict.fromkeys(flags, 1))

    def operators(self, rows: int = 5) -> set[str]:
        """The operators of the compiled program, whose result is checked; the bound is of some roundings of float32."""
        mod, params = relay.frontend.from_onnx(self.model)
        exe = relay.compile(mod, params=params)
        x = np.random.default_rng(rows).standard_normal((rows, len(self.matrix))).astype("float32")
        found, wide = relay.VirtualMachine(exe).run(x).numpy(), x.astype(np.float64)
        bound = 4e-7 * (np.abs(wide) @ np.abs(self.matrix) + np.abs(self.bias)) + 1e-6
        assert (np.abs(found - (wide @ self.matrix + self.bias)) <= bound).all()
        return {node.op for packed in exe.packed for node in packed.group.nodes}


def test_every_form_reads_the_stored_bits() -> None:
    kinds = itertools.cycle(INTEGERS)
    for order, block in itertools.product(ORDERS, (0, 1, 32)):
        for dtype in (next(kinds), next(kinds)):
            wanted = {"nn.dense_bit_panels"} | ({"add"} if "gemm" in order else set())
            assert Weight(dtype, order, block).operators() == wanted, (order, block, dtype)


def test_blocks_of_other_sizes() -> None:
    for dtype, block, inner, rows in (("int8", 48, 100, 3), ("int4", 16, 70, 0), ("uint8", 1, 300, 20), ("uint4", 512, 600, 1)):
        assert Weight(dtype, "matmul", block, inner=inner, has_zeros=block != 1).operators(rows) == {"nn.dense_bit_panels"}
    # sixteen does not divide them: dequantised when the program is compiled
    for block in (8, 24):
        assert Weight("int8", "gemm of rows", block).operators() == {"nn.dense_panels", "add"}


def test_numbers_of_few_bits_and_zero_points_beyond_them() -> None:
    """Numbers in int8 that 4 bits hold, with the zero point and without; a zero point that 8 bits do not hold is a float."""
    text = f'#[version = "0.0.5"]\ndef @main(%x: Tensor[(?n, {K}), float32], %w: Tensor[({N}, {K}), int8])'
    weight = np.random.default_rng(1).integers(40, 50, (N, K)).astype("int8")
    x = np.random.default_rng(2).standard_normal((3, K)).astype("float32")
    for zero, bits in ((47, 4), (-100, 8), (-300, 8)):
        mod = relay.parse(f"{text} {{ nn.dense(%x, qnn.dequantize(%w, 0.5f, {zero})) }}")
        exe = relay.compile(mod, params={"w": weight})
        # a CPU without a product of bytes has a primitive for few rows beside that for many
        assert {packed.group.nodes[0].attrs.bits for packed in exe.packed} == {bits}
        wanted = x.astype(np.float64) @ ((weight.astype(np.float64) - zero) * 0.5).T
        np.testing.assert_allclose(relay.VirtualMachine(exe).run(x).numpy(), wanted, rtol=1e-5, atol=1e-3)


#: The scales and the shape of weights that are dequantised before the run, by the reason.
DEQUANTISED = {
    "the scales or zero points of the weight vary within a sum": (np.linspace(0.1, 1, K), (N, K)),
    "the weight has 512 elements, fewer than 4096": (np.float32(0.5), (N, 8)),
    "a scale is not finite": (np.inf, (N, K)),
}


@pytest.mark.parametrize("reason", DEQUANTISED)
def test_weights_that_are_dequantised_before(reason: str) -> None:
    scale, shape = DEQUANTISED[reason]
    text = f'#[version = "0.0.5"]\ndef @main(%x: Tensor[(?n, {shape[1]}), float32], %w: Tensor[{shape}, int8], %s: '
    scale = np.asarray(scale, "float32")
    mod = relay.parse(
        f"{text}Tensor[({', '.join(map(str, scale.shape))}), float32]) {{ nn.dense(%x, qnn.dequantize(%w, %s, 0i8, axis=1)) }}"
    )
    weight = np.ones(shape, "int8")
    exe = relay.compile(mod, params={"w": weight, "s": scale})
    assert {node.op for packed in exe.packed for node in packed.group.nodes} <= {"nn.dense_panels", "nn.dense"}
    assert [(p.op, p.because) for p in exe.float_products] == [("nn.dense", reason)]
    found = relay.VirtualMachine(exe).run(np.ones((2, shape[1]), "float32")).numpy()
    np.testing.assert_allclose(found, np.full((2, N), np.broadcast_to(scale, shape[1:]).sum()), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"])
def test_floats_of_bytes(dtype: str) -> None:
    weight = np.random.default_rng(3).standard_normal((K, N)).astype(getattr(ml_dtypes, dtype))
    scale = np.random.default_rng(4).uniform(0.1, 1, N).astype("float32")
    number = getattr(TensorProto, dtype.upper().replace("FLOAT8_", "FLOAT8"))
    nodes = [helper.make_node("DequantizeLinear", ["w", "s"], ["d"], axis=1), helper.make_node("MatMul", ["x", "d"], ["y"])]
    stored = [helper.make_tensor("w", number, weight.shape, weight.tobytes(), raw=True), numpy_helper.from_array(scale, "s")]
    infos = [helper.make_tensor_value_info("x", 1, ["n", K])], [onnx.ValueInfoProto(name="y")]
    graph = helper.make_graph(nodes, "g", *infos, stored)
    mod, params = relay.frontend.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]))
    exe, x = relay.compile(mod, params=params), np.random.default_rng(5).standard_normal((3, K)).astype("float32")
    assert {node.op for packed in exe.packed for node in packed.group.nodes} == {"nn.dense_panels"}
    wanted = x.astype(np.float64) @ (weight.astype(np.float64) * scale)
    np.testing.assert_allclose(relay.VirtualMachine(exe).run(x).numpy(), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("as_node", [False, True])
def test_data_are_quantised_to_8_bits_and_more(as_node: bool) -> None:
    zero = helper.make_tensor("z", TensorProto.INT4, (), [0])
    nodes = [helper.make_node("Constant", [], ["z"], value=zero)] if as_node else []
    nodes.append(helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"], "to_few"))
    stored = [numpy_helper.from_array(np.float32(0.5), "s"), *([] if as_node else [zero])]
    infos = [helper.make_tensor_value_info("x", 1, ["n"])], [onnx.ValueInfoProto(name="y")]
    model = helper.make_model(helper.make_graph(nodes, "g", *infos, stored), opset_imports=[helper.make_opsetid("", 21)])
    with pytest.raises(
        relay.RelayError, match="QuantizeLinear 'to_few': the result is int4; integers of 8 and 16 bits are quantised"
    ):
        relay.frontend.from_onnx(model)


def test_a_tensor_of_another_size_than_it_states() -> None:
    tensor = TensorProto(name="w", data_type=TensorProto.INT4, dims=(3, 3), raw_data=bytes(4))
    infos = [helper.make_tensor_value_info("x", 1, [3])], [onnx.ValueInfoProto(name="y")]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", *infos, [tensor])
    with pytest.raises(relay.RelayError) as caught:
        relay.frontend.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]))
    assert "the tensor 'w' is int4 of shape (3, 3), 5 bytes, but 4 bytes are stored" in str(caught.value)
