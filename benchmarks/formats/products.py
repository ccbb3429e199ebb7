"""Products of integers, and of floats that are quantised at run time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import onnx
from onnx import helper

from .case import Case, model

#: Inner sizes and columns of the weights, and rows of the data.
WEIGHTS, ROWS = ((384, 1536), (1536, 384), (768, 3072), (1024, 1024)), (1, 7, 33, 100, 384)
#: The most that sums of rounded data differ, in parts of the largest.
ERROR = 0.01


def products(rows: Sequence[int]) -> Iterator[Case]:
    """Products of bytes, and of floats that are quantised at run time, by constant weights of signed bytes."""
    rng, floats, words = np.random.default_rng(0), onnx.TensorProto.FLOAT, onnx.TensorProto.UINT8
    for inner, columns in WEIGHTS:
        weight = rng.integers(-128, 128, (inner, columns)).astype(np.int8)
        scale, bias = rng.random(columns, np.float32), rng.standard_normal(columns).astype(np.float32)
        real = model(
            [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "b"], ["y"])],
            {"x": (floats, ["rows", inner])},
            {"w": weight.astype(np.float32) * np.float32(0.01), "b": bias},
            floats,
        )
        whole = model(
            [helper.make_node("MatMulInteger", ["x", "w", "z"], ["y"])],
            {"x": (words, ["rows", inner]), "z": (words, [])},
            {"w": weight},
            onnx.TensorProto.INT32,
        )
        dynamic = model(
            [helper.make_node("DynamicQuantizeMatMul", ["x", "w", "s", "", "b"], ["y"], domain="com.microsoft")],
            {"x": (floats, ["rows", inner])},
            {"w": weight, "s": scale, "b": bias},
            floats,
        )
        for count in rows:
            x = {"x": rng.standard_normal((count, inner)).astype(np.float32)}
            given = {"x": rng.integers(0, 256, (count, inner)).astype(np.uint8), "z": np.array(7, np.uint8)}
            yield Case(f"{inner}x{columns} integers, rows {count}", whole, real, given, x)
            yield Case(f"{inner}x{columns} dynamic, rows {count}", dynamic, real, x, x, ERROR)
