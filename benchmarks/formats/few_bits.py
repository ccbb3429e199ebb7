"""Products with weights of few bits in blocks: MatMulNBits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import onnx
from onnx import helper

from .case import Case, model

#: Rows and columns of the square weights, and rows of the data.
SIZES, ROWS = (1024, 2048, 4096, 8192), (1, 8, 32, 512)
BITS = 4
#: The numbers of a block, and whether a block has a zero point: the usual form at each size, the others at two sizes.
USUAL, OTHERS, SIZES_OF_OTHERS = (32, False), ((16, False), (16, True), (32, True), (128, False), (128, True)), (1024, 4096)
#: The accuracy levels of the node, float32 and data rounded to int8, with the most that results differ in parts of the largest.
LEVELS = {0: 1e-3, 4: 0.05}
#: The most time beside onnxruntime, in the usual form and in others, and beside float32.
GOAL, GOAL_OF_OTHERS, OWN_GOAL = 0.7, 0.9, 1.0


def few_bits(rows: Sequence[int]) -> Iterator[Case]:
    """Products of each size, form, number of rows and level; the product in float32 has a weight of the same size."""
    for size in SIZES:
        for block, has_zeros in (USUAL, *(OTHERS if size in SIZES_OF_OTHERS else ())):
            yield from _products(size, block, has_zeros, rows)


def _products(size: int, block: int, has_zeros: bool, rows: Sequence[int]) -> Iterator[Case]:
    rng = np.random.default_rng(size)
    blocks = size // block
    numbers = rng.integers(0, 256, (size, blocks, block * BITS // 8)).astype(np.uint8)
    scales = rng.uniform(0.001, 0.01, (size, blocks)).astype(np.float32)
    zeros = rng.integers(0, 256, (size, blocks * BITS // 8)).astype(np.uint8)
    points = _unpacked(zeros) if has_zeros else np.full((size, blocks), 2 ** (BITS - 1))
    weight = ((_unpacked(numbers).astype(np.float32) - points[..., None]) * scales[..., None]).astype(np.float32)
    given = {"x": (onnx.TensorProto.FLOAT, ["rows", size])}
    multiply = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    real = model(multiply, given, {"w": weight.reshape(size, size).T}, onnx.TensorProto.FLOAT)
    stored = {"b": numbers, "s": scales, **({"z": zeros} if has_zeros else {})}
    for count in rows:
        x = {"x": rng.standard_normal((count, size)).astype(np.float32)}
        for level, error in LEVELS.items():
            sizes = {"K": size, "N": size, "bits": BITS, "block_size": block, "accuracy_level": level}
            node = helper.make_node("MatMulNBits", ["x", *stored], ["y"], domain="com.microsoft", **sizes)
            narrow = model([node], given, stored, onnx.TensorProto.FLOAT)
            is_usual = (block, has_zeros) == USUAL
            form = f"{size} {BITS} bits{'' if is_usual else f', block {block}'}{', zeros' if has_zeros else ''}"
            goal = GOAL if is_usual else GOAL_OF_OTHERS
            nbytes = sum(array.nbytes for array in stored.values())
            products = 0 if level else count * size * size  # at level 4 they are of bytes
            bounds = {"stored": nbytes, "products": products}
            yield Case(f"{form}, level {level}, rows {count}", narrow, real, x, x, error, goal, OWN_GOAL, **bounds)


def _unpacked(packed: np.ndarray) -> np.ndarray:
    """The numbers in the bytes of the last axis, the lowest bits first."""
    numbers: np.ndarray = packed[..., None] >> np.arange(0, 8, BITS, dtype=np.uint8) & (2**BITS - 1)
    return numbers.reshape(*packed.shape[:-1], -1)
