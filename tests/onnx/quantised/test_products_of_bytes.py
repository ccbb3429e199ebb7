"""Products of bytes less zero points, for every form of these, beside numpy: exact modulo 2**32."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import relayvm as relay

TYPES = {"uint8": TensorProto.UINT8, "int8": TensorProto.INT8}
RNG = np.random.default_rng(3)
INNER, COLUMNS = 70, 19


def of_bytes(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    limits = np.iinfo(dtype)
    return RNG.choice([limits.min, limits.max, 5], shape).astype(dtype)


def less(x: np.ndarray, zero: np.ndarray | None, axis: int) -> np.ndarray:
    """The numbers without their zero points; a vector of them lies along an axis."""
    if zero is None:
        return x.astype(np.int64)
    return x.astype(np.int64) - (zero.astype(np.int64)[:, None] if axis == -2 and zero.ndim else zero.astype(np.int64))


class Products:
    """A model of products with a result each, and the wanted results."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.stored: list[Any] = []
        self.given: dict[str, np.ndarray] = {}
        self.wanted: list[np.ndarray] = []

    def tensor(self, value: np.ndarray | None, is_input: bool) -> str:
        if value is None:
            return ""
        name = f"t{len(self.stored) + len(self.given)}"
        if is_input:
            self.given[name] = value
        else:
            self.stored.append(numpy_helper.from_array(value, name))
        return name

    def add(self, a: np.ndarray, b: np.ndarray, zeros: tuple[Any, Any], is_input: bool) -> None:
        names = [self.tensor(a, True), self.tensor(b, is_input), *(self.tensor(zero, is_input) for zero in zeros)]
        self.nodes.append(helper.make_node("MatMulInteger", names, [f"y{len(self.nodes)}"]))
        self.wanted.append((less(a, zeros[0], -2) @ less(b, zeros[1], -1)).astype(np.int32))

    def check(self) -> None:
        infos = [
            helper.make_tensor_value_info(n, TYPES[x.dtype.name], [f"{n}_{i}" for i in range(x.ndim - 1)] + [*x.shape[-1:]])
            for n, x in self.given.items()
        ]  # fmt: skip
        results = [helper.make_tensor_value_info(node.output[0], TensorProto.INT32, None) for node in self.nodes]
        graph = helper.make_graph(self.nodes, "g", infos, results, self.stored)
        mod, params = relay.frontend.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))
        found = relay.VirtualMachine(relay.compile(mod, params=params)).run(*self.given.values())
        for result, wanted in zip(found, self.wanted, strict=True):
            np.testing.assert_array_equal(result.numpy(), wanted)


@pytest.mark.parametrize("is_input", [False, True])
def test_every_form_of_zero_points(is_input: bool) -> None:
    products, forms = Products(), [None, (), (1,), "vector"]
    pairs = itertools.cycle(itertools.product(TYPES, TYPES))
    for of_a, of_b in itertools.product(forms, forms):
        first, second = next(pairs)
        zero_a = None if of_a is None else of_bytes((3,) if of_a == "vector" else of_a, first)
        zero_b = None if of_b is None else of_bytes((COLUMNS,) if of_b == "vector" else of_b, second)
        products.add(of_bytes((3, INNER), first), of_bytes((INNER, COLUMNS), second), (zero_a, zero_b), is_input)
    products.check()


@pytest.mark.parametrize("is_input", [False, True])
def test_batches_and_empty_products(is_input: bool) -> None:
    products = Products()
    for a, b in (
        ((2, 3, INNER), (INNER, COLUMNS)),
        ((2, 3, INNER), (2, INNER, COLUMNS)),
        ((0, INNER), (INNER, 2)),
        ((2, 0), (0, 3)),
    ):
        for first, second in itertools.product(TYPES, TYPES):
            zeros = np.array(7, first), np.array(9, second)
            products.add(of_bytes(a, first), of_bytes(b, second), zeros, is_input)
    products.check()


