"""The rows of sparse tensors, in programs and with wrong arguments."""

from __future__ import annotations

from collections import namedtuple
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.ops.core.op import get

from ...devices import DEVICES
from ..refusals import refused

INDICES, VALUES, SHAPE = np.array([[0, 1], [0, 3], [2, 0], [3, 1]]), np.array([1, 2, 3, 4], np.float32), np.array([5, 6])


def build(dtype: str = "int64", target: str = "cpu") -> Any:
    """A machine for any number of values and rows."""
    types = ((relay.Any(), 2), dtype), ((relay.Any(),), "float32"), ((2,), dtype), ((), "float32")
    params = [relay.var(f"x{k}", *ty) for k, ty in enumerate(types)]
    return relay.VirtualMachine(
        relay.compile(relay.Function(params, relay.sparse_fill_empty_rows(*params).astuple()), target=target)
    )


def run(vm: Any, *args: Any) -> list[np.ndarray]:
    return [np.array(r.numpy()) for r in vm.run(*args, np.float32(10))]


def test_rows_without_values_have_the_default() -> None:
    """The example of Relay's documentation."""
    found = run(build(), INDICES, VALUES, SHAPE)
    np.testing.assert_array_equal(found[0], [[0, 1], [0, 3], [1, 0], [2, 0], [3, 1], [4, 0]])
    np.testing.assert_array_equal(found[1], np.float32([1, 2, 10, 3, 4, 10]))
    np.testing.assert_array_equal(found[2], [0, 1, 0, 0, 1])


def test_values_in_any_order_and_none() -> None:
    vm = build()
    found = run(vm, INDICES[[2, 1, 3, 0]], VALUES[[2, 1, 3, 0]], SHAPE)
    np.testing.assert_array_equal(found[1], np.float32([2, 1, 10, 3, 4, 10]))  # the values of a row keep their order
    found = run(vm, INDICES[:0], VALUES[:0], SHAPE)
    np.testing.assert_array_equal(found[0], [[k, 0] for k in range(5)])
    assert [x.shape for x in run(vm, INDICES[:0], VALUES[:0], np.array([0, 6]))] == [(0, 2), (0,), (0,)]


def test_indices_and_sizes_of_other_integers() -> None:
    found = run(build("uint8"), INDICES.astype("uint8"), VALUES, SHAPE.astype("uint8"))
    assert [x.dtype.name for x in found] == ["int64", "float32", "bool"]
    np.testing.assert_array_equal(found[2], [0, 1, 0, 0, 1])


def test_a_row_out_of_range() -> None:
    vm = build()
    for row in (5, -1):
        with pytest.raises(relay.VMError, match="index is out of range"):
            run(vm, np.array([[row, 0]]), VALUES[:1], SHAPE)
    with pytest.raises(relay.VMError, match="index is out of range"):
        run(vm, INDICES[:1], VALUES[:1], np.array([0, 6]))
    with pytest.raises(relay.VMError, match="the number of rows is negative: -2"):
        run(vm, INDICES, VALUES, np.array([-2, 6]))
    with pytest.raises(relay.VMError, match="there are 4 indices and 3 values"):
        run(vm, INDICES, VALUES[:3], SHAPE)


@pytest.mark.skipif("cuda" not in DEVICES, reason="no emulated GPU")
def test_on_cuda_in_the_order_of_rows_and_in_any_other() -> None:
    """Rows for several rounds of the scan; a row out of range is found with any neighbours."""
    on_cpu, on_cuda, rng = build(), build(target="cuda"), np.random.default_rng(3)
    rows = np.sort(rng.choice(1100, 60))
    indices, values = np.stack([rows, np.arange(60)], 1), np.arange(60, dtype="float32")
    for order in (np.arange(60), rng.permutation(60), []):
        args = indices[order], values[order], np.array([1100, 60])
        args = args if len(order) else (indices[:0], values[:0], args[2])
        for found, wanted in zip(run(on_cuda, *args), run(on_cpu, *args), strict=True):
            np.testing.assert_array_equal(found, wanted)
    indices[30, 0] = 1100
    with pytest.raises(relay.VMError, match="index is out of range"):
        run(on_cuda, indices, values, np.array([1100, 60]))


