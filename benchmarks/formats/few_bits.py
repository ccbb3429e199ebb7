"""Products with weights of few bits in blocks: MatMulNBits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import onnx
from onnx import helper

from .case import Case, model

#: Rows and columns of the square weights, and rows of the data.
SIZES, ROWS = (1024, 2048, 4096, 8192), (1, 8, 32, 512)
BITS, BLOCK = 4, 32
#: The accuracy levels of the node, float32 and data rounded to int8, with the most that results differ in parts of the largest.
LEVELS = {0: 1e-3, 4: 0.05}
#: The most time beside onnxruntime and beside float32.
GOAL, OWN_GOAL = 0.7, 1.0


def few_bits(rows: Sequence[int]) -> Iterator[Case]:
    """Products of each size, number of rows and level; the product in float32 has a weight of the same size."""
    for size in SIZES:
        rng = np.random.default_rng(size)
        blocks = size // BLOCK
        numbers = rng.integers(0, 256, (size, blocks, BLOCK * BITS // 8)).astype(np.uint8)
        scales = rng.uniform(0.001, 0.01, (size, blocks)).astype(np.float32)
        whole = (numbers[..., None] >> np.arange(0, 8, BITS, dtype=np.uint8) & (2**BITS - 1)).reshape(size, blocks, BLOCK)
        weight = ((whole.astype(np.float32) - 2 ** (BITS - 1)) * scales[..., None]).reshape(size, size).T
        given = {"x": (onnx.TensorProto.FLOAT, ["rows", size])}
        real = model([helper.make_node("MatMul", ["x", "w"], ["y"])], given, {"w": weight}, onnx.TensorProto.FLOAT)
        for count in rows:
            x = {"x": rng.standard_normal((count, size)).astype(np.float32)}
            for level, error in LEVELS.items():
                sizes = {"K": size, "N": size, "bits": BITS, "block_size": BLOCK, "accuracy_level": level}
                node = helper.make_node("MatMulNBits", ["x", "b", "s"], ["y"], domain="com.microsoft", **sizes)
                narrow = model([node], given, {"b": numbers, "s": scales}, onnx.TensorProto.FLOAT)
                stored = numbers.nbytes + scales.nbytes
                name = f"{size} {BITS} bits, level {level}, rows {count}"
                yield Case(name, narrow, real, x, x, error, GOAL, OWN_GOAL, stored=stored)