@pytest.mark.parametrize("is_input", [False, True])
def test_sums_beyond_an_int32(is_input: bool) -> None:
    """The sums of 200,000 products wrap, as those of the standard's implementation do."""
    products = Products()
    for rows, (first, second) in zip((1, 20, 3), (("uint8", "int8"), ("uint8", "uint8"), ("int8", "int8")), strict=True):
        a, b = (np.full(shape, np.iinfo(t).max, t) for shape, t in (((rows, 200000), first), ((200000, 3), second)))
        a[:, ::7], b[::5] = 1, 3
        for zeros in ((None, None), (np.array(2, first), np.array(1, second))):
            products.add(a, b, zeros, is_input)
        assert (a.astype(np.int64) @ b).max() > 2**31
    products.check()


def test_scaled_and_rounded_products_are_those_of_the_standard() -> None:
    scales = [np.float32(0.02), np.float32(0.03), np.float32(2.1)]
    a, b = of_bytes((5, INNER), "uint8"), of_bytes((INNER, COLUMNS), "int8")
    stored = {"sa": scales[0], "za": np.uint8(120), "b": b, "sb": scales[1], "zb": np.int8(0), "s": scales[2], "z": np.uint8(99)}
    node = helper.make_node("QLinearMatMul", ["a", *stored], ["y"])
    infos = [helper.make_tensor_value_info("a", TensorProto.UINT8, ["rows", INNER])]
    results = [helper.make_tensor_value_info("y", TensorProto.UINT8, None)]
    values = [numpy_helper.from_array(np.asarray(value), name) for name, value in stored.items()]
    model = helper.make_model(helper.make_graph([node], "g", infos, results, values), opset_imports=[helper.make_opsetid("", 17)])
    mod, params = relay.frontend.from_onnx(model)
    exe = relay.compile(mod, params=params)
    assert any(p.group.nodes[0].op == "nn.dense_byte_panels" and p.group.nodes[-1].op == "cast" for p in exe.packed)
    np.testing.assert_array_equal(relay.VirtualMachine(exe).run(a).numpy(), ReferenceEvaluator(model).run(None, {"a": a})[0])


@pytest.mark.parametrize("batch", [(2,), (3, 2)])
def test_the_scale_is_part_of_the_kernel_of_products_of_batches(batch: tuple[int, ...]) -> None:
    """No kernel reads the sums, of which other sizes would need another kernel."""
    a, b = of_bytes((*batch, 5, INNER), "uint8"), of_bytes((*batch, INNER, COLUMNS), "uint8")
    scales, zeros = np.float32([0.02, 0.03, 2.1]), np.uint8([120, 30, 99])
    names = [f"{kind}{k}" for k in range(3) for kind in ("s", "z")]
    node = helper.make_node("QLinearMatMul", ["a", *names[:2], "b", *names[2:]], ["y"])
    dims = ["n", 2][-len(batch) :]
    infos = [
        helper.make_tensor_value_info(n, TYPES["uint8"], [*dims, *d]) for n, d in {"a": ["m", INNER], "b": [INNER, "k"]}.items()
    ]
    stored = [
        numpy_helper.from_array(np.asarray(v), n)
        for n, v in zip(names, itertools.chain(*zip(scales, zeros, strict=True)), strict=True)
    ]
    results = [helper.make_tensor_value_info("y", TYPES["uint8"], None)]
    graph = helper.make_graph([node], "g", infos, results, stored)
    mod, params = relay.frontend.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))
    exe = relay.compile(mod, params=params)
    kernels = [(p.group.nodes[0].op, p.group.nodes[-1].op) for p in exe.packed]
    assert ("nn.batch_matmul", "cast") in kernels and "subtract" not in {first for first, _ in kernels}
    sums = (less(a, zeros[0], -2) @ less(b, zeros[1], -1)).astype(np.float32)
    wanted = np.clip(np.rint(sums * (scales[0] * scales[1] / scales[2])) + 99, 0, 255)
    np.testing.assert_array_equal(relay.VirtualMachine(exe).run(a, b).numpy(), wanted.astype(np.uint8))
