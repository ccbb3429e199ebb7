"""reinterpret: every pair of dtypes of one width, every bit, against numpy's views."""

from __future__ import annotations

import re

import numpy as np
import pytest

from relayvm.ops.core.op import TypeRelError, get
from relayvm.ops.core.tensor_types import DTYPES, ITEMSIZE, numpy_dtype

from ..cuda import on_gpu
from ..opaque import opaque_kernels

PAIRS = [(a, b) for a in DTYPES for b in DTYPES if ITEMSIZE[a] == ITEMSIZE[b] and (b != "bool" or a == "bool")]


def every_bit(dtype: str, count: int) -> np.ndarray:
    """Elements whose bytes are random, and the ends; of a bool both."""
    words = np.random.default_rng(1).integers(0, 256, count * ITEMSIZE[dtype], np.uint8)
    words[: ITEMSIZE[dtype]] = 255
    words[-ITEMSIZE[dtype] :] = 0
    return (words % 2).astype(bool) if dtype == "bool" else words.view(numpy_dtype(dtype))


@pytest.mark.parametrize("jit", [False, True])
def test_every_pair_of_dtypes(jit: bool) -> None:
    for number, (source, result) in enumerate(PAIRS):
        if jit and ITEMSIZE[source] != 2 and number % 4:
            continue
        x = every_bit(source, 60)
        if not jit and ITEMSIZE[source] == 2:
            # numpy's bfloat16 has one NaN; machine code keeps them all
            x = (x.view("uint16") & 0x3FFF).view(x.dtype)
        ran = opaque_kernels.run("reinterpret", [x], jit=jit, dtype=result)
        assert ran.status == 0 and ran.outputs[0].dtype == numpy_dtype(result)
        assert ran.outputs[0].tobytes() == x.tobytes(), (source, result)


@pytest.mark.parametrize("dims", [(), (0, 3), (1,), (2, 3, 5)])
def test_shapes(dims: tuple[int, ...]) -> None:
    x = np.asarray(every_bit("float32", int(np.prod(dims)) + 1)[1:].reshape(dims))
    ran = opaque_kernels.run("reinterpret", [x], dtype="int32")
    np.testing.assert_array_equal(ran.outputs[0], x.view("int32"), strict=True)


@pytest.mark.parametrize(
    ("source", "result"), [("float16", "bfloat16"), ("float64", "uint64"), ("bool", "int8"), ("int32", "float32")]
)
def test_on_the_gpu(source: str, result: str) -> None:
    for x in (every_bit(source, 300), every_bit(source, 3)[:0]):
        ran = on_gpu.run("reinterpret", [x], dtype=result)
        assert ran.status == 0 and ran.outputs[0].tobytes() == x.tobytes()


@pytest.mark.parametrize(
    ("source", "result", "text"),
    [
        ("float32", "int64", "reinterpret: the bits of float32 are none of int64; valid: float32, int32, uint32"),
        ("uint8", "bool", "reinterpret: the bits of uint8 are none of bool; valid: int8, uint8"),
        ("int8", "int4", "reinterpret: dtype='int4' is not a dtype it gives"),
    ],
)
def test_other_dtypes_are_refused(source: str, result: str, text: str) -> None:
    op = get("reinterpret")
    with pytest.raises(TypeRelError, match=re.escape(text)):
        op.dtype((source,), op.attrs(result))
