"""``relay.save_param_dict`` and ``relay.load_param_dict``."""

from __future__ import annotations

import io
import random

import numpy as np
import pytest

import relayvm as relay
from relayvm.ops.core.tensor_types import DTYPES, numpy_dtype


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_and_rank_comes_back(dtype: str) -> None:
    arrays = {f"{dtype}.weight/{rank}": np.arange(2**rank).reshape((2,) * rank).astype(numpy_dtype(dtype)) for rank in range(4)}
    arrays["empty, and by columns"] = np.zeros((0, 3), numpy_dtype(dtype))
    arrays[""] = np.asfortranarray(arrays[f"{dtype}.weight/3"])
    data = relay.save_param_dict(arrays)
    found = relay.load_param_dict(data)
    assert list(found) == sorted(arrays) and isinstance(data, bytes)
    for name, array in found.items():
        assert (array.dtype, array.shape) == (arrays[name].dtype, arrays[name].shape)
        assert array.numpy().tobytes() == arrays[name].tobytes() and type(array.numpy()) is np.ndarray
        assert array.flags.writeable and array.flags.c_contiguous
    assert relay.save_param_dict(found) == data == relay.save_param_dict(dict(reversed(arrays.items())))


def test_numpy_reads_the_bytes_and_writes_others() -> None:
    data = relay.save_param_dict({"w": [[1.0, 2.0]], "n": 3})
    with np.load(io.BytesIO(data)) as file:
        assert (file["w"].tolist(), file["n"].tolist()) == ([[1.0, 2.0]], 3)
    out = io.BytesIO()
    np.savez_compressed(out, a=np.ones(2, ">i4"), b=np.asfortranarray(np.arange(6).reshape(2, 3)))
    found = relay.load_param_dict(out.getvalue())
    assert found["a"].tolist() == [1, 1] and found["a"].dtype.isnative and found["b"].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_results_are_saved() -> None:
    tensor = relay.create_executor("vm").evaluate(relay.const([1.0, 2.0]))
    assert relay.load_param_dict(relay.save_param_dict({"t": tensor}))["t"].tolist() == [1, 2]


def test_arithmetic_on_loaded_arrays_gives_plain_arrays() -> None:
    w = relay.load_param_dict(relay.save_param_dict({"w": np.ones((2, 2), "float32")}))["w"]
    assert type(w + 1) is type(w * w) is type(np.exp(w)) is np.ndarray
    assert isinstance(w.sum(), np.float32) and w.asnumpy().tolist() == w.numpy().tolist()


def test_wrong_uses() -> None:
    for params, message in [
        ([1], "save_param_dict: params must be a dict with names as keys, not the list [1]"),
        ({"a\n": 1}, r"save_param_dict: a name must be printable and without a backslash, not the str 'a\n'"),
        ({"a": np.array("x")}, "save_param_dict: a has the dtype <U1"),
        ({"a": object()}, "save_param_dict: a has the dtype object"),
        ({"a": [[1], [1, 2]]}, "save_param_dict: a is no array: list"),
    ]:
        with pytest.raises(relay.RelayError) as caught:
            relay.save_param_dict(params)  # type: ignore[arg-type]
        assert caught.value.diagnostics[0].message == message
    with pytest.raises(relay.ArgumentError, match="load_param_dict: the argument must be bytes, not the str"):
        relay.load_param_dict("weights.npz")  # type: ignore[arg-type]
    objects = io.BytesIO()
    np.savez(objects, a=np.array([{}], object))
    with pytest.raises(relay.InputError, match=r"the bytes hold no arrays by name: a\.npy has the dtype object"):
        relay.load_param_dict(objects.getvalue())


def test_damaged_bytes_are_refused_or_read() -> None:
    data = relay.save_param_dict({"w": np.arange(6, dtype="int16").reshape(2, 3), "b": np.float64(1)})
    draw, refused = random.Random(7), 0
    for _ in range(400):
        damaged = bytearray(data)
        for _ in range(draw.choice((1, 1, 3))):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        if draw.random() < 0.2:
            damaged = damaged[: draw.randrange(len(damaged))]
        try:
            relay.load_param_dict(bytes(damaged))
        except relay.InputError as error:
            assert error.diagnostics[0].message.startswith("load_param_dict: the bytes hold no arrays by name: ")
            refused += 1
    assert refused > 200