def test_only_the_sizes_are_read_on_the_host() -> None:
    assert get("sparse_fill_empty_rows").data_dependent == (False, False, True, False)


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ([((4,), "int64"), ((4,), "float32"), ((2,), "int64"), ((), "float32")], "the indices must have 2 dimensions, not 1"),
        ([((4, 2), "int64"), ((4, 1), "float32"), ((2,), "int64"), ((), "float32")], "the values must have 1 dimension, not 2"),
        ([((4, 2), "int64"), ((4,), "float32"), ((2,), "int64"), ((2,), "float32")], "the default has 2 elements, not 1"),
        ([((4, 2), "int64"), ((4,), "float32"), ((), "int64"), ((), "float32")], "dense_shape must have 1 dimension, not 0"),
        ([((4, 0), "int64"), ((4,), "float32"), ((0,), "int64"), ((), "float32")], "dense_shape has no sizes: there are no rows"),
        (
            [((4, 2), "int64"), ((4,), "float32"), ((3,), "int64"), ((), "float32")],
            "dense_shape has 3 sizes, an index has 2 coord",
        ),
        ([((4, 2), "int64"), ((3,), "float32"), ((2,), "int64"), ((), "float32")], "there are 4 indices and 3 values"),
        (
            [((4, 2), "float32"), ((4,), "float32"), ((2,), "int64"), ((), "float32")],
            "sparse_indices is float32; supported: int8",
        ),
        ([((4, 2), "int64"), ((4,), "float32"), ((2,), "bool"), ((), "float32")], "dense_shape is bool; supported: float32"),
        ([((4, 2), "int64"), ((4,), "float32"), ((2,), "int64"), ((), "int64")], "sparse_values is float32 but default_value is"),
    ],
)
def test_what_is_refused(types: list[Any], message: str) -> None:
    assert refused("sparse_fill_empty_rows", types, get("sparse_fill_empty_rows").attrs()).startswith(
        f"sparse_fill_empty_rows: {message}"
    )


# ---- sparse matrices in programs written for Relay -----------------------------------------------------------------------

DENSE = np.array([[0, 2, 0], [0, 0, 3], [4, 0, 0]], np.float32)
#: ``DENSE`` by its values, their columns, and the begins of its rows.
CSR = namedtuple("CSR", ["data", "indices", "indptr"])(
    np.array([2, 3, 4], np.float32), np.array([1, 2, 0], np.int32), np.array([0, 1, 2, 3], np.int32)
)


def test_a_sparse_matrix_is_three_tensors_or_an_object_that_has_them() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)

    def build(var: relay.Var) -> relay.Tuple:
        product = relay.nn.sparse_dense(var, CSR)
        left = relay.nn.sparse_dense(var, tuple(map(relay.const, CSR)), sparse_lhs=True)
        transposed = relay.nn.sparse_dense(var, tuple(relay.nn.sparse_transpose(SimpleNamespace(**CSR._asdict()))))
        image = relay.nn.sparse_conv2d(relay.reshape(var, (-1, 1, 1, 3)), (CSR.data[:, None], *CSR[1:]))
        return relay.Tuple([product, left, transposed, image])

    var = relay.var("x", (relay.Any(), 3), "float32")
    vm = relay.VirtualMachine(relay.compile(relay.Function([var], build(var))))
    found = [r.numpy() for r in vm.run(x)]
    wanted = [x @ DENSE.T, DENSE @ x.T, x @ DENSE, (x @ DENSE.T)[:, None, None]]
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs)
    assert vm.run(x[:0])[0].numpy().shape == (0, 3)


def test_what_is_no_sparse_matrix() -> None:
    var = relay.var("x", (3, 3), "float32")
    text = "nn.sparse_add: sparse_mat must be three tensors, data, indices and indptr, not Var"
    with pytest.raises(relay.ArgumentError, match=text):
        relay.nn.sparse_add(var, var)
    with pytest.raises(relay.TypeCheckError, match=r"nn\.sparse_add: there are 3 values or blocks, but 2 indices"):
        relay.compile(relay.Function([var], relay.nn.sparse_add(var, (CSR.data, CSR.indices[:2], CSR.indptr))))


def test_lists_that_leave_the_matrix() -> None:
    params = [relay.var(n, (relay.Any(),), d) for n, d in (("d", "float32"), ("i", "int32"), ("p", "int32"))]
    dense = relay.var("x", (3, 3), "float32")
    vm = relay.VirtualMachine(relay.compile(relay.Function([dense, *params], relay.nn.sparse_dense(dense, tuple(params)))))
    np.testing.assert_array_equal(vm.run(np.eye(3, dtype=np.float32), *CSR).numpy(), DENSE.T)
    for wrong in (CSR._replace(indices=np.int32([1, 3, 0])), CSR._replace(indptr=np.int32([0, 2, 1, 4]))):
        with pytest.raises(relay.VMError, match="index is out of range"):
            vm.run(np.eye(3, dtype=np.float32), *wrong)
