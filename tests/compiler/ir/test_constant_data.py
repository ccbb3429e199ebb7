"""The data of constants: numpy arrays with Relay's ``numpy()``."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import relayvm as relay
from relayvm.ops.core.tensor_types import DTYPES, numpy_dtype

from ...programs import with_header


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy(dtype: str) -> None:
    given = np.array([[1, 0], [1, 1]]).astype(numpy_dtype(dtype))
    data = relay.const(given).data
    assert type(data.numpy()) is np.ndarray and data.numpy().tobytes() == data.asnumpy().tobytes() == given.tobytes()
    assert (data.shape, data.dtype) == ((2, 2), given.dtype) and not data.numpy().flags.writeable
    assert np.shares_memory(data, data.numpy())


def test_every_way_to_a_constant() -> None:
    parsed = relay.parse_expr("2.5f")
    bound = relay.bind(x := relay.var("x"), {x: [1, 2]})
    read = relay.parse(relay.IRModule.from_expr(relay.Function([], relay.const([1.5, 2.5]))).astext())["main"].body
    folded = relay.transform.FoldConstant()(relay.parse(with_header("def @main() { add(1f, 2f) }")))["main"].body
    for expr, value in ((parsed, 2.5), (bound, [1, 2]), (read, [1.5, 2.5]), (relay.Constant(3), 3), (folded, 3)):
        assert isinstance(expr, relay.Constant), expr
        assert expr.data.numpy().tolist() == value
        assert expr.data.numpy() is not expr.data and copy.copy(expr).data.asnumpy().tolist() == value


def test_arithmetic_on_data_gives_plain_arrays() -> None:
    data = relay.const([1.0, 2.0]).data
    assert type(data + 1) is type(np.sqrt(data)) is np.ndarray and isinstance(data[0], np.float32)


def test_executables_have_plain_constants_and_results_the_old_name() -> None:
    exe = relay.compile(relay.Function([], relay.const([1.0, 2.0])))
    assert [type(c) for c in exe.constants] == [np.ndarray]
    assert relay.VirtualMachine(exe).run().asnumpy().tolist() == [1, 2]
