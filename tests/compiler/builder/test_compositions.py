"""Functions at Relay's paths that build several calls, compared with numpy."""

from __future__ import annotations

from typing import Any as AnyValue

import numpy as np
import pytest

import relayvm as relay

DATA = np.array([[1, -2, 3], [4, 5, -6], [7, 8, 9], [0, 1, 2]], "float32")


def x() -> relay.Var:
    return relay.var("x", shape=(relay.Any(), 3))


def run(body: AnyValue, *args: np.ndarray) -> AnyValue:
    with relay.VirtualMachine(relay.compile(relay.IRModule.from_expr(body))) as vm:
        return vm.run(*args)


def test_mean_variance_and_mean_std() -> None:
    mean, variance = relay.mean_variance(x(), 1, unbiased=True)
    assert mean.op.name == "mean" and variance.op.name == "unbiased_variance"
    v = x()
    found = run(relay.Function([v], relay.Tuple([*relay.mean_variance(v, 1, True), *relay.mean_std(v, 0)])), DATA)
    expected = [DATA.mean(1, keepdims=True), DATA.var(1, keepdims=True), DATA.mean(0), DATA.std(0)]
    for one, other in zip(found, expected, strict=True):
        assert np.allclose(one.numpy(), other)


@pytest.mark.parametrize(("ids", "count"), [([0, 0, 1, 1], None), ([2, 0, 2, 0], 4), ([1, 1, 1, 1], None)])
def test_segment_sum(ids: list[int], count: int | None) -> None:
    v, segments = x(), relay.var("ids", (relay.Any(),), "int32")
    found = run(relay.Function([v, segments], relay.segment_sum(v, segments, count)), DATA, np.array(ids, "int32"))
    expected = np.zeros((count or max(ids) + 1, 3), "float32")
    np.add.at(expected, ids, DATA)
    assert np.array_equal(found.numpy(), expected)


def test_fifo_buffer() -> None:
    data, buffer = relay.var("data", (relay.Any(), 3)), relay.var("buffer", (2, 3))
    function = relay.Function([data, buffer], relay.nn.fifo_buffer(data, buffer, 0))
    old = np.full((2, 3), 10, "float32")
    assert np.array_equal(run(function, DATA, old).numpy(), DATA[2:])
    assert np.array_equal(run(function, DATA[:1], old).numpy(), np.concatenate([old[1:], DATA[:1]]))


def test_global_pools_are_adaptive_pools_of_size_1() -> None:
    row, volume = relay.var("row", (1, 2, 5)), relay.var("volume", (1, 2, 2, 2, 2))
    assert str(relay.nn.global_max_pool1d(row)).endswith("nn.adaptive_max_pool1d(%row, output_size=1)")
    pool = relay.nn.global_avg_pool3d(volume, "NDHWC")
    assert pool.op.name == "nn.adaptive_avg_pool3d" and pool.attrs.layout == "NDHWC"


def test_earlier_names_of_scatter() -> None:
    data, at, new = relay.var("data", (3, 4)), relay.var("at", (2, 4), "int64"), relay.var("new", (2, 4))
    for call, reduction in ((relay.scatter(data, at, new, 1), "update"), (relay.scatter_add(data, at, new, axis=1), "add")):
        assert (call.op.name, call.attrs.axis, call.attrs.reduction) == ("scatter_elements", 1, reduction)


def test_dropout_raw_and_const() -> None:
    a = relay.var("a", (2, 3))
    kept, mask = relay.nn.dropout_raw(a, 0.5)
    assert kept.tuple_value is mask.tuple_value and kept.tuple_value.op.name == "nn.dropout"
    strided = relay.strided_set(a, a, relay.const([0, 0]), relay.const([2, 3]))  # every stride is 1
    function = relay.Function([a], relay.Tuple([relay.nn.dropout(a) + a, mask, strided]))
    executor = relay.create_executor("vm", relay.IRModule.from_expr(function))
    data = np.arange(6, dtype="float32").reshape(2, 3)
    for found, wanted in zip(executor.evaluate()(relay.const(data)), (2 * data, np.ones((2, 3)), data), strict=True):
        np.testing.assert_array_equal(found.numpy(), wanted)
    assert relay.nn.const(1.5).data == np.float32(1.5)


@pytest.mark.parametrize(
    ("rank", "padding", "expected"),
    [
        (1, 2, (2, 2)), (1, (3,), (3, 3)), (1, (1, 2), (1, 2)), (2, 1, (1, 1, 1, 1)), (2, (1, 2), (1, 2, 1, 2)),
        (2, [1, 2, 3, 4], (1, 2, 3, 4)), (3, (1, 2, 3), (1, 2, 3, 1, 2, 3)),
    ],
)  # fmt: skip
def test_pad_tuples(rank: int, padding: AnyValue, expected: tuple[int, ...]) -> None:
    assert getattr(relay.nn, f"get_pad_tuple{rank}d")(padding) == expected


def test_wrong_uses() -> None:
    with pytest.raises(relay.ArgumentError, match="get_pad_tuple2d: the padding must be a number, or 2 or 4 numbers, not"):
        relay.nn.get_pad_tuple2d((1, 2, 3))
    with pytest.raises(relay.ArgumentError, match="concatenate: attribute axis takes an integer"):
        relay.nn.fifo_buffer(x(), x(), "rows")
    with pytest.raises(relay.ArgumentError, match="an expression is wanted, not"):
        relay.mean_variance("x")
