"""Errors of the opaque operators, and the wrappers around their bodies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from relayvm.ops.codegen import kernel_source
from relayvm.ops.codegen.cpu import opaque_kernel
from relayvm.ops.core.group import Group, Literal, Node
from relayvm.ops.core.op import REGISTRY, OpPattern, TypeRelError, get
from relayvm.ops.core.tensor_types import Tensor, TensorType
from relayvm.ops.core.type_relation import build_group, relate
from relayvm.ops.native import memory
from relayvm.ops.native.blas import library_calls
from relayvm.ops.native.compiled import function_fingerprint
from relayvm.ops.native.jit.products.panel_products import multiply_panels
from relayvm.ops.native.status import OUT_OF_MEMORY
from relayvm.shape_funcs.symbolic.dim import sym

from . import opaque_kernels
from .opaque_kernels import call, group_of

N = sym("n")


def ty(dtype: str, *shape: Any) -> TensorType:
    return TensorType.of(shape, dtype)


REFUSED = [
    ("nn.dense", [ty("float32", N, 4), ty("float64", 3, 4)], {}, "data is float32 but weight is float64"),
    ("nn.dense", [ty("bool", N, 4), ty("bool", 3, 4)], {}, "data is bool; supported: float32"),
    ("nn.dense", [ty("float32", N, 4), ty("float32", 3, 4)], {"out_dtype": "int32"}, "out_dtype='int32' is not valid"),
    ("nn.dense", [ty("float32", N, 4), ty("float32", 3, 5)], {}, "the inner sizes of the product differ: 4 and 5"),
    ("nn.softmax", [ty("int32", N)], {}, "data is int32; supported: float32, float64"),
    ("argsort", [ty("int32", N)], {"dtype": "uint8"}, "dtype='uint8'"),
    ("topk", [ty("float32", N)], {"ret_type": "value"}, "ret_type"),
    ("topk", [ty("float32", 3)], {"k": 4}, "k is 4"),
    ("dyn.topk", [ty("float32", N), ty("bool")], {}, "k is bool; supported: float32, float64"),
    ("unique", [ty("bool", N)], {}, "data is bool"),
    ("cumsum", [ty("bool", N)], {}, "dtype='bool'"),
    ("searchsorted", [ty("int32", N), ty("int64", N)], {}, "sorted_sequence is int32 but values is int64"),
    ("vision.get_valid_counts", [ty("float32", 1, N, 6), ty("int32")], {}, "score_threshold is int32"),
    (
        "vision.non_max_suppression",
        [ty("float32", 1, N, 6), ty("int64", 1), ty("int32", 1, N), ty("int32"), ty("float32")],
        {},
        "valid_count is int64; supported: int32",
    ),
]


@pytest.mark.parametrize(("name", "types", "attrs", "text"), REFUSED)
def test_wrong_arguments_are_named(name: str, types: list[TensorType], attrs: dict[str, Any], text: str) -> None:
    op = get(name)
    with pytest.raises(TypeRelError) as error:
        relate(op, types, op.attrs(**attrs), [None] * len(types))
    assert text in error.value.message and name in error.value.message


def test_topk_of_a_known_k_is_static() -> None:
    op = get("dyn.topk")
    assert op.static is not None
    assert op.static(op.attrs(axis=0), [None, None]) is None
    name, attrs = op.static(op.attrs(axis=0, is_ascend=True), [None, np.array(3)])
    assert name == "topk" and (attrs.k, attrs.axis, attrs.is_ascend, attrs.ret_type) == (3, 0, True, "both")


def test_a_group_that_is_not_one_opaque_call_is_refused() -> None:
    group = group_of("topk", get("topk").attrs(), [np.zeros(3, np.float32)])
    with pytest.raises(ValueError, match="does not return every output"):
        opaque_kernel.source(Group(group.params, (), group.nodes, group.results[:1]))
    with pytest.raises(ValueError, match="with a kernel of its own"):
        opaque_kernel.source(group_of("exp", get("exp").attrs(), [np.zeros(3, np.float32)]))


def product_by_blas() -> Group:
    group = group_of("nn.dense", get("nn.dense").attrs(), [np.zeros((2, 3), np.float32)] * 2)
    return replace(group, implementation="blas")


def test_equal_groups_have_equal_sources() -> None:
    def source() -> Any:
        return kernel_source(product_by_blas())

    assert source() == source() and source().libraries == ("sgemm",)


def test_integer_products_need_no_library() -> None:
    group = group_of("nn.dense", get("nn.dense").attrs(), [np.zeros((2, 3), np.int32)] * 2)
    assert kernel_source(group).libraries == ()


@pytest.mark.parametrize("jit", [False, True])
def test_constants_of_the_group_take_the_place_of_tensors(jit: bool) -> None:
    data = np.array([[[0, 0.9], [0, 0.2], [-1, 0.8]]], np.float32)
    node = Node("vision.get_valid_counts", get("vision.get_valid_counts").attrs(), (0, 1), ())
    params = (Tensor("float32", (sym("d0"), sym("d1"), sym("d2"))),)
    group = build_group(params, (Literal("float32", 0.5),), (node,), (2, 3, 4))
    outputs = [np.zeros(1, np.int32), np.zeros_like(data), np.zeros((1, 3), np.int32)]
    assert call(kernel_source(group), [data, *outputs], jit=jit) == 0
    assert outputs[0].tolist() == [1] and outputs[2].tolist() == [[0, -1, -1]]


def test_no_memory_for_buffers_is_a_status(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "alloc", lambda nbytes: 0)
    assert opaque_kernels.run("sort", [np.arange(3)]).status == OUT_OF_MEMORY


def test_every_buffer_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    alloc, free, live = memory.alloc, memory.free, set()
    monkeypatch.setattr(memory, "alloc", lambda nbytes: live.add(alloc(nbytes)) or max(live))
    monkeypatch.setattr(memory, "free", lambda address: (live.remove(address), free(address)))
    image, kernel = np.ones((1, 4, 3, 3)), np.ones((4, 4, 3, 3))
    convolved = [
        ("nn.conv2d", [image, kernel]),
        ("nn.conv2d", [image, kernel[:1]]),
        ("nn.conv2d_transpose", [image, kernel]),
    ]
    ordered = [("sort", [np.arange(3)]), ("unique", [np.arange(0)]), ("argsort", [np.zeros((2, 0))])]
    for name, inputs in [*convolved, *ordered]:
        assert opaque_kernels.run(name, inputs).status == 0 and not live


def test_library_addresses() -> None:
    found = library_calls.addresses(["dgemm", "sgemm"])
    assert set(found) == {"dgemm", "sgemm"} and all(found.values()) and found["dgemm"] != found["sgemm"]
    assert sorted(library.index for library in library_calls.TABLE.values()) == list(range(len(library_calls.TABLE)))
    with pytest.raises(KeyError):
        library_calls.addresses(["qgemm"])


def test_every_opaque_operator_says_what_its_libraries_are() -> None:
    opaque_ops = [op for op in REGISTRY.values() if op.pattern is OpPattern.OPAQUE]
    assert len(opaque_ops) >= 15
    for op in opaque_ops:
        assert op.kernels and all(set(k.libraries.values()) <= set(library_calls.TABLE) for k in op.kernels), op


def test_the_store_tells_apart_two_versions_of_an_instruction(monkeypatch: pytest.MonkeyPatch) -> None:
    before = function_fingerprint.fingerprint(multiply_panels)
    assert function_fingerprint.fingerprint(multiply_panels) == before
    monkeypatch.setattr(function_fingerprint, "source_hash", lambda module: "another version")
    assert function_fingerprint.fingerprint(multiply_panels) != before
